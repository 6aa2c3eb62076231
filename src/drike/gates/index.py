"""What gates look a query up in: the edits in force, with the names and vectors of their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from heapq import nsmallest
from itertools import chain, islice

import numpy as np

from drike.edits.conditions import applies
from drike.edits.record import EditVersion, Status
from drike.encoders.base import BULK, FloatArray, TextEncoder, salient, unit
from drike.encoders.salience import word_weights
from drike.gates.excerpts import LONGEST_WHOLE
from drike.gates.inventory import inventory
from drike.gates.name_index import NameIndex
from drike.gates.names import edits_named, objects_in, read_words
from drike.gates.overlay import InvertedIndex, OverlayDict
from drike.gates.subject_names import subject_names
from drike.gates.text_vectors import TextVectors
from drike.gates.wordings import Agreement, Worded, Wordings
from drike.text.glossary import glossed
from drike.text.masking import masked_each
from drike.text.name_forms import SubjectNames
from drike.text.short_forms import NameMatch
from drike.text.titled_names import names_of_person
from drike.text.value_kinds import telling_amount
from drike.text.words import Words, fingerprints_of_each

NEAREST = 16  # texts that are looked at where no subject is named

_MOST_WORDINGS = 512  # that stand for a store: those that most of its edits have
_MOST_AUDIENCES = 64  # indices that are kept, for requests to which different edits apply
_TELLING = 0.25  # weight of a word from which on it tells texts apart
# Share of a query's telling words, by weight, below which an edit is not compared with it.
_LEAST_SHARED = 0.25

Texts = Mapping[int, Sequence[str]]  # of edits, by id


@dataclass(frozen=True)
class EditLookup:
    """The ids of edits by their names, and by the fingerprints of their objects, texts and words.

    by_object: of new objects and their aliases. by_text: of queries and paraphrases. by_negative:
    of negative exemplars. by_telling_word: of the words in the texts that tell texts apart; empty
    in an index without vectors.
    """

    names: NameIndex = field(default_factory=NameIndex)
    by_object: InvertedIndex[int, int] = field(default_factory=InvertedIndex)
    by_text: InvertedIndex[int, int] = field(default_factory=InvertedIndex)
    by_negative: InvertedIndex[int, int] = field(default_factory=InvertedIndex)
    by_telling_word: InvertedIndex[int, int] = field(default_factory=InvertedIndex)

    def replace(
        self,
        *,
        gone: Mapping[int, EditVersion],
        new: Mapping[int, EditVersion],
        telling_words: bool,
    ) -> EditLookup:
        """A copy without some edits and with others, by id.

        telling_words: whether to look them up, too.
        """
        by_telling_word = self.by_telling_word
        if telling_words:
            words_gone = _words_of_each(_texts_of(gone))
            words_new = _words_of_each(_texts_of(new))
            by_telling_word = by_telling_word.replace(
                gone={edit_id: _telling(words) for edit_id, words in words_gone.items()},
                new={edit_id: _telling(words) for edit_id, words in words_new.items()},
            )

        return EditLookup(
            names=self.names.replace(gone=_names_of(gone), new=_names_of(new)),
            by_object=self.by_object.replace(
                gone=_fingerprints(_objects_of(gone)),
                new=_fingerprints(_objects_of(new)),
            ),
            by_text=self.by_text.replace(
                gone=_fingerprints(_equal_texts_of(gone)), new=_fingerprints(_equal_texts_of(new))
            ),
            by_negative=self.by_negative.replace(
                gone=_fingerprints(_negatives_of(gone)),
                new=_fingerprints(_negatives_of(new)),
            ),
            by_telling_word=by_telling_word,
        )


class EditIndex:
    """The edits in force, with their names and, given an encoder, vectors of their texts.

    The texts of an edit are its query and paraphrases. An index never changes. Making the next one
    from this one takes little time if few edits differ. `EditIndex()` is empty.

    encoder: of the vectors; None for an index without vectors. edits: active and shadow edits, by
    id, in any order. without: ids of the edits that `applying` left out. texts: with vectors.
    masked: the texts with "it" for the subject, the query first, with salient vectors; also those
    that no person wrote, which count only where the subject is named. near_misses: negatives that
    no person wrote, likewise.
    """

    def __init__(self, encoder: TextEncoder | None = None) -> None:
        self.encoder = encoder
        self.edits: OverlayDict[int, EditVersion] = OverlayDict()
        self.without: frozenset[int] = frozenset()
        self.lookup = EditLookup()
        self.texts = TextVectors()
        self.masked = TextVectors()
        self.near_misses = TextVectors()

        # Conditions of the edits that are for some requests only, and the indices for such
        # requests.
        self._conditions: dict[int, tuple[str, ...]] = {}
        self._audiences: dict[frozenset[int], EditIndex] = {}

        # By masked text: how many active edits have it, if any, and what `_worded` found for it.
        self._active_counts: OverlayDict[str, int] = OverlayDict()
        self._worded_texts: dict[str, Worded] = {}

    @classmethod
    def of(
        cls,
        edits: Iterable[EditVersion],
        encoder: TextEncoder | None = None,
        previous: EditIndex | None = None,
    ) -> EditIndex:
        """Index the edits of `Snapshot.in_force`.

        previous: an index of many of the same edits, whose work is reused if it has this encoder.
        """
        in_force = (Status.ACTIVE, Status.SHADOW)
        wanted = {edit.id: edit for edit in edits if edit.record.status in in_force}
        if previous is None or previous.encoder is not encoder:
            previous = cls(encoder)

        gone = {id: edit for id, edit in previous.edits.items() if wanted.get(id) is not edit}
        if len(gone) > len(wanted):  # it takes less time to begin anew
            return cls(encoder)._replace(gone={}, new=wanted, embedded=previous)
        new = {id: edit for id, edit in wanted.items() if previous.edits.get(id) is not edit}
        return previous._replace(gone=gone, new=new, embedded=previous)

    def changed(self, ids: Iterable[int], edits: Iterable[EditVersion]) -> EditIndex:
        """An index without the edits with these ids, and with these edits."""
        new = {edit.id: edit for edit in edits}
        gone = {id: self.edits[id] for id in {*ids, *new} if id in self.edits}
        return self._replace(gone=gone, new=new, embedded=self)

    def applying(self, values: Mapping[str, str]) -> EditIndex:
        """The index of the edits that apply to a request with such values (`conditions.applies`).

        It is kept for further requests to which the same edits apply.
        """
        without = frozenset(
            id for id, conditions in self._conditions.items() if not applies(conditions, values)
        )
        if not without:
            return self

        index = self._audiences.get(without)
        if index is None:
            if len(self._audiences) >= _MOST_AUDIENCES:
                self._audiences.clear()
            index = self.changed(without, ())
            index.without = without
            self._audiences[without] = index
        return index

    def is_active(self, edit_id: int) -> bool:
        """Whether an edit is active, and no shadow edit."""
        return self.edits[edit_id].record.status is Status.ACTIVE

    def require_encoder(self) -> TextEncoder:
        """The encoder. Raises ValueError for an index without vectors."""
        if self.encoder is None:
            raise ValueError(
                "this gate needs an index with an encoder: give EditIndex.of one, or use Named()"
            )
        return self.encoder

    def embed(self, texts: Sequence[str], *, masked: bool = False) -> FloatArray:
        """Unit vectors [n, d] of at least one text that a user wrote; no encoder keeps them.

        masked: the texts have "it" for a subject, and get salient vectors. Raises ValueError
        without an encoder.
        """
        encoder = self.require_encoder()
        if masked:
            encoder = salient(encoder)

        size = BULK - 1  # in a server, encoders keep the vectors of larger batches
        batches = [encoder.encode(texts[at : at + size]) for at in range(0, len(texts), size)]
        return unit(np.concatenate(batches))

    @cached_property
    def wordings(self) -> Wordings:
        """The masked texts that most active edits have.

        They say what the edits of a store are about, in its own words.
        """
        most = nsmallest(
            _MOST_WORDINGS, self._active_counts.items(), key=lambda item: (-item[1], item[0])
        )
        worded = {text: self._worded(text) for text, _ in most}
        return Wordings(worded, inventory(self.require_encoder()))

    def _worded(self, text: str) -> Worded:
        """What the active edits with a masked text answer; if there are none, the shadow ones.

        It is counted once, as thousands of edits may share a text.
        """
        if text in self._worded_texts:
            return self._worded_texts[text]

        edit_ids = self.masked.edits[text]
        active = [edit_id for edit_id in edit_ids if self.is_active(edit_id)]
        records = [self.edits[edit_id].record for edit_id in active or edit_ids]
        answers: Counter[str] = Counter()
        for record in records:
            objects = {record.target_new, record.target_true}
            answers.update(answer.casefold() for answer in objects if answer)
        worded = Worded(self.masked.vectors[text], answers, len(records))
        return self._worded_texts.setdefault(text, worded)

    def named(self, text: str) -> set[int]:
        """The ids of the edits whose subjects a text names, as gates find them.

        It takes time linear in the text.
        """
        return edits_named(read_words(text), self.lookup.names)

    def reached_by_name(self, text: str) -> set[int]:
        """The ids of all edits that a gate may match to a text by a name in it, and of some more.

        Names of any kind count, new objects, as far as gates look for these, and a text of an
        edit's own; so do the edits of a chain that begins with one of them.
        """
        words = read_words(text)
        edit_ids = edits_named(words, self.lookup.names, tuple(NameMatch))
        edit_ids.update(self.lookup.by_text.get(words.fingerprint, ()))
        if len(text) <= LONGEST_WHOLE:
            for mention in objects_in(words, self.lookup.by_object):
                edit_ids.update(mention.edits)

        waiting = list(edit_ids)
        while waiting:
            followers = self.followers(self.edits[waiting.pop()])
            new_ids = {edit.id for edit in followers} - edit_ids
            edit_ids |= new_ids
            waiting += new_ids
        return edit_ids

    def followers(self, edit: EditVersion) -> list[EditVersion]:
        """The active edits whose subject is an edit's new object, up to case and punctuation."""
        edit_ids = sorted(self.lookup.names.exact(edit.record.target_new))
        return [self.edits[edit_id] for edit_id in edit_ids if self.is_active(edit_id)]

    def nearest(self, vector: FloatArray) -> dict[int, float]:
        """The cosines of the edits with the `NEAREST` texts, by their ids, the largest first."""
        cosines_by_edit: dict[int, float] = {}
        for text, cosine in self.texts.nearest(vector, NEAREST).items():
            for edit_id in self.texts.edits[text]:
                cosines_by_edit.setdefault(edit_id, cosine)
        return dict(sorted(cosines_by_edit.items(), key=lambda item: (-item[1], item[0])))

    def sharing(self, text: str) -> set[int]:
        """The ids of the edits whose texts have `_LEAST_SHARED` of the telling words of a text."""
        weights = _telling([Words.of(text)])
        if not weights:
            return set()
        ids_by_word = [
            np.array(self.lookup.by_telling_word.get(word, ()), np.int64) for word in weights
        ]
        edits_by_word = [len(edit_ids) for edit_ids in ids_by_word]
        weight_of_each = np.repeat(list(weights.values()), edits_by_word)

        edit_ids, places = np.unique(np.concatenate(ids_by_word), return_inverse=True)
        shared_weights = np.bincount(places, weight_of_each)
        enough = _LEAST_SHARED * sum(weights.values())
        return set(edit_ids[shared_weights >= enough].tolist())

    def _replace(
        self,
        *,
        gone: Mapping[int, EditVersion],
        new: Mapping[int, EditVersion],
        embedded: EditIndex,
    ) -> EditIndex:
        """A copy without some edits and with others.

        embedded: an index with the same encoder, whose vectors need not be made again.
        """
        index = EditIndex(self.encoder)
        index.edits = self.edits.changed({**dict.fromkeys(gone), **new})
        index._conditions = {id: only for id, only in self._conditions.items() if id not in gone}
        index._conditions |= {id: edit.record.only for id, edit in new.items() if edit.record.only}
        index.lookup = self.lookup.replace(
            gone=gone, new=new, telling_words=self.encoder is not None
        )
        if self.encoder is None:
            return index

        texts_new = _texts_of(new)
        index.texts = self.texts.replace(
            gone=gone, new=texts_new, vectors_of=_vectors(texts_new, self.encoder, embedded.texts)
        )
        masked_new = _masked_texts_of(new)
        index.masked = self.masked.replace(
            gone=gone,
            new=masked_new,
            vectors_of=_vectors(masked_new, salient(self.encoder), embedded.masked),
        )

        near_misses_new = _masked_near_misses_of(new)
        index.near_misses = self.near_misses.replace(
            gone=[id for id in gone if id in self.near_misses.texts],
            new=near_misses_new,
            vectors_of=_vectors(near_misses_new, salient(self.encoder), embedded.near_misses),
        )

        masked_gone = {id: self.masked.texts[id] for id in gone}
        texts_of_active_gone = [
            text for id in gone if self.is_active(id) for text in masked_gone[id]
        ]
        texts_of_active_new = [text for id in new if index.is_active(id) for text in masked_new[id]]
        index._active_counts = _counted(
            self._active_counts, gone=texts_of_active_gone, new=texts_of_active_new
        )
        # What was found for a text stays right as long as the same edits have the text. Other
        # threads may find more at the same time, hence the copy.
        touched = {
            text for texts in (*masked_gone.values(), *masked_new.values()) for text in texts
        }
        index._worded_texts = {
            text: worded
            for text, worded in self._worded_texts.copy().items()
            if text not in touched
        }
        return index


