"""Learned budgets: their inputs, their updates, and what they learn from rewards."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.lib.draws import sampled, stopped_at_flip
from benchmarks.lib.learned_budgets import KINDS, START, Controller, bracket, untrained
from drike.edits.edit import Edit
from drike.encoders import FloatArray, HashingEncoder
from drike.prompts import DemonstrationSet
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.training.algorithm1 import (
    Choose,
    Episode,
    in_blocks,
    rewrite_reward,
    top,
    train,
)
from tests.fakes.capitals import CAPITALS, capital
from tests.fakes.models import ScriptedModel

pytestmark = pytest.mark.slow
SOME = [  # of the four kinds, which learn alike
    pytest.param(kind, marks=pytest.mark.slow) if kind in ("scores-query", "query") else kind
    for kind in KINDS
]


class Remembering:
    """A hashing encoder that encodes each text once, as the frozen encoders do."""

    name, dim = "hashing:32:0", 32

    def __init__(self) -> None:
        self.identity: dict[str, str | None] = {}
        self.known: dict[str, FloatArray] = {}

    def encode(self, texts: Sequence[str]) -> FloatArray:
        missing = [text for text in texts if text not in self.known]
        self.known.update(zip(missing, HashingEncoder(32).encode(missing), strict=True))
        return np.stack([self.known[text] for text in texts])


ENCODER = Remembering()
POOL = Pool(CAPITALS[20:], ENCODER)
POOLS = POOL.candidates([case.edit for case in CAPITALS[:20]])

probabilities = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=20).map(
    lambda raw: sorted((x / sum(raw) for x in raw), reverse=True)
)
rewards = st.lists(st.sampled_from([1, -1]), min_size=1, max_size=16)
kinds = st.sampled_from(list(KINDS))


def shaken(kind: str, seed: int, *, max_shots: int = 16, scale: float = 2.0) -> Controller:
    """Return a controller with extreme random weights, unlike any that training produces."""
    fresh = untrained(kind, ENCODER, max_shots=max_shots, seed=seed)
    noise = torch.randn(len(fresh.weights), generator=torch.Generator().manual_seed(seed)) * scale
    return replace(fresh, weights=fresh.weights + noise)


@given(kinds, probabilities, st.integers(0, 50), st.integers(1, 20), st.integers(0, 19))
def test_a_controller_with_any_weights_keeps_between_1_and_max_shots(
    kind: str, probs: list[float], seed: int, most: int, pool: int
) -> None:
    controller, candidates = shaken(kind, seed, max_shots=most), POOLS[pool]
    k, sigma = controller.keep(probs, candidates), controller.sigma_for(probs, candidates)
    assert 1 <= k <= min(most, len(probs)) and 0 < sigma <= 1
    assert k == 1 or probs[k - 1] > sigma
    assert k == min(most, len(probs)) or probs[k] <= sigma
    assert k <= controller.evaluated(probs, candidates) <= min(k + 1, most, len(probs))
    assert controller.keep(probs, candidates) == k, "a repeated call gives the same result"


@given(kinds, probabilities, rewards, st.integers(0, 50))
def test_after_leaves_the_old_controller_unchanged(
    kind: str, probs: list[float], earned: list[int], seed: int
) -> None:
    controller, candidates = shaken(kind, seed), POOLS[0]
    weights, moments, sigma = (
        controller.weights.clone(), controller.moments.clone(), controller.sigma_for(probs, candidates),
    )  # fmt: skip
    one = controller.after(probs, earned[: len(probs)], candidates)
    with torch.no_grad():  # as in a rollout outside training
        two = controller.after(probs, earned[: len(probs)], candidates)
    assert torch.equal(controller.weights, weights) and torch.equal(controller.moments, moments)
    assert controller.steps == 0 and controller.sigma_for(probs, candidates) == sigma
    assert torch.equal(one.weights, two.weights) and one.steps == two.steps


@given(kinds, probabilities, rewards, st.integers(0, 50))
def test_an_update_moves_sigma_towards_the_episodes_bracket_and_not_at_all_inside_it(
    kind: str, probs: list[float], earned: list[int], seed: int
) -> None:
    # The true gradient's direction: without moments, and a step small enough for tanh to be linear.
    controller = replace(shaken(kind, seed), learning_rate=1e-5)
    earned = earned[: len(probs)]
    low, high = bracket(probs, earned)
    before = controller.sigma_for(probs, POOLS[1])
    after = controller.after(probs, earned, POOLS[1])
    if low <= before < high:
        assert after is controller
        return
    assert after.steps == 1
    moved = math.log(after.sigma_for(probs, POOLS[1])) - math.log(before)
    assert moved >= 0 if before < low else moved <= 0
    assert abs(moved) > 0 or before == 1.0  # sigma is capped at 1


@given(probabilities, rewards)
@example([0.5, 0.49999999999999994], [1, -1])
def test_the_bracket_starts_at_the_sigma_threshold_learns_from_this_episode_alone(
    probs: list[float], earned: list[int]
) -> None:
    earned = earned[: len(probs)]
    low, high = bracket(probs, earned)
    assert low == Threshold().after(probs, earned).sigma < high
    if len(set(probs)) < len(probs):
        return
    falls = [j for j in range(1, len(earned)) if earned[j - 1] > 0 > earned[j]]
    asked = falls[0] if falls else len(earned)
    for sigma in (
        low,
        math.nextafter(high, low),
    ):  # the two ends: between neighbours in floating point is nothing
        kept = sum(p > sigma for p in probs[: len(earned)])
        assert kept == asked, "keep all retains before the first drop and none after it"


def test_an_untrained_controller_starts_at_a_fixed_fraction_of_uniform_probability() -> None:
    for kind in KINDS:
        controller = untrained(kind, ENCODER)
        assert controller.sigma_for([1 / 16] * 16, POOLS[0]) == pytest.approx(START / 16)
        assert controller.keep([1 / 16] * 16, POOLS[0]) == 16


def test_the_controllers_adam_matches_torch() -> None:
    """Apply the same episodes with `after` and with torch's optimizer on the loss from the docstring."""
    ours = untrained("scores-query", ENCODER, seed=3)
    theirs = ours.weights.clone().requires_grad_()
    optimizer = torch.optim.Adam([theirs], lr=ours.learning_rate)
    rng = random.Random(0)
    for _ in range(60):
        candidates = rng.choice(POOLS)
        probs = sorted((rng.random() for _ in range(16)), reverse=True)
        probs = [p / sum(probs) for p in probs]
        earned = [rng.choice([1, 1, -1]) for _ in range(16)]
        x = torch.cat([part.vector(probs, candidates) for part in ours.features])
        width = len(x) * 16
        hidden = torch.tanh(theirs[:width].view(16, -1) @ x + theirs[width : width + 16])
        log_sigma = math.log(1 / 2 / 16) + theirs[width + 16 : width + 32] @ hidden + theirs[-1]
        low, high = bracket(probs, earned)
        sigma = math.exp(log_sigma.item())
        if sigma < low or sigma >= high:
            loss = (
                0.95 * (math.log(low) - log_sigma)
                if sigma < low
                else 0.05 * (log_sigma - math.log(high))
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.param_groups[0]["lr"] = 0.01 / (1 + ours.steps / 25) ** 0.5
            optimizer.step()
        ours = ours.after(probs, earned, candidates)
    assert ours.steps > 20
    assert torch.allclose(ours.weights, theirs.detach(), atol=1e-6)


def sigma(kind: str, probs: list[float], candidates: DemonstrationSet) -> float:
    return shaken(kind, 1, scale=0.3).sigma_for(probs, candidates)


def test_each_controller_kind_depends_only_on_its_inputs() -> None:
    flat, steep = [1 / 16] * 16, [0.5, *[0.5 / 15] * 15]
    one, two = POOLS[0], POOLS[1]
    other_context = DemonstrationSet(one.edit, two.demonstrations, one.similarities)
    assert {kind for kind in KINDS if sigma(kind, flat, one) != sigma(kind, steep, one)} == {
        "scores",
        "scores-query",
    }
    assert {kind for kind in KINDS if sigma(kind, flat, one) == sigma(kind, flat, two)} == {
        "scores"
    }
    assert sigma("query", flat, one) == sigma("query", flat, other_context)
    assert sigma("query-context", flat, one) != sigma("query-context", flat, other_context)


def test_no_controller_reads_the_true_object() -> None:
    flat, known, edit = [1 / 16] * 16, POOLS[0], POOLS[0].edit
    hidden = replace(
        known, edit=Edit(edit.query, edit.target_new, None, edit.subject, edit.relation)
    )
    assert all(sigma(kind, flat, known) == sigma(kind, flat, hidden) for kind in KINDS)


def test_initial_weights_follow_the_seed_and_leave_global_seeds_alone() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, again, other = (untrained("query", ENCODER, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first.weights, again.weights) and not torch.equal(
        first.weights, other.weights
    )


REFUSED: list[tuple[str, Callable[[Controller], object]]] = [
    ("quantile", lambda c: replace(c, quantile=1.0)),
    ("max_shots", lambda c: replace(c, max_shots=0)),
    ("flip", lambda c: replace(c, flip="maze")),
    ("steps", lambda c: replace(c, steps=-1)),
    ("learning rate", lambda c: replace(c, learning_rate=math.nan)),
    ("weights", lambda c: replace(c, weights=c.weights[1:])),
    ("finite", lambda c: replace(c, weights=c.weights * math.nan)),
    ("float32", lambda c: replace(c, weights=c.weights.double())),
    ("no controller 'mood'", lambda c: untrained("mood", ENCODER)),
    ("empty pool", lambda c: c.keep([], POOLS[0])),
]


@pytest.mark.parametrize(("message", "make"), REFUSED)
def test_invalid_controllers_are_refused(
    message: str, make: Callable[[Controller], object]
) -> None:
    with pytest.raises(ValueError, match=message):
        make(untrained("scores", ENCODER))


# -- learning, through Algorithm 1 -----------------------------------------------------------------------------------


def shown(prompt: str) -> int:
    """Count the retains in a prompt; only they answer with an old object."""
    return sum(
        line.rpartition(" ")[2].startswith("Old")
        for line in prompt.splitlines()
        if line.startswith("Prompt: ")
    )


def right(prompt: str) -> str:
    return prompt.rpartition("New Fact: ")[2].splitlines()[0].rpartition(" ")[2]


def breaks_after(m: int) -> ScriptedModel:
    return ScriptedModel(lambda prompt: right(prompt) if shown(prompt) <= m else "nothing")


def moody(prompt: str) -> str:
    return right(prompt) if shown(prompt) <= 3 else "nothing"


def sharp() -> Retriever:
    """Return a policy as peaked as a trained one; an untrained one is nearly uniform."""
    retriever = Retriever(ENCODER, seed=1)
    with torch.no_grad():
        for weight in retriever.head.parameters():
            weight.mul_(3)
    return retriever


def run(
    model: ScriptedModel,
    budget: Budget,
    *,
    epochs: int,
    head: float = 0.0,
    choose: Choose = top,
    stop_on_flip: bool = False,
) -> list[Episode]:
    """Train on 20 edits; the head stays fixed unless `head` gives it a learning rate."""
    editor, reward = (
        InContextEditor("DR-IKE", POOL, RankAndCut(sharp(), budget)),
        (stopped_at_flip if stop_on_flip else rewrite_reward)(model),
    )
    return list(
        train(editor, reward, CAPITALS[:20], epochs=epochs, learning_rate=head, choose=choose)
    )


@functools.cache
def broken_after(m: int, kind: str) -> list[Episode]:
    """Train a controller for 25 epochs of 20 episodes where more than m retains break the answer."""
    return run(breaks_after(m), untrained(kind, ENCODER), epochs=25)


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize(
    "m", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(8, marks=pytest.mark.slow)]
)
def test_a_controller_learns_to_keep_about_m_retains_if_more_break_the_answer(
    kind: str, m: int
) -> None:
    episodes = broken_after(m, kind)
    assert any(episode.kept > m for episode in episodes[:20]), (
        "the untrained controller must keep more than m"
    )
    last = episodes[-40:]
    assert m - 2.5 <= fmean(episode.kept for episode in last) <= m + 0.2
    assert fmean(episode.success for episode in last) >= 0.9  # the quantile is .95


@pytest.mark.parametrize("kind", SOME)
def test_a_controller_keeps_more_and_more_if_nothing_breaks_the_answer(kind: str) -> None:
    episodes = run(ScriptedModel(right), untrained(kind, ENCODER), epochs=20)
    sigmas = [
        fmean(episode.sigma or 0.0 for episode in episodes[start : start + 20])
        for start in range(0, 400, 20)
    ]
    assert all(later <= earlier for earlier, later in itertools.pairwise(sigmas))
    assert fmean(e.kept for e in episodes[:20]) + 1 < fmean(e.kept for e in episodes[-20:]) > 14


@pytest.mark.parametrize("kind", KINDS)
def test_a_uniform_policy_keeps_everything_from_the_start_if_nothing_breaks(kind: str) -> None:
    budget = untrained(kind, ENCODER)
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(Retriever(ENCODER, seed=1), budget))
    episodes = train(editor, rewrite_reward(ScriptedModel(right)), CAPITALS[:20], epochs=2)
    assert {(episode.kept, episode.budget) for episode in episodes} == {(16, budget)}


