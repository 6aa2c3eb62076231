"""Scores and answers of tiny random models: every shortcut must agree with reading one prompt after the other.

Weights are drawn wide: with the usual initialisation a model is nearly uniform, and a wrong mask would go unseen.
"""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from drike.models import ModelError, Request, Score, ScoringModel
from drike.models import scoring as ways
from drike.models.attention import plan
from drike.models.huggingface import HuggingFaceModel, load
from drike.models.tokenise import Encoded, encode_requests

SUBJECTS = ["Ada Byron", "Karl Orff", "Mount Elbrus", "Lake Como", "Niels Abel", "The Hague", "Ann Lee"]
PLACES = ["Paris", "New York", "New Orleans", "Rome", "Kyoto", "Oslo", "Lima", "Saint Petersburg"]
WINDOW = 24  # of the models with one: short enough to bite


def demonstration(rng: random.Random) -> str:
    subject, old, new = rng.choice(SUBJECTS), rng.choice(PLACES), rng.choice(PLACES)
    return f"New Fact: {subject} was born in {new}\nPrompt: {subject} comes from {old}\n\n"


def episode(seed: int, prompts: int = 6) -> list[Request]:
    """Nested prompts of one edit, two targets each: what training and evaluation ask for."""
    rng = random.Random(seed)
    shown = [demonstration(rng) for _ in range(prompts + 2)]
    query = f"New Fact: {rng.choice(SUBJECTS)} was born in Rome\nPrompt: {rng.choice(SUBJECTS)} comes from"
    texts = ["".join(shown[: k + 2]) + query for k in range(prompts)]
    return [Request(text, f" {target}") for text in texts for target in rng.sample(PLACES, 2)]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    rng = random.Random(0)
    text = [demonstration(rng) for _ in range(300)]
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=340, special_tokens=["<|end|>"], initial_alphabet=alphabet)
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")


SMALL: dict[str, Any] = {
    "vocab_size": 340,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 640,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": 0,
}


def llama(**more: Any) -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL | more))


def gpt2(**more: Any) -> Any:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 640, "vocab_size": 340, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | more))


def qwen2() -> Any:
    window = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL | window))


def mistral() -> Any:
    return transformers.MistralForCausalLM(transformers.MistralConfig(**SMALL, sliding_window=WINDOW))


def gemma2() -> Any:
    return transformers.Gemma2ForCausalLM(
        transformers.Gemma2Config(**SMALL, sliding_window=WINDOW, head_dim=8, attn_implementation="eager")
    )


def gemma3() -> Any:
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**SMALL, sliding_window=WINDOW, head_dim=8))


def bloom() -> Any:
    return transformers.BloomForCausalLM(
        transformers.BloomConfig(vocab_size=340, hidden_size=32, n_layer=2, n_head=4, eos_token_id=0)
    )


def gpt_neo() -> Any:
    return transformers.GPTNeoForCausalLM(
        transformers.GPTNeoConfig(
            vocab_size=340,
            hidden_size=32,
            num_layers=2,
            num_heads=4,
            max_position_embeddings=640,
            attention_types=[[["global", "local"], 1]],
            window_size=WINDOW,
            eos_token_id=0,
        )
    )


def dynamic_rope() -> Any:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    return llama(max_position_embeddings=96, rope_parameters=rope)


TREES = [llama, gpt2, qwen2, mistral, gemma2, gemma3]
OTHERS = [bloom, gpt_neo]