def agreements(
    index: EditIndex, edit_ids: Iterable[int], vectors: FloatArray
) -> dict[int, list[Agreement]]:
    """What each of some questions has in common with edits, by their ids.

    vectors: the questions' salient unit vectors [n, d]. Raises ValueError without an encoder.
    """
    worded_by_edit = {
        edit_id: {text: index._worded(text) for text in index.masked.texts[edit_id]}
        for edit_id in edit_ids
    }
    return index.wordings.agreements(worded_by_edit, vectors)


def _counted(
    counts: OverlayDict[str, int], *, gone: Iterable[str], new: Iterable[str]
) -> OverlayDict[str, int]:
    """Counts without some texts and with others; a text whose count is 0 has none."""
    differences = Counter(new)
    differences.subtract(gone)
    changes: dict[str, int | None] = {}
    for text, difference in differences.items():
        count = counts.get(text, 0) + difference
        changes[text] = count if count else None
    return counts.changed(changes)


def _names_of(edits: Mapping[int, EditVersion]) -> dict[int, SubjectNames]:
    return {id: subject_names(edit.record) for id, edit in edits.items()}


def _objects_of(edits: Mapping[int, EditVersion]) -> Texts:
    texts: dict[int, tuple[str, ...]] = {}
    for id, edit in edits.items():
        objects = (edit.record.target_new, *edit.record.object_aliases)
        amounts = filter(None, map(telling_amount, objects))
        people = chain.from_iterable(map(names_of_person, objects))
        texts[id] = (*objects, *amounts, *people)
    return texts


