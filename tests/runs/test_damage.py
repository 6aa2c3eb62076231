"""A checkpoint, run.json or split.json with any byte damaged or cut off is refused in a sentence, or read unchanged."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from safetensors.torch import load as unpacked

from drike.cli import main
from drike.encoders import HashingEncoder
from drike.errors import CheckpointError, DataError, DrikeError, EncoderError, ReportError, RunError
from drike.models.protocols import Usage
from drike.prompts import PromptStyle
from drike.research.datasets.dataset import SplitIds
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.retriever import Retriever
from drike.research.report.groups import grouped
from drike.research.report.reported_runs import ReportedRun, read_run
from drike.research.report.tables import costs, table1, work
from drike.research.report.training_tables import by_epoch, epochs_table
from drike.research.runs import checkpoint
from drike.research.runs.checkpoint import Checkpoint
from drike.research.runs.files import read_lines, write_record
from drike.research.runs.run import Run
from drike.research.training.algorithm1 import EpisodeRecord
from drike.support.files import with_checksum
from drike.support.table import as_markdown
from tests.fakes.commands import run
from tests.fakes.tally import Tally

SMALLEST = HashingEncoder(2)
BUDGETS: dict[str, Budget] = {
    "threshold": Threshold(0.07, 12),
    "fraction": Fraction(0.5),
}


def ways(content: bytes) -> list[tuple[int, int]]:
    """Yield every position with the masks 0x01, 0x80 and a random one; mask 0 means truncate there."""
    rng = random.Random(len(content))
    return [
        (i, pattern)
        for i in range(len(content))
        for pattern in (0x01, 0x80, rng.randint(1, 255), 0)
    ]


def damaged(content: bytes, at: int, pattern: int) -> bytes:
    return (
        content[:at] + bytes([content[at] ^ pattern]) + content[at + 1 :]
        if pattern
        else content[:at]
    )


def check(
    path: Path, read: Callable[[], object], error: type[Exception], *, some: int | None = None
) -> Counter[str]:
    """Damage `path` in every way, or in `some` random ones: `read` raises `error` in a sentence, or reads the same."""
    whole, right = path.read_bytes(), read()
    every = ways(whole)
    counts: Counter[str] = Counter()
    for at, pattern in (
        every if some is None else random.Random(0).sample(every, min(some, len(every)))
    ):
        path.write_bytes(damaged(whole, at, pattern))
        try:
            found = read()
        except error as problem:
            assert "\n" not in str(problem) and (": " in str(problem) or "; " in str(problem)), (
                problem
            )
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
    found = (
        weights,
        head.form,
        head.encoder.name,
        dict(loaded.training),
        loaded.style,
        head.trained_on,
    )
    return *found, loaded.budget


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.sampled(3)
def test_every_damaged_byte_of_a_checkpoint_is_refused(budget: str, tmp_path: Path) -> None:
    retriever = Retriever(SMALLEST, form="cross", seed=4)
    retriever.trained_on = frozenset({("The capital of Peru is", "Oslo")})
    checkpoint.save(
        Checkpoint(retriever, BUDGETS[budget], PromptStyle(), {"model": "m", "sigma": 0.25}),
        tmp_path,
    )
    counts = check(tmp_path / checkpoint.FILE, lambda: content(tmp_path), CheckpointError)
    assert counts["refused"] > 1000 and not counts["harmless"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run."""
    folder = tmp_path_factory.mktemp("runs") / "trained"
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "2", "--epochs", "1",
              "--editable", "12", "--out", str(folder)])  # fmt: skip
    return folder


SOME_OR_ALL = pytest.mark.parametrize(
    "some", [500, pytest.param(None, marks=pytest.mark.reliability)]
)


@SOME_OR_ALL
def test_every_damaged_byte_of_run_json_is_refused(
    some: int | None, trained: Path, tmp_path: Path
) -> None:
    shutil.copy(trained / "run.json", tmp_path)
    counts = check(tmp_path / "run.json", lambda: Run.open(tmp_path), RunError, some=some)
    assert counts["refused"] > 0.95 * counts.total()


@SOME_OR_ALL
def test_every_damaged_byte_of_a_split_is_refused_or_harmless(
    some: int | None, trained: Path, tmp_path: Path
) -> None:
    shutil.copy(trained / "split.json", tmp_path)
    check(
        tmp_path / "split.json",
        lambda: SplitIds.load(tmp_path / "split.json"),
        DataError,
        some=some,
    )


