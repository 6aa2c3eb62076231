"""The gate: which of the edits in force a query concerns, if any.

A gate is a pure function of the query and an `EditIndex`, which is made from a snapshot of a store. `Named` fires on
subjects that a query names, `EveryQuery` always.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

import numpy as np

from drike.encoders.base import FloatArray, TextEncoder, unit
from drike.serving.store import Status, StoredEdit

MOST_FIRED = 3  # edits in one prompt

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+[+#]*")  # Han and kana: each sign
_DIACRITICS = re.compile(r"[\u0300-\u036f]")
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"})


def words(text: str) -> list[str]:
    """The words of a text as they are compared: NFKC, case folded, without diacritics and punctuation."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).casefold()
        text = _DIACRITICS.sub("", unicodedata.normalize("NFD", text)).translate(_LETTERS)
        text = unicodedata.normalize("NFC", text)
    return _WORD.findall(text.casefold())


@dataclass(frozen=True)
class Mention:
    """A stored name in a query: its words begin..end (excluded), and which edits of the index have it."""

    name: str
    begin: int
    end: int
    edits: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class EditIndex:
    """The edits in force, by id, with a dictionary of their names and, given an encoder, vectors of their wordings.

    An index never changes; make the next one from the next snapshot, with this one as `previous`.

    Attributes:
        edits: without drafts and retired ones.
        vectors: a unit vector for each text in `rows` [n, d]; None without an encoder.
        rows: the row of each query and wording in `vectors`.
    """

    edits: tuple[StoredEdit, ...]
    encoder: TextEncoder | None = None
    vectors: FloatArray | None = None
    rows: Mapping[str, int] = field(default_factory=dict)
    _names: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    _longest: Mapping[str, int] = field(default_factory=dict)  # words of the longest name with this first word

    @classmethod
    def of(
        cls, edits: Sequence[StoredEdit], encoder: TextEncoder | None = None, previous: EditIndex | None = None
    ) -> EditIndex:
        """Index the edits of `Snapshot.in_force`, in any order.

        previous: an index with the same encoder, whose vectors are used again for texts that both hold.
        """
        kept = sorted((one for one in edits if one.entry.status in (Status.ACTIVE, Status.SHADOW)), key=lambda e: e.id)
        names: dict[str, dict[int, None]] = defaultdict(dict)
        longest: dict[str, int] = {}
        for i, one in enumerate(kept):
            for spelled in filter(None, map(words, one.entry.names)):
                names[" ".join(spelled)][i] = None
                longest[spelled[0]] = max(longest.get(spelled[0], 0), len(spelled))
        texts = dict.fromkeys(chain.from_iterable(_wordings(one) for one in kept)) if encoder else {}
        rows = {text: row for row, text in enumerate(texts)}
        vectors = _vectors(list(rows), encoder, previous) if encoder else None
        return cls(tuple(kept), encoder, vectors, rows, {n: tuple(found) for n, found in names.items()}, longest)

    def mentions(self, query: Sequence[str]) -> list[Mention]:
        """The names among the `words` of a query, in their order; none that is part of a longer one."""
        found: list[Mention] = []
        end = 0
        for begin, word in enumerate(query):
            for length in range(min(self._longest.get(word, 0), len(query) - begin), 0, -1):
                name = " ".join(query[begin : begin + length])
                if name in self._names:
                    if begin + length > end:
                        found.append(Mention(name, begin, begin + length, self._names[name]))
                        end = begin + length
                    break
        return found


@dataclass(frozen=True)
class Candidate:
    """An edit that a gate has considered.

    Attributes:
        probability: that the query concerns the edit.
        name: under which the query names its subject; None where it does not.
        features: what the probability was made from, by name.
    """

    edit: StoredEdit
    probability: float
    name: str | None = None
    features: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """Which edits a query concerns.

    Attributes:
        fired: those to apply, `MOST_FIRED` at most, the best first; none leaves the query alone.
        considered: every edit that was looked at, the most probable first.
        reason: why, in a few words.
    """

    query: str
    fired: tuple[StoredEdit, ...] = ()
    considered: tuple[Candidate, ...] = ()
    reason: str = "no subject is named"


