"""The parts of a text: blocks between marks, lines, sentences and quotations.

Of a long text, only the parts near its ends and next to blocks are told apart.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from drike.text.phrases import phrase_at

Span = tuple[int, int]  # of characters

PASSAGE = 200  # characters of a line that may be a passage of a document
LINE = 1_000  # characters; longer lines are read in part
_AROUND = 300  # characters at most before a place in its sentence, and behind it
_LONG_TEXT = 4_000  # characters; of longer texts only lines next to blocks are read one by one
_MOST_LINES = 8  # of a long text, on either side of a block
_WINDOW = 4_000  # characters in which the mark of a block is looked for
_MOST_BLOCKS = 8  # from the beginning of a text, and as many near its end
_MOST_QUESTIONS = 8  # of a long line
_ABBREVIATION = 8  # characters before a point that are looked at

_STOP = re.compile(r"[.!?…]\s|[。！？\n]")
_BREAK = re.compile(r"(?:[!?…]+|\.)[\"'”’»)\]*_]*\s+|[。！？]\s*|\s(?=¿)")
# Before a point that ends no sentence.
_ABBREVIATED = re.compile(
    r"""
    \b(?:
        [A-Z] | Dr | Mrs? | Ms | Prof | St | Jr | Sr | Inc | Ltd | Corp | Co | No | vs | etc
      | e\.g | i\.e | approx
      | Art | Fig | Vol | Gen | Gov | Sen | Rep | Capt | Col | Lt | Sgt | Hon | Rev | Mt | Ft
      | Hr | Fr | bzw | ca | z\.B | Nr | d\.h | usw
      | Sra? | M | Mme
    )$
    | ^\s*\d{1,2}$  # the number of an item
    """,
    re.VERBOSE,
)
QUOTED = re.compile(
    r"\"[^\"\n]+\"|“[^“”\n]+”|„[^„“”\n]+[“”]|«[^«»\n]+»|「[^「」\n]+」|『[^『』\n]+』"
    r"|(?<!\w)‘(?:[^‘’\n]|(?<=\w)’(?=\w))+’"
    r"|(?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)"
)
_OPENING_MARK = re.compile(
    r"(?P<code>```|~~~)|(?P<triple>\"\"\"|''')|^(?P<rule>[-=*_#]{3,})[ \t]*$"
    r"|<(?P<code_tag>code|pre|logs?|output|script)>"
    r"|<(?P<tag>documents?|docs?|context|text|article|passage|e?mail|source|sources|excerpt|data"
    r"|file|message|content|background|transcript|search_results?|results?|page|quote|blockquote)"
    r"(?:[ \t][^<>\n]{0,200})?>",
    re.IGNORECASE | re.MULTILINE,
)
# The number of an item or a heading, and quotation marks.
ITEM = re.compile(r"\s*(?P<mark>(?:\d{1,2}|[a-z])[.)]\s+|[-*•]\s+|#{1,6}\s+)?[\"'“„«¿¡(*_]*")
_TAG = re.compile(r"</?[A-Za-z_]+>")
_CLOSING_QUOTES = "\"'”’»」』"


class Sentence(NamedTuple):
    """Where a sentence stands, and its line."""

    start: int
    stop: int
    line: Span

    def of(self, text: str) -> str:
        """The sentence."""
        return text[self.start : self.stop]


def sentence_around(text: str, begin: int, end: int) -> Span:
    """Where the sentence around a part of a text begins and ends."""
    begin = int(begin)
    end = int(end)
    start = max(0, begin - _AROUND)
    for stop in _STOP.finditer(text, start, begin):
        start = stop.end()

    next_stop = _STOP.search(text, end, end + _AROUND)
    if next_stop:
        return start, next_stop.end()
    return start, min(len(text), end + _AROUND)


def ending(text: str) -> Span:
    """Where the last sentences of a text begin and end."""
    stop = len(text.rstrip())
    start = max(0, stop - _AROUND)
    first_stop = _STOP.search(text, start, stop - 1)
    return first_stop.end() if first_stop else start, stop


def blocks_of(text: str) -> tuple[list[Span], list[Span]]:
    """The blocks between marks, marks included: first all of them, then only those of code."""
    blocks: list[Span] = []
    code: list[Span] = []
    unclosed: set[str] = set()  # marks that are not searched for again
    for start in (0, max(0, len(text) - _WINDOW)):
        place = _first_place(text, start, blocks)
        for _ in range(_MOST_BLOCKS):
            opening = _OPENING_MARK.search(text, place, place + _WINDOW)
            if opening is None:
                break
            kind = opening.lastgroup or ""
            place = opening.end()
            closing = _closing_mark(kind, opening[kind])
            closing_place = text.find(closing, place) if closing not in unclosed else -1
            if closing_place >= 0:
                place = closing_place + len(closing)
            else:
                unclosed.add(closing)
                if kind != "code":
                    continue
                place = len(text)  # code may go on to the end
            block = (opening.start(), place)
            blocks.append(block)
            if kind in ("code", "code_tag"):
                code.append(block)
    return blocks, code


def _first_place(text: str, start: int, blocks: list[Span]) -> int:
    """Where to look for blocks: behind those that are known, or at code that began before."""
    read = blocks[-1][1] if blocks else 0
    if start <= read:
        return read
    inside_code = text.count("```", read, start) % 2 == 1
    return text.rfind("```", 0, start) if inside_code else start


def _closing_mark(kind: str, mark: str) -> str:
    if kind in ("tag", "code_tag"):
        return f"</{mark}>"
    return f"\n{mark}" if kind == "rule" else mark


def lines_of(text: str, blocks: Iterable[Span]) -> Iterator[Span]:
    """The lines outside blocks that are not blank.

    Of long texts these are the lines next to blocks; what lies between them is one span.
    """
    place = 0
    for start, stop in (*blocks, (len(text), len(text))):
        if len(text) <= _LONG_TEXT:
            lines = _lines_between(text, place, start)
        else:
            lines = _lines_at_ends(text, place, start)
        for line in lines:
            if text[line[0] : min(line[1], line[0] + PASSAGE)].strip():
                yield line
        place = stop


def _lines_between(text: str, start: int, stop: int) -> Iterator[Span]:
    """The lines of a part of a text, with their line breaks."""
    while start < stop:
        line_break = text.find("\n", start, stop)
        end = stop if line_break < 0 else line_break + 1
        yield start, end
        start = end


def _lines_at_ends(text: str, start: int, stop: int) -> Iterator[Span]:
    """The first and last lines of a part of a text, and between them all others as one span."""
    last_lines: list[Span] = []
    end = stop
    while len(last_lines) < _MOST_LINES:
        line_break = text.rfind("\n", start, max(start, end - 1))
        if line_break < 0:
            break
        last_lines.append((line_break + 1, end))
        end = line_break + 1

    for _ in range(_MOST_LINES):
        line_break = text.find("\n", start, end)
        if line_break < 0:
            break
        yield start, line_break + 1
        start = line_break + 1
    if start < end:
        yield start, end
    yield from reversed(last_lines)


def sentences_of(text: str, line: Span) -> Iterator[Sentence]:
    """The sentences of a line; of a very long one the first, the last and some questions."""
    start, stop = line
    if stop - start > LINE:
        return _sentences_of_long_line(text, line)
    return _sentences_of_short_line(text, line)


def _sentences_of_long_line(text: str, line: Span) -> Iterator[Sentence]:
    start, stop = line
    last_place = max(start, len(text[:stop].rstrip()) - 1)
    places = (start, *_question_marks(text, line), last_place)
    spans = {sentence_around(text, place, place) for place in places}
    read = start
    for begin, end in sorted(spans):
        sentence = Sentence(max(read, begin), min(stop, end), line)
        if sentence.start < sentence.stop:
            yield sentence
            read = sentence.stop


def _question_marks(text: str, line: Span) -> list[int]:
    """Where some of the first question marks of a line stand, and some of its last."""
    start, stop = line
    marks: list[int] = []
    place = start
    for _ in range(_MOST_QUESTIONS // 2):
        mark = text.find("?", place, stop)
        if mark < 0:
            return marks
        marks.append(mark)
        place = mark + 1

    end = stop
    while len(marks) < _MOST_QUESTIONS:
        end = text.rfind("?", place, end)
        if end < 0:
            break
        marks.append(end)
    return marks


def _sentences_of_short_line(text: str, line: Span) -> Iterator[Sentence]:
    start, stop = line
    plain = _without_inner_stops(text[start:stop])
    begin = 0
    for found in _BREAK.finditer(plain):
        if _goes_on(plain, found.start(), found.end()):
            continue
        if plain[begin : found.end()].strip():
            yield Sentence(start + begin, start + found.end(), line)
        begin = found.end()
    if plain[begin:].strip():
        yield Sentence(start + begin, stop, line)


def _without_inner_stops(line: str) -> str:
    """A line, as long as before, with x for longer quotations and spaces for tags.

    The last two characters of a quotation stay, as it may end the sentence.
    """
    masked = QUOTED.sub(_masked_quotation, line)
    return _TAG.sub(lambda tag: " " * len(tag[0]), masked)


def _masked_quotation(match: re.Match[str]) -> str:
    quotation = match[0]
    if quotation.count(" ") <= 1:
        return quotation
    return "x" * (len(quotation) - 2) + quotation[-2:]


def _goes_on(plain: str, begin: int, end: int) -> bool:
    """Whether a sentence goes on behind what may end it: an abbreviation, or lower case follows."""
    is_point = plain[begin] == "."
    behind_quotation = plain[begin:end].rstrip()[-1:] in _CLOSING_QUOTES
    following = plain[end : end + 1]
    if (is_point or behind_quotation) and (following.islower() or following in "-–—"):
        return True
    before = max(0, begin - _ABBREVIATION)
    return is_point and _ABBREVIATED.search(plain, before, begin) is not None


def behind_mark(text: str, sentence: Sentence) -> int:
    """Where a sentence begins behind the number of an item and quotation marks."""
    mark = ITEM.match(text, sentence.start, sentence.stop)
    return mark.end() if mark else sentence.start


def behind_courtesies(text: str, sentence: Sentence) -> int:
    """Where a sentence begins behind these and what is polite: "Hello! Could you please"."""
    place = behind_mark(text, sentence)
    while polite := phrase_at(text, "polite", place):
        place += len(polite)
        while place < sentence.stop and _is_separator(text[place]):
            place += 1
        if place >= sentence.stop:
            break
    return place


def _is_separator(character: str) -> bool:
    return not character.isalnum() and character not in "\"'“„«‘¿:"


def quotations(text: str, part: Span) -> tuple[list[Span], str]:
    """Where the quotations in a part of a text stand, and what it says outside of them."""
    start, stop = part
    read = text[start : min(stop, start + LINE)]
    spans = [(start + match.start(), start + match.end()) for match in QUOTED.finditer(read)]
    return spans, QUOTED.sub(" ", read)


def overlaps(span: Span, others: Iterable[Span]) -> bool:
    """Whether a span shares characters with one of some others."""
    return any(start < span[1] and span[0] < stop for start, stop in others)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Spans that are given in their order, with those that adjoin or overlap as one."""
    found: list[Span] = []
    for start, stop in spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found
