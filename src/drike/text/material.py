"""What a text gives only to be worked on: text to translate, code, logs, quoted mail."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from drike.text.phrases import SPACELESS, find_phrase, phrase_at
from drike.text.sentences import (
    PASSAGE,
    QUOTED,
    Sentence,
    Span,
    behind_courtesies,
    behind_mark,
)

ASKS = re.compile(r"[?？][\s\"'”’»)\]*_]*$")  # the end of a question
WORD = re.compile(r"[^\W_]+(?:['’]\w+)*")

_COLON_OR_DASH = re.compile(r"：|:(?=\s|[\"'“„«‘「『])|\s[-–—]\s")
_LISTED = re.compile(  # some things in a row, each of few words
    r"(?:the |a )?[\w'’-]+(?: [\w'’-]+){0,2}"
    r"(?:(?:, (?:and |und )?| and | und | y | et )(?:the |a )?[\w'’-]+(?: [\w'’-]+){0,2})+\.?"
)
_VISIBLE = re.compile(r"\S")
_JSON = re.compile(r"\s*(?:[{\[]|\"[\w ]+\" ?:|[}\]],?\s*$)")
# How a line of code, of a log or of a trace begins.
_CODE = re.compile(
    r"""\s*(?:
        # Times of logs: 2026-11-23 10:00, 10:00:01, Nov 23 10:00:01; levels.
        \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d
      | \[?\d\d:\d\d:\d\d\b
      | [A-Z][a-z]{2}[ ]+\d+[ ]\d\d:\d\d:\d\d[ ]
      | \[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b[\]:\s]
      | (?:error|warning|fatal|panic):[ ]
        # Traces.
      | Traceback[ ]\(
      | File[ ]"[^"]+",[ ]line
      | at[ ][\w.$<>]+\(
      | (?:\w+\.)*[A-Z]\w+(?:Error|Exception):
        # Definitions, imports and statements of programs.
      | (?:async[ ])?def[ ]\w+\(
      | class[ ]\w+[(:{]
      | import[ ]\w+(?:\.\w+|;|$|[ ]as[ ])
      | from[ ][\w.]+[ ]import[ ]
      | return\b.*[;)]$
      | \#include
      | (?:SELECT|INSERT|UPDATE|DELETE)\b.*\b(?:FROM|INTO|SET)\b
      | (?:const|let|var|val|final|public|private|static|int|string)
        [ ][\w<>\[\]]+(?:[ ][\w<>\[\]]+)?(?:\(.*[){]|.*[={;])$
      | (?:for|if|while|elif|switch)\b.*[:{]$
      | (?:print|console\.log|assert)[ ]?\(
      | \w[\w.]*\(.*\);?$
      | [})\];]+$
      | [\w.\[\]"']+[ ]?[-+*]?=[ ]?(?:\S.*[\]"'();{}\d]|;?)$
      | <[a-z]+[ /].*>$
        # Commands.
      | (?:\$|>>>|C:\\>)[ ]?\w
      | (?:curl|docker|pip|git)[ ](?:-|(?:run|build|compose|install|list|clone|pull|push|commit|add
            |status|checkout|ps|exec|https?)\b)
      | [A-Z][A-Z0-9_]+=\S
    )""",
    re.VERBOSE,
)


class LineKind(StrEnum):
    """What a line is that asks nothing."""

    CODE = "code"  # of a program, a log or a trace
    QUOTED = "quoted"  # of a mail, or of JSON


def line_kinds(text: str, sentences: Iterable[Sentence]) -> dict[Span, LineKind | None]:
    """The kinds of the lines of sentences, in their order; None for lines of plain text."""
    kind_by_line: dict[Span, LineKind | None] = {}
    end_of_code = -1
    for line in dict.fromkeys(sentence.line for sentence in sentences):
        start, stop = line
        indented_behind_code = start == end_of_code and text[start] in " \t"
        if indented_behind_code:
            kind_by_line[line] = LineKind.CODE
        else:
            kind_by_line[line] = _line_kind(text[start : min(stop, start + PASSAGE)])
        if kind_by_line[line] is LineKind.CODE:
            end_of_code = stop
    return kind_by_line


def _line_kind(line: str) -> LineKind | None:
    line = line.rstrip()
    if line.startswith(">") and not line.startswith(">>>"):
        return LineKind.QUOTED
    if ASKS.search(line):
        return None
    if _CODE.match(line):
        return LineKind.CODE
    return LineKind.QUOTED if _JSON.match(line) else None


class _Instruction(NamedTuple):
    """What a sentence wants to be done with a text."""

    reworks: bool  # rather than to sum it up or to look at its words
    quotations: list[re.Match[str]]  # in the sentence
    colon: re.Match[str] | None  # or dash, before the text
    points: bool  # "this", "the text below"


def worked_on(text: str, sentences: Sequence[Sentence], blocks: Sequence[Span]) -> list[Span]:
    """What a text wants to be translated, corrected and so on, each with the instruction."""
    found: list[Span] = []
    end = 0  # of what was found
    for number, sentence in enumerate(sentences):
        if sentence.start < end:
            continue
        instruction = _instruction_in(text, sentence)
        if instruction is None:
            continue

        start, stop, line = sentence
        if instruction.quotations:
            found.append((start, stop))
        elif instruction.colon and _enumerates(text, sentence, instruction.colon):
            continue
        elif instruction.colon or _is_about_what_follows(text, sentence, instruction):
            begin = instruction.colon.end() if instruction.colon else stop
            end = _end_of_material(text, begin, sentences[number + 1 :], blocks)
            found.append((start, end))
        else:
            begins_line = start == line[0]
            about_before = instruction.points or (instruction.reworks and begins_line)
            if about_before and _VISIBLE.search(text, 0, start):
                found.append((0, stop))
    return found


def _enumerates(text: str, sentence: Sentence, colon: re.Match[str]) -> bool:
    """Whether what stands behind a colon only says of what a summary is wanted.

    "Summarise the terms at Acme: leave, home office and notice."
    """
    is_of_whole = find_phrase(text[sentence.start : colon.start()], "whole") is not None
    behind = text[colon.end() : sentence.stop].strip()
    return is_of_whole and _LISTED.fullmatch(behind) is not None


def _is_about_what_follows(text: str, sentence: Sentence, instruction: _Instruction) -> bool:
    """Whether an instruction without a colon is about the text behind it."""
    ends_line = sentence.stop >= sentence.line[1]
    may_be = instruction.points or (instruction.reworks and ends_line)
    return may_be and _VISIBLE.search(text, sentence.stop) is not None


def _instruction_in(text: str, sentence: Sentence) -> _Instruction | None:
    start, stop, _ = sentence
    quotations = list(QUOTED.finditer(text, start, stop))
    place = behind_courtesies(text, sentence)
    begins_with_quotation = quotations and not text[start : quotations[0].start()].strip()
    if begins_with_quotation:  # '"..." - translate'
        word = WORD.search(text, quotations[0].end(), stop)
        place = word.start() if word else place

    rework = phrase_at(text, "rework", place) or ""
    phrase = rework or phrase_at(text, "digest", place) or ""
    to_be_answered = phrase_at(text, "finish", place) or ""
    if len(to_be_answered) > len(phrase):
        return None

    colon = _COLON_OR_DASH.search(text, place, stop)
    if not phrase and not _is_about_words(text, sentence, place, quotations, colon):
        return None
    points = find_phrase(text[place:stop], "indication") is not None
    return _Instruction(bool(rework), quotations, colon, points)


def _is_about_words(
    text: str,
    sentence: Sentence,
    place: int,
    quotations: Sequence[re.Match[str]],
    colon: re.Match[str] | None,
) -> bool:
    """Whether a sentence asks about the words of some quotations, or of what is behind a colon.

    place: where the sentence begins behind what is polite.
    """
    if any(_is_quoted_text(quotation[0]) for quotation in quotations):
        outside = QUOTED.sub(" ", sentence.of(text))
        return find_phrase(outside, "language") is not None
    if colon is None or text[colon.start()] != ":":
        return False

    before_colon = text[place : colon.start()]
    if find_phrase(before_colon, "style") is not None:
        return True
    asks_itself = any(phrase_at(text, kind, place) for kind in ("question", "request", "reference"))
    return not asks_itself and find_phrase(before_colon, "indication") is not None


def _is_quoted_text(quotation: str) -> bool:
    """Whether a quotation is of several words, and no title."""
    several_words = quotation.count(" ") > 1 and not quotation.istitle()
    return several_words or SPACELESS.search(quotation) is not None


def _end_of_material(
    text: str, start: int, following: Iterable[Sentence], blocks: Sequence[Span]
) -> int:
    """Where the material ends that begins behind a place.

    It ends with its marks, or else before what is said to be another matter, or with the text.
    """
    visible = _VISIBLE.search(text, start)
    start = visible.start() if visible else start
    if end_of_block := dict(blocks).get(start):
        return end_of_block
    if quotation := QUOTED.match(text, start):
        return quotation.end()
    for sentence in following:
        behind_blank_line = text[max(0, sentence.start - 2) : sentence.start] == "\n\n"
        if sentence.start <= start or not behind_blank_line:
            continue
        if phrase_at(text, "onward", behind_mark(text, sentence)):
            return sentence.start
    return len(text)
