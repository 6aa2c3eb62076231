"""What gates look a query up in: the edits in force, with the names and vectors of their texts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from heapq import nsmallest
from itertools import chain, filterfalse, islice
from typing import TypeVar

import numpy as np

from drike.edits.conditions import applies
from drike.edits.record import EditVersion, Status
from drike.encoders.base import BULK, FloatArray, TextEncoder, salient, unit, word_weights
from drike.gates.inventory import MOST, Agreement, Worded, Wordings, inventory
from drike.gates.names import SHARING, Mention, NameIndex, objects_in
from drike.gates.overlay import OverlayDict, TextVectors, regrouped
from drike.gates.relations import trimmed
from drike.text.glossary import corrected, glossed
from drike.text.questions import TextParts, in_material, leans_back, parts_of
from drike.text.sentences import ending, sentence_around
from drike.text.words import Words, composed, masked_each

NEAREST = 16  # texts that are looked at where no subject is named

_MOST_AUDIENCES = 64  # indices that are kept, for requests to which different edits apply
# Names in code, such as "max_days", "maxDays" and "MAX_DAYS", and where their words meet.
_COMPOUND = re.compile(r"\b[a-z]{2,}(?:[A-Z][a-z]+)+\b|\b[^\W_]+(?:_[^\W_]+)+\b")
_BETWEEN = re.compile(r"_|(?<=[a-z])(?=[A-Z])")
_ITALICS = re.compile(r"(?<![^\W_])_+(?=[^\W_])|(?<=[^\W_])_+(?![^\W_])")  # the marks of "_Peru_"
_MARK = "\ufffc"  # for an object in a text
_TELLING = 0.25  # weight of a word from which on it tells texts apart
_SHARED = (
    0.25  # share of a query's telling words, by weight, below which an edit is not compared with it
)
_WHOLE = 1_000  # characters of a text that is compared as a whole: encoders read about as much
_MOST_ENCODED, _OVERHEAD = (
    6_000,
    20,
)  # characters of all texts of a decision; how many a text costs besides its own

Texts = dict[int, tuple[str, ...]]  # of edits, by id
Span = tuple[int, int]  # of words
Characters = tuple[int, int]
Kept = TypeVar("Kept")


class EditIndex:
    """The edits in force, with a dictionary of their names and, given an encoder, vectors of their texts.

    The texts of an edit are its query and paraphrases. An index never changes. Making the next one from this one takes
    little time if few edits differ. `EditIndex()` is empty.

    encoder: of the vectors; None for an index without vectors. edits: by id, in any order, without drafts and retired
    ones. without: ids of the edits that `applying` left out.
    """

    def __init__(self, encoder: TextEncoder | None = None) -> None:
        self.encoder = encoder
        self.edits: OverlayDict[int, EditVersion] = OverlayDict()
        self.without: frozenset[int] = frozenset()
        self._audiences: dict[frozenset[int], EditIndex] = {}
        self._limited: dict[
            int, tuple[str, ...]
        ] = {}  # conditions of the edits that are for some requests only
        self._names = NameIndex()
        self._objects: OverlayDict[int, tuple[int, ...]] = (
            OverlayDict()
        )  # ids by the fingerprint of a new object
        self._equal: OverlayDict[int, tuple[int, ...]] = (
            OverlayDict()
        )  # ids by the fingerprint of a text
        self._negatives: OverlayDict[int, tuple[int, ...]] = (
            OverlayDict()
        )  # the same of negative exemplars
        self.texts = TextVectors()
        self.masked = (
            TextVectors()
        )  # salient, of the texts with "it" for the subject, the query first
        self._telling: OverlayDict[int, tuple[int, ...]] = (
            OverlayDict()
        )  # ids by the fingerprint of a telling word
        self._active: OverlayDict[str, int] = (
            OverlayDict()
        )  # how many active edits have such a text, if any
        self._answered: dict[str, Worded] = {}  # by such a text
        self._last_read: ParsedQuery | None = None

    @classmethod
    def of(
        cls,
        edits: Iterable[EditVersion],
        encoder: TextEncoder | None = None,
        previous: EditIndex | None = None,
    ) -> EditIndex:
        """Index the edits of `Snapshot.in_force`, with all that a previous index of the same encoder has of them."""
        wanted = {
            edit.id: edit for edit in edits if edit.record.status in (Status.ACTIVE, Status.SHADOW)
        }
        known = previous if previous is not None and previous.encoder is encoder else cls(encoder)
        gone = {id: edit for id, edit in known.edits.items() if wanted.get(id) is not edit}
        if len(gone) > len(wanted):  # it takes less time to begin anew
            return cls(encoder)._changed({}, wanted, known)
        return known._changed(
            gone,
            {id: edit for id, edit in wanted.items() if known.edits.get(id) is not edit},
            known,
        )

    def changed(self, ids: Iterable[int], edits: Iterable[EditVersion]) -> EditIndex:
        """An index without the edits with these ids, and with these edits."""
        new = {edit.id: edit for edit in edits}
        return self._changed(
            {id: self.edits[id] for id in {*ids, *new} if id in self.edits}, new, self
        )

    def applying(self, values: Mapping[str, str]) -> EditIndex:
        """The index of the edits that apply to a request with such values (`audience.applies`); it is kept."""
        if not (
            without := frozenset(
                id for id, only in self._limited.items() if not applies(only, values)
            )
        ):
            return self
        if (known := self._audiences.get(without)) is None:
            if len(self._audiences) >= _MOST_AUDIENCES:
                self._audiences.clear()
            known = self.changed(without, ())
            known.without = without
            self._audiences[without] = known
        return known

    def require_encoder(self) -> TextEncoder:
        """The encoder. Raises ValueError for an index without vectors."""
        if self.encoder is None:
            raise ValueError(
                "this gate needs an index with an encoder: give EditIndex.of one, or use Named()"
            )
        return self.encoder

    def embed(self, texts: Sequence[str], *, masked: bool = False) -> FloatArray:
        """Unit vectors [n, d] of what a user wrote, which a server does not keep: of texts, one at least.

        masked: salient ones, of texts with "it" for a subject. Raises ValueError without an encoder.
        """
        encoder, size = self.require_encoder(), BULK - 1
        encoder = salient(encoder) if masked else encoder
        return unit(
            np.concatenate(
                [encoder.encode(texts[at : at + size]) for at in range(0, len(texts), size)]
            )
        )

    @cached_property
    def wordings(self) -> Wordings:
        """The masked texts that most active edits have: what the edits of a store are about, in its own words."""
        most = nsmallest(MOST, self._active.items(), key=lambda item: (-item[1], item[0]))
        return Wordings(
            {text: self._worded(text) for text, _ in most}, inventory(self.require_encoder())
        )

    def _worded(self, text: str) -> Worded:
        """What the active edits with a masked text answer, or where there are none, the shadow ones."""
        if text in self._answered:  # counted once: thousands of edits may share a text
            return self._answered[text]
        ids = self.masked.edits[text]
        records = [self.edits[id].record for id in list(filter(self._is_active, ids)) or ids]
        answers = Counter(
            answer.casefold() for r in records for answer in {r.target_new, r.target_true} if answer
        )
        return self._answered.setdefault(
            text, Worded(self.masked.vectors[text], answers, len(records))
        )

    def _is_active(self, id: int) -> bool:
        return self.edits[id].record.status is Status.ACTIVE

    def named(self, text: str) -> set[int]:
        """The ids of the edits whose subjects a text names, as gates find them; in time linear in the text."""
        return self._names.ids(Words.of(text))

    def followers(self, edit: EditVersion) -> list[EditVersion]:
        """The active edits whose subject is the new object of an edit, up to case and punctuation."""
        return [
            self.edits[id]
            for id in sorted(self._names.exact(edit.record.target_new))
            if self._is_active(id)
        ]

    def nearest(self, vector: FloatArray) -> dict[int, float]:
        """The ids of the edits with the `NEAREST` texts, and the cosine of each, the largest first."""
        cosines: dict[int, float] = {}
        for text, cosine in self.texts.nearest(vector, NEAREST).items():
            for id in self.texts.edits[text]:
                cosines.setdefault(id, cosine)
        return dict(sorted(cosines.items(), key=lambda item: (-item[1], item[0])))

    def sharing(self, text: str) -> set[int]:
        """The ids of the edits whose texts have `_SHARED` of the telling words of a text, by weight."""
        if not (asked := _telling([Words.of(text)])):
            return set()
        groups, weights = (
            [np.array(self._telling.get(word, ()), np.int64) for word in asked],
            [*asked.values()],
        )
        ids, places = np.unique(np.concatenate(groups), return_inverse=True)
        shared = np.bincount(places, np.repeat(weights, [len(group) for group in groups]))
        return set(ids[shared >= _SHARED * sum(weights)].tolist())

    def _changed(
        self, gone: Mapping[int, EditVersion], new: Mapping[int, EditVersion], known: EditIndex
    ) -> EditIndex:
        """A copy without some edits and with others. known: an index with the same encoder, for its vectors."""
        index = EditIndex(self.encoder)
        index.edits = self.edits.changed({**dict.fromkeys(gone), **new})
        index._limited = {id: only for id, only in self._limited.items() if id not in gone}
        index._limited |= {id: edit.record.only for id, edit in new.items() if edit.record.only}
        names = ({id: edit.record.names for id, edit in edits.items()} for edits in (gone, new))
        index._names = self._names.changed(*names)
        objects = (
            {i: (e.record.target_new, *e.record.object_aliases) for i, e in by.items()}
            for by in (gone, new)
        )
        index._objects = regrouped(
            self._objects, *(_fingerprints(_words_of(texts)).items() for texts in objects)
        )
        words = [_words_of(_texts_of(edits)) for edits in (gone, new)]
        index._equal = regrouped(self._equal, *(_fingerprints(read).items() for read in words))
        negatives = (
            {i: edit.record.negatives for i, edit in edits.items()} for edits in (gone, new)
        )
        index._negatives = regrouped(
            self._negatives, *(_fingerprints(_words_of(texts)).items() for texts in negatives)
        )
        if self.encoder is not None:
            whole = _texts_of(new)
            plain = map(
                glossed,
                masked_each([(text, new[id].record.names) for id in whole for text in whole[id]]),
            )
            masked = {
                id: tuple(dict.fromkeys(islice(plain, len(own)))) for id, own in whole.items()
            }
            index.texts = self.texts.changed(
                gone, whole, _vectors(whole, self.encoder, known.texts)
            )
            telling = ([(id, _telling(own)) for id, own in read.items()] for read in words)
            index._telling = regrouped(self._telling, *telling)
            index.masked = self.masked.changed(
                gone, masked, _vectors(masked, salient(self.encoder), known.masked)
            )
            counts = Counter(
                text for id, own in masked.items() if index._is_active(id) for text in own
            )
            counts.subtract(
                text for id in gone if self._is_active(id) for text in self.masked.texts[id]
            )
            index._active = self._active.changed(
                {t: self._active.get(t, 0) + n or None for t, n in counts.items()}
            )
            other = {*chain(*masked.values(), *map(self.masked.texts.__getitem__, gone))}
            index._answered = {
                text: worded for text, worded in self._answered.copy().items() if text not in other
            }
        return index


@dataclass(frozen=True)
class ParsedQuery:
    """A query as gates read it."""

    words: Words
    mentions: list[
        Mention
    ]  # the names of edits of which it asks something; of very many, those at both ends
    negatives: frozenset[int] = (
        frozenset()
    )  # the ids of the edits of which it is a negative exemplar
    equal: frozenset[int] = (
        frozenset()
    )  # of those of which it is a text, up to case and punctuation
    parts: tuple[
        tuple[Characters, frozenset[Span]], ...
    ] = ()  # what it asks, with the places of names in it

    @classmethod
    def of(cls, query: str, index: EditIndex) -> ParsedQuery:
        """Read a query, and look up its words in an index, which keeps the last one for the steps of a decision."""
        query = _ITALICS.sub(lambda marks: " " * len(marks[0]), query) if "_" in query else query
        if (last := index._last_read) is not None and last.words.text == query:
            return last
        words = Words.of(query)
        own = words.fingerprint
        negatives, equal = (frozenset(ids.get(own, ())) for ids in (index._negatives, index._equal))
        index._last_read = parsed = cls(words, [], negatives, equal)._about(
            index._names.find(words)
        )
        return parsed

    @cached_property
    def by_edit(self) -> dict[int, list[Mention]]:
        """The mentions of each edit's names, by its id."""
        mentions: dict[int, list[Mention]] = defaultdict(list)
        for mention in self.mentions:
            for id in mention.edits:
                mentions[id].append(mention)
        return mentions

    def by_object(self, index: EditIndex) -> ParsedQuery:
        """The query as one about the new objects that it names, of edits whose subject it does not name.

        Those of more than `SHARING` active edits do not count, nor answers to choose from, nor any in a long text.
        """
        if len(self.words.text) > _WHOLE:
            return replace(self, mentions=[])
        named = {id for mention in self.mentions for id in mention.edits}
        objects = list[Mention]()
        for mention in objects_in(self.words, index._objects):
            active = list(islice(filter(index._is_active, mention.edits), SHARING + 1))
            if len(active) > SHARING:
                continue
            ids = {*active, *islice(filterfalse(index._is_active, mention.edits), SHARING)} - named
            if ids and _MARK in trimmed(self.words.replaced({(mention.begin, mention.end): _MARK})):
                objects.append(replace(mention, edits=tuple(sorted(ids))))
        return self._about(objects)

    def _about(self, mentions: Sequence[Mention]) -> ParsedQuery:
        """The query with those of some names of which it asks something."""
        parts = _parts(self.words, mentions, parts_of(self.words.text)) if mentions else ()
        about = {span for _, spans in parts for span in spans}
        return replace(
            self, mentions=[m for m in mentions if (m.begin, m.end) in about], parts=parts
        )

    def excerpts(self, spans: Collection[Span]) -> tuple[tuple[Characters, str], ...]:
        """What to compare, given where a subject is named: where each text stands, and the text with "it" for it.

        Each part that asks about the subject or, of a long one, its end and the sentences that name it first and last.
        """
        others, replaced = dict.fromkeys(sorted(spans), "it"), self.words.replaced
        return tuple(
            (place, _plain(composed(replaced(others, *place)))) for place in self._places(spans)
        )

    def wholes(self, spans: Collection[Span]) -> list[str]:
        """The texts of `excerpts` as they are."""
        return [composed(self.words.text[start:stop]) for start, stop in self._places(spans)]

    def _places(self, spans: Collection[Span]) -> list[Characters]:
        text, words = self.words.text, self.words
        places = set[Characters]()
        for part in [part for part, about in self.parts if about.intersection(spans)] or [
            (0, len(text))
        ]:
            if part[1] - part[0] <= _WHOLE:
                places.add(part)
                continue
            around = (
                sentence_around(text, words.begins[begin], words.ends[end - 1])
                for begin, end in sorted(spans)
            )
            named = [span for span in around if part[0] <= span[0] < part[1]]
            places |= {*named[:1], *named[-1:], ending(text)}
        return sorted(places)