def widen(model: Any, scale: float = 0.25, seed: int = 0) -> Any:
    """Redraw the weights so wide that attention matters."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            if weight.ndim > 1:
                weight.copy_(torch.randn(weight.shape, generator=draw) * (1.0 if "emb" in name else scale))
    model.tie_weights()
    return model.eval()


def wrap(make: Callable[[], Any], tokenizer: Any, **options: Any) -> HuggingFaceModel:
    torch.manual_seed(0)
    return HuggingFaceModel(widen(make()), tokenizer, name=make.__name__, **options)


def alone(model: HuggingFaceModel, tokenizer: Any, requests: list[Request]) -> list[ways.Reading]:
    return ways.score_naively(model._model, encode_requests(tokenizer, requests, "plain"))


def off(scores: list[Score], readings: list[ways.Reading]) -> float:
    return max(
        abs(a - b)
        for score, reading in zip(scores, readings, strict=True)
        for a, b in zip(score.logprobs, reading.logprobs, strict=True)
    )


@pytest.mark.parametrize("make", TREES)
def test_tree_scores_are_those_of_plain_forwards(make: Callable[[], Any], tokenizer: Any) -> None:
    model = wrap(make, tokenizer)
    requests = episode(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = model.score(requests)
    assert model.scoring.way == "tree"
    readings = alone(model, tokenizer, requests)
    assert off(scores, readings) < 1e-4
    assert [score.greedy for score in scores] == [reading.greedy for reading in readings]
    assert np.allclose([s.margin for s in scores], [r.margin for r in readings], atol=1e-3)
    assert model.usage.tokens_computed < model.usage.tokens_read / 2


@pytest.mark.parametrize("make", TREES)
def test_a_wrong_mask_would_show(make: Callable[[], Any], tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from drike.models.token_trie import TokenTree

    def leaky(self: TokenTree, **limits: Any) -> Any:
        return np.tril(np.ones((len(self), len(self)), dtype=bool))

    model = wrap(make, tokenizer)
    encoded = encode_requests(tokenizer, episode(1), "plain")
    right = ways.score_naively(model._model, encoded)
    monkeypatch.setattr(TokenTree, "mask", leaky)
    assert ways.disagreement(ways.score_tree(model._model, encoded), right) > 0.5


@pytest.mark.parametrize("make", OTHERS)
def test_models_that_cannot_use_a_tree_are_scored_in_batches(make: Callable[[], Any], tokenizer: Any) -> None:
    model = wrap(make, tokenizer)
    requests = episode(2)
    scores = model.score(requests)
    assert model.scoring.way == "batch"
    assert off(scores, alone(model, tokenizer, requests)) < 1e-4


def test_a_rope_that_changes_with_length_is_read_one_by_one(tokenizer: Any) -> None:
    model = wrap(dynamic_rope, tokenizer)
    requests = episode(2)
    scores = model.score(requests)
    assert off(scores, alone(model, tokenizer, requests)) < 1e-4
    lengths = [len(request.ids) for request in encode_requests(tokenizer, requests, "plain")]
    assert sum(length > 96 for length in lengths) <= model.usage.forwards
    prompts = [request.prompt for request in requests]
    assert model.generate(prompts) == [model.generate([prompt])[0] for prompt in prompts]


def long_rope() -> Any:
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "rope_theta": 1e4}
    config = SMALL | {"rope_parameters": rope | {"factor": 3.0}, "original_max_position_embeddings": 120}
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(**config))


def test_short_and_long_texts_are_apart_where_their_positions_are_encoded_differently(tokenizer: Any) -> None:
    model = wrap(long_rope, tokenizer)
    requests = episode(2)
    scores = model.score(requests)
    assert off(scores, alone(model, tokenizer, requests)) < 1e-4
    assert model.scoring.way == "tree"
    assert model.usage.forwards < len(requests)


def bart() -> Any:
    sizes = {"d_model": 32, "decoder_ffn_dim": 48, "decoder_layers": 2, "decoder_attention_heads": 4}
    return transformers.BartForCausalLM(
        transformers.BartConfig(vocab_size=340, is_decoder=True, max_position_embeddings=640, **sizes)
    )


def test_a_failed_check_warns_once_and_goes_on_correctly(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    requests = episode(3)
    expected = alone(model, tokenizer, requests)
    # An attention that ignores the mask it is given, as models of the future may.
    for layer in model._model.model.layers:
        forward = layer.self_attn.forward
        layer.self_attn.forward = lambda *a, forward=forward, **k: forward(*a, **k | {"attention_mask": None})
    with pytest.warns(UserWarning, match="not exact"):
        scores = model.score(requests)
    assert off(scores, expected) < 1e-4
    assert model.scoring.way != "tree" and "check" in model.scoring.reason
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert off(model.score(episode(4)), alone(model, tokenizer, episode(4))) < 1e-4


@pytest.mark.parametrize("make", [llama, gpt2, gemma3, bloom])
def test_greedy_and_following_are_what_generation_writes(make: Callable[[], Any], tokenizer: Any) -> None:
    model = wrap(make, tokenizer)
    prompts = sorted({request.prompt for seed in range(5) for request in episode(seed, 5)})
    requests, expected = [], []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt")
        out = model._model.generate(**ids, max_new_tokens=4, do_sample=False, pad_token_id=0)
        written = out[0, ids["input_ids"].shape[1] :].tolist()
        start = ids["input_ids"].shape[1]
        for right in (True, False):
            target = written[:2] if right else [written[0], (written[1] + 7) % 300 + 1]
            requests.append(Encoded((*ids["input_ids"][0].tolist(), *target), start))
            expected.append((target == written[:2], written[2] if len(written) > 2 and right else None))
    readings, _ = model._reader.read(requests)
    for reading, (greedy, following) in zip(readings, expected, strict=True):
        assert reading.greedy is greedy
        assert (reading.margin >= 0) is greedy
        if following is not None:
            assert reading.following == following
    assert sum(reading.greedy for reading in readings) == len(prompts)


def test_order_is_kept_and_repeats_agree(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer, remember=False)
    requests = [request for seed in range(3) for request in episode(seed, 3)]
    scores = dict(zip(requests, model.score(requests), strict=True))
    shuffled = requests + requests[:4]
    random.Random(5).shuffle(shuffled)
    for request, score in zip(shuffled, model.score(shuffled), strict=True):
        assert score.logprobs == pytest.approx(scores[request].logprobs, abs=1e-4)


def test_memory_gives_the_same_scores_without_a_forward(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    requests = episode(6)
    first = model.score(requests)
    before = model.usage
    assert model.score(list(reversed(requests))) == list(reversed(first))
    spent = model.usage - before
    assert (spent.forwards, spent.tokens_computed, spent.remembered) == (0, 0, len(requests))
    assert spent.tokens_remembered == spent.tokens_read > 0
    forgetful = wrap(llama, tokenizer, remember=False)
    forgetful.score(requests)
    before = forgetful.usage
    assert forgetful.score(requests) == first
    assert (forgetful.usage - before).forwards > 0


def test_a_small_budget_cuts_the_tree_and_changes_nothing(tokenizer: Any) -> None:
    requests = [request for seed in range(3) for request in episode(seed, 4)]
    whole, pieces = wrap(llama, tokenizer), wrap(llama, tokenizer, budget=300)
    expected = whole.score(requests)
    for score, other in zip(pieces.score(requests), expected, strict=True):
        assert score.logprobs == pytest.approx(other.logprobs, abs=1e-4)
    assert pieces.usage.forwards > whole.usage.forwards


def test_running_out_of_memory_halves_the_budget(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = wrap(llama, tokenizer, budget=4000)
    requests = episode(1)
    expected = alone(model, tokenizer, requests)
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
    with pytest.raises(ModelError, match="memory does not hold one prompt"):
        model.score([Request(f"{requests[-1].prompt} Oslo and", " Rome")])


def test_half_precision_agrees_with_plain_forwards_and_has_no_ties(tokenizer: Any) -> None:
    torch.manual_seed(0)
    model = HuggingFaceModel(widen(llama()).to(torch.bfloat16), tokenizer, name="half")
    requests = episode(1)
    scores = model.score(requests)
    assert off(scores, alone(model, tokenizer, requests)) < 0.25
    logits = model._model(torch.tensor([[5, 6, 7]])).logits
    assert logits.dtype == torch.float32


def test_bad_requests_are_told_apart(tokenizer: Any) -> None:
    model = wrap(llama, tokenizer)
    with pytest.raises(ModelError, match="' ' is empty"):
        model.score([Request("Ada was born in", " ")])
    with pytest.raises(ModelError, match="'Paris' merges with the end of its prompt 'Ada was born in '"):
        model.score([Request("Ada was born in ", "Paris")])
    with pytest.raises(ModelError, match="empty prompt"):
        model.score([Request("", " Paris")])
    with pytest.raises(ModelError, match="empty prompt"):
        model.generate([""])
    with pytest.raises(ModelError, match=r"\d{4} prompt tokens and \d+ of the continuation are more than the 640"):
        model.score([Request("Ada was born in" * 400, " Paris")])
    with pytest.raises(ModelError, match=r"\d{4} prompt tokens and 16 to be written are more than the 640"):
        model.generate(["Ada was born in" * 400])


def test_continuations_are_found_by_their_characters(tokenizer: Any) -> None:
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
    core.post_processor = processors.TemplateProcessing(single="<|end|> $A <|end|>", special_tokens=[("<|end|>", 0)])
    closing = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")
    [encoded] = encode_requests(closing, [Request("Ada comes from", " Paris")], "plain")
    assert closing.decode(encoded.ids) == "<|end|>Ada comes from Paris"
    assert closing.decode(encoded.ids[encoded.start :]) == " Paris"


def test_a_tokenizer_without_offsets_uses_the_common_beginning() -> None:
    slow = transformers.ByT5Tokenizer()
    assert not slow.is_fast
    [encoded] = encode_requests(slow, [Request("Ada comes from", " Paris")], "plain")
    assert slow.decode(list(encoded.ids[encoded.start :])) == " Paris"


def test_batches_write_what_single_prompts_write(tokenizer: Any) -> None:
    for make in [*TREES, *OTHERS, bart]:
        model = wrap(make, tokenizer)
        prompts = [request.prompt for request in episode(8, 5)] + ["Ada", "Karl Orff was born in", "Lima"]
        together = model.generate(prompts, max_tokens=8, stop=None)
        for prompt, completion in zip(prompts, together, strict=True):
            ids = tokenizer(prompt, return_tensors="pt")
            out = model._model.generate(**ids, max_new_tokens=8, do_sample=False, pad_token_id=0)
            assert completion.text == tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True)
            assert completion.prompt_tokens == ids["input_ids"].shape[1]
        saved = model.usage.tokens_read - model.usage.tokens_computed
        assert (saved > 0) == (make in TREES)


def test_an_answer_stops_at_its_line_but_not_before_it_begins(tokenizer: Any) -> None:
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
    raw.generation_config.update(do_sample=True, temperature=2.0, repetition_penalty=3.0, eos_token_id=0)
    plain = wrap(llama, tokenizer)
    prompts = ["Ada Byron comes from", "Karl Orff was born in"]
    assert HuggingFaceModel(raw, tokenizer, name="x").generate(prompts) == plain.generate(prompts)


CHAT = (
    "{% for m in messages %}<|user|>\n{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|reply|>{{ END }}{% endif %}"
)


@pytest.mark.parametrize("end", ["\n", ""])
def test_chat_prompts_are_one_user_turn_and_replies_start_there(end: str, tokenizer: Any) -> None:
    core = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    chatty = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")
    chatty.chat_template = CHAT.replace("{{ END }}", end)
    [encoded] = encode_requests(chatty, [Request("Ada comes from", " Paris")], "chat")
    whole = chatty.decode(encoded.ids)
    assert whole.startswith("<|user|>\nContinue the text below.")
    assert whole.endswith("Ada comes from\n<|reply|>" + (end + "Paris" if end else " Paris"))
    model = wrap(llama, chatty, template="chat")
    [score] = model.score([Request("Ada comes from", " Paris")])
    [completion] = model.generate(["Ada comes from"], max_tokens=2, stop=None)
    assert completion.prompt_tokens == score.prompt_tokens == encoded.start


def test_chat_needs_a_template(tokenizer: Any) -> None:
    with pytest.raises(ModelError, match="no chat template"):
        wrap(llama, tokenizer, template="chat")


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Any) -> Path:
    torch.manual_seed(0)
    widen(llama()).to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_saved_model_loads_quietly_and_says_what_it_is(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = load(str(folder), device="cpu")
    assert isinstance(model, ScoringModel)
    said = capfd.readouterr()
    assert said.out == said.err == ""
    identity = model.describe()
    assert (identity.dtype, identity.device, identity.architecture) == ("float32", "cpu", "LlamaForCausalLM")
    half = load(str(folder), device="cpu", dtype=torch.bfloat16)
    assert half.describe().dtype == "bfloat16"
    assert half.describe().weights_sha256 == identity.weights_sha256
    assert model.count_tokens(["Ada comes from"])[0] > 1
    assert model.score([Request("Ada comes from", " Rome")])[0].logprob < 0


def test_models_that_cannot_be_used_are_refused_with_the_remedy(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("models")
    with pytest.raises(ModelError, match="no model folder"):
        load(str(elsewhere / "none"))
    with pytest.raises(ModelError, match="cannot be opened"):
        load(str(elsewhere))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="hub cannot be reached: give the path of a local folder"):
        load("nobody/nothing")

    encoder = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=340, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
        )
    )
    widen(encoder).save_pretrained(elsewhere)
    tokenizer.save_pretrained(elsewhere)
    with pytest.raises(ModelError, match=r"encoder|no weights for"):
        load(str(elsewhere))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="no safetensors"):
        load(str(folder))


def test_plans_give_their_reasons(tokenizer: Any) -> None:
    for make in TREES + OTHERS:
        chosen = plan(make())
        assert chosen.way == ("tree" if make in TREES else "batch")
        assert chosen.reason
