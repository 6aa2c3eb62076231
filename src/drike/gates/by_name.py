"""Gates without training: `Named` goes by names, `EveryQuery` always finds an edit."""

from dataclasses import dataclass

from drike.gates.decision import EQUAL, Candidate, Decision, foremost
from drike.gates.index import EditIndex, ParsedQuery, nearness
from drike.text.short_forms import NameMatch


@dataclass(frozen=True)
class Named:
    """Matches the named subjects: of each, the edit with the paraphrase that is nearest to the query.

    Nearness is cosine similarity where the index has vectors, else the share of common words; ties go to the edit with
    the highest priority, then the oldest. Only names and short forms that are certain count (`Mention.certain`): no
    partial names, typos and parts of longer names. A query that is one of an edit's texts is nearest to it, named or
    not. Where it is a negative exemplar of the nearest, none takes its place.
    """

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match the nearest edit of every subject or alias that the query names as whole words, and those it equals."""
        parsed = ParsedQuery.of(query, index)
        mentions = [mention for mention in parsed.mentions if mention.certain]
        if not mentions and not parsed.equal:
            return Decision(query)
        near = nearness(parsed, index, sorted({i for mention in mentions for i in mention.edits}))
        near |= dict.fromkeys(parsed.equal, 1.0)
        order = sorted(
            near,
            key=lambda i: (i not in parsed.equal, -near[i], -index.edits[i].record.priority, i),
        )
        rank = {i: place for place, i in enumerate(order)}
        named = [
            sorted((i for i in mention.edits if i in rank), key=rank.__getitem__)
            for mention in mentions
        ]
        best = {i for ranked in named for i in foremost(index, ranked)} | parsed.equal
        best -= parsed.negatives  # and no other edit of the subject answers instead
        name = {i: mention.name for mention in reversed(mentions) for i in mention.edits}
        candidates = [
            Candidate(
                index.edits[i],
                float(i in best),
                name.get(i),
                {"nearness" if i in name else EQUAL: near[i]},
            )
            for i in sorted(order, key=lambda i: i not in best)
        ]
        return Decision.of(
            query,
            candidates,
            [c for c in candidates if c.probability],
            "a negative exemplar matches",
        )


@dataclass(frozen=True)
class EveryQuery:
    """Puts every query under an edit, as the paper does: of those with a named subject, else of all, the nearest."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match one edit; none only where the index is empty."""
        parsed = ParsedQuery.of(query, index)
        named = {i: m.name for m in parsed.mentions if m.kind is NameMatch.FULL for i in m.edits}
        near = nearness(parsed, index, sorted(named or index.edits))
        order = sorted(near, key=lambda i: (-near[i], -index.edits[i].record.priority, i))
        if not order:
            return Decision(query, reason="no edit is in force")
        found = [
            Candidate(index.edits[i], float(i == order[0]), named.get(i), {"nearness": near[i]})
            for i in order
        ]
        best = tuple(index.edits[i] for i in foremost(index, order))
        return Decision(
            query, best, tuple(found), f"every query is put under an edit: edit {best[-1].id}"
        )