def _plain(part: str) -> str:
    """What a part of a text asks: in English, without asides, typing errors and words that are written as one."""
    return corrected(glossed(trimmed(_COMPOUND.sub(lambda word: _BETWEEN.sub(" ", word[0]), part))))


def _parts(
    words: Words, mentions: Sequence[Mention], asked: TextParts
) -> tuple[tuple[Characters, frozenset[Span]], ...]:
    """The parts of a text that ask something, each with the names that it may be about.

    Those in it; if there are none, those in the part before it, else the most frequent ones outside of all parts.
    """
    places = {m: (int(words.begins[m.begin]), int(words.ends[m.end - 1])) for m in mentions}
    mentions = [m for m in mentions if not in_material(places[m], asked.material)]
    own = [[m for m in mentions if start <= places[m][0] < stop] for start, stop in asked.questions]
    apart = set(mentions).difference(*own)
    counts = Counter(m.edits for m in apart)
    apart = {m for m in apart if counts[m.edits] == max(counts.values())}
    parts, before = list[tuple[Characters, frozenset[Span]]](), list[Mention]()
    for part, named in zip(asked.questions, own, strict=True):
        clear = any(m.cased for m in named)  # "it" may be a pronoun, whatever is stored
        leaning = not clear and leans_back(words.text[slice(*part)])
        about = [*named, *(before or apart or next(filter(None, own), []))] if leaning else named
        before = about if clear or not before else before
        parts.append((part, frozenset((m.begin, m.end) for m in about)))
    return tuple(parts)


