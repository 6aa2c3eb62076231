"""The parts of a text: blocks between marks, lines, sentences and quotations; of a long text those near its ends."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from drike.text.short_forms import sections

Span = tuple[int, int]  # of characters

PASSAGE = 200  # characters of a line that may be a passage of a document
_SENTENCE = 300  # characters at most before a place in its sentence, and behind it
_LONG, _LINES, LINE = (
    4_000,
    8,
    1_000,
)  # of longer texts so many lines at either side of marks; longer lines in part
_WINDOW, _BLOCKS, _QUESTIONS = (
    4_000,
    8,
    8,
)  # characters in which a mark is looked for; how many; of questions in a line

_STOP = re.compile(r"[.!?…]\s|[。！？\n]")
_BREAK = re.compile(r"(?:[!?…]+|\.)[\"'”’»)\]*_]*\s+|[。！？]\s*|\s(?=¿)")
_ABBREVIATED = re.compile(
    rf"(?:\b(?:{'|'.join(sections('text/asking.txt')['abbreviations'])})|^\s*\d{{1,2}})$"
)
QUOTED = re.compile(
    r"\"[^\"\n]+\"|“[^“”\n]+”|„[^„“”\n]+[“”]|«[^«»\n]+»|「[^「」\n]+」|『[^『』\n]+』|(?<!\w)‘(?:[^‘’\n]|(?<=\w)’(?=\w))+’"
    r"|(?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)"
)
_OPENING = re.compile(
    r"(?P<code>```|~~~)|(?P<triple>\"\"\"|''')|^(?P<rule>[-=*_#]{3,})[ \t]*$"
    r"|<(?P<worked>code|pre|logs?|output|script)>"
    r"|<(?P<tag>documents?|docs?|context|text|article|passage|e?mail|source|sources|excerpt|data|file|message|content"
    r"|background|transcript|search_results?|results?|page|quote|blockquote)(?:[ \t][^<>\n]{0,200})?>",
    re.IGNORECASE | re.MULTILINE,
)
_TAG = re.compile(r"</?[A-Za-z_]+>")
_CLOSING = "\"'”’»」』"


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
    start = max(0, int(begin) - _SENTENCE)
    stops = [match.end() for match in _STOP.finditer(text, start, int(begin))]
    following = _STOP.search(text, int(end), int(end) + _SENTENCE)
    return max(stops, default=start), following.end() if following else min(
        len(text), int(end) + _SENTENCE
    )


def ending(text: str) -> Span:
    """Where the last sentences of a text begin and end."""
    stop = len(text.rstrip())
    first = _STOP.search(text, max(0, stop - _SENTENCE), stop - 1)
    return first.end() if first else max(0, stop - _SENTENCE), stop


def blocks_of(text: str) -> tuple[list[Span], list[Span]]:
    """What stands between marks, with these: all such blocks, and those of code."""
    blocks, code, unclosed = list[Span](), list[Span](), set[str]()
    for start in (0, max(0, len(text) - _WINDOW)):
        at = max(start, blocks[-1][1] if blocks else 0)
        if start and text.count("```", blocks[-1][1] if blocks else 0, start) % 2 and at == start:
            at = text.rfind("```", 0, start)
        for _ in range(_BLOCKS):
            if (opening := _OPENING.search(text, at, at + _WINDOW)) is None:
                break
            kind, at = opening.lastgroup or "", opening.end()
            mark = opening[kind]
            closing = (
                f"</{mark}>"
                if kind in ("tag", "worked")
                else f"\n{mark}"
                if kind == "rule"
                else mark
            )
            found = text.find(closing, at) if closing not in unclosed else -1
            if found < 0:
                unclosed.add(closing)
            if found < 0 and kind != "code":
                continue
            at = found + len(closing) if found >= 0 else len(text)
            blocks.append((opening.start(), at))
            if kind in ("code", "worked"):
                code.append(blocks[-1])
    return blocks, code


def lines_of(text: str, blocks: Iterable[Span]) -> Iterator[Span]:
    """The lines outside blocks that are not empty; of long texts those next to blocks, and between them one span."""
    at = 0
    for start, stop in (*blocks, (len(text), len(text))):
        most = len(text) if len(text) <= _LONG else _LINES
        last, end, count = list[Span](), start, 0
        while (
            len(last) < (0 if most == len(text) else most)
            and (found := text.rfind("\n", at, max(at, end - 1))) >= 0
        ):
            last.append((found + 1, end))
            end = found + 1
        while at < end and count < most and (found := text.find("\n", at, end)) >= 0:
            if text[at : at + PASSAGE].strip():
                yield at, found + 1
            at, count = found + 1, count + 1
        if at < end and text[at : min(end, at + PASSAGE)].strip():
            yield at, end
        yield from (line for line in reversed(last) if text[line[0] : line[0] + PASSAGE].strip())
        at = stop


def sentences_of(text: str, line: Span) -> Iterator[Sentence]:
    """The sentences of a line; of a very long one the first, the last and some questions."""
    start, stop = line
    if stop - start > LINE:
        marks, at, end = list[int](), start, stop
        while len(marks) < _QUESTIONS // 2 and (at := text.find("?", at, stop) + 1):
            marks.append(at - 1)
        while len(marks) < _QUESTIONS and (end := text.rfind("?", at or stop, end)) >= 0:
            marks.append(end)
        spans = {
            sentence_around(text, at, at)
            for at in (start, *marks, max(start, len(text[:stop].rstrip()) - 1))
        }
        for begin, end in sorted(spans):
            if max(start, begin) < min(stop, end):
                yield Sentence(max(start, begin), min(stop, end), line)
                start = min(stop, end)
        return
    # Quotations of some words without their stops, but for the last one.
    plain = QUOTED.sub(
        lambda q: "x" * (len(q[0]) - 2) + q[0][-2:] if q[0].count(" ") > 1 else q[0],
        text[start:stop],
    )
    plain, at = _TAG.sub(lambda tag: " " * len(tag[0]), plain), 0
    for found in _BREAK.finditer(plain):
        begin, end = found.span()
        dot, following = plain[begin] == ".", plain[end : end + 1]
        goes_on = (dot or plain[begin:end].rstrip()[-1:] in _CLOSING) and (
            following.islower() or following in "-–—"
        )
        if goes_on or (dot and _ABBREVIATED.search(plain, max(0, begin - 8), begin)):
            continue
        if plain[at : found.end()].strip():
            yield Sentence(start + at, start + found.end(), line)
        at = found.end()
    if plain[at:].strip():
        yield Sentence(start + at, stop, line)
