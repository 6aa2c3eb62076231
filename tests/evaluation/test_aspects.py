"""Aspects that S does not count: laws of their shares, several right answers, and tables that show them."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from drike.cli.dry_run import CountingModel, count_own_answers
from drike.cli.evaluate import baseline_sentence
from drike.editors.factprompt import FactPrompt
from drike.editors.unedited import Unedited
from drike.edits import Aspect, BaselineQuestion, EditCase, Probe
from drike.errors import RunError
from drike.evaluation.baseline_answers import baseline_answers, with_baseline_answers
from drike.evaluation.evaluate import evaluate
from drike.evaluation.judge import Judge, Question
from drike.evaluation.metrics import METRICS, Estimate, Summary, counted, paired_differences, summarise
from drike.models.served.options import ApiOptions
from drike.prompts import Prompt
from drike.report.tables import aspects, hops
from drike.runs.evaluating import answered_cases
from drike.runs.folder import append, outcomes_path, read_outcomes
from drike.runs.resume import recovered_outcomes
from drike.support.records import read
from tests.worlds.scripted import ScriptedModel
from tests.worlds.small import CAPITALS, old_object


def also_asked(case: EditCase) -> EditCase:
    """Make a case that also asks about another fact of the subject, and for one that follows from the edit."""
    edit, new = case.edit, case.edit.target_new
    stays = Probe(Aspect.SAME_SUBJECT, f"The river of {edit.subject} is", edit.target_true or "", edit.target_new)
    follows = Probe(Aspect.MULTI_HOP, f"{edit.subject} is ruled from", f"Fort {new}", None, (new,))
    return replace(case, further=(stays, follows))


CASES = tuple(map(also_asked, CAPITALS[:6]))


@pytest.mark.parametrize("scores", [True, False])
def test_always_answering_the_new_object_has_efficacy_1_and_same_subject_0_and_never_editing_the_reverse(
    scores: bool,
) -> None:
    new = {case.edit.subject or "": case.edit.target_new for case in CASES}
    always = ScriptedModel(lambda prompt: next(new[word] for word in prompt.split() if word in new), scores=scores)
    own = tuple(EditCase(c.case_id, c.edit, c.probes[:1], c.further) for c in CASES)
    found = summarise(list(evaluate(FactPrompt(), always, own)))
    never = summarise(list(evaluate(Unedited(), ScriptedModel(old_object, scores=scores), own)))
    for summary, efficacy, kept in ((found, 1.0, 0.0), (never, 0.0, 1.0)):
        assert summary.esr.value == summary.aspects[Aspect.REWRITE].estimate.value == efficacy
        assert summary.aspects[Aspect.SAME_SUBJECT].estimate.value == kept
        assert summary.aspects[Aspect.MULTI_HOP].estimate.value == efficacy, "an alias counts"


def test_further_aspects_leave_the_papers_metrics_and_their_intervals_as_they_are() -> None:
    model = ScriptedModel(old_object)
    whole = summarise(list(evaluate(FactPrompt(), model, CASES)))
    paper = summarise(list(evaluate(FactPrompt(), model, CAPITALS[:6])))
    assert [whole.metric(name) for name in METRICS] == [paper.metric(name) for name in METRICS]
    assert (whole.shots, whole.prompt_tokens, whole.calls) == (paper.shots, paper.prompt_tokens, paper.calls)


def test_a_share_counts_its_probes_and_edits_and_is_none_where_nothing_asks_it() -> None:
    outcomes = list(evaluate(FactPrompt(), ScriptedModel(old_object), CASES))
    outcomes = [one for one in outcomes if one.aspect != Aspect.MULTI_HOP or one.case_id == "3"]
    shares = summarise(outcomes).aspects
    assert list(shares) == [aspect.value for aspect in Aspect]
    assert (shares["neighborhood"].probes, shares["neighborhood"].edits) == (18, 6)
    assert (shares["multi_hop"].probes, shares["multi_hop"].edits) == (1, 1)
    assert (shares["alias"].estimate.value, shares["alias"].probes, shares["alias"].edits) == (None, 0, 0)


def test_differences_of_further_aspects_are_paired_and_need_the_same_aspects() -> None:
    old = counted(list(evaluate(FactPrompt(), ScriptedModel(old_object), CASES)))
    none = counted(list(evaluate(FactPrompt(), ScriptedModel(lambda prompt: "?"), CASES)))
    difference = paired_differences(old, none)
    assert (difference["same_subject"].value, difference["multi_hop"].value) == (1.0, 0.0)
    with pytest.raises(ValueError, match="the same aspects"):
        paired_differences(old, counted(list(evaluate(FactPrompt(), ScriptedModel(old_object), CAPITALS[:6]))))


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
    assert table.rows == (("FactPrompt", Estimate(1.0, 1.0, 1.0), Estimate(0.0, 0.0, 0.0)),)
    assert "same_subject 6 (6)" in table.notes[1]


def with_hops(case: EditCase) -> EditCase:
    """Make a case whose questions go through 2 and 3 facts, and one of which that is not known."""
    asked = ((2, case.edit.target_true or ""), (3, "Else"), (None, "Else"))
    found = (Probe(Aspect.MULTI_HOP, f"{case.edit.subject} in {n} hops", right, hops=n) for n, right in asked)
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
    assert shown is not None and shown.header == ("Editor", "2", "3") and "2 6 (6); 3 6 (6)" in shown.notes[1]
    assert hops([summarise([replace(one, hops=None) for one in outcomes])]) is None
    newer, older = counted(outcomes), counted([replace(one, hops=None) for one in outcomes])
    assert paired_differences(newer, older)["multi_hop"].value == 0.0, "older outcomes do not know their hops"


def test_outcomes_and_summaries_from_before_hops_are_read(tmp_path: Path) -> None:
    outcomes = list(evaluate(FactPrompt(), ScriptedModel(old_object), CASES))
    lines = [asdict(one) for one in outcomes]
    append(tmp_path / "older.jsonl", ({k: v for k, v in line.items() if k != "hops"} for line in lines))
    assert read_outcomes(tmp_path / "older.jsonl") == outcomes
    without = [{k: v for k, v in line.items() if k != "shots"} for line in lines]
    append(tmp_path / "damaged.jsonl", without)
    with pytest.raises(RunError, match="it lacks shots"):
        read_outcomes(tmp_path / "damaged.jsonl")
    summary = asdict(summarise(outcomes))
    assert not read(Summary, {name: one for name, one in summary.items() if name != "hops"}).hops


def unanswered(case: EditCase) -> EditCase:
    """Make a case that asks for the age of its subject, whose answer is published nowhere."""
    return replace(case, unanswered=(BaselineQuestion(Aspect.SAME_SUBJECT, f"How old is {case.edit.subject}?"),))


def ages(prompt: str) -> str:
    """Answer with an age; not at all for Land1, and with the new object for Land2."""
    question = prompt.splitlines()[-1]
    if not question.startswith("How old"):
        return old_object(question)
    return {"Land1?": " ", "Land2?": "New2 is its age"}.get(question.split()[-1], "12 years, as far as it is known")


@pytest.mark.parametrize("scores", [True, False])
def test_an_unanswered_question_is_right_where_the_unedited_model_stays_with_its_own_answer(scores: bool) -> None:
    model, cases = ScriptedModel(ages, scores=scores), [*map(unanswered, CAPITALS[:4])]
    answers = baseline_answers(model, [*cases, *cases])
    assert len(model.prompts) == 4 + 6 * scores, (
        "each question is asked once; answers are scored with and without the last word"
    )
    found = with_baseline_answers(cases, answers)
    assert (found.asked, found.unusable, found.new) == (4, 1, 1)
    assert [[(p.target, p.distractor) for p in one.further] for one in found.cases] == [
        [("12 years", "New0")], [], [], [("12 years", "New3")],
    ]  # fmt: skip
    assert not any(one.unanswered for one in found.cases)
    never = summarise(list(evaluate(Unedited(), model, found.cases)))
    always = summarise(list(evaluate(Unedited(), ScriptedModel(lambda prompt: "New0"), found.cases)))
    assert [one.aspects["same_subject"].estimate.value for one in (never, always)] == [1.0, 0.0]
    assert not baseline_answers(model, CAPITALS[:4])


@pytest.mark.parametrize("template", ["plain", "chat"])
def test_a_dry_run_counts_what_the_unedited_model_is_asked_and_no_more_is(template: str) -> None:
    cases = [*map(unanswered, CAPITALS[:4])]
    known = BaselineQuestion(Aspect.MULTI_HOP, "How old is Land3?", ("12 years",), "80 years")
    cases[3] = replace(cases[3], unanswered=(known,))
    counting = CountingModel("vllm:m@http://127.0.0.1:9/v1", template, ApiOptions())
    found = count_own_answers(counting, cases, Judge(counting).rule)
    assert (found.asked, found.unusable, found.new, counting.calls) == (4, 0, 0, 4 if template == "chat" else 12)
    model = ScriptedModel(ages, scores=template == "plain")
    resolved = with_baseline_answers(cases, baseline_answers(model, cases))
    for one, asked in ((counting, found.cases), (model, resolved.cases)):
        list(evaluate(FactPrompt(), one, asked))
    assert len({*model.prompts}) <= len(model.prompts) <= counting.calls


def test_an_answer_that_would_be_wrong_of_the_unedited_model_itself_is_not_used() -> None:
    cases = [*map(unanswered, CAPITALS[:4])]
    inconsistent = ScriptedModel(lambda prompt: "12 years")
    inconsistent.generate = ScriptedModel(lambda prompt: "12 ye").generate  # type: ignore[method-assign]
    assert set(baseline_answers(inconsistent, cases).values()) == {"12"}, "the last word was cut off"
    inconsistent.generate = ScriptedModel(lambda prompt: "twelve").generate  # type: ignore[method-assign]
    assert set(baseline_answers(inconsistent, cases).values()) == {""}
    assert with_baseline_answers(cases, baseline_answers(inconsistent, cases)).unusable == 4


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Paris.", "Paris"),
        (" Paris, the capital of France", "Paris"),
        ("3.5 km\nNext", "3.5 km"),
        ("a long answer without a full stop", "a long answer without a full stop"),
        ("New York City", "New York City"),
        ("", ""),
    ],
)
def test_the_models_own_answer_is_kept_to_the_end_of_its_first_clause(text: str, kept: str) -> None:
    case = EditCase("1", CAPITALS[1].edit, CAPITALS[1].probes, (), (BaselineQuestion(Aspect.SAME_SUBJECT, "q?"),))
    answers = baseline_answers(ScriptedModel(lambda prompt: text), [case])
    assert answers == {"q?": kept}


def test_own_answers_are_recorded_and_asked_for_once_per_run(
    tmp_path: Path,
) -> None:
    model, cases = ScriptedModel(ages), [*map(unanswered, CAPITALS[:4])]
    first = answered_cases(tmp_path, model, cases)
    assert first is not None and "4 questions were put to the unedited model first" in baseline_sentence(first)
    assert answered_cases(tmp_path, ScriptedModel(lambda prompt: "else"), cases) == first
    assert answered_cases(tmp_path / "other", model, CAPITALS[:4]) is None
