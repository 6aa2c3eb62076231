"""Laws of thoughts: what a model writes before its answer is no part of it, however it is marked."""

from __future__ import annotations

import time
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
    "longcat_think",
    "internal_reasoning",
    "reasoning_process",
    "think_block",
    "deliberation",
    "思考",
)
MARKS = [
    *((f"<{name}>", f"</{name}>") for name in NAMES),
    ('<think duration="3">', "</think>"),
    ("< think >", "< / think >"),
    ("&lt;think&gt;", "&lt;/think&gt;"),
    ("[THINK]", "[/THINK]"),
    ("[REASONING]", "[/REASONING]"),
    ("[thinking]", "[/thinking]"),
    ("【思考】", "【/思考】"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    ("<|think_start|>", "<|think_end|>"),
    ("<｜begin▁of▁thinking｜>", "<｜end▁of▁thinking｜>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|im_start|>think\n", "<|im_start|>answer\n"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"),
]
# Of these, only both together are marks.
PAIRS = [
    ("Here is my thought process:", "Here is my response:"),
    ("Here's my thought process:\n\n", "Here's my response:\n\n"),
    ("analysisWe are asked. ", "assistantfinal"),
    ("Thinking...\n", "...done thinking.\n"),
    ("```thinking\n", "\n```\n"),
    ('<details type="reasoning" done="true"><summary>Thought</summary>', "</details>"),
    ("<seed:think><seed:cot_budget_reflect>9</seed:cot_budget_reflect>", "</seed:think>"),
    ("<think><think>Lima</think>", "</think>"),
]


@pytest.mark.parametrize(("begin", "end"), MARKS)
@pytest.mark.parametrize("thoughts", ["", "\n\n", "Lima?\nNo, not Lima."])
def test_every_judge_reads_the_answer_behind_thoughts(begin: str, end: str, thoughts: str) -> None:
    for written in (f"{begin}{thoughts}{end}\n\nOslo", f"\n{thoughts}{end}Oslo"):
        assert first_line(written) == "Oslo" and equals(written, "Oslo")
        assert stated(written, ["Oslo"], ["Lima"]) is Stated.NEW


@pytest.mark.parametrize(("begin", "end"), MARKS + PAIRS)
def test_research_and_live_traffic_read_the_answer_behind_thoughts_too(
    begin: str, end: str
) -> None:
    written = f"{begin}It may be Lima.{end}\nOslo"
    verdict = Verdict(GENERATE, ("Oslo",), written, None, None, None)
    assert verdict.matched and verdict.exact and verdict.correct
    assert not replace(verdict, targets=("Lima", "It may be Lima")).matched
    assert PERU.states(written) is Stated.NEW
    assert recorded.states(written, "Oslo") and not recorded.states(written, "Lima")


@pytest.mark.parametrize(("begin", "end"), MARKS + PAIRS[:-2])
def test_thoughts_that_do_not_end_hold_no_answer(begin: str, end: str) -> None:
    assert without_thoughts(f"{begin}Oslo\nIt is Oslo") == ""
    assert not matches(f"{begin}\nOslo", "Oslo")
    assert stated(f"{begin}Surely Lima", ["Oslo"], ["Lima"]) is Stated.NEITHER


@pytest.mark.parametrize(
    "text",
    [
        *("", "Oslo", "a < b > c", "I think Oslo", "<b>Oslo</b>", "\n Oslo\n", "[1] Oslo"),
        *(
            "Thinking about it, Oslo",
            "analysis: Oslo",
            "Here is my response: Oslo",
            "<s>Lima</s> Oslo",
        ),
        *("Use <plan> for its name", "The final assistant"),
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_thoughts(text) == text


@pytest.mark.parametrize(
    "written",
    [
        "Oslo<|im_end|>\n<|im_start|>user\nAnd Peru?",
        "Oslo<|eot_id|>",
        "Oslo</s>",
        "Oslo<end_of_turn>\n",
        "Oslo<|endoftext|>Lima",
        "Oslo<｜end▁of▁sentence｜>",
        "<|assistant|>Oslo<|end|>",
        "<|im_start|>assistant\nOslo<|im_end|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\nOslo<|eot_id|>",
        "<start_of_turn>model\nOslo<end_of_turn>",
        "<s>[INST] Is it Lima? [/INST] Oslo</s>",
        "<s> Oslo</s>",
        "<bos>Oslo",
        "<pad><pad> Oslo",
        "```text\nOslo\n```",
        "<answer>Oslo</answer>",
        "<think>Lima</think><final>Oslo</final>",
        "<think>Lima</think><|begin_of_box|>Oslo<|end_of_box|>",
        "<think>Lima</think>$\\boxed{\\text{Oslo}}$",
        "\\boxed{Oslo}",
        "<|channel|>analysis<|message|>Lima<|end|>\nOslo",
    ],
)
def test_marks_around_an_answer_and_behind_it_are_no_part_of_it(written: str) -> None:
    assert equals(written, "Oslo")
    assert stated(written, ["Oslo"], ["Lima"]) is Stated.NEW


@pytest.mark.parametrize(
    "unit", ["<think>", "</think>", "<a-b_", "<|end|>", "<|im_end|>", "<details reasoning>", "[A_"]
)
def test_thoughts_are_found_in_time_linear_in_the_text(unit: str) -> None:
    began = time.process_time()
    without_thoughts((unit * 20_000)[:60_000])
    assert time.process_time() - began < 1
