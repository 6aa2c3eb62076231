"""What in a text is asked, and what is only material: text to translate or to correct, code, logs, documents.

Rules, not a model (their words are in `phrases.txt` and `asking.txt`). Where they find neither a question nor material,
the whole text is asked. A text is read in time linear in its length; of a long one only lines, sentences and marks near
the beginning and the end, and some questions between them.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from drike.text.glossary import SPACELESS, begins, held, own_name, patterns
from drike.text.sentences import (
    LINE,
    PASSAGE,
    QUOTED,
    Sentence,
    Span,
    blocks_of,
    lines_of,
    sentences_of,
)
from drike.text.short_forms import lists, sections

MOST_PARTS = 8
_MARKS = 7  # characters about a name in quotation marks: these, a stop, an article

_ASKS = re.compile(r"[?？][\s\"'”’»)\]*_]*$")
_ENDED = re.compile(r"[.!?…。！？:][\s\"'”’»)\]*_]*$")
_TO_COMPLETE = re.compile(r"\b(?:is|are|was|were|in|by|of|at|from|to|the|ist|es|est)\s*$")
_ITEM = re.compile(r"\s*(?P<mark>(?:\d{1,2}|[a-z])[.)]\s+|[-*•]\s+|#{1,6}\s+)?[\"'“„«¿¡(*_]*")
_INTRODUCED = re.compile(r"：|:(?=\s|[\"'“„«‘「『])|\s[-–—]\s")
_SOLID = re.compile(r"\S")
_WORD = re.compile(r"[^\W_]+(?:['’]\w+)*")
# A line of code, of a log or of a trace.
_CODE = re.compile(rf"\s*(?:{'|'.join(sections('text/asking.txt')['code'])})")
_COLON = re.compile(r"[ \t]*(?:#?\d{1,3}|[A-Z])?[ \t]*(?:\([^()\n]{0,60}\))?[ \t]*:[*_]*\s*")
# "how much RAM ..."
_SUBJECT = re.compile(
    r"\s+(?:\w+\s+)?(?:does|do|did|has|have|is|was|are|were) (?:it|he|she|they)\b"
)
_LISTED = re.compile(
    r"\s*(?:\d{1,2}[.)]|[-*•])\s+\S[^:?.!]{3,99}$"
)  # a short item: "1. Capital of Peru"
_GAP = re.compile(  # what is to be filled in: anywhere, at the end of a row of a table, and in code
    r"_{3}|\?{3}|\[(?:missing|blank|todo|tbd|\?)\]|\bTODO\b|,[^,\n]{1,60},[ \t]{0,8}$"
    r"|(?P<code>\.{3}|(?:=[ \t]{0,8}|[=:][ \t]{0,8}(?:\"\"|''|null|None))[;,]?[ \t]{0,8}$)",
    re.IGNORECASE | re.MULTILINE,
)
_ELLIPTIC = 4  # spaces, in a question such as "And Kenya's?"
_MOST_GAPS, _BEFORE_GAP = 3, 3  # lines with one; lines before it that may say of what it is
_JSON = re.compile(r"\s*(?:[{\[]|\"[\w ]+\" ?:|[}\]],?\s*$)")


class Asked(NamedTuple):
    """Where a text asks something, and where it has material, by characters.

    parts: questions, requests and statements to complete, at most `MOST_PARTS`; none where all is to be worked on.
    material: text to translate, to correct and so on, code and logs. The rest, such as documents, may give the context.
    """

    parts: tuple[Span, ...]
    material: tuple[Span, ...] = ()


@lru_cache(maxsize=4)  # a query is read for the subjects that it names, and again for the objects
def read(text: str) -> Asked:
    """What is asked in a text, and what is material."""
    blocks, code = blocks_of(text)
    sentences = [
        sentence for line in lines_of(text, blocks) for sentence in sentences_of(text, line)
    ]
    kinds, done = dict[Span, str](), -1
    for line in dict.fromkeys(s.line for s in sentences):
        goes_on = (
            line[0] == done and text[line[0]] in " \t"
        )  # indented lines belong to the code before them
        kinds[line] = "code" if goes_on else _kind(text[line[0] : min(line[1], line[0] + PASSAGE)])
        done = line[1] if kinds[line] == "code" else done
    code += [line for line, kind in kinds.items() if kind == "code"]
    sentences = [s for s in sentences if not kinds[s.line]]
    worked = _worked_on(text, sentences, blocks)
    sentences = [
        s
        for s in sentences
        if not any(start <= s.start and s.stop <= stop for start, stop in worked)
    ]
    sentences, labelled = _labelled(text, sentences)
    apart = labelled or bool(blocks or worked or any(kinds.values()))
    parts = [part for s in _asking(text, sentences, apart) for part in _split(text, s)]
    if not parts and apart and sentences and not worked:
        parts = _joined((s.start, s.stop) for s in sentences)
    elif not parts and not code and not worked:
        lines = list(dict.fromkeys(s.line for s in sentences))
        listed = len(lines) > 1 and all(
            _LISTED.match(text[slice(*line)].rstrip()) for line in lines
        )
        parts = lines if listed else [(0, len(text))]
    parts = [own for part in parts for own in _passed_on(text, part) or [part]]
    if gaps := _gaps(text, [*code, *(line for line, kind in kinds.items() if kind)], parts):
        parts = sorted([*gaps, *(part for part in parts if not _overlaps(part, gaps))])
        code = [span for span in code if not _overlaps(span, gaps)]
    if len(parts) > MOST_PARTS:
        parts = parts[: MOST_PARTS // 2] + parts[-MOST_PARTS // 2 :]
    if len(parts) == 1 and not text[: parts[0][0]].strip() and not text[parts[0][1] :].strip():
        parts = [(0, len(text))]
    for quotes, outside in (_quotations(text, part) for part in parts):
        if _WORD.search(outside):  # quotations of several words are material where more is said
            worked += [quote for quote in quotes if text[slice(*quote)].count(" ") > 1]
    return Asked(tuple(parts), tuple(_joined(sorted({*code, *worked}))))


def inside(name: Span, spans: Iterable[Span]) -> bool:
    """Whether a name is in one of some spans, and not all of it, as a title in quotation marks is."""
    return any(
        start <= name[0] < stop and name[1] - name[0] + _MARKS < stop - start
        for start, stop in spans
    )


def leans_back(part: str) -> bool:
    """Whether a part of a text may be about a subject that it does not name: "and its capital?"."""
    if (name := own_name(part[:LINE])) is None or part.isupper():
        return True
    if (pronoun := held(part[:LINE].casefold(), "pronoun")) is None or (
        word := _WORD.match(part, name)
    ) is None:
        return False
    return pronoun < name or (word[0].isupper() and _SUBJECT.match(part, word.end()) is not None)


def _kind(line: str) -> str:
    """What a line is: "code" of code or a log, "quoted" of a mail or of JSON, else ""."""
    line = line.rstrip()
    if line.startswith(">") and not line.startswith(">>>"):
        return "quoted"
    if _CODE.match(line) and not _ASKS.search(line):
        return "code"
    return "quoted" if _JSON.match(line) and not _ASKS.search(line) else ""


def _plain_start(text: str, sentence: Sentence) -> int:
    """Where a sentence begins, but for a number and quotation marks."""
    return (
        match.end()
        if (match := _ITEM.match(text, sentence.start, sentence.stop))
        else sentence.start
    )


def _opening(text: str, sentence: Sentence) -> int:
    """Where a sentence begins, but for that and what is polite."""
    at = _plain_start(text, sentence)
    while polite := begins(text, "polite", at):
        at += len(polite)
        while at < sentence.stop and not text[at].isalnum() and text[at] not in "\"'“„«‘¿:":
            at += 1
        if at >= sentence.stop:
            break
    return at


def _worked_on(text: str, sentences: list[Sentence], blocks: list[Span]) -> list[Span]:
    """What a text wants to be translated, corrected and so on, each with the instruction."""
    worked, done = list[Span](), 0
    for i, sentence in enumerate(sentences):
        if sentence.start < done:
            continue
        at, quotes = (
            _opening(text, sentence),
            list(QUOTED.finditer(text, sentence.start, sentence.stop)),
        )
        if quotes and not text[sentence.start : quotes[0].start()].strip():  # "..." - translate
            at = next(
                (word.start() for word in _WORD.finditer(text, quotes[0].end(), sentence.stop)), at
            )
        rework, finish = (begins(text, kind, at) or "" for kind in ("rework", "finish"))
        known, colon = (
            rework or begins(text, "digest", at) or "",
            _INTRODUCED.search(text, at, sentence.stop),
        )
        pointing = held(text[at : sentence.stop], "indication") is not None
        if len(finish) > len(known) or (
            not known and not _on_words(text, sentence, at, quotes, colon)
        ):
            continue
        behind = _SOLID.search(text, sentence.stop)
        if quotes:
            worked.append((sentence.start, sentence.stop))
        elif colon or (behind and (pointing or (rework and sentence.stop >= sentence.line[1]))):
            done = _end(text, colon.end() if colon else sentence.stop, sentences[i + 1 :], blocks)
            worked.append((sentence.start, done))
        elif (pointing or (rework and sentence.start == sentence.line[0])) and _SOLID.search(
            text, 0, sentence.start
        ):
            worked.append((0, sentence.stop))
    return worked


def _on_words(
    text: str, sentence: Sentence, at: int, quotes: list[re.Match[str]], colon: re.Match[str] | None
) -> bool:
    """Whether a sentence asks about the words of some quotations, or of what is behind a colon."""
    if any(
        (quote[0].count(" ") > 1 and not quote[0].istitle()) or SPACELESS.search(quote[0])
        for quote in quotes
    ):
        return held(QUOTED.sub(" ", sentence.of(text)), "language") is not None
    if colon is None or text[colon.start()] != ":":
        return False
    said = text[at : colon.start()]
    told = any(begins(text, kind, at) for kind in ("question", "request", "reference"))
    return held(said, "style") is not None or not (told or held(said, "indication") is None)


def _end(text: str, start: int, following: list[Sentence], blocks: list[Span]) -> int:
    """Where the material ends that begins at a place: with its marks, else before what is said to be another matter."""
    solid = _SOLID.search(text, start)
    start = solid.start() if solid else start
    if stop := dict(blocks).get(start):
        return stop
    if quote := QUOTED.match(text, start):
        return quote.end()
    apart = (
        s for s in following if s.start > start and text[max(0, s.start - 2) : s.start] == "\n\n"
    )
    return next(
        (s.start for s in apart if begins(text, "onward", _plain_start(text, s))), len(text)
    )


def _gaps(text: str, code: Iterable[Span], parts: Sequence[Span]) -> list[Span]:
    """Lines in which a part wants something filled in, with some lines before them, and a part directly behind them."""
    gaps = list[Span]()
    wanting = [
        part
        for part in parts
        if held(text[part[0] : min(part[1], part[0] + LINE)], "gap") is not None
    ]
    for gap in _GAP.finditer(text) if wanting else ():
        start, stop = gap.start(), text.find("\n", gap.end())
        stop = len(text) if stop < 0 else stop
        if (gap["code"] and not _overlaps((start, start + 1), code)) or _overlaps(
            (start, stop), wanting
        ):
            continue
        for _ in range(_BEFORE_GAP + 1):
            start = max(text.rfind("\n", 0, start), 0)
        start = max(start, *(end for _, end in (*wanting, *gaps) if end <= gap.start()), 0)
        stop = next(
            (end for begin, end in wanting if stop <= begin and not text[stop:begin].strip()), stop
        )
        gaps.append((start, stop))
        if len(gaps) == _MOST_GAPS:
            break
    return gaps


def _overlaps(span: Span, others: Iterable[Span]) -> bool:
    return any(start < span[1] and span[0] < stop for start, stop in others)


def _labelled(text: str, sentences: list[Sentence]) -> tuple[list[Sentence], bool]:
    """What is said outside documents, and answered questions, that have labels; and whether there are any."""
    left, mode, begun, labels = list[Sentence](), "", 0, False
    inner = list[Sentence]()  # of a document that may end in a question
    for sentence in sentences:
        at = _plain_start(text, sentence)
        phrases = ((label, begins(text, label, at)) for label in ("query", "document", "answer"))
        found = (
            (label, _COLON.match(text, at + len(phrase))) for label, phrase in phrases if phrase
        )
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
        left += [s for s in inner if s.line == last][-1 if inner[0].line == last else 0 :]
    return left, labels


def _asking(text: str, sentences: list[Sentence], apart: bool = False) -> list[Sentence]:
    """The questions, and what is to be told or completed beside these or a passage. apart: the text has more."""
    asks, questions, lone = list[Sentence](), 0, None
    short = {s.line: s.line[1] - s.line[0] <= PASSAGE for s in sentences}
    for i, sentence in enumerate(sentences):
        said, at = sentence.of(text), _opening(text, sentence)
        ended, outer = _ENDED.search(said), sentence.line in (sentences[0].line, sentences[-1].line)
        before = sentences[i - 1] if i and sentences[i - 1].stop == sentence.start else None
        if _ASKS.search(said) or (not ended and outer and begins(text, "question", at)):
            known = asks.pop() if before and asks and asks[-1].stop == before.stop else None
            if before and (
                _repeats(text[at : sentence.stop]) if known else _incomplete(text, before, at, said)
            ):
                sentence = sentence._replace(start=(known or before).start)  # noqa: PLW2901
                known = None
            asks += [sentence] if known is None else [known, sentence]
            questions += 1
        elif short[sentence.line] and (begins(text, "request", at) or _TO_COMPLETE.search(said)):
            asks.append(sentence)
        elif (
            i == len(sentences) - 1
            and not ended
            and said.count(" ") > 1
            and not begins(text, "thanks", at)
        ):
            lone = sentence
    if not questions and not apart and all(short.values()):
        return []
    near = [s for s in asks if short[s.line]]
    if lone and (asks or (not all(short.values()) and lone.start == lone.line[0])):
        near = [*near, lone] if near or lone.start == lone.line[0] else near
        asks.append(lone)
    return near or asks


def _repeats(said: str) -> bool:
    """Whether a question is the one before it about another subject: "And Kenya?"."""
    rest = _WORD.findall(said[len(begins(said, "ellipsis") or said) :])
    known = (
        (word[0].isupper() and not begins(word, "common")) or word in lists("small words")
        for word in rest
    )
    return bool(rest) and said.count(" ") <= _ELLIPTIC and all(known)


def _incomplete(text: str, before: Sentence, at: int, said: str) -> bool:
    """Whether a question asks nothing without what is before it: "Do you know?", "And Kenya's?", "Who is Dr. Lee?"."""
    elliptic = said.count(" ") <= _ELLIPTIC and begins(text, "ellipsis", at) is not None
    if elliptic and "\n" not in text[before.start : at] and not _ASKS.search(before.of(text)):
        return True
    if begins(text, "question", _opening(text, before)) and not text[
        before.start : before.stop
    ].rstrip().endswith("?"):
        return not (begins(text, "question", at) or begins(text, "joint", at))
    return all(begins(word, "void") == word for word in _WORD.findall(said[:LINE]))


@cache
def _next() -> re.Pattern[str]:
    asking, joint = (patterns(kind)[0].pattern for kind in ("question", "joint"))
    return re.compile(
        rf"[,;]?\s+{joint}\s+(?={asking})|[,;]\s+(?=(?:what|how|when|was|wie|wann|cómo|combien)\b)",
        re.I,
    )


def _passed_on(text: str, part: Span) -> list[Span]:
    """The quotations in a part that are asked themselves: another's questions to answer, what to complete or verify."""
    quotes, outside = _quotations(text, part)
    if not quotes:
        return []
    finish = begins(text, "finish", _opening(text, Sentence(*part, part)))
    if finish or held(outside, "factual") is not None:
        beside = (
            own_name(outside) is not None or _TO_COMPLETE.search(outside.rstrip(" .…_")) is not None
        )
        beside = beside or (
            finish is not None and held(outside.replace(finish, " ", 1), "question") is not None
        )
        asked = [quote for quote in quotes if text[slice(*quote)].count(" ") > 1]
        # Where more is said, such as 'who wrote "..."', it is about a title, unless this is a question.
        return [quote for quote in asked if not beside or _ASKS.search(text[slice(*quote)])]
    quotes = [quote for quote in quotes if _ASKS.search(text[slice(*quote)])]
    if not quotes or held(text[part[0] : quotes[0][0]], "asking") is None:
        return []
    return (
        quotes
        if held(text[quotes[-1][1] : quotes[-1][1] + PASSAGE], "replying") is not None
        else []
    )


def _quotations(text: str, part: Span) -> tuple[list[Span], str]:
    """Where the quotations in a part stand, and what it says outside of them."""
    said = text[part[0] : min(part[1], part[0] + LINE)]
    return [(part[0] + q.start(), part[0] + q.end()) for q in QUOTED.finditer(said)], QUOTED.sub(
        " ", said
    )


def _split(text: str, sentence: Sentence) -> list[Span]:
    number = _ITEM.match(text, sentence.start, sentence.stop)
    spans, at = list[Span](), number.end("mark") if number and number["mark"] else sentence.start
    for joint in _next().finditer(text, sentence.start, min(sentence.stop, sentence.start + LINE)):
        said = text[_opening(text, sentence) if at == sentence.start else at : joint.start()]
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