@pytest.mark.reliability
def test_every_damaged_byte_of_a_real_checkpoint_is_refused(trained: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(trained / checkpoint.FILE, tmp_path))
    counts = check(
        path, lambda: content(tmp_path), CheckpointError, some=20_000
    )  # of half a million
    assert not counts["harmless"]


@pytest.mark.reliability
def test_every_damaged_byte_of_a_small_checkpoint_with_a_learned_budget_is_refused(
    tmp_path: Path,
) -> None:
    checkpoint.save(
        Checkpoint(Retriever(SMALLEST, form="cross", seed=4), BUDGETS["threshold"]), tmp_path
    )
    assert not check(tmp_path / checkpoint.FILE, lambda: content(tmp_path), CheckpointError)[
        "harmless"
    ]


@pytest.mark.reliability
def test_every_damaged_byte_of_a_real_split_is_refused_or_harmless(
    trained: Path, tmp_path: Path
) -> None:
    shutil.copy(trained / "split.json", tmp_path)
    print(check(tmp_path / "split.json", lambda: SplitIds.load(tmp_path / "split.json"), DataError))


def test_a_save_that_fails_at_any_step_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Checkpoint(Retriever(SMALLEST, form="cross", seed=1), BUDGETS["threshold"])
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
@pytest.mark.sampled(3)
def test_damaged_jsonl_lines_never_cause_a_traceback(
    name: str, trained: Path, tmp_path: Path
) -> None:
    """Lines have no checksum, so a changed digit may go unnoticed.

    Any error must be one of ours.
    """
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    if not (folder / "outcomes").exists():
        with pytest.raises(SystemExit, match="0"):
            main(
                [
                    "evaluate",
                    "--run",
                    str(trained),
                    "--editors",
                    "ike",
                    "--test",
                    "2",
                    "--out",
                    str(tmp_path / "e"),
                ]
            )
        shutil.copytree(tmp_path / "e" / "outcomes", folder / "outcomes")
        write_record(folder, "usage.json", {"training": asdict(Usage(prompts=3))})
    path = folder / name
    whole = path.read_bytes()
    refused = 0
    broken = [
        damaged(whole, at, pattern) for at, pattern in random.Random(1).sample(ways(whole), 200)
    ]
    for content in [
        *broken,
        b"[" * 100_000 + b"\n{}\n",
        b"\xff\n\xff\n",
        b'{"a": "\\ud800"}\n' * 2,
    ]:
        path.write_bytes(content)
        try:
            read_run(folder)
            read_lines(folder / "episodes.jsonl", EpisodeRecord, "train again")
        except (RunError, ReportError, DataError) as problem:
            refused += 1
            assert "\n" not in str(problem)
    assert refused > 50


# -- values of other types ----------------------------------------------------------------------
# ---------------------------------------------------------------------------------------------

VALUES = ("null", "true", "-1", "0.5", "NaN", "1e400", '"x"', '""', "[]", "{}", "1" + "0" * 400)
MISSING, ADDED = "missing", "added"
Place = tuple[str | int, ...]


def places(value: object, place: Place = ()) -> Iterator[Place]:
    """Every field of a JSON value, and the first element of every list, by its keys."""
    yield place
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else [*enumerate(value)][:1]:
            yield from places(inner, (*place, key))


def with_value(text: str, place: Place, new: str) -> str:
    """A JSON text with another value at a place: missing, with an added field beside it, or one of VALUES."""
    whole = json.loads(text)
    if not place:
        return text if new in (MISSING, ADDED) else new
    around = whole
    for key in place[:-1]:
        around = around[key]
    if new == MISSING:
        del around[place[-1]]
    elif new == ADDED and isinstance(around, dict):
        around["added"] = 1
    elif new != ADDED:
        around[place[-1]] = "@value@"
    return json.dumps(whole, ensure_ascii=False).replace('"@value@"', new)


SHOWN = ("settings", "model", "training", "versions")  # what may be anything, and may be missing


def is_possible(whole: object, place: Place, new: str) -> bool:
    """Whether a new value is of the type of the old one, null and numbers apart, or stands where anything may."""
    if place and place[0] in SHOWN:
        return True
    for key in place:
        whole = whole[key]  # type: ignore[index]
    if new in (MISSING, ADDED):
        return isinstance(place[-1], int) or isinstance(
            whole, dict
        )  # an element of a list, a part of a run's usage
    kinds = [float if type(one) is int else type(one) for one in (whole, json.loads(new))]
    return type(None) in kinds or kinds[0] is kinds[1]


