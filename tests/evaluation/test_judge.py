"""The three rules by which an answer is right: where they agree, and where they differ."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from drike.errors import UsageError
from drike.models.protocols import Completion, CustomModel, Request, Score, cut
from drike.prompts import Prompt
from drike.research.editors.editcot import ANSWER_CUE, EditCoT
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import (
    GENERATE,
    GREEDY,
    LIKELIHOOD,
    RULES,
    Judge,
    Question,
    Rule,
)
from drike.research.evaluation.metrics import summarise
from drike.research.report.tables import disagreement
from drike.research.training.algorithm1 import is_right, rewrite_reward
from tests.fakes.capitals import CAPITALS, follows_the_fact
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel

CASES = CAPITALS[:4]
CASE = CASES[0]


def writes(text: str) -> CustomModel:
    """A model that writes this text, to the letter, after every prompt, and scores accordingly."""

    def generate(
        prompts: Sequence[str], max_tokens: int, stop: str | None
    ) -> list[str | Completion]:
        return [cut(text, stop) for _ in prompts]

    def score(requests: Sequence[Request]) -> list[Score]:
        begun = [text.startswith(one.continuation) for one in requests]
        return [
            Score(
                (-0.1 if yes else -9.0,),
                yes,
                1.0 if yes else -1.0,
                text[len(one.continuation) :] if yes else None,
            )
            for one, yes in zip(requests, begun, strict=True)
        ]

    return CustomModel("literal", generate, score)


@pytest.mark.parametrize(
    ("text", "target", "greedy", "generate"),
    [
        (" New York", "New", True, True),
        (" Newark", "New", False, False),
        (" Old", "New", False, False),
        (" new", "New", False, True),  # case
        ("New", "New", False, True),  # glued to the query
        ("\n New", "New", False, True),  # a line break first
        (" the New", "New", False, True),  # an article
        (" 3.5 million", "3", True, False),  # where a number ends
    ],
)
def test_greedy_reads_the_exact_text_and_generate_the_normalised_one(
    text: str, target: str, greedy: bool, generate: bool
) -> None:
    question = [Question(Prompt("The capital of Peru is"), target, "Lima")]
    for rule, right in ((GREEDY, greedy), (GENERATE, generate)):
        assert Judge(writes(text), rule).ask(question)[0].correct is right
        assert Judge(writes(text), rule).ask(question, write=True)[0].correct is right, (
            "writing changes no verdict"
        )


def test_greedy_and_generate_agree_where_answers_are_plain_words() -> None:
    model, editors = ScriptedModel(follows_the_fact), (Unedited(), FactPrompt())
    by_scores, by_text = (
        [o for one in editors for o in evaluate(one, model, CASES, rule=rule)]
        for rule in (GREEDY, GENERATE)
    )
    assert [one.correct for one in by_scores] == [one.correct for one in by_text]
    assert {one.correct for one in by_scores} == {True, False}
    assert [one.prob_margin for one in by_scores] == [one.prob_margin for one in by_text], (
        "margins need no rule"
    )


def test_one_written_evaluation_holds_the_verdicts_of_all_rules() -> None:
    model = ScriptedModel(lambda prompt: follows_the_fact(prompt).casefold())
    outcomes = list(evaluate(FactPrompt(), model, CASES, write=True))
    for rule, verdict in ((GREEDY, "correct"), (GENERATE, "matched"), (LIKELIHOOD, "prefers")):
        judged = [one.correct for one in evaluate(FactPrompt(), model, CASES, rule=rule)]
        assert judged == [getattr(one, verdict) for one in outcomes]
    assert disagreement(outcomes).count(f"{sum(one.matched or False for one in outcomes)} of")


def test_likelihood_measures_nothing_without_a_distractor() -> None:
    alone = replace(CASE, probes=tuple(replace(probe, distractor=None) for probe in CASE.probes))
    mixed = replace(CASE, probes=(CASE.probes[0], *alone.probes[1:]))
    model = ScriptedModel(follows_the_fact)
    outcomes = list(evaluate(FactPrompt(), model, [mixed], rule=LIKELIHOOD))
    assert [one.correct for one in outcomes] == [True, *[None] * (len(outcomes) - 1)]
    measured = summarise(outcomes)
    assert (measured.esr.value, measured.pc.value, measured.rr.value, measured.s.value) == (
        1,
        None,
        None,
        None,
    )
    [verdict] = Judge(model, LIKELIHOOD).ask([Question(Prompt("It is"), "New")])
    with pytest.raises(
        UsageError, match="without a distractor, such as 'New': train by greedy or generate"
    ):
        is_right(verdict)


@pytest.mark.parametrize("rule", RULES.values())
@pytest.mark.parametrize(("concluded", "right"), [("New3", True), ("Old3", False)])
def test_editcot_is_right_iff_its_own_reasoning_leads_to_the_target(
    rule: Rule, concluded: str, right: bool
) -> None:
    def reasons(prompt: str) -> str:
        if not prompt.endswith(ANSWER_CUE):
            return f"The fact changed, hence {concluded}.\n{ANSWER_CUE} {concluded}."
        thought = re.search(r"hence (\w+)\.", prompt)
        return f"{thought[1]}." if thought else "nothing without a reason"

    [prompt] = EditCoT().prompts([CASES[3].edit], ["The capital of Land3 is"])
    [verdict] = Judge(ScriptedModel(reasons), rule).ask([Question(prompt, "New3", "Old3")])
    assert verdict.correct is right
    assert verdict.text is not None and verdict.text.strip() == f"{concluded}."


def test_a_reply_that_never_reaches_its_cue_is_wrong_though_the_cue_would_bring_the_answer() -> (
    None
):
    model = ScriptedModel(
        lambda prompt: "New3" if prompt.endswith(ANSWER_CUE) else "I wonder and wonder."
    )
    question = [
        Question(EditCoT().prompts([CASE.edit], ["The capital of Land3 is"])[0], "New3", "Old3")
    ]
    verdicts = [Judge(model, rule).ask(question)[0] for rule in RULES.values()]
    assert [one.correct for one in verdicts] == [False, False, True], (
        "likelihood asks for no answer"
    )


def test_a_rule_that_needs_scores_is_refused_before_a_model_without_them_is_asked() -> None:
    model = ScriptedModel(follows_the_fact, scores=False)
    for rule in (GREEDY, LIKELIHOOD):
        for refused in (
            lambda rule=rule: rewrite_reward(model, rule=rule),
            lambda rule=rule: list(evaluate(EditCoT(), model, CASES, rule=rule)),
        ):
            with pytest.raises(
                UsageError, match=f"rule {rule.name} needs log-probabilities.*: judge by generate"
            ):
                refused()
    assert not model.prompts
    assert (Judge(model).rule, Judge(ScriptedModel(follows_the_fact)).rule) == (GENERATE, GREEDY)


def test_a_rule_asks_for_no_more_than_it_needs() -> None:
    question = [Question(Prompt("It is"), "New")]
    model = ScriptedModel(lambda prompt: "New")
    assert Judge(model, GENERATE).ask(question)[0].score is None, (
        "nothing is scored for a reward by text"
    )
    assert Judge(model, GREEDY).ask(question)[0].text is None, (
        "nothing is written for one by scores"
    )
    assert model.calls == 2


def test_a_run_keeps_its_rule_and_its_evaluation_follows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained, plain = tmp_path / "trained", tmp_path / "plain"
    small = ("--model", "reader", "--encoder", "hashing", "--test", "3")
    options = ("--edits", "4", "--epochs", "1", "--judge", "likelihood", "--out", str(trained))
    assert run("train", *small, *options) == 0
    assert (
        run(
            "evaluate",
            "--run",
            str(trained),
            "--editors",
            "ike,editcot",
            "--out",
            str(tmp_path / "same"),
        )
        == 0
    )
    assert run("evaluate", *small, "--editors", "ike", "--out", str(plain)) == 0
    found = {
        one: json.loads((tmp_path / one / "run.json").read_text())["settings"]
        for one in ("trained", "same", "plain")
    }
    assert [one["judge"] for one in found.values()] == ["likelihood", "likelihood", "greedy"]
    table = (tmp_path / "same" / "table.md").read_text()
    assert "judged by likelihood" in table and LIKELIHOOD.meaning in table
    assert re.search(
        r"greedy and by generate on a sample of 3 edits: 0 of \d+ verdicts differ\.", table
    )
    capsys.readouterr()
    page = ("--out", str(tmp_path / "page.html"))
    assert run("report", str(tmp_path / "same"), str(plain), *page) == 1
    assert "differ in judge (likelihood; greedy)" in " ".join(capsys.readouterr().err.split())
