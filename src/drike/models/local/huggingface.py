"""Local weights: any causal language model of Hugging Face transformers, from a folder, the cache or the hub.

Only safetensors are read, and code that comes with a checkpoint is never run. The logits are always
computed in float32, since half-precision logits tie and would make the first choice depend on
batching.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import transformers
from huggingface_hub import HfApi, errors
from safetensors import SafetensorError
from torch.nn.functional import linear
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    DynamicCache,
    PreTrainedModel,
)
from transformers import PreTrainedTokenizerBase as Tokenizer

from drike.errors import ModelError, reason
from drike.models.local import architecture, attention, tokens
from drike.models.local.plans import Strategy
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.scorer import Scorer
from drike.models.local.scoring import forward
from drike.models.local.token_trees import build_tree
from drike.models.local.tokens import Tokens
from drike.models.protocols import (
    ANSWER_TOKENS,
    Completion,
    ModelInfo,
    Prompts,
    Request,
    Score,
    Template,
    Usage,
    cut,
)
from drike.support.huggingface import commit_of, like, pinned, quiet

_HEAD_ROWS = 16384
_REACH_SECONDS = 10.0
_MOST_LAYERS = 10_000  # more would take hours to build, before their weights are missed
_PAD = 0  # any token will do: padding is masked before a prompt and cut off after an answer


def load(
    name_or_path: str,
    *,
    device: str | None = None,
    dtype: torch.dtype | None = None,
    **options: Any,
) -> HuggingFaceModel:
    """Load a model from a folder or a hub name.

    `options` are those of `HuggingFaceModel`, also its name. device: "cuda", "cpu", "mps"...; None
    is the best available. dtype: of the weights; None is float32 on the CPU (also the deterministic
    choice), and as stored elsewhere. Raises ModelError.
    """
    model: Any
    try:
        best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        place = torch.device(device or best or "cpu")
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(
            f"there is no device {device!r} here: choose cpu, or leave the choice to drike"
        ) from error
    try:
        model, tokenizer = open_checkpoint(
            name_or_path, dtype or (torch.float32 if place.type == "cpu" else None)
        )
        opened = HuggingFaceModel(model.to(place), tokenizer, **{"name": name_or_path, **options})
        opened.generate(
            ["The capital of France is"], max_tokens=1
        )  # files that are wrong are found here, not in a run
        opened.usage = Usage()
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"{name_or_path} does not fit on {place}: choose device='cpu' or a smaller model"
        ) from error
    except ModelError:
        raise
    except Exception as error:  # transformers raises almost anything for damaged or unusual files
        raise _refusal(name_or_path, error) from error
    return opened


class HuggingFaceModel:
    """A loaded transformers model, which is frozen, with its tokenizer.

    Not safe to share between threads. template: as of `models.load`. remember: keep scores in
    memory, so that a repeated request costs nothing. budget: most tokens in one forward; None is as
    many as the memory holds. strategy: of scoring; None is the fastest exact one. keep: bytes of
    keys and values kept between calls; None is a share of the memory. Without `remember` and `keep`
    a score depends on its own call only.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: Tokenizer, *, name: str, template: Template = "plain",
        remember: bool = True, budget: int | None = None, strategy: Strategy | None = None, keep: int | None = None,
    ) -> None:  # fmt: skip
        if template == "chat":
            tokens.check_template(tokenizer, name)
        self.template: Template = template
        model.train(False).requires_grad_(False)
        self._model, self._tokenizer = model, tokenizer
        attention.use_given_masks(model)
        ends = getattr(model.generation_config, "eos_token_id", None)
        ends = tokenizer.eos_token_id if ends is None else ends
        # All other settings of the checkpoint, such as penalties and sampling, are dropped.
        settings: Any = transformers.GenerationConfig
        model.generation_config = settings(eos_token_id=[ends] if isinstance(ends, int) else ends)
        _head_in_float32(model)
        self._scorer = Scorer(model, budget, strategy, keep)
        self._memory: dict[bytes, Score] = {}
        self._name, self._remember = name, remember
        self.usage = Usage()

    @property
    def info(self) -> ModelInfo:
        """The model's properties.

        Identity contains hashes of its config and of a sample of every tensor.
        """
        plan = self._scorer.plan  # a failed self-check changes it
        scoring = f"{plan.strategy}: {plan.reason}"
        return ModelInfo(self._name, 1, scoring, self._identity, turns=self.template == "chat")

    @cached_property
    def _identity(self) -> dict[str, object]:
        weights = hashlib.sha256()
        for _, tensor in sorted(self._model.state_dict().items()):
            weights.update(tensor.flatten()[:64].float().cpu().numpy().tobytes())
        config = hashlib.sha256(self._model.config.to_json_string().encode())
        return {
            "name": self._name, "architecture": type(self._model).__name__, "parameters": self._model.num_parameters(),
            "config_sha256": config.hexdigest(), "weights_sha256": weights.hexdigest(),
            "revision": commit_of(self._name), "dtype": str(self._model.dtype).removeprefix("torch."),
            "device": str(self._model.device), "template": self.template,
            "torch": torch.__version__, "transformers": transformers.__version__,
        }  # fmt: skip

    def forget(self) -> None:
        """Drop cached scores and prefixes."""
        self._memory.clear()
        self._scorer.prefixes.clear()

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """Count the tokens of each prompt as the model reads it."""
        return list(map(len, tokens.encode_prompts(self._tokenizer, prompts, self.template)))

    def generate(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Complete each prompt greedily, cut before `stop`.

        Raises ModelError for one beyond the context window.
        """
        began = time.perf_counter()
        encoded = tokens.encode_prompts(self._tokenizer, prompts, self.template)
        for ids in encoded:
            self._check_length(len(ids), max_tokens, "to be written")
        result = self._scorer.within_memory(
            lambda: self._write(encoded, max_tokens, stop), list(map(len, encoded))
        )
        read, written = (
            sum(map(len, encoded)),
            sum(completion.completion_tokens or 0 for completion in result),
        )
        self._count(
            began, Usage(prompts=len(prompts), prompt_tokens=read, completion_tokens=written)
        )
        return result

    def _count(self, began: float, work: Usage) -> None:
        self.usage += work + Usage(calls=1, seconds=time.perf_counter() - began)

    @property
    def chats(self) -> bool:
        """Whether there is a chat template, as `reply` needs it."""
        return bool(self._tokenizer.chat_template)

    def reply(self, messages: list[dict[str, str]], max_tokens: int) -> Completion:
        """Answer a conversation of messages with role and content, greedily. Raises ModelError."""
        [ids], _ = tokens.encode(
            self._tokenizer, [tokens.render_chat(self._tokenizer, messages)], "chat"
        )
        self._check_length(len(ids), max_tokens, "to be written")
        return self._write([ids], max_tokens, None)[0]

    def _write(self, prompts: list[Tokens], max_tokens: int, stop: str | None) -> list[Completion]:
        padding = architecture.tolerates_padding(self._model)
        shared = self._scorer.families(prompts) if padding else []
        alone: list[list[int]] = []  # batches without shared prefixes, the longest prompts first
        for i in sorted(
            set(range(len(prompts))).difference(*shared), key=lambda i: -len(prompts[i])
        ):
            head = len(prompts[alone[-1][0]]) if alone else 0
            fits = alone and (len(alone[-1]) + 1) * head <= self._scorer.budget
            if fits and (padding or head == len(prompts[i])):
                alone[-1].append(i)
            else:
                alone.append([i])
        completions: dict[int, Completion] = {}
        for batch, prefixes in [(b, self._scorer.prefixes) for b in shared] + [
            (b, None) for b in alone
        ]:
            written = self._write_together([prompts[i] for i in batch], max_tokens, stop, prefixes)
            completions.update(zip(batch, written, strict=True))
        return [completions[i] for i in range(len(prompts))]

    def _write_together(
        self, prompts: list[Tokens], max_tokens: int, stop: str | None, prefixes: PrefixCache | None
    ) -> list[Completion]:
        """Complete a batch.

        With `prefixes`, what it shares is read once, and not at all if this cache has it.
        """
        model: Any = self._model
        longest = max(map(len, prompts))
        ends = model.generation_config.eos_token_id or []
        texts = [torch.tensor(prompt) for prompt in prompts]
        ids = pad_sequence(texts, batch_first=True, padding_value=_PAD, padding_side="left")
        real = pad_sequence(
            [torch.ones_like(text) for text in texts], batch_first=True, padding_side="left"
        )
        lengths: dict[int, int] = {}  # tokens of each finished answer, with the one that ended it

        def over(so_far: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
            for row, written in enumerate(so_far[:, longest:].tolist()):
                if row not in lengths:
                    text = tokens.decode(self._tokenizer, written)
                    if written[-1] in ends or cut(text, stop) != text:
                        lengths[row] = len(written)
            return torch.tensor(
                [row in lengths for row in range(len(prompts))], device=so_far.device
            )

        architecture.forget_length(model)
        with torch.inference_mode():
            cache, read = None, sum(map(len, prompts))
            if prefixes is not None:
                cache, read = _shared_cache(model, prompts, prefixes)
            inputs = {
                "attention_mask": real.to(model.device),
                "pad_token_id": _PAD,
                "past_key_values": cache,
            }
            output = model.generate(
                ids.to(model.device), max_new_tokens=max_tokens, stopping_criteria=[over], **inputs
            )
        completions = []
        for row, written in enumerate(output[:, longest:].tolist()):
            answer = written[: lengths.get(row, len(written))]
            text = tokens.decode(self._tokenizer, answer[:-1] if answer[-1] in ends else answer)
            completions.append(Completion(cut(text, stop), len(prompts[row]), len(answer)))
            read += len(answer)
        self.usage += Usage(tokens_computed=read)
        return completions

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score the continuations, in order.

        ModelError for one that is empty, too long, or merges with its prompt.
        """
        began = time.perf_counter()
        keys = [
            hashlib.blake2b(repr(request).encode(), digest_size=16).digest() for request in requests
        ]
        fresh = {
            key: request
            for key, request in zip(keys, requests, strict=True)
            if key not in self._memory
        }
        encoded = tokens.encode_requests(self._tokenizer, list(fresh.values()), self.template)
        for request in encoded:
            self._check_length(
                request.start, len(request.ids) - request.start, "of the continuation"
            )
        computed, spent = self._scorer.read(encoded)
        scores = {}
        for key, request, found in zip(fresh, encoded, computed, strict=True):
            following = tokens.text_after(
                self._tokenizer, request.ids[request.start :], found.following
            )
            scores[key] = Score(
                found.logprobs, found.greedy, found.logit_gap, following, request.start
            )
        result = [scores[key] if key in scores else self._memory[key] for key in keys]
        if self._remember:
            self._memory.update(scores)
        lengths = [(score.prompt_tokens or 0) + len(score.logprobs) for score in result]
        cached = [length for key, length in zip(keys, lengths, strict=True) if key not in fresh]
        scored = sum(len(score.logprobs) for score in result)
        spent += Usage(
            prompts=len(requests), prompt_tokens=sum(lengths) - scored, completion_tokens=scored
        )
        self._count(began, spent + Usage(cached=len(cached), tokens_cached=sum(cached)))
        return result

    def _check_length(self, prompt: int, more: int, what: str) -> None:
        window = architecture.context_window(self._model.config)
        if window is not None and prompt + more > window:
            sizes = f"{prompt} prompt tokens and {more} {what} are more than the {window} tokens {self._name} can read"
            drop = f"drop retains with `prompt_tokens` {max(1, window - more)} (in Python the editor's TokenLimit)"
            otherwise = "so if these are too long, give shorter records or a model that reads more"
            raise ModelError(f"{sizes}: {drop}; copies and updates stay, {otherwise}")


def _head_in_float32(model: Any) -> None:
    """Compute the logits of half-precision weights in float32.

    The model still applies its own caps and scales.
    """
    head = model.get_output_embeddings()
    if type(head) is not torch.nn.Linear or head.weight.dtype == torch.float32:
        return  # a quantised head has its own arithmetic

    def precisely(
        module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> torch.Tensor:
        # In slices of the vocabulary, so that no float32 copy of the whole matrix is ever held.
        parts = [
            linear(inputs[0].float(), rows.float()) for rows in module.weight.split(_HEAD_ROWS)
        ]
        logits = torch.cat(parts, dim=-1)
        return logits if module.bias is None else logits + module.bias.float()

    head.register_forward_hook(precisely)


def _shared_cache(
    model: Any, prompts: Sequence[Tokens], prefixes: PrefixCache
) -> tuple[DynamicCache, int]:
    """Keys and values [batch, heads, longest - 1, size of a head] of prompts but their last tokens.

    The tokens read.
    """
    tree = build_tree([prompt[:-1] for prompt in prompts])
    trunk = tree.ids[: tree.trunk]
    first, packed = prefixes.recall(trunk)
    if first < len(tree):
        inputs = attention.tree_inputs(model, tree, first)
        forward(model, np.array([0]), use_cache=True, past_key_values=packed, **inputs)
        prefixes.keep(trunk, packed)
    paths = np.stack([np.pad(path, (tree.trunk - len(path), 0)) for path in tree.paths])
    where = torch.from_numpy(paths).to(model.device)
    result = DynamicCache()
    for i, layer in enumerate(cast("Any", packed.layers)):
        keys, values = (
            states[0][:, where].transpose(0, 1) for states in (layer.keys, layer.values)
        )
        result.update(keys, values, i)
    return result, len(tree) - first + len(prompts)


def open_checkpoint(
    name_or_path: str, dtype: torch.dtype | None
) -> tuple[PreTrainedModel, Tokenizer]:
    """Open a causal language model and its tokenizer; dtype None: the stored one.

    Raises what `load` explains.
    """
    with quiet():
        try:  # the local cache first, so that a downloaded model works, and works the same, offline
            model, tokenizer, missing = _read(name_or_path, dtype, local=True)
        except OSError:
            if Path(name_or_path).is_dir():
                raise
            _ask_hub(name_or_path)
            model, tokenizer, missing = _read(name_or_path, dtype, local=False)
        if missing:
            what = "it is not a complete causal language model"
            raise ModelError(
                f"{name_or_path} holds no weights for {missing[0]} ({len(missing)} missing): {what}"
            )
        _require_causal(model, name_or_path)
    return model, tokenizer


def _read(
    name_or_path: str, dtype: torch.dtype | None, *, local: bool
) -> tuple[PreTrainedModel, Tokenizer, list[str]]:
    """Read model, tokenizer, and the names of missing weights.

    local: only from folders and the cache, or OSError.
    """
    name, revision = pinned(name_or_path)
    where: dict[str, Any] = {
        "trust_remote_code": False,
        "local_files_only": local,
        "revision": revision or "main",
    }
    layers = getattr(
        AutoConfig.from_pretrained(name, **where).get_text_config(), "num_hidden_layers", 0
    )
    if layers > _MOST_LAYERS:
        remedy = "download it again"
        raise ModelError(
            f"{name_or_path} has {layers} layers by its config.json, which must be damaged: {remedy}"
        )
    tokenizer = AutoTokenizer.from_pretrained(name, **where)
    options = where | {
        "dtype": dtype or "auto",
        "use_safetensors": True,
        "output_loading_info": True,
    }
    opened: Any = AutoModelForCausalLM.from_pretrained(name, **options)
    return opened[0], tokenizer, sorted(opened[1]["missing_keys"])


def _ask_hub(name: str) -> None:
    """Raise ModelError unless the hub has this model.

    One short request: loaders would retry for half a minute.
    """
    local = "give the path of a local folder with config.json, tokenizer.json and model.safetensors"
    repository, revision = pinned(name)
    try:
        HfApi().model_info(repository, revision=revision, timeout=_REACH_SECONDS)
    except errors.HFValidationError as error:
        raise ModelError(
            f"there is no model folder {name!r}{like(name)}: {local}, or a hub name"
        ) from error
    except errors.GatedRepoError as error:
        remedy = "log in with `hf auth login`"
        raise ModelError(
            f"{name} can be downloaded only after accepting its licence: {remedy}"
        ) from error
    except errors.RepositoryNotFoundError as error:
        remedy = f"correct the name, or {local}"
        raise ModelError(
            f"{name} is neither a folder nor a model on the hub{like(name)}: {remedy}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(
            f"{repository} has no revision {revision} on the hub: correct it, or leave it out"
        ) from error
    except (errors.HTTPError, OSError) as error:  # type: ignore[attr-defined]  # of the HTTP library that the hub uses
        here = f"{name} is not a folder or in the cache{like(name)}"
        raise ModelError(f"{here}, and the hub cannot be reached: {local}") from error


def _refusal(name_or_path: str, error: Exception) -> ModelError:
    """Say in one sentence why a model cannot be used, given what transformers raised."""
    text, model = str(error), name_or_path
    if lacking := _lacks(Path(model)):
        files = "config.json, tokenizer.json and model.safetensors, as save_pretrained writes it"
        sentence = f"{model} holds no {lacking}: give a folder with {files}"
    elif isinstance(error, SafetensorError):
        sentence = f"the weights of {model} are damaged or cut short: download or copy them again"
    elif "trust_remote_code" in text:
        sentence = f"{model} needs code of its own, which is never run here: choose another model"
    elif "Unrecognized configuration class" in text:
        sentence = f"{model} is not a causal language model: choose one that completes text"
    elif "safetensors" in text and isinstance(error, OSError):
        remedy = "convert it with save_pretrained, or choose another model"
        sentence = (
            f"{model} has no safetensors weights, and pickled ones are never opened: {remedy}"
        )
    elif "ignore_mismatched_sizes" in text:
        sentence = f"the weights of {model} do not have the shapes that its config.json gives: download both again"
    else:
        why = "its config.json or tokenizer files are damaged, or need another version of transformers"
        sentence = f"{model} cannot be opened ({reason(error)}): {why}"
    return ModelError(sentence)


def _lacks(folder: Path) -> str | None:
    """The first file that a model's folder lacks; None if it has all, or is no folder."""
    kinds = {
        "config.json": ("config.json",),
        "tokenizer.json": ("tokenizer*", "vocab.*", "*.model"),
    }
    kinds |= {
        "model.safetensors": ("*.safetensors", "*.bin", "*.pt", "*.pth")
    }  # pickled ones have their own message
    missing = (
        wanted
        for wanted, names in kinds.items()
        if not any(any(folder.glob(name)) for name in names)
    )
    return next(missing, None) if folder.is_dir() else None


def _require_causal(model: PreTrainedModel, name_or_path: str) -> None:
    """Raise ModelError unless the first token's logits are finite, and stay the same when the next one changes."""
    with torch.inference_mode():
        first, other = (
            model(input_ids=torch.tensor([[1, next_]])).logits[0, 0].float() for next_ in (2, 3)
        )
    if not first.isfinite().any():
        remedy = "its weights or config.json are damaged, download them again"
        raise ModelError(f"{name_or_path} computes no finite number: {remedy}")
    if not torch.allclose(first, other, rtol=1e-2, atol=1e-2, equal_nan=True):
        remedy = "it is an encoder, choose a causal language model"
        raise ModelError(f"{name_or_path} ({type(model).__name__}) looks ahead: {remedy}")
