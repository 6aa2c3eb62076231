"""Reports of wrong answers, from files that other programs export."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from drike.stores.columns import says_nothing
from drike.stores.inbox import GIVEN, Report, report_of
from drike.support.rows import read_rows, shown, value_at

# Under which names objects hold the text of a question, or of an answer.
_QUESTIONS = ("question", "query", "input", "prompt", "text", "content")
_ANSWERS = ("output", "answer", "response", "text", "content")
KEPT = "it is kept already"
LOOKED_FOR = (
    "give rows with question and answer, correction or comment; of Langfuse traces or observations "
    "with input, output and their scores, in scores or each in a column of its own, of which one "
    "is 0 or less, false or bad, or a correction; or feedbacks of Open WebUI with data and snapshot"
)
# Columns of Langfuse's batch exports that hold a list and are no scores.
_NO_SCORES = frozenset(
    (
        *("input", "output", "metadata", "tags", "comments", "observations", "modelParameters"),
        *("toolCalls", "toolDefinitions", "toolCallNames", "traceTags", "userIds"),
    )
)
_IN_LANGFUSE = ("traceId", "sessionId", "bookmarked", "traceName", "scores")  # one at least
_BAD = frozenset(  # categories, in small letters with single spaces
    (
        *("false", "bad", "wrong", "incorrect", "negative", "poor", "dislike", "disliked"),
        *("thumbs down", "thumb down", "down", "\N{THUMBS DOWN SIGN}", "not helpful", "unhelpful"),
    )
)
# Scores of which 0 is the good end, by a part of their names.
_FAULTS = (
    "toxic",
    "hallucinat",
    "harm",
    "bias",
    "error",
    "jailbreak",
    "leak",
    "refus",
    "injection",
)
_FOUND = ("true", "yes", "found", "detected", "high")
_HALF = 0.5  # from which such a score says that there is the fault
# Columns in which other programs say how good an answer was.
_RATINGS = ("rating", "score", "feedback", "thumb", "thumbs", "vote", "liked", "like", "is_correct")


def read_reports(path: Path, kept: Sequence[Report] = ()) -> tuple[list[Report], list[str]]:
    """The new reports in a file, and a sentence on each row that is no report or is in `kept`.

    Raises DataError for a file that cannot be read.
    """
    known = {_given(report) for report in kept}
    rows, _ = read_rows(path, str(path))
    reports = list[Report]()
    refused = list[str]()
    for row in rows:
        try:
            report = report_of(_without_marks(_fields_of(row.values)))
            if _given(report) in known:
                raise ValueError(KEPT)
            reports.append(report)
        except ValueError as problem:
            refused.append(f"{row.place}: {problem}")
    return reports, refused


def _given(report: Report) -> tuple[object, ...]:
    """What a reporter gave."""
    return tuple(getattr(report, name) for name in GIVEN)


def _fields_of(values: Mapping[str, Any]) -> Mapping[str, object]:
    """The fields of a report, as `report_of` takes them, by the program that wrote the row."""
    if isinstance(values.get("data"), dict) and "snapshot" in values:
        return _of_open_webui(values)
    if is_of_langfuse(values):
        return langfuse_fields(values)
    if "traceId" in values:
        raise ValueError(
            "a score without its trace has no question: export the traces with their scores"
        )
    _require_no_good_rating(values)
    return {name: str(values[name]) for name in GIVEN if values.get(name) not in (None, "")}


def _without_marks(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Fields without those in which a spreadsheet marks an empty cell or an error.

    An answer stays, as a model may say NULL.
    """
    return {
        name: value for name, value in fields.items() if name == "answer" or not says_nothing(value)
    }


def _require_no_good_rating(values: Mapping[str, Any]) -> None:
    """Raises ValueError for a row with a rating that does not say that the answer is bad."""
    for name, value in values.items():
        is_rating = name.strip().casefold().replace(" ", "_") in _RATINGS
        if is_rating and value not in (None, "") and not _is_bad({"value": _parsed_number(value)}):
            raise ValueError(
                f"its {name} ({shown(value)}) is not 0 or less, false or bad: leave the column out "
                "if the answer is wrong nevertheless"
            )


def _parsed_number(value: object) -> object:
    """A number that a table has as a text; any other value as it is."""
    with suppress(ValueError):
        return float(value) if isinstance(value, str) else value
    return value


