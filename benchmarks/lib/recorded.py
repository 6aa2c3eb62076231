"""Real models' recorded answers: HalluEditBench's published results as frozen dataclasses.

    hallu_edit/MODEL/TOPIC_METHOD.json              own question, paraphrase, same subject, yes, no, choice, reverse
    hallu_edit_multi_hop/MODEL/TOPIC_ICL.json       2 to 6 hops
    hallu_edit_multi_turn/MODEL_multi_turn/TOPIC_ICL_yes.json    the own question, then ten challenges

Of each edit the files hold what a model answered before (`pre`) and after (`post`) it, with verdicts by a model. ICL is
the fact alone in the prompt; the other methods change weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drike.answers.matching import normalise
from drike.answers.thoughts import without_thoughts
from drike.edits.edit import Aspect
from drike.edits.record import EditRecord, EditVersion
from drike.errors import DataError
from drike.support.rows import Row, read_rows

WEIGHT_EDITORS = ("FT-L", "FT-M", "LoRA", "ROME", "MEMIT", "GRACE")
HOPS = range(2, 7)
_FACT, _ANSWERS, _HOP_ANSWERS, _TURN_ANSWERS = (
    "ICL",
    "hallu_edit",
    "hallu_edit_multi_hop",
    "hallu_edit_multi_turn",
)
_AGAIN = "fetch HalluEditBench's results again"


@dataclass(frozen=True)
class Answer:
    """What a model answered.

    right: the files' verdict; of a same-subject question, whether the answer stayed what it was without the edit. The
    files take an empty answer as right.
    """

    text: str
    right: bool


@dataclass(frozen=True)
class RecordedQuestion:
    """A question about an edit, with the recorded answers.

    without: the unedited model's answer. with_fact: with the fact in the prompt. edited: of weight editors, by name.
    target: the right answer; None for a same-subject question. hops: of multi_hop. challenges: of pushback, how many
    times the user has said that the last answer is wrong, and asked the edit's yes-question again.
    """

    aspect: Aspect
    text: str
    without: Answer
    with_fact: Answer
    edited: Mapping[str, Answer] = field(default_factory=dict)
    target: str | None = None
    hops: int | None = None
    challenges: int | None = None

    @property
    def kind(self) -> str:
        """The aspect's value; "yes" and "no" of yes_no, "2 hops" of multi_hop, "pushback 1" of pushback."""
        if self.aspect is Aspect.YES_NO:
            return str(self.target).casefold()
        if self.aspect is Aspect.MULTI_HOP:
            return f"{self.hops} hops"
        return (
            f"pushback {self.challenges}" if self.aspect is Aspect.PUSHBACK else self.aspect.value
        )


@dataclass(frozen=True)
class _Place:
    """Where a question stands in a row: its text within the edit, its answers within `pre` and `post`."""

    aspect: Aspect
    answer: tuple[str, ...]  # what precedes _output and _acc
    text: tuple[str, ...]
    hops: int | None = None

    @classmethod
    def of_group(cls, aspect: Aspect, group: str, name: str, hops: int | None = None) -> _Place:
        """Of most questions, which have a group of fields of their own."""
        return cls(aspect, (group, name), (group, name, "prompt"), hops)


_PLACES = (
    _Place(Aspect.REWRITE, ("edit",), ("prompt",)),
    _Place(Aspect.PARAPHRASE, ("rephrase",), ("rephrase_prompt",)),
    _Place.of_group(Aspect.SAME_SUBJECT, "locality", "locality"),
    _Place.of_group(Aspect.YES_NO, "yes_questions", "yes"),
    _Place.of_group(Aspect.YES_NO, "no_questions", "no"),
    _Place.of_group(Aspect.CHOICE, "multiple_choice_questions", "multiple_choice"),
    _Place.of_group(Aspect.REVERSE, "reversed_relation_questions", "reversed_relation"),
)
_HOP_PLACES = tuple(
    _Place.of_group(Aspect.MULTI_HOP, f"questions_{n}hop", f"{n}hop", n) for n in HOPS
)


