"""The words of a text and the names among them: one segmentation for the whole of drike.

It is linear in the text.

`drike.text.characters` says where words end. In scripts without spaces each sign is a word, so a
name may stand inside what people read as a longer one; a name counts only where it is likely to
stand by itself. In Han or hiragana it stands behind another script or a word such as 在 or の;
three signs of Han stand anywhere (京都 is not in 東京都). In Hangul it stands at the start of a
word if only particles follow in it (서울 is in 서울에서는, not in 서울대). In other scripts it
stands where its signs do, if they are two at least.

Words are compared without case, forms of letters (NFKC) and optional marks such as accents, by
their fingerprints.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from drike.text import characters
from drike.text.characters import INSIDE_KOREAN_WORD, NAME_SIZES, folded, is_sign
from drike.text.fingerprints import (
    BASE,
    BASE_INVERSE,
    MODULUS,
    NEXT,
    Fingerprints,
    contains,
    extended,
    mixed,
    mixed_sum,
)

Places = NDArray[np.int64]

MAX_NAME = 200  # characters of a name
MAX_NAME_WORDS = 12
_SIGNS_OF_WORD = 4  # so many signs of a script without spaces count as a word
MAX_NAME_PARTS = MAX_NAME_WORDS * _SIGNS_OF_WORD

_BLOCK = 1 << 16  # characters read at once, so that the arrays stay in a processor's cache
_FEW = 8  # texts that are read one by one, as they may be known
_SHORT = 300  # characters of a text whose words are kept
_FEW_WORDS = 16  # for which arrays take more time than numbers
_KEY_BYTES = 8  # of a fingerprint

ASCII_WORD = re.compile("[a-z0-9_]+[+#]*")
# The ASCII letters with which a word begins, which compare as they are in lower case.
_PLAIN_BEGINNING = re.compile("[A-Za-z0-9]+")
# More marks on a letter are no text; composing n of them takes n^2 steps.
_MOST_MARKS = regex.compile(r"(\p{M}{30})\p{M}+")

_MOST_PARTICLES = 4  # behind a name
_KOREAN_PARTICLES = (  # they follow a name without a space
    "에게서 입니다 인가요 에서 에게 한테 께서 으로 이나 이란 라는 이라 까지"
    " 부터 보다 처럼 마다 조차 밖에 이다 이고 인가"
    " 의 은 는 이 가 을 를 에 와 과 도 만 로 란 라 랑 나 께 야 서 요 씨 님"
)


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a text, by number: where each begins and ends in the text, and its fingerprint.

    least: how many words a name must have to begin with this one. last: whether a name may end with
    it.
    """

    text: str
    begins: Places
    ends: Places
    keys: Fingerprints
    least: NDArray[np.uint8]
    last: NDArray[np.bool_]

    @classmethod
    def of(cls, text: str) -> Words:
        """The words of a text."""
        return _of_short_text(text) if len(text) <= _SHORT else _of_text(text)

    @classmethod
    def of_each(cls, texts: Sequence[str]) -> list[Words]:
        """The words of each text; of many at once this takes less time."""
        if len(texts) < _FEW:
            return [cls.of(text) for text in texts]

        joined, starts, firsts = _joined(texts)
        numbers = firsts.tolist()
        return [
            cls(
                text,
                joined.begins[first:stop] - start,
                joined.ends[first:stop] - start,
                joined.keys[first:stop],
                joined.least[first:stop],
                joined.last[first:stop],
            )
            for text, start, first, stop in zip(
                texts, starts.tolist(), numbers, numbers[1:], strict=False
            )
        ]

    def __len__(self) -> int:
        return len(self.keys)

    def word(self, number: int) -> str:
        """A word as it is compared."""
        return folded(self.text[self.begins[number] : self.ends[number]])

    def folded(self, begin: int = 0, end: int | None = None) -> list[str]:
        """Some of the words as they are compared."""
        begins = self.begins[begin:end].tolist()
        ends = self.ends[begin:end].tolist()
        return [folded(self.text[i:j]) for i, j in zip(begins, ends, strict=True)]

    def between(self, begin: int, end: int) -> str:
        """The text from the beginning of a word to the end of the one before `end`."""
        return self.text[self.begins[begin] : self.ends[end - 1]]

    def spans(self, name: Words) -> Iterator[tuple[int, int]]:
        """Where the words of a name stand: the first of them and the one behind the last."""
        size = len(name)
        if not size:
            return
        keys = self.keys.tobytes()
        wanted = name.keys.tobytes()
        place = keys.find(wanted)
        while place >= 0:
            begin, rest = divmod(place, _KEY_BYTES)
            if not rest and self.least[begin] <= size and self.last[begin + size - 1]:
                yield begin, begin + size
                place = keys.find(wanted, place + len(wanted))
            else:
                place = keys.find(wanted, place + 1)

    def replaced(
        self, others: Mapping[tuple[int, int], str], start: int = 0, stop: int | None = None
    ) -> str:
        """The text, or a part of it, with other texts for spans of its words, given in order.

        start, stop: the part, by characters. Spans that are not within it stay as they are.
        """
        if stop is None:
            stop = len(self.text)
        pieces: list[str] = []
        written = start  # up to which the text is in `pieces`
        for (begin, end), other in others.items():
            first = int(self.begins[begin])
            last = int(self.ends[end - 1])
            if written <= first and last <= stop:
                pieces += [self.text[written:first], other]
                written = last
        return "".join((*pieces, self.text[written:stop]))

    def joined(self, place: int) -> Words:
        """The words of the text, where the one at a place and the next are one."""
        next_place = place + 1
        keys = np.delete(self.keys, next_place)
        keys[place] = word_key("".join(self.folded(place, place + 2)))
        return Words(
            self.text,
            begins=np.delete(self.begins, next_place),
            ends=np.delete(self.ends, place),
            keys=keys,
            least=np.delete(self.least, next_place),
            last=np.delete(self.last, place),
        )

    @property
    def weight(self) -> int:
        """How many words they count for: signs of scripts without spaces count for less."""
        signs = sum(is_sign(self.text[begin]) for begin in self.begins)
        words_of_signs = -(-signs // _SIGNS_OF_WORD)
        return len(self) - signs + words_of_signs

    @property
    def fingerprint(self) -> int:
        """Of all words together in their order; 0 without any."""
        if len(self) <= _FEW_WORDS:
            whole = 0
            for key in self.keys.tolist():
                whole = extended(whole, key)
            return whole
        factors = np.full(len(self), NEXT)
        factors[:1] = 1
        return int((self.keys[::-1] * np.cumprod(factors)).sum())


def fingerprints_of_each(texts: Sequence[str]) -> list[int]:
    """The fingerprint of the words of each text, of many in less time than one by one."""
    if len(texts) < _FEW:
        return [Words.of(text).fingerprint for text in texts]

    joined, _, firsts = _joined(texts)
    sizes = np.diff(firsts)
    fingerprints = np.zeros(len(texts), np.uint64)
    for place in range(max(sizes, default=0)):
        longer = np.flatnonzero(sizes > place)
        keys = joined.keys[firsts[longer] + place]
        fingerprints[longer] = fingerprints[longer] * NEXT + keys
    return fingerprints.tolist()


def _joined(texts: Sequence[str]) -> tuple[Words, Places, Places]:
    """The words of all texts; where each begins in them, and with which word, and their ends."""
    joined = _of_text("\n".join(texts))
    starts = np.cumsum([0, *(len(text) + 1 for text in texts)])
    return joined, starts, np.searchsorted(joined.begins, starts)


def words(text: str) -> list[str]:
    """The words of a text as they are compared."""
    return ASCII_WORD.findall(text.lower()) if text.isascii() else Words.of(text).folded()


def mentions(text: str, name: str) -> bool:
    """Whether a text names something in whole words: "Tirana" does not name "Iran".

    Case and forms of letters do not count.
    """
    if text.isascii() and name.isascii() and name[:1].isalnum() and name[-1:].isalnum():
        # These two answer for most texts, in a tenth of the time.
        if f" {name} " in f" {text} ":
            return True
        beginning = _PLAIN_BEGINNING.match(name)
        if beginning and beginning[0].lower() not in text.lower():
            return False

    name_words = Words.of(name)
    if not len(name_words):
        return bool(name) and name in text
    return next(Words.of(text).spans(name_words), None) is not None


def composed(text: str) -> str:
    """The text with the usual forms of its letters (NFKC)."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _MOST_MARKS.sub(r"\1", text))


@lru_cache(maxsize=1 << 10)  # queries and names are compared many times
def _of_short_text(text: str) -> Words:
    if not text.isascii():
        return _of_text(text)
    # For short texts this takes a third of the time.
    matches = list(ASCII_WORD.finditer(text.lower()))
    return Words(
        text,
        begins=np.array([match.start() for match in matches], np.int64),
        ends=np.array([match.end() for match in matches], np.int64),
        keys=np.array([_ascii_key(match[0]) for match in matches], np.uint64),
        least=np.ones(len(matches), np.uint8),
        last=np.ones(len(matches), np.bool_),
    )


def word_key(word: str) -> int:
    """The fingerprint of a word as it is compared."""
    return _ascii_key(word) if word.isascii() else Words.of(word).fingerprint


@lru_cache(maxsize=1 << 12)
def _ascii_key(word: str) -> int:
    """The fingerprint of a word in ASCII, in lower case."""
    _ascii_tables()  # so that the letters are known
    letters_sum = 0
    for code in reversed(word.encode()):
        letters_sum = (letters_sum * BASE + int(characters.LETTERS_OF[code])) % MODULUS
    return mixed_sum(letters_sum)


def _of_text(text: str) -> Words:
    # Arrays that are large enough for any text: memory that is not touched takes no time.
    begins, ends = np.empty((2, len(text)), np.int64)
    keys = np.empty(len(text), np.uint64)
    kinds = np.empty(len(text), np.uint8)  # of characters

    count = 0
    start = 0
    while start < len(text):
        stop = _end_of_block(text, start)
        block = _read_block(text[start:stop])
        new_count = count + len(block.keys)
        begins[count:new_count] = block.begins + start
        ends[count:new_count] = block.ends + start
        keys[count:new_count] = block.keys
        kinds[start:stop] = block.kinds
        count = new_count
        start = stop
    begins = begins[:count]
    ends = ends[:count]
    keys = keys[:count]

    least = _name_sizes(begins, ends, kinds)
    return Words(text, begins, ends, keys, least, _may_end_names(keys, least == INSIDE_KOREAN_WORD))


def _end_of_block(text: str, start: int) -> int:
    """Where the block from `start` ends: not inside a word, if it can be helped."""
    stop = start + _BLOCK
    if stop >= len(text):
        return stop
    space = max(text.rfind(" ", start, stop), text.rfind("\n", start, stop))
    return space + 1 or stop


def _name_sizes(begins: Places, ends: Places, kinds: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """How many words a name must have to begin with each: more than one inside what adjoins.

    kinds: of characters.
    """
    least = np.ones(len(begins), np.uint8)
    adjoining = np.flatnonzero(begins[1:] == ends[:-1])
    places = ends[adjoining]
    pairs = characters.pair_number(kinds[places - 1], kinds[places])
    least[1:][adjoining] = NAME_SIZES[pairs]
    return least


def _may_end_names(keys: Fingerprints, inner: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which words may be the last of a name.

    inner: which of them are syllables of a Korean word, but for its first.

    Of the syllables of a Korean word, these are the last one, and those behind which only particles
    follow.
    """
    may_end = np.ones(len(keys), np.bool_)
    may_end[:-1] = ~inner[1:]
    ends = np.flatnonzero(may_end & inner)
    if not len(ends):
        return may_end
    for _ in range(_MOST_PARTICLES):
        ends = _before_particles(ends, keys, inner)
        may_end[ends] = True
        ends = ends[inner[ends]]
    return may_end


def _before_particles(ends: Places, keys: Fingerprints, inner: NDArray[np.bool_]) -> Places:
    """The syllables before the particles that end at some places, each the longest there."""
    before = []
    for size, particles in _particles():
        begins = ends - size + 1
        fingerprints = np.zeros(len(ends), np.uint64)
        for i in range(size):
            fingerprints = fingerprints * NEXT + keys[begins + i]
        is_particle = inner[begins] & (begins > 0) & contains(particles, fingerprints)
        before.append(begins[is_particle] - 1)
        ends = ends[~is_particle]
    return np.concatenate(before)


@cache
def _particles() -> list[tuple[int, Fingerprints]]:
    """The sorted fingerprints of particles by their number of syllables, the longest first."""
    fingerprints_by_size: dict[int, list[int]] = {3: [], 2: [], 1: []}
    for particle in _KOREAN_PARTICLES.split():
        syllables = Words.of(" ".join(particle))
        fingerprints_by_size[len(syllables)].append(syllables.fingerprint)
    return [
        (size, np.array(sorted(fingerprints), np.uint64))
        for size, fingerprints in fingerprints_by_size.items()
    ]


class _Block(NamedTuple):
    """The words of a part of a text, and the kinds of its characters."""

    begins: Places
    ends: Places
    keys: Fingerprints
    kinds: NDArray[np.uint8]


def _read_block(text: str) -> _Block:
    if text.isascii():
        kind_of, powers, inverses = _ascii_tables()
        codes: NDArray[Any] = np.frombuffer(text.encode(), np.uint8)
        kinds = np.frombuffer(text.encode().translate(kind_of), np.uint8)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        kinds = _kinds(codes)
        powers, inverses = np.ones((2, len(codes) + 1), np.uint64)
        np.cumprod(characters.POWER_OF[codes], out=powers[1:])
        np.cumprod(characters.INVERSE_OF[codes], out=inverses[1:])

    begins, ends = _boundaries(kinds)
    # Of the letters up to each place; the difference of two is divided by the powers before the
    # word.
    sums = np.zeros(len(codes) + 1, np.uint64)
    np.cumsum(characters.LETTERS_OF.take(codes) * powers[: len(codes)], out=sums[1:])
    keys = mixed((sums[ends] - sums[begins]) * inverses[begins])

    if not keys.all():  # nothing is left of a mark that stands alone
        some = np.flatnonzero(keys)
        begins = begins[some]
        ends = ends[some]
        keys = keys[some]
    return _Block(begins, ends, keys, kinds)


def _kinds(codes: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The kinds of characters, which are learned when they are first met."""
    kinds = characters.KIND_OF[codes]
    if not kinds.all():
        characters.learn(set(codes[kinds == 0].tolist()))
        kinds = characters.KIND_OF[codes]
    return kinds


def _boundaries(kinds: NDArray[np.uint8]) -> tuple[Places, Places]:
    """Where words begin and end in a text, by the kinds of its characters."""
    boundaries = _boundary_bits(kinds)
    begins = np.flatnonzero((boundaries & characters.BEGINS).view(np.bool_))
    ends = np.flatnonzero(boundaries >= characters.ENDS)
    if len(begins) < len(ends):  # a suffix without a word
        next_ends = np.searchsorted(ends, begins, side="right")
        ends = ends[next_ends]
    return begins, ends


def _boundary_bits(kinds: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """For each place between two characters, before the first and behind the last, its bits."""
    around = np.full(len(kinds) + 2, characters.GAP, np.uint8)
    around[1:-1] = kinds
    pairs = characters.pair_number(around[:-1], around[1:])
    bits = pairs.tobytes().translate(characters.BOUNDARIES)
    return np.frombuffer(bits, np.uint8)


@cache
def _ascii_tables() -> tuple[bytes, Fingerprints, Fingerprints]:
    """The kinds of ASCII; for each number of letters the powers of the base and its inverse."""
    characters.learn(range(128))
    powers, inverses = np.ones((2, _BLOCK), np.uint64)
    np.cumprod(np.full(_BLOCK - 1, BASE, np.uint64), out=powers[1:])
    np.cumprod(np.full(_BLOCK - 1, BASE_INVERSE, np.uint64), out=inverses[1:])
    return characters.KIND_OF[:256].tobytes(), powers, inverses