def forged(record: str) -> str:
    """A run.json or split.json with the checksum of what it holds now, if it is still an object."""
    try:
        value = json.loads(record)
        return json.dumps(with_checksum({k: v for k, v in value.items() if k != "sha256"}))
    except (ValueError, AttributeError):
        return record


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained and evaluated run in one folder."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    with pytest.raises(SystemExit, match="0"):
        main(["demo", "--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "2", "--epochs", "1",
              "--out", str(folder)])  # fmt: skip
    return folder


def line_of(path: Path) -> str:
    return (
        path.read_text("utf-8").splitlines()[0]
        if path.suffix == ".jsonl"
        else path.read_text("utf-8")
    )


def with_line(path: Path, line: str) -> str:
    """The text of a file with another first line, or of a JSON file with another record and its checksum."""
    if path.suffix != ".jsonl":
        return forged(line) if path.name in ("run.json", "split.json") else line
    return "\n".join([line, *path.read_text("utf-8").splitlines()[1:], ""])


def text_of(run: ReportedRun) -> str:
    """The tables of a report."""
    [group] = grouped([run])
    summaries = list(group.summaries.values())
    tables = (
        table1(summaries, ""),
        costs(summaries),
        work(run.usage),
        epochs_table({"run": by_epoch(run.episodes)}),
    )
    return "\n".join(as_markdown(table) for table in tables)


FILES = (
    "run.json",
    "split.json",
    "usage.json",
    "summary.json",
    "episodes.jsonl",
    "outcomes/dr-ike.jsonl",
)


def replaced(folder: Path, name: str, some: int | None) -> Counter[str]:
    """Replace the values of a file one by one, or `some` of them, and read the run.

    refused: in a sentence. harmless: everything reads as before. as it stands: another value of the
    right type, or in settings that are only shown, which a report shows without a nan.
    """
    path, counts = folder / name, Counter[str]()
    whole, line, right = path.read_text("utf-8"), line_of(path), read_run(folder)
    every = [
        (place, new) for place in places(json.loads(line)) for new in (*VALUES, MISSING, ADDED)
    ]
    for place, new in (
        every if some is None else random.Random(0).sample(every, min(some, len(every)))
    ):
        path.write_text(with_line(path, with_value(line, place, new)), "utf-8")
        try:
            found = read_run(folder)
            read_lines(folder / "episodes.jsonl", EpisodeRecord, "train again")
            if found == right:
                counts["harmless"] += 1
            else:
                assert is_possible(json.loads(line), place, new), (place, new)
                assert "nan" not in text_of(found).split(), (place, new)
                counts["as it stands"] += 1
        except DrikeError as problem:
            assert "\n" not in str(problem) and str(folder) in str(problem), (place, new, problem)
            counts["refused"] += 1
        except Exception as error:
            error.add_note(f"{name}: {place} = {new[:20]}")
            raise
        finally:
            path.write_text(whole, "utf-8")
    return counts


@pytest.mark.parametrize("name", FILES)
@pytest.mark.sampled(4)
def test_some_values_of_another_type_are_refused_or_harmless(
    name: str, shown: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(shown, tmp_path / "run"))
    counts = replaced(folder, name, 30)
    assert counts["refused"] > 15, counts


@pytest.mark.reliability
@pytest.mark.parametrize("name", FILES)
def test_every_value_of_another_type_is_refused_or_harmless(
    name: str, shown: Path, tmp_path: Path, tally: Tally
) -> None:
    folder = Path(shutil.copytree(shown, tmp_path / "run"))
    counts = replaced(folder, name, None)
    tally("values of another type in files of a run", counts.total())
    print(name, dict(counts))


COMMANDS = (
    ("report", "{}", "--out", "{}/page.html"),
    ("evaluate", "--run", "{}", "--editors", "dr-ike", "--test", "1", "--out", "{}/new"),
    ("edit", "--run", "{}", "--fact", "The capital of Peru is -> Oslo", "--gate", "named"),
    ("train", "--resume", "{}"),
    ("evaluate", "--resume", "{}"),
)
FORGED = ('data=[1]', "data={}", "versions=[1]", "settings.seed=true", "settings.epochs=true", "settings.data=[1]",
          'settings.editors="x"', "options.seed=true", "options.edits=0.5", "model=[]")  # fmt: skip


