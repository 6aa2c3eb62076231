"""What the paper states and the code must reproduce."""

import random

import pytest

from drike.edits.edit import Edit
from drike.encoders import HashingEncoder
from drike.prompts import Demonstration, PromptStyle, Role
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.metrics import harmonic_mean
from drike.research.report.paper import TABLES
from tests.fakes.capitals import CAPITALS


@pytest.mark.parametrize("row", TABLES[0].rows, ids=lambda row: f"{row.model} {row.editor}")
def test_s_of_table_1_follows_from_its_esr_pc_rr(row) -> None:  # type: ignore[no-untyped-def]
    s = harmonic_mean([row.values[column] for column in ("ESR", "PC", "RR")])
    assert s == pytest.approx(row.values["S"], abs=0.0006)


def test_table_1_has_its_eight_rows() -> None:
    assert len({(row.model, row.editor) for row in TABLES[0].rows}) == 8


def published_layout(
    demonstrations: list[tuple[int, str, str, str, str]], edit: tuple[str, str], query: str
) -> str:
    """Write IKE's published layout independently of the code: types 0 copy, 1 update, 2 retain.

    Each line is (type, fact, its new object, query, its true object).
    """
    text = ""
    for kind, fact, new, asked, true in demonstrations:
        text += "New Fact: " + fact + " " + new + "\n"
        text += "Prompt: " + asked + " " + (true if kind == 2 else new) + "\n\n"
    fact, new = edit
    text += "New Fact: " + fact + " " + new + "\n" + "Prompt: " + fact + " " + new + "\n\n"
    return text + "New Fact: " + fact + " " + new + "\n" + "Prompt: " + query


def test_our_ike_prompt_equals_the_published_layout_exactly() -> None:
    rng = random.Random(3)
    kinds = [0] * 4 + [1] * 12 + [2] * 16
    rng.shuffle(kinds)
    published, ours = [], []
    for i, kind in enumerate(kinds):
        fact, new, true = f"The capital of land {i} is", f"New{i}", f"Old{i}"
        asked = {0: fact, 1: f"Land {i} is governed from", 2: f"The capital of realm {i} is"}[kind]
        published.append((kind, fact, new, asked, true))
        ours.append(
            Demonstration(
                list(Role)[kind], f"{fact} {new}", asked, true if kind == 2 else new, str(i)
            )
        )
    edit = Edit("The mother tongue of Ana is", "Finnish", "French", "Ana")
    [prompt] = PromptStyle().write([edit], ours, ["Ana grew up speaking"])
    expected = published_layout(published, (edit.query, edit.target_new), "Ana grew up speaking")
    assert prompt.text == expected
    assert prompt.shots == 16


def test_the_ike_editor_uses_the_published_layout() -> None:
    case = CAPITALS[5]
    editor = InContextEditor(
        "IKE",
        Pool(CAPITALS, HashingEncoder()),
        RankAndCut(Similarity(), Fraction(1.0)),
        PromptStyle("ike"),
    )
    dealt = editor.select([case.edit], ["?"])[0].candidates.demonstrations
    rows = [
        (
            list(Role).index(d.role),
            *d.fact.rsplit(" ", 1),
            d.query,
            d.answer,
        )  # a retain's answer is its true object
        for d in reversed(dealt)
    ]
    [prompt] = editor.prompts([case.edit], ["Land5 has the capital"])
    assert prompt.text == published_layout(
        rows, (case.edit.query, case.edit.target_new), "Land5 has the capital"
    )
