"""Late and noisy rewards: which updates reach the learner, and when."""

from __future__ import annotations

import random
import zlib
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lib.draws import renormalised, sampled
from benchmarks.lib.feedback import disturbed, late, noisy
from drike.encoders import HashingEncoder
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import FORMS, Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.training.algorithm1 import (
    Choose,
    Episode,
    RewardChannel,
    Rewards,
    Rollout,
    at_once,
    loss_of,
    rewrite_reward,
    top,
    train,
)
from tests.fakes.capitals import CAPITALS, SHOWING, follows_the_fact, rollout
from tests.fakes.models import ScriptedModel

pytestmark = pytest.mark.slow
CASES = CAPITALS[:20]
POOL = Pool(CAPITALS[20:], HashingEncoder())
[CANDIDATES] = POOL.candidates([CASES[0].edit])
EPISODES = 3 * len(CASES)


def chosen(name: str) -> Choose:
    """Return a choice of retains with its own random draws."""
    return renormalised(sampled(random.Random(5))) if name == "sample" else top


def moody(prompt: str) -> str:
    """Answer correctly on four prompts in five, depending on the prompt."""
    return follows_the_fact(prompt) if zlib.crc32(prompt.encode()) % 5 else " nothing"


def trained(
    delay: int = 0,
    noise: float = 0.0,
    *,
    form: str = "dot",
    budget: Budget | None = None,
    rate: float = 1e-3,
    choice: str = "top",
) -> tuple[list[Episode], Retriever, list[tuple[int, torch.Tensor]]]:
    """Return the episodes, the policy, and every gradient with the number of episodes before it."""
    retriever = Retriever(HashingEncoder(), form=form, seed=3)  # type: ignore[arg-type]
    episodes: list[Episode] = []
    updates: list[tuple[int, torch.Tensor]] = []
    retriever.head.weight.register_hook(
        lambda gradient: updates.append((len(episodes), gradient.clone()))
    )
    for episode in train(
        InContextEditor("DR-IKE", POOL, RankAndCut(retriever, budget or Threshold())),
        rewrite_reward(ScriptedModel(moody)), CASES,
        epochs=3, learning_rate=rate, choose=chosen(choice),
        channel=disturbed(delay, noise, episodes=EPISODES, seed=5),
    ):  # fmt: skip
        episodes.append(episode)
    return episodes, retriever, updates


def keys(updates: list[tuple[int, torch.Tensor]]) -> Counter[bytes]:
    return Counter(update.numpy().tobytes() for _, update in updates)


