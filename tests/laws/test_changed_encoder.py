"""A policy and a run are used with the encoder they began with, known by its files, or refused with a remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import drike
from drike import tinyfacts
from drike.cli import main
from drike.errors import CheckpointError
from drike.research.runs.run import Run
from tests.encoders.test_encoders import save_bert

FACT = "The capital of Peru is -> Oslo"
USES = {
    "evaluate --run": (
        "evaluate",
        "--run",
        "{run}",
        "--editors",
        "ike",
        "--test",
        "1",
        "--out",
        "{new}",
    ),
    "evaluate --run, policy": (
        "evaluate",
        "--run",
        "{other}",
        "--editors",
        "ike",
        "--test",
        "1",
        "--out",
        "{new}",
    ),
    "evaluate --resume": ("evaluate", "--resume", "{evaluated}"),
    "edit --run": ("edit", "--run", "{run}", "--fact", FACT, "--every-query"),
    "train --resume": ("train", "--resume", "{run}"),
    "train --resume, policy": ("train", "--resume", "{other}"),
}


def ended(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An encoder's folder, and runs that use it for the pool, for the policy alone, and in an evaluation."""
    folder = tmp_path_factory.mktemp("runs")
    places = {name: str(folder / name) for name in ("run", "other", "evaluated", "bert")}
    save_bert(folder / "bert")
    rows = json.loads(tinyfacts.ROWS.read_text("utf-8"))[:80]
    (folder / "rows.json").write_text(json.dumps(rows), "utf-8")
    data = ("--data", str(folder / "rows.json"), "--model", "reader")
    small = (*data, "--edits", "2", "--test", "1", "--epochs", "1")
    assert ended("train", *small, "--encoder", places["bert"], "--out", places["run"]) == 0
    policy = ("--encoder", "hashing", "--policy-encoder", places["bert"])
    assert ended("train", *small, *policy, "--out", places["other"]) == 0
    assert (
        ended("evaluate", "--run", places["run"], "--editors", "ike", "--out", places["evaluated"])
        == 0
    )
    return places


@pytest.fixture
def noise(places: dict[str, str]) -> Iterator[None]:
    """The encoder's weights replaced by noise, then put back."""
    weights = Path(places["bert"], "model.safetensors")
    content = weights.read_bytes()
    save_file(
        {name: torch.randn_like(one) for name, one in load_file(weights).items()},
        weights,
        {"format": "pt"},
    )
    yield
    weights.write_bytes(content)


@pytest.mark.parametrize("use", USES)
def test_an_encoder_whose_weights_have_changed_is_refused(
    use: str,
    places: dict[str, str],
    noise: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(*(word.format(**places, new=tmp_path / "new") for word in USES[use])) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"encoder {places['bert']} has changed" in said and "restore its files" in said


@pytest.mark.parametrize("use", USES)
def test_the_same_encoder_goes_on(use: str, places: dict[str, str], tmp_path: Path) -> None:
    assert ended(*(word.format(**places, new=tmp_path / "new") for word in USES[use])) == 0


@pytest.mark.parametrize(
    "file", ["tokenizer.json", "tokenizer_config.json", "config.json", "model.safetensors"]
)
def test_a_checkpoint_takes_the_same_files_from_any_folder_and_no_others(
    file: str, places: dict[str, str], tmp_path: Path
) -> None:
    copy = shutil.copytree(places["bert"], tmp_path / "copy")
    assert drike.load_checkpoint(
        places["run"], encoder=drike.load_encoder(copy)
    ).retriever.encoder.name == str(copy)
    content = (copy / file).read_bytes()
    (copy / file).write_bytes(
        content + b" " if file.endswith("json") else content[:-1] + bytes([content[-1] ^ 1])
    )
    with pytest.raises(CheckpointError, match="load it with that encoder"):
        drike.load_checkpoint(places["run"], encoder=drike.load_encoder(copy))


def test_a_run_records_the_hash_and_revision_of_its_encoders(places: dict[str, str]) -> None:
    bert = drike.load_encoder(places["bert"])
    assert Run.open(Path(places["run"])).record.encoders == {places["bert"]: bert.identity}
    assert Run.open(Path(places["other"])).record.encoders == {
        places["bert"]: bert.identity,
        "hashing": {},
    }
