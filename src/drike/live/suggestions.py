"""Which questions an edit will answer, and which near it, it must not: known when it is written.

A model is asked once for both lists, or templates give them (`relation_templates`). What is
suggested is checked strictly, shown to whoever writes the edit, and stored with its author.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from drike.answers.matching import normalise
from drike.answers.thoughts import without_thoughts
from drike.edits.conflicts import conflict_keys
from drike.edits.record import EditRecord
from drike.gates.relations import relation_features
from drike.models.protocols import LanguageModel
from drike.prompts import REWRITE
from drike.text.capitals import find_name
from drike.text.masking import masked
from drike.text.question_forms import answer_kind
from drike.text.relation_words import stems, synonyms, telling_words
from drike.text.words import mentions

QUESTIONS = 10  # that a model is asked for, and as many near misses
_TOKENS = 20  # of a question
_LONGEST = 200  # characters of a question
END = "\nText:"  # after which a model that goes on writes about something else

# A weak model sees best from an example what is wanted.
_EXAMPLE = """Text: The Rialto cinema opens at 5 pm
Subject: Rialto cinema
SAME:
When does the Rialto cinema open?
From what time can I get into the Rialto cinema?
OTHER:
When does the Rialto cinema close?
Who owns the Rialto cinema?

"""

_HEADING = re.compile(r"[\s#*]*(?P<name>same|other)[\s:*]*", re.IGNORECASE)
_LIST_MARK = re.compile(r"^\s*(?:[-*\u2022]|\(?\d+[.):])\s+")
_QUOTES = "\"'\u201c\u201d\u2018\u2019\u00ab\u00bb`* \t"
_QUESTION_MARK = re.compile(r"[?\uff1f\u061f]")
_SENTENCE_END = re.compile(r"[.!\u3002\uff01]\s")
# Words of German questions: their nouns have capitals, which say nothing of names.
_GERMAN = re.compile(r"\b(?:wer|wie|wo|wann|welche[rsmn]?|kostet|gibt|ist|f\u00fcr|bei|im)\b", re.I)
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Suggestion:
    """A text that is suggested for an edit.

    never: as a near miss, which the edit must not match; else as a paraphrase. problem: why it is
    not to be stored; "" where it may be.
    """

    text: str
    never: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Neighbourhood:
    """What else a store holds that a suggestion must leave alone.

    taken: `conflict_keys` of the edits in force. subjects: their subjects.
    """

    taken: frozenset[str] = frozenset()
    subjects: frozenset[str] = frozenset()

    @classmethod
    def of(cls, records: Iterable[EditRecord]) -> Neighbourhood:
        """That of the edits in force."""
        listed = list(records)
        keys = frozenset[str]().union(*map(conflict_keys, listed))
        return cls(keys, frozenset(record.subject for record in listed))


ALONE = Neighbourhood()  # of an edit without others


def author_of(model: LanguageModel) -> str:
    """How a model is named as the author of a text."""
    return f"model {model.info.name}"


def request(record: EditRecord, count: int = QUESTIONS, languages: Sequence[str] = ()) -> str:
    """What a model is asked about an edit."""
    also = f", some of them in {' and '.join(languages)}" if languages else ""
    return (
        f"{REWRITE}as two lists of questions, one a line. First, after SAME: {count} different "
        f"questions of people who want to know exactly this, short and as people type{also}. Then, "
        f"after OTHER: {count} questions about the same subject that ask for something else. Each "
        "names the subject, ends with a question mark, and does not tell the answer.\n"
        f"{_EXAMPLE}Text: {record.query} {record.target_new}\nSubject: {record.subject}\nSAME:\n"
    )


def tokens_for(count: int = QUESTIONS) -> int:
    """The most tokens that a model may write for an edit."""
    return 2 * _TOKENS * count


def suggestions(
    model: LanguageModel,
    records: Sequence[EditRecord],
    count: int = QUESTIONS,
    neighbourhood: Neighbourhood = ALONE,
    languages: Sequence[str] = (),
) -> list[list[Suggestion]]:
    """Up to `count` paraphrases of each record and as many near misses, the usable ones first.

    The model is asked once about each. No two records get the same paraphrase.
    """
    prompts = [request(record, count, languages) for record in records]
    completions = model.generate(prompts, tokens_for(count), END) if prompts else []
    suggested = []
    for completion, record in zip(completions, records, strict=True):
        of_record = written_suggestions(completion.text, record, count, neighbourhood)
        suggested.append(of_record)
        keys = conflict_keys(replace(record, paraphrases=tuple(_usable(of_record, never=False))))
        neighbourhood = replace(neighbourhood, taken=neighbourhood.taken | keys)
    return suggested


def written_suggestions(
    written: str,
    record: EditRecord,
    count: int = QUESTIONS,
    neighbourhood: Neighbourhood = ALONE,
) -> list[Suggestion]:
    """The suggestions in what a model wrote, the usable ones first."""
    return checked_suggestions(_lines(written), record, count, neighbourhood)


def checked_suggestions(
    lines: Iterable[tuple[str, bool]],
    record: EditRecord,
    count: int = QUESTIONS,
    neighbourhood: Neighbourhood = ALONE,
) -> list[Suggestion]:
    """Texts, each with whether it is a near miss, as suggestions; the usable ones first.

    At most `count` of each list are usable; the rest is left out.
    """
    check = _Check(record, neighbourhood)
    suggested = []
    room = {False: count, True: count}
    for text, never in lines:
        suggestion = Suggestion(text, never, check.problem(text, never=never))
        if not suggestion.problem:
            if not room[never]:
                continue
            room[never] -= 1
        suggested.append(suggestion)
    return sorted(suggested, key=lambda one: (bool(one.problem), one.never))


def _usable(suggested: Iterable[Suggestion], *, never: bool) -> list[str]:
    return [one.text for one in suggested if one.never is never and not one.problem]


def fields_with(record: EditRecord, kept: Sequence[Suggestion], author: str) -> dict[str, Any]:
    """The fields of a record that also has the suggestions which a person kept, with an author."""
    by = {**(record.written_by or {}), **dict.fromkeys((one.text for one in kept), author)}
    return {
        "paraphrases": (*record.paraphrases, *_usable(kept, never=False)),
        "negatives": (*record.negatives, *_usable(kept, never=True)),
        "written_by": by,
    }


def _lines(written: str) -> Iterator[tuple[str, bool]]:
    """The different lines that a model wrote, and whether each is in its second list.

    Marks of lists and quotes are left out, and all that comes after the second list.
    """
    never = False
    seen: set[str] = set()
    for line in without_thoughts(written).partition(END)[0].splitlines():
        heading = _HEADING.fullmatch(line)
        if heading is not None:
            is_second = heading["name"].lower() == "other"
            if never:
                return
            never = is_second
            continue
        text = _LIST_MARK.sub("", line).strip(_QUOTES)
        if text and text not in seen:
            seen.add(text)
            yield text, never


@dataclass(frozen=True)
class _Check:
    """Says why texts are not to be stored with a record, and remembers those that may be."""

    record: EditRecord
    neighbourhood: Neighbourhood
    _known: dict[str, bool] = field(default_factory=dict)  # normalised texts, whether near misses
    _asked: dict[tuple[frozenset[str], str | None], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for text in (self.record.query, *self.record.paraphrases):
            self._remember(text, never=False)
        for text in self.record.negatives:
            self._remember(text, never=True)

    def problem(self, text: str, *, never: bool) -> str:
        """Why a text is not to be stored, "" where it may be; then it is known from now on."""
        problems = (
            self._problem_of_form(text),
            self._problem_of_answers(text),
            self._problem_of_names(text, never=never),
            self._problem_of_repeats(text, never=never),
            "" if never else self._problem_of_paraphrase(text),
        )
        problem = next(filter(None, problems), "")
        if not problem:
            self._remember(text, never=never)
        return problem

    def _remember(self, text: str, *, never: bool) -> None:
        self._known[normalise(text)] = never
        self._asked.setdefault(self._said(text), never)

    def _said(self, text: str) -> tuple[frozenset[str], str | None]:
        """What a text asks for, by its words: those that say something, and the kind of answer."""
        without_name = masked(text, self.record.names)
        return stems(telling_words(without_name)), answer_kind(without_name)

    def _problem_of_form(self, text: str) -> str:
        if len(text) > _LONGEST:
            return "is too long"
        marks = list(_QUESTION_MARK.finditer(text))
        if not marks or marks[-1].end() != len(text):
            return "is not a question"
        if len(marks) > 1 or _SENTENCE_END.search(masked(text, self.record.names)):
            return "is more than a question"
        return ""

    def _problem_of_answers(self, text: str) -> str:
        record = self.record
        for answer in (record.target_new, *record.object_aliases, record.target_true):
            if answer and mentions(text, answer) and not mentions(record.query, answer):
                return f"gives the answer {answer}"
        return ""

    def _problem_of_names(self, text: str, *, never: bool) -> str:
        """Without the subject's name a paraphrase has at least to say what the query says."""
        record = self.record
        for subject in self.neighbourhood.subjects:
            is_part = any(mentions(own, subject) for own in (record.query, *record.names))
            if not is_part and mentions(text, subject):
                return f"names {subject}"
        if self._names_something_else(text):
            return "names something else"
        if any(mentions(text, name) for name in record.names):
            return ""
        asked, _ = self._said(record.query)
        if never or self._said(text)[0].isdisjoint(asked | synonyms(asked)):
            return f"does not name {record.subject}"
        return ""

    def _names_something_else(self, text: str) -> bool:
        """Whether a text has a word with a capital that neither the edit nor its grammar gives."""
        if _GERMAN.search(text):
            return False
        own_words = {
            word.lower()
            for word in _WORD.findall(" ".join((*self.record.names, self.record.query)))
        }

        def lower(match: re.Match[str]) -> str:
            word = match[0]
            is_own = word.lower() in own_words or (len(word) > 1 and word.isupper())
            return word.lower() if is_own else word

        return find_name(_WORD.sub(lower, masked(text, self.record.names))) is not None

    def _problem_of_repeats(self, text: str, *, never: bool) -> str:
        if normalise(text) in self._known:
            return "is known already"
        listed_as_never = self._asked.get(self._said(text))
        if listed_as_never is None:
            return ""
        return "repeats another one" if listed_as_never is never else "is in both lists"

    def _problem_of_paraphrase(self, text: str) -> str:
        record = self.record
        features = relation_features(masked(text, record.names), masked(record.query, record.names))
        if features["contrary"] or features["other_kind"]:
            return "asks for something else"
        new_keys = conflict_keys(replace(record, paraphrases=(text,))) - conflict_keys(record)
        if new_keys.intersection(self.neighbourhood.taken):
            return "asks what another edit answers"
        return ""
