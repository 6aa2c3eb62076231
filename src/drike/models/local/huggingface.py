"""Local weights: any causal language model of Hugging Face transformers.

The logits are always computed in float32, since half-precision logits tie and would make the first
choice depend on batching.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from drike.errors import ModelError
from drike.models.local import preparation, tokens
from drike.models.local.architecture import context_window
from drike.models.local.attention import use_given_masks
from drike.models.local.checkpoints import open_checkpoint, refusal
from drike.models.local.completer import Completer
from drike.models.local.contrast import Contrasted, ContrastedChoice, ContrastReader
from drike.models.local.plans import Strategy
from drike.models.local.scorer import Scorer, TokenBudget
from drike.models.local.scoring import TokenScores
from drike.models.local.sources import not_opened, source_of
from drike.models.local.tokens import Encoded, Tokens
from drike.models.named import hub_name
from drike.models.protocols import (
    ANSWER_TOKENS,
    Completion,
    ModelInfo,
    Prompts,
    Request,
    Score,
    Template,
    Turns,
    Usage,
)
from drike.prompts import Against, Contrast
from drike.support.huggingface import commit_of

_REPEATED = 256  # tokens of a text that is read twice: some models draw numbers for long ones only
_EDITS_PER_CALL = 32  # whose trees fill a card
_IDENTIFYING = 64  # numbers of every tensor; all of them would take seconds to read


def load(
    name_or_path: str,
    *,
    device: str | None = None,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> HuggingFaceModel:
    """Load a model from a folder, a GGUF file, or by a hub name or a short name.

    `options` are those of `HuggingFaceModel`, also its name. device: "cuda", "cpu", "mps"...; None
    is the best available. dtype: of the weights; None is float32 on the CPU (also the deterministic
    choice), and as stored elsewhere. Raises ModelError.
    """
    place = _device(device)
    if dtype is None and place.type == "cpu":
        dtype = torch.float32
    try:
        model: Any
        model, tokenizer = open_checkpoint(source_of(name_or_path), dtype)
        opened = HuggingFaceModel(model.to(place), tokenizer, **{"name": name_or_path, **options})
        # Files that are wrong are found here, not in a run.
        opened.generate(["The capital of France is"], max_tokens=1)
        opened.require_repeatable()
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"{name_or_path} does not fit on {place}: choose device='cpu' or a smaller model"
        ) from error
    except ModelError as error:
        raise not_opened(name_or_path, error) from error.__cause__
    except Exception as error:  # transformers raises almost anything for damaged or unusual files
        raise refusal(name_or_path, error) from error
    opened.usage = Usage()
    return opened


class HuggingFaceModel:
    """A loaded transformers model, which is frozen, with its tokenizer.

    Not safe to share between threads. template: as of `models.load`. remember: keep scores in
    memory, so that a repeated request costs nothing. budget: most tokens in one forward; None is as
    many as the memory holds and the device is fast with. strategy: of scoring; None is the fastest
    exact one. keep: bytes of keys and values kept between calls; None is a share of the memory.
    Without `remember` and `keep` a score depends on its own call only.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        *,
        name: str,
        template: Template = "plain",
        remember: bool = True,
        budget: int | TokenBudget | None = None,
        strategy: Strategy | None = None,
        keep: int | None = None,
    ) -> None:
        if template == "chat":
            tokens.check_template(tokenizer, name)
        model.train(False).requires_grad_(False)
        use_given_masks(model)
        preparation.decode_greedily(model, tokenizer)
        preparation.head_in_float32(model)
        self.template: Template = template
        self.usage = Usage()
        self._model = model
        self._tokenizer = tokenizer
        self._name = name
        self._window = context_window(model.config)
        self._remember = remember
        self._score_by_key: dict[bytes, Score] = {}
        self._scorer = Scorer(model, budget, strategy, keep)
        self._completer = Completer(model, tokenizer, self._scorer)
        self._contrasts = ContrastReader(model)

    @property
    def info(self) -> ModelInfo:
        """The model's properties.

        Identity contains hashes of its config and of a sample of every tensor.
        """
        plan = self._scorer.plan  # a failed self-check changes it
        return ModelInfo(
            self._name,
            calls_at_once=1,
            scoring=f"{plan.strategy}: {plan.reason}",
            identity=self._identity,
            turns=self.template == "chat",
            contrasts=True,
            edits_per_call=_EDITS_PER_CALL if self._scorer.batches else 1,
        )

    @cached_property
    def _identity(self) -> dict[str, object]:
        model = self._model
        config = hashlib.sha256(model.config.to_json_string().encode())
        weights = hashlib.sha256()
        for _, tensor in sorted(model.state_dict().items()):
            sample = tensor.flatten()[:_IDENTIFYING].float().cpu()
            weights.update(sample.numpy().tobytes())
        return {
            "name": self._name,
            "architecture": type(model).__name__,
            "parameters": model.num_parameters(),
            "config_sha256": config.hexdigest(),
            "weights_sha256": weights.hexdigest(),
            "revision": commit_of(hub_name(self._name)),
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": str(model.device),
            "template": self.template,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    @property
    def chats(self) -> bool:
        """Whether there is a chat template, as `reply` needs it."""
        return bool(self._tokenizer.chat_template)

    def forget(self) -> None:
        """Drop cached scores and prefixes."""
        self._score_by_key.clear()
        self._scorer.prefixes.clear()

    def require_repeatable(self) -> None:
        """Raise ModelError if a model that is read plainly reads the same text otherwise each time.

        Others are found out by the check of their scores.
        """
        if self._scorer.plan.strategy == "naive":
            window = self._window or _REPEATED
            length = max(2, min(_REPEATED, window))
            names = self._model.config.get_text_config().vocab_size
            ids = tuple(i % names for i in range(length))
            self._scorer.read([Encoded(ids, length - 1)])

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """Count the tokens of each prompt as the model reads it."""
        encoded = tokens.encode_prompts(self._tokenizer, prompts, self.template)
        return [len(prompt) for prompt in encoded]

    def generate(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Complete each prompt greedily, cut before `stop`.

        Raises ModelError for one beyond the context window.
        """
        began = time.perf_counter()
        encoded = tokens.encode_prompts(self._tokenizer, prompts, self.template)
        lengths = [len(prompt) for prompt in encoded]
        for length in lengths:
            self._check_length(length, max_tokens, "to be written")
        completions = self._scorer.within_memory(
            lambda: self._write(encoded, max_tokens, stop), lengths
        )
        written = sum(completion.completion_tokens or 0 for completion in completions)
        self._count_call(
            began,
            Usage(prompts=len(prompts), prompt_tokens=sum(lengths), completion_tokens=written),
        )
        return completions

    def generate_contrasted(
        self,
        prompts: Prompts,
        against: Sequence[Against],
        max_tokens: int = ANSWER_TOKENS,
        stop: str | None = "\n",
    ) -> list[Completion]:
        """Complete each prompt greedily by contrast with the same without edits, one at a time.

        Raises ModelError for one beyond the context window.
        """
        began = time.perf_counter()
        encoded = tokens.encode_prompts(self._tokenizer, prompts, self.template)
        bare_prompts = self._encode_bare([each.turns for each in against])
        completions = []
        for prompt, bare, contrast in zip(encoded, bare_prompts, against, strict=True):
            self._check_length(len(prompt), max_tokens, "to be written")
            completion = self._write_contrasted(
                prompt, bare, contrast.contrast, max_tokens=max_tokens, stop=stop
            )
            completions.append(completion)
        lengths = [len(prompt) for prompt in encoded]
        written = sum(completion.completion_tokens or 0 for completion in completions)
        self._count_call(
            began,
            Usage(prompts=len(prompts), prompt_tokens=sum(lengths), completion_tokens=written),
        )
        return completions

    def _encode_bare(self, conversations: Sequence[Turns]) -> list[Tokens]:
        """The tokens of conversations without edits."""
        prompts = [turns if len(turns) > 1 else turns[0] for turns in conversations]
        return tokens.encode_prompts(self._tokenizer, prompts, self.template)

    def _write_contrasted(
        self,
        prompt: Tokens,
        bare: Tokens,
        contrast: Contrast,
        *,
        max_tokens: int,
        stop: str | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> Completion:
        choice = ContrastedChoice(self._model, bare, contrast, len(prompt))
        completed = self._completer.complete(
            [prompt], max_tokens, stop, None, tell=tell, choice=choice
        )
        self.usage += Usage(tokens_computed=completed.tokens_computed)
        [completion] = completed.completions
        return completion

    def reply(
        self,
        messages: list[dict[str, str]],
        max_tokens: int,
        tell: Callable[[str], None] | None = None,
        *,
        bare: list[dict[str, str]] | None = None,
        contrast: Contrast | None = None,
    ) -> Completion:
        """Answer a conversation of messages with role and content, greedily.

        tell: is given the text so far after each token. bare: the conversation without edits, with
        which the answer is contrasted. Raises ModelError.
        """
        prompt = self._encode_messages(messages)
        self._check_length(len(prompt), max_tokens, "to be written")
        if bare is None or contrast is None:
            [completion] = self._write([prompt], max_tokens, None, tell)
            return completion
        bare_prompt = self._encode_messages(bare)
        return self._write_contrasted(
            prompt, bare_prompt, contrast, max_tokens=max_tokens, tell=tell
        )

    def replies(
        self, conversations: Sequence[list[dict[str, str]]], max_tokens: int
    ) -> list[Completion]:
        """Answer several conversations together, greedily, in order.

        On a CPU, which reads the weights for each token, sixteen take little longer to write than
        four. Raises ModelError.
        """
        prompts = [self._encode_messages(messages) for messages in conversations]
        lengths = [len(prompt) for prompt in prompts]
        for length in lengths:
            self._check_length(length, max_tokens, "to be written")
        return self._scorer.within_memory(lambda: self._write(prompts, max_tokens, None), lengths)

    def _encode_messages(self, messages: list[dict[str, str]]) -> Tokens:
        text = tokens.render_chat(self._tokenizer, messages)
        [encoded], _ = tokens.encode(self._tokenizer, [text], "chat")
        return encoded

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score the continuations, in order.

        ModelError for one that is empty, too long, or merges with its prompt.
        """
        if any(request.against is not None for request in requests):
            return self._score_by_kind(requests)
        began = time.perf_counter()
        keys = [_key_of(request) for request in requests]
        new_by_key = {
            key: request
            for key, request in zip(keys, requests, strict=True)
            if key not in self._score_by_key
        }
        encoded = self._encode(list(new_by_key.values()))
        way = self._scorer.way
        read, work = self._scorer.read(encoded)
        if self._scorer.way != way and self._score_by_key:
            # A check has failed: what is remembered was read in the same way, and is asked again.
            self._score_by_key.clear()
            return self.score(requests)
        computed = map(self._as_score, encoded, read)
        computed_by_key = dict(zip(new_by_key, computed, strict=True))
        scores = [
            computed_by_key[key] if key in new_by_key else self._score_by_key[key] for key in keys
        ]
        if self._remember:
            self._score_by_key.update(computed_by_key)

        lengths = [(score.prompt_tokens or 0) + len(score.logprobs) for score in scores]
        scored = sum(len(score.logprobs) for score in scores)
        cached = [
            length for key, length in zip(keys, lengths, strict=True) if key not in new_by_key
        ]
        work += Usage(
            prompts=len(requests),
            prompt_tokens=sum(lengths) - scored,
            completion_tokens=scored,
            cached=len(cached),
            tokens_cached=sum(cached),
        )
        self._count_call(began, work)
        return scores

    def _score_by_kind(self, requests: Sequence[Request]) -> list[Score]:
        """Score contrasted requests, and apart from them the others."""
        plain: list[int] = []
        contrasted: list[int] = []
        for i, request in enumerate(requests):
            kind = plain if request.against is None else contrasted
            kind.append(i)

        score_by_index: dict[int, Score] = {}
        for kind, score in ((plain, self.score), (contrasted, self._score_contrasted)):
            if kind:
                scores = score([requests[i] for i in kind])
                score_by_index.update(zip(kind, scores, strict=True))
        return [score_by_index[i] for i in range(len(requests))]

    def _score_contrasted(self, requests: Sequence[Request]) -> list[Score]:
        began = time.perf_counter()
        pairs = self._contrasted_pairs(requests)
        lengths = [len(text.ids) for pair in pairs for text in pair.texts]

        def read() -> tuple[list[TokenScores], Usage]:
            return self._contrasts.read(pairs, self._scorer.plan.strategy, self._scorer.budget)

        found, work = self._scorer.within_memory(read, lengths)
        encoded = [pair.edited for pair in pairs]
        scored = sum(len(text.ids) - text.start for text in encoded)
        prompt_tokens = sum(text.start for text in encoded)
        work += Usage(prompts=len(requests), prompt_tokens=prompt_tokens, completion_tokens=scored)
        self._count_call(began, work)
        return list(map(self._as_score, encoded, found))

    def _contrasted_pairs(self, requests: Sequence[Request]) -> list[Contrasted]:
        """The tokens of each request, and of its continuation behind the bare prompt."""
        # Requests that differ in their contrast alone have the same texts, which are encoded once.
        plain = [replace(request, against=None) for request in requests]
        distinct = list(dict.fromkeys(plain))
        encoded_by_request = dict(zip(distinct, self._encode(distinct), strict=True))
        against = [request.against for request in requests if request.against is not None]
        distinct_turns = list(dict.fromkeys(each.turns for each in against))
        bare_by_turns = dict(zip(distinct_turns, self._encode_bare(distinct_turns), strict=True))

        pairs = []
        for request, each in zip(plain, against, strict=True):
            edited = encoded_by_request[request]
            bare = bare_by_turns[each.turns]
            continuation = edited.ids[edited.start :]
            after_bare = Encoded((*bare, *continuation), len(bare))
            pairs.append(Contrasted(edited, after_bare, each.contrast))
        return pairs

    def _encode(self, requests: Sequence[Request]) -> list[Encoded]:
        """The tokens of requests. Raises ModelError for one that cannot be scored."""
        encoded = tokens.encode_requests(self._tokenizer, requests, self.template)
        for request in encoded:
            continuation = request.ids[request.start :]
            self._check_length(request.start, len(continuation), "of the continuation")
        return encoded

    def _as_score(self, request: Encoded, found: TokenScores) -> Score:
        """The score of a request, whose token after the continuation is shown as text."""
        following = tokens.text_after(
            self._tokenizer, request.ids[request.start :], found.following
        )
        return Score(found.logprobs, found.greedy, found.logit_gap, following, request.start)

    def _write(
        self,
        prompts: Sequence[Tokens],
        max_tokens: int,
        stop: str | None,
        tell: Callable[[str], None] | None = None,
    ) -> list[Completion]:
        """The completions of prompts, in order. tell: as in `reply`, for one prompt."""
        completion_by_index: dict[int, Completion] = {}
        for batch in self._completer.batches(prompts):
            together = [prompts[i] for i in batch.indices]
            completed = self._completer.complete(
                together, max_tokens, stop, batch.prefixes, tell=tell
            )
            self.usage += Usage(tokens_computed=completed.tokens_computed)
            completion_by_index.update(zip(batch.indices, completed.completions, strict=True))
        return [completion_by_index[i] for i in range(len(prompts))]

    def _count_call(self, began: float, work: Usage) -> None:
        self.usage += work + Usage(calls=1, seconds=time.perf_counter() - began)

    def _check_length(self, prompt: int, more: int, what: str) -> None:
        """Raise ModelError for more tokens than the model can read.

        more: those besides the prompt's, for `what`.
        """
        window = self._window
        if window is not None and prompt + more > window:
            raise ModelError(
                f"{prompt} prompt tokens and {more} {what} are more than the {window} tokens"
                f" {self._name} can read: drop retains with `prompt_tokens` {max(1, window - more)}"
                " (in Python the editor's TokenLimit); copies and updates stay, so if these are too"
                " long, give shorter records or a model that reads more"
            )


def _device(name: str | None) -> torch.device:
    """The device of this name, or the best one there is.

    Raises ModelError for one that is not there.
    """
    try:
        best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        device = torch.device(name or best or "cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"there is no device {name!r} here: choose cpu, or leave the choice to drike"
        ) from error
    return device


def _key_of(request: Request) -> bytes:
    """A short key for a request, so that prompts themselves are not kept."""
    return hashlib.blake2b(repr(request).encode(), digest_size=16).digest()
