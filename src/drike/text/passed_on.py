"""Texts that pass on another's question: "Reply to this email: ...", templates, JSON and XML.

What is asked stands in the inner text, maybe among much that is only said. Such texts are known by
their form and by instructions to answer in a few languages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from drike.text.characters import is_sign
from drike.text.phrases import phrase_at
from drike.text.sentences import (
    QUOTED,
    Sentence,
    Span,
    behind_courtesies,
    blocks_of,
    joined,
    lines_of,
    sentences_of,
)
from drike.text.transcripts import last_said_by_user
from drike.text.words import Words

_LONGEST = 20_000  # characters of a text that is read so
_ENDS = 2_000  # characters at either end, in which an instruction to answer is looked for
_LONGEST_INSTRUCTION = 200  # characters
_LEAST_WORDS = 2  # of a quotation that may be a question

_ADJECTIVES = r"(?:[\w'-]+,?\s+){0,4}?"
_NO_OTHER_NOUN = r"\b(?!\s+(?:time|times|code|codes|rate|handler|class|model|key|sheet)\b)"
_REPLY = "|".join(
    (
        # English
        r"(?:reply|respond)(?:\s+to)?\b(?!\s+with\b)",
        r"(?:draft|write|compose|suggest|prepare|formulate|propose|generate|create|give|send)\s+"
        rf"(?:me\s+|us\s+)?(?:an?|the|my|your|our|his|her)\s+{_ADJECTIVES}"
        rf"(?:reply|response|answer){_NO_OTHER_NOUN}",
        # German
        r"antworten?(?:\s+sie)?\s+(?:auf|dem|der|den)\b",
        r"beantworte(?:n\s+sie)?\s+(?:die|diese)\s+(?:\w+\s+)?(?:e-?mail|mail|nachricht|anfrage)",
        r"(?:schreiben?|verfassen?|formulieren?|entwerfen?|entwirf|erstellen?)(?:\s+sie)?\s+"
        rf"(?:mir\s+|bitte\s+)?(?:eine|die)\s+{_ADJECTIVES}(?:antwort|rückantwort)\b",
        # Spanish
        r"(?:responde|responda|responder|contesta|conteste)\s+(?:al?|este|esta)\b"
        r"(?!\s+la\s+(?:siguiente\s+)?pregunta)",
        r"(?:escribe|escriba|redacta|redacte|prepara|prepare)\s+(?:una|la)\s+"
        rf"{_ADJECTIVES}(?:respuesta|contestación)\b",
        # French
        r"(?:réponds|répondez|répondre)\s+(?:à|au|aux)\b(?!\s+la\s+(?:\w+\s+)?question)",
        r"(?:rédige|rédigez|écris|écrivez|prépare|préparez|propose|proposez)\s+(?:une|la)\s+"
        rf"{_ADJECTIVES}réponse\b",
        # Chinese
        r"(?:帮我|幫我|请|請)?(?:回复|回覆|答复|答覆|回信)",
    )
)
_ANSWER = "|".join(
    (
        r"answer\b(?!\s*:)",
        r"beantworten?(?:\s+sie)?\b|antworten?(?:\s+sie)?\s+(?:auf|in)\b",
        r"(?:responde|responda|contesta|conteste)\b",
        r"(?:réponds|répondez)\b",
        r"(?:帮我|幫我|请|請)?(?:回答|解答)",
    )
)
_WANTED = re.compile(rf"(?P<reply>{_REPLY})|(?:{_ANSWER})", re.IGNORECASE)
# "Translate the question and then answer it", "Lies die Anfrage und beantworte sie".
_JOINED = re.compile(
    r"(?:\b(?:and|und|y|et)\b|,|，)\s*(?:then|also|dann|anschließend|luego|después|ensuite|puis)?\s*"
    rf"(?:(?P<reply>{_REPLY})|(?:{_ANSWER}))",
    re.IGNORECASE,
)
# Who tells of himself instructs nobody: "I called twice and answer came there none".
_TELLS = re.compile(r"\b(?:i|we|he|she|they|ich|wir|yo|je|nous)\b|我", re.IGNORECASE)
_ASKS = re.compile(r"[?？]")
_COLON = re.compile(r"\s*：\s*|\s*:(?!//)[*_]*\s*(?=\S|$)")
_LEAST_SIGNS = 3  # of a text in a script without spaces that is no id or kind
_SPACES = " \t\r\n"
_MARKS = f"\"'“”„«»「」『』`*_{_SPACES}"

# The parts of prompts in Alpaca's form.
_SECTION = re.compile(
    r"^#{2,4}[ \t]*(?P<name>instruction|input|response|output|context|question|user|assistant|human"
    r"|system)s?[ \t]*:?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_GIVES = frozenset(("instruction", "question", "user", "human"))
_ADDS = frozenset(("input", "context"))

_ELEMENT = re.compile(
    r"<(?P<tag>(?:\w+[_-])?(?:question|query|request|input|body|ticket|inquiry|instruction|prompt"
    r"|message|text|content|e?mail|user|customer))(?:[ \t][^<>\n]{0,200})?>"
    r"(?P<inside>[^<>]*)</(?P=tag)>",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"</?[A-Za-z_][\w-]*(?:[ \t][^<>\n]{0,200})?>")

# Fields of objects that hold what somebody says, the first that there is.
_SAYING = ("question", "query", "text", "message", "content", "body", "input", "prompt", "request")
_NESTED = ("messages", "conversation", "history", "data", "payload", "ticket", "event")
_DEEPEST = 7  # object within an object
_OTHERS = frozenset(("assistant", "system", "bot", "agent", "tool", "developer"))


class PassedOn(NamedTuple):
    """What a text passes on, by characters.

    places: of texts to be read for what they ask. is_message: they are somebody's message to be
    replied to, of which what asks nothing is only said.
    """

    places: tuple[Span, ...]
    is_message: bool


def passed_on(text: str) -> PassedOn | None:
    """What a text passes on; None if it asks for itself."""
    if len(text) > _LONGEST:
        return _by_instruction(text)
    return (
        _in_json(text)
        or _in_transcript(text)
        or _in_sections(text)
        or _by_instruction(text)
        or _in_elements(text)
    )


# Objects


def _in_json(text: str) -> PassedOn | None:
    """What the user says last in an object, if the text is one."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    said = _last_said(value)
    if said is None:
        return None
    for written in (said, json.dumps(said)[1:-1], json.dumps(said, ensure_ascii=False)[1:-1]):
        place = text.rfind(written)
        if place >= 0:
            return PassedOn(((place, place + len(written)),), is_message=False)
    return None


