"""Aspects that S does not count: their shares, several right answers, and their tables."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from drike.edits.edit import Aspect, EditCase, Probe
from drike.errors import RunError
from drike.prompts import Prompt
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import Judge, Question
from drike.research.evaluation.metrics import (
    METRICS,
    Summary,
    counted,
    paired_differences,
    summarise,
)
from drike.research.report.tables import aspects, hops
from drike.research.runs.evaluation_run import recovered_outcomes
from drike.research.runs.files import append, outcomes_path, read_outcomes
from drike.support.records import read
from drike.support.table import Estimate
from tests.fakes.capitals import CAPITALS, old_object
from tests.fakes.models import ScriptedModel


def also_asked(case: EditCase) -> EditCase:
    """A case that also asks about another fact of its subject, and for one that follows."""
    edit, new = case.edit, case.edit.target_new
    stays = Probe(
        Aspect.SAME_SUBJECT,
        f"The river of {edit.subject} is",
        edit.target_true or "",
        edit.target_new,
    )
    follows = Probe(Aspect.MULTI_HOP, f"{edit.subject} is ruled from", f"Fort {new}", None, (new,))
    return replace(case, further=(stays, follows))


CASES = tuple(map(also_asked, CAPITALS[:6]))


@pytest.mark.parametrize("scores", [True, False])
def test_always_answering_the_new_object_edits_all_and_keeps_nothing_and_never_the_reverse(
    scores: bool,
) -> None:
    new_by_subject = {case.edit.subject or "": case.edit.target_new for case in CASES}

    def new_object(prompt: str) -> str:
        return next(new_by_subject[word] for word in prompt.split() if word in new_by_subject)

    cases = [EditCase(case.case_id, case.edit, case.probes[:1], case.further) for case in CASES]
    always_new = ScriptedModel(new_object, scores=scores)
    never_new = ScriptedModel(old_object, scores=scores)
    always = summarise(list(evaluate(FactPrompt(), always_new, cases)))
    never = summarise(list(evaluate(Unedited(), never_new, cases)))
    for summary, efficacy, kept in ((always, 1.0, 0.0), (never, 0.0, 1.0)):
        assert summary.esr.value == summary.aspects[Aspect.REWRITE].estimate.value == efficacy
        assert summary.aspects[Aspect.SAME_SUBJECT].estimate.value == kept
        assert summary.aspects[Aspect.MULTI_HOP].estimate.value == efficacy, "an alias counts"


def test_further_aspects_leave_the_papers_metrics_and_their_intervals_as_they_are() -> None:
    model = ScriptedModel(old_object)
    whole = summarise(list(evaluate(FactPrompt(), model, CASES)))
    paper = summarise(list(evaluate(FactPrompt(), model, CAPITALS[:6])))
    assert [whole.metric(name) for name in METRICS] == [paper.metric(name) for name in METRICS]
    assert (whole.shots, whole.prompt_tokens, whole.calls) == (
        paper.shots,
        paper.prompt_tokens,
        paper.calls,
    )


def test_a_share_counts_its_probes_and_edits_and_is_none_where_nothing_asks_it() -> None:
    outcomes = list(evaluate(FactPrompt(), ScriptedModel(old_object), CASES))
    outcomes = [one for one in outcomes if one.aspect != Aspect.MULTI_HOP or one.case_id == "3"]
    shares = summarise(outcomes).aspects
    assert list(shares) == [aspect.value for aspect in Aspect]
    assert (shares["neighborhood"].probes, shares["neighborhood"].edits) == (18, 6)
    assert (shares["multi_hop"].probes, shares["multi_hop"].edits) == (1, 1)
    assert (shares["alias"].estimate.value, shares["alias"].probes, shares["alias"].edits) == (
        None,
        0,
        0,
    )


def test_differences_of_further_aspects_are_paired_and_need_the_same_aspects() -> None:
    old = counted(list(evaluate(FactPrompt(), ScriptedModel(old_object), CASES)))
    none = counted(list(evaluate(FactPrompt(), ScriptedModel(lambda prompt: "?"), CASES)))
    difference = paired_differences(old, none)
    assert (difference["same_subject"].value, difference["multi_hop"].value) == (1.0, 0.0)
    with pytest.raises(ValueError, match="the same aspects"):
        paired_differences(
            old, counted(list(evaluate(FactPrompt(), ScriptedModel(old_object), CAPITALS[:6])))
        )


@pytest.mark.parametrize(("scores", "asked"), [(True, 4), (False, 2)])
def test_any_right_answer_counts_and_the_text_is_asked_for_once(scores: bool, asked: int) -> None:
    model = ScriptedModel(lambda prompt: "Big Apple", scores=scores)
    questions = [
        Question(Prompt("The largest city is"), "New York", None, ("Big Apple", "Gotham")),
        Question(Prompt("The largest city is not"), "New York"),
    ]
    assert [one.correct for one in Judge(model).ask(questions)] == [True, False]
    assert len(model.prompts) == asked


def test_probes_of_s_and_further_probes_are_kept_apart() -> None:
    case = CASES[0]
    for wrong, right in (({"probes": case.asked}, "further"), ({"further": case.probes}, "probes")):
        with pytest.raises(ValueError, match=f"probes into `{right}`"):
            replace(case, **wrong)


def test_a_stopped_evaluation_is_continued_behind_its_last_whole_case(tmp_path: Path) -> None:
    outcomes = list(evaluate(FactPrompt(), ScriptedModel(old_object), CASES))
    whole = 2 * len(CASES[0].asked)
    append(outcomes_path(tmp_path, "FactPrompt"), map(asdict, outcomes[: whole + 6]))
    assert recovered_outcomes(tmp_path, "FactPrompt", CASES) == outcomes[:whole]


def test_the_table_of_aspects_appears_only_where_one_is_asked() -> None:
    model = ScriptedModel(old_object)
    assert aspects([summarise(list(evaluate(FactPrompt(), model, CAPITALS[:6])))]) is None
    table = aspects([summarise(list(evaluate(FactPrompt(), model, CASES)))])
    assert table is not None and table.header == ("Editor", "same_subject", "multi_hop")
    others = 1 - 0.025 ** (1 / len(CASES))
    assert table.rows == (
        ("FactPrompt", Estimate(1.0, 1 - others, 1.0), Estimate(0.0, 0.0, others)),
    )
    assert "same_subject 6 (6)" in table.notes[1]


def with_hops(case: EditCase) -> EditCase:
    """Make a case whose questions go through 2 and 3 facts, and one of which that is not known."""
    asked = ((2, case.edit.target_true or ""), (3, "Else"), (None, "Else"))
    found = (
        Probe(Aspect.MULTI_HOP, f"{case.edit.subject} in {n} hops", right, hops=n)
        for n, right in asked
    )
    return replace(case, further=tuple(found))


def test_multi_hop_questions_are_counted_by_their_hops_beside_the_aspect() -> None:
    cases = [*map(with_hops, CAPITALS[:6])]
    outcomes = list(evaluate(FactPrompt(), ScriptedModel(old_object), cases))
    summary = summarise(outcomes)
    assert {n: (one.estimate.value, one.probes, one.edits) for n, one in summary.hops.items()} == {
        "2": (1.0, 6, 6), "3": (0.0, 6, 6),
    }  # fmt: skip
    assert summary.aspects["multi_hop"].probes == 18
    shown = hops([summary])
    assert (
        shown is not None
        and shown.header == ("Editor", "2", "3")
        and "2 6 (6); 3 6 (6)" in shown.notes[1]
    )
    assert hops([summarise([replace(one, hops=None) for one in outcomes])]) is None
    newer, older = counted(outcomes), counted([replace(one, hops=None) for one in outcomes])
    assert paired_differences(newer, older)["multi_hop"].value == 0.0, (
        "older outcomes do not know their hops"
    )


def test_outcomes_and_summaries_from_before_hops_are_read(tmp_path: Path) -> None:
    outcomes = list(evaluate(FactPrompt(), ScriptedModel(old_object), CASES))
    lines = [asdict(one) for one in outcomes]
    append(
        tmp_path / "older.jsonl", ({k: v for k, v in line.items() if k != "hops"} for line in lines)
    )
    assert read_outcomes(tmp_path / "older.jsonl") == outcomes
    without = [{k: v for k, v in line.items() if k != "shots"} for line in lines]
    append(tmp_path / "damaged.jsonl", without)
    with pytest.raises(RunError, match="it lacks shots"):
        read_outcomes(tmp_path / "damaged.jsonl")
    summary = asdict(summarise(outcomes))
    assert not read(Summary, {name: one for name, one in summary.items() if name != "hops"}).hops
