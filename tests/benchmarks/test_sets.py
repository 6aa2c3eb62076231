"""Sets drawn from a policy: exact probabilities and gradients, training, and the editors MO-IKE and FWE-IKE."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations, permutations, product

import pytest
import torch

from benchmarks.lib.ensemble import Ensemble, fitness_weighted
from benchmarks.lib.sets import (
    RememberedAnswers,
    SetTraining,
    loss_of,
    mo_ike,
    rewards_of,
    s_weights,
    train_sets,
)
from benchmarks.lib.subsets import Bernoulli, Draw, PlackettLuce, Subset, SubsetPolicy
from drike.edits.edit import Aspect
from drike.errors import UsageError
from drike.prompts import Prompt, Role
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import Question
from drike.research.evaluation.metrics import summarise
from tests.fakes.capitals import old_object
from tests.fakes.models import ScriptedModel
from tests.fakes.suggestible_task import ENCODER, POOL, TEST, TRAIN

pytestmark = pytest.mark.slow  # no command reaches what these test

DRAWS = (Bernoulli(), PlackettLuce())


def suggestible(prompt: str) -> str:
    """Answer every question with the new object, unless at least four demonstrations keep their old one."""
    *shown, question = prompt.splitlines()
    kept = sum(line.startswith("Prompt: ") and line.split()[-1].startswith("Old") for line in shown)
    return old_object(question) if kept >= 4 else shown[-1].split()[-1]


MODEL = ScriptedModel(suggestible)


def outcomes(draw: Draw, n: int) -> list[Subset]:
    """Everything that can be drawn from n demonstrations."""
    arranged = combinations if isinstance(draw, Bernoulli) else permutations
    return list(chain.from_iterable(arranged(range(n), size) for size in range(n + 1)))


def scores(n: int) -> torch.Tensor:
    return torch.linspace(-0.8, 1.0, n + 1, dtype=torch.float64)


def reward(subset: Subset) -> float:
    """Any function of a set and its order."""
    return float((0 in subset) - 0.7 * (len(subset) > 2) + 0.5 * (subset[:1] == (1,)))


@pytest.mark.parametrize("draw", DRAWS)
def test_the_probabilities_of_all_sets_add_up_to_one_and_are_those_of_the_draws(draw: Draw) -> None:
    z, draws = scores(3), 3000
    noise = torch.rand(draws, 4, generator=torch.Generator().manual_seed(0))
    seen = Counter(draw.drawn(z, one) for one in noise)
    probabilities = {subset: draw.log_prob(z, subset).exp().item() for subset in outcomes(draw, 3)}
    assert sum(probabilities.values()) == pytest.approx(1.0)
    assert seen.keys() <= probabilities.keys()
    for subset, p in probabilities.items():
        assert seen[subset] / draws == pytest.approx(p, abs=5 * (p / draws) ** 0.5)


@pytest.mark.parametrize("draw", DRAWS)
def test_the_baseline_leaves_the_expected_gradient_as_that_of_the_expected_reward(
    draw: Draw,
) -> None:
    policy = SubsetPolicy(ENCODER, draw)
    z = scores(3)[None].requires_grad_()
    sets = outcomes(draw, 3)
    chances = [draw.log_prob(z[0], one).exp() for one in sets]
    [exact] = torch.autograd.grad(
        torch.stack([p * reward(one) for p, one in zip(chances, sets, strict=True)]).sum(), z
    )
    expected = torch.zeros_like(z)
    for (p, one), (q, other) in product(zip(chances, sets, strict=True), repeat=2):
        rewards = torch.tensor([[reward(one), reward(other)]], dtype=z.dtype)
        [gradient] = torch.autograd.grad(loss_of(policy, z, [[one, other]], rewards), z)
        expected -= p.detach() * q.detach() * gradient
    assert torch.allclose(expected, exact, atol=1e-9)


@pytest.mark.parametrize("draw", DRAWS)
def test_sampled_gradients_agree_with_the_exact_one_for_four_demonstrations(draw: Draw) -> None:
    policy, queries = SubsetPolicy(ENCODER, draw), 250
    z = scores(4).requires_grad_()
    terms = [draw.log_prob(z, one).exp() * reward(one) for one in outcomes(draw, 4)]
    [exact] = torch.autograd.grad(torch.stack(terms).sum(), z)
    rows = z.detach().expand(queries, -1).clone().requires_grad_()
    noise = torch.rand(queries, 4, 5, generator=torch.Generator().manual_seed(1))
    drawn = [[draw.drawn(z.detach(), one) for one in four] for four in noise]
    rewards = torch.tensor([[reward(one) for one in four] for four in drawn], dtype=z.dtype)
    [gradients] = torch.autograd.grad(-loss_of(policy, rows, drawn, rewards), rows)
    errors = gradients.std(dim=0) / queries**0.5
    assert ((gradients.mean(dim=0) - exact).abs() <= 4 * errors + 1e-9).all()
    assert errors.max() < 0.05, "or nothing would be tested"


def test_greedy_choices_are_those_above_a_half_and_those_before_the_stop_action() -> None:
    z = torch.tensor([0.3, -0.1, 2.0, 0.1])
    assert Bernoulli().best(z) == (0, 2)
    assert PlackettLuce().best(z) == (2, 0)
    nothing = torch.tensor([-1.0, -2.0, 5.0])
    assert Bernoulli().best(nothing) == PlackettLuce().best(nothing) == ()
    assert PlackettLuce().best(torch.tensor([1.0, 2.0, -9.0])) == (1, 0)


@pytest.mark.parametrize("draw", DRAWS)
def test_a_policy_that_stops_at_once_shows_only_what_it_does_not_choose_from(draw: Draw) -> None:
    [candidates] = POOL.candidates([TEST[0].edit])
    for roles, left in (((Role.RETAIN,), candidates.fixed), (tuple(Role), ())):
        policy = SubsetPolicy(ENCODER, draw, roles=roles, stop=1.0)
        assert [selection.shown for selection in policy.select(candidates, ["Who?"])] == [left]
    assert InContextEditor("sets", POOL, policy).prompts([TEST[0].edit], []) == []


def trained(draw: Draw, roles: tuple[Role, ...] = tuple(Role), price: float = 0.05) -> SubsetPolicy:
    policy = SubsetPolicy(ENCODER, draw, roles=roles)
    settings = SetTraining(epochs=4, learning_rate=0.03, price=price)
    assert (
        len(list(train_sets(policy, RememberedAnswers(MODEL), POOL, TRAIN, settings=settings)))
        == 80
    )
    return policy


@pytest.mark.parametrize(
    ("draw", "roles"), [(Bernoulli(), (Role.RETAIN,)), (PlackettLuce(), tuple(Role))]
)
def test_training_finds_the_sets_that_each_kind_of_query_needs(
    draw: Draw, roles: tuple[Role, ...]
) -> None:
    policy = trained(draw, roles)
    untrained = SubsetPolicy(ENCODER, draw, roles=roles)
    before, after = (
        summarise(list(evaluate(InContextEditor("sets", POOL, one), MODEL, TEST))).s.value or 0.0
        for one in (untrained, policy)
    )
    assert after > 0.9 > before
    assert policy.trained_on == {case.edit.key for case in TRAIN}
    with pytest.raises(UsageError, match="was trained on"):
        list(evaluate(InContextEditor("sets", POOL, policy), MODEL, TRAIN[:1]))


def test_a_question_is_asked_once() -> None:
    model = ScriptedModel(suggestible)
    answers = RememberedAnswers(model)
    questions = [Question(Prompt("New Fact: Land1 New\nPrompt: Land1"), "New")] * 3
    first, again = answers.ask(questions), answers.ask(questions)
    assert first == again
    assert (model.calls, len(model.prompts)) == (1, 1)
    policy = SubsetPolicy(ENCODER, Bernoulli(), stop=0.0)
    *_, _ = train_sets(policy, answers, POOL, TRAIN[:2], settings=SetTraining(epochs=3))
    assert len(model.prompts) == len({*model.prompts}), (
        "a rule of one word scores one continuation per prompt"
    )


def test_rewards_weigh_the_weaker_aspect_and_count_each_aspect_once() -> None:
    means = {Aspect.REWRITE: 0.98, Aspect.PARAPHRASE: 0.94, Aspect.NEIGHBORHOOD: 0.58}
    weights = s_weights(means)
    assert [round(w / sum(weights.values()), 2) for w in weights.values()] == [0.2, 0.22, 0.58]
    case = TEST[0]  # one rewrite, one paraphrase, three neighbours
    equal = dict.fromkeys(Aspect, 1.0)
    per_probe = rewards_of(case, torch.ones(5, 2), torch.tensor([[0.0, 0.5]] * 5), equal)
    assert per_probe.sum(dim=0).tolist() == pytest.approx([3.0, 1.5])
    shared = rewards_of(case, torch.ones(5, 2), torch.tensor([[0.0, 0.1]]), equal)
    assert shared.tolist() == [pytest.approx([3.0, 2.7])]


def test_mo_ike_as_released_shows_all_demonstrations_and_learns_only_their_order() -> None:
    policy, settings = mo_ike(ENCODER, as_released=True)
    settings = SetTraining(
        1, learning_rate=settings.learning_rate, on_s=settings.on_s, price=settings.price
    )
    *_, last = train_sets(policy, RememberedAnswers(MODEL), POOL, TRAIN[:5], settings=settings)
    assert last.shots == 32
    [candidates] = POOL.candidates([TEST[0].edit])
    shown = [
        selection.shown for selection in policy.select(candidates, ["Who?", TEST[0].edit.query])
    ]
    assert shown[0] == shown[1], "one set per edit"
    assert {*shown[0]} == {*candidates.demonstrations}
    published, settings = mo_ike(ENCODER)
    assert (settings.on_s, settings.price, published.reads_query) == (False, 0.0, False)
    *_, last = train_sets(
        published, RememberedAnswers(MODEL), POOL, TRAIN[:5], settings=SetTraining(1)
    )
    assert last.shots < 32


def test_an_ensemble_ranks_as_its_fittest_ranker_and_as_any_of_equal_ones() -> None:
    similarity, learned = Similarity(), Retriever(ENCODER)
    [candidates] = POOL.candidates([TEST[0].edit])
    orders = {one: one.rank(candidates).order for one in (similarity, learned)}
    assert orders[similarity] != orders[learned]
    assert (
        fitness_weighted([similarity, learned], [0.9, 0.1]).rank(candidates).order
        == orders[similarity]
    )
    assert (
        fitness_weighted([similarity, learned], [0.1, 0.9]).rank(candidates).order
        == orders[learned]
    )
    equal = fitness_weighted([learned, learned], [0.5, 0.5])
    assert equal.weights == (0.5, 0.5)
    ranking = equal.rank(candidates)
    assert ranking.order == orders[learned]
    assert sum(ranking.probs) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="one weight per ranker"):
        Ensemble((similarity,), ())


def test_an_ensemble_is_an_editors_ranker_and_its_training_edits_are_refused() -> None:
    learned = Retriever(ENCODER)
    learned.trained_on = frozenset({TEST[0].edit.key})
    editor = InContextEditor(
        "FWE-IKE",
        POOL,
        RankAndCut(fitness_weighted([Similarity(), learned], [0.5, 0.5]), Fraction(1.0, 4)),
    )
    assert {len(editor.select([case.edit], ["?"])[0].kept) for case in TEST} == {4}
    with pytest.raises(UsageError, match="was trained on 1"):
        list(evaluate(editor, MODEL, TEST))


def test_sets_that_do_not_fit_are_pruned_and_impossible_trainings_are_refused() -> None:
    count = lambda texts: [len(text.split()) for text in texts]  # noqa: E731
    policy = SubsetPolicy(ENCODER, PlackettLuce(), stop=-1.0)
    [prompt] = InContextEditor("all", POOL, policy, limit=TokenLimit(200, count)).prompts(
        [TEST[0].edit], ["Who?"]
    )
    assert count([prompt.text])[0] <= 200
    assert len(prompt.demonstrations) + prompt.pruned == 32
    for cases, draws in (((), 4), (TRAIN, 1)):
        with pytest.raises(UsageError, match="at least two draws"):
            next(
                train_sets(
                    policy, RememberedAnswers(MODEL), POOL, cases, settings=SetTraining(draws=draws)
                )
            )
