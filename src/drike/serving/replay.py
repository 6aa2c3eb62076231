"""What a gateway would have done with logged requests: which edits match, the least certain ones first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drike.conversations.following import Follower
from drike.conversations.turns import Conversation
from drike.gates.decision import Candidate, Decision
from drike.serving.requests import logged


@dataclass(frozen=True)
class ReplayedQuery:
    """A query with a candidate for it, and how many requests asked it."""

    query: str
    candidate: Candidate
    times: int


@dataclass(frozen=True)
class Replay:
    """Decisions on logged requests, of which `matched` get an edit.

    matches: the queries with each edit that matches, the least probable first. misses: where none matches, those with
    their most probable candidate, the most probable first. unread: how many lines were left out, by reason.
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
            conversation = logged(line)
        except ValueError as problem:
            unread[str(problem)] += 1
            continue
        if conversation:
            requests[conversation] += 1
        else:
            unread["no text of a user at the end"] += 1
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
    matches.sort(key=_certainty)
    misses.sort(key=_certainty, reverse=True)
    return Replay(requests.total(), matched, tuple(matches), tuple(misses), unread)


def _certainty(replayed: ReplayedQuery) -> tuple[float, float]:
    return replayed.candidate.probability, replayed.candidate.features.get("nearness", 0.0)