def _last_said(value: object, depth: int = 0) -> str | None:
    """The last text in an object that a user says."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, list):
        said = (_last_said(item, depth + 1) for item in reversed(value))
        return next(filter(None, said), None)
    if not isinstance(value, dict) or _is_others(value):
        return None
    inner = (_last_said(value.get(name), depth + 1) for name in (*_NESTED, *_SAYING))
    return next(filter(None, inner), None) or _own_text(value)


def _is_others(message: dict[str, object]) -> bool:
    """Whether a message is of somebody else than the user."""
    roles = (message.get(name) for name in ("role", "speaker", "from"))
    return any(isinstance(role, str) and role.casefold() in _OTHERS for role in roles)


def _own_text(message: dict[str, object]) -> str | None:
    """What a message says in a field of its own."""
    texts = (message.get(name) for name in _SAYING)
    return next((text for text in texts if isinstance(text, str) and _has_words(text)), None)


def _has_words(text: str) -> bool:
    """Whether a text has several words, and is no id or kind."""
    if " " in text.strip() or text.isascii():
        return " " in text.strip()
    Words.of(text)  # by which its characters are known
    return sum(map(is_sign, text)) >= _LEAST_SIGNS


# Templates


def _in_transcript(text: str) -> PassedOn | None:
    """What the user said last in a conversation that a text holds."""
    said = [span for span in last_said_by_user(text) if text[slice(*span)].strip()]
    return PassedOn(tuple(said), is_message=True) if said else None


def _in_sections(text: str) -> PassedOn | None:
    """The instruction of a template with its input, or the input that the instruction answers."""
    headings = list(_SECTION.finditer(text))
    if not headings:
        return None
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    given: Span | None = None
    added: Span | None = None
    for heading, end in zip(headings, ends, strict=True):
        name = heading["name"].casefold()
        if name in _GIVES:
            given, added = (heading.end(), end), None
        elif name in _ADDS and given and text[heading.end() : end].strip():
            added = (heading.end(), end)
    if given is None:
        return None
    if added is None:
        return PassedOn((given,), is_message=False)
    wants_answer = _instructions(text[slice(*given)])
    return PassedOn((added,) if wants_answer else ((given[0], added[1]),), is_message=False)


def _in_elements(text: str) -> PassedOn | None:
    """What elements of XML hold, where nothing stands outside of them."""
    elements = list(_ELEMENT.finditer(text))
    if not elements:
        return None
    outside = _MARKUP.sub(" ", _ELEMENT.sub(" ", text))
    asking = [element for element in elements if _ASKS.search(element["inside"])]
    if _ASKS.search(outside) or not asking:
        return None
    if sum(map(len, outside.split())) > sum(len(element["inside"]) for element in elements):
        return None
    return PassedOn(tuple(element.span("inside") for element in asking), is_message=True)


# Instructions to answer


class _Instruction(NamedTuple):
    """A sentence that wants an answer, from where on; and whether to somebody's message."""

    sentence: Sentence
    place: int
    is_reply: bool


