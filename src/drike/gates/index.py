"""What gates look a query up in: the edits in force, with the names and vectors of their wordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from drike.encoders.base import BULK, FloatArray, TextEncoder, unit
from drike.gates.names import (
    Mention,
    NameIndex,
    QueryWord,
    composed,
    masked,
    spoken,
    words,
)
from drike.gates.overlay import OverlayDict
from drike.gates.vectors import TextVectors
from drike.stores.records import EditRecord, EditVersion, Status

NEAREST = 16  # edits that are looked at where no subject is named

_NO_VECTORS = "this gate needs an index with an encoder: give EditIndex.of one, or use Named()"


@dataclass(frozen=True, eq=False)
class EditIndex:
    """The edits in force, with a dictionary of their names and, given an encoder, vectors of their wordings.

    An index never changes. Making the next one from this one takes little time if few edits differ.

    Attributes:
        edits: by id, in any order, without drafts and retired ones.
        names: of their subjects, and the aliases.
        whole, masked: their queries and wordings, and the same with "it" for the subject; empty without an encoder.
    """

    edits: OverlayDict[int, EditVersion] = field(default_factory=OverlayDict)
    encoder: TextEncoder | None = None
    names: NameIndex = field(default_factory=NameIndex)
    whole: TextVectors = field(default_factory=TextVectors)
    masked: TextVectors = field(default_factory=TextVectors)

    @classmethod
    def of(
        cls, edits: Iterable[EditVersion], encoder: TextEncoder | None = None, previous: EditIndex | None = None
    ) -> EditIndex:
        """Index the edits of `Snapshot.in_force`.

        previous: an index with the same encoder, of which everything is used again that both have.
        """
        kept = {one.id: one for one in edits if one.record.status in (Status.ACTIVE, Status.SHADOW)}
        known = previous if previous is not None and previous.encoder is encoder else cls(encoder=encoder)
        gone = {id: one for id, one in known.edits.items() if kept.get(id) is not one}
        if len(gone) > len(kept):  # it takes less time to begin anew
            return cls(encoder=encoder)._changed({}, kept, known)
        new = {id: one for id, one in kept.items() if known.edits.get(id) is not one}
        return known._changed(gone, new, known)

    def changed(self, ids: Iterable[int], edits: Iterable[EditVersion]) -> EditIndex:
        """An index without the edits with these ids, and with these edits."""
        new = {one.id: one for one in edits}
        gone = {id: self.edits[id] for id in {*ids, *new} if id in self.edits}
        return self._changed(gone, new, self)

    def _changed(self, gone: Mapping[int, EditVersion], new: Mapping[int, EditVersion], known: EditIndex) -> EditIndex:
        """A copy without some edits and with others. known: an index with the same encoder, for its vectors."""

        def both(
            texts: Callable[[EditRecord], Sequence[str]],
        ) -> tuple[dict[int, Sequence[str]], dict[int, Sequence[str]]]:
            old, added = ({id: texts(one.record) for id, one in some.items()} for some in (gone, new))
            return old, added

        edits = self.edits.changed({**dict.fromkeys(gone), **new})
        names = self.names.changed(*both(lambda entry: entry.names))
        if self.encoder is None:
            return EditIndex(edits, names=names)
        whole, masked = both(_wordings), both(_masked)
        needed = dict.fromkeys(text for _, added in (whole, masked) for texts in added.values() for text in texts)
        vectors = _vectors(needed, self.encoder, (known.whole.vectors, known.masked.vectors))
        return EditIndex(
            edits, self.encoder, names, self.whole.changed(*whole, vectors), self.masked.changed(*masked, vectors)
        )


@dataclass(frozen=True)
class _Asked:
    """A query as gates read it: composed, in words, with the names in it."""

    text: str
    spoken: list[QueryWord]
    mentions: list[Mention]

    @classmethod
    def of(cls, query: str, index: EditIndex) -> _Asked:
        text = composed(query)
        asked = spoken(text)
        return cls(text, asked, index.names.find(text, asked))

    def excluded(self, edit: EditVersion) -> bool:
        """Whether the query is a negative exemplar of the edit."""
        return bool(edit.record.negatives) and any(
            words(text) == [word.folded for word in self.spoken] for text in edit.record.negatives
        )


def _embedded(index: EditIndex, texts: Sequence[str]) -> FloatArray:
    if index.encoder is None:
        raise ValueError(_NO_VECTORS)
    some = [texts[at : at + BULK - 1] for at in range(0, len(texts), BULK - 1)]
    return unit(np.concatenate([index.encoder.encode(part) for part in some]))


def _nearness(asked: _Asked, index: EditIndex, edits: Sequence[int]) -> dict[int, float]:
    """For each edit, how near its nearest wording is to the query."""
    if index.encoder is not None:
        [vector] = _embedded(index, [asked.text])
        return {i: index.whole.closest(_wordings(index.edits[i].record), vector) for i in edits}
    said = {word.folded for word in asked.spoken}

    def shared(text: str) -> float:
        stored = set(words(text))
        return len(said & stored) / max(1, len(said | stored))

    return {i: max(map(shared, _wordings(index.edits[i].record))) for i in edits}


def _nearest(index: EditIndex, vector: FloatArray) -> list[tuple[int, float]]:
    """The edits with the `NEAREST` whole wordings, and the cosine of each, the largest first."""
    found: dict[int, float] = {}
    for text, cosine in index.whole.nearest(vector, NEAREST).items():
        for i in index.whole.edits[text]:
            found.setdefault(i, cosine)
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def _wordings(entry: EditRecord) -> tuple[str, ...]:
    return entry.query, *entry.wordings


def _masked(entry: EditRecord) -> tuple[str, ...]:
    return tuple(masked(text, entry.names) for text in _wordings(entry))


def _vectors(
    texts: Iterable[str], encoder: TextEncoder, known: Sequence[Mapping[str, FloatArray]]
) -> dict[str, FloatArray]:
    """A unit vector [d] for each text, taken from those that are known or encoded."""
    found = {text: some[text] for text in texts for some in known if text in some}
    missing = [text for text in texts if text not in found]
    return {**found, **dict(zip(missing, unit(encoder.encode(missing)), strict=True))} if missing else found
