"""What capitals say: where a text has a name, and whether a common word is written as one."""

import re
from collections.abc import Collection

from drike.text.phrases import phrase_at
from drike.text.word_lists import word_list
from drike.text.words import Words

_AROUND = 6  # words on each side that say how a text is written
_SHORT_WORD = 3  # letters; such words are in lower case in titles, too
_CASUAL = 200  # characters on each side that are in lower case where people write so
_SENTENCE_ENDS = frozenset(".!?:;\n…•")

# A word behind another one in its sentence, perhaps in quotation marks.
_LATER_WORD = re.compile(r"(?<=[^\s.!?:\"“(])\s+[\"“'(]?(?=[^\W\d_])(?P<word>\w[\w'’-]*)")
# German words behind which a capital says nothing, as all nouns have one.
_BEFORE_GERMAN_NOUN = re.compile(
    r"""\b(?:
        de[rmns] | das | die | eine?[rmns]? | [ksm]?eine?[rmns]? | ihre?[rmns]? | diese?[rmns]?
      | welche?[rmns]? | viele | wieviele | [iz]m | zu[mr] | vom | beim
    )$""",
    re.IGNORECASE | re.VERBOSE,
)
_BEFORE_NOUN = 12  # characters, enough for the longest of these


def find_name(text: str) -> int | None:
    """Where a text has a word with a capital behind its first one; None without one.

    Only names have capitals there, so the text has a subject of its own.
    """
    if text[1:] == text[1:].lower():
        return None
    for match in _LATER_WORD.finditer(text):
        word = match["word"]
        if not word[0].isupper() or phrase_at(word, "common"):
            continue
        before = max(0, match.start() - _BEFORE_NOUN)
        if not _BEFORE_GERMAN_NOUN.search(text, before, match.start()):
            return match.start("word")
    return None


def cased(words: Words, begin: int, end: int, stored: Collection[str]) -> bool:
    """Whether a name is written as it is stored, and not only because all has capitals there."""
    written = words.between(begin, end)
    several_words = end - begin > 1
    has_no_capital = any(name.islower() for name in stored)
    has_capital_at_its_start_alone = several_words and any(name[1:].islower() for name in stored)
    if has_no_capital or has_capital_at_its_start_alone:
        return True

    if written not in stored and several_words and words.word(begin) in word_list("articles"):
        written = f"{written[0].upper()}{written[1:]}"
    if written not in stored or in_title(words, begin, end):
        return False

    if len(written) == 1 or written[1:].islower():
        # One capital may only begin a sentence or a German noun.
        if begins_sentence(words, begin):
            return False
        return words.word(begin - 1) not in word_list("german articles")
    return True


def casual(words: Words, number: int) -> bool:
    """Whether the text around a word is all in lower case, so that a name in it may be, too."""
    start = max(0, words.begins[number] - _CASUAL)
    return words.text[start : words.ends[number] + _CASUAL].islower()


def capital(words: Words, number: int) -> bool:
    """Whether a word begins with a capital or a digit."""
    first = words.text[words.begins[number]]
    return first.isupper() or first.isdigit()


def in_title(words: Words, begin: int, end: int) -> bool:
    """Whether all longer words around some have capitals, as in titles and texts in capitals."""
    before = range(max(0, begin - _AROUND), begin)
    behind = range(end, min(len(words), end + _AROUND))
    longer = [
        number
        for number in (*before, *behind)
        if words.ends[number] - words.begins[number] > _SHORT_WORD
    ]
    return len(longer) > 1 and all(capital(words, number) for number in longer)


def begins_sentence(words: Words, number: int) -> bool:
    """Whether a word begins a sentence, or the text."""
    if number == 0:
        return True
    gap = words.text[words.ends[number - 1] : words.begins[number]]
    return not _SENTENCE_ENDS.isdisjoint(gap)
