"""What a text wants to be filled in: "____" in a sentence, an empty field of code or of a table."""

import re
from collections.abc import Iterable, Sequence

from drike.text.phrases import find_phrase
from drike.text.sentences import LINE, Span, overlaps

_MOST_GAPS = 3  # lines with one
_LINES_BEFORE = 3  # lines that may say of what it is

_GAP = re.compile(
    r"""
    _{3} | \?{3} | \[(?:missing|blank|todo|tbd|\?)\] | \bTODO\b
    | ,[^,\n]{1,60},[ \t]{0,8}$  # the end of a row of a table
    | (?P<code>
        \.{3}
        | (?: =[ \t]{0,8} | [=:][ \t]{0,8}(?:\"\"|''|null|None) ) [;,]?[ \t]{0,8}$
      )
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)


def find_gaps(text: str, code: Sequence[Span], questions: Sequence[Span]) -> list[Span]:
    """The lines with a gap that one of some questions wants to be filled in.

    Each comes with some lines before it, and with the question if that is directly behind.
    code: lines and blocks of code and of quoted text, in which an empty field is a gap, too.
    """
    wanting = [question for question in questions if _wants_filling(text, question)]
    if not wanting:
        return []

    gaps: list[Span] = []
    for gap in _GAP.finditer(text):
        place = gap.start()
        line_break = text.find("\n", gap.end())
        stop = len(text) if line_break < 0 else line_break
        is_code_elsewhere = gap["code"] and not overlaps((place, place + 1), code)
        if is_code_elsewhere or overlaps((place, stop), wanting):
            continue
        start = _start_of_lines_before(text, place, (*wanting, *gaps))
        gaps.append((start, _end_with_question(text, stop, wanting)))
        if len(gaps) == _MOST_GAPS:
            break
    return gaps


def _wants_filling(text: str, question: Span) -> bool:
    start, stop = question
    return find_phrase(text[start : min(stop, start + LINE)], "gap") is not None


def _start_of_lines_before(text: str, place: int, others: Iterable[Span]) -> int:
    """Where the lines begin that may belong to a gap, behind the spans that end before it."""
    start = place
    for _ in range(_LINES_BEFORE + 1):
        start = max(text.rfind("\n", 0, start), 0)
    ends_before = [end for _, end in others if end <= place]
    return max(start, *ends_before, 0)


def _end_with_question(text: str, stop: int, questions: Iterable[Span]) -> int:
    """Where a gap's line ends, or the question ends that is directly behind it."""
    for begin, end in questions:
        if stop <= begin and not text[stop:begin].strip():
            return end
    return stop
