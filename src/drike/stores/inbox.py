"""Reports of wrong answers, kept beside the edits until a person closes them, or makes an edit of them."""

import json
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from drike.edits.record import StoreError, damaged
from drike.stores.log import EditStore
from drike.support.records import parse, read
from drike.support.rows import at, read_rows, shown

MOST_KEPT = 10_000
LONGEST = 4_000  # characters of a text; the rest of an answer or comment is cut
_COUNT = "reports"  # the setting with the number of the last report; where it is missing, so is the table
_TABLE = "CREATE TABLE IF NOT EXISTS drike_reports (number BIGINT PRIMARY KEY, closed BIGINT NOT NULL, report TEXT)"
GIVEN = ("question", "answer", "correction", "comment", "conversation", "model")
_QUESTIONS = ("question", "query", "input", "prompt", "text", "content")
_ANSWERS = ("output", "answer", "response", "text", "content")


class FullInboxError(StoreError):
    """There are too many open reports to keep another one."""


class ReportState(StrEnum):
    """Whether a report waits for a person."""

    OPEN = "open"
    CLOSED = "closed"
    SAMPLE = "sample"  # an answer that a gateway kept, of which nobody has said that it is wrong


_CLOSED = {
    state: number for number, state in enumerate(ReportState)
}  # a state in the column `closed`


@dataclass(frozen=True)
class Report:
    """A wrong answer, as someone reports it."""

    sparse: ClassVar[bool] = True  # fields with their default are left out of JSON

    question: str
    answer: str = ""
    correction: str | None = None  # what is right
    comment: str | None = None
    conversation: str | None = None  # its id
    model: str | None = None  # its id
    number: int = 0  # which report of the store it is
    at: str = ""  # when it came
    author: str | None = None  # from whom
    state: ReportState = ReportState.OPEN
    edit: int | None = None  # the one that came of it, or that a sample is of
    closed_by: str | None = None
    reason: str | None = None


def report_of(values: object) -> Report:
    """A report from the fields that a reporter gives; texts are stripped and cut. Raises ValueError."""
    if not isinstance(values, dict):
        raise ValueError("a report is a JSON object: give question, answer and correction")
    if unknown := values.keys() - set(GIVEN):
        raise ValueError(f"a report has no field {min(unknown)!r}: it has {', '.join(GIVEN)}")
    given = {name: _cleaned(value) for name, value in values.items() if value not in (None, "")}
    if not given.get("question"):
        raise ValueError("question is missing: give what was asked")
    if not any(given.get(name) for name in ("answer", "correction", "comment")):
        raise ValueError("a report says what is wrong: give answer, correction or comment")
    return read(Report, given)


def add(store: EditStore, reports: Sequence[Report], author: str | None) -> Sequence[Report]:
    """Keep reports, all or none; the oldest samples and closed ones make room. Raises FullInboxError, StoreError."""
    with store.transaction():
        last = int(store.setting(_COUNT) or 0)
        if not last:
            store._run(_TABLE)
        [[kept]] = store._run("SELECT COUNT(*) FROM drike_reports")
        if (excess := kept + len(reports) - MOST_KEPT) > 0:
            oldest = "SELECT number FROM drike_reports WHERE closed > 0 ORDER BY closed DESC, number LIMIT %s"
            gone = store._run(f"DELETE FROM drike_reports WHERE number IN ({oldest})", [excess])  # noqa: S608
            if gone.rowcount < excess:
                raise FullInboxError(
                    f"the inbox holds {MOST_KEPT:,} reports: close some (drike edits inbox --close)"
                )
        numbered = enumerate(reports, last + 1)
        added = [
            replace(report, number=number, at=store._now(), author=author)
            for number, report in numbered
        ]
        for report in added:
            store._insert("drike_reports", [(report.number, _CLOSED[report.state], _text(report))])
        store.save_setting(_COUNT, str(last + len(added)))
    return added


def reports(store: EditStore, state: ReportState | None = ReportState.OPEN) -> list[Report]:
    """The reports in a state, or all but samples, the oldest first. Raises StoreError."""
    return _kept(store, "closed IN (%s, %s)", [0, 1] if state is None else [_CLOSED[state]] * 2)


def report(store: EditStore, number: int) -> Report:
    """A report. Raises StoreError if there is none with this number."""
    if not (found := _kept(store, "number = %s", [number]) if abs(number) < 2**63 else None):
        raise StoreError(f"there is no report {number}: choose one that drike edits inbox lists")
    return found[0]


def close(
    store: EditStore,
    number: int,
    *,
    author: str | None = None,
    reason: str | None = None,
    edit: int | None = None,
) -> Report:
    """Close a report, with the reason or the edit that came of it. Raises StoreError, also if it is closed."""
    with store.transaction():
        known = report(store, number)
        if known.state is ReportState.CLOSED:
            why = f"edit {known.edit} came of it" if known.edit else known.reason
            raise StoreError(f"report {number} is closed already ({why}): choose an open one")
        if edit is None and not reason:
            raise StoreError("closing a report needs a reason, for its author: give one (--reason)")
        return _changed(
            store,
            replace(known, state=ReportState.CLOSED, closed_by=author, reason=reason, edit=edit),
        )


def keep_samples(store: EditStore, samples: Sequence[Report], most: int) -> None:
    """Keep samples, of each comment the newest `most`. Raises StoreError."""
    with store.transaction():
        add(store, samples, None)
        kept = Counter[str | None]()
        for sample in reversed(reports(store, ReportState.SAMPLE)):
            kept[sample.comment] += 1
            if kept[sample.comment] > most:
                store._run("DELETE FROM drike_reports WHERE number = %s", [sample.number])


