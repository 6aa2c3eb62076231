"""Which sentences ask something: questions, requests, and statements to complete."""

import re
from collections.abc import Sequence

from drike.text.material import ASKS, WORD
from drike.text.phrases import phrase_at
from drike.text.sentences import LINE, PASSAGE, Sentence, behind_courtesies
from drike.text.word_lists import word_list

# The end of a statement to complete: "The capital of Peru is".
TO_COMPLETE = re.compile(r"\b(?:is|are|was|were|in|by|of|at|from|to|the|ist|es|est)\s*$")
_ENDED = re.compile(r"[.!?…。！？:][\s\"'”’»)\]*_]*$")
_ELLIPTIC = 4  # spaces at most, in a question such as "And Kenya's?"


def question_sentences(
    text: str,
    sentences: Sequence[Sentence],
    *,
    has_other_parts: bool = False,
    loose_end: bool = True,
) -> list[Sentence]:
    """The sentences that ask something, each with the one before it that it needs to be understood.

    These are questions, requests, and statements to complete. Those within passages count only
    where there are no others. In a text of nothing but short sentences, nothing is found unless one
    of them is a question.

    has_other_parts: whether the text has more than these sentences. loose_end: whether a last
    sentence that lacks its end may ask, too.
    """
    found: list[Sentence] = []
    has_question = False
    for number, sentence in enumerate(sentences):
        if _is_question(text, sentence, sentences):
            has_question = True
            adjoining = _adjoining_before(sentences, number)
            previous = (
                found[-1] if found and adjoining and found[-1].stop == adjoining.stop else None
            )
            if previous is not None and _repeats(text, sentence):
                found[-1] = sentence._replace(start=previous.start)
            elif previous is None and adjoining and _is_incomplete(text, sentence, adjoining):
                found.append(sentence._replace(start=adjoining.start))
            else:
                found.append(sentence)
        elif _is_short(sentence) and _is_request(text, sentence):
            found.append(sentence)

    all_short = all(_is_short(sentence) for sentence in sentences)
    if not has_question and not has_other_parts and all_short:
        return []
    in_short_lines = [sentence for sentence in found if _is_short(sentence)]
    last = _loose_end(text, sentences) if loose_end else None
    if last is not None:
        begins_line = last.start == last.line[0]
        if found or (not all_short and begins_line):
            if in_short_lines or begins_line:
                in_short_lines.append(last)
            found.append(last)
    return in_short_lines or found


def _adjoining_before(sentences: Sequence[Sentence], number: int) -> Sentence | None:
    """The sentence right before another one."""
    if number == 0 or sentences[number - 1].stop != sentences[number].start:
        return None
    return sentences[number - 1]


def _is_short(sentence: Sentence) -> bool:
    """Whether a sentence stands in a line that is no passage."""
    start, stop = sentence.line
    return stop - start <= PASSAGE


def _is_question(text: str, sentence: Sentence, sentences: Sequence[Sentence]) -> bool:
    """Whether a sentence ends as a question, or begins as one and has no end.

    The latter only in the first or last line.
    """
    words = sentence.of(text)
    if ASKS.search(words):
        return True
    if _ENDED.search(words):
        return False
    in_outer_line = sentence.line in (sentences[0].line, sentences[-1].line)
    return (
        in_outer_line and phrase_at(text, "question", behind_courtesies(text, sentence)) is not None
    )


def _is_request(text: str, sentence: Sentence) -> bool:
    """Whether a sentence is a request to be told something, or a statement to complete."""
    if phrase_at(text, "request", behind_courtesies(text, sentence)):
        return True
    return TO_COMPLETE.search(sentence.of(text)) is not None


def _loose_end(text: str, sentences: Sequence[Sentence]) -> Sentence | None:
    """The last sentence, if it is no question or request but lacks its end: it may ask, too."""
    if not sentences:
        return None
    last = sentences[-1]
    words = last.of(text)
    if _is_question(text, last, sentences) or (_is_short(last) and _is_request(text, last)):
        return None
    has_several_words = words.count(" ") > 1
    if _ENDED.search(words) or not has_several_words:
        return None
    return None if phrase_at(text, "thanks", behind_courtesies(text, last)) else last


def _repeats(text: str, sentence: Sentence) -> bool:
    """Whether a question is the one before it about another subject: "And Kenya?"."""
    question = text[behind_courtesies(text, sentence) : sentence.stop]
    ellipsis = phrase_at(question, "ellipsis")
    if ellipsis is None or question.count(" ") > _ELLIPTIC:
        return False
    words = WORD.findall(question[len(ellipsis) :])
    return bool(words) and all(_is_of_name(word) for word in words)


def _is_of_name(word: str) -> bool:
    if word in word_list("small words"):
        return True
    return (word[0].isupper() or word.isdigit()) and not phrase_at(word, "common")


def _is_incomplete(text: str, sentence: Sentence, before: Sentence) -> bool:
    """Whether a question asks nothing without the sentence before it.

    So do "Do you know?", "And Kenya's?", and the end of "Who is Dr. Lee?".
    """
    if _leaves_out(text, sentence, before):
        return True
    place = behind_courtesies(text, sentence)
    before_begins_question = phrase_at(text, "question", behind_courtesies(text, before))
    if before_begins_question and not before.of(text).rstrip().endswith("?"):
        begins_anew = phrase_at(text, "question", place) or phrase_at(text, "joint", place)
        return not begins_anew
    words = WORD.findall(sentence.of(text)[:LINE])
    return all(phrase_at(word, "void") == word for word in words)


def _leaves_out(text: str, sentence: Sentence, before: Sentence) -> bool:
    """Whether a question leaves out what a statement before it in its line says: "And Kenya's?"."""
    place = behind_courtesies(text, sentence)
    is_short = sentence.of(text).count(" ") <= _ELLIPTIC
    if not is_short or phrase_at(text, "ellipsis", place) is None:
        return False
    in_one_line = "\n" not in text[before.start : place]
    return in_one_line and not ASKS.search(before.of(text))
