"""The local backend: memory, budgets, tokens, decoding and loading.

Exactness is in `test_exactness`.
"""

from __future__ import annotations

import inspect
import random
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors

from drike.edits.edit import Edit
from drike.errors import DrikeError, ModelError
from drike.gates.by_name import Named
from drike.models.local.completer import _Ending
from drike.models.local.huggingface import HuggingFaceModel, load
from drike.models.local.tokens import encode_requests
from drike.models.protocols import Request
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.factprompt import FactPrompt
from tests.fakes.tiny_models import (
    FORKS,
    PLACES,
    TREES,
    alone,
    bart,
    bloom,
    episode,
    gemma3,
    gpt2,
    llama,
    off,
    tokenizer,
    widen,
    wrap,
)


@pytest.fixture(scope="module", name="tokenizer")
def shared_tokenizer() -> Any:
    return tokenizer()


def test_scores_keep_the_order_of_requests_and_repeats_agree(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer, remember=False)
    requests = [request for seed in range(3) for request in episode(seed, 3)]
    scores = dict(zip(requests, model.score(requests), strict=True))
    shuffled = requests + requests[:4]
    random.Random(5).shuffle(shuffled)
    for request, score in zip(shuffled, model.score(shuffled), strict=True):
        assert score.logprobs == pytest.approx(scores[request].logprobs, abs=1e-4)


def test_a_model_that_computes_no_numbers_is_refused(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer, remember=False)
    with torch.no_grad():
        model._model.lm_head.weight[-1] = torch.nan
    for requests in (episode(6)[:1], episode(6)):
        with pytest.raises(ModelError, match="computes no numbers"):
            model.score(requests)


