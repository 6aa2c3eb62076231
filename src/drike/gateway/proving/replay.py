"""Decides on the requests of a log, to see what a gate would have matched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drike.conversations.following import Follower
from drike.conversations.turns import Conversation
from drike.gates.decision import Candidate, Decision
from drike.gateway.logs import logged


@dataclass(frozen=True)
class ReplayedQuery:
    """A query with a candidate for it, and how many requests asked it."""

    query: str
    candidate: Candidate
    times: int


@dataclass(frozen=True)
class Replay:
    """Decisions on logged requests, of which `matched` get an edit.

    unread: how many lines were left out, by reason.

    matches: queries and their edits, the least probable first. misses: the best candidates, the
    most probable first.
    """

    requests: int
    matched: int
    matches: tuple[ReplayedQuery, ...]
    misses: tuple[ReplayedQuery, ...]
    unread: Mapping[str, int]


def replay_log(lines: Iterable[bytes], follower: Follower) -> Replay:
    """Decide on the requests of a log, whose lines are as `logged` reads them."""
    times_by_request: Counter[Conversation] = Counter()
    unread: Counter[str] = Counter()
    for line in lines:
        if not line.strip():
            continue
        try:
            conversation = logged(line)
        except ValueError as problem:
            unread[str(problem)] += 1
            continue
        if conversation is None:
            unread["no text of a user at the end"] += 1
        else:
            times_by_request[conversation] += 1

    matched = 0
    matches: list[ReplayedQuery] = []
    misses: list[ReplayedQuery] = []
    for conversation, times in times_by_request.items():
        decision = follower.follow(conversation).decision or Decision("")
        replayed = [
            ReplayedQuery(decision.query, candidate, times) for candidate in decision.candidates
        ]
        if decision.matched:
            ids = {edit.id for edit in decision.matched}
            matched += times
            matches += [query for query in replayed if query.candidate.edit.id in ids]
        else:
            misses += replayed[:1]

    matches.sort(key=_certainty)
    misses.sort(key=_certainty, reverse=True)
    return Replay(times_by_request.total(), matched, tuple(matches), tuple(misses), unread)


def _certainty(replayed: ReplayedQuery) -> tuple[float, float]:
    """By what replayed queries are ordered: the candidate's probability, then how near it is."""
    candidate = replayed.candidate
    return candidate.probability, candidate.features.get("nearness", 0.0)
