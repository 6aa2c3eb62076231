"""Laws of thoughts: what a model writes before its answer is no part of it, however it is marked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.lib import recorded
from drike.answers.matching import equals, first_line, matches
from drike.answers.statements import Stated, stated
from drike.answers.thoughts import without_thoughts
from drike.research.evaluation.judge import GENERATE, Verdict
from tests.fakes.stores import PERU

NAMES = (
    "think",
    "thinking",
    "THINK",
    "thought",
    "thoughts",
    "reasoning",
    "seed:think",
    "scratchpad",
)
MARKS = [
    *((f"<{name}>", f"</{name}>") for name in NAMES),
    ('<think duration="3">', "</think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"),
]


@pytest.mark.parametrize(("begin", "end"), MARKS)
@pytest.mark.parametrize("thoughts", ["", "\n\n", "Lima?\nNo, not Lima."])
def test_every_judge_reads_the_answer_behind_thoughts(begin: str, end: str, thoughts: str) -> None:
    for written in (f"{begin}{thoughts}{end}\n\nOslo", f"\n{thoughts}{end}Oslo"):
        assert first_line(written) == "Oslo" and equals(written, "Oslo")
        assert stated(written, ["Oslo"], ["Lima"]) is Stated.NEW


@pytest.mark.parametrize(("begin", "end"), MARKS)
def test_research_and_live_traffic_read_the_answer_behind_thoughts_too(
    begin: str, end: str
) -> None:
    written = f"{begin}It may be Lima.{end}\nOslo"
    verdict = Verdict(GENERATE, ("Oslo",), written, None, None, None)
    assert verdict.matched and verdict.exact and verdict.correct
    assert not replace(verdict, targets=("Lima", "It may be Lima")).matched
    assert PERU.states(written) is Stated.NEW
    assert recorded.states(written, "Oslo") and not recorded.states(written, "Lima")


@pytest.mark.parametrize(("begin", "end"), MARKS)
def test_thoughts_that_do_not_end_hold_no_answer(begin: str, end: str) -> None:
    assert without_thoughts(f"{begin}Oslo\nIt is Oslo") == ""
    assert not matches(f"{begin}\nOslo", "Oslo")
    assert stated(f"{begin}Surely Lima", ["Oslo"], ["Lima"]) is Stated.NEITHER


@pytest.mark.parametrize(
    "text", ["", "Oslo", "a < b > c", "I think Oslo", "<b>Oslo</b>", "\n Oslo\n"]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_thoughts(text) == text
