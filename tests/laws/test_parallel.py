"""Several edits at once: the same results in the same order, for any number of threads and any model latency."""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import count

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lib.draws import sampled
from benchmarks.lib.editcot import EditCoTFull
from benchmarks.lib.feedback import disturbed
from drike.encoders import HashingEncoder
from drike.errors import ModelError
from drike.models.protocols import CustomModel, Request, Score
from drike.prompts import DemonstrationSet
from drike.research.editors.budgets import Budget, Threshold
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import LeaveAlone, RankAndCut
from drike.research.evaluation.case_answers import answers_under
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.unedited_answers import unedited_answers
from drike.research.training.algorithm1 import (
    Choose,
    Episode,
    Rewards,
    Rollout,
    in_blocks,
    loss_of,
    replayed,
    rewrite_reward,
    top,
    train,
)
from drike.support.parallel import GRACE, StoppedError, current_group, in_order
from tests.fakes.capitals import CAPITALS, follows_the_fact, rollout
from tests.fakes.models import ScriptedModel
from tests.fakes.reports import timeless
from tests.fakes.threads import press_ctrl_c, threads_of_drike
from tests.fakes.waiting import wait_until

CASES = CAPITALS[:11]
ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[11:], ENCODER)


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    assert not threads_of_drike()


def jitter(rule: Callable[[str], str]) -> Callable[[str], str]:
    """Apply the rule after a short random sleep, so that no two runs finish in the same order."""

    def slowly(prompt: str) -> str:
        time.sleep(random.random() / 2000)
        return rule(prompt)

    return slowly


# -- work in order ---------------------------------------------------------------------------------------------------


@given(st.lists(st.integers()), st.integers(1, 6))
def test_results_come_in_order(items: list[int], at_once: int) -> None:
    assert list(in_order(lambda item: item + 1, iter(items), at_once)) == [
        item + 1 for item in items
    ]


@pytest.mark.parametrize("at_once", [2, 4])
def test_exactly_the_requested_number_of_items_runs_at_once(at_once: int) -> None:
    together, meet = [0], threading.Barrier(at_once, timeout=10)
    most, counting = [0], threading.Lock()

    def work(item: int) -> int:
        with counting:
            together[0] += 1
            most[0] = max(most[0], together[0])
        meet.wait()  # passes only once `at_once` threads have arrived
        with counting:
            together[0] -= 1
        return item

    assert list(in_order(work, range(4 * at_once), at_once)) == list(range(4 * at_once))
    assert most == [at_once]


def test_one_at_a_time_starts_no_thread_and_is_lazy() -> None:
    done: list[int] = []
    results = in_order(done.append, range(3), 1)
    next(results)
    assert done == [0] and not threads_of_drike()
    with pytest.raises(ValueError, match="at least one"):
        next(in_order(done.append, range(3), 0))


@given(st.integers(1, 5), st.integers(0, 20))
def test_an_error_is_raised_once_in_place_of_its_result(at_once: int, bad: int) -> None:
    def work(item: int) -> int:
        if item >= bad:
            raise ModelError(f"item {item}")
        return item

    got = []
    with pytest.raises(ModelError, match=f"item {bad}$"):
        for result in in_order(work, range(21), at_once):
            got.append(result)
    assert got == list(range(bad)) and not threads_of_drike()


def test_closing_the_results_stops_the_work() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        time.sleep(0.005)
        return item

    results = in_order(work, range(1000), 3)
    assert [next(results) for _ in range(2)] == [0, 1]
    results.close()
    assert len(begun) < 500 and not threads_of_drike()


def test_ctrl_c_ends_the_work_and_leaves_no_thread() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 7:
            press_ctrl_c()
        time.sleep(0.01)
        return item

    model = ScriptedModel(follows_the_fact, calls_at_once=3)
    with pytest.raises(KeyboardInterrupt):
        list(in_order(work, range(1000), 3))
    assert len(begun) < 500 and not threads_of_drike()
    assert len(list(evaluate(FactPrompt(), model, CASES))) == sum(
        len(case.probes) for case in CASES
    )


def test_after_a_failure_its_error_is_raised_and_no_more_work_starts() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        if item == 2:
            raise ModelError("the third is bad")
        group = current_group()
        wait_until(lambda: group.over)
        raise StoppedError

    with pytest.raises(ModelError, match="third"):
        list(in_order(work, range(20), 3))
    assert sorted(begun) == [0, 1, 2]


