"""The strict reading of answers: whether a text is a right answer, and whether a word ends.

A text is right if its first line starts with the target, up to case, articles, punctuation and
white space, and the target ends at the end of a word. The text must be only what the model wrote,
without the prompt: in 8 % of the rows of CounterFact the subject contains the old object.
"""

import re
import unicodedata
from functools import lru_cache

from drike.answers.thoughts import without_thoughts

# "a" of "Serie A" is no article, nor "A" of "Hoi An" and "A. Peru".
_FENCE = re.compile(r"```\w*")
_ARTICLES = re.compile(r"\b(?:an?(?=\s+\S)|(?i:the))\b|^\s*A[Nn]?(?=\s+\w)")
# Of "J. K. Rowling"; not of "D.C. D.C."
_BETWEEN_INITIALS = re.compile(r"(?<=(?<!\.)\b[^\W\d_]\.)\s+(?=[^\W\d_]\.)")
_JOINERS = re.compile(r"(?!(?<!\w)-\d)[-‐-―_/]|(?<=[^\W\d]):(?=[^\W\d])")
_POSSESSIVE = re.compile(r"['’][sS]\b")
# What follows a word without a space in Chinese, Japanese and Korean.
_SUFFIX = re.compile(
    "[是的在与與及]|です|でし|だ|である|[はがをにのともでへや]|から|まで|より"
    "|(?:이라고|이에요|예요|이었습니다|였습니다|입니다|이다|이고|에서|으로|까지|부터|[은는이가을를의에과와도로만야]){1,4}"
    "(?![가-힣])"
)
# Vowels and tones of scripts that write them as marks.
_MARKS = "".join(
    character
    for character in map(chr, range(0x900, 0x1800))
    if unicodedata.category(character).startswith("M")
)
_BREAKS = re.compile(
    r"(?i)[、。「」『』《》【】;()\[\]]|(?<![a-z])[!?]|[!?](?![a-z])|,(?!(?<=\d,)\d{3}(?!\d))"
)
# But decimal points, signs, + and #.
_PUNCTUATION = re.compile(rf"(?<!\d)[.](?=\d)|[.](?!\d)|(?!-\d)[^\w\s.+#{_MARKS}]")


def first_line(text: str) -> str:
    """The first line of an answer that is not blank, stripped; "" if there is none.

    Thoughts are none of its lines, nor are the marks around a block of code.
    """
    lines = [line.strip() for line in without_thoughts(text).splitlines()]
    said = [line for line in lines if line and not _FENCE.fullmatch(line)]
    return said[0] if said else ""


@lru_cache(maxsize=1 << 14)  # objects are compared many times
def normalise(text: str) -> str:
    """Fold case, remove articles and punctuation, collapse white space.

    Something is left of every text that is not blank: its articles ("The The"), or all of it
    ("?!").
    """
    composed = unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")
    spaced = _POSSESSIVE.sub(" s", composed)
    spaced = _JOINERS.sub(" ", spaced)
    spaced = _BETWEEN_INITIALS.sub("", spaced)
    without_articles = _ARTICLES.sub(" ", spaced)
    return (
        _without_punctuation(without_articles)
        or _without_punctuation(spaced)
        or composed.casefold().strip()
    )


def _without_punctuation(text: str) -> str:
    """A text in small letters with single spaces, and without punctuation."""
    separated = _BREAKS.sub(" ", text)
    return " ".join(_PUNCTUATION.sub("", separated).casefold().split())


def matches(text: str, target: str) -> bool:
    """Whether the first line of `text` starts with the words of `target`, both normalised.

    Raises ValueError for a target without a word.
    """
    answer_words = " ".join(normalise(first_line(text)).split())
    target_words = " ".join(normalise(target).split())
    if not target_words:
        raise ValueError(
            "a target must hold at least one word: every answer would match an empty one"
        )
    if f"{answer_words} ".startswith(f"{target_words} "):
        return True
    has_suffix = _SUFFIX.match(answer_words, len(target_words)) is not None
    return answer_words.startswith(target_words) and has_suffix


def equals(text: str, target: str) -> bool:
    """Whether the whole first line of `text` is the target, both normalised.

    This stricter form is recorded as well.
    """
    return normalise(first_line(text)) == normalise(target)


def ends_word(following: str) -> bool:
    """Whether a word is complete when `following` comes next.

    "" stands for the end, U+FFFD for a part of a letter.
    """
    goes_on = re.match(rf"[^\W_]|[{_MARKS}\ufffd]", following)
    return not goes_on or _SUFFIX.match(following) is not None


def ends_answer(following: str) -> bool:
    """Whether an answer is complete when `following` comes next.

    It is at the end of the text, of a line or of a clause.
    """
    next_character = following.strip(" ")[:1]
    return next_character in {"", *'\n\r.,;:!?)"。，、；：！？）」'}
