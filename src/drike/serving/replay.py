"""Logs of requests as conversations, and what a gateway would have done with them, the least certain ones first."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from drike.conversations.following import Follower
from drike.conversations.turns import Api, Conversation, Speaker, Text, Turn, UnreadError, read
from drike.errors import DataError
from drike.gates.decision import Candidate, Decision
from drike.serving.requests import parse, read_json
from drike.support.records import encodable

_LOGGED = ("body", "request")  # keys under which logs keep a request
_QUESTIONS = ("query", "question")


@dataclass(frozen=True)
class ReplayedQuery:
    """A query with a candidate for it, and how many requests asked it."""

    query: str
    candidate: Candidate
    times: int


@dataclass(frozen=True)
class Replay:
    """Decisions on logged requests, of which `matched` get an edit. unread: how many lines were left out, by reason.

    matches: queries and their edits, the least probable first. misses: the best candidates, the most probable first.
    """

    requests: int
    matched: int
    matches: tuple[ReplayedQuery, ...]
    misses: tuple[ReplayedQuery, ...]
    unread: Mapping[str, int]


def replay(lines: Iterable[bytes], follower: Follower) -> Replay:
    """Decide on the requests of a log, whose lines are as `logged` reads them."""
    requests: Counter[Conversation] = Counter()
    unread: Counter[str] = Counter()
    for line in filter(bytes.strip, lines):
        try:
            if conversation := logged(line):
                requests[conversation] += 1
            else:
                unread["no text of a user at the end"] += 1
        except ValueError as problem:
            unread[str(problem)] += 1
    matched, matches, misses = 0, [], []
    for conversation, times in requests.items():
        decision = follower.follow(conversation).decision or Decision("")
        ids = {edit.id for edit in decision.matched}
        replayed = [ReplayedQuery(decision.query, candidate, times) for candidate in decision.candidates]
        if ids:
            matched += times
            matches += [query for query in replayed if query.candidate.edit.id in ids]
        else:
            misses += replayed[:1]
    certainty = lambda asked: (asked.candidate.probability, asked.candidate.features.get("nearness", 0.0))  # noqa: E731
    matches.sort(key=certainty)
    misses.sort(key=certainty, reverse=True)
    return Replay(requests.total(), matched, tuple(matches), tuple(misses), unread)


def asked(text: str) -> Conversation | None:
    """The conversation in which a user asks this; None for a blank text."""
    said = Text(("messages", 0, "content"), encodable(text))
    return Conversation(Api.CHAT, (Turn(Speaker.USER, (said,)),)) if text.strip() else None


def logged(line: bytes) -> Conversation | None:
    """The conversation of a request in a log; None if no user asks at its end, or what is asked is blank.

    A line is a request or a question as JSON: an object with `messages`, `prompt`, `input`, `query` or `question`, or
    with such an object as its `body` or `request`, which may be JSON in a string; or a string. Raises ValueError for
    another line, with the reason as a noun.
    """
    try:
        values: object = parse(line)
    except ValueError:
        raise ValueError("too deep, or with too many messages") from None
    values = _json_or_none(line) if values is None else values
    for key in _LOGGED:
        inner = values.get(key) if isinstance(values, dict) else None
        inner = _json_or_none(inner) if isinstance(inner, str) else inner
        values = inner if isinstance(inner, dict) else values
    if isinstance(values, str):
        return asked(values)
    if not isinstance(values, dict):
        raise ValueError("no JSON object")
    forms = {"messages": Api.MESSAGES if "system" in values else Api.CHAT, "input": Api.RESPONSES}
    api = next((api for key, api in forms.items() if key in values), Api.COMPLETIONS)
    try:
        conversation = read(api, values)
        if conversation.said.strip():
            return conversation
    except UnreadError:
        pass
    except ValueError:
        raise ValueError("too deep, or with too many messages") from None
    question = next((values[key] for key in _QUESTIONS if isinstance(values.get(key), str)), None)
    if question is None and not {"messages", "prompt", "input"} & values.keys():
        raise ValueError("no messages, prompt, input, query or question")
    return asked(question or "")


def read_questions(path: Path) -> list[Conversation]:
    """The different conversations of a file: .jsonl as `logged` reads it, or a question a line. Raises DataError."""
    try:
        if path.suffix.casefold() == ".jsonl":
            read = []
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                try:
                    read.append(logged(line) if line.strip() else None)
                except ValueError as problem:
                    remedy = "correct it, or name the file .txt"
                    raise DataError(f"{path}, line {number} is not a request ({problem}): {remedy}") from None
        else:
            read = [asked(line.strip()) for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(f"{path} cannot be read ({problem}): give a text file in UTF-8") from None
    questions = list(dict.fromkeys(conversation for conversation in read if conversation))
    if not questions:
        raise DataError(f"{path} has no question: give one a line, or requests as JSON lines")
    return questions


def _json_or_none(text: bytes | str) -> object:
    try:
        return read_json(text)
    except (ValueError, RecursionError):
        return None
