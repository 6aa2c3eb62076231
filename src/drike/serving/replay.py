"""What a gateway would have done with logged requests: which edits fire, the most doubtful ones first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drike.gates.decision import Candidate, Decision
from drike.serving.context import chat_target, completion_target, parse

_INNER = ("body", "request")  # where logs keep a request


@dataclass(frozen=True)
class Seen:
    """A query with an edit that was considered for it, and how many requests asked it."""

    query: str
    candidate: Candidate
    times: int


@dataclass(frozen=True)
class Replay:
    """Decisions on logged requests.

    Attributes:
        requests: lines with a request.
        fired: requests for which an edit fires.
        fires: with each edit that fires, the least probable first.
        misses: where none fires, with the edit that was nearest to firing, the most probable first.
        unread: how many lines were left out, by reason.
    """

    requests: int
    matched: int
    fires: tuple[Seen, ...]
    misses: tuple[Seen, ...]
    unread: Mapping[str, int]


def replay(lines: Iterable[bytes], decide: Callable[[Sequence[str]], Decision]) -> Replay:
    """Decide on the requests of a log: JSON lines with a request, or with one as `body` or `request`."""
    asked: Counter[tuple[str, ...]] = Counter()
    unread: Counter[str] = Counter()
    for line in lines:
        if line.strip():
            found = _queries(line)
            asked.update([found] if isinstance(found, tuple) else [])
            unread.update([found] if isinstance(found, str) else [])
    matched, fires, misses = 0, [], []
    for queries, times in asked.items():
        decision = decide(queries)
        ids = {edit.id for edit in decision.matched}
        matched += times * bool(ids)
        fires += [Seen(decision.query, one, times) for one in decision.candidates if one.edit.id in ids]
        misses += [Seen(decision.query, one, times) for one in decision.candidates[:1] if not ids]
    return Replay(
        asked.total(), matched, tuple(sorted(fires, key=_sureness)), tuple(sorted(misses, key=_sureness, reverse=True)),
        unread,
    )  # fmt: skip


def _queries(line: bytes) -> tuple[str, ...] | str:
    """What a gateway would decide on, or why it would not."""
    try:
        body: dict[str, Any] | None = parse(line)
    except ValueError:
        return "too deep, or with too many messages"
    if body is None:
        return "no JSON object"
    for name in _INNER:
        inner = body.get(name)
        if isinstance(inner, str):  # some logs keep the request as text
            inner = _object(inner)
        if isinstance(inner, dict):
            body = inner
    target = chat_target(body) if "messages" in body else completion_target(body)
    return target.queries if target else "no text of a user at the end"


def _object(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _sureness(seen: Seen) -> tuple[float, float]:
    return seen.candidate.probability, seen.candidate.features.get("nearness", 0.0)
