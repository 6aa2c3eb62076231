"""Questions that users ask: a list of common ones, which concern no edit, and those of a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from drike.errors import DataError
from drike.support.records import parse


@cache
def common_questions() -> tuple[str, ...]:
    """Questions and requests such as assistants get, in our own words."""
    return tuple(resources.files("drike.gates").joinpath("questions.txt").read_text("utf-8").splitlines())


def read_questions(path: Path) -> list[str]:
    """The questions of a file: one a line, or JSON lines (.jsonl) of requests, of which the last user message counts.

    A JSON line is a string, or an object with `messages`, `prompt`, `query` or `question`, or with such an object as
    its `body` or `request`. Raises DataError for another line, and for a file that cannot be read or has no question.
    """
    try:
        lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path} cannot be read ({problem}): give a text file in UTF-8") from None
    if path.suffix.casefold() == ".jsonl":
        found = [_question(f"{path}, line {number}", line) for number, line in enumerate(lines, 1)]
    else:
        found = [line.strip() for line in lines]
    questions = list(dict.fromkeys(one for one in found if one))
    if not questions:
        raise DataError(f"{path} has no question: give one a line, or requests as JSON lines")
    return questions


def _question(place: str, line: str) -> str | None:
    """The question of a JSON line; None for a request without a user message."""
    try:
        value = parse(line.encode())
    except ValueError as problem:
        raise DataError(f"{place} is not JSON ({problem}): correct it, or name the file .txt") from None
    for inner in ("body", "request"):
        if isinstance(value, Mapping) and isinstance(value.get(inner), Mapping):
            value = value[inner]
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        if isinstance(messages := value.get("messages"), list):
            users = [one for one in messages if isinstance(one, Mapping) and one.get("role") == "user"]
            return _text(users[-1].get("content")) if users else None
        for name in ("prompt", "query", "question"):
            if isinstance(text := value.get(name), str):
                return text.strip()
    raise DataError(f"{place} has no question: it needs messages, prompt, query or question")


def _text(content: object) -> str | None:
    """The text of a message, whose content may be in parts."""
    if isinstance(content, list):
        parts = [one.get("text") for one in content if isinstance(one, Mapping)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    return content.strip() or None if isinstance(content, str) else None
