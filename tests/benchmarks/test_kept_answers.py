"""Answers that benchmarks keep: as evaluation would find them, and never asked twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.lib.kept_answers import (
    AnswerFile,
    Asked,
    Kept,
    KeptEdit,
    ask_edits,
    path_of,
    read_kept,
)
from benchmarks.lib.real_rows import OTHER, Material, Probes, best_by_kind, rows_of, rows_of_rules
from drike import load_model
from drike.edits.edit import EditCase
from drike.encoders import HashingEncoder
from drike.errors import UsageError
from drike.research import datasets
from drike.research.datasets.dataset import Split
from drike.research.editors import catalog
from drike.research.editors.editor import Editor
from drike.research.editors.ike import ike
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import policy_mixes
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import GREEDY, Judge
from drike.research.evaluation.unedited_answers import unedited_answers

MODEL = load_model("reader")
SPLIT = datasets.load("tinyfacts").split(seed=0, train=6, test=4)
POOL = Pool(SPLIT.demonstrations, HashingEncoder())
MIXES = policy_mixes(POOL.roles)
CHOICES: dict[str, Editor] = {
    "unedited": Unedited(),
    **{
        f"{mix.copies}+{mix.updates}+{mix.retains} {mix.fact}": InContextEditor("", POOL, mix)
        for mix in MIXES
    },
    "IKE": ike(POOL),
}
ASKED = Asked("reader", "tinyfacts", "", 0, tuple(CHOICES), ("DR-IKE", "Rank-50%", "Rank-All"), 1)


def answered(cases: Sequence[EditCase]) -> list[KeptEdit]:
    own = {(answer.query, answer.target): answer for answer in unedited_answers(MODEL, cases)}
    return ask_edits(Judge(MODEL, GREEDY), list(CHOICES.values()), cases, own)


def kept_of(cases: Iterable[EditCase]) -> Kept:
    kept = Kept()
    kept.add({"kind": "asked", **asdict(ASKED)})
    for edit in answered(list(cases)):
        kept.add({"kind": "edit", **asdict(edit)})
    return kept


KEPT = kept_of((*SPLIT.test, *SPLIT.train))


@pytest.mark.parametrize(("name", "row"), [("ike", "IKE"), ("by-name-or-alone", "by name: copies"),
                                           ("factprompt", "FactPrompt")])  # fmt: skip
def test_an_editor_read_off_kept_answers_is_what_its_evaluation_finds(name: str, row: str) -> None:
    material = Material((SPLIT,), KEPT, HashingEncoder(), MIXES)
    rows = rows_of_rules(material, price=0.05)
    [found] = [r for r in rows if r.name.startswith(row) and not r.name.endswith("retains")]
    editor = catalog.make(name, pool=POOL)
    unedited = unedited_answers(MODEL, SPLIT.test)
    outcomes = list(evaluate(editor, MODEL, SPLIT.test, unedited=unedited))
    expected = [
        bool(outcome.correct) + 2 * bool(outcome.prefers) + 4 * bool(outcome.unchanged)
        for outcome in outcomes
    ]
    assert found.flags.tolist() == expected


def test_a_stopped_process_loses_only_the_line_that_it_was_writing(tmp_path: Path) -> None:
    path = path_of(tmp_path, "some/folder/smollm2", 1)
    file = AnswerFile(path)
    file.write("asked", asdict(ASKED))
    edits = answered(SPLIT.test)
    file.write_edits(edits)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    kept = read_kept(tmp_path, "smollm2")
    assert list(kept.edits.values()) == edits[:-1]
    AnswerFile(path).write_edits(edits[-1:])
    assert path.read_bytes() == whole
    again = read_kept(tmp_path, "smollm2").unedited(SPLIT.test)
    assert list(again.values()) == unedited_answers(MODEL, SPLIT.test)


def test_answers_to_something_else_are_refused(tmp_path: Path) -> None:
    AnswerFile(path_of(tmp_path, "reader", 1)).write("asked", asdict(ASKED))
    other = {**asdict(ASKED), "epochs": 2}
    with pytest.raises(UsageError, match="name another one"):
        read_kept(tmp_path, "reader").add({"kind": "asked", **other})


def test_tables_are_made_of_what_was_asked_so_far() -> None:
    """A machine may be taken away at any moment, and what came until then must not be lost."""
    only_tests = Material((SPLIT,), kept_of(SPLIT.test[:2]), HashingEncoder(), MIXES)
    rows = rows_of(only_tests, price=0.05)
    assert "IKE" in rows and "DR-IKE" not in rows and "DR-IKE-Q" not in rows
    assert len(rows["IKE"].flags) == sum(len(case.asked) for case in SPLIT.test[:2])


def test_the_mixes_chosen_by_kind_are_the_best_ones_together() -> None:
    def of(split: Split) -> Probes:
        return Material((split,), KEPT, HashingEncoder(), MIXES).train(0)

    probes = of(SPLIT)
    chosen = best_by_kind(probes, price=0.0)
    others = probes.kinds == OTHER
    kept_by_alone = (probes.flags[0] & 4 > 0)[others]
    kept_by_chosen = (probes.flags[chosen[2]] & 4 > 0)[others]
    assert np.mean(kept_by_chosen) == np.mean(kept_by_alone) == 1.0
