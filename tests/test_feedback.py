"""Late and false rewards: what reaches the learner, and when."""

from __future__ import annotations

import random
import zlib
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from drike.encoders import HashingEncoder
from drike.models.scripted import ScriptedModel
from drike.retrieval.budget import Budget, Fraction, Threshold
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import FORMS, Retriever
from drike.training.reinforce import Episode, Switches, loss_of, rollout, train
from drike.training.schedules import Feedback
from worlds import CAPITALS, follows_the_fact

CASES = CAPITALS[:20]
POOL = Pool(CAPITALS[20:], HashingEncoder())
[CANDIDATES] = POOL.candidates([CASES[0].edit])
READINGS = [Switches(), Switches(selection="sample", renormalise=True)]


def moody(prompt: str) -> str:
    """Right on four prompts of five, told by the prompt."""
    return follows_the_fact(prompt) if zlib.crc32(prompt.encode()) % 5 else " nothing"


def trained(
    feedback: Feedback | None = None,
    *,
    form: str = "dot",
    budget: Budget | None = None,
    rate: float = 1e-3,
    switches: Switches | None = None,
) -> tuple[list[Episode], Retriever, list[tuple[int, torch.Tensor]]]:
    """Episodes, the policy, and the gradient of every update with the number of episodes ended before it."""
    retriever = Retriever(HashingEncoder(), form=form, seed=3)  # type: ignore[arg-type]
    episodes: list[Episode] = []
    updates: list[tuple[int, torch.Tensor]] = []
    retriever.head.weight.register_hook(lambda gradient: updates.append((len(episodes), gradient.clone())))
    given = {} if feedback is None else {"feedback": feedback}
    for episode in train(
        ScriptedModel(moody), CASES, POOL, retriever, budget, epochs=3, learning_rate=rate, seed=5,
        switches=switches or Switches(), **given,
    ):  # fmt: skip
        episodes.append(episode)
    return episodes, retriever, updates


def keys(updates: list[tuple[int, torch.Tensor]]) -> Counter[bytes]:
    return Counter(update.numpy().tobytes() for _, update in updates)


def plain_loop(form: str, switches: Switches) -> tuple[list[tuple[object, ...]], Retriever]:
    """Algorithm 1 without a channel: every episode teaches before the next one begins."""
    retriever = Retriever(HashingEncoder(), form=form, seed=3)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(retriever.head.parameters(), lr=1e-3)
    rng, budget, done = random.Random(5), Threshold(), []
    for _ in range(3):
        for case in CASES:
            [candidates] = POOL.candidates([case.edit])
            log_p = retriever.log_probs(retriever.features(candidates))
            episode, tried = rollout(ScriptedModel(moody), candidates, log_p, budget, switches=switches, rng=rng)
            optimizer.zero_grad()
            loss_of(episode.rewards, tried).backward()
            optimizer.step()
            budget = budget.after(episode.probs, episode.rewards, candidates)
            done.append((episode.order, episode.probs, episode.rewards, episode.loss, budget))
    return done, retriever


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("switches", READINGS, ids=["top", "sample"])
def test_without_delay_and_noise_training_is_the_plain_loop_bit_for_bit(form: str, switches: Switches) -> None:
    expected, theirs = plain_loop(form, switches)
    for feedback in (None, Feedback(), Feedback(0, 0.0)):
        episodes, ours, _ = trained(feedback, form=form, switches=switches)
        assert [(e.order, e.probs, e.rewards, e.loss, e.budget) for e in episodes] == expected
        assert torch.equal(ours.head.weight, theirs.head.weight)
    assert len({len(rewards) for _, _, rewards, *_ in expected}) > 1, "a training without a cut proves nothing"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("delay", [1, 7, 10**9])
def test_on_a_constant_policy_late_rewards_make_the_same_updates_only_later(form: str, delay: int) -> None:
    constant = {"form": form, "budget": Fraction(0.5), "rate": 0.0}
    at_once, _, now = trained(**constant)  # type: ignore[arg-type]
    delayed, _, later = trained(Feedback(delay), **constant)  # type: ignore[arg-type]
    assert [e.rewards for e in delayed] == [e.rewards for e in at_once]
    assert keys(later) == keys(now), "every update arrives, once, and unchanged"
    assert [at for at, _ in now] == list(range(60))
    assert sum(at for at, _ in later) > sum(range(60)), "and some come late"


def test_rewards_that_wait_for_the_end_leave_every_episode_as_it_would_be_untrained() -> None:
    late, ours, updates = trained(Feedback(10**9))
    untrained, theirs, at_decision = trained(rate=0.0, budget=Fraction(1.0))
    first = [(e.case_id, e.order, e.probs) for e in late]
    assert first == [(e.case_id, e.order, e.probs) for e in untrained]
    assert {e.k for e in late} == {16} and {e.budget for e in late[:-1]} == {Threshold()}
    assert keys(updates) == keys(at_decision), "with the gradient of the policy that acted, though theta moves on"
    assert late[-1].budget != Threshold() and not torch.equal(ours.head.weight, theirs.head.weight), "then they teach"


def test_delay_and_noise_repeat_with_their_seed_and_are_recorded_as_the_model_answered() -> None:
    feedback = Feedback(delay=5, noise=0.2)
    once, one, _ = trained(feedback)
    again, other, _ = trained(feedback)
    assert [(e.order, e.rewards, e.budget) for e in once] == [(e.order, e.rewards, e.budget) for e in again]
    assert torch.equal(one.head.weight, other.head.weight)
    silent, _, _ = trained(Feedback(noise=1.0), rate=0.0, budget=Fraction(1.0))
    plain, _, _ = trained(rate=0.0, budget=Fraction(1.0))
    assert [e.rewards for e in silent] == [e.rewards for e in plain]


def test_rewards_that_are_always_false_teach_the_opposite() -> None:
    _, _, true = trained(rate=0.0, budget=Fraction(1.0))
    _, _, false = trained(Feedback(noise=1.0), rate=0.0, budget=Fraction(1.0))
    assert all(torch.equal(a, -b) for (_, a), (_, b) in zip(true, false, strict=True))


@given(st.integers(0, 9), st.integers(1, 50), st.integers(0, 50), st.integers(0, 99))
def test_a_lesson_comes_within_its_delay_and_never_after_the_end(delay: int, now: int, ahead: int, seed: int) -> None:
    rng = random.Random(seed)
    lesson = Feedback(delay).send(CANDIDATES, [0.5], [1], torch.zeros(1), now=now, last=now + ahead, rng=rng)
    assert now <= lesson.due <= min(now + delay, now + ahead)
    assert lesson.rewards == (1,)


def test_delays_are_drawn_evenly_and_noise_flips_its_share() -> None:
    rng = random.Random(0)
    lessons = [
        Feedback(3, 0.25).send(CANDIDATES, [1.0], [1] * 4, torch.zeros(4), now=1, last=9, rng=rng) for _ in range(4000)
    ]
    assert {due for due, count in Counter(lesson.due for lesson in lessons).items() if 850 < count < 1150} == {
        1,
        2,
        3,
        4,
    }
    flipped = sum(lesson.rewards.count(-1) for lesson in lessons)
    assert 0.23 < flipped / 16000 < 0.27


@pytest.mark.parametrize("bad", [{"delay": -1}, {"delay": 1.5}, {"delay": True}, {"noise": -0.1}, {"noise": 1.1}])
def test_what_is_no_delay_or_no_probability_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"delay must be|noise is a probability"):
        Feedback(**bad)  # type: ignore[arg-type]
