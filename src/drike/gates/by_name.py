"""Gates that need no training: `Named` decides by the names in a query, `EveryQuery` always finds an edit."""

from __future__ import annotations

from dataclasses import dataclass

from drike.gates.decision import Candidate, Decision, _decision
from drike.gates.index import EditIndex, _Asked, _nearness
from drike.gates.names import (
    NameMatch,
)


@dataclass(frozen=True)
class Named:
    """Fires on named subjects: of each, the edit whose wording is nearest to the query.

    Nearest is by cosine similarity where the index has vectors, else by the share of common words; of equal ones the
    edit with the highest priority, then the oldest. Only whole names count, not partial ones and typos.
    """

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire the nearest edit of every subject or alias that the query names as whole words."""
        asked = _Asked.of(query, index)
        mentions = [mention for mention in asked.mentions if mention.kind is NameMatch.FULL]
        if not mentions:
            return Decision(query)
        near = _nearness(asked, index, sorted({i for mention in mentions for i in mention.edits}))
        order = sorted(near, key=lambda i: (-near[i], -index.edits[i].record.priority, i))
        rank = {i: place for place, i in enumerate(order) if not asked.excluded(index.edits[i])}
        best = {min(found, key=rank.__getitem__) for m in mentions if (found := [i for i in m.edits if i in rank])}
        name = {i: mention.name for mention in reversed(mentions) for i in mention.edits}
        candidates = [
            Candidate(index.edits[i], float(i in best), name[i], {"nearness": near[i]})
            for i in sorted(order, key=lambda i: i not in best)
        ]
        return _decision(query, candidates, [one for one in candidates if one.probability])


@dataclass(frozen=True)
class EveryQuery:
    """Puts every query under an edit, as the paper does: of those with a named subject, else of all, the nearest."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire one edit; none only where the index is empty."""
        asked = _Asked.of(query, index)
        named = {i: mention.name for mention in asked.mentions if mention.kind is NameMatch.FULL for i in mention.edits}
        near = _nearness(asked, index, sorted(named or index.edits))
        order = sorted(near, key=lambda i: (-near[i], -index.edits[i].record.priority, i))
        if not order:
            return Decision(query, reason="no edit is in force")
        candidates = tuple(
            Candidate(index.edits[i], float(i == order[0]), named.get(i), {"nearness": near[i]}) for i in order
        )
        best = candidates[0].edit
        return Decision(query, (best,), candidates, f"every query is put under an edit: edit {best.id}")
