"""Why a prompt holds the retains it does."""

from __future__ import annotations

import pytest

from drike.encoders import HashingEncoder
from drike.prompts import PromptStyle
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.columns import EditorColumn, column_of
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from tests.fakes.capitals import CAPITALS

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[10:], ENCODER)
IKE = InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike"))
DR_IKE = InContextEditor("DR-IKE", POOL, RankAndCut(Retriever(ENCODER), Threshold(0.0625)))
EDIT = CAPITALS[3].edit


def explained(editor: InContextEditor[RankAndCut]) -> EditorColumn:
    queries = [EDIT.query]
    selection = editor.fit(editor.select([EDIT], queries)[0], queries)
    return column_of(editor, selection, editor.show(selection, queries)[0])


def test_a_retain_is_kept_only_if_its_probability_exceeds_sigma() -> None:
    column = explained(DR_IKE)
    assert column.sigma == 0.0625 and 0 < sum(retain.kept for retain in column.retains) < len(
        column.retains
    )
    assert all(retain.kept == (retain.probability > column.sigma) for retain in column.retains)
    assert sorted(retain.nearness for retain in column.retains) == sorted(
        retain.rank for retain in column.retains
    )
    assert column.prompt.shots == sum(retain.kept for retain in column.retains)


@pytest.mark.parametrize("editor", [IKE, DR_IKE], ids=lambda editor: editor.name)
def test_prompt_blocks_add_up_to_the_prompt_and_carry_their_roles(
    editor: InContextEditor[RankAndCut],
) -> None:
    prompt = explained(editor).prompt
    assert "\n\n".join(text for _, text in prompt.blocks) == prompt.text
    roles = [demonstration.role.value for demonstration in prompt.demonstrations]
    assert [role for role, _ in prompt.blocks] == [*roles, "edit", "edit"]


def test_pruned_retains_are_said_to_be_pruned_and_are_not_shown() -> None:
    limit = TokenLimit(330, lambda prompts: [len(prompt.split()) for prompt in prompts])
    column = explained(
        InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), limit=limit)
    )
    kept = sum(retain.kept for retain in column.retains)
    assert 0 < kept < len(column.retains) == kept + column.prompt.pruned
    assert len(column.prompt.text.split()) <= 330
    assert [row[1] for row in column.table().rows] == ["kept"] * kept + [
        "pruned"
    ] * column.prompt.pruned