def _negatives_of(edits: Mapping[int, EditVersion]) -> Texts:
    return {id: edit.record.negatives for id, edit in edits.items()}


def _texts_of(edits: Mapping[int, EditVersion]) -> dict[int, tuple[str, ...]]:
    """The texts by which edits are found without a name: what people wrote."""
    return {id: (edit.record.query, *edit.record.own_paraphrases) for id, edit in edits.items()}


def _equal_texts_of(edits: Mapping[int, EditVersion]) -> dict[int, tuple[str, ...]]:
    """The texts that a question has to equal to concern an edit for sure."""
    return {id: (edit.record.query, *edit.record.naming_paraphrases) for id, edit in edits.items()}


def _masked_texts_of(edits: Mapping[int, EditVersion]) -> dict[int, tuple[str, ...]]:
    """All texts of edits in English with "it" for the subject, without repetitions."""
    texts = {id: (edit.record.query, *edit.record.paraphrases) for id, edit in edits.items()}
    return _masked_in_english(texts, edits)


def _masked_near_misses_of(edits: Mapping[int, EditVersion]) -> dict[int, tuple[str, ...]]:
    """The negatives that no person wrote, likewise, of the edits that have some."""
    negatives = {id: edit.record.written_negatives for id, edit in edits.items()}
    return _masked_in_english({id: texts for id, texts in negatives.items() if texts}, edits)