@pytest.mark.parametrize("heeds", ["over", "abandoned"])
def test_abandoned_work_is_signalled_and_given_a_grace_period(heeds: str) -> None:
    ended: list[str] = []

    def work(item: int) -> int:
        group = current_group()
        if item:
            wait_until(lambda: getattr(group, heeds))
        ended.append("over" if not group.abandoned else "abandoned")
        return item

    results = in_order(work, range(20), 3)
    assert next(results) == 0
    began = time.monotonic()
    results.close()
    assert {*ended[1:]} == {heeds}
    if heeds == "abandoned":
        assert time.monotonic() - began > GRACE


def test_a_thread_outside_any_group_is_never_stopped() -> None:
    assert not current_group().over and current_group() is not current_group()


# -- evaluation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("at_once", [2, 5])
def test_outcomes_do_not_depend_on_parallelism(scores: bool, at_once: int) -> None:
    slow = ScriptedModel(jitter(follows_the_fact), scores=scores, calls_at_once=at_once)
    one = ScriptedModel(follows_the_fact, scores=scores)
    for make in (
        lambda model: FactPrompt(),
        lambda model: InContextEditor("IKE", POOL, RankAndCut(Similarity(), Threshold())),
        lambda model: InContextEditor(
            "DR-IKE", POOL, RankAndCut(Retriever(ENCODER), Threshold(0.06))
        ),
        EditCoTFull,
    ):
        expected = timeless(evaluate(make(one), one, CASES))
        assert timeless(evaluate(make(slow), slow, CASES)) == expected
        assert timeless(evaluate(make(slow), slow, CASES, parallel=2)) == expected


def test_a_model_is_called_from_one_thread_unless_it_allows_more() -> None:
    threads = set()

    inner = ScriptedModel(follows_the_fact)

    def score(requests: Sequence[Request]) -> list[Score]:
        threads.add(threading.get_ident())
        return inner.score(requests)

    local = CustomModel("local", inner.generate, score)
    assert local.info.calls_at_once == 1
    list(evaluate(FactPrompt(), local, CASES))
    assert threads == {threading.get_ident()}
    with pytest.raises(ValueError, match="1 to 1 edits at once, not 2"):
        next(evaluate(FactPrompt(), local, CASES, parallel=2))


def test_outcomes_before_a_failing_case_are_yielded() -> None:
    def rule(prompt: str) -> str:
        if "Land6 " in prompt and "Imagine that The capital of Land6 " in prompt:
            raise ModelError("the sixth land is out of reach")
        return follows_the_fact(prompt)

    got = []
    with pytest.raises(ModelError, match="sixth"):
        for outcome in evaluate(FactPrompt(), ScriptedModel(jitter(rule), calls_at_once=4), CASES):
            got.append(outcome)
    assert timeless(iter(got)) == timeless(
        evaluate(FactPrompt(), ScriptedModel(follows_the_fact), CASES[:6])
    )


# -- training --------------------------------------------------------------------------------------------------------


def moody(prompt: str) -> str:
    """Answer right or wrong by the prompt's hash, for rewards of both signs and flips."""
    fact = next(line for line in reversed(prompt.splitlines()) if line.startswith("New Fact: "))
    return fact.rpartition(" ")[2] if zlib.crc32(prompt.encode()) % 5 else "nothing"


def learned(
    model: ScriptedModel, edits_at_once: int, selection: str = "top", seed: int = 3
) -> tuple[torch.Tensor, list[Episode]]:
    retriever = Retriever(ENCODER, seed=1)
    choose = sampled(random.Random(seed), apart=edits_at_once > 1) if selection == "sample" else top
    episodes = trained_in_blocks(
        model, retriever, edits_at_once, epochs=3, learning_rate=1e-2, choose=choose
    )
    return weights([replace(episode, seconds=0.0) for episode in episodes], retriever)


def trained_in_blocks(  # type: ignore[no-untyped-def]
    model: ScriptedModel, retriever: Retriever, size: int, budget: Budget | None = None, **options
) -> Generator[Episode, None, None]:
    editor, schedule = (
        InContextEditor("DR-IKE", POOL, RankAndCut(retriever, budget or Threshold())),
        in_blocks(size, model.info.calls_at_once),
    )
    return train(editor, rewrite_reward(model), CASES, schedule=schedule, **options)


