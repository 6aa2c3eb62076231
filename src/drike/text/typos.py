"""Typing errors: which words are one apart, and keys by which such words find each other."""

import re

_DOUBLED_LETTER = re.compile(r"([^\W\d])\1")


def shortened(word: str) -> set[str]:
    """The word, its sound, and the word without each of its letters in turn.

    Two words that are a typing error apart share one of these. A number is shortened by none of its
    digits, so that it shares none with another number.
    """
    without_a_letter = {
        word[:place] + word[place + 1 :] for place, sign in enumerate(word) if not sign.isdigit()
    }
    return {word, sound(word)} | without_a_letter


def sound(word: str) -> str:
    """A word with one letter for those that sound alike or stand twice.

    "ibuprophen" and "ibuprofen" sound the same.
    """
    respelled = word.replace("ph", "f").replace("ck", "k")
    return _DOUBLED_LETTER.sub(r"\1", respelled)


def one_typo(first: str, second: str) -> bool:
    """Whether one letter was added, left out or exchanged, or two neighbours were swapped.

    Also true of equal words.
    """
    shorter = min(len(first), len(second))
    place = 0
    while place < shorter and first[place] == second[place]:
        place += 1

    rest = first[place:]
    other_rest = second[place:]
    left_out = rest == other_rest[1:]
    added = rest[1:] == other_rest
    exchanged = rest[1:] == other_rest[1:]
    swapped = rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:]
    return left_out or added or exchanged or swapped
