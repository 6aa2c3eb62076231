"""Chains of edits: the new object of one is the subject of the next.

A question may ask for the relations of both. "What is the capital of the country of its author?"
names neither the author nor the country. No model is asked: a part of the question is evidence for
the next edit if it says what that one asks for rather than what those before it do.
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
from drike.gates.index import EditIndex
from drike.gates.parsed_query import ParsedQuery
from drike.text.masking import masked
from drike.text.relation_words import asked_parts

LEAST = 0.15  # evidence at which an edit joins, measured by benchmarks/chains.py

# Share of what an edit's words add to those of the edits before it, from which on a question asks
# for the edit by its words.
_BY_WORDS = 0.5
_MOST_EMBEDDED = 3  # parts of a question
_MOST_LINKS = 64  # edits that are visited


@dataclass(frozen=True)
class Link:
    """An edit, those that lead to it from a named one, and how clearly it is asked for."""

    edit: EditVersion
    before: tuple[EditVersion, ...]
    evidence: float


@dataclass(frozen=True)
class Evidence:
    """What a question asks for besides its subjects and what known edits ask for.

    known: the edits that it concerns by themselves.
    """

    parsed: ParsedQuery
    known: Sequence[EditVersion]
    index: EditIndex

    def evidence(self, before: Sequence[EditVersion], rivals: Sequence[EditVersion]) -> list[float]:
        """How clearly the question asks for each of several edits of a subject.

        What the edits before them ask for does not count. The evidence is 1 for an edit that the
        question's words ask for, if they ask for no rival more. Else it is the largest difference,
        over the parts of the question, between the part's cosine with the edit and its largest one
        with an edit before, less 1 where a rival is nearer to the part.
        """
        evidence = self._by_words(before, rivals)
        if -1.0 not in evidence or self.index.encoder is None:
            return evidence

        ids_before = [edit.id for edit in before]
        rival_ids = [edit.id for edit in rivals]
        for part_vector in self._part_vectors:
            cosines_before = self.index.masked.closest(ids_before, part_vector)
            cosine_before = max(cosines_before.values(), default=0.0)
            cosines = list(self.index.masked.closest(rival_ids, part_vector).values())
            nearest = max(cosines)
            for place, cosine in enumerate(cosines):
                by_part = cosine - cosine_before - (cosine < nearest)
                evidence[place] = max(evidence[place], by_part)
        return evidence

    def _by_words(
        self, before: Sequence[EditVersion], rivals: Sequence[EditVersion]
    ) -> list[float]:
        """1 for the edits for which the question asks by its words, -1 for the others."""
        stems_of_question = _union(stems for _, stems in self._parts)
        stems_before = _union(map(_asked_stems, before))
        shares = []
        for rival in rivals:
            added = _asked_stems(rival) - stems_before
            shares.append(len(added & stems_of_question) / max(1, len(added)))
        enough = max(_BY_WORDS, *shares, 0.0)
        return [1.0 if share >= enough else -1.0 for share in shares]

    @cached_property
    def _parts(self) -> list[tuple[str, frozenset[str]]]:
        names = {(mention.begin, mention.end) for mention in self.parsed.mentions}
        excerpts = self.parsed.excerpts(names)
        return asked_parts("\n".join(excerpt.text for excerpt in excerpts))

    @cached_property
    def _part_vectors(self) -> Iterable[FloatArray]:
        """The vectors of the last parts that the known edits do not explain.

        A chain is followed from the end of a question.
        """
        stems_known = _union(map(_asked_stems, self.known))
        parts = [part for part, stems in self._parts if not stems & stems_known]
        return self.index.embed(parts[-_MOST_EMBEDDED:], masked=True) if parts else ()


def joined(
    decision: Decision,
    index: EditIndex,
    least: float = LEAST,
    *,
    parsed: ParsedQuery | None = None,
) -> Decision:
    """The decision with the edits that continue a chain from an applied one.

    They are behind those that match by themselves. least: their evidence. parsed: the query, if it
    has been read already. Shadow edits neither lead to others nor join. To be called again once a
    model has answered.
    """
    starts = decision.applied
    room = MOST_MATCHED - len(starts)
    if room <= 0 or not any(map(index.followers, starts)):
        return decision

    if parsed is None:
        parsed = ParsedQuery.of(decision.query, index)
    links = walk(Evidence(parsed, starts, index), [Link(edit, (), inf) for edit in starts], least)
    following = islice((link for link in links if link.before), room)

    candidates = {candidate.edit.id: candidate for candidate in decision.candidates}
    matching = [candidates[edit.id] for edit in decision.matched]
    for link in following:
        leading_id = link.before[-1].id
        candidate = Candidate(
            link.edit,
            candidates[leading_id].probability,
            features={"evidence": link.evidence},
            follows=leading_id,
        )
        candidates[link.edit.id] = candidate
        matching.append(candidate)
    return Decision.of(decision.query, list(candidates.values()), matching, decision.reason)


def walk(evidence: Evidence, starts: Sequence[Link], least: float) -> Iterator[Link]:
    """The starts and what follows from them, the clearest first, each behind what leads to it.

    least: evidence. An edit of which the question is a negative exemplar is left out.
    """
    waiting: list[tuple[float, int, Link]] = []  # a heap: the clearest first, then the earliest
    seen = set(evidence.parsed.negatives)
    found = list(starts)
    for _ in range(_MOST_LINKS):
        for link in found:
            if link.evidence >= least and link.edit.id not in seen:
                seen.add(link.edit.id)
                heappush(waiting, (-link.evidence, len(seen), link))
        if not waiting:
            return

        link = heappop(waiting)[2]
        yield link
        before = (*link.before, link.edit)
        followers = evidence.index.followers(link.edit)
        found = [
            Link(edit, before, evidence_for)
            for edit, evidence_for in zip(
                followers, evidence.evidence(before, followers), strict=True
            )
        ]


def _asked_stems(edit: EditVersion) -> frozenset[str]:
    """The stems of the words by which an edit says what it asks about its subject."""
    parts = asked_parts(masked(edit.record.query, edit.record.names))
    return _union(stems for _, stems in parts)


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