def weights(episodes: list[Episode], retriever: Retriever) -> tuple[torch.Tensor, list[Episode]]:
    return torch.cat(
        [tensor.detach().flatten() for tensor in retriever.head.parameters()]
    ), episodes


def block_by_block(
    edits_at_once: int, selection: str, seed: int = 3
) -> tuple[torch.Tensor, list[Episode]]:
    """The definition: first all gradients of a block, then the steps of Adam and the updates of sigma."""
    retriever, budget = Retriever(ENCODER, seed=1), Threshold()
    parameters = list(retriever.head.parameters())
    optimizer, rng, episodes = torch.optim.Adam(parameters, lr=1e-2), random.Random(seed), []
    found = POOL.candidates([case.edit for case in CASES])
    for epoch in (1, 2, 3):
        for start in range(0, len(CASES), edits_at_once):
            block = list(zip(CASES, found, strict=True))[start : start + edits_at_once]
            seen = []
            for case, candidates in block:
                draws = rng if edits_at_once == 1 else random.Random(rng.getrandbits(64))
                choose = sampled(draws) if selection == "sample" else top
                seen.append((case, *seen_by(retriever, candidates, budget, choose)))
            for case, tried, earned, gradients in seen:
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = gradient
                optimizer.step()
                budget = budget.after(tried.probs, earned.rewards)
                episodes.append(
                    Episode(
                        epoch, case.case_id, tried.order, tried.probs, earned.rewards, earned.correct,
                        loss_of(earned.rewards, tried.log_p).item(), earned.prompt_tokens, 0.0, tried.kept,
                        budget.sigma, len(earned.rewards), None, None, budget,
                    )
                )  # fmt: skip
    return weights(episodes, retriever)


def seen_by(
    retriever: Retriever, candidates: DemonstrationSet, budget: Budget, choose: Choose
) -> tuple[Rollout, Rewards, tuple[torch.Tensor, ...]]:
    log_p = retriever.log_probs(retriever.features(candidates))
    attempt, earned = rollout(ScriptedModel(moody), candidates, log_p, budget, choose)
    tried = log_p[list(attempt.order[: len(earned.rewards)])]
    loss = -(torch.tensor(earned.rewards, dtype=log_p.dtype) * tried).sum()
    return attempt, earned, torch.autograd.grad(loss, list(retriever.head.parameters()))


@pytest.mark.parametrize("selection", ["top", "sample"])
@pytest.mark.parametrize("edits_at_once", [1, 3, 4, 20])
def test_training_in_blocks_equals_its_definition_bit_for_bit(
    edits_at_once: int, selection: str
) -> None:
    """A block of 1 is Algorithm 1 as in `test_reinforce`; 3 and 4 leave a shorter last block; 20 is an epoch."""
    head, episodes = learned(ScriptedModel(moody), edits_at_once, selection)
    expected_head, expected = block_by_block(edits_at_once, selection)
    assert episodes == expected
    assert torch.equal(head, expected_head)
    assert len({episode.k for episode in episodes}) > 2, "the test needs a run in which sigma cuts"


@pytest.mark.parametrize("selection", ["top", "sample"])
def test_training_depends_on_seed_and_block_but_not_on_threads(selection: str) -> None:
    head, episodes = learned(ScriptedModel(moody), 4, selection)
    for threads in (1, 2, 4, 16):
        again, other = learned(ScriptedModel(jitter(moody), calls_at_once=threads), 4, selection)
        assert other == episodes and torch.equal(again, head)
    assert not torch.equal(learned(ScriptedModel(moody), 1, selection)[0], head)


def test_late_and_noisy_rewards_do_not_depend_on_threads() -> None:
    def after(threads: int) -> list[torch.Tensor]:
        model, retriever = (
            ScriptedModel(jitter(moody), calls_at_once=threads),
            Retriever(ENCODER, seed=1),
        )
        channel = disturbed(5, 0.2, episodes=2 * len(CASES), seed=0)
        list(trained_in_blocks(model, retriever, 4, epochs=2, channel=channel))
        return list(retriever.head.parameters())

    assert all(torch.equal(one, other) for one, other in zip(after(1), after(4), strict=True))