def _masked_in_english(
    texts: Texts, edits: Mapping[int, EditVersion]
) -> dict[int, tuple[str, ...]]:
    texts_and_names = [(text, edits[id].record.names) for id in texts for text in texts[id]]
    masked = map(glossed, masked_each(texts_and_names))  # all at once, which is faster
    return {
        id: tuple(dict.fromkeys(islice(masked, len(texts_of_edit))))
        for id, texts_of_edit in texts.items()
    }


def _words_of_each(texts: Texts) -> dict[int, list[Words]]:
    """The words of each text, by the id of its edit."""
    words = iter(
        Words.of_each([text for texts_of_edit in texts.values() for text in texts_of_edit])
    )
    return {id: list(islice(words, len(texts_of_edit))) for id, texts_of_edit in texts.items()}


def _fingerprints(texts: Texts) -> dict[int, set[int]]:
    """The fingerprints of texts that have words, by the id of their edit."""
    all_texts = [text for texts_of_edit in texts.values() for text in texts_of_edit]
    fingerprints = iter(fingerprints_of_each(all_texts))
    return {
        id: {fingerprint for fingerprint in islice(fingerprints, len(texts_of_edit)) if fingerprint}
        for id, texts_of_edit in texts.items()
    }


def _telling(texts: Sequence[Words]) -> dict[int, float]:
    """The fingerprints of the telling words of some texts, with their weights."""
    common = _weights_of_common_words()
    weights = {word: common.get(word, 1.0) for text in texts for word in text.keys.tolist()}
    return {word: weight for word, weight in weights.items() if weight >= _TELLING}


@cache
def _weights_of_common_words() -> dict[int, float]:
    """The weights of common words, by fingerprint."""
    weights = {}
    for word, weight in word_weights().items():
        fingerprints = Words.of(word).keys.tolist()
        if len(fingerprints) == 1:
            weights[fingerprints[0]] = weight
    return weights


def _vectors(texts: Texts, encoder: TextEncoder, embedded: TextVectors) -> dict[str, FloatArray]:
    """Unit vectors [d] by text. embedded: texts that have some of them already."""
    needed = dict.fromkeys(text for texts_of_edit in texts.values() for text in texts_of_edit)
    vectors = {text: embedded.vectors[text] for text in needed if text in embedded.vectors}
    missing = [text for text in needed if text not in vectors]
    if missing:
        vectors |= zip(missing, unit(encoder.encode(missing)), strict=True)
    return vectors
