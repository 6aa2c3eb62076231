"""What gates look a query up in: the edits in force, with the names and vectors of their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drike.encoders.base import BULK, FloatArray, TextEncoder, unit
from drike.gates.names import Mention, NameIndex, QueryWord, composed, masked, tokenize, words
from drike.gates.overlay import OverlayDict
from drike.gates.vectors import TextVectors
from drike.stores.records import EditRecord, EditVersion, Status

NEAREST = 16  # texts that are looked at where no subject is named

Texts = dict[int, Sequence[str]]  # of edits, by id


class EditIndex:
    """The edits in force, with a dictionary of their names and, given an encoder, vectors of their texts.

    The texts of an edit are its query and paraphrases. An index never changes. Making the next one from this one takes
    little time if few edits differ. `EditIndex()` is empty.

    Attributes:
        encoder: of the vectors; None for an index without vectors.
    """

    def __init__(self, encoder: TextEncoder | None = None) -> None:
        self.encoder = encoder
        self._edits: OverlayDict[int, EditVersion] = OverlayDict()
        self._names = NameIndex()
        self._texts = TextVectors()
        self._masked = TextVectors()  # of the texts with "it" for the subject

    @classmethod
    def of(
        cls, edits: Iterable[EditVersion], encoder: TextEncoder | None = None, previous: EditIndex | None = None
    ) -> EditIndex:
        """Index the edits of `Snapshot.in_force`.

        previous: an index with the same encoder, of which everything is used again that both have.
        """
        wanted = {edit.id: edit for edit in edits if edit.record.status in (Status.ACTIVE, Status.SHADOW)}
        known = previous if previous is not None and previous.encoder is encoder else cls(encoder)
        gone = {id: edit for id, edit in known.edits.items() if wanted.get(id) is not edit}
        if len(gone) > len(wanted):  # it takes less time to begin anew
            return cls(encoder)._changed({}, wanted, known)
        new = {id: edit for id, edit in wanted.items() if known.edits.get(id) is not edit}
        return known._changed(gone, new, known)

    @property
    def edits(self) -> Mapping[int, EditVersion]:
        """By id, in any order, without drafts and retired ones."""
        return self._edits

    @property
    def text_count(self) -> int:
        """How many different texts have vectors."""
        return len(self._texts.edits)

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors."""
        return self._texts.matrix.nbytes + self._masked.matrix.nbytes

    def changed(self, ids: Iterable[int], edits: Iterable[EditVersion]) -> EditIndex:
        """An index without the edits with these ids, and with these edits."""
        new = {edit.id: edit for edit in edits}
        gone = {id: self.edits[id] for id in {*ids, *new} if id in self.edits}
        return self._changed(gone, new, self)

    def require_encoder(self) -> TextEncoder:
        """The encoder. Raises ValueError for an index without vectors."""
        if self.encoder is None:
            raise ValueError("this gate needs an index with an encoder: give EditIndex.of one, or use Named()")
        return self.encoder

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Unit vectors [n, d] of texts, such as queries, one at least. Raises ValueError without an encoder."""
        encoder = self.require_encoder()
        parts = [texts[at : at + BULK - 1] for at in range(0, len(texts), BULK - 1)]
        return unit(np.concatenate([encoder.encode(part) for part in parts]))

    def closest(self, id: int, vector: FloatArray) -> float:
        """The largest cosine of an edit's texts and a unit vector [d]."""
        return self._texts.closest(_texts(self.edits[id].record), vector)

    def closest_masked(self, id: int, vector: FloatArray) -> float:
        """The largest cosine of an edit's texts, with "it" for the subject, and a unit vector [d]."""
        return self._masked.closest(_masked_texts(self.edits[id].record), vector)

    def nearest(self, vector: FloatArray) -> dict[int, float]:
        """The ids of the edits with the `NEAREST` texts, and the cosine of each, the largest first."""
        cosines: dict[int, float] = {}
        for text, cosine in self._texts.nearest(vector, NEAREST).items():
            for id in self._texts.edits[text]:
                cosines.setdefault(id, cosine)
        return dict(sorted(cosines.items(), key=lambda item: (-item[1], item[0])))

    def _changed(self, gone: Mapping[int, EditVersion], new: Mapping[int, EditVersion], known: EditIndex) -> EditIndex:
        """A copy without some edits and with others. known: an index with the same encoder, for its vectors."""

        def gone_and_new(texts: Callable[[EditRecord], Sequence[str]]) -> tuple[Texts, Texts]:
            old, added = ({id: texts(edit.record) for id, edit in edits.items()} for edits in (gone, new))
            return old, added

        index = EditIndex(self.encoder)
        index._edits = self._edits.changed({**dict.fromkeys(gone), **new})
        index._names = self._names.changed(*gone_and_new(lambda record: record.names))
        if self.encoder is not None:
            whole, masked = gone_and_new(_texts), gone_and_new(_masked_texts)
            needed = dict.fromkeys(text for _, added in (whole, masked) for texts in added.values() for text in texts)
            vectors = _vectors(needed, self.encoder, (known._texts.vectors, known._masked.vectors))
            index._texts = self._texts.changed(*whole, vectors)
            index._masked = self._masked.changed(*masked, vectors)
        return index


@dataclass(frozen=True)
class ParsedQuery:
    """A query as gates read it: composed, in words, with the names of edits in it."""

    text: str
    words: list[QueryWord]
    mentions: list[Mention]

    @classmethod
    def of(cls, query: str, index: EditIndex) -> ParsedQuery:
        """Read a query, and look up its words in an index."""
        text = composed(query)
        tokens = tokenize(text)
        return cls(text, tokens, index._names.find(text, tokens))

    @property
    def vocabulary(self) -> set[str]:
        """The words as they are compared."""
        return {word.folded for word in self.words}

    def excluded(self, edit: EditVersion) -> bool:
        """Whether the query is a negative exemplar of the edit."""
        asked = [word.folded for word in self.words]
        return any(words(text) == asked for text in edit.record.negatives)


def nearness(parsed: ParsedQuery, index: EditIndex, ids: Sequence[int]) -> dict[int, float]:
    """For each edit, how near the nearest of its texts is to the query: a cosine, or the share of common words."""
    if index.encoder is not None:
        [vector] = index.embed([parsed.text])
        return {id: index.closest(id, vector) for id in ids}
    asked = parsed.vocabulary

    def shared(text: str) -> float:
        stored = set(words(text))
        return len(asked & stored) / max(1, len(asked | stored))

    return {id: max(map(shared, _texts(index.edits[id].record))) for id in ids}


def _texts(record: EditRecord) -> tuple[str, ...]:
    return record.query, *record.paraphrases


def _masked_texts(record: EditRecord) -> tuple[str, ...]:
    return tuple(masked(text, record.names) for text in _texts(record))


def _vectors(
    texts: Iterable[str], encoder: TextEncoder, known: Sequence[Mapping[str, FloatArray]]
) -> dict[str, FloatArray]:
    """A unit vector [d] for each text: a known one, else computed."""
    vectors = {text: earlier[text] for text in texts for earlier in known if text in earlier}
    missing = [text for text in texts if text not in vectors]
    return {**vectors, **dict(zip(missing, unit(encoder.encode(missing)), strict=True))} if missing else vectors