def ends_in_a_sentence(
    command: tuple[str, ...], folder: Path, capfd: pytest.CaptureFixture[str]
) -> int:
    """Run a command on a folder: a traceback is an error of the test."""
    code = run(*(word.replace("{}", str(folder)) for word in command))
    said = capfd.readouterr().err
    assert (code in (1, 2) and "Error: " in said) or code == 0, (code, said)
    shutil.rmtree(folder / "new", ignore_errors=True)
    return code


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_run_json_is_refused_in_a_sentence(
    forgery: str, trained: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "run"))
    place, _, new = forgery.partition("=")
    path = folder / "run.json"
    path.write_text(
        forged(with_value(path.read_text("utf-8"), tuple(place.split(".")), new)), "utf-8"
    )
    commands = COMMANDS[4:5] if place.startswith("options") else COMMANDS[:5]
    codes = [ends_in_a_sentence(command, folder, capfd) for command in commands]
    # What names a model is only shown; without its number of epochs, a trained run counts as
    # finished.
    assert 0 not in codes or forgery in ("model.name={}", "settings.epochs=true")


@pytest.mark.reliability
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_given_forged_runs_end_in_a_sentence(
    command: tuple[str, ...],
    shown: Path,
    trained: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    source = trained if "--resume" in command else shown
    if command[:2] == ("evaluate", "--resume"):
        source = tmp_path / "evaluated"
        assert (
            run("evaluate", "--run", str(trained), "--editors", "ike,dr-ike", "--out", str(source))
            == 0
        )
    folder = Path(shutil.copytree(source, tmp_path / "run"))
    path, codes = folder / "run.json", Counter[int]()
    whole, rng = path.read_text("utf-8"), random.Random(0)
    every = [
        (place, new) for place in places(json.loads(whole)) for new in (*VALUES, MISSING, ADDED)
    ]
    for place, new in rng.sample(every, 60):
        path.write_text(forged(with_value(whole, place, new)), "utf-8")
        try:
            codes[ends_in_a_sentence(command, folder, capfd)] += 1
        except BaseException as error:
            error.add_note(f"{place} = {new[:20]}")
            raise
    with capfd.disabled():
        print(command[:2], dict(codes))


def replaced_in_checkpoint(folder: Path, budget: Budget, some: int | None) -> Counter[str]:
    """Replace the values in a checkpoint's metadata one by one, or `some` of them, with the checksum put right."""
    retriever, path, counts = (
        Retriever(SMALLEST, form="cross", seed=4),
        folder / checkpoint.FILE,
        Counter[str](),
    )
    retriever.trained_on = frozenset({("The capital of Peru is", "Oslo")})
    checkpoint.save(
        Checkpoint(retriever, budget, PromptStyle(), {"model": "m", "sigma": 0.25}), folder
    )
    whole = path.read_bytes()
    tensors, right, line = unpacked(whole), content(folder), json.dumps(checkpoint._verified(whole))
    every = [
        (place, new)
        for place in places(json.loads(line))
        if place
        for new in (*VALUES, MISSING, ADDED)
    ]
    for place, new in every if some is None else random.Random(0).sample(every, some):
        path.write_bytes(checkpoint._sealed(json.loads(with_value(line, place, new)), tensors))
        try:
            same = content(folder) == right
            assert same or is_possible(json.loads(line), place, new), (place, new)
            counts["harmless" if same else "as it stands"] += 1
        except (CheckpointError, EncoderError) as problem:
            assert "\n" not in str(problem)
            counts["refused"] += 1
    return counts


def test_some_values_of_another_type_in_a_checkpoint_are_refused_or_harmless(
    tmp_path: Path,
) -> None:
    counts = replaced_in_checkpoint(tmp_path, BUDGETS["threshold"], 50)
    assert counts["refused"] > 30, counts


@pytest.mark.reliability
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_value_of_another_type_in_a_checkpoint_is_refused_or_harmless(
    budget: str, tmp_path: Path, tally: Tally
) -> None:
    counts = replaced_in_checkpoint(tmp_path, BUDGETS[budget], None)
    tally("values of another type in files of a run", counts.total())
    print(budget, dict(counts))
