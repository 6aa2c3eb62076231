"""Whether a text is a right answer, and whether a word ends; `evaluation.judge` uses both for rewards and metrics.

A text is right if its first line starts with the target, up to case, articles, punctuation and white space, and the
target ends at the end of a word. The text must be only what the model wrote, without the prompt: in 8 % of the rows of
CounterFact the subject contains the old object.
"""

import re
import unicodedata
from functools import lru_cache

_ARTICLES = re.compile(
    r"\b(?:an?(?=\s+\S)|(?i:the))\b|^\s*A[Nn]?(?=\s+\w)"
)  # not of "Serie A", "Hoi An", "A. Peru"
_BETWEEN_INITIALS = re.compile(
    r"(?<=(?<!\.)\b[^\W\d_]\.)\s+(?=[^\W\d_]\.)"
)  # of "J. K. Rowling"; not "D.C. D.C."
_JOINERS = re.compile(r"(?!(?<!\w)-\d)[-‐-―_/]|(?<=[^\W\d]):(?=[^\W\d])")
_POSSESSIVE = re.compile(r"['’][sS]\b")
_SUFFIX = re.compile(  # what follows a word without a space in Chinese, Japanese and Korean
    "[是的在与與或]|です|でし|だ|である|[はがをにのともでへや]|から|まで|より"
    "|(?:이라고|이에요|예요|이었습니다|였습니다|입니다|이다|이고|에서|으로|까지|부터|[은는이가을를의에과와도로만야]){1,4}(?![가-힣])"
)
_MARKS = "".join(
    c for c in map(chr, range(0x900, 0x1800)) if unicodedata.category(c)[0] == "M"
)  # vowels, tones
_BREAKS = re.compile(
    r"(?i)[、。「」『』《》【】;()\[\]]|(?<![a-z])[!?]|[!?](?![a-z])|,(?!(?<=\d,)\d{3}(?!\d))"
)
_PUNCTUATION = re.compile(
    rf"(?<!\d)[.](?=\d)|[.](?!\d)|(?!-\d)[^\w\s.+#{_MARKS}]"
)  # not decimal points, signs, +, #


def first_line(text: str) -> str:
    """The first line of a text that is not blank, stripped; "" if there is none."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


@lru_cache(maxsize=1 << 14)  # objects are compared many times
def normalise(text: str) -> str:
    """Fold case, remove articles and punctuation, collapse white space, but leave something ("The The", "?!")."""
    composed = unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")
    spaced = _BETWEEN_INITIALS.sub("", _JOINERS.sub(" ", _POSSESSIVE.sub(" s", composed)))
    apart = (_BREAKS.sub(" ", kept) for kept in (spaced, _ARTICLES.sub(" ", spaced)))
    plain, without = (_PUNCTUATION.sub("", kept).casefold() for kept in apart)
    return " ".join(without.split()) or " ".join(plain.split()) or composed.casefold().strip()


def matches(text: str, target: str) -> bool:
    """Whether the first line of `text` starts with the words of `target`, both normalised. Raises ValueError."""
    said, wanted = (" ".join(normalise(each).split()) for each in (first_line(text), target))
    if not wanted:
        raise ValueError(
            "a target must hold at least one word: every answer would match an empty one"
        )
    return f"{said} ".startswith(f"{wanted} ") or (
        said.startswith(wanted) and bool(_SUFFIX.match(said, len(wanted)))
    )


def equals(text: str, target: str) -> bool:
    """Whether the whole first line of `text` is the target, both normalised: the strict form, recorded as well."""
    return normalise(first_line(text)) == normalise(target)


def ends_word(following: str) -> bool:
    """Whether a word is complete when `following` comes next; "" stands for the end, U+FFFD for part of a letter."""
    return not re.match(rf"[^\W_]|[{_MARKS}\ufffd]", following) or bool(_SUFFIX.match(following))


def ends_answer(following: str) -> bool:
    """Whether an answer is complete when `following` comes next: the end, a line break or the end of a clause."""
    return following.strip(" ")[:1] in {"", *'\n\r.,;:!?)"。，、；：！？）」'}