@pytest.mark.parametrize(
    "kind",
    ["query", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "query")],
)
def test_a_controller_that_became_too_strict_recovers(kind: str) -> None:
    """At first every second retain breaks the answer; later nothing does."""
    taught = broken_after(1, kind)[: 15 * 20]
    assert fmean(episode.kept for episode in taught[-20:]) <= 1.2
    episodes = run(ScriptedModel(right), taught[-1].budget, epochs=30)
    assert fmean(episode.kept for episode in episodes[-20:]) >= 10


def test_the_papers_threshold_never_recovers() -> None:
    """The baseline for learned controllers: a running maximum."""
    strict = run(breaks_after(1), Threshold(), epochs=1)[-1].budget
    episodes = run(ScriptedModel(right), strict, epochs=20)
    assert {episode.kept for episode in episodes} != {16}
    assert episodes[-1].budget == strict


@pytest.mark.slow
def test_only_a_query_controller_separates_two_kinds_of_edits() -> None:
    """Edits of odd lands break after two retains, even ones never: no single sigma suits both."""

    def rule(prompt: str) -> str:
        odd = prompt.rpartition("The ")[2].split()[0] == "mayor"
        return right(prompt) if shown(prompt) <= 2 or not odd else "nothing"

    cases = [capital(i, relation="mayor" if i % 2 else "capital") for i in range(20)]
    budget: Budget = untrained("query", ENCODER)
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(sharp(), budget))
    for episode in train(
        editor, rewrite_reward(ScriptedModel(rule)), cases, epochs=40, learning_rate=0
    ):
        budget = episode.budget
    kept = {"mayor": [], "capital": []}  # type: ignore[var-annotated]
    ranker = sharp()
    for case, pool in zip(cases, POOL.candidates([case.edit for case in cases]), strict=True):
        kept[str(case.edit.relation)].append(budget.keep(ranker.rank(pool).probs, pool))
    assert fmean(kept["mayor"]) <= 3 and fmean(kept["capital"]) >= 10


