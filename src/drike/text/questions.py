"""What in a text is a question, and what is only material: text to translate, code, logs.

Rules tell them apart, not a model, by their form and the phrases of `phrases.txt`. Where these find
neither a question nor material, the whole text is a question. Reading takes time linear in the
length of a text. Of a long one, only what stands near its beginning and its end is read, and some
questions between.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from drike.text.capitals import find_name
from drike.text.gaps import find_gaps
from drike.text.labels import without_labelled
from drike.text.material import ASKS, WORD, LineKind, line_kinds, worked_on
from drike.text.passed_on import passed_on
from drike.text.phrases import find_phrase, phrase_at, phrase_pattern
from drike.text.question_sentences import TO_COMPLETE, question_sentences
from drike.text.sentences import (
    ITEM,
    LINE,
    PASSAGE,
    Sentence,
    Span,
    behind_courtesies,
    blocks_of,
    joined,
    lines_of,
    overlaps,
    quotations,
    sentences_of,
)

MOST_PARTS = 8
_MOST_WRAPPERS = 3  # around a question, one in the other
_BESIDE_TITLE = 7  # characters of a quotation beside a title: the marks, a stop, an article

_SHORT_ITEM = re.compile(r"\s*(?:\d{1,2}[.)]|[-*•])\s+\S[^:?.!]{3,99}$")  # "1. Capital of Peru"
# Behind a name that is the object of the question: "how much RAM does it have".
_ABOUT_PRONOUN = re.compile(
    r"\s+(?:\w+\s+)?(?:does|do|did|has|have|is|was|are|were) (?:it|he|she|they)\b"
)


class TextParts(NamedTuple):
    """Where a text asks something, and where it has material, by characters.

    questions: at most `MOST_PARTS`, also requests and statements to complete; none where all of the
    text is to be worked on. material: text to translate, to correct and so on, code and logs. What
    is neither, such as a document, may give the context.
    """

    questions: tuple[Span, ...]
    material: tuple[Span, ...] = ()


@lru_cache(maxsize=4)  # a query is read for the subjects that it names, and again for the objects
def parts_of(text: str) -> TextParts:
    """What in a text is a question, and what is material."""
    return _parts(text, _MOST_WRAPPERS)


def _parts(text: str, wrappers: int, *, must_ask: bool = False) -> TextParts:
    """The parts of a text, in which others may be passed on.

    wrappers: how many texts around another one are looked through. must_ask: whether only questions
    and requests count, as in a message.
    """
    inner = passed_on(text) if wrappers else None
    if inner is None:
        return _plain_parts(text, must_ask=must_ask)
    must_ask = must_ask or inner.is_message
    parts = [
        _shifted(_parts(text[start:stop], wrappers - 1, must_ask=must_ask), start)
        for start, stop in inner.places
    ]
    questions = [question for part in parts for question in part.questions]
    material = [span for part in parts for span in part.material]
    if questions or must_ask:
        return TextParts(tuple(_first_and_last(questions)), tuple(material))
    return _plain_parts(text, must_ask=False)


def _shifted(parts: TextParts, by: int) -> TextParts:
    questions, material = (
        tuple((start + by, stop + by) for start, stop in spans) for spans in parts
    )
    return TextParts(questions, material)


def _plain_parts(text: str, *, must_ask: bool) -> TextParts:
    """The parts of a text that passes on no other."""
    # 1. Set apart blocks, code, and what is to be worked on.
    blocks, code = blocks_of(text)
    sentences = [
        sentence for line in lines_of(text, blocks) for sentence in sentences_of(text, line)
    ]
    kind_by_line = line_kinds(text, sentences)
    code += [line for line, kind in kind_by_line.items() if kind is LineKind.CODE]
    code_and_quoted = [*code, *(line for line, kind in kind_by_line.items() if kind)]
    sentences = [sentence for sentence in sentences if not kind_by_line[sentence.line]]
    to_work_on = worked_on(text, sentences, blocks)
    sentences = [sentence for sentence in sentences if not _is_in(sentence, to_work_on)]
    sentences, has_labels = without_labelled(text, sentences)

    # 2. Find the questions in the rest.
    has_other_parts = bool(has_labels or blocks or to_work_on or any(kind_by_line.values()))
    asking = question_sentences(
        text, sentences, has_other_parts=has_other_parts, loose_end=not must_ask
    )
    questions = [part for sentence in asking for part in _split(text, sentence)]
    if must_ask:
        pass
    elif not questions and has_other_parts and sentences and not to_work_on:
        # Beside documents and the like, whatever is said is the question.
        questions = joined((sentence.start, sentence.stop) for sentence in sentences)
    elif not questions and not code and not to_work_on:
        # Each item of a list is a question, or else the whole text is.
        questions = _items(text, sentences) or [(0, len(text))]

    # 3. Look for questions in quotations, and for what is to be filled in.
    questions = [
        part
        for question in questions
        for part in _quotations_to_answer(text, question) or [question]
    ]
    gaps = find_gaps(text, code_and_quoted, questions)
    if gaps:
        others = [question for question in questions if not overlaps(question, gaps)]
        questions = sorted({*gaps, *others})  # a sentence with two gaps is one question
        code = [span for span in code if not overlaps(span, gaps)]

    questions = _whole_if_alone(text, _first_and_last(questions))
    to_work_on += _quoted_material(text, questions)
    return TextParts(tuple(questions), tuple(joined(sorted({*code, *to_work_on}))))


def asked_texts(text: str) -> list[str]:
    """The parts of a text that ask something, as they stand there."""
    return [text[start:stop].strip() for start, stop in parts_of(text).questions]


def in_material(name: Span, spans: Iterable[Span]) -> bool:
    """Whether a name is in one of some spans, and does not fill it as a title does a quotation."""
    begin, end = name
    return any(
        start <= begin < stop and end - begin + _BESIDE_TITLE < stop - start
        for start, stop in spans
    )


def leans_back(part: str) -> bool:
    """Whether a part may be about a subject that only the text before it names: "its capital?"."""
    beginning = part[:LINE]
    name = find_name(beginning)
    if name is None or part.isupper():
        return True
    pronoun = find_phrase(beginning.casefold(), "pronoun")
    word = WORD.match(part, name)
    if pronoun is None or word is None:
        return False
    if pronoun < name:
        return True
    return word[0].isupper() and _ABOUT_PRONOUN.match(part, word.end()) is not None


def _is_in(sentence: Sentence, spans: Iterable[Span]) -> bool:
    return any(start <= sentence.start and sentence.stop <= stop for start, stop in spans)


def _split(text: str, sentence: Sentence) -> list[Span]:
    """The questions of a sentence, such as "who runs it and where is it based"."""
    item = ITEM.match(text, sentence.start, sentence.stop)
    start = item.end("mark") if item and item["mark"] else sentence.start
    opening = behind_courtesies(text, sentence)

    spans: list[Span] = []
    end = min(sentence.stop, sentence.start + LINE)
    for joint in _joint().finditer(text, sentence.start, end):
        begin = opening if start == sentence.start else start
        question = text[begin : joint.start()]
        question_word = phrase_at(question, "question") or ""
        has_several_words = len(question[len(question_word) :].split()) > 1
        if has_several_words:
            spans.append((start, joint.start()))
            start = joint.end()
    return [*spans, (start, sentence.stop)]


@cache
def _joint() -> re.Pattern[str]:
    """What stands between two questions of a sentence."""
    question, joint = phrase_pattern("question"), phrase_pattern("joint")
    return re.compile(
        rf"[,;]?\s+{joint}\s+(?={question})"
        r"|[,;]\s+(?=(?:what|how|when|was|wie|wann|cómo|combien)\b)",
        re.IGNORECASE,
    )


def _items(text: str, sentences: Sequence[Sentence]) -> list[Span]:
    """The lines of a text that is a list of short items; [] for other texts."""
    lines = list(dict.fromkeys(sentence.line for sentence in sentences))
    are_items = all(_SHORT_ITEM.match(text[start:stop].rstrip()) for start, stop in lines)
    return lines if len(lines) > 1 and are_items else []


def _quotations_to_answer(text: str, part: Span) -> list[Span]:
    """The quotations in a part that are themselves to be answered, completed or verified."""
    quoted, outside = quotations(text, part)
    if not quoted:
        return []

    finish = phrase_at(text, "finish", behind_courtesies(text, Sentence(*part, part)))
    if finish or find_phrase(outside, "factual") is not None:
        several_words = [span for span in quoted if _is_of_several_words(text, span)]
        if not _asks_outside(outside, finish):
            return several_words
        # Where more is said, such as 'who wrote "..."', it is about a title, unless this is a
        # question.
        return [span for span in several_words if _is_quoted_question(text, span)]

    # Questions of another person: 'My son asked me "..." What should I answer?'
    asked = [span for span in quoted if _is_quoted_question(text, span)]
    if not asked:
        return []
    before = text[part[0] : asked[0][0]]
    last = asked[-1][1]
    behind = text[last : last + PASSAGE]
    is_reported = find_phrase(before, "asking") is not None
    wants_reply = find_phrase(behind, "replying") is not None
    return asked if is_reported and wants_reply else []


def _is_of_several_words(text: str, span: Span) -> bool:
    return text[slice(*span)].count(" ") > 1


def _is_quoted_question(text: str, span: Span) -> bool:
    return ASKS.search(text[slice(*span)]) is not None


def _asks_outside(outside: str, finish: str | None) -> bool:
    """Whether what a part says outside of quotations asks something itself.

    finish: the phrase that begins it, if any.
    """
    if find_name(outside) is not None or TO_COMPLETE.search(outside.rstrip(" .…_")):
        return True
    if finish is None:
        return False
    return find_phrase(outside.replace(finish, " ", 1), "question") is not None


def _first_and_last(questions: list[Span]) -> list[Span]:
    """Of many questions the first and the last."""
    if len(questions) <= MOST_PARTS:
        return questions
    half = MOST_PARTS // 2
    return questions[:half] + questions[-half:]


def _whole_if_alone(text: str, questions: list[Span]) -> list[Span]:
    """The whole text for a single question with nothing around it."""
    if len(questions) != 1:
        return questions
    start, stop = questions[0]
    is_alone = not text[:start].strip() and not text[stop:].strip()
    return [(0, len(text))] if is_alone else questions


def _quoted_material(text: str, questions: Iterable[Span]) -> list[Span]:
    """The quotations of several words in questions that say more, which are material."""
    material = []
    for question in questions:
        quoted, outside = quotations(text, question)
        if WORD.search(outside):
            material += [span for span in quoted if _is_of_several_words(text, span)]
    return material
