"""Probes generated for any data set, and TinyFacts' own: laws of their scores, and when they are asked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from benchmarks.lib.challenges import challenged_often
from drike.edits.edit import Aspect, Edit, EditCase, Probe, rewrite_probe
from drike.models.protocols import CustomModel, LanguageModel
from drike.research.datasets import load
from drike.research.datasets.generated import (
    ASIDES,
    CHALLENGES,
    GENERATED,
    choice,
    with_generated,
    yes_no,
)
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.baseline_questions import baseline_answers, with_baseline_answers
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import GENERATE, GREEDY, Rule
from drike.research.evaluation.metrics import summarise
from drike.research.report.reported_runs import read_run
from drike.support.files import with_checksum
from drike.tinyfacts import KINDS, TEMPLATES, facts
from tests.fakes.capitals import CAPITALS, follows_the_fact, old_object
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel
from tests.fakes.servers import Handler, chat_answer, connect, serve
from tools.tinyfacts.check import two_hops

ADDED = (Aspect.YES_NO, Aspect.CHOICE, Aspect.PUSHBACK, Aspect.DISTRACTOR)
CASES = with_generated(CAPITALS[:8])


@cache
def tiny() -> tuple[EditCase, ...]:
    return load("tinyfacts").cases


def shares(
    model: LanguageModel, rule: Rule | None = None, cases: tuple[EditCase, ...] = CASES
) -> dict[str, float]:
    """The share of right answers of each aspect, with the edit in the prompt."""
    found = summarise(list(evaluate(FactPrompt(), model, cases, rule=rule)), resamples=10)
    return {
        name: share.estimate.value
        for name, share in found.aspects.items()
        if share.estimate.value is not None
    }


def new_object(prompt: str) -> str:
    """The new object of the fact in the prompt."""
    return prompt.splitlines()[0].rstrip(".").split()[-1]


def one_of(model: str, rule: Callable[[str], str]) -> CustomModel | ScriptedModel:
    """A model by its kind: one that scores, or one that is given strings and writes."""
    if model == "scores":
        return ScriptedModel(rule)
    return CustomModel(
        "text", lambda prompts, most, stop: [f" {rule(prompt)}" for prompt in prompts]
    )


def test_tinyfacts_questions_need_the_old_object() -> None:
    unknown = Edit(
        TEMPLATES["P17"][0].format("New Nowhere"), "Peru", subject="New Nowhere", relation="P17"
    )
    case = EditCase("own", unknown, (rewrite_probe(unknown),))
    assert not with_generated([case])[0].baseline_questions


def test_the_same_seed_generates_the_same_probes_and_another_seed_others() -> None:
    assert with_generated(CAPITALS[:8]) == CASES
    assert with_generated(CAPITALS[4:8]) == CASES[4:], "whatever the other cases are"
    other = with_generated(CAPITALS[:8], seed=1)
    for aspect in (Aspect.CHOICE, Aspect.PUSHBACK, Aspect.DISTRACTOR):
        of_aspect = [
            [p for case in cases for p in case.further if p.aspect is aspect]
            for cases in (CASES, other)
        ]
        assert of_aspect[0] != of_aspect[1], f"{aspect} probes have seeded wordings or orders"
    assert [case.probes for case in other] == [case.probes for case in CAPITALS[:8]], (
        "the paper's stay as they are"
    )


def test_only_missing_aspects_are_generated() -> None:
    published = (
        yes_no("Is she from Oslo?", yes=True),
        choice("Where from?", "A. Oslo  B. Bonn", "A", "Oslo"),
    )
    [case] = with_generated([replace(CAPITALS[0], further=published)])
    assert case.further[:2] == published
    assert Counter(one.aspect for one in case.further) == {
        Aspect.YES_NO: 1, Aspect.CHOICE: 1, Aspect.PUSHBACK: 2, Aspect.DISTRACTOR: 3,
    }  # fmt: skip
    assert with_generated([case]) == (case,)


def test_a_longer_conversation_begins_with_the_generated_challenges_and_repeats_none() -> None:
    for case in with_generated(CAPITALS[:8], 3):
        once, thrice = (probe for probe in case.further if probe.aspect is Aspect.PUSHBACK)
        assert (challenged_often(case, 1, 3), challenged_often(case, 3, 3)) == (once, thrice)
        ten = challenged_often(case, 10, 3).challenges
        assert (
            len(set(ten)) == 10
            and ten[:3] == thrice.challenges
            and ten[:5] == challenged_often(case, 5, 3).challenges
        )
    assert len({challenged_often(case, 5, seed).challenges for seed in range(20)}) > 10


def test_without_an_old_object_or_neighbours_nothing_is_asked_about_them() -> None:
    edit = replace(CAPITALS[0].edit, target_true=None)
    [case] = with_generated([EditCase("0", edit, (rewrite_probe(edit),))])
    assert {one.aspect for one in case.further} == {Aspect.PUSHBACK}


def test_always_saying_yes_is_right_for_half_of_the_questions_and_the_first_option_for_a_third() -> (
    None
):
    many = with_generated(CAPITALS)
    always = [
        shares(ScriptedModel(lambda prompt, says=says: says), cases=many)
        for says in ("Yes", "No", "A", "C")
    ]
    assert [one["yes_no"] for one in always] == [0.5, 0.5, 0, 0]
    assert [one["choice"] for one in always] == [
        0,
        0,
        pytest.approx(1 / 3, abs=0.2),
        pytest.approx(1 / 3, abs=0.2),
    ]
    for case in many:
        right, wrong = (
            next(p for p in case.further if p.aspect is Aspect.YES_NO and p.target == y)
            for y in ("Yes", "No")
        )
        assert case.edit.target_new in right.query and case.edit.target_true in wrong.query  # type: ignore[operator]


@pytest.mark.parametrize("model", ["scores", "text"])
def test_an_editor_that_always_answers_the_new_object_fails_where_it_must_not_and_one_that_never_edits_the_reverse(
    model: str,
) -> None:
    def stays(case: EditCase) -> EditCase:
        probe = Probe(
            Aspect.SAME_SUBJECT, f"The river of {case.edit.subject} is", case.edit.target_true or ""
        )
        return replace(case, further=(*case.further, probe))

    cases = tuple(map(stays, CASES))
    always = shares(one_of(model, new_object), cases=cases)
    never = shares(one_of(model, lambda prompt: old_object(prompt.splitlines()[-1])), cases=cases)
    assert (always["rewrite"], always["pushback"], always["same_subject"], always["choice"]) == (
        1,
        1,
        0,
        1,
    )
    assert (never["rewrite"], never["pushback"], never["same_subject"], never["choice"]) == (
        0,
        0,
        1,
        0,
    )
    assert always["distractor"] == pytest.approx(2 / 3) and never["distractor"] == pytest.approx(
        1 / 3
    )


@pytest.mark.parametrize("rule", [GREEDY, GENERATE])
def test_a_model_that_gives_in_scores_0_on_pushback_and_a_steadfast_one_1(rule: Rule) -> None:
    def gives_in(prompt: str) -> str:
        doubted = any(doubt in prompt for doubt in CHALLENGES)
        return old_object(prompt.splitlines()[0]) if doubted else new_object(prompt)

    soft, firm = shares(ScriptedModel(gives_in), rule), shares(ScriptedModel(new_object), rule)
    assert (soft["rewrite"], soft["pushback"], firm["pushback"]) == (1, 0, 1)


def test_a_model_that_ignores_the_sentence_before_a_query_loses_nothing_and_one_that_repeats_it_all() -> (
    None
):
    aside = re.compile("|".join(re.escape(one).replace(r"\{\}", r"(\w+)") for one in ASIDES))

    def blind(prompt: str) -> str:
        fact, _, question = prompt.rpartition("\n")
        return follows_the_fact(f"{fact}\n{aside.sub('', question).split('. ')[-1]}")

    def misled(prompt: str) -> str:
        named = aside.search(prompt)
        return next(filter(None, named.groups())) if named else old_object(prompt.splitlines()[-1])

    assert shares(ScriptedModel(blind))["distractor"] == 1
    assert shares(ScriptedModel(misled))["distractor"] == 0


def test_behind_a_chat_api_the_doubts_are_turns_of_their_own() -> None:
    lengths: Counter[tuple[str, ...]] = Counter()

    def respond(handler: Handler, body: dict) -> None:
        messages = body["messages"]
        lengths[tuple(one["role"] for one in messages)] += 1
        handler.reply_json(
            chat_answer(
                "Old0" if len(messages) > 3 else new_object(messages[0]["content"].split("\n\n")[1])
            )
        )

    with serve(respond) as served:
        model = connect(served.named(), deadline=10.0)
        found = shares(model, cases=CASES[:2])
        model.close()
    assert found["pushback"] == 0.5, "it gives in at the second doubt"
    assert {(*roles[1::2], len(roles)) for roles in lengths} == {
        (1,), ("assistant", 3), ("assistant", "assistant", 5), ("assistant", "assistant", "assistant", 7),
    }  # fmt: skip


def test_tinyfacts_asks_about_its_own_subjects_in_other_relations_of_their_kind() -> None:
    stated = {(one.relation, one.subject): one.object for one in facts()}
    asked = {t.format(f.subject): r for f in facts() for r, ts in TEMPLATES.items() for t in ts}
    for case in with_generated(tiny()[:120]):
        edit, kind = case.edit, KINDS[case.edit.relation or ""]
        same = [
            one
            for one in (*case.further, *case.baseline_questions)
            if one.aspect is Aspect.SAME_SUBJECT
        ]
        assert 1 <= len(same) <= 2
        for one in same:
            relation = asked[one.query]
            assert KINDS[relation] == kind or (relation, edit.subject) in stated
            assert relation != edit.relation
            if isinstance(one, Probe):
                assert one.target == stated[relation, edit.subject or ""]
            else:
                assert edit.target_true not in one.choices


def test_tinyfacts_questions_are_made_for_its_facts_in_its_words_only() -> None:
    edit = tiny()[0].edit
    for other in (replace(edit, query=f"It is said that {edit.query}"), replace(edit, target_true="Oslo"),
                  replace(edit, subject=None), replace(edit, relation="P0")):  # fmt: skip
        [case] = with_generated([EditCase("0", other, (rewrite_probe(other),))])
        assert {one.aspect for one in case.further} <= {*ADDED} and not case.baseline_questions


def test_a_question_that_rests_on_a_fact_is_asked_only_if_the_unedited_model_knows_it() -> None:
    case = next(
        case
        for case in with_generated(tiny()[:120])
        if {one.aspect for one in case.baseline_questions} > {Aspect.ALIAS}
    )
    edit = case.edit
    [alias] = (one for one in case.baseline_questions if one.aspect is Aspect.ALIAS)
    assert alias.query == edit.query.replace(edit.subject or "", (edit.subject or "").split()[-1])
    for says, kept in ((edit.target_true, True), (edit.target_new, False), ("nothing", False)):
        model = ScriptedModel(lambda prompt, says=says: str(says))
        found = with_baseline_answers([case], baseline_answers(model, [case]))
        of_alias = [one for one in found.cases[0].further if one.aspect is Aspect.ALIAS]
        assert (
            of_alias == [Probe(Aspect.ALIAS, alias.query, edit.target_new, edit.target_true)] * kept
        )
        others = len([one for one in case.baseline_questions if one.aspect is Aspect.SAME_SUBJECT])
        assert found.asked == len(case.baseline_questions) and (
            found.unknown >= others + (not kept) or says == edit.target_new
        )


def test_two_hops_pass_through_the_edited_fact() -> None:
    objects = {(one.relation, one.subject): one.object for one in facts()}
    assert all(end in objects.values() for _, end in two_hops()) and len(two_hops()) > 200
    hops = [(case.edit, one) for case in with_generated(tiny()[:459]) for one in case.baseline_questions
            if one.aspect is Aspect.MULTI_HOP]  # fmt: skip
    assert len(hops) > 10
    for edit, one in hops:
        ends = (one.choices, one.target)
        onward = [
            ((objects.get((r, edit.target_true or "")),), objects.get((r, edit.target_new)))
            for r in TEMPLATES
        ]
        assert ends in onward or ends == ((edit.target_true,), edit.target_new)
        assert one.query[0].isupper() and " the " in f" {one.query.casefold()}"


def test_an_edit_is_asked_what_is_published_unless_all_probes_are_asked_for(tmp_path: Path) -> None:
    plain, full, page = tmp_path / "plain", tmp_path / "full", tmp_path / "page.html"
    small = ("--model", "reader", "--encoder", "hashing", "--test", "3", "--editors", "factprompt")
    assert run("evaluate", *small, "--out", str(plain)) == 0
    assert run("evaluate", *small, "--probes", "all", "--out", str(full)) == 0
    settings = [
        json.loads((one / "run.json").read_text())["settings"]["probes"] for one in (plain, full)
    ]
    tables = [(one / "table.md").read_text() for one in (plain, full)]
    assert settings == ["published", "all"]
    assert ["drike generates" in table and "pushback" in table for table in tables] == [False, True]
    rows = [re.search(r"\| FactPrompt \|.*", table) for table in tables]
    assert rows[0] and rows[1] and rows[0][0] == rows[1][0], "the paper's metrics are the same"
    assert run("report", str(full), "--out", str(page)) == 0
    record = json.loads((plain / "run.json").read_text())
    del record["settings"]["probes"], record["sha256"]
    (plain / "run.json").write_text(json.dumps(with_checksum(record)))
    assert read_run(plain).settings["probes"] == "published", "older versions did not say"
    assert GENERATED in page.read_text()


def test_a_short_name_is_asked_with_the_edit_and_judged_by_the_new_object() -> None:
    edit = Edit("The capital of Peru is", "Oslo", "Lima", "Peru", "capital")
    [case] = with_generated([EditCase("1", edit, (rewrite_probe(edit),))])
    never = summarise(list(evaluate(Unedited(), ScriptedModel(lambda prompt: "Lima"), [case])))
    assert never.aspects["pushback"].estimate.value == never.aspects["choice"].estimate.value == 0
