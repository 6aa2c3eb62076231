"""Words as they are typed: "captial" is "capital", and "whats ur nr" is "what's your number".

Typing errors are corrected in the words of relations only.
"""

import re
from collections import defaultdict
from functools import cache, lru_cache

from drike.encoders.salience import content
from drike.text.relation_wordings import built_in
from drike.text.typos import one_typo, shortened
from drike.text.word_lists import data_lines, data_sections, word_list

_LONGEST_TEXT = 1_000  # characters; longer texts stay as they are
_SHORTEST_WORD = 5  # letters; in a word of five, letters are only swapped
_WORD_IN_LOWER_CASE = re.compile(r"(?<!\w)[a-z]{5,20}(?!\w)")
_LONGER_WORD = re.compile(rf"[a-z]{{{_SHORTEST_WORD},}}")

# Short words of chats, as one writes them out. No letters that stand for something else: R, C, N.
_WRITTEN_OUT = {
    "u": "you",
    "ur": "your",
    "urs": "yours",
    "r u": "are you",
    "hw": "how",
    "wat": "what",
    "wats": "what's",
    "whats": "what's",
    "wheres": "where's",
    "whos": "who's",
    "whens": "when's",
    "hows": "how's",
    "wen": "when",
    "wich": "which",
    "teh": "the",
    "pls": "please",
    "plz": "please",
    "thx": "thanks",
    "frm": "from",
    "til": "until",
    "b4": "before",
    "2day": "today",
    "2moro": "tomorrow",
    "gonna": "going to",
    "wanna": "want to",
    "gotta": "have to",
    "hrs": "hours",
    "mins": "minutes",
    "nr": "number",
    "adress": "address",
    "dont": "don't",
    "doesnt": "doesn't",
    "cant": "can't",
    "im": "I'm",
}
_SHORT_OF_CHATS = re.compile(rf"(?<![\w'.&-])(?:{'|'.join(_WRITTEN_OUT)})(?![\w'&-])")


def written_out(text: str) -> str:
    """A text with the short words of chats, in small letters, as one writes them out."""
    if len(text) > _LONGEST_TEXT:
        return text
    return _SHORT_OF_CHATS.sub(lambda match: _WRITTEN_OUT[match[0]], text)


def corrected(text: str) -> str:
    """A text with its longer words in lower case as the wordings of relations spell them.

    Only an unknown word changes, and only for a single known word with the same first and last
    letter: with letters swapped, missing or too many, but none exchanged.
    """
    if len(text) > _LONGEST_TEXT:
        return text
    return _WORD_IN_LOWER_CASE.sub(lambda match: _corrected_word(match[0]), text)


@lru_cache(maxsize=1 << 12)
def _corrected_word(word: str) -> str:
    is_common = content(word) < 1 or word in word_list("common words")
    if is_common or word in _known_words():
        return word
    candidates = {
        known
        for part in shortened(word)
        for known in _words_by_part().get(part, ())
        if one_typo(word, known) and _may_be_meant(known, word)
    }
    return candidates.pop() if len(candidates) == 1 else word


def _may_be_meant(known: str, typed: str) -> bool:
    """Whether one of two words that are a typing error apart may be meant by the other."""
    same_ends = (known[0], known[-1]) == (typed[0], typed[-1])
    swapped = sorted(known) == sorted(typed)
    missing_or_too_many = len(known) != len(typed) and len(known) > _SHORTEST_WORD
    return same_ends and (swapped or missing_or_too_many)


@cache
def _known_words() -> frozenset[str]:
    """The longer words of wordings, and the words of spelling.txt, which are no typing errors."""
    no_errors = {word for line in data_lines("text/spelling.txt") for word in line.split()}
    return _words_of_wordings() | no_errors


@cache
def _words_by_part() -> dict[str, list[str]]:
    """The longer words of wordings by the keys that they share with their typing errors."""
    words_by_part = defaultdict[str, list[str]](list)
    for word in _words_of_wordings():
        for part in shortened(word):
            words_by_part[part].append(word)
    return dict(words_by_part)


@cache
def _words_of_wordings() -> frozenset[str]:
    """The longer words for the relations that come with drike, and for things within subjects."""
    wordings = [text for relation in built_in() for group in relation.groups for text in group]
    things = data_sections("text/things.txt")["same"]
    texts = (*wordings, *things)
    return frozenset(word for text in texts for word in _LONGER_WORD.findall(text.lower()))