def _by_instruction(text: str) -> PassedOn | None:
    """What a text wants to be answered or replied to; None if it does not say so."""
    ends = text if len(text) <= 2 * _ENDS else f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    if _WANTED.search(ends) is None:
        return None
    blocks, _ = blocks_of(text)
    found = _instructions(text)
    if not found:
        return None
    places = _outside(text, found)
    if not places:
        return None

    is_message = any(instruction.is_reply for instruction in found)
    quoted = [span for place in places for span in _quoted_questions(text, place)]
    in_blocks = [block for block in blocks if _ASKS.search(text[slice(*block)])]
    inner = quoted or (is_message and [_inside(text, block) for block in in_blocks]) or places
    return PassedOn(tuple(inner), is_message)


def only_wants_answer(text: str) -> bool:
    """Whether a text says no more than that an answer is wanted: "Please answer the user."."""
    if len(text) > _LONGEST_INSTRUCTION or _ASKS.search(text):
        return False
    found = _instructions(text)
    return bool(found) and not _outside(text, found)


def _instructions(text: str) -> list[_Instruction]:
    """The sentences of a text that want an answer."""
    blocks, _ = blocks_of(text)
    sentences = [
        sentence for line in lines_of(text, blocks) for sentence in sentences_of(text, line)
    ]
    return list(_wanting(text, sentences))


def _wanting(text: str, sentences: Sequence[Sentence]) -> Iterator[_Instruction]:
    for sentence in sentences:
        place = behind_courtesies(text, sentence)
        wanted = _WANTED.match(text, place, sentence.stop)
        if wanted is None:
            wanted = _wanted_behind(text, sentence, place)
        if wanted is not None:
            yield _Instruction(sentence, wanted.end(), wanted["reply"] is not None)


def _wanted_behind(text: str, sentence: Sentence, place: int) -> re.Match[str] | None:
    """Where an instruction goes on to want an answer: "Translate this and then answer it"."""
    end = _before_quoted(text, sentence)
    if _TELLS.search(text, place, end) or phrase_at(text, "question", place):
        return None
    return _JOINED.search(text, place, end)


def _before_quoted(text: str, sentence: Sentence) -> int:
    """Where a sentence's first quotation begins, or what is behind its colon; else its end."""
    ends = [sentence.stop]
    for pattern in (QUOTED, _COLON):
        match = pattern.search(text, sentence.start, sentence.stop)
        if match:
            ends.append(match.start())
    return min(ends)


def _outside(text: str, instructions: Iterable[_Instruction]) -> list[Span]:
    """What stands outside of instructions, but for marks."""
    spans: list[Span] = []
    place = 0
    for instruction in instructions:
        spans.append((place, instruction.sentence.start))
        place = _end_of_instruction(text, instruction)
    spans.append((place, len(text)))
    trimmed = (_trimmed(text, span) for span in spans)
    return joined(span for span in trimmed if span[0] < span[1])


def _end_of_instruction(text: str, instruction: _Instruction) -> int:
    """Where an instruction ends: behind its colon, before its quotation, or with its sentence."""
    _, stop, _ = instruction.sentence
    colon = _COLON.search(text, instruction.place, stop)
    quotation = QUOTED.search(text, instruction.place, stop)
    if quotation and not (colon and colon.start() < quotation.start()):
        return quotation.start()
    return colon.end() if colon else stop


def _quoted_questions(text: str, place: Span) -> list[Span]:
    """The quotations in a part of a text that ask something, without their marks."""
    start, stop = place
    quotations = QUOTED.finditer(text, start, stop)
    return [
        _inside(text, quotation.span())
        for quotation in quotations
        if _ASKS.search(quotation[0]) and quotation[0].count(" ") >= _LEAST_WORDS
    ]


def _inside(text: str, span: Span) -> Span:
    """A quotation or a block without its marks."""
    start, stop = _trimmed(text, span)
    markup = _MARKUP.match(text, start, stop)
    if markup:
        start = markup.end()
        stop = max(start, text.rfind("<", start, stop))
    return _trimmed(text, (start, stop))


def _trimmed(text: str, span: Span) -> Span:
    """A part of a text without spaces at its ends, and without marks if it begins with one."""
    start, stop = _without(_SPACES, text, span)
    return (
        _without(_MARKS, text, (start, stop)) if text[start:stop][:1] in _MARKS else (start, stop)
    )


def _without(characters: str, text: str, span: Span) -> Span:
    start, stop = span
    while start < stop and text[start] in characters:
        start += 1
    while start < stop and text[stop - 1] in characters:
        stop -= 1
    return start, stop
