"""Reports of wrong answers from files: exports of Langfuse and of Open WebUI, and our own JSON or CSV.

Langfuse: traces or observations with their scores, as its API and its export in JSON give them. A correction is a score
of the type CORRECTION; of others, those of 0 or less report an answer. Open WebUI: the export of its evaluations, of
which thumbs down are read, each with the chat as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from drike.datasets.rows import scan_rows, shown
from drike.errors import DataError
from drike.stores.reports import GIVEN, Report, report_of

_QUESTIONS = ("question", "query", "input", "prompt", "text", "content")
_ANSWERS = ("output", "answer", "response", "text", "content")


def read_reports(path: Path) -> tuple[list[Report], list[str]]:
    """The reports in a file, and why other rows are none. Raises DataError for a file that cannot be read."""
    found, refused = list[Report](), list[str]()
    for row in scan_rows(path, str(path))[0]:
        if isinstance(row, DataError):
            refused.append(str(row))
            continue
        try:
            found.append(report_of(_values(row.values)))
        except ValueError as problem:
            refused.append(f"{row.place}: {problem}")
    return found, refused


def _values(values: Mapping[str, Any]) -> Mapping[str, object]:
    if isinstance(values.get("data"), dict) and "snapshot" in values:
        return _of_open_webui(values)
    if "input" in values and ("output" in values or "scores" in values):
        return _of_langfuse(values)
    if "traceId" in values:
        raise ValueError("a score without its trace has no question: export the traces with their scores")
    return {name: str(values[name]) for name in GIVEN if values.get(name) not in (None, "")}


def _of_open_webui(values: Mapping[str, Any]) -> Mapping[str, object]:
    data, meta = values["data"], values.get("meta")
    if not isinstance(data.get("rating"), int | float) or data["rating"] > 0:
        raise ValueError("the rating is not thumbs down")
    chat = _at(values, "snapshot", "chat")
    messages = _at(chat, "chat", "history", "messages") or _at(chat, "history", "messages")
    said = _at(messages, str(_at(meta, "message_id")))
    asked = _at(messages, str(_at(said, "parentId")))
    return {
        "question": _text(_at(asked, "content"), _QUESTIONS), "answer": _text(_at(said, "content"), _ANSWERS),
        "comment": ": ".join(str(data[name]) for name in ("reason", "comment") if data.get(name)),
        "conversation": _plain(_at(meta, "chat_id")), "model": _plain(data.get("model_id") or _at(meta, "model_id")),
    }  # fmt: skip


def _of_langfuse(values: Mapping[str, Any]) -> Mapping[str, object]:
    given = _parsed(values.get("scores"))
    scores = [score for score in given if isinstance(score, dict)] if isinstance(given, list) else []
    corrections = [score for score in scores if score.get("dataType") == "CORRECTION"]
    others = [score for score in scores if score not in corrections]
    bad = [score for score in others if isinstance(score.get("value"), int | float) and score["value"] <= 0]
    if not (corrections or bad):
        raise ValueError("no score of it is a correction, or 0 or less")
    last = corrections[-1] if corrections else {}
    comment = "; ".join(str(score["comment"]) for score in (*corrections, *bad) if score.get("comment"))
    return {
        "question": _text(_parsed(values["input"]), _QUESTIONS),
        "answer": _text(_parsed(values.get("output")), _ANSWERS),
        "correction": _text(_parsed(last.get("stringValue") or last.get("value")), _ANSWERS),
        "comment": comment or "bad score", "model": _plain(values.get("model")),
        "conversation": _plain(values.get("sessionId") or values.get("traceId") or values.get("id")),
    }  # fmt: skip


def _at(value: object, *path: str) -> Any:
    """What an object has at a path; None if anything on the way is missing."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: object, names: Sequence[str]) -> str:
    """The text of a message, the last of several, or of an object that has it under one of these names."""
    if isinstance(value, list) and value:
        users = [part for part in value if _at(part, "role") == "user"]
        return _text((users or value)[-1], names)
    if isinstance(value, dict):
        return _text(next(filter(None, map(value.get, ("messages", *names))), ""), names)
    return value if isinstance(value, str) else ""


def _parsed(value: object) -> object:
    """JSON in a cell of a table; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _plain(value: object) -> str | None:
    return shown(value) if value else None
