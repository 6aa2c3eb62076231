"""Reports of wrong answers from files: exports of Langfuse and of Open WebUI, and our own JSON or CSV.

Langfuse: traces or observations with their scores, as its API and its export in JSON give them. A correction is a score
of the type CORRECTION; of others, those of 0 or less report an answer. Open WebUI: the export of its evaluations, of
which thumbs down are read, each with the chat as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drike.datasets.rows import Row, scan_rows, shown
from drike.errors import DataError
from drike.stores.reports import GIVEN, Report, report_of

_QUESTIONS = ("question", "query", "input", "prompt", "text", "content")
_ANSWERS = ("output", "answer", "response", "text", "content")


class _NoReportError(ValueError):
    """A row reports no wrong answer."""


def read_reports(path: Path) -> tuple[list[Report], list[str]]:
    """The reports in a file, and why other rows are none. Raises DataError for a file that cannot be read."""
    found, refused = list[Report](), list[str]()
    for row in scan_rows(path, str(path))[0]:
        try:
            if isinstance(row, DataError):
                raise row
            found.append(report_of(_values(row)))
        except DataError as problem:
            refused.append(str(problem))
        except ValueError as problem:
            assert isinstance(row, Row)  # noqa: S101 - errors of rows are DataErrors
            refused.append(f"{row.place}: {problem}")
    return found, refused


def _values(row: Row) -> Mapping[str, object]:
    values = row.values
    if isinstance(values.get("data"), dict) and "snapshot" in values:
        return _of_open_webui(values)
    if "input" in values and ("output" in values or "scores" in values):
        return _of_langfuse(values)
    if "traceId" in values:
        raise ValueError("a score without its trace has no question: export the traces with their scores")
    return {name: str(values[name]) for name in GIVEN if values.get(name) not in (None, "")}


def _of_open_webui(values: Mapping[str, Any]) -> Mapping[str, object]:
    data, meta = values["data"], _object(values.get("meta"))
    if not isinstance(data.get("rating"), int | float) or data["rating"] > 0:
        raise _NoReportError("the rating is not thumbs down")
    chat = _object(_object(values.get("snapshot")).get("chat"))
    history = _object(_object(chat.get("chat")) or chat).get("history")
    messages = _object(_object(history).get("messages"))
    said = _object(messages.get(str(meta.get("message_id"))))
    asked = _object(messages.get(str(said.get("parentId"))))
    comment = ": ".join(str(data[name]) for name in ("reason", "comment") if data.get(name))
    return {
        "question": _text(asked.get("content"), _QUESTIONS), "answer": _text(said.get("content"), _ANSWERS),
        "comment": comment, "conversation": _plain(meta.get("chat_id")),
        "model": _plain(data.get("model_id") or meta.get("model_id")),
    }  # fmt: skip


def _of_langfuse(values: Mapping[str, Any]) -> Mapping[str, object]:
    scores = _parsed(values.get("scores"))
    scores = [score for score in scores if isinstance(score, dict)] if isinstance(scores, list) else []
    corrections = [score for score in scores if score.get("dataType") == "CORRECTION"]
    bad = [score for score in scores if score not in corrections and _is_bad(score.get("value"))]
    if not (corrections or bad):
        raise _NoReportError("no score of it is a correction, or 0 or less")
    last = corrections[-1] if corrections else {}
    comment = "; ".join(str(score["comment"]) for score in (*corrections, *bad) if score.get("comment"))
    return {
        "question": _text(_parsed(values["input"]), _QUESTIONS),
        "answer": _text(_parsed(values.get("output")), _ANSWERS),
        "correction": _text(_parsed(last.get("stringValue") or last.get("value")), _ANSWERS),
        "comment": comment or "bad score",
        "conversation": _plain(values.get("sessionId") or values.get("traceId") or values.get("id")),
        "model": _plain(values.get("model")),
    }  # fmt: skip


def _is_bad(value: object) -> bool:
    return isinstance(value, int | float) and value <= 0


def _text(value: object, names: Sequence[str]) -> str:
    """The text of a message, the last of several, or of an object that has it under one of these names."""
    if isinstance(value, list):
        users = [part for part in value if isinstance(part, dict) and part.get("role") == "user"]
        return _text((users or value)[-1], names) if value else ""
    if isinstance(value, dict):
        inner = next((value[name] for name in ("messages", *names) if value.get(name)), "")
        return _text(inner, names)
    return value if isinstance(value, str) else ""


def _parsed(value: object) -> object:
    """JSON in a cell of a table; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(value: object) -> str | None:
    return shown(value) if value else None
