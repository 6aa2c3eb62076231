"""Chains of edits: the new object of one is the subject of the next, and a question asks for both relations.

"What is the capital of the country of its author?" names neither the author nor the country. No model is asked: a part
of the question is evidence for the next edit if it says what that one asks for rather than what those before it do.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import islice
from math import inf

from drike.edits.record import EditVersion
from drike.encoders.base import FloatArray
from drike.gates.decision import MOST_MATCHED, Candidate, Decision
from drike.gates.index import EditIndex, ParsedQuery
from drike.gates.relations import asked_parts
from drike.text.words import masked

LEAST = 0.15  # evidence at which an edit joins, measured by benchmarks/chains.py
_BY_WORDS = (
    0.5  # share of what an edit's words add to those of the edits before it that a question says
)
_MOST_EMBEDDED = 3  # parts of a question
_MOST_LINKS = 64  # edits that are visited


@dataclass(frozen=True)
class Link:
    """An edit, those that lead to it from one that the question names, and how clearly the question asks for it."""

    edit: EditVersion
    before: tuple[EditVersion, ...]
    evidence: float


@dataclass(frozen=True)
class Evidence:
    """What a question asks for, whatever its subjects are, but for what the known edits that it concerns ask for."""

    parsed: ParsedQuery
    known: Sequence[EditVersion]
    index: EditIndex

    def evidence(self, before: Sequence[EditVersion], rivals: Sequence[EditVersion]) -> list[float]:
        """How clearly the question asks for each of several edits of a subject, besides the edits before them.

        This is 1 if its words say so, and say no rival more; else the most by which the cosine of a part and the edit
        is above those of the part and the edits before, less 1 where a rival is nearer to the part.
        """
        said = frozenset[str]().union(*(stems for _, stems in self._parts))
        known = frozenset[str]().union(*map(_wanted, before))
        shares = [
            len(stems & said) / max(1, len(stems))
            for stems in (_wanted(edit) - known for edit in rivals)
        ]
        enough = max(_BY_WORDS, *shares, 0.0)
        evidence = [1.0 if share >= enough else -1.0 for share in shares]
        if -1.0 not in evidence or self.index.encoder is None:
            return evidence
        for vector in self._vectors:
            rest = max(
                self.index.masked.closest([edit.id for edit in before], vector).values(),
                default=0.0,
            )
            near = [*self.index.masked.closest([edit.id for edit in rivals], vector).values()]
            evidence = [
                max(e, c - rest - (c < max(near))) for e, c in zip(evidence, near, strict=True)
            ]
        return evidence

    @cached_property
    def _parts(self) -> list[tuple[str, frozenset[str]]]:
        spans = {(mention.begin, mention.end) for mention in self.parsed.mentions}
        return asked_parts("\n".join(text for _, text in self.parsed.excerpts(spans)))

    @cached_property
    def _vectors(self) -> Iterable[FloatArray]:
        """Of the last parts that the known edits do not explain: a chain is followed from the end of a question."""
        known = frozenset[str]().union(*map(_wanted, self.known))
        parts = [part for part, stems in self._parts if not stems & known]
        return self.index.embed(parts[-_MOST_EMBEDDED:], masked=True) if parts else ()


def joined(decision: Decision, index: EditIndex, least: float = LEAST) -> Decision:
    """The decision with the edits that continue a chain from an applied one, behind those that match by themselves.

    least: their evidence. Shadow edits neither lead to others nor join. To be called again once a model has answered.
    """
    starts, room = decision.applied, MOST_MATCHED - len(decision.applied)
    if room <= 0 or not any(map(index.followers, starts)):
        return decision
    asked = Evidence(ParsedQuery.of(decision.query, index), starts, index)
    known = {candidate.edit.id: candidate for candidate in decision.candidates}
    matching = [known[edit.id] for edit in decision.matched]
    links = walk(asked, [Link(edit, (), inf) for edit in starts], least)
    for link in islice((link for link in links if link.before), room):
        follows = link.before[-1].id
        features = {"evidence": link.evidence}
        known[link.edit.id] = Candidate(
            link.edit, known[follows].probability, None, features, follows=follows
        )
        matching.append(known[link.edit.id])
    return Decision.of(decision.query, list(known.values()), matching, decision.reason)


def walk(asked: Evidence, starts: Sequence[Link], least: float) -> Iterator[Link]:
    """The starts and what follows from them, the clearest first, each behind what leads to it. least: evidence."""
    waiting: list[tuple[float, int, Link]] = []
    seen, more = set(asked.parsed.negatives), list(starts)
    for _ in range(_MOST_LINKS):
        for link in more:
            if link.evidence >= least and link.edit.id not in seen:
                seen.add(link.edit.id)
                heappush(waiting, (-link.evidence, len(seen), link))
        if not waiting:
            return
        link = heappop(waiting)[2]
        yield link
        before, rivals = (*link.before, link.edit), asked.index.followers(link.edit)
        more = [
            Link(edit, before, found)
            for edit, found in zip(rivals, asked.evidence(before, rivals), strict=True)
        ]


def _wanted(edit: EditVersion) -> frozenset[str]:
    return frozenset[str]().union(
        *(stems for _, stems in asked_parts(masked(edit.record.query, edit.record.names)))
    )
