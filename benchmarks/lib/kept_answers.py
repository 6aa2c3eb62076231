"""Answers of a model that are kept: every probe of an edit under every choice, for both judges at once.

A folder holds one file for each process that asked, of JSON lines, written as the answers come: what was asked first,
then a line for each edit, each episode of training, and each edit under what that training left. A line that a killed
process left unfinished is dropped when the file is read. `Kept` is what all files of a folder hold together; whatever
is computed from it asks no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from drike.edits.edit import Aspect, EditCase
from drike.errors import UsageError
from drike.research.editors.editor import Editor
from drike.research.evaluation.judge import Judge, Question, Verdict
from drike.research.evaluation.unedited_answers import UneditedAnswer

GREEDY, PREFERS, UNCHANGED = 1, 2, 4  # of a flag: which judges find an answer right

Key = tuple[str, str]  # a neighbour: its query and its target


@dataclass(frozen=True)
class Asked:
    """What a folder's answers are about: other settings than these would make other answers."""

    model: str
    data: str
    fingerprint: str
    editable: int
    choices: tuple[str, ...]
    learned: tuple[str, ...]
    epochs: int


@dataclass(frozen=True)
class KeptEdit:
    """The answers to an edit's probes.

    flags: for each choice a digit for each probe, the sum of `GREEDY`, `PREFERS` and `UNCHANGED` where they hold.
    tokens: of each prompt [choices][probes]. logprobs: of each target [choices][probes]. own: what the unedited model
    writes for each neighbour, "" where that cannot be compared; only where the choices are those of every edit. ended:
    a digit for each. seed: of the training whose editors the choices are; None where they are those of every edit.
    """

    case_id: str
    flags: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    own: tuple[str, ...] = ()
    ended: str = ""
    seed: int | None = None


@dataclass
class Kept:
    """All answers of a folder. episodes: the records of trainings by seed, in order. seconds: of each phase."""

    asked: Asked | None = None
    edits: dict[str, KeptEdit] = field(default_factory=dict)
    learned: dict[tuple[int, str], KeptEdit] = field(default_factory=dict)
    episodes: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    machine: str = ""

    def add(self, line: Mapping[str, Any]) -> None:
        """Take in a line of a file."""
        kind = line["kind"]
        value = {name: value for name, value in line.items() if name != "kind"}
        if kind == "asked":
            self._require_same(_asked_of(value))
        elif kind == "edit":
            edit = _edit_of(value)
            if edit.seed is None:
                self.edits[edit.case_id] = edit
            else:
                self.learned[edit.seed, edit.case_id] = edit
        elif kind == "episode":
            self.episodes.setdefault(value.pop("seed"), []).append(value)
        else:
            phase = value["phase"]
            self.seconds[phase] = self.seconds.get(phase, 0.0) + value["seconds"]
            self.machine = value["machine"]

    def _require_same(self, asked: Asked) -> None:
        if self.asked not in (None, asked):
            raise UsageError(
                f"the folder holds answers to {self.asked}, not to {asked}: name another one"
            )
        self.asked = asked

    def unedited(self, cases: Iterable[EditCase]) -> dict[Key, UneditedAnswer]:
        """The unedited model's answers to the neighbours of those of the cases that were asked."""
        answers = {}
        for case in cases:
            kept = self.edits.get(case.case_id)
            if kept is None:
                continue
            place = 0
            for probe, flag in zip(case.asked, kept.flags[0], strict=True):
                if probe.aspect is not Aspect.NEIGHBORHOOD:
                    continue
                answers[probe.query, probe.target] = UneditedAnswer(
                    probe.query,
                    probe.target,
                    bool(int(flag) & GREEDY),
                    kept.own[place],
                    kept.ended[place] == "1",
                )
                place += 1
        return answers


def _asked_of(value: Mapping[str, Any]) -> Asked:
    lists = {name: tuple(value[name]) for name in ("choices", "learned")}
    return Asked(**{**value, **lists})


def _edit_of(value: Mapping[str, Any]) -> KeptEdit:
    nested = {name: tuple(map(tuple, value[name])) for name in ("tokens", "logprobs")}
    lists = {name: tuple(value[name]) for name in ("flags", "own")}
    return KeptEdit(**{**value, **nested, **lists})


class AnswerFile:
    """A process's own file of a folder, to which lines are added as answers come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _drop_unfinished_line(path)

    def write(self, kind: str, *values: Mapping[str, Any]) -> None:
        """Add a line for each value."""
        lines = [json.dumps({"kind": kind, **value}, separators=(",", ":")) for value in values]
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def write_edits(self, edits: Iterable[KeptEdit]) -> None:
        """Add a line for each edit."""
        self.write("edit", *map(asdict, edits))


def _drop_unfinished_line(path: Path) -> None:
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        path.write_bytes(content[:whole])


def path_of(folder: Path, model: str, part: int) -> Path:
    """The file of a process. model: the name that it was opened by."""
    return folder / f"{_plain(model)}-{part}.jsonl"


def _plain(model: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "-" for c in Path(model).name)


def read_kept(folder: Path, model: str) -> Kept:
    """What the files of a model hold; nothing for a folder without one. Raises UsageError."""
    kept = Kept()
    for path in sorted(folder.glob(f"{_plain(model)}-*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:  # behind the last line there is nothing
            kept.add(json.loads(line))
    return kept


def ask_edits(
    judge: Judge,
    editors: Sequence[Editor],
    cases: Sequence[EditCase],
    own: Mapping[Key, UneditedAnswer],
    *,
    seed: int | None = None,
) -> list[KeptEdit]:
    """Ask every probe of the cases under every editor, all in one call.

    judge: greedy, with whose scores those of the distractors come. own: answers to all neighbours of the cases. seed:
    of the training that the editors come from.
    """
    questions = []
    for case in cases:
        queries = [probe.query for probe in case.asked]
        for editor in editors:
            prompts = editor.prompts(case.edits, queries)
            for probe, prompt in zip(case.asked, prompts, strict=True):
                answer = own.get((probe.query, probe.target))
                is_neighbour = probe.aspect is Aspect.NEIGHBORHOOD
                questions.append(
                    Question(
                        prompt,
                        probe.target,
                        probe.distractor,
                        probe.also,
                        own=answer.own if answer is not None and is_neighbour else None,
                    )
                )
    verdicts = iter(judge.ask(questions))

    kept = []
    for case in cases:
        of_case = [[next(verdicts) for _ in case.asked] for _ in editors]
        neighbours = [] if seed is not None else [own[p.query, p.target] for p in case.neighborhood]
        kept.append(
            KeptEdit(
                case.case_id,
                flags=tuple("".join(map(_flag, verdicts_)) for verdicts_ in of_case),
                tokens=tuple(tuple(v.prompt_tokens or 0 for v in vs) for vs in of_case),
                logprobs=tuple(tuple(map(_logprob, vs)) for vs in of_case),
                own=tuple(answer.text for answer in neighbours),
                ended="".join("1" if answer.ended else "0" for answer in neighbours),
                seed=seed,
            )
        )
    return kept


def _flag(verdict: Verdict) -> str:
    return str(
        GREEDY * bool(verdict.greedy)
        + PREFERS * bool(verdict.prefers)
        + UNCHANGED * bool(verdict.unchanged)
    )


def _logprob(verdict: Verdict) -> float:
    return round(verdict.score.logprob, 2) if verdict.score is not None else 0.0