@dataclass(frozen=True)
class RecordedEdit:
    """An edit of one model, with its questions.

    record: the edit as a store takes it: its old object is the unedited model's answer.
    """

    model: str
    topic: str
    record: EditRecord
    questions: tuple[RecordedQuestion, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the edit: the files have a few under two topics."""
        return self.record.subject, self.record.query


def states(text: str, target: str) -> bool:
    """Whether an answer states an object: its words stand in the answer one behind the other, both normalised.

    So a plural, an abbreviation and another spelling do not count, and "not Paris" does. Thoughts are no part of it.
    """
    return f" {normalise(target)} " in f" {normalise(without_thoughts(text))} "


def clean(chosen: Answer, without: Answer, target_new: str) -> bool:
    """Whether an answer to a same-subject question is free of the new object, or has it without the edit, too."""
    return not states(chosen.text, target_new) or states(without.text, target_new)


def models(folder: Path) -> list[str]:
    """The models that a folder of results has. Raises DataError if it has none."""
    found = sorted(
        path.name for path in (folder / _ANSWERS).glob("*") if any(path.glob(f"*_{_FACT}.json"))
    )
    if not found:
        raise DataError(
            f"{folder} has no {_ANSWERS}/MODEL/TOPIC_{_FACT}.json: give the folder of the results"
        )
    return found


def recorded_edits(
    folder: Path, model: str, topics: Collection[str] = ()
) -> tuple[RecordedEdit, ...]:
    """The edits of a model, of some topics or all. Raises DataError for a file or row that does not fit."""
    known = [
        path.name.removesuffix(f"_{_FACT}.json")
        for path in (folder / _ANSWERS / model).glob(f"*_{_FACT}.json")
    ]
    if not known:
        raise DataError(
            f"there is no model {model} in {folder / _ANSWERS}: give one of {', '.join(models(folder))}"
        )
    if unknown := set(topics) - set(known):
        raise DataError(
            f"{model} has no topic {min(unknown)}: give some of {', '.join(sorted(known))}"
        )
    return tuple(edit for topic in sorted(topics or known) for edit in _topic(folder, model, topic))


def stored(edits: Sequence[RecordedEdit]) -> tuple[tuple[EditVersion, ...], list[int]]:
    """The edits as one store holds them, those under two topics once, and the id of each of `edits`."""
    records = {edit.key: edit.record for edit in edits}
    versions = tuple(
        EditVersion(i, i, 1, "", record) for i, record in enumerate(records.values(), 1)
    )
    ids = dict(zip(records, range(1, len(records) + 1), strict=True))
    return versions, [ids[edit.key] for edit in edits]


def _topic(folder: Path, model: str, topic: str) -> Iterable[RecordedEdit]:
    """The edits of one topic: rows of all methods by place, multi-hop and multi-turn rows by their edit."""
    answers = folder / _ANSWERS / model
    rows = _rows(answers / f"{topic}_{_FACT}.json")
    paths = {name: answers / f"{topic}_{name}.json" for name in WEIGHT_EDITORS}
    editors = {name: _rows(path) for name, path in paths.items() if path.is_file()}
    for name, others in editors.items():
        for row, other in zip(rows, others, strict=False):
            if _key(row) != _key(other):
                raise other.wrong(
                    "requested_edit", f"is not that of the same row of {topic}_{_FACT}.json"
                )
        if len(others) != len(rows):
            raise DataError(
                f"{paths[name]} has {len(others)} rows, {topic}_{_FACT}.json {len(rows)}: {_AGAIN}"
            )
    hops = _by_edit(folder / _HOP_ANSWERS / model / f"{topic}_{_FACT}.json")
    turns = _by_edit(folder / _TURN_ANSWERS / f"{model}_multi_turn" / f"{topic}_{_FACT}_yes.json")
    for number, row in enumerate(rows):
        of_editors = {name: others[number] for name, others in editors.items()}
        questions = [_question(row, place, of_editors) for place in _PLACES]
        if further := hops.get(_key(row)):
            questions += [_question(further, place, {}) for place in _HOP_PLACES]
        if further := turns.get(_key(row)):
            questions += _turns(further)
        yield RecordedEdit(model, topic, _record(row), tuple(questions))


def _question(row: Row, place: _Place, editors: Mapping[str, Row]) -> RecordedQuestion:
    """The question at a place; the verdict on the unedited answer to a same-subject question is that it stays."""
    edit, same = "requested_edit", place.aspect is Aspect.SAME_SUBJECT
    without = (
        Answer(_output(row, "pre", *place.answer), True)
        if same
        else _answer(row, "pre", *place.answer)
    )
    target = None
    if not same:
        path = (*place.answer, "ground_truth") if len(place.answer) > 1 else ("target_new",)
        target = row.text(edit, *path)
    edited = {name: _answer(other, "post", *place.answer) for name, other in editors.items()}
    with_fact, text = _answer(row, "post", *place.answer), row.text(edit, *place.text)
    return RecordedQuestion(place.aspect, text, without, with_fact, edited, target, place.hops)


def _turns(row: Row) -> Iterable[RecordedQuestion]:
    """The own question before and after each challenge."""

    def rounds(side: str) -> list[Answer]:
        texts, verdicts = (
            _list(row, side, f"edit_{part}_multi_turn") for part in ("output", "acc")
        )
        if len(texts) != len(verdicts):
            raise row.wrong(
                f"{side}.edit_acc_multi_turn",
                f"has {len(verdicts)} verdicts on {len(texts)} answers",
            )
        return [
            Answer(str(text), verdict == 1) for text, verdict in zip(texts, verdicts, strict=True)
        ]

    question, target = (row.text("requested_edit", name) for name in ("prompt", "target_new"))
    for n, (without, with_fact) in enumerate(zip(rounds("pre"), rounds("post"), strict=False)):
        yield RecordedQuestion(
            Aspect.PUSHBACK, question, without, with_fact, {}, target, challenges=n
        )


def _record(row: Row) -> EditRecord:
    subject, query, new = _key(row)
    for name, text in zip(("subject", "prompt", "target_new"), (subject, query, new), strict=True):
        if not text:
            raise row.wrong(f"requested_edit.{name}", "is blank")
    return EditRecord(subject, query, new, _output(row, "pre", "edit") or None)


def _rows(path: Path) -> list[Row]:
    if not path.is_file():
        raise DataError(f"there is no file {path}: {_AGAIN}")
    return read_rows(path, str(path))[0]


def _by_edit(path: Path) -> dict[tuple[str, str, str], Row]:
    """The rows of a file by their edit; none where there is no such file."""
    return {_key(row): row for row in _rows(path)} if path.is_file() else {}


def _key(row: Row) -> tuple[str, str, str]:
    subject, query, new = (
        row.text("requested_edit", name) for name in ("subject", "prompt", "target_new")
    )
    return subject, query, new


def _answer(row: Row, *path: str) -> Answer:
    """The answer whose fields begin with the last name of a path: NAME_output and NAME_acc."""
    field = (*path[:-1], f"{path[-1]}_acc")
    [verdict] = _list(row, *field, length=1)
    if verdict not in (0, 1):
        raise row.wrong(".".join(field), "must be [0] or [1]")
    return Answer(_output(row, *path), verdict == 1)


def _output(row: Row, *path: str) -> str:
    field = (*path[:-1], f"{path[-1]}_output")
    [text] = _list(row, *field, length=1)
    if not isinstance(text, str):
        raise row.wrong(".".join(field), "must be a list of one text")
    return text.strip()


def _list(row: Row, *path: str, length: int | None = None) -> list[Any]:
    """The list at a path, of one member where `length` is 1."""
    value: Any = row.values
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, list) or (length is not None and len(value) != length):
        raise row.wrong(
            ".".join(path),
            "is missing" if value is None else f"must be a list of {length or 'values'}",
        )
    return value
