"""The prompts of every editor, character for character."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import drike
from drike.research.editors.catalog import NAMES, make
from tests.golden.compare import DATA, digest, matches_golden

EDITS = 24
IN_FULL = 2  # edits whose prompts are kept as text, too; of one query
TOGETHER = 3  # edits in force at once


@cache
def split() -> drike.Split:
    return drike.load_dataset("tinyfacts").split(seed=0, train=20, test=EDITS)


@cache
def pool() -> drike.Pool:
    return drike.Pool(split().demonstrations, drike.load_encoder("hashing"))


@cache
def trained(name: str = "threshold") -> drike.Checkpoint:
    """An old checkpoint, with a policy per query of this version."""
    found = drike.load_checkpoint(DATA / "checkpoints" / f"{name}.safetensors")
    return replace(
        found, per_query=drike.QueryPolicy.untrained(found.retriever.encoder, pool().roles)
    )


def editor(name: str, **parts: object) -> drike.Editor:
    return make(name, pool=pool(), **{"trained": trained(), **parts})  # type: ignore[arg-type]


def listed(prompt: drike.Prompt) -> list[object]:
    """All that a prompt consists of."""
    roles = "".join(one.role.value[0] for one in prompt.demonstrations)
    return [
        prompt.text,
        list(prompt.earlier),
        prompt.cue,
        prompt.calls,
        prompt.pruned,
        prompt.shots,
        roles,
    ]


def asked(case: drike.EditCase) -> list[str]:
    """Of each aspect the first query of a case, and one about something else."""
    first = {probe.aspect: probe.query for probe in reversed(case.probes)}
    return [*first.values(), "The colour of the sky is"]


def written(editor: drike.Editor, groups: Sequence[Sequence[drike.EditCase]]) -> dict[str, object]:
    """For each group of edits in force a digest of its prompts; the first ones in full."""
    found: dict[str, object] = {"name": editor.name}
    for i, cases in enumerate(groups):
        prompts = editor.prompts([case.edit for case in cases], asked(cases[0]))
        ids = " ".join(case.case_id for case in cases)
        found[ids] = digest([listed(prompt) for prompt in prompts])
        if i < IN_FULL:
            found[f"{ids} in full"] = listed(prompts[0])
    return found


def alone() -> list[tuple[drike.EditCase, ...]]:
    return [(case,) for case in split().test]


def together() -> list[tuple[drike.EditCase, ...]]:
    cases = split().test
    return [tuple(cases[i : i + TOGETHER]) for i in range(0, len(cases), TOGETHER)]


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


EDITORS = (
    "unedited", "factprompt", "editcot", "ike", "by-name", "by-name-or-alone", "no-retains",
    "rank-all", "rank-50", "dr-ike", "dr-ike-q", "nearest-same-size", "nearest-same-k", "nearest@4",
)  # fmt: skip
STYLES = {
    " ".join(map(str, options)): options
    for options in product(("append", "ike"), (True, False), ("headed", "bare"),
                           (None, "policy", "similarity", "reversed", "shuffled"))
}  # fmt: skip


def test_every_editor_is_frozen() -> None:
    assert set(EDITORS) == {name.replace("@K", "@4") for name in NAMES}


def test_prompts_under_one_edit() -> None:
    matches_golden("prompts", {name: written(editor(name), alone()) for name in EDITORS})


def test_prompts_under_several_edits() -> None:
    matches_golden(
        "prompts_together", {name: written(editor(name), together()) for name in EDITORS}
    )


def test_prompts_within_a_token_limit() -> None:
    limit = drike.TokenLimit(260, words)
    names = [name for name in EDITORS if name not in ("unedited", "factprompt", "editcot")]
    found = {
        name: written(editor(name, limit=limit), [*alone()[:8], *together()[:2]]) for name in names
    }
    assert any(
        full[4]
        for of_editor in found.values()
        for full in of_editor.values()
        if isinstance(full, list)
    )
    matches_golden("prompts_limited", found)


def test_prompts_in_every_style() -> None:
    found = {}
    for name, (layout, own_copy, retain, order) in STYLES.items():
        style = drike.PromptStyle(layout, own_copy, retain, order, order_seed=5)
        made = editor("dr-ike", trained=replace(trained(), style=style))
        found[name] = digest([written(made, [*alone()[:4], *together()[:2]]), made.name])
    assert len(set(found.values())) > len(found) // 2
    matches_golden("prompts_styles", found)


def test_prompts_of_a_fixed_budget() -> None:
    names = ("rank-all", "rank-50", "dr-ike", "nearest-same-k")
    made = {name: editor(name, trained=trained("fraction")) for name in names}
    matches_golden(
        "prompts_fraction", {name: written(maker, alone()[:8]) for name, maker in made.items()}
    )


def test_a_conversation_that_goes_on() -> None:
    [prompt] = editor("factprompt").prompts([split().test[0].edit], [split().test[0].edit.query])
    longer = prompt.followed("Rome", "Are you sure?").followed("Yes", "Really?")
    matches_golden("prompts_turns", [listed(longer), list(longer.turns), longer.conversation])