@pytest.mark.slow
def test_a_higher_quantile_keeps_fewer() -> None:
    """The number of retains that breaks the answer differs between edits."""

    def rule(prompt: str) -> str:
        return (
            right(prompt) if shown(prompt) <= 1 + int(right(prompt)[-1]) * 3 else "nothing"
        )  # New0 to New4

    kept = {}
    for quantile in (0.5, 0.95):
        episodes = run(
            ScriptedModel(rule), untrained("scores", ENCODER, quantile=quantile), epochs=20
        )
        kept[quantile] = fmean(episode.kept for episode in episodes[-40:])
    assert kept[0.95] + 1.5 < kept[0.5]


def test_training_evaluates_one_extra_retain_and_counts_success_without_it() -> None:
    episodes = broken_after(3, "scores")
    assert all(episode.k == min(16, episode.kept + 1) for episode in episodes)
    cut = [episode for episode in episodes if episode.kept == 3]
    assert cut and all(episode.success and episode.rewards[-1] < 0 for episode in cut)
    assert all(episode.sigma is not None and 0 < episode.sigma < 1 for episode in episodes)


@pytest.mark.slow
@pytest.mark.parametrize("sample", [True, False], ids=["sampled", "stop on flip"])
def test_a_controller_learns_with_sampling_and_with_stop_on_flip(sample: bool) -> None:
    choose = sampled(random.Random(0)) if sample else top
    budget = untrained("scores", ENCODER)
    episodes = run(breaks_after(3), budget, epochs=30, choose=choose, stop_on_flip=not sample)
    assert 1.5 <= fmean(min(episode.kept, episode.k) for episode in episodes[-40:]) <= 4.5
    assert all(episode.k <= 16 for episode in episodes)


