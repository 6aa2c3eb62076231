"""Local weights: any causal language model of Hugging Face transformers, from a folder, the cache or the hub.

Weights are float32 on the CPU, where that is also the deterministic choice, and as stored elsewhere; the logits are
always computed in float32, since half-precision logits tie and would make the first choice depend on batching.

Prompts to complete that share prefixes are first read as one packed tree, from which each gets its own copy of the keys
and values along its path; the others are batched by length.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn.functional import linear
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from drike.errors import ModelError, require_unicode
from drike.models.local import attention, tokens
from drike.models.local.attention import Plan, Strategy
from drike.models.local.huggingface import open_checkpoint, refusal
from drike.models.local.memory import PrefixCache
from drike.models.local.scoring import Scorer, forward
from drike.models.local.tokens import Tokens
from drike.models.local.tree import build_tree
from drike.models.protocols import ANSWER_TOKENS, Completion, ModelInfo, Prompts, Request, Score, Template, Usage, cut
from drike.support.huggingface import commit_of

_HEAD_ROWS = 16384
_PAD = 0  # any token will do: padding is masked before a prompt and cut off after an answer


def load(
    name_or_path: str, *, device: str | None = None, dtype: torch.dtype | None = None, **options: Any
) -> HuggingFaceModel:
    """Load a model from a folder or a hub name; `options` are those of `HuggingFaceModel`, also its name.

    device: "cuda", "cpu", "mps"...; None is the best available. dtype: of the weights; None is float32 on the CPU and
    as stored elsewhere. Raises ModelError.
    """
    model: Any
    try:
        best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        place = torch.device(device or best or "cpu")
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"there is no device {device!r} here: choose cpu, or leave the choice to drike") from error
    try:
        model, tokenizer = open_checkpoint(name_or_path, dtype or (torch.float32 if place.type == "cpu" else None))
        opened = HuggingFaceModel(model.to(place), tokenizer, **{"name": name_or_path, **options})
        opened.generate(["The capital of France is"], max_tokens=1)  # files that are wrong are found here, not in a run
        opened.usage = Usage()
    except torch.OutOfMemoryError as error:
        raise ModelError(f"{name_or_path} does not fit on {place}: choose device='cpu' or a smaller model") from error
    except ModelError:
        raise
    except Exception as error:  # transformers raises almost anything for damaged or unusual files
        raise refusal(name_or_path, error) from error
    return opened


class HuggingFaceModel:
    """A loaded transformers model with its tokenizer. Not safe to share between threads.

    The model is frozen, put in evaluation mode and, with half-precision weights, given a float32 head.

    template: "plain" passes prompts on as they are, "chat" as a user's turn. remember: keep scores in memory, so that a
    repeated request costs nothing. budget: most tokens in one forward; None is as many as the memory holds. strategy:
    of scoring (tree, fork, naive); None is the fastest that is exact for the model. keep: bytes of keys and
    values kept between calls; None is a share of the memory. Without both a score depends on its own call only.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        template: Template = "plain",
        remember: bool = True,
        budget: int | None = None,
        strategy: Strategy | None = None,
        keep: int | None = None,
    ) -> None:
        if template == "chat":
            tokens.check_template(tokenizer, name)
        self.template: Template = template
        model.train(False).requires_grad_(False)
        self._model, self._tokenizer = model, tokenizer
        attention.use_given_masks(model)
        _decode_greedily(model, tokenizer)
        _head_in_float32(model)
        self._scorer = Scorer(model, budget, strategy, keep)
        self._memory: dict[bytes, Score] = {}
        self._remember = remember
        self.usage = Usage()
        self._name = name

    @property
    def plan(self) -> Plan:
        """How `score` works with this model, and why; a failed self-check changes it."""
        return self._scorer.plan

    @property
    def info(self) -> ModelInfo:
        """The model's properties; identity contains hashes of its config and of a sample of every tensor."""
        scoring = f"{self.plan.strategy}: {self.plan.reason}"
        return ModelInfo(self._name, 1, scoring, self._identity, turns=self.template == "chat")

    @cached_property
    def _identity(self) -> dict[str, object]:
        weights = hashlib.sha256()
        for _, tensor in sorted(self._model.state_dict().items()):
            weights.update(tensor.flatten()[:64].float().cpu().numpy().tobytes())
        return {
            "name": self._name,
            "architecture": type(self._model).__name__,
            "parameters": self._model.num_parameters(),
            "config_sha256": hashlib.sha256(self._model.config.to_json_string().encode()).hexdigest(),
            "weights_sha256": weights.hexdigest(),
            "revision": commit_of(self._name),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "device": str(self._model.device),
            "template": self.template,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def forget(self) -> None:
        """Drop cached scores and prefixes."""
        self._memory.clear()
        self._scorer.prefixes.clear()

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """Count the tokens of each prompt as the model reads it."""
        return list(map(len, tokens.encode_prompts(self._tokenizer, prompts, self.template)))

    def generate(self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n") -> list[Completion]:
        """Complete each prompt greedily, cut before `stop`. Raises ModelError for one beyond the context window."""
        began = time.perf_counter()
        encoded = tokens.encode_prompts(self._tokenizer, prompts, self.template)
        for ids in encoded:
            self._check_length(len(ids), max_tokens, "to be written")
        result = self._scorer.within_memory(lambda: self._write(encoded, max_tokens, stop), list(map(len, encoded)))
        read, written = sum(map(len, encoded)), sum(completion.completion_tokens or 0 for completion in result)
        self._count(began, Usage(prompts=len(prompts), prompt_tokens=read, completion_tokens=written))
        return result

    def _count(self, began: float, work: Usage) -> None:
        self.usage += work + Usage(calls=1, seconds=time.perf_counter() - began)

    @property
    def chats(self) -> bool:
        """Whether there is a chat template, as `reply` needs it."""
        return bool(self._tokenizer.chat_template)

    def reply(self, messages: list[dict[str, str]], max_tokens: int) -> Completion:
        """Answer a conversation of messages with role and content, greedily. Raises ModelError."""
        text = tokens.render_chat(self._tokenizer, messages)
        require_unicode([text])
        [ids] = self._tokenizer([text], add_special_tokens=False, verbose=False)["input_ids"]
        self._check_length(len(ids), max_tokens, "to be written")
        return self._write([tuple(ids)], max_tokens, None)[0]

    def _write(self, prompts: list[Tokens], max_tokens: int, stop: str | None) -> list[Completion]:
        padding = attention.tolerates_padding(self._model)
        shared = self._scorer.families(prompts) if padding else []
        alone: list[list[int]] = []  # batches without shared prefixes, the longest prompts first
        for i in sorted(set(range(len(prompts))).difference(*shared), key=lambda i: -len(prompts[i])):
            head = len(prompts[alone[-1][0]]) if alone else 0
            fits = alone and (len(alone[-1]) + 1) * head <= self._scorer.budget
            if fits and (padding or head == len(prompts[i])):
                alone[-1].append(i)
            else:
                alone.append([i])
        completions: dict[int, Completion] = {}
        for batch, prefixes in [(b, self._scorer.prefixes) for b in shared] + [(b, None) for b in alone]:
            written = self._write_together([prompts[i] for i in batch], max_tokens, stop, prefixes)
            completions.update(zip(batch, written, strict=True))
        return [completions[i] for i in range(len(prompts))]

    def _write_together(
        self, prompts: list[Tokens], max_tokens: int, stop: str | None, prefixes: PrefixCache | None
    ) -> list[Completion]:
        """Complete a batch; with `prefixes`, what it shares is read once, and not at all if this cache has it."""
        model: Any = self._model
        longest = max(map(len, prompts))
        ends = model.generation_config.eos_token_id or []
        texts = [torch.tensor(prompt) for prompt in prompts]
        ids = pad_sequence(texts, batch_first=True, padding_value=_PAD, padding_side="left")
        real = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True, padding_side="left")
        lengths: dict[int, int] = {}  # tokens of each finished answer, with the one that ended it

        def over(so_far: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
            for row, written in enumerate(so_far[:, longest:].tolist()):
                if row not in lengths:
                    text = tokens.decode(self._tokenizer, written)
                    if written[-1] in ends or cut(text, stop) != text:
                        lengths[row] = len(written)
            return torch.tensor([row in lengths for row in range(len(prompts))], device=so_far.device)

        attention.forget_length(model)
        with torch.inference_mode():
            cache, read = None, sum(map(len, prompts))
            if prefixes is not None:
                cache, read = _shared_cache(model, prompts, prefixes)
            inputs = {"attention_mask": real.to(model.device), "pad_token_id": _PAD, "past_key_values": cache}
            output = model.generate(ids.to(model.device), max_new_tokens=max_tokens, stopping_criteria=[over], **inputs)
        completions = []
        for row, written in enumerate(output[:, longest:].tolist()):
            answer = written[: lengths.get(row, len(written))]
            text = tokens.decode(self._tokenizer, answer[:-1] if answer[-1] in ends else answer)
            completions.append(Completion(cut(text, stop), len(prompts[row]), len(answer)))
            read += len(answer)
        self.usage += Usage(tokens_computed=read)
        return completions

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score the continuations, in order; prefixes that requests share are read once.

        Raises ModelError for an empty continuation, one that merges with its prompt, a text beyond the context window.
        """
        began = time.perf_counter()
        keys = [hashlib.blake2b(repr(request).encode(), digest_size=16).digest() for request in requests]
        fresh = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._memory}
        encoded = tokens.encode_requests(self._tokenizer, list(fresh.values()), self.template)
        for request in encoded:
            self._check_length(request.start, len(request.ids) - request.start, "of the continuation")
        computed, spent = self._scorer.read(encoded)
        scores = {}
        for key, request, found in zip(fresh, encoded, computed, strict=True):
            following = tokens.text_after(self._tokenizer, request.ids[request.start :], found.following)
            scores[key] = Score(found.logprobs, found.greedy, found.logit_gap, following, request.start)
        result = [scores[key] if key in scores else self._memory[key] for key in keys]
        if self._remember:
            self._memory.update(scores)
        lengths = [(score.prompt_tokens or 0) + len(score.logprobs) for score in result]
        cached = [length for key, length in zip(keys, lengths, strict=True) if key not in fresh]
        scored = sum(len(score.logprobs) for score in result)
        spent += Usage(prompts=len(requests), prompt_tokens=sum(lengths) - scored, completion_tokens=scored)
        self._count(began, spent + Usage(cached=len(cached), tokens_cached=sum(cached)))
        return result

    def _check_length(self, prompt: int, more: int, what: str) -> None:
        window = attention.context_window(self._model.config)
        if window is not None and prompt + more > window:
            sizes = f"{prompt} prompt tokens and {more} {what} are more than the {window} tokens {self._name} can read"
            drop = f"drop retains with `prompt_tokens` {max(1, window - more)} (in Python the editor's TokenLimit)"
            otherwise = "so if these are too long, give shorter records or a model that reads more"
            raise ModelError(f"{sizes}: {drop}; copies and updates stay, {otherwise}")


def _decode_greedily(model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    """Drop a checkpoint's generation settings, such as penalties and sampling, except its end-of-text tokens."""
    settings: Any = transformers.GenerationConfig
    ends = getattr(model.generation_config, "eos_token_id", None)
    ends = tokenizer.eos_token_id if ends is None else ends
    model.generation_config = settings(eos_token_id=[ends] if isinstance(ends, int) else ends)


def _head_in_float32(model: Any) -> None:
    """Compute the logits of half-precision weights in float32; the model still applies its own caps and scales."""
    head = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear or head.weight.dtype == torch.float32:
        return  # a quantised head has its own arithmetic

    def precisely(module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        # In slices of the vocabulary, so that no float32 copy of the whole matrix is ever held.
        parts = [linear(inputs[0].float(), rows.float()) for rows in module.weight.split(_HEAD_ROWS)]
        logits = torch.cat(parts, dim=-1)
        return logits if module.bias is None else logits + module.bias.float()

    head.register_forward_hook(precisely)


def _shared_cache(model: Any, prompts: Sequence[Tokens], prefixes: PrefixCache) -> tuple[DynamicCache, int]:
    """Keys and values of the prompts without their last tokens, [batch, heads, longest - 1, size of a head] each.

    Also the number of tokens read, the last ones included.
    """
    tree = build_tree([prompt[:-1] for prompt in prompts])
    trunk = tree.ids[: tree.trunk]
    first, packed = prefixes.recall(trunk)
    if first < len(tree):
        inputs = attention.tree_inputs(model, tree, first)
        forward(model, np.array([0]), use_cache=True, past_key_values=packed, **inputs)
        prefixes.keep(trunk, packed)
    longest = max(map(len, tree.paths))
    paths = np.stack([np.pad(path, (longest - len(path), 0)) for path in tree.paths])
    where = torch.from_numpy(paths).to(model.device)
    result = DynamicCache()
    layers: Any = packed.layers
    for i, layer in enumerate(layers):
        keys, values = (states[0][:, where].transpose(0, 1) for states in (layer.keys, layer.values))
        result.update(keys, values, i)
    return result, len(tree) - first + len(prompts)
