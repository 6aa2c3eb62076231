"""Every scoring strategy gives the log-probabilities of plain forwards, for every kind of model."""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch

from drike.errors import ModelError
from drike.models.local import scoring as ways
from drike.models.local import self_check
from drike.models.local.token_trees import TokenTree
from drike.models.local.tokens import Encoded, encode_requests
from drike.models.protocols import Request
from tests.fakes.tiny_models import (
    ALONE,
    FORKS,
    TREES,
    alone,
    bloom,
    deepseek_v32,
    doge,
    dynamic_rope,
    episode,
    gemma3,
    gemma3n,
    gemma4,
    gpt1,
    gpt2,
    llama,
    off,
    reformer,
    tokenizer,
    wrap,
)

PLANNED = (
    dict.fromkeys(TREES, "tree") | dict.fromkeys(FORKS, "fork") | dict.fromkeys(ALONE, "naive")
)
MAKE = TREES | FORKS | ALONE
# One of each way to attend and of each strategy; `make slow` tries the others.
KINDS = {
    "Llama",
    "GPT-2",
    "Gemma 3",
    "BLOOM",
    "Mistral, window",
    "Llama, yarn",
    "Phi-3, longrope",
    "gpt-oss",
}
KINDS |= {"DeepSeek-V3", "Llama 4", "Mamba", "Jamba", "BART"}


def few_by_default(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in KINDS else pytest.mark.slow) for name in names]


def questions(seed: int) -> list[Request]:
    """Requests of an evaluated edit: one set of demonstrations, several queries, two targets."""
    prompt = episode(seed, 1)[0].prompt
    shown = prompt[: prompt.rindex("New Fact")]
    rng = random.Random(seed)
    queries = [episode(seed + 100 * i, 1)[0].prompt.rsplit("\n", 1)[1] for i in range(1, 5)]
    return [
        Request(shown + query, f" {target}")
        for query in queries
        for target in rng.sample(["Rome", "Oslo"], 2)
    ]


def short_questions(seed: int, words: int) -> list[Request]:
    """A prompt of a few words, with two targets."""
    rng = random.Random(seed)
    names = " ".join(rng.choice(["Ada", "Karl", "Mount", "Lake", "Lima"]) for _ in range(words))
    return [Request(names, " Rome"), Request(names, " Oslo")]


def test_every_kind_is_one_that_is_tried() -> None:
    assert MAKE.keys() >= KINDS


