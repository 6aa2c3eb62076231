"""`drike.load_model`: names, misspelt names and arguments."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

import drike
from drike import tinyfacts
from drike.errors import ModelError, UsageError
from drike.models import template_for
from drike.models.protocols import LanguageModel
from drike.models.served.cache import CachedModel
from scripted import ScriptedModel
from servers import serve, serving


def test_built_in_models_open_by_name_and_answer() -> None:
    edit = drike.load_dataset(tinyfacts.rows_path()).cases[0].edit
    for name in ("embedded", "reader"):
        model: LanguageModel = drike.load_model(name)
        assert model.generate([edit.query])[0].text.strip() == edit.target_true
        assert model.score is not None and model.info.name in (name, "bayesian-reader")


def test_a_served_model_is_cached_unless_the_cache_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with serve(serving(ScriptedModel(lambda prompt: "Oslo"))) as server:
        model = drike.load_model(server.named(), api=drike.ApiOptions(price_in=1.0))
        assert isinstance(model, CachedModel)
        for _ in range(2):
            assert model.generate(["x"])[0].text.strip() == "Oslo"
        assert (model.usage.requests, model.usage.cached, model.info.served) == (1, 1, True)
        assert model.usage.money is not None and model.usage.money > 0
        with closing(drike.load_model(server.named(), api=drike.ApiOptions(no_cache=True))) as direct:  # type: ignore[type-var]
            direct.generate(["x"])
        assert server.requests == 2


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("gemini-2.0-flash", "gemini:gemini-2.0-flash"),
        ("embeded", "embedded"),
        ("Reader", "reader"),
    ],
)
def test_a_misspelt_model_name_is_refused_with_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(ModelError, match=rf"did you mean {meant}\?"):
        drike.load_model(name)


def test_incompatible_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="leave it out"):
        drike.load_model("reader", replicas=2)
    with pytest.raises(UsageError, match="--concurrency"):
        drike.load_model("vllm:m", replicas=2)
    with pytest.raises(UsageError, match="plain or chat"):
        drike.load_model("embedded", template="poem")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="is no folder"):
        drike.load_model("nowhere:m")
    assert (template_for("vllm:m", None), template_for("embedded", None)) == ("chat", "plain")


def test_truncated_weights_ask_for_a_new_copy(tmp_path: Path) -> None:
    shutil.copytree(tinyfacts.model_path(), tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(ModelError, match="cut short: download or copy them again"):
        drike.load_model(tmp_path / "m")