def agreements(
    index: EditIndex, ids: Iterable[int], vectors: FloatArray
) -> dict[int, list[Agreement]]:
    """What questions with these salient unit vectors [n, d] and edits have in common. Raises ValueError, too."""
    return index.wordings.agreements(
        {id: {t: index._worded(t) for t in index.masked.texts[id]} for id in ids}, vectors
    )


def nearness(parsed: ParsedQuery, index: EditIndex, ids: Sequence[int]) -> dict[int, float]:
    """How near the nearest text of each edit, if `affordable`, is: by cosine, or by the share of common words."""
    spans = {id: {(m.begin, m.end) for m in mentions} for id, mentions in parsed.by_edit.items()}
    kept, texts = affordable(
        ((id, own), own) for id in ids for own in [parsed.wholes(spans.get(id, ()))]
    )
    if index.encoder is not None:
        vectors = dict(zip(texts, index.embed(texts), strict=True)) if texts else {}
        return {
            id: max(index.texts.closest([id], vectors[text])[id] for text in own)
            for id, own in kept
        }
    its = _texts_of({id: index.edits[id] for id, _ in kept})
    of = {text: set(Words.of(text).keys.tolist()) for text in {*texts, *chain(*its.values())}}
    return {
        id: max(len(of[a] & of[b]) / max(1, len(of[a] | of[b])) for a in own for b in its[id])
        for id, own in kept
    }