def test_cached_scores_are_equal_and_need_no_forward(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    requests = episode(6)
    first = model.score(requests)
    before = model.usage
    assert model.score(list(reversed(requests))) == list(reversed(first))
    spent = model.usage - before
    assert (spent.forwards, spent.tokens_computed, spent.cached) == (0, 0, len(requests))
    assert spent.tokens_cached == spent.tokens > 0
    forgetful = wrap(llama, tokenizer, remember=False)
    forgetful.score(requests)
    before = forgetful.usage
    again = forgetful.score(requests)
    assert [s.logprobs for s in again] == [pytest.approx(s.logprobs, abs=1e-4) for s in first]
    assert (forgetful.usage - before).forwards > 0


def test_a_small_token_budget_splits_the_tree_without_changing_scores(tokenizer: Any) -> None:
    requests = [request for seed in range(3) for request in episode(seed, 4)]
    whole = wrap(llama, tokenizer)
    pieces = wrap(llama, tokenizer, budget=300)
    expected = whole.score(requests)
    for score, other in zip(pieces.score(requests), expected, strict=True):
        assert score.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert pieces.usage.forwards > whole.usage.forwards


def test_parts_of_a_split_tree_reuse_their_prefix(tokenizer: Any) -> None:
    spent = []
    for keep in (None, 0):
        model = wrap(llama, tokenizer, budget=320, keep=keep)
        model.score(episode(9, 8))  # few checks from here on
        before = model.usage
        requests = [
            Request(episode(0, 5)[-1].prompt + f" {place} or", " Rome") for place in PLACES * 3
        ]
        requests = [Request(one.prompt + " Oslo" * i, " Rome") for i, one in enumerate(requests, 1)]
        assert off(model.score(requests), alone(model, requests)) < 1e-4
        spent.append(model.usage - before)
    kept, read_again = spent
    assert read_again.forwards >= kept.forwards > 4
    assert kept.tokens_computed < 0.6 * read_again.tokens_computed


def test_several_answers_to_one_prompt_read_it_once(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    [request, *_] = episode(3)
    first = model.generate([request.prompt], max_tokens=4, stop=None)
    before = model.usage
    assert model.generate([request.prompt], max_tokens=4, stop=None) == first
    assert (model.usage - before).tokens_computed <= 1 + 4


def test_forget_clears_all_cached_state(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    first = model.score(episode(6))
    spent = model.usage
    model.forget()
    assert model.score(episode(6)) == first  # bit for bit
    assert (model.usage - spent).tokens_cached == 0


def test_running_out_of_memory_halves_the_budget(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = wrap(llama, tokenizer, budget=4000)
    requests = episode(1)
    expected = alone(model, requests)
    forward = model._model.forward
    longest = max(len(request.ids) for request in encode_requests(tokenizer, requests, "plain"))

    def small_device(input_ids: torch.Tensor, **inputs: Any) -> Any:
        if input_ids.numel() > longest:
            raise torch.OutOfMemoryError
        return forward(input_ids=input_ids, **inputs)

    small_device.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    monkeypatch.setattr(model._model, "forward", small_device)
    with pytest.warns(UserWarning, match="out of memory"):
        assert off(model.score(requests), expected) < 1e-4
    assert model.usage.forwards > 1
    prompts = [request.prompt for request in requests]
    roomy = wrap(llama, tokenizer)
    assert model.generate(prompts, 3, None) == roomy.generate(prompts, 3, None)
    model.forget()  # otherwise the prompt would reuse a shorter cached prefix
    with pytest.raises(ModelError, match="memory does not hold one prompt"):
        model.score([Request(f"{requests[-1].prompt} Oslo and", " Rome")])


def test_each_kind_of_bad_request_has_its_own_error(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    with pytest.raises(ModelError, match="' ' is empty"):
        model.score([Request("Ada was born in", " ")])
    with pytest.raises(
        ModelError, match="'Paris' merges with the end of its prompt 'Ada was born in '"
    ):
        model.score([Request("Ada was born in ", "Paris")])
    with pytest.raises(ModelError, match="empty prompt"):
        model.score([Request("", " Paris")])
    with pytest.raises(ModelError, match="empty prompt"):
        model.generate([""])
    with pytest.raises(
        ModelError, match=r"\d{4} prompt tokens and \d+ of the continuation are more than the 640"
    ):
        model.score([Request("Ada was born in" * 400, " Paris")])
    with pytest.raises(
        ModelError, match=r"\d{4} prompt tokens and 16 to be written are more than the 640"
    ):
        model.generate(["Ada was born in" * 400])


def test_half_a_character_is_refused_in_a_sentence(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    half = "Ada was born in \ud83d"
    asked = (
        lambda: model.generate([half]), lambda: model.count_tokens([half]), lambda: model.score([Request(half, " a")]),
        lambda: model.score([Request("Ada was born in", " \ud83d")]),
        lambda: EditedModel(model, FactPrompt(), Edit("A is in", "Rome", subject="A"), gate=Named()).ask(half),
    )  # fmt: skip
    for ask in asked:
        with pytest.raises(DrikeError, match="holds half a character"):
            ask()


def test_continuations_are_located_by_character_offsets(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    for target in (" Paris", " New York", " Málaga", " 東京", " O'Brien", "\nRome"):
        [encoded] = encode_requests(tokenizer, [Request("Ada Byron comes from", target)], "plain")
        assert tokenizer.decode(encoded.ids[encoded.start :]) == target
        assert tokenizer.decode(encoded.ids[: encoded.start]) == "Ada Byron comes from"
        [score] = model.score([Request("Ada Byron comes from", target)])
        assert len(score.logprobs) == len(encoded.ids) - encoded.start
        assert score.prompt_tokens == encoded.start


def test_special_tokens_around_a_text_are_not_scored(tokenizer: Any) -> None:
    core = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    core.post_processor = processors.TemplateProcessing(
        single="<|end|> $A <|end|>", special_tokens=[("<|end|>", 0)]
    )
    closing = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")
    [encoded] = encode_requests(closing, [Request("Ada comes from", " Paris")], "plain")
    assert closing.decode(encoded.ids) == "<|end|>Ada comes from Paris"
    assert closing.decode(encoded.ids[encoded.start :]) == " Paris"


def test_a_tokenizer_without_offsets_falls_back_to_the_common_prefix() -> None:
    slow = transformers.ByT5Tokenizer()
    assert not slow.is_fast
    [encoded] = encode_requests(slow, [Request("Ada comes from", " Paris")], "plain")
    assert slow.decode(list(encoded.ids[encoded.start :])) == " Paris"


SHARING = [
    llama,
    gpt2,
    gemma3,
    *(TREES[name] for name in ("Qwen2, window", "Mistral, window", "Gemma 2")),
]
ALONE = [bloom, FORKS["GPT-Neo"], bart]  # each prompt is written by itself


@pytest.mark.parametrize(
    "make",
    [
        llama,
        SHARING[-1],
        bloom,
        *(pytest.param(make, marks=pytest.mark.slow) for make in (*SHARING[1:-1], *ALONE[1:])),
    ],
)
def test_batched_generation_equals_single_prompt_generation(make: Any, tokenizer: Any) -> None:
    model = wrap(make, tokenizer)
    prompts = [request.prompt for request in episode(8, 3)] + [
        "Ada",
        "Karl Orff was born in",
        "Lima",
    ]
    together = model.generate(prompts, max_tokens=5, stop=None)
    for prompt, completion in zip(prompts, together, strict=True):
        ids = tokenizer(prompt, return_tensors="pt")
        out = model._model.generate(**ids, max_new_tokens=5, do_sample=False, pad_token_id=0)
        assert completion.text == tokenizer.decode(
            out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True
        )
        assert completion.prompt_tokens == ids["input_ids"].shape[1]
    saved = model.usage.tokens - model.usage.tokens_computed
    assert (saved > 0) == (make in SHARING)


def test_an_answer_stops_at_the_end_of_its_first_nonempty_line(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    line = tokenizer("\n")["input_ids"][0]
    word = tokenizer(" Paris")["input_ids"][0]
    plan_of_tokens = [line, word, line, word, word]
    head = model._model.get_output_embeddings()
    step = iter(plan_of_tokens)

    def dictate(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(output, -1.0)
        forced[..., next(step)] = 1.0
        return forced

    head.register_forward_hook(dictate)
    [completion] = model.generate(["Ada comes from"], max_tokens=5)
    assert completion.text == tokenizer.decode([line, word])
    assert completion.completion_tokens == 3


def test_sampling_settings_of_a_checkpoint_are_ignored(tokenizer: Any) -> None:
    raw = widen(llama())
    raw.generation_config.update(
        do_sample=True, temperature=2.0, repetition_penalty=3.0, eos_token_id=0
    )
    plain = wrap(llama, tokenizer)
    prompts = ["Ada Byron comes from", "Karl Orff was born in"]
    assert HuggingFaceModel(raw, tokenizer, name="x").generate(prompts) == plain.generate(prompts)


CHAT = (
    "{% for m in messages %}<|user|>\n{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|reply|>{{ END }}{% endif %}"
)


@pytest.mark.parametrize("end", ["\n", ""])
def test_chat_prompts_are_one_user_turn_followed_by_the_reply(end: str, tokenizer: Any) -> None:
    core = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    chatty = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")
    chatty.chat_template = CHAT.replace("{{ END }}", end)
    [encoded] = encode_requests(chatty, [Request("Ada comes from", " Paris")], "chat")
    whole = chatty.decode(encoded.ids)
    assert whole.startswith("<|user|>\nContinue the text below.")
    assert whole.endswith("Ada comes from\n<|reply|>" + (end + "Paris" if end else " Paris"))
    [begun] = encode_requests(
        chatty, [Request("Ada comes from Rome or", " Paris", own=len(" Rome or"))], "chat"
    )
    assert chatty.decode(begun.ids).endswith(f"Ada comes from\n<|reply|>{end} Rome or Paris"), (
        "the reply so far is its own"
    )
    model = wrap(llama, chatty, template="chat")
    [score] = model.score([Request("Ada comes from", " Paris")])
    [completion] = model.generate(["Ada comes from"], max_tokens=2, stop=None)
    assert completion.prompt_tokens == score.prompt_tokens == encoded.start


def test_conversations_answered_together_get_the_answers_that_each_gets_alone(
    tokenizer: Any,
) -> None:
    core = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    chatty = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")
    chatty.chat_template = CHAT.replace("{{ END }}", "<|end|>\n")
    model = wrap(llama, chatty, template="chat")
    said = ["Ada comes from", "Peru", "The capital of Peru and of Chile is"]
    conversations = [[{"role": "user", "content": text}] for text in said]
    alone = [model.reply(messages, 6) for messages in conversations]
    assert model.replies(conversations, 6) == alone
    assert len({completion.text for completion in alone}) > 1


def test_chat_without_a_template_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ModelError, match="no chat template"):
        wrap(llama, tokenizer, template="chat")


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Any) -> Path:
    torch.manual_seed(0)
    widen(llama()).to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_saved_model_loads_quietly_with_its_identity(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = load(str(folder), device="cpu")
    assert model.score is not None
    said = capfd.readouterr()
    assert said.out == said.err == ""
    identity = model.info.identity
    assert (identity["dtype"], identity["device"], identity["architecture"]) == (
        "float32",
        "cpu",
        "LlamaForCausalLM",
    )
    half = load(str(folder), device="cpu", dtype=torch.bfloat16)
    assert half.info.identity["dtype"] == "bfloat16"
    assert half.info.identity["weights_sha256"] == identity["weights_sha256"]
    assert model.count_tokens(["Ada comes from"])[0] > 1
    assert model.score([Request("Ada comes from", " Rome")])[0].logprob < 0


def test_unusable_models_are_refused_with_a_remedy(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    tokenizer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elsewhere = tmp_path_factory.mktemp("models")
    with pytest.raises(ModelError, match="no model folder"):
        load(str(elsewhere / "none"))
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        load(str(elsewhere))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="hub cannot be reached: give the path of a local folder"):
        load("nobody/nothing")

    encoder = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=340,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
        )
    )
    widen(encoder).save_pretrained(elsewhere)
    tokenizer.save_pretrained(elsewhere)
    with pytest.raises(ModelError, match=r"encoder|no weights for"):
        load(str(elsewhere))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no safetensors"):
        load(str(folder))


@given(st.lists(st.sampled_from(["a", "Ro", "me", " ", "\n", " x", "1", "<think>", "</", "think", ">", ".", "[/THINK]", "é"]), min_size=1, max_size=9))  # fmt: skip
def test_only_tokens_that_may_end_an_answer_are_decoded(pieces: list[str]) -> None:
    tokens = tokenizer()
    written = [token for piece in pieces for token in tokens(piece)["input_ids"]]
    ending = _Ending(tokens, [0], "\n", 0, None)
    for length in range(1, len(written) + 1):
        if not ending._may_end(written[:length]):
            was_over = length > 1 and ending._is_over(written[: length - 1])
            assert ending._is_over(written[:length]) == was_over
