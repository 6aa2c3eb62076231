"""Training DR-IKE-Q on S: it finds the mix that each kind of query needs, and refuses answers to other questions."""

from __future__ import annotations

import pytest
import torch

from drike.editors.in_context import InContextEditor
from drike.editors.query_policy import QueryPolicy
from drike.editors.role_counts import RoleCounts, SubjectSwitch
from drike.edits import Aspect, EditCase
from drike.errors import UsageError
from drike.evaluation.answer_matrix import answers_under
from drike.evaluation.evaluate import evaluate
from drike.evaluation.metrics import summarise
from drike.training.s_objective import train_query_policy
from tests.worlds.suggestible import ENCODER, MIXES, MODEL, POOL, TEST, TRAIN, trained


def test_training_on_s_finds_the_mix_that_each_kind_of_query_needs() -> None:
    editor = InContextEditor("DR-IKE-Q", POOL, trained())
    ours = summarise(list(evaluate(editor, MODEL, TEST)))
    editors = [InContextEditor("fixed", POOL, SubjectSwitch(mix, mix)) for mix in MIXES]
    fixed = [summarise(list(evaluate(editor, MODEL, TEST))).s.value or 0.0 for editor in editors]
    assert ours.s.value == 1.0 > max(fixed)
    assert trained().trained_on == {case.edit.key for case in TRAIN}


def test_no_more_is_shown_than_is_needed() -> None:
    policy = trained()
    chosen = {p.aspect: mix for c in TEST for p in c.probes for mix in policy.choose(c.edit, [p.query])}
    none, four = RoleCounts(0, 0, 0), RoleCounts(0, 0, 4)
    assert chosen == {Aspect.REWRITE: none, Aspect.PARAPHRASE: none, Aspect.NEIGHBORHOOD: four}


def test_expected_s_rises_and_its_gradient_favours_the_weaker_aspect() -> None:
    policy = QueryPolicy(ENCODER, MIXES, named=True)
    answers = list(answers_under(MIXES, MODEL, POOL, TRAIN))
    scores = [step.score for step in train_query_policy(policy, TRAIN, answers, decay=0.0, price=0.0)]
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
    chosen = {mix for case in alone for mix in policy.choose(case.edit, [case.edit.query])}
    assert all(mix.retains < 4 for mix in chosen), "nothing asks to keep old objects"


def test_answers_of_other_cases_or_mixes_are_refused() -> None:
    answers = list(answers_under(MIXES, MODEL, POOL, TRAIN[:2]))
    policy = QueryPolicy(ENCODER, MIXES)
    for cases, given in ((TRAIN[:3], answers), ((), []), (TRAIN[:2], [answers[0], answers[0]][:1])):
        with pytest.raises(UsageError, match="under each mix"):
            list(train_query_policy(policy, cases, given))
    with pytest.raises(UsageError, match="under each mix"):
        list(train_query_policy(QueryPolicy(ENCODER, MIXES[:5]), TRAIN[:2], answers))