def affordable(texts_of: Iterable[tuple[Kept, Collection[str]]]) -> tuple[list[Kept], list[str]]:
    """The first of what has texts, made while these are read in about a decision's time, one at least; and these."""
    kept, texts, left = list[Kept](), dict[str, None](), _MOST_ENCODED
    for key, own in texts_of:
        more = {text: None for text in own if text not in texts}
        left -= sum(_OVERHEAD + len(text) for text in more)
        if left < 0 and kept:
            break
        kept.append(key)
        texts |= more
    return kept, list(texts)


def _texts_of(edits: Mapping[int, EditVersion]) -> Texts:
    return {id: (edit.record.query, *edit.record.paraphrases) for id, edit in edits.items()}


def _words_of(texts_of: Mapping[int, Sequence[str]]) -> dict[int, list[Words]]:
    """The words of each text, by the id of its edit."""
    read = iter(Words.of_each([text for texts in texts_of.values() for text in texts]))
    return {id: list(islice(read, len(texts))) for id, texts in texts_of.items()}


def _fingerprints(words_of: Mapping[int, Sequence[Words]]) -> dict[int, set[int]]:
    """The fingerprints of texts that have words, by the id of their edit."""
    return {id: {words.fingerprint for words in texts} - {0} for id, texts in words_of.items()}


def _telling(texts: Sequence[Words]) -> dict[int, float]:
    """The fingerprints of the telling words of some texts, with their weights."""
    weights = {key: _common().get(key, 1.0) for words in texts for key in words.keys.tolist()}
    return {key: weight for key, weight in weights.items() if weight >= _TELLING}


@cache
def _common() -> dict[int, float]:
    """The weights of common words, by fingerprint."""
    read = ((Words.of(word).keys.tolist(), weight) for word, weight in word_weights().items())
    return {keys[0]: weight for keys, weight in read if len(keys) == 1}


def _vectors(texts: Texts, encoder: TextEncoder, known: TextVectors) -> dict[str, FloatArray]:
    needed = dict.fromkeys(text for own in texts.values() for text in own)
    vectors = {text: known.vectors[text] for text in needed if text in known.vectors}
    missing = [text for text in needed if text not in vectors]
    return (
        {**vectors, **dict(zip(missing, unit(encoder.encode(missing)), strict=True))}
        if missing
        else vectors
    )
