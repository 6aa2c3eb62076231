"""What a question and an edit have in common by their words.

That is: features, and what sets them apart for sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from math import exp

from drike.edits.record import EditRecord
from drike.encoders.salience import content
from drike.gates.name_index import Mention
from drike.text.capitals import find_name
from drike.text.contrasts import asks_for_sister
from drike.text.question_forms import (
    answer_kind,
    beginning,
    is_open,
    other_things,
    stated_kind,
    trimmed,
)
from drike.text.relation_words import (
    CASES,
    FAMILY,
    MEASURES,
    contrary,
    masked_wording,
    stem,
    stems,
    synonyms,
    telling_words,
    word_weights_of,
)
from drike.text.times import is_before_month, is_of_other_time
from drike.text.word_lists import word_list
from drike.text.words import Words, mentions, words

_AROUND = 200  # characters on either side of a name in which a text may say something about it
_MOST_PLACES = 32  # at which a text names a subject
# Content of a text that hardly says what is asked: "it is in" has .2, "it works as" .9.
_LITTLE_CONTENT = 0.5


def relation_features(first: str, second: str) -> dict[str, float]:
    """What two texts with "it" for the subject have in common, by their words."""
    first_kind = answer_kind(first)
    second_kind = answer_kind(second)
    both_kinds = first_kind is not None and second_kind is not None
    least_content = min(content(first), content(second))
    return {
        "same_kind": float(both_kinds and first_kind == second_kind),
        "other_kind": float(both_kinds and first_kind != second_kind),
        "contrary": float(contrary(first, second)),
        "vague": exp(-least_content / _LITTLE_CONTENT),
    }


def object_features(
    question: str, mentions: Sequence[Mention], subjects: Sequence[Mention]
) -> dict[str, float]:
    """What tells whether a question asks for the subject of an edit whose object it mentions.

    question: with "it" for the object. mentions: of the object. subjects: the mentions of subjects.
    closed: it asks for nothing by its words, as for yes or no. others: it names something else,
    too. subject: the object is the subject of other edits, which the question may be about.
    """
    places_of_subjects = {(mention.begin, mention.end) for mention in subjects}
    is_subject = any((mention.begin, mention.end) in places_of_subjects for mention in mentions)
    return {
        "object": 1.0,
        "closed": float(not is_open(question)),
        "others": float(find_name(question) is not None),
        "subject": float(is_subject),
    }


def share_said(question: str, record: EditRecord) -> float:
    """How much of what an edit's wording asks for that a question says.

    It is all if the question checks an object.
    """
    if not is_open(question) and mentions_object(question, record):
        return 1.0
    return share_in_words(question, record)


def share_in_words(question: str, record: EditRecord) -> float:
    """How much of what an edit's wording asks for the words of a question say."""
    stems_of_question = stems(words(question))
    shares = []
    for wording in _wordings(record):
        weights = word_weights_of(wording, record.names)
        said = sum(weight for word, weight in weights.items() if stem(word) in stems_of_question)
        shares.append(said / max(sum(weights.values()), 1e-9))
    return max(shares)


def mentions_object(question: str, record: EditRecord) -> bool:
    """Whether a question mentions an object of an edit, new or old.

    Numbers and common words do not count.
    """
    for name in (record.target_true, record.target_new, *record.object_aliases):
        if not name or name.isdigit() or name.casefold() in word_list("common words"):
            continue
        if mentions(question, name):
            return True
    return False