def test_training_a_controller_is_reproducible() -> None:
    def rule(prompt: str) -> str:
        return right(prompt) if len(prompt) % 3 else "nothing"

    first, again = (
        run(ScriptedModel(rule), untrained("query-context", ENCODER), epochs=3, head=1e-3)
        for _ in range(2)
    )
    assert [(e.rewards, e.sigma) for e in first] == [(e.rewards, e.sigma) for e in again]


def test_every_budget_obeys_the_budget_laws() -> None:
    """All budgets on the same real rankings."""
    budgets: list[Budget] = [
        Fraction(), Fraction(0.5), Fraction(1.0, 4), Threshold(), Threshold(0.2, 3), *(shaken(k, 3) for k in KINDS),
    ]  # fmt: skip
    for budget, candidates in itertools.product(budgets, POOLS[:5]):
        probs = Retriever(ENCODER, seed=2).rank(candidates).probs
        k = budget.keep(probs, candidates)
        most = getattr(budget, "max_shots", None) or 16
        assert 1 <= k <= min(most, len(probs))
        assert k <= budget.evaluated(probs, candidates) <= min(most, len(probs))
        sigma = budget.sigma_for(probs, candidates)
        assert sigma is None or k == max(1, min(most, sum(p > sigma for p in probs)))


@pytest.mark.parametrize("kind", ["scores", "query-context"])
def test_a_learned_budget_does_not_depend_on_threads(kind: str) -> None:
    def weights_with(threads: int) -> torch.Tensor:
        model, start = ScriptedModel(moody, calls_at_once=threads), untrained(kind, ENCODER)
        editor = InContextEditor("DR-IKE", POOL, RankAndCut(Retriever(ENCODER), start))
        *_, last = train(
            editor, rewrite_reward(model), CAPITALS[:8], epochs=2, schedule=in_blocks(4, threads)
        )
        assert isinstance(last.budget, Controller) and not torch.equal(
            last.budget.weights, start.weights
        )
        return last.budget.weights

    assert torch.equal(weights_with(1), weights_with(4))