class Scope(Protocol):
    """Decides which edits a query concerns."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """The edits of the index that a query concerns. The same query and edits get the same decision."""
        ...


@dataclass(frozen=True)
class Named:
    """Fires on named subjects: of each, the edit whose wording is nearest to the query.

    Nearest is by cosine similarity where the index has vectors, else by the share of common words; of equal ones the
    edit with the highest priority, then the oldest.
    """

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire the nearest edit of every subject or alias that the query names as whole words."""
        asked = words(query)
        mentions = index.mentions(asked)
        if not mentions:
            return Decision(query)
        near = _nearness(query, asked, index, {i for mention in mentions for i in mention.edits})
        considered: dict[int, Candidate] = {}
        fired: dict[int, float] = {}
        for mention in mentions:
            order = sorted(mention.edits, key=lambda i: (-near[i], -index.edits[i].entry.priority, i))
            best = next((i for i in order if not _excluded(asked, index.edits[i])), None)
            for i in order:
                sure = float(i == best)
                if i not in considered or sure:
                    considered[i] = Candidate(index.edits[i], sure, mention.name, {"nearness": near[i]})
            if best is not None:
                fired[best] = near[best]
        best_first = sorted(fired, key=lambda i: (-index.edits[i].entry.priority, -fired[i], i))[:MOST_FIRED]
        ranked = sorted(considered.items(), key=lambda item: (-item[1].probability, -near[item[0]], item[0]))
        return Decision(
            query,
            tuple(index.edits[i] for i in best_first),
            tuple(candidate for _, candidate in ranked),
            _reason(considered, best_first),
        )


@dataclass(frozen=True)
class EveryQuery:
    """Puts every query under an edit, as the paper does: of those with a named subject, else of all, the nearest."""

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Fire one edit; none only where the index is empty."""
        asked = words(query)
        named = {i: mention.name for mention in index.mentions(asked) for i in mention.edits}
        near = _nearness(query, asked, index, named or range(len(index.edits)))
        order = sorted(near, key=lambda i: (-near[i], -index.edits[i].entry.priority, i))
        if not order:
            return Decision(query, reason="no edit is in force")
        considered = tuple(
            Candidate(index.edits[i], float(i == order[0]), named.get(i), {"nearness": near[i]}) for i in order
        )
        best = considered[0].edit
        return Decision(query, (best,), considered, f"every query is put under an edit: edit {best.id}")


def _reason(considered: Mapping[int, Candidate], fired: Sequence[int]) -> str:
    if not fired:
        return "only negative exemplars of the named subjects' edits match"
    return "; ".join(f'"{considered[i].name}" is named: edit {considered[i].edit.id}' for i in fired)


def _nearness(query: str, asked: Sequence[str], index: EditIndex, edits: Collection[int]) -> dict[int, float]:
    """For each edit, how near its nearest wording is to the query."""
    if index.vectors is not None and index.encoder is not None:
        vector = unit(index.encoder.encode([query]))[0]
        rows = {i: [index.rows[text] for text in _wordings(index.edits[i])] for i in edits}
        return {i: round(float(np.max(index.vectors[of_edit] @ vector)), 6) for i, of_edit in rows.items()}
    spoken = set(asked)

    def shared(text: str) -> float:
        stored = set(words(text))
        return len(spoken & stored) / max(1, len(spoken | stored))

    return {i: max(map(shared, _wordings(index.edits[i]))) for i in edits}


def _excluded(asked: Sequence[str], edit: StoredEdit) -> bool:
    """Whether the query is a negative exemplar of the edit."""
    return any(words(text) == asked for text in edit.entry.negatives)


def _wordings(edit: StoredEdit) -> Iterator[str]:
    yield edit.entry.query
    yield from edit.entry.wordings


def _vectors(texts: Sequence[str], encoder: TextEncoder, previous: EditIndex | None) -> FloatArray:
    """Unit vectors [n, d], taken from `previous` where it has them."""
    known = previous if previous is not None and previous.encoder is encoder else None
    old = known.vectors if known is not None else None
    rows = known.rows if known is not None else {}
    missing = [text for text in texts if text not in rows]
    vectors = np.empty((len(texts), encoder.dim if old is None else old.shape[1]), np.float32)
    if missing:
        vectors[[i for i, text in enumerate(texts) if text not in rows]] = unit(encoder.encode(missing))
    if old is not None:
        vectors[[i for i, text in enumerate(texts) if text in rows]] = old[[rows[t] for t in texts if t in rows]]
    return vectors
