"""Gates without training: `Named` goes by names, `Nearest` by cosine similarity, `EveryQuery` always finds an edit."""

from __future__ import annotations

from dataclasses import dataclass

from drike.gates.decision import Candidate, Decision, foremost
from drike.gates.index import EditIndex, ParsedQuery, nearness
from drike.gates.short_forms import NameMatch


@dataclass(frozen=True)
class Named:
    """Matches the named subjects: of each, the edit with the paraphrase that is nearest to the query.

    Nearness is cosine similarity where the index has vectors, else the share of common words; ties go to the edit with
    the highest priority, then the oldest. Only names and short forms that are certain count (`Mention.certain`): no
    partial names, typos and parts of longer names.
    """

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match the nearest edit of every subject or alias that the query names as whole words."""
        parsed = ParsedQuery.of(query, index)
        mentions = [mention for mention in parsed.mentions if mention.certain]
        if not mentions:
            return Decision(query)
        near = nearness(parsed, index, sorted({i for mention in mentions for i in mention.edits}))
        order = sorted(near, key=lambda i: (-near[i], -index.edits[i].record.priority, i))
        rank = {i: place for place, i in enumerate(order) if not parsed.excluded(index.edits[i])}
        named = [sorted((i for i in mention.edits if i in rank), key=rank.__getitem__) for mention in mentions]
        best = {i for ranked in named for i in foremost(index, ranked)}
        name = {i: mention.name for mention in reversed(mentions) for i in mention.edits}
        candidates = [
            Candidate(index.edits[i], float(i in best), name[i], {"nearness": near[i]})
            for i in sorted(order, key=lambda i: i not in best)
        ]
        matching = [candidate for candidate in candidates if candidate.probability]
        return Decision.of(query, candidates, matching, "a negative exemplar matches")


@dataclass(frozen=True)
class EveryQuery:
    """Puts every query under an edit, as the paper does: of those with a named subject, else of all, the nearest."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match one edit; none only where the index is empty."""
        parsed = ParsedQuery.of(query, index)
        full = (mention for mention in parsed.mentions if mention.kind is NameMatch.FULL)
        named = {i: mention.name for mention in full for i in mention.edits}
        near = nearness(parsed, index, sorted(named or index.edits))
        order = sorted(near, key=lambda i: (-near[i], -index.edits[i].record.priority, i))
        if not order:
            return Decision(query, reason="no edit is in force")
        candidates = tuple(
            Candidate(index.edits[i], float(i == order[0]), named.get(i), {"nearness": near[i]}) for i in order
        )
        best = tuple(index.edits[i] for i in foremost(index, order))
        return Decision(query, best, candidates, f"every query is put under an edit: edit {best[-1].id}")


@dataclass(frozen=True)
class Nearest:
    """Matches the edit with the paraphrase that is nearest to the query by cosine similarity, whatever it names.

    threshold: the least cosine that matches; it differs between encoders and kinds of texts. Needs vectors.
    """

    threshold: float = 0.7

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match the nearest edit, if it is near enough."""
        parsed = ParsedQuery.of(query, index)
        [vector] = index.embed([parsed.excerpts(())[0][0]])
        near = index.nearest(vector)
        candidates = {i: Candidate(index.edits[i], near[i], None, {"whole": near[i]}) for i in near}
        enough = [i for i in near if near[i] >= self.threshold and not parsed.excluded(index.edits[i])]
        matching = [candidates[i] for i in foremost(index, enough)]
        return Decision.of(query, list(candidates.values()), matching, "no wording is near enough")
