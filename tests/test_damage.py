"""A checkpoint, run.json or split.json with any byte damaged or cut off is refused in a sentence, or read unchanged."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from drike.cli import main
from drike.datasets.splits import SplitIds
from drike.encoders import HashingEncoder
from drike.errors import CheckpointError, DataError, ReportError, RunError
from drike.models.protocols import Usage
from drike.prompts import PromptStyle
from drike.report.reading import read_run
from drike.retrieval.budget import Budget, Fraction, Threshold
from drike.retrieval.learned_budget import Controller, untrained
from drike.retrieval.retriever import Retriever
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.runs.folder import answered, write_record
from drike.runs.run import Run

SMALLEST = HashingEncoder(2)
BUDGETS: dict[str, Budget] = {
    "threshold": Threshold(0.07, 12),
    "fraction": Fraction(0.5),
    "learned": untrained("scores", SMALLEST, max_shots=9),
}


def ways(content: bytes) -> list[tuple[int, int]]:
    """Yield every position with the masks 0x01, 0x80 and a random one; mask 0 means truncate there."""
    rng = random.Random(len(content))
    return [(i, pattern) for i in range(len(content)) for pattern in (0x01, 0x80, rng.randint(1, 255), 0)]


def damaged(content: bytes, at: int, pattern: int) -> bytes:
    return content[:at] + bytes([content[at] ^ pattern]) + content[at + 1 :] if pattern else content[:at]


def check(path: Path, read: Callable[[], object], error: type[Exception], *, some: int | None = None) -> Counter[str]:
    """Damage `path` in every way, or in `some` random ones: `read` raises `error` in a sentence, or reads the same."""
    whole, right = path.read_bytes(), read()
    every = ways(whole)
    counts: Counter[str] = Counter()
    for at, pattern in every if some is None else random.Random(0).sample(every, min(some, len(every))):
        path.write_bytes(damaged(whole, at, pattern))
        try:
            found = read()
        except error as problem:
            assert "\n" not in str(problem) and (": " in str(problem) or "; " in str(problem)), problem
            counts["refused"] += 1
        else:
            assert found == right, "damaged data was read without an error"
            counts["harmless"] += 1
    path.write_bytes(whole)
    assert read() == right
    return counts


def content(folder: Path) -> tuple[object, ...]:
    """Return everything in a checkpoint, in a comparable form."""
    loaded = checkpoint.load(folder)
    head = loaded.retriever
    weights = tuple(tuple(weight.flatten().tolist()) for weight in head.head.parameters())
    found = weights, head.form, head.encoder.name, dict(loaded.training), loaded.style, head.trained_on
    budget = loaded.budget
    if isinstance(budget, Controller):
        tensors = tuple(tensor.flatten().tolist() for tensor in (budget.weights, budget.moments))
        parts = tuple(part.name for part in budget.features)
        return *found, tensors, parts, budget.steps, budget.max_shots, budget.quantile, budget.flip
    return *found, budget


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_damaged_byte_of_a_checkpoint_is_refused(budget: str, tmp_path: Path) -> None:
    retriever = Retriever(SMALLEST, form="cross", seed=4)
    retriever.trained_on = frozenset({("The capital of Peru is", "Oslo")})
    checkpoint.save(Checkpoint(retriever, BUDGETS[budget], PromptStyle(), {"model": "m", "sigma": 0.25}), tmp_path)
    # A learned budget has 4 kB of weights: some are tried here, all with `make reliability`.
    some = 2000 if budget == "learned" else None
    counts = check(tmp_path / checkpoint.FILE, lambda: content(tmp_path), CheckpointError, some=some)
    assert counts["refused"] > 1000 and not counts["harmless"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "2", "--epochs", "1",
              "--budget", "scores", "--editable", "12", "--out", str(folder)])  # fmt: skip
    return folder


def test_every_damaged_byte_of_run_json_is_refused(trained: Path, tmp_path: Path) -> None:
    shutil.copy(trained / "run.json", tmp_path)
    counts = check(tmp_path / "run.json", lambda: Run.open(tmp_path), RunError)
    assert counts["refused"] > 5000


def test_every_damaged_byte_of_a_split_is_refused_or_harmless(trained: Path, tmp_path: Path) -> None:
    shutil.copy(trained / "split.json", tmp_path)
    check(tmp_path / "split.json", lambda: SplitIds.load(tmp_path / "split.json"), DataError, some=3000)


@pytest.mark.reliability
def test_every_damaged_byte_of_a_real_checkpoint_is_refused(trained: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(trained / checkpoint.FILE, tmp_path))
    counts = check(path, lambda: content(tmp_path), CheckpointError, some=20_000)  # of half a million
    assert not counts["harmless"]


@pytest.mark.reliability
def test_every_damaged_byte_of_a_small_checkpoint_with_a_learned_budget_is_refused(tmp_path: Path) -> None:
    checkpoint.save(Checkpoint(Retriever(SMALLEST, form="cross", seed=4), BUDGETS["learned"]), tmp_path)
    assert not check(tmp_path / checkpoint.FILE, lambda: content(tmp_path), CheckpointError)["harmless"]


@pytest.mark.reliability
def test_every_damaged_byte_of_a_real_split_is_refused_or_harmless(trained: Path, tmp_path: Path) -> None:
    shutil.copy(trained / "split.json", tmp_path)
    print(check(tmp_path / "split.json", lambda: SplitIds.load(tmp_path / "split.json"), DataError))


def test_a_save_that_fails_at_any_step_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Checkpoint(Retriever(SMALLEST, form="cross", seed=1), BUDGETS["learned"])
    new = Checkpoint(Retriever(SMALLEST, form="cross", seed=2), Threshold(0.5))
    checkpoint.save(old, tmp_path)
    before = content(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for owner, step in ((os, "fsync"), (Path, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, full)
            with pytest.raises(OSError, match="No space left"):
                checkpoint.save(new, tmp_path)
        assert content(tmp_path) == before
        assert [path.name for path in tmp_path.iterdir()] == [checkpoint.FILE]
    checkpoint.save(new, tmp_path)
    assert checkpoint.load(tmp_path).budget == Threshold(0.5)


@pytest.mark.parametrize("name", ["episodes.jsonl", "outcomes/ike.jsonl", "usage.json"])
def test_damaged_jsonl_lines_never_cause_a_traceback(name: str, trained: Path, tmp_path: Path) -> None:
    """Lines have no checksum, so a changed digit may go unnoticed. Any error must be one of ours."""
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    if not (folder / "outcomes").exists():
        with pytest.raises(SystemExit, match="0"):
            main(["evaluate", "--run", str(trained), "--editors", "ike", "--test", "2", "--out", str(tmp_path / "e")])
        shutil.copytree(tmp_path / "e" / "outcomes", folder / "outcomes")
        write_record(folder, "usage.json", {"training": asdict(Usage(prompts=3))})
    path = folder / name
    whole = path.read_bytes()
    refused = 0
    broken = [damaged(whole, at, pattern) for at, pattern in random.Random(1).sample(ways(whole), 500)]
    for content in [*broken, b"[" * 100_000 + b"\n{}\n", b"\xff\n\xff\n", b'{"a": "\\ud800"}\n' * 2]:
        path.write_bytes(content)
        try:
            read_run(folder)
            answered(folder / "episodes.jsonl")
        except (RunError, ReportError, DataError) as problem:
            refused += 1
            assert "\n" not in str(problem)
    assert refused > 100