def plain_loop(form: str, choice: str) -> tuple[list[tuple[object, ...]], Retriever]:
    """Algorithm 1 without a channel: every episode updates the policy before the next one begins."""
    retriever = Retriever(HashingEncoder(), form=form, seed=3)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(retriever.head.parameters(), lr=1e-3)
    choose, budget, done = chosen(choice), Threshold(), []
    for _ in range(3):
        for case in CASES:
            [candidates] = POOL.candidates([case.edit])
            log_p = retriever.log_probs(retriever.features(candidates))
            tried, rewards = rollout(ScriptedModel(moody), candidates, log_p, budget, choose)
            optimizer.zero_grad()
            loss = loss_of(rewards.rewards, tried.log_p)
            loss.backward()
            optimizer.step()
            budget = budget.after(tried.probs, rewards.rewards, candidates)
            done.append((tried.order, tried.probs, rewards.rewards, loss.item(), budget))
    return done, retriever


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("choice", ["top", "sample"])
def test_training_without_delay_or_noise_equals_the_plain_loop_bit_for_bit(
    form: str, choice: str
) -> None:
    expected, theirs = plain_loop(form, choice)
    rng = random.Random(0)
    for channel in (
        at_once,
        late(0, EPISODES, rng),
        noisy(0.0, rng),
        late(0, EPISODES, rng, noisy(0, rng)),
    ):
        ours = Retriever(HashingEncoder(), form=form, seed=3)  # type: ignore[arg-type]
        editor = InContextEditor("DR-IKE", POOL, RankAndCut(ours, Threshold()))
        episodes = list(
            train(
                editor, rewrite_reward(ScriptedModel(moody)), CASES,
                epochs=3, learning_rate=1e-3, choose=chosen(choice), channel=channel,
            )
        )  # fmt: skip
        assert [(e.order, e.probs, e.rewards, e.loss, e.budget) for e in episodes] == expected
        assert torch.equal(ours.head.weight, theirs.head.weight)
    assert len({len(rewards) for _, _, rewards, *_ in expected}) > 1, (
        "the test needs a training run in which sigma cuts"
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("delay", [1, 7, 10**9])
def test_late_rewards_on_a_constant_policy_make_the_same_updates_later(
    form: str, delay: int
) -> None:
    constant = {"form": form, "budget": Fraction(0.5), "rate": 0.0}
    at_once, _, now = trained(**constant)  # type: ignore[arg-type]
    delayed, _, later = trained(delay, **constant)  # type: ignore[arg-type]
    assert [e.rewards for e in delayed] == [e.rewards for e in at_once]
    assert keys(later) == keys(now), "every update arrives once, unchanged"
    assert [at for at, _ in now] == list(range(60))
    assert sum(at for at, _ in later) > sum(range(60)), "some updates arrive late"


def test_rewards_delayed_to_the_end_leave_every_episode_untrained() -> None:
    late, ours, updates = trained(10**9)
    untrained, theirs, at_decision = trained(rate=0.0, budget=Fraction(1.0))
    first = [(e.case_id, e.order, e.probs) for e in late]
    assert first == [(e.case_id, e.order, e.probs) for e in untrained]
    assert {e.k for e in late} == {16} and {e.budget for e in late[:-1]} == {Threshold()}
    assert keys(updates) == keys(at_decision), (
        "gradients are those of the policy that acted, though theta has changed since"
    )
    assert late[-1].budget != Threshold() and not torch.equal(
        ours.head.weight, theirs.head.weight
    ), "the updates must change the head"


def test_delay_and_noise_are_reproducible_and_records_keep_the_true_rewards() -> None:
    once, one, _ = trained(delay=5, noise=0.2)
    again, other, _ = trained(delay=5, noise=0.2)
    assert [(e.order, e.rewards, e.budget) for e in once] == [
        (e.order, e.rewards, e.budget) for e in again
    ]
    assert torch.equal(one.head.weight, other.head.weight)
    silent, _, _ = trained(noise=1.0, rate=0.0, budget=Fraction(1.0))
    plain, _, _ = trained(rate=0.0, budget=Fraction(1.0))
    assert [e.rewards for e in silent] == [e.rewards for e in plain]


def test_always_flipped_rewards_teach_the_opposite() -> None:
    _, _, true = trained(rate=0.0, budget=Fraction(1.0))
    _, _, false = trained(noise=1.0, rate=0.0, budget=Fraction(1.0))
    assert all(torch.equal(a, -b) for (_, a), (_, b) in zip(true, false, strict=True))


def numbered(number: int) -> Rollout:
    return Rollout(
        (0,),
        (1.0,),
        torch.zeros(1),
        1,
        1,
        editor=SHOWING,
        case=CASES[0],
        pool=CANDIDATES,
        number=number,
    )


def rewards_of(rewards: tuple[float, ...]) -> Rewards:
    return Rewards(rewards, tuple(reward > 0 for reward in rewards), None, 0.0)


def delays(channel: RewardChannel, episodes: int, rewards: tuple[float, ...] = (1.0,)) -> list[int]:
    """Return how many episodes late each update arrives; each arrives once, with its rewards unchanged."""
    late_by = {}
    for now in range(episodes):
        for update, arrived in channel(numbered(now), rewards_of(rewards)):
            assert arrived == rewards and update.number not in late_by
            late_by[update.number] = now - update.number
    assert sorted(late_by) == list(range(episodes)), "all updates arrive by the last episode"
    return [late_by[number] for number in range(episodes)]


@given(st.integers(0, 9), st.integers(1, 60), st.integers(0, 99))
def test_an_update_arrives_within_its_delay_and_never_after_the_end(
    delay: int, episodes: int, seed: int
) -> None:
    found = delays(late(delay, episodes, random.Random(seed)), episodes)
    assert all(0 <= by <= delay for by in found)


def test_delays_are_uniform_and_noise_flips_its_share_of_rewards() -> None:
    rng = random.Random(0)
    counts = Counter(delays(late(3, 4000, rng), 4000))
    assert {by for by, count in counts.items() if 850 < count < 1150} == {0, 1, 2, 3}
    channel = noisy(0.25, rng)
    flipped = sum(
        rewards.count(-1)
        for _ in range(4000)
        for _, rewards in channel(numbered(0), rewards_of((1.0,) * 4))
    )
    assert 0.23 < flipped / 16000 < 0.27


@pytest.mark.parametrize("delay", [-1, 1.5, True])
def test_a_delay_that_is_not_a_whole_number_is_refused(delay: object) -> None:
    with pytest.raises(ValueError, match="delay must be a whole number"):
        late(delay, 9, random.Random(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", [-0.1, 1.1, float("nan"), "much"])
def test_noise_that_is_not_a_probability_is_refused(noise: object) -> None:
    with pytest.raises(ValueError, match="noise is a probability"):
        noisy(noise, random.Random(0))  # type: ignore[arg-type]
