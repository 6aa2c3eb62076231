"""What in a text is asked, and what is only material: text to translate or to correct, code, logs, documents.

Rules, not a model (their words are in `phrases.txt`). Where they find neither a question nor material, the whole text
is asked. A text is read in time linear in its length; of a long one only lines, sentences and marks near the beginning
and the end, and some questions between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from drike.gates.phrases import begins, held, own_name, patterns

Span = tuple[int, int]  # of characters

MOST_PARTS = 8
_MARKS = 7  # characters about a name in quotation marks: these, a stop, an article
_SENTENCE = 300  # characters at most before a place in its sentence, and behind it
_PASSAGE = 200  # characters of a line that may be a passage of a document
_LONG, _LINES, _LINE = 4_000, 8, 1_000  # of longer texts so many lines at either side of marks; longer lines in part
_WINDOW, _BLOCKS = 4_000, 8  # characters in which a mark is looked for, and how many of them

_STOP = re.compile(r"[.!?…]\s|[。！？\n]")
_BREAK = re.compile(r"(?:[!?…]+|\.)[\"'”’»)\]*_]*\s+|[。！？]\s*|\s(?=¿)")
_ABBREVIATED = re.compile(
    r"(?:\b(?:[A-Z]|Dr|Mrs?|Ms|Prof|St|Jr|Sr|Inc|Ltd|Corp|Co|No|vs|etc|e\.g|i\.e|approx|Hr|Fr|bzw|ca|z\.B|Nr|Sra?|M|Mme"
    r"|d\.h|usw|Art|Fig|Vol|Gen|Gov|Sen|Rep|Capt|Col|Lt|Sgt|Hon|Rev|Mt|Ft)|^\s*\d{1,2})$"
)
_ASKS = re.compile(r"[?？][\s\"'”’»)\]*_]*$")
_ENDED = re.compile(r"[.!?…。！？:][\s\"'”’»)\]*_]*$")
_ITEM = re.compile(r"\s*(?P<mark>(?:\d{1,2}|[a-z])[.)]\s+|[-*•]\s+|#{1,6}\s+)?[\"'“„«¿¡(*_]*")
_QUOTED = re.compile(
    r"\"[^\"\n]+\"|“[^“”\n]+”|„[^„“”\n]+[“”]|«[^«»\n]+»|(?<!\w)‘(?:[^‘’\n]|(?<=\w)’(?=\w))+’"
    r"|(?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))+'(?!\w)"
)
_OPENING = re.compile(
    r"(?P<code>```|~~~)|(?P<triple>\"\"\"|''')|^(?P<rule>[-=*_#]{3,})[ \t]*$"
    r"|<(?P<worked>code|pre|logs?|output|script)>"
    r"|<(?P<tag>documents?|docs?|context|text|article|passage|e?mail|source|sources|excerpt|data|file|message|content"
    r"|background|transcript|search_results?|results?|page|quote|blockquote)(?:[ \t][^<>\n]{0,200})?>",
    re.IGNORECASE | re.MULTILINE,
)
_INTRODUCED = re.compile(r":(?=\s|[\"'“„«‘])|\s[-–—]\s")
_SOLID = re.compile(r"\S")
_CLOSING = "\"'”’»"
_WORD = re.compile(r"[^\W_]+(?:['’]\w+)*")
_TAG = re.compile(r"</?[A-Za-z_]+>")
_CODE = re.compile(  # a line of code, of a log or of a trace
    r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d\b|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d "
    r"|\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b[\]:\s]|Traceback \(|File \"[^\"]+\", line|at [\w.$<>]+\("
    r"|[A-Z]\w+(?:Error|Exception):|(?:async )?def \w+\(|class \w+[(:{]|import \w+(?:\.\w+|;|$| as )"
    r"|from [\w.]+ import |return\b.*[;()\"']|#include|(?:SELECT|INSERT|UPDATE|DELETE)\b.*\b(?:FROM|INTO|SET)\b"
    r"|(?:const|let|var|val|final|public|private|static|int|string) [\w<>\[\]]+.*[=({;]|(?:\$|>>>|C:\\>) ?\w"
    r"|(?:for|if|while|elif|switch)\b.*[:{]$|(?:print|console\.log|assert) ?\(|\w[\w.]*\(.*\);?$|[})\];]+$"
    r"|(?:error|warning|fatal|panic): "
    r"|[\w.\[\]\"']+ ?[-+*]?= ?\S.*[\]\"'();{}\d]$|<[a-z]+[ /].*>$|(?:curl|docker|pip|git) -?\w|[A-Z][A-Z0-9_]+=\S)"
)
_JSON = re.compile(r"\s*(?:[{\[]|\"[\w ]+\" ?:|[}\]],?\s*$)")


class Asked(NamedTuple):
    """Where a text asks something, and where it has material, by characters.

    parts: questions, requests and statements to complete, at most `MOST_PARTS`; none where all is to be worked on.
    material: text to translate, to correct and so on, code and logs. The rest, such as a document, may say what a
    question is about.
    """

    parts: tuple[Span, ...]
    material: tuple[Span, ...] = ()


class _Sentence(NamedTuple):
    start: int
    stop: int
    line: Span

    def of(self, text: str) -> str:
        return text[self.start : self.stop]


def read(text: str) -> Asked:
    """What is asked in a text, and what is material."""
    blocks, code = _blocks(text)
    sentences = [sentence for line in _lines(text, blocks) for sentence in _sentences(text, line)]
    kinds = {line: _kind(text[line[0] : min(line[1], line[0] + _PASSAGE)]) for line in {s.line: 0 for s in sentences}}
    code += _code_lines(text, kinds)
    worked = _worked_on(text, [s for s in sentences if not kinds[s.line]], blocks)
    sentences = [s for s in sentences if not kinds[s.line] and not _within(s, worked)]
    sentences, labelled = _labelled(text, sentences)
    apart = labelled or bool(blocks or worked or any(kinds.values()))
    parts = [part for s in _asking(text, sentences, apart) for part in _split(text, s)]
    if not parts and apart and sentences and not worked:
        parts = _joined((s.start, s.stop) for s in sentences)
    elif not parts and not code and not worked:
        parts = [(0, len(text))]
    if len(parts) > MOST_PARTS:
        parts = parts[: MOST_PARTS // 2] + parts[-MOST_PARTS // 2 :]
    if len(parts) == 1 and not text[: parts[0][0]].strip() and not text[parts[0][1] :].strip():
        parts = [(0, len(text))]
    quotes = [quote for part in parts for quote in _sayings(text, part)]
    return Asked(tuple(parts), tuple(_joined(sorted({*code, *worked, *quotes}))))


def inside(name: Span, spans: Iterable[Span]) -> bool:
    """Whether a name is in one of some spans, and not all of it, as a title in quotation marks is."""
    return any(start <= name[0] < stop and name[1] - name[0] + _MARKS < stop - start for start, stop in spans)


def leans_back(part: str) -> bool:
    """Whether a part of a text may be about a subject that it does not name: "and its capital?"."""
    name = own_name(part[:_LINE])
    if name is None or part.isupper():
        return True
    pronoun = held(part[:_LINE].casefold(), "pronoun")
    return pronoun is not None and pronoun < name


def sentence_around(text: str, begin: int, end: int) -> Span:
    """Where the sentence around a part of a text begins and ends."""
    start = max(0, int(begin) - _SENTENCE)
    stops = [match.end() for match in _STOP.finditer(text, start, int(begin))]
    following = _STOP.search(text, int(end), int(end) + _SENTENCE)
    return max(stops, default=start), following.end() if following else min(len(text), int(end) + _SENTENCE)


def ending(text: str) -> Span:
    """Where the last sentences of a text begin and end."""
    stop = len(text.rstrip())
    first = _STOP.search(text, max(0, stop - _SENTENCE), stop - 1)
    return first.end() if first else max(0, stop - _SENTENCE), stop


def _blocks(text: str) -> tuple[list[Span], list[Span]]:
    """What stands between marks, with these: all such blocks, and those of code."""
    blocks, code, unclosed = list[Span](), list[Span](), set[str]()
    for start in (0, max(0, len(text) - _WINDOW)):
        at = max(start, blocks[-1][1] if blocks else 0)
        if start and text.count("```", blocks[-1][1] if blocks else 0, start) % 2 and at == start:
            at = text.rfind("```", 0, start)
        for _ in range(_BLOCKS):
            opening = _OPENING.search(text, at, at + _WINDOW)
            if opening is None:
                break
            kind, at = opening.lastgroup or "", opening.end()
            mark = opening[kind]
            closing = f"</{mark}>" if kind in ("tag", "worked") else f"\n{mark}" if kind == "rule" else mark
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


def _lines(text: str, blocks: Iterable[Span]) -> Iterator[Span]:
    """The lines outside blocks that are not empty; of long texts those next to blocks, and between them one span."""
    at = 0
    for start, stop in (*blocks, (len(text), len(text))):
        most = len(text) if len(text) <= _LONG else _LINES
        last = list[Span]()
        end = start
        while len(last) < (0 if most == len(text) else most) and (found := text.rfind("\n", at, max(at, end - 1))) >= 0:
            last.append((found + 1, end))
            end = found + 1
        count = 0
        while at < end and count < most and (found := text.find("\n", at, end)) >= 0:
            if text[at : at + _PASSAGE].strip():
                yield at, found + 1
            at, count = found + 1, count + 1
        if at < end and text[at : min(end, at + _PASSAGE)].strip():
            yield at, end
        yield from (line for line in reversed(last) if text[line[0] : line[0] + _PASSAGE].strip())
        at = stop


def _sentences(text: str, line: Span) -> Iterator[_Sentence]:
    """The sentences of a line; of a very long one the first, the last and some questions."""
    start, stop = line
    if stop - start > _LINE:
        marks, at, end = list[int](), start, stop
        while len(marks) < MOST_PARTS // 2 and (at := text.find("?", at, stop) + 1):
            marks.append(at - 1)
        while len(marks) < MOST_PARTS and (end := text.rfind("?", at or stop, end)) >= 0:
            marks.append(end)
        spans = {sentence_around(text, at, at) for at in (start, *marks, max(start, len(text[:stop].rstrip()) - 1))}
        yield from (_Sentence(max(start, a), min(stop, b), line) for a, b in sorted(spans) if a < stop and b > start)
        return
    plain = _QUOTED.sub(_blanked, text[start:stop])
    plain, at = _TAG.sub(lambda tag: " " * len(tag[0]), plain), 0
    for found in _BREAK.finditer(plain):
        begin, end = found.span()
        dot, following = plain[begin] == ".", plain[end : end + 1]
        goes_on = (dot or plain[begin:end].rstrip()[-1:] in _CLOSING) and (following.islower() or following in "-–—")
        if goes_on or (dot and _ABBREVIATED.search(plain, max(0, begin - 8), begin)):
            continue
        if plain[at : found.end()].strip():
            yield _Sentence(start + at, start + found.end(), line)
        at = found.end()
    if plain[at:].strip():
        yield _Sentence(start + at, stop, line)


def _blanked(quote: re.Match[str]) -> str:
    """A quotation of some words without its stops, but for the last one."""
    return "x" * (len(quote[0]) - 2) + quote[0][-2:] if quote[0].count(" ") > 1 else quote[0]


def _kind(line: str) -> str:
    """What a line is: "code" of code or a log, "quoted" of a mail or of JSON, else ""."""
    line = line.rstrip()
    if line.startswith(">") and not line.startswith(">>>"):
        return "quoted"
    if _CODE.match(line) and not _ASKS.search(line):
        return "code"
    return "quoted" if _JSON.match(line) and not _ASKS.search(line) else ""


def _code_lines(text: str, kinds: dict[Span, str]) -> list[Span]:
    """The lines of code. Indented ones behind them belong to them, which is written into the kinds of lines."""
    spans = list[Span]()
    for line, kind in kinds.items():
        if kind == "code":
            spans.append(line)
        elif spans and spans[-1][1] == line[0] and text[line[0] : line[0] + 1] in (" ", "\t"):
            kinds[line] = "code"
            spans.append(line)
    return spans


def _plain_start(text: str, sentence: _Sentence) -> int:
    """Where a sentence begins, but for a number and quotation marks."""
    match = _ITEM.match(text, sentence.start, sentence.stop)
    return match.end() if match else sentence.start


def _opening(text: str, sentence: _Sentence) -> int:
    """Where a sentence begins, but for that and what is polite."""
    at = _plain_start(text, sentence)
    while polite := begins(text, "polite", at):
        at += len(polite)
        while at < sentence.stop and not text[at].isalnum() and text[at] not in "\"'“„«‘¿:":
            at += 1
        if at >= sentence.stop:
            break
    return at


def _worked_on(text: str, sentences: list[_Sentence], blocks: list[Span]) -> list[Span]:
    """What a text wants to be translated, corrected and so on, each with the instruction."""
    worked, done = list[Span](), 0
    for i, sentence in enumerate(sentences):
        if sentence.start < done:
            continue
        at, quotes = _opening(text, sentence), list(_QUOTED.finditer(text, sentence.start, sentence.stop))
        if quotes and not text[sentence.start : quotes[0].start()].strip():  # "..." - translate
            at = next((word.start() for word in _WORD.finditer(text, quotes[0].end(), sentence.stop)), at)
        rework, colon = begins(text, "rework", at), _INTRODUCED.search(text, at, sentence.stop)
        pointing = held(text[at : sentence.stop], "indication") is not None
        if not rework and not begins(text, "digest", at) and not _on_language(text, sentence, at, quotes, colon):
            continue
        behind = _SOLID.search(text, sentence.stop)
        if quotes:
            worked.append((sentence.start, sentence.stop))
        elif colon or (behind and (pointing or (rework and sentence.stop >= sentence.line[1]))):
            done = _end(text, colon.end() if colon else sentence.stop, sentences[i + 1 :], blocks)
            worked.append((sentence.start, done))
        elif (pointing or (rework and sentence.start == sentence.line[0])) and _SOLID.search(text, 0, sentence.start):
            worked.append((0, sentence.stop))
    return worked


def _on_language(
    text: str, sentence: _Sentence, at: int, quotes: list[re.Match[str]], colon: re.Match[str] | None
) -> bool:
    """Whether a sentence asks about the words of some quotations, or of what is behind a colon."""
    if begins(text, "finish", at):
        return False
    if any(quote[0].count(" ") > 1 for quote in quotes):
        return held(_QUOTED.sub(" ", sentence.of(text)), "language") is not None
    if colon is None or text[colon.start()] != ":":
        return False
    said = text[at : colon.start()]
    told = any(begins(text, kind, at) for kind in ("question", "request", "reference"))
    return held(said, "style") is not None or not (told or held(said, "indication") is None)


def _end(text: str, start: int, following: list[_Sentence], blocks: list[Span]) -> int:
    """Where the material ends that begins at a place: with its marks, else before what is said to be another matter."""
    solid = _SOLID.search(text, start)
    start = solid.start() if solid else start
    for begin, stop in blocks:
        if begin == start:
            return stop
    if quote := _QUOTED.match(text, start):
        return quote.end()
    for sentence in following:
        new = text[max(0, sentence.start - 2) : sentence.start] == "\n\n" and sentence.start > start
        if new and begins(text, "onward", _plain_start(text, sentence)):
            return sentence.start
    return len(text)


def _within(sentence: _Sentence, spans: Iterable[Span]) -> bool:
    return any(start <= sentence.start and sentence.stop <= stop for start, stop in spans)


_COLON = re.compile(r"[ \t]*(?:#?\d{1,3}|[A-Z])?[ \t]*(?:\([^()\n]{0,60}\))?[ \t]*:[*_]*\s*")
_LABELS = ("query", "document", "answer")


def _labelled(text: str, sentences: list[_Sentence]) -> tuple[list[_Sentence], bool]:
    """What is said outside documents, and answered questions, that have labels; and whether there are any."""
    left, mode, begun, labels = list[_Sentence](), "", 0, False
    inner = list[_Sentence]()  # of a document that may end in a question
    for sentence in sentences:
        at = _plain_start(text, sentence)
        phrases = ((label, begins(text, label, at)) for label in _LABELS)
        found = ((label, _COLON.match(text, at + len(phrase))) for label, phrase in phrases if phrase)
        label, colon = next(((label, colon) for label, colon in found if colon), ("", None))
        if colon is not None:
            said = bool(text[colon.end() : sentence.stop].strip())
            labels = labels or label != "answer" or said
            if label == "answer" and said:
                left = left[:begun]
            mode = "" if label == "answer" and not said else label
            inner = []
            if label == "query":
                begun = len(left)
                left += [sentence._replace(start=min(colon.end(), sentence.stop))] * said
            continue
        (inner if mode in ("document", "answer") else left).append(sentence)
    if inner and not _asking(text, left):
        last = inner[-1].line
        left += (
            [s for s in inner if s.line == last][-1:] if inner[0].line == last else [s for s in inner if s.line == last]
        )
    return left, labels


def _asking(text: str, sentences: list[_Sentence], apart: bool = False) -> list[_Sentence]:
    """The questions, and what is to be told or completed beside these or a passage; none in a passage beside others.

    apart: whether there is more in the text than these sentences.
    """
    asks, questions, lone = list[_Sentence](), 0, None
    short = {s.line: s.line[1] - s.line[0] <= _PASSAGE for s in sentences}
    for i, sentence in enumerate(sentences):
        said, at = sentence.of(text), _opening(text, sentence)
        ended, outer = _ENDED.search(said), sentence.line in (sentences[0].line, sentences[-1].line)
        before = sentences[i - 1] if i and sentences[i - 1].stop == sentence.start else None
        if _ASKS.search(said) or (not ended and outer and begins(text, "question", at)):
            if before and asks[-1:] != [before] and _incomplete(text, before, at, said):
                sentence = sentence._replace(start=before.start)  # noqa: PLW2901
            asks.append(sentence)
            questions += 1
        elif short[sentence.line] and begins(text, "request", at):
            asks.append(sentence)
        elif i == len(sentences) - 1 and not ended and said.count(" ") > 1 and not begins(text, "thanks", at):
            lone = sentence
    if not questions and not apart and all(short.values()):
        return []
    near = [s for s in asks if short[s.line]]
    if lone and (asks or (not all(short.values()) and lone.start == lone.line[0])):
        near = [*near, lone] if near or lone.start == lone.line[0] else near
        asks.append(lone)
    return near or asks


def _incomplete(text: str, before: _Sentence, at: int, said: str) -> bool:
    """Whether a question asks nothing without what is before it: "Do you know it?", or the end of "Who is Dr. Lee?"."""
    if begins(text, "question", _opening(text, before)) and not text[before.start : before.stop].rstrip().endswith("?"):
        return not (begins(text, "question", at) or begins(text, "joint", at))
    return all(begins(word, "void") == word for word in _WORD.findall(said[:_LINE]))


@cache
def _next() -> re.Pattern[str]:
    question, joint = (patterns(kind)[0].pattern for kind in ("question", "joint"))
    return re.compile(
        rf"[,;]?\s+{joint}\s+(?={question})|[,;]\s+(?=(?:what|how|when|was|wie|wann|cómo|combien)\b)", re.I
    )


def _sayings(text: str, part: Span) -> list[Span]:
    """Quotations of several words within a part that says more than they do."""
    said = text[part[0] : min(part[1], part[0] + _LINE)]
    quotes = [(part[0] + q.start(), part[0] + q.end()) for q in _QUOTED.finditer(said) if q[0].count(" ") > 1]
    return quotes if quotes and _WORD.search(_QUOTED.sub(" ", said)) else []


def _split(text: str, sentence: _Sentence) -> list[Span]:
    """The questions in a sentence."""
    number = _ITEM.match(text, sentence.start, sentence.stop)
    spans, at = list[Span](), number.end("mark") if number and number["mark"] else sentence.start
    for joint in _next().finditer(text, sentence.start, min(sentence.stop, sentence.start + _LINE)):
        begin = _opening(text, sentence) if at == sentence.start else at
        said = text[begin : joint.start()]
        if len(said[len(begins(said, "question") or "") :].split()) > 1:
            spans.append((at, joint.start()))
            at = joint.end()
    return [*spans, (at, sentence.stop)]


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans in their order, those that adjoin or overlap as one."""
    joined = list[Span]()
    for start, stop in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined
