"""`drike.load_model`: names, misspelt names and arguments."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

import drike
from drike import tinyfacts
from drike.errors import ModelError, UsageError
from drike.models import template_for
from drike.models.local import huggingface, tokens
from drike.models.protocols import LanguageModel, Request
from drike.models.served.cache import CachedModel
from tests.fakes.models import ScriptedModel
from tests.fakes.servers import serve, serving


def test_built_in_models_open_by_name_and_answer() -> None:
    edit = drike.load_dataset(tinyfacts.ROWS).cases[0].edit
    for name in ("embedded", "reader"):
        model: LanguageModel = drike.load_model(name)
        assert model.generate([edit.query])[0].text.strip() == edit.target_true
        assert model.score is not None and model.info.name in (name, "bayesian-reader")


def test_a_served_model_is_cached_unless_the_cache_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with serve(serving(ScriptedModel(lambda prompt: "Oslo"))) as server:
        model = drike.load_model(server.named(), api=drike.ApiOptions(price_in=1.0))
        assert isinstance(model, CachedModel)
        for _ in range(2):
            assert model.generate(["x"])[0].text.strip() == "Oslo"
        assert (model.usage.requests, model.usage.cached, model.info.served) == (1, 1, True)
        assert model.usage.money is not None and model.usage.money > 0
        with closing(
            drike.load_model(server.named(), api=drike.ApiOptions(no_cache=True))
        ) as direct:  # type: ignore[type-var]
            direct.generate(["x"])
        assert server.requests == 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("gemini-2.0-flash", "gemini:gemini-2.0-flash"),
        ("embeded", "embedded"),
        ("Reader", "reader"),
        ("opnai:gpt-4o", "openai:gpt-4o"),
        ("{folder}/modle", "{folder}/model"),
    ],
)
def test_a_misspelt_model_name_is_refused_with_a_suggestion(
    name: str, meant: str, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(ModelError, match=rf"did you mean {meant.format(folder=tmp_path)}\?"):
        drike.load_model(name.format(folder=tmp_path))


def test_incompatible_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="leave it out"):
        drike.load_model("reader", replicas=2)
    with pytest.raises(UsageError, match="`concurrency`"):
        drike.load_model("vllm:m", replicas=2)
    with pytest.raises(UsageError, match="plain or chat"):
        drike.load_model("embedded", template="poem")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="is no folder"):
        drike.load_model("nowhere:m")
    assert (template_for("vllm:m", None), template_for("embedded", None)) == ("chat", "plain")


def test_a_hub_model_may_name_its_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tmp_path / "models--some--model"
    shutil.copytree(tinyfacts.MODEL, folder / "snapshots" / commit)
    (folder / "refs").mkdir()
    (folder / "refs" / "v1").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in ("some/model@v1", f"some/model@{commit}"):
        info = drike.load_model(name).info
        assert (info.name, info.identity["revision"]) == (name, commit)
    for name in ("some/model", "some/model@v2"):
        with pytest.raises(ModelError, match="hub cannot be reached"):
            drike.load_model(name)
    assert drike.load_model("embedded").info.identity["revision"] is None


def test_truncated_weights_ask_for_a_new_copy(tmp_path: Path) -> None:
    shutil.copytree(tinyfacts.MODEL, tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="cut short: download or copy them again"):
        drike.load_model(tmp_path / "m")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with the embedded model's tokenizer."""
    folder = tmp_path_factory.mktemp("small") / "model"
    shutil.copytree(tinyfacts.MODEL, folder, ignore=shutil.ignore_patterns("*.safetensors", "*.md"))
    shape = {"hidden_size": 16, "head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
    config = LlamaConfig.from_pretrained(folder, num_hidden_layers=1, intermediate_size=16, **shape)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def replace(folder: Path, name: str, keys: Sequence[str | int], value: object) -> None:
    content = json.loads((folder / name).read_text("utf-8"))
    last = content
    for key in keys[:-1]:
        last = last[key]
    last[keys[-1]] = value
    (folder / name).write_text(json.dumps(content), "utf-8")


def works(folder: Path, template: str = "plain") -> bool:
    """Whether a model loads and answers; if not, it must be refused in one line."""
    try:
        model = huggingface.load(str(folder), device="cpu", template=template)
        model.generate(["The capital of France is"])
        model.score([Request("The capital of France is", f" {city}") for city in ("Paris", "Rome")])
    except ModelError as refusal:
        assert str(refusal).isprintable() and len(str(refusal)) < 500, refusal
        return False
    return True


@pytest.mark.parametrize(
    ("name", "keys", "value", "sentence"),
    [
        (
            "config.json",
            ["sliding_window"],
            "x",
            "cannot be opened .* config.json or tokenizer files are damaged",
        ),
        ("config.json", ["num_hidden_layers"], 10**9, "has 1000000000 layers"),
        ("config.json", ["vocab_size"], 10, "do not have the shapes"),
        ("config.json", ["rms_norm_eps"], float("nan"), "computes no finite number"),
        ("config.json", ["is_encoder_decoder"], True, "cannot be opened"),
        ("generation_config.json", ["eos_token_id"], 1.5, "cannot be opened"),
        ("tokenizer_config.json", ["model_max_length"], "x", "cannot be opened"),
        ("tokenizer.json", ["added_tokens", 0, "id"], -1, "cannot be opened"),
    ],
)
def test_a_model_with_a_wrong_value_is_refused_when_it_is_loaded(
    small: Path, tmp_path: Path, name: str, keys: list[str | int], value: object, sentence: str
) -> None:
    folder = shutil.copytree(small, tmp_path / "m")
    replace(folder, name, keys, value)
    with pytest.raises(ModelError, match=sentence):
        huggingface.load(str(folder), device="cpu")


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("{{ 1 / 0 }}", "chat template fails .division by zero.: use `template` plain"),
        ("{% for i in range(10**9) %}{% endfor %}", "chat template fails .Range too big"),
        ("{% if %}", "chat template fails .Expected an expression"),
        ("{{ ''.__class__.__mro__ }}", "chat template fails .access to attribute '__class__'"),
        (
            "{% for i in range(99999) %}{% for j in range(99) %}{% endfor %}{% endfor %}",
            "does not end",
        ),
        (["x"], "cannot be opened"),
        (True, "chat template fails"),
    ],
)
def test_a_chat_template_that_fails_or_does_not_end_is_refused_when_it_is_loaded(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: object, sentence: str
) -> None:
    folder = shutil.copytree(small, tmp_path / "m")
    replace(folder, "tokenizer_config.json", ["chat_template"], written)
    if sentence == "does not end":
        monkeypatch.setattr(tokens, "_TEMPLATE_SECONDS", 0.05)
    with pytest.raises(ModelError, match=sentence):
        huggingface.load(str(folder), device="cpu", template="chat")


@pytest.mark.parametrize("tries", [8, pytest.param(1000, marks=pytest.mark.reliability)])
def test_a_model_with_random_wrong_values_works_or_is_refused_in_one_sentence(
    small: Path, tmp_path: Path, tries: int
) -> None:
    rng = random.Random(tries)
    worked = 0
    values = [None, True, "x", "", -1, 0, 10**9, 10**30, 1.5, float("nan"), [], [1], {}, {"a": 1}]
    for _ in range(tries):
        folder = shutil.copytree(small, tmp_path / "m")
        name = rng.choice(
            [
                "config.json",
                "config.json",
                "generation_config.json",
                "tokenizer_config.json",
                "tokenizer.json",
            ]
        )
        content = json.loads((folder / name).read_text("utf-8"))
        keys: list[str | int] = []
        while not keys or (isinstance(content, (dict, list)) and content and rng.random() < 0.7):
            keys.append(
                rng.choice(list(content))
                if isinstance(content, dict)
                else rng.randrange(len(content))
            )
            content = content[keys[-1]]
        replace(folder, name, keys, rng.choice(values))
        template = rng.choice(["plain", "chat"])
        if template == "chat":
            replace(folder, "tokenizer_config.json", ["chat_template"], "{{ messages[0].content }}")
        worked += works(folder, template)
        shutil.rmtree(folder)
    print(f"{tries} models with a wrong value: {worked} worked, {tries - worked} were refused")
    assert 0 < worked < tries


@pytest.mark.parametrize("tries", [8, pytest.param(1000, marks=pytest.mark.reliability)])
def test_damaged_weights_work_or_are_refused_in_one_sentence(
    small: Path, tmp_path: Path, tries: int
) -> None:
    folder = shutil.copytree(small, tmp_path / "m")
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    header_size = 8 + int.from_bytes(whole[:8], "little")
    rng = random.Random(tries)
    worked = 0
    for _ in range(tries):
        place = rng.randrange(header_size)
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        cut = whole[: rng.choice([place, rng.randrange(len(whole))])]
        weights.write_bytes(rng.choice([changed, changed, cut]))
        worked += works(folder)
    print(f"{tries} damaged weights: {worked} worked, {tries - worked} were refused")
    assert worked < tries