@pytest.mark.parametrize("name", few_by_default(MAKE))
@pytest.mark.sampled(3)
def test_scores_equal_plain_forwards(name: str) -> None:
    model = wrap(MAKE[name], remember=False, keep=0)
    requests = episode(1) + questions(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        scores = model.score(requests)
    assert model._scorer.plan.strategy == PLANNED[name]
    expected = alone(model, requests)
    assert off(scores, expected) < 1e-4
    assert [score.greedy for score in scores] == [reading.greedy for reading in expected]
    assert np.allclose([s.logit_gap for s in scores], [r.logit_gap for r in expected], atol=1e-3)
    if PLANNED[name] != "naive":
        before = model.usage
        model.score(requests)  # needs no check
        spent = model.usage - before
        assert spent.tokens_computed < spent.tokens / 2


@pytest.mark.parametrize("name", few_by_default(TREES))
@pytest.mark.sampled(3)
def test_scores_from_a_cached_prefix_are_exact(name: str) -> None:
    """Further requests of the same edit, in parts: each starts from prefixes cached before."""
    model = wrap(MAKE[name], remember=False)
    requests = episode(1) + questions(1)
    once = model.score(requests)
    parts = [requests[i : i + 4] for i in range(0, len(requests), 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for part in parts:
            model.score(part)  # which is checked
        before = model.usage
        again = [score for part in parts for score in model.score(part)]
    assert off(again, alone(model, requests)) < 1e-4
    assert [score.greedy for score in again] == [score.greedy for score in once]
    if name != "Phi-3, longrope":  # whose positions depend on the length of the text
        spent = model.usage - before
        assert spent.tokens_computed < spent.tokens / 3


@pytest.mark.parametrize("name", few_by_default(TREES))
def test_a_wrong_mask_would_be_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: a plain causal mask over the packed tree is off by more than half a nat here."""

    def leaky(self: TokenTree, **limits: Any) -> Any:
        return np.tril(np.ones((len(self), len(self)), dtype=bool))[limits.get("first", 0) :]

    model = wrap(MAKE[name])
    encoded = encode_requests(tokenizer(), episode(1)[: 4 if "longrope" in name else None], "plain")
    right = ways.score_naively(model._model, encoded).scores
    monkeypatch.setattr(TokenTree, "mask", leaky)
    assert ways.disagreement(ways.score_tree(model._model, ways.pack(encoded)).scores, right) > 0.5


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "Gemma 3", "BLOOM", "Mamba"])
@pytest.mark.parametrize("strategy", ["fork", "naive"])
@pytest.mark.sampled(3)
def test_every_slower_strategy_is_exact(name: str, strategy: Any) -> None:
    if (name, strategy) == ("Mamba", "fork"):
        pytest.skip("its state cannot be continued by several tokens at once: see plans.plan")
    model = wrap(MAKE[name], strategy=strategy)
    assert off(model.score(episode(2)), alone(model, episode(2))) < 1e-4
    assert model._scorer.plan.strategy == strategy


@pytest.mark.parametrize("name", ["Mamba", "Jamba"])
def test_the_check_detects_models_whose_state_cannot_be_forked(name: str) -> None:
    model = wrap(MAKE[name], strategy="fork")
    with pytest.warns(UserWarning, match="not exact"):
        scores = model.score(episode(2))
    assert off(scores, alone(model, episode(2))) < 1e-4
    assert model._scorer.plan.strategy == "naive"


def test_dynamic_rope_models_are_scored_one_prompt_at_a_time() -> None:
    model = wrap(dynamic_rope)
    requests = episode(2)
    scores = model.score(requests)
    assert off(scores, alone(model, requests)) < 1e-4
    lengths = [len(request.ids) for request in encode_requests(tokenizer(), requests, "plain")]
    assert sum(length > 96 for length in lengths) <= model.usage.forwards
    prompts = [request.prompt for request in requests]
    assert model.generate(prompts) == [model.generate([prompt])[0] for prompt in prompts]


def test_longrope_models_pack_short_and_long_texts_separately() -> None:
    model = wrap(TREES["Phi-3, longrope"], remember=False)
    requests = episode(2)
    assert off(model.score(requests), alone(model, requests)) < 1e-4
    assert model._scorer.plan.strategy == "tree"
    before = model.usage
    model.score(requests)  # needs no check
    assert (model.usage - before).forwards == 2


def test_a_failed_check_warns_once_and_falls_back_to_exact_scores() -> None:
    model = wrap(llama)
    expected = alone(model, episode(3))
    # An attention that ignores its mask, as a future model might.
    for layer in model._model.model.layers:
        forward = layer.self_attn.forward
        layer.self_attn.forward = lambda *a, forward=forward, **k: forward(
            *a, **k | {"attention_mask": None}
        )
    with pytest.warns(UserWarning, match="not exact"):
        scores = model.score(episode(3))
    assert off(scores, expected) < 1e-4
    assert model._scorer.plan.strategy == "naive" and "check" in model._scorer.plan.reason
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert off(model.score(episode(4)), alone(model, episode(4))) < 1e-4


@pytest.mark.parametrize("make", [doge, deepseek_v32])
def test_a_model_that_is_exact_for_short_texts_only_is_read_plainly(make: Any) -> None:
    """Its attention is sparse, so that what is wrong shows at depths beyond its window only."""
    model = wrap(make)
    short = [request for seed in range(14) for request in short_questions(seed, words=4)]
    deep = short_questions(20, words=4) + short_questions(30, words=36)
    with pytest.warns(UserWarning, match="not exact"):
        for requests in (short, deep):
            assert off(model.score(requests), alone(model, requests)) < 1e-4
    assert model._scorer.plan.strategy == "naive"


@pytest.mark.parametrize("keep", [0, None])
def test_nothing_leaves_that_is_deeper_than_what_was_checked(
    keep: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts grow by a word a call: a tree is read at no depth that was not looked at before."""
    model = wrap(llama, keep=keep, remember=False)
    checked = [0]
    compared = self_check.CheckedReader._compared

    def noted(self: Any, requests: Any, *rest: Any, **options: Any) -> Any:
        attempt = compared(self, requests, *rest, **options)
        if options and attempt.scored is not None:
            checked.append(max(len(request.ids) for request in requests))
        return attempt

    monkeypatch.setattr(self_check.CheckedReader, "_compared", noted)
    depths = []
    for words in range(3, 60, 2):
        requests = short_questions(1, words)
        depths.append(max(len(one.ids) for one in encode_requests(tokenizer(), requests, "plain")))
        model.score(requests)
        assert depths[-1] < max(checked)
    assert len(depths) > 3 * len(checked)


@pytest.mark.parametrize("late", [False, True])
def test_a_model_that_fails_beyond_a_depth_is_given_up_before_it(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 60 tokens on a branch is off, in one case only if it leaves the trunk there."""
    model = wrap(llama, keep=0, remember=False)
    read = self_check.score_tree

    def wrong(model: Any, packed: ways.PackedRequests, *prefixes: Any) -> Any:
        scored = read(model, packed, *prefixes)
        scores = list(scored.scores)
        for i, path in enumerate(packed.tree.paths):
            beside = int((path >= packed.tree.trunk).sum())
            if len(path) >= 60 and beside and (not late or len(path) - beside >= 60):
                worse = tuple(logprob - 0.1 for logprob in scores[i].logprobs)
                scores[i] = scores[i]._replace(logprobs=worse)
        return scored._replace(scores=scores)

    monkeypatch.setattr(self_check, "score_tree", wrong)
    with pytest.warns(UserWarning, match="not exact"):
        for words in range(3, 60, 3):
            requests = short_questions(1, words)
            assert off(model.score(requests), alone(model, requests)) < 1e-4
    assert model._scorer.plan.strategy != "tree"


@pytest.mark.parametrize("make", [gemma4, gemma3n, gpt1])
def test_models_whose_sizes_differ_between_layers_or_that_keep_no_state_are_read(make: Any) -> None:
    model = wrap(make)
    assert off(model.score(episode(1)), alone(model, episode(1))) < 1e-4
    prompts = [request.prompt for request in episode(1)]
    assert model.generate(prompts, 3) == [model.generate([prompt], 3)[0] for prompt in prompts]


def test_a_model_that_draws_numbers_while_it_reads_is_refused() -> None:
    """Two plain forwards over the same text differ; with a seed they do not."""
    with pytest.raises(ModelError, match=r"each time .*set `hash_seed` in its config.json"):
        wrap(reformer).score(episode(1))
    with pytest.raises(ModelError, match="each time"):
        wrap(reformer).require_repeatable()
    model = wrap(lambda: reformer(hash_seed=1))
    model.require_repeatable()
    assert off(model.score(episode(1)), alone(model, episode(1))) < 1e-4


def test_a_model_that_draws_at_long_texts_alone_is_refused_at_the_first_of_them() -> None:
    """However little longer it is than one that was read twice alike."""
    model = wrap(reformer)
    with pytest.raises(ModelError, match="each time"):
        for words in range(8, 90, 4):
            requests = short_questions(1, words)[:1]
            assert off(model.score(requests), alone(model, requests)) < 1e-4


@pytest.mark.parametrize("make", [llama, bloom])
def test_a_drawing_model_is_refused_whatever_its_strategy(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = wrap(make)
    forward = model._model.forward

    def noisy(**inputs: Any) -> Any:
        output = forward(**inputs)
        output.logits += torch.randn(output.logits.shape)
        return output

    noisy.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(model._model, "forward", noisy)
    with pytest.raises(ModelError, match=r"each time .*: choose another model"):
        model.score(episode(1))


@pytest.mark.slow
def test_prompts_of_ordinary_lengths_are_rarely_checked() -> None:
    """At most one tree in a hundred costs two plain forwards, after the first ones."""
    model = wrap(llama, remember=False, keep=0)
    trees = [short_questions(seed, words=20 + seed % 17) for seed in range(200)]
    for tree in trees[:20]:
        model.score(tree)
    before = model.usage
    for tree in trees[20:]:
        model.score(tree)
    checks = ((model.usage - before).forwards - 180) / 2
    assert checks <= 0.02 * 180


def test_an_inexact_prefix_cache_is_disabled_without_disabling_the_tree() -> None:
    model = wrap(llama, remember=False)
    model.score(episode(1))
    for (
        trunk
    ) in model._scorer.prefixes._trunks:  # as if a model's cache held other values than expected
        for keys, _ in trunk.layers:
            keys.mul_(-1)
    assert off(model.score(episode(1)), alone(model, episode(1))) < 1e-4
    assert model._scorer.plan.strategy == "tree"
    assert not len(model._scorer.prefixes)


@pytest.mark.parametrize(
    "make", [llama, *(pytest.param(make, marks=pytest.mark.slow) for make in (gemma3, gpt2, bloom))]
)
def test_greedy_flags_and_following_tokens_agree_with_generate(make: Any) -> None:
    """Compare 60 prompts and 120 targets per model with its own `generate`.

    Half the targets are what it writes.
    """
    model = wrap(make)
    prompts = sorted({request.prompt for seed in range(10) for request in episode(seed)})
    assert len(prompts) == 60
    requests = []
    followings = []
    for prompt in prompts:
        inputs = tokenizer()(prompt, return_tensors="pt")
        prompt_ids = inputs["input_ids"][0].tolist()
        output = model._model.generate(**inputs, max_new_tokens=4, do_sample=False, pad_token_id=0)
        written = output[0, len(prompt_ids) :].tolist()
        first, second, *further = written
        another = (second + 7) % 300 + 1
        for token in (second, another):
            requests.append(Encoded((*prompt_ids, first, token), len(prompt_ids)))
        followings.append(further[0] if further else None)

    scores, _ = model._scorer.read(requests)

    for right, wrong, following in zip(scores[::2], scores[1::2], followings, strict=True):
        assert right.greedy and right.logit_gap >= 0
        assert not wrong.greedy and wrong.logit_gap < 0
        assert following is None or right.following == following


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_agrees_with_plain_forwards_and_has_no_ties(dtype: torch.dtype) -> None:
    model = wrap(lambda: llama().to(dtype))
    scores = model.score(episode(1))
    assert off(scores, alone(model, episode(1))) < 0.1
    assert model._scorer.plan.strategy == "tree"
    assert all(score.logit_gap != 0 for score in scores)
