"""Trees of several edits in one forward give the scores of plain forwards, or are given up."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch

from drike.models.local import attention, scorer, self_check
from drike.models.local.scorer import TokenBudget
from drike.models.local.scoring import PackedRequests, Scored, score_trees
from drike.models.protocols import Request
from tests.fakes.tiny_models import TREES, alone, episode, gemma3, llama, off, wrap
from tests.models.test_exactness import few_by_default, questions, short_questions

TOGETHER = 2000  # tokens


def several_edits() -> list[Request]:
    """What is asked of edits of all sizes: episodes, evaluated edits, and short prompts."""
    requests = []
    for seed in range(3):
        requests += questions(seed)
        requests += episode(seed, prompts=1 + seed)
        requests += short_questions(seed, words=5)
    return requests


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many trees each forward over several reads, checks included.

    Unrelated texts are not packed into one tree, so that short ones make many.
    """
    monkeypatch.setattr(scorer, "_UNRELATED", 0)
    sizes: list[int] = []

    def noted(model: Any, batch: Sequence[PackedRequests]) -> Scored:
        sizes.append(len(batch))
        return score_trees(model, batch)

    monkeypatch.setattr(self_check, "score_trees", noted)
    yield sizes


@pytest.mark.parametrize("name", few_by_default(TREES))
@pytest.mark.sampled(4)
def test_scores_of_several_edits_in_one_forward_equal_plain_forwards(
    name: str, batches: list[int]
) -> None:
    model = wrap(TREES[name], budget=TokenBudget(4096, TOGETHER))
    requests = several_edits()
    scores = model.score(requests)
    right = alone(model, requests)
    assert off(scores, right) < 1e-4
    assert [score.greedy for score in scores] == [score.greedy for score in right]
    following = [score.following for score in wrap(TREES[name]).score(requests)]
    assert [score.following for score in scores] == following
    if "longrope" in name:  # its encoding depends on the longest text of a forward
        assert not batches
    else:
        assert max(batches) >= 5


def test_a_model_reads_edits_one_by_one_on_a_processor(batches: list[int]) -> None:
    model = wrap(llama)
    assert model.info.edits_per_call == 1 or model._model.device.type == "cuda"
    assert wrap(llama, budget=TokenBudget(4096, TOGETHER)).info.edits_per_call > 1
    assert wrap(llama, budget=TokenBudget(4096, 0)).info.edits_per_call == 1
    wrap(llama, budget=TokenBudget(4096, 0)).score(several_edits())
    assert not batches


def test_a_forward_has_no_more_tokens_than_may_be_read_together(batches: list[int]) -> None:
    requests = several_edits()
    few = wrap(llama, budget=TokenBudget(4096, 400), remember=False)
    few.score(requests)
    before = list(batches)
    wide = wrap(llama, budget=TokenBudget(4096, TOGETHER), remember=False)
    wide.score(requests)
    assert max(before) < max(batches)
    again = few.score(requests)
    assert off(again, alone(few, requests)) < 1e-4


@pytest.mark.parametrize("make", [llama, gemma3])
def test_a_wrong_mask_of_a_batch_is_found_before_scores_leave(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def causal(depth: torch.Tensor, end: torch.Tensor, limits: object, first: int) -> torch.Tensor:
        keys = torch.arange(depth.shape[1], device=depth.device)
        return (keys <= keys[first:, None]).expand(len(depth), -1, -1)

    monkeypatch.setattr(attention, "_batch_mask", causal)
    model = wrap(make, budget=TokenBudget(4096, TOGETHER))
    requests = several_edits()
    with pytest.warns(UserWarning, match="several trees in one forward is not exact"):
        scores = model.score(requests)
    assert off(scores, alone(model, requests)) < 1e-4
    assert model.info.edits_per_call == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(questions(99))  # it is not tried again


def test_padding_that_is_read_is_found_before_scores_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attention._batch_mask

    def with_padding(*arguments: Any) -> torch.Tensor:
        attends = right(*arguments)
        attends[..., -8:] = True
        return attends

    monkeypatch.setattr(attention, "_batch_mask", with_padding)
    model = wrap(llama, budget=TokenBudget(4096, TOGETHER))
    requests = several_edits()
    with pytest.warns(UserWarning, match="several trees in one forward is not exact"):
        scores = model.score(requests)
    assert off(scores, alone(model, requests)) < 1e-4


def test_edits_of_ordinary_lengths_are_rarely_checked(batches: list[int]) -> None:
    model = wrap(llama, budget=TokenBudget(4096, TOGETHER), remember=False)
    requests = several_edits()
    model.score(requests)
    forwards_when_first_read = model.usage.forwards
    batches.clear()
    model.score(requests)
    assert batches
    assert model.usage.forwards == forwards_when_first_read + len(batches)


def test_memory_that_runs_out_shrinks_the_batches_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "_UNRELATED", 0)
    most = 450

    def limited(model: Any, batch: Sequence[PackedRequests]) -> Scored:
        if sum(len(packed.tree) for packed in batch) > most:
            raise torch.OutOfMemoryError
        return score_trees(model, batch)

    monkeypatch.setattr(self_check, "score_trees", limited)
    model = wrap(llama, budget=TokenBudget(600, TOGETHER), keep=0)
    requests = several_edits()
    scores = model.score(requests)
    assert off(scores, alone(model, requests)) < 1e-4
    assert model._scorer.budget == 600
    assert model._scorer.together < TOGETHER


@pytest.mark.parametrize("make", [llama, gemma3])
def test_prompts_of_several_edits_are_completed_at_once(make: Any) -> None:
    """Each edit's prompts share their beginning; which are completed together changes no text."""
    prompts = [
        prompt
        for seed in range(4)
        for prompt in dict.fromkeys(request.prompt for request in questions(seed))
    ]
    apart = wrap(make)
    written = [completion.text for completion in apart.generate(prompts, 6)]
    joined = wrap(make, budget=TokenBudget(4096, TOGETHER))
    assert [completion.text for completion in joined.generate(prompts, 6)] == written
    tokens = [joined._tokenizer(prompt)["input_ids"] for prompt in prompts]
    assert len(apart._scorer.families(tokens)) == 4
    assert len(joined._scorer.families(tokens)) == 1


@pytest.mark.parametrize("message", ["CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED"])
def test_memory_that_a_library_lacks_shrinks_batches_and_costs_no_strategy(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where several programs share a card, other errors than torch's own say that memory ran out."""
    monkeypatch.setattr(scorer, "_UNRELATED", 0)
    model = wrap(llama, budget=TokenBudget(600, TOGETHER), keep=0)
    forward = model._model.forward

    def limited(input_ids: torch.Tensor, **inputs: Any) -> Any:
        if input_ids.numel() > 1000:
            raise RuntimeError(message)
        return forward(input_ids=input_ids, **inputs)

    limited.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(model._model, "forward", limited)
    requests = several_edits()
    scores = model.score(requests)
    assert off(scores, alone(model, requests)) < 1e-4
    assert model._scorer.way == ("tree", False, True)
    assert model._scorer.together < TOGETHER
