"""Names in a text with a typing error in one of their words, or with an s at their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from drike.gates.fingerprint_set import Flags
from drike.gates.name_index import Mention, NameIndex
from drike.gates.name_spans import MOST_MENTIONS
from drike.gates.spelled_names import outer_names
from drike.text.name_forms import LONGEST_WORD, WORD, key_of
from drike.text.short_forms import NameMatch
from drike.text.typed_names import LONG_WORD
from drike.text.typos import one_typo, shortened, sound
from drike.text.word_lists import word_list
from drike.text.words import MAX_NAME_PARTS, Places, Words

# Unknown words at the beginning of a text and at its end that are checked for typos.
_CHECKED = 64
_WHOLE_NAMES = (NameMatch.FULL, NameMatch.SHORT, NameMatch.PARTIAL)


@dataclass(frozen=True)
class _Guess:
    """A word of a text, and what it may be in its right spelling."""

    place: int
    typed: str
    right: str


@dataclass(frozen=True)
class _GuessedName:
    """A name, by its fingerprint, that the words begin..end of a text are if a guess is right."""

    guess: _Guess
    begin: int
    end: int
    name: int

    @property
    def is_genitive(self) -> bool:
        """Whether the guess leaves out an s at the end of the name."""
        is_last_word = self.guess.place == self.end - 1
        return is_last_word and self.guess.typed == f"{self.guess.right}s"


def misspelt_names(words: Words, is_free: Flags, index: NameIndex) -> list[Mention]:
    """The names that hold a free word in its right spelling.

    is_free: which words are in no other name.
    """
    guesses = _guesses(words, is_free, index)
    if not guesses:
        return []
    guessed_names = _guessed_names(words, guesses, index)
    if len(guessed_names) > MOST_MENTIONS:
        half = MOST_MENTIONS // 2
        guessed_names = guessed_names[:half] + guessed_names[-half:]

    right_words = {guess.place: guess.right for guess in guesses}
    mentions: dict[tuple[int, int, tuple[int, ...]], Mention] = {}
    for found in guessed_names:
        if not found.is_genitive and _is_another_word(words, found):
            continue
        kind = NameMatch.SHORT if found.is_genitive else NameMatch.TYPO
        text = _corrected_text(words, found, right_words)
        for mention in index.mentions(words, found.name, found.begin, found.end, _WHOLE_NAMES):
            key = (found.begin, found.end, mention.edits)
            mentions[key] = replace(mention, name=text, kind=kind)
    return list(mentions.values())


def _corrected_text(words: Words, found: _GuessedName, right_words: Mapping[int, str]) -> str:
    """The words of a name as they are if its guess is right, and also those for other words."""
    corrected = {**right_words, found.guess.place: found.guess.right}
    typed_words = words.folded(found.begin, found.end)
    return " ".join(
        corrected.get(place, typed) for place, typed in enumerate(typed_words, found.begin)
    )


def _guesses(words: Words, is_free: Flags, index: NameIndex) -> list[_Guess]:
    """The right spellings of unknown words: first without an s, then without a typing error."""
    unknown, known = _long_words(words, is_free, index)
    guesses = _guesses_without_s(words, [*unknown, *known], index)
    guessed_places = {guess.place for guess in guesses}
    for place in unknown:
        if place in guessed_places:
            continue
        [typed] = words.folded(place, place + 1)
        similar = {right for key in shortened(typed) for right in index.misspelt.get(key, ())}
        guesses += [
            _Guess(place, typed, right)
            for right in sorted(similar)
            if one_typo(typed, right) or sound(typed) == sound(right)
        ]
    return guesses


def _long_words(words: Words, is_free: Flags, index: NameIndex) -> tuple[list[int], list[int]]:
    """The places of free words of the length of words that are checked.

    First those that no name has, then the others, which still may be a name with an s.
    """
    places = np.flatnonzero(is_free)
    sizes = words.ends[places] - words.begins[places]
    places = places[(sizes >= LONG_WORD - 1) & (sizes <= LONGEST_WORD)]
    known, _ = index.known.find(words.keys[places], WORD)
    return _outermost(np.delete(places, known)), _outermost(places[known])


def _outermost(places: Places) -> list[int]:
    if len(places) > 2 * _CHECKED:
        places = np.append(places[:_CHECKED], places[-_CHECKED:])
    return [int(place) for place in places]


def _guesses_without_s(words: Words, places: Sequence[int], index: NameIndex) -> list[_Guess]:
    """Words that are known but for their last letter, an s."""
    guesses = []
    for place in places:
        [typed] = words.folded(place, place + 1)
        if typed.endswith("s"):
            guesses.append(_Guess(place, typed, typed[:-1]))

    keys = np.array([key_of(guess.right) for guess in guesses], np.uint64)
    known, _ = index.known.find(keys, WORD)
    return [guesses[i] for i in known]


def _guessed_names(words: Words, guesses: Sequence[_Guess], index: NameIndex) -> list[_GuessedName]:
    """The names, none inside another, that hold a word if a guess is right.

    Where there is one guess for a word, it is taken to be right for all the others.
    """
    guesses_at = Counter(guess.place for guess in guesses)
    keys = words.keys.copy()
    for guess in guesses:
        if guesses_at[guess.place] == 1:
            keys[guess.place] = key_of(guess.right)
    starts = np.flatnonzero(index.known.may_have(keys))

    longest = partial(index.longest, words, keys)
    longest_of_single_guesses = cache(longest)  # as these keys stay, and many names are near
    guessed_names = []
    for guess in guesses:
        is_single = guesses_at[guess.place] == 1
        key_before = keys[guess.place]
        keys[guess.place] = key_of(guess.right)

        nearby = slice(*np.searchsorted(starts, (guess.place - MAX_NAME_PARTS, guess.place)))
        spans = outer_names(
            longest_of_single_guesses if is_single else longest,
            [*starts[nearby].tolist(), guess.place],
        )
        guessed_names += [
            _GuessedName(guess, begin, end, name)
            for begin, end, name in spans
            if begin <= guess.place < end
        ]
        keys[guess.place] = key_before
    return guessed_names


def _is_another_word(words: Words, found: _GuessedName) -> bool:
    """Whether a word that may be a misspelt name of one word is rather a word of its own.

    It is if it differs from the name only at its end. In place of a short name, it is also if it is
    a common word, begins with a small letter, or has a wrong letter or one too many.
    """
    if found.end - found.begin > 1:
        return False
    typed = found.guess.typed
    right = found.guess.right

    shared_size = min(len(typed), len(right))
    if len(typed) == len(right):
        shared_size -= 1
    if typed[:shared_size] == right[:shared_size]:
        return True

    is_common = typed in word_list("common words")
    if len(right) > LONG_WORD or (sound(typed) == right and not is_common):
        return False
    slipped = len(typed) < len(right) or sorted(typed) == sorted(right)
    is_capital = words.text[words.begins[found.begin]].isupper()
    return not slipped or is_common or not is_capital
