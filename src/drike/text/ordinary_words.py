"""Whether a name that is also an ordinary word is used as that word: "which visa do I need".

Names such as Visa, Slack, Reading and Target are ordinary words, too. Where a text writes one in
lower case, the words around it say what is meant, and so does a text that has capitals elsewhere.
"""

from __future__ import annotations

from functools import cache

from drike.text.capitals import capital, casual
from drike.text.relation_words import word_set
from drike.text.word_lists import word_list
from drike.text.words import Words

# Before a noun, and never before a name.
_DETERMINERS = word_set("determiners")
_SUBJECTS = word_set("subjects")  # before a verb
_ASKING = word_list("question words")
_BE = word_set("be")
_AUXILIARIES = _BE | word_set("auxiliaries")  # behind which the subject of a question follows
_PREPOSITIONS = word_set("before names")
_VERBS = word_set("verbs before names")
_BEHIND_GERUNDS = _DETERMINERS.union(("to", "about", "aloud", "out"))
_ENDINGS = ("s", "es", "ed", "d", "ing")
_SHORTEST_STEM = 3
_INSIDE_ADDRESSES = frozenset("./_@\\-")


@cache
def is_ordinary(word: str) -> bool:
    """Whether a word, as words are compared, is an ordinary one of English, or a form of one."""
    if word in word_list("common words") or word in word_list("names that are words"):
        return True
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < _SHORTEST_STEM:
            continue
        if stem in word_list("common words") or f"{stem}e" in word_list("common words"):
            return True
    return False


def names_by_capital(words: Words, begin: int, end: int) -> bool:
    """Whether a capital alone shows a name: of one word that is seldom meant otherwise, "Orbit"."""
    word = words.word(begin)
    is_seldom_word = (
        end - begin == 1 and is_ordinary(word) and word not in word_list("common words")
    )
    return is_seldom_word and word not in word_list("homonyms") and capital(words, begin)


def used_as_word(words: Words, begin: int, end: int) -> bool:
    """Whether a name of ordinary words, in lower case though it has a capital, means these words.

    In a text without any capital, only the words right before and behind can tell.
    """
    if not words.between(begin, end).islower():
        return False
    before = words.word(begin - 1) if begin else ""
    behind = words.word(end) if end < len(words) else ""
    if _is_inside_address(words, begin, end) or before in _DETERMINERS | _SUBJECTS:
        return True
    if before == "s":
        contracts_is = begin > 1 and words.word(begin - 2) in _ASKING
        return not contracts_is
    if behind == "s" or not before or before in _VERBS or before.endswith("ed"):
        return False
    if before in _AUXILIARIES | _PREPOSITIONS:
        is_verbal = words.word(end - 1).endswith("ing")
        return is_verbal and behind in _BEHIND_GERUNDS
    return not casual(words, begin) and _asks_before(words, begin)


def _asks_before(words: Words, begin: int) -> bool:
    """Whether a question begins before a word: else a text may be a list of words to search."""
    return not (_ASKING | _AUXILIARIES).isdisjoint(words.folded(0, begin))


def _is_inside_address(words: Words, begin: int, end: int) -> bool:
    """Whether a sign of an address or a path joins a name to more: "target/debug", "apple.com"."""
    text = words.text
    start = int(words.begins[begin])
    stop = int(words.ends[end - 1])
    before = text[max(0, start - 2) : start]
    behind = text[stop : stop + 2]
    is_continued = len(behind) == 2 and behind[0] in _INSIDE_ADDRESSES and behind[1].isalnum()
    return is_continued or (
        len(before) == 2 and before[1] in _INSIDE_ADDRESSES and before[0].isalnum()
    )