def _of_open_webui(values: Mapping[str, Any]) -> Mapping[str, object]:
    """A feedback of Open WebUI, which holds a snapshot of the chat."""
    data = values["data"]
    meta = values.get("meta")
    rating = data.get("rating")
    if not isinstance(rating, int | float) or rating > 0:
        raise ValueError("the rating is not thumbs down")

    chat = value_at(values, "snapshot", "chat")
    messages = value_at(chat, "chat", "history", "messages") or value_at(
        chat, "history", "messages"
    )
    answer = value_at(messages, str(value_at(meta, "message_id")))
    question = value_at(messages, str(value_at(answer, "parentId")))
    comments = [str(data[name]) for name in ("reason", "comment") if data.get(name)]
    return {
        "question": _text_of(value_at(question, "content"), _QUESTIONS),
        "answer": _text_of(value_at(answer, "content"), _ANSWERS),
        "comment": ": ".join(comments),
        "conversation": _plain(value_at(meta, "chat_id")),
        "model": _plain(data.get("model_id") or value_at(meta, "model_id")),
    }


def is_of_langfuse(values: Mapping[str, Any]) -> bool:
    """Whether a row is a trace or an observation of Langfuse."""
    return "input" in values and (
        "output" in values or any(name in values for name in _IN_LANGFUSE)
    )


def langfuse_fields(values: Mapping[str, Any]) -> Mapping[str, object]:
    """The fields of a report, from a trace or an observation of Langfuse with its scores.

    Raises ValueError for one with no bad score and no correction.
    """
    listed = _parsed(values.get("scores"))
    scores = (
        [score for score in listed if isinstance(score, dict)] if isinstance(listed, list) else []
    )
    scores += _scores_in_columns({**values, **listed} if isinstance(listed, dict) else values)
    corrections = [score for score in scores if score.get("dataType") == "CORRECTION"]
    bad = [score for score in scores if score not in corrections and _is_bad(score)]
    if not (corrections or bad):
        raise ValueError("no score of it is a correction, or is 0 or less, false or bad")

    last_correction = corrections[-1] if corrections else {}
    corrected = last_correction.get("stringValue") or last_correction.get("value")
    comments = [str(score["comment"]) for score in (*corrections, *bad) if score.get("comment")]
    comments += _comments_of(_parsed(values.get("comments")))
    names = ", ".join(dict.fromkeys(str(score["name"]) for score in bad if score.get("name")))
    conversation = values.get("sessionId") or values.get("traceId") or values.get("id")
    return {
        "question": _text_of(_parsed(values["input"]), _QUESTIONS),
        "answer": _text_of(_parsed(values.get("output")), _ANSWERS),
        "correction": _text_of(_parsed(corrected), _ANSWERS),
        "comment": "; ".join(comments) or (f"bad score: {names}" if names else "bad score"),
        "model": _plain(values.get("model") or values.get("providedModelName")),
        "conversation": _plain(conversation),
    }


def _scores_in_columns(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The scores of a batch export, each name of which is a column with a list of values."""
    scores = []
    for name, cell in values.items():
        column = _parsed(cell)
        if name in _NO_SCORES or not isinstance(column, list):
            continue
        kind = "CORRECTION" if name.casefold() == "correction" else ""
        scores += [
            {"name": name, "value": value, "stringValue": value, "dataType": kind}
            for value in column
            if isinstance(value, int | float | str)
        ]
    return scores


def _comments_of(comments: object) -> list[str]:
    """What people say of a trace in a batch export."""
    if not isinstance(comments, list):
        return []
    said = [value_at(comment, "content") or comment for comment in comments]
    return [text for text in said if isinstance(text, str)]


def _is_bad(score: Mapping[str, Any]) -> bool:
    """Whether a score is 0 or less, false, or a category that says that the answer is bad.

    One whose name is that of a fault, such as hallucination, is bad at its other end.
    """
    value = score.get("value")
    name = str(score.get("name") or "").casefold()
    names_fault = any(part in name for part in _FAULTS)
    if isinstance(value, int | float):
        return value >= _HALF if names_fault else value <= 0
    label = score.get("stringValue") if value is None else value
    words_of_label = " ".join(re.split(r"[\s_-]+", str(label).strip().casefold()))
    return words_of_label in (_FOUND if names_fault else _BAD)


def _text_of(value: object, names: Sequence[str]) -> str:
    """The text of a message: of several the user's last one, of an object what it has by a name."""
    if isinstance(value, list) and value:
        of_users = [message for message in value if value_at(message, "role") == "user"]
        return _text_of((of_users or value)[-1], names)
    if isinstance(value, dict):
        for name in ("messages", *names):
            if value.get(name):
                return _text_of(value[name], names)
    return value if isinstance(value, str) else ""


def _parsed(value: object) -> object:
    """JSON in a cell of a table; any other value as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"'):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _plain(value: object) -> str | None:
    return shown(value) if value else None