def about_another(
    question: str,
    record: EditRecord,
    *,
    written: str = "",
    reverse: bool = False,
    original: str = "",
    before: str = "",
) -> bool:
    """Whether a question is surely about another time, person or case than an edit.

    This shows in its words, as in "its president in 1985". written: when the edit was, in ISO 8601.
    original: the question in its own language, if that is not English. before: what is said of its
    time before it. reverse: it names the object
    of the edit, and may ask for the subject.
    """
    lowercase = question.lower()  # in which patterns search in half the time
    wordings = [masked_wording(text, record.names) for text in _wordings(record)]
    answers = [record.target_new, record.target_true or ""]
    since = record.valid_from or written
    timed = f"{before.lower()}{lowercase}"
    if is_of_other_time(timed, wordings, answers, since, original.lower()):
        return True
    if record.valid_from and is_before_month(timed, record.valid_from):
        return True

    stored_words = {
        word for text in _wordings(record) for word in word_weights_of(text, record.names)
    }
    for other in other_things(lowercase):
        if stored_words.isdisjoint(FAMILY if other.kin else words(other.text)):
            return True
    if not reverse:
        if _asks_for_other_kind(question, stored_words, record):
            return True
        holds_old = bool(record.target_true) and mentions(question, record.target_true or "")
        if not holds_old and asks_for_sister(
            question, wordings, record.target_new, translated=bool(original)
        ):
            return True
    return CASES.exclude(words(question), stored_words)


def _asks_for_other_kind(question: str, stored_words: set[str], record: EditRecord) -> bool:
    """Whether a question differs from the edit's wordings only in how it begins.

    That is: it says nothing that they do not say. Else a question for the edit may begin so.
    """
    kind, stems_of_rest = _asked(question)
    if kind is None:
        return False
    for text in _wordings(record):
        kind_of_text, _ = _asked(text)
        if kind_of_text is None:
            kind_of_text = stated_kind(masked_wording(text, record.names))
        if kind_of_text in (None, kind):
            return False

    stored_stems = stems(stored_words)
    return stems_of_rest <= stored_stems | synonyms(stored_stems)


@lru_cache(4_096)
def _asked(question: str) -> tuple[str | None, frozenset[str]]:
    """For what kind of answer a question asks by how it begins, and the stems of the rest."""
    begun = beginning(question)
    return begun.kind, stems(words(begun.rest))


def asks_value(question: str, record: EditRecord) -> bool:
    """Whether a question asks only for the measure that the subject's name speaks of.

    "What is our return window in days?" does. Names in capitals say no such thing: "How long is the
    Amazon?" has many neighbours.
    """
    asked_words = set(telling_words(question))
    if not is_open(question) or not asked_words <= frozenset().union(*MEASURES):
        return False

    for text in _wordings(record):
        if record.subject.lower() not in text:
            continue
        stored_words = set(word_weights_of(text, record.names))
        if stored_words and any(stored_words | asked_words <= measure for measure in MEASURES):
            return True
    return False


def asks_relation(question: str, record: EditRecord, *, alone: bool = False) -> bool:
    """Whether a question asks, by its words, what an edit is about, whatever its subject is.

    alone: and for nothing else.
    """
    asked_stems = stems(telling_words(trimmed(question)))
    for wording in _wordings(record):
        stored_stems = stems(word_weights_of(wording, record.names))
        if not stored_stems:
            continue
        synonyms_of_stored = synonyms(stored_stems)
        says_half = 2 * len(stored_stems & asked_stems) >= len(stored_stems)
        if not says_half and asked_stems.isdisjoint(synonyms_of_stored):
            continue
        asks_more = asked_stems - stored_stems - synonyms_of_stored or " a " in question
        if not (alone and asks_more) and not contrary(question, wording):
            return True
    return False


def states_old(text: Words, record: EditRecord) -> bool:
    """Whether a text seems to state the old object of an edit, near a name of its subject.

    It must seem to say what the edit is about, too.
    """
    old_object = Words.of(record.target_true or "")
    if not len(old_object) or next(text.spans(old_object), None) is None:
        return False

    # A wording without words says nothing of what it is about.
    wordings_say_relation = all(
        stems(word_weights_of(wording, record.names)) for wording in _wordings(record)
    )
    names = (span for name in record.names for span in text.spans(Words.of(name)))
    for begin, end in islice(names, _MOST_PLACES):
        start = max(0, int(text.begins[begin]) - _AROUND)
        stop = int(text.ends[end - 1]) + _AROUND
        around = text.text[start:stop]
        if not mentions(around, old_object.text) or mentions(around, record.target_new):
            continue
        if not wordings_say_relation or asks_relation(around, record):
            return True
    return False


def _wordings(record: EditRecord) -> tuple[str, ...]:
    return record.query, *record.paraphrases
