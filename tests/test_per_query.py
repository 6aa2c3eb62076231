"""The policy that decides for each query: laws of cuts, of training on S, and of the editor."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from drike.demonstrations import Role
from drike.editors.ike import IKE
from drike.editors.per_query import PerQuery
from drike.edits import Aspect, EditCase, mentions
from drike.encoders import HashingEncoder
from drike.errors import UsageError
from drike.evaluation import evaluate
from drike.metrics import summarise
from drike.retrieval.budget import Fraction, TokenLimit
from drike.retrieval.cuts import ByName, Cut, cuts_of
from drike.retrieval.pool import IKE_ROLES, Pool
from drike.retrieval.query_policy import QueryPolicy
from drike.retrieval.retriever import Similarity
from drike.training.answers import CaseAnswers, answers_under
from drike.training.balanced import train_balanced
from scripted import ScriptedModel
from worlds import CAPITALS, follows_the_fact, old_object

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[30:], ENCODER)
TRAIN, TEST = CAPITALS[:20], CAPITALS[20:30]
CUTS = cuts_of(POOL.roles)


def suggestible(prompt: str) -> str:
    """Answer every question with the new object, unless at least four demonstrations keep their old one."""
    *shown, question = prompt.splitlines()
    kept = sum(line.startswith("Prompt: ") and line.split()[-1].startswith("Old") for line in shown)
    return old_object(question) if kept >= 4 else shown[-1].split()[-1]


MODEL = ScriptedModel(suggestible)


def trained(*, price: float = 0.05, cases: tuple[EditCase, ...] = TRAIN, named: bool = True) -> QueryPolicy:
    policy = QueryPolicy(ENCODER, CUTS, named=named)
    answers = list(answers_under(CUTS, MODEL, POOL, cases))
    *_, _ = train_balanced(policy, cases, answers, price=price)
    return policy


def test_cuts_cover_nothing_everything_and_each_role() -> None:
    assert len(CUTS) == 18
    assert (CUTS[0], CUTS[-1]) == (Cut(0, 0, 0), Cut(4, 12, 16))
    assert [cut.size for cut in CUTS] == sorted(cut.size for cut in CUTS)
    assert {Cut(4, 12, 0), Cut(0, 0, 16), Cut(4, 0, 8)} <= {*CUTS}
    few = cuts_of([Role.COPY, Role.RETAIN, Role.RETAIN, Role.RETAIN])
    assert {(cut.copies, cut.retains) for cut in few} == {(c, r) for c in (0, 1) for r in (0, 1, 2, 3)}
    with pytest.raises(ValueError, match="whole numbers"):
        Cut(-1, 0, 0)


def test_a_cut_shows_the_nearest_of_each_role_and_all_of_them_is_what_ike_shows() -> None:
    [candidates] = POOL.candidates([TEST[0].edit])
    for cut in CUTS:
        shown = cut.shown(candidates)
        assert len(shown) == cut.size
        assert list(shown) == sorted(shown, key=lambda d: [Role.COPY, Role.UPDATE, Role.RETAIN].index(d.role))
        for role, _ in IKE_ROLES:
            of_role = [d for d in shown if d.role is role]
            assert of_role == [d for d in candidates.demonstrations if d.role is role][: len(of_role)]
    everything = PerQuery("all", POOL, ByName(CUTS[-1], CUTS[-1]))
    queries = [probe.query for probe in TEST[0].probes]
    nearest = IKE("nearest", POOL, Similarity(), Fraction(1.0))
    assert everything.prompts(TEST[0].edit, queries) == nearest.prompts(TEST[0].edit, queries)


def test_training_on_s_finds_the_cut_that_each_kind_of_query_needs() -> None:
    editor = PerQuery("DR-IKE-Q", POOL, trained())
    ours = summarise(list(evaluate(editor, MODEL, TEST)))
    fixed = [
        summarise(list(evaluate(PerQuery("fixed", POOL, ByName(cut, cut)), MODEL, TEST))).s.value or 0.0 for cut in CUTS
    ]
    assert ours.s.value == 1.0 > max(fixed)
    assert trained().trained_on == {case.edit.key for case in TRAIN}


def test_no_more_is_shown_than_is_needed() -> None:
    policy = trained()
    chosen = {p.aspect: cut for c in TEST for p in c.probes for cut in policy.choose(c.edit, [p.query])}
    none, four = Cut(0, 0, 0), Cut(0, 0, 4)
    assert chosen == {Aspect.REWRITE: none, Aspect.PARAPHRASE: none, Aspect.NEIGHBORHOOD: four}


def test_expected_s_rises_and_its_gradient_favours_the_weaker_aspect() -> None:
    policy = QueryPolicy(ENCODER, CUTS, named=True)
    answers = list(answers_under(CUTS, MODEL, POOL, TRAIN))
    scores = [step.score for step in train_balanced(policy, TRAIN, answers, decay=0.0, price=0.0)]
    assert scores[-1] > 0.97 > scores[0]
    assert all(0 <= score <= 1 for score in scores)
    means = torch.tensor([0.98, 0.94, 0.58], requires_grad=True)
    score = 3 / means.reciprocal().sum()
    score.backward()  # type: ignore[no-untyped-call]
    weights = score.detach() ** 2 / (3 * means.detach() ** 2)
    assert torch.allclose(means.grad, weights)  # type: ignore[arg-type]
    assert [round(w, 2) for w in (weights / weights.sum()).tolist()] == [0.2, 0.22, 0.58]


def test_an_aspect_without_probes_counts_for_nothing() -> None:
    alone = tuple(
        EditCase(c.case_id, c.edit, tuple(p for p in c.probes if p.aspect is not Aspect.NEIGHBORHOOD)) for c in TRAIN
    )
    policy = trained(cases=alone)
    chosen = {cut for case in alone for cut in policy.choose(case.edit, [case.edit.query])}
    assert all(cut.retains < 4 for cut in chosen), "nothing asks to keep old objects"


def test_answers_of_other_cases_or_cuts_are_refused() -> None:
    answers = list(answers_under(CUTS, MODEL, POOL, TRAIN[:2]))
    policy = QueryPolicy(ENCODER, CUTS)
    for cases, given in ((TRAIN[:3], answers), ((), []), (TRAIN[:2], [answers[0], answers[0]][:1])):
        with pytest.raises(UsageError, match="under each cut"):
            list(train_balanced(policy, cases, given))
    with pytest.raises(UsageError, match="under each cut"):
        list(train_balanced(QueryPolicy(ENCODER, CUTS[:5]), TRAIN[:2], answers))


def test_answers_are_those_of_the_same_prompts_one_by_one() -> None:
    [answers] = answers_under(CUTS, MODEL, POOL, TEST[:1])
    assert isinstance(answers, CaseAnswers)
    for cut, column in zip(CUTS, zip(*answers.correct, strict=True), strict=True):
        outcomes = evaluate(PerQuery("fixed", POOL, ByName(cut, cut)), MODEL, TEST[:1])
        assert [outcome.correct for outcome in outcomes] == list(column)


def test_the_name_is_read_only_if_asked_for() -> None:
    edit = TEST[0].edit
    other = edit.query.replace(edit.subject or "", "Landfill")
    with_name, without = (
        QueryPolicy(ENCODER, CUTS, named=named).features(edit, [edit.query, other]) for named in (True, False)
    )
    assert with_name[:, 3].tolist() == [1.0, 0.0]
    assert without[:, 3].tolist() == [0.0, 0.0]
    assert torch.equal(with_name[:, 4:], without[:, 4:])
    assert with_name[0, 0] == pytest.approx(1.0)


def test_by_name_switches_where_a_query_names_the_subject() -> None:
    case = TEST[0]
    queries = [probe.query for probe in case.probes]
    chosen = ByName(Cut(4, 12, 0), Cut(0, 0, 16)).choose(case.edit, queries)
    assert [cut.retains == 0 for cut in chosen] == [mentions(query, case.edit.subject or "") for query in queries]
    unnamed = replace(case.edit, subject=None)
    assert [cut.retains for cut in ByName(CUTS[0], CUTS[-1]).choose(unnamed, [unnamed.query, "Who?"])] == [0, 16]


def test_edits_it_was_trained_on_are_refused_in_evaluation() -> None:
    editor = PerQuery("DR-IKE-Q", POOL, trained())
    with pytest.raises(UsageError, match="was trained on"):
        list(evaluate(editor, MODEL, TRAIN))


def test_demonstrations_that_do_not_fit_are_pruned_from_the_end() -> None:
    count = lambda texts: [len(text.split()) for text in texts]  # noqa: E731
    editor = PerQuery("all", POOL, ByName(CUTS[-1], CUTS[-1]), limit=TokenLimit(200, count))
    [prompt] = editor.prompts(TEST[0].edit, ["Who?"])
    assert count([prompt.text])[0] <= 200
    assert len(prompt.demonstrations) + prompt.pruned == CUTS[-1].size
    assert prompt.pruned > 0
    bare = PerQuery("none", POOL, ByName(CUTS[0], CUTS[0]), limit=TokenLimit(1, count))
    assert bare.prompts(TEST[0].edit, ["Who?"])[0].pruned == 0


def test_it_works_with_a_model_that_gives_no_scores() -> None:
    model = ScriptedModel(follows_the_fact, scores=False)
    [answers] = answers_under(CUTS, model, POOL, TEST[:1])
    assert {len(row) for row in answers.correct} == {len(CUTS)}