def forget_samples(store: EditStore) -> int:
    """Delete all samples; return how many there were. Raises StoreError."""
    if store.setting(_COUNT) is None:
        return 0
    with store.transaction():
        return int(
            store._run(
                "DELETE FROM drike_reports WHERE closed = %s", [_CLOSED[ReportState.SAMPLE]]
            ).rowcount
        )


def mark_wrong(store: EditStore, number: int, author: str | None = None) -> Report:
    """Make an open report of a sample. Raises StoreError if it is none."""
    with store.transaction():
        known = report(store, number)
        if known.state is not ReportState.SAMPLE:
            raise StoreError(
                f"report {number} is no sample: choose one that drike edits inbox --samples lists"
            )
        return _changed(store, replace(known, state=ReportState.OPEN, author=author, edit=None))


def _cleaned(value: Any) -> Any:
    """A text without control characters at its ends or inside, cut; any other value as it is."""
    if not isinstance(value, str):
        return value
    kept = (
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else " "
        for c in value[: 4 * LONGEST]
    )
    return "".join(kept).strip()[:LONGEST]


def _text(report: Report) -> str:
    new = {
        name: value for name, value in vars(report).items() if value != getattr(Report, name, None)
    }
    return json.dumps(new, ensure_ascii=False)


def _changed(store: EditStore, report: Report) -> Report:
    values = [_CLOSED[report.state], _text(report), report.number]
    store._run("UPDATE drike_reports SET closed = %s, report = %s WHERE number = %s", values)
    return report


def _kept(store: EditStore, where: str, values: Sequence[object]) -> list[Report]:
    if store.setting(_COUNT) is None:
        return []
    query = f"SELECT number, report FROM drike_reports WHERE {where} ORDER BY number"  # noqa: S608
    kept = []
    for number, text in store._rows(query, values):
        try:
            kept.append(read(Report, parse(text)))
        except ValueError as problem:
            raise damaged(store.name, f"report {number}: {problem}") from None
    return kept


def read_reports(path: Path, kept: Sequence[Report] = ()) -> tuple[list[Report], list[str]]:
    """The reports in a file, and why other rows are none, or kept already. Raises DataError for what cannot be read."""
    known = {tuple(map(vars(report).get, GIVEN)) for report in kept}
    found, refused = list[Report](), list[str]()
    for row in read_rows(path, str(path))[0]:
        try:
            report = report_of(_values(row.values))
            if tuple(map(vars(report).get, GIVEN)) in known:
                raise ValueError("it is kept already")
            found.append(report)
        except ValueError as problem:
            refused.append(f"{row.place}: {problem}")
    return found, refused


def _values(values: Mapping[str, Any]) -> Mapping[str, object]:
    if isinstance(values.get("data"), dict) and "snapshot" in values:
        return _of_open_webui(values)
    if "input" in values and ("output" in values or "scores" in values):
        return _of_langfuse(values)
    if "traceId" in values:
        raise ValueError(
            "a score without its trace has no question: export the traces with their scores"
        )
    return {name: str(values[name]) for name in GIVEN if values.get(name) not in (None, "")}


def _of_open_webui(values: Mapping[str, Any]) -> Mapping[str, object]:
    data, meta = values["data"], values.get("meta")
    if not isinstance(data.get("rating"), int | float) or data["rating"] > 0:
        raise ValueError("the rating is not thumbs down")
    chat = at(values, "snapshot", "chat")
    messages = at(chat, "chat", "history", "messages") or at(chat, "history", "messages")
    said = at(messages, str(at(meta, "message_id")))
    asked = at(messages, str(at(said, "parentId")))
    return {
        "question": _said(at(asked, "content"), _QUESTIONS), "answer": _said(at(said, "content"), _ANSWERS),
        "comment": ": ".join(str(data[name]) for name in ("reason", "comment") if data.get(name)),
        "conversation": _plain(at(meta, "chat_id")), "model": _plain(data.get("model_id") or at(meta, "model_id")),
    }  # fmt: skip


def _of_langfuse(values: Mapping[str, Any]) -> Mapping[str, object]:
    given = _parsed(values.get("scores"))
    scores = (
        [score for score in given if isinstance(score, dict)] if isinstance(given, list) else []
    )
    corrections = [score for score in scores if score.get("dataType") == "CORRECTION"]
    rated = [
        score
        for score in scores
        if score not in corrections and isinstance(score.get("value"), int | float)
    ]
    bad = [score for score in rated if score["value"] <= 0]
    if not (corrections or bad):
        raise ValueError("no score of it is a correction, or 0 or less")
    last = corrections[-1] if corrections else {}
    comment = "; ".join(
        str(score["comment"]) for score in (*corrections, *bad) if score.get("comment")
    )
    return {
        "question": _said(_parsed(values["input"]), _QUESTIONS),
        "answer": _said(_parsed(values.get("output")), _ANSWERS),
        "correction": _said(_parsed(last.get("stringValue") or last.get("value")), _ANSWERS),
        "comment": comment or "bad score", "model": _plain(values.get("model")),
        "conversation": _plain(values.get("sessionId") or values.get("traceId") or values.get("id")),
    }  # fmt: skip


def _said(value: object, names: Sequence[str]) -> str:
    """The text of a message, the last of several, or of an object that has it under one of these names."""
    if isinstance(value, list) and value:
        return _said(([part for part in value if at(part, "role") == "user"] or value)[-1], names)
    if isinstance(value, dict):
        return _said(next(filter(None, map(value.get, ("messages", *names))), ""), names)
    return value if isinstance(value, str) else ""


def _parsed(value: object) -> object:
    """JSON in a cell of a table; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _plain(value: object) -> str | None:
    return shown(value) if value else None