def test_every_edit_of_a_block_uses_the_budget_at_its_start() -> None:
    _, episodes = learned(ScriptedModel(moody), len(CASES))
    assert [episode.k for episode in episodes[: len(CASES)]] == [16] * len(CASES)
    assert min(episode.k for episode in episodes[len(CASES) :]) < 16
    sigmas = [episode.budget.sigma for episode in episodes if isinstance(episode.budget, Threshold)]
    assert sigmas == sorted(sigmas)


def test_abandoned_or_interrupted_training_leaves_no_thread() -> None:
    episodes = trained_in_blocks(
        ScriptedModel(jitter(moody), calls_at_once=4), Retriever(ENCODER), 4
    )
    assert next(episodes).case_id == CASES[0].case_id
    episodes.close()
    assert not threads_of_drike()

    asked = count()

    def stops(prompt: str) -> str:
        if next(asked) == 40:
            press_ctrl_c()
        time.sleep(0.001)
        return moody(prompt)

    with pytest.raises(KeyboardInterrupt):
        list(trained_in_blocks(ScriptedModel(stops, calls_at_once=4), Retriever(ENCODER), 4))


def test_a_block_of_fewer_than_1_edit_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        in_blocks(0)


# -- several edits in one call ---------------------------------------------------------------------------------------


def together(model: ScriptedModel, edits: int) -> ScriptedModel:
    """A model that answers the questions of this many edits fastest in one call."""
    model.info = replace(model.info, edits_per_call=edits)
    return model


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("edits", [3, 100])
def test_outcomes_do_not_depend_on_how_many_edits_are_asked_in_a_call(
    scores: bool, edits: int
) -> None:
    for make in (
        lambda model: FactPrompt(),
        lambda model: InContextEditor("IKE", POOL, RankAndCut(Similarity(), Threshold())),
        EditCoTFull,
    ):
        one = ScriptedModel(follows_the_fact, scores=scores)
        unedited = unedited_answers(one, CASES)
        several = together(ScriptedModel(follows_the_fact, scores=scores), edits)
        assert unedited_answers(several, CASES) == unedited
        one.calls = several.calls = 0
        expected = timeless(evaluate(make(one), one, CASES, unedited=unedited))
        assert timeless(evaluate(make(several), several, CASES, unedited=unedited)) == expected
        assert several.calls < one.calls


@pytest.mark.parametrize("edits", [3, 100])
def test_answers_under_choices_do_not_depend_on_how_many_edits_are_asked_in_a_call(
    edits: int,
) -> None:
    choices = [LeaveAlone(), RankAndCut(Similarity(), Threshold())]
    one = ScriptedModel(moody_or_nothing)
    several = together(ScriptedModel(moody_or_nothing), edits)
    expected = list(answers_under(choices, one, POOL, CASES))
    assert list(answers_under(choices, several, POOL, CASES)) == expected
    assert several.calls < one.calls == len(CASES)


@pytest.mark.parametrize("edits", [2, 100])
@pytest.mark.parametrize("block", [1, 4])
def test_training_depends_on_the_block_but_not_on_how_many_edits_are_asked_in_a_call(
    block: int, edits: int
) -> None:
    one = ScriptedModel(moody)
    several = together(ScriptedModel(moody), edits)
    head, episodes = learned(one, block)
    again, others = learned(several, block)
    assert others == episodes
    assert torch.equal(again, head)
    assert several.prompts == one.prompts
    assert (several.calls < one.calls) == (block > 1)


@pytest.mark.parametrize("recorded", [0, 3, 6])
def test_recorded_rewards_come_before_those_earned_in_the_same_call(recorded: int) -> None:
    model = together(ScriptedModel(moody), 4)
    first = list(trained_in_blocks(model, Retriever(ENCODER, seed=1), 4, epochs=1))
    whole = rewrite_reward(model)
    model.prompts.clear()
    retriever = Retriever(ENCODER, seed=1)
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Threshold()))
    again = train(editor, replayed(first[:recorded], whole), CASES, epochs=1, schedule=in_blocks(4))
    rewards = [episode.rewards for episode in again]
    assert len(rewards) == len(CASES)
    assert rewards[:recorded] == [episode.rewards for episode in first[:recorded]]
    assert len(model.prompts) == sum(len(each) for each in rewards[recorded:])


def moody_or_nothing(prompt: str) -> str:
    """Answer some prompts right, others not."""
    return follows_the_fact(prompt) if zlib.crc32(prompt.encode()) % 3 else "nothing"
