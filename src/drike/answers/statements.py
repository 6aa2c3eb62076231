"""The free reading of answers: which object of an edit an answer states, or whether it refuses.

It reads what a deployed model writes to a person, by rules, in time linear in the answer. An object
is named by its names, their short forms, and a number, date or quantity in any usual form; the
longest name at a place counts, and what stands inside a name of the subject names no object. It is
stated where it is named and nothing around it denies it, or where an answer is nothing but part of
its name ("Bernini"), unless the question has the same words.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Self

import regex

from drike.answers.as_asked import as_asked
from drike.answers.denials import (
    NEW,
    OLD,
    OTHER_QUANTITY,
    asks_of_end,
    behind_politeness,
    is_denied,
    is_ended,
    is_in_other_role,
    is_no,
    is_of_other_thing,
    is_weak,
    is_yes,
    refuses,
    without_lead,
)
from drike.answers.matching import first_line
from drike.answers.object_names import (
    ObjectForm,
    ObjectNames,
    Rank,
    object_names,
    share_of_name,
)
from drike.answers.outcomes import Stated
from drike.answers.parts import AnswerAsked, NameReader, stated_in_parts
from drike.answers.quantities import AnswerRead, are_quantities, with_marks
from drike.answers.thoughts import without_thoughts
from drike.answers.time_limit import TimeLimit
from drike.answers.values import uniform
from drike.text.word_lists import word_list
from drike.text.words import Words

__all__ = ["Stated", "stated"]

_SUBJECT = ""  # the mark of what names no object
_AROUND = 100  # characters before an object, and behind it, in which a denial may stand
_MOST_ALONE = 12  # words of an answer that is only part of a name
_MOST_SPACES_ALONE = 40  # in its line

_MARK = regex.compile(f"[{NEW}{OLD}]")
_NAMED = regex.compile(f"[{NEW}{OLD}{OTHER_QUANTITY}]")
_CLAUSE_END = regex.compile(r"[.;:!?,]\s|\n|\b(?:but|while|whereas|and|aber|und|mais|pero)\b")
_TO_OTHER = regex.compile(r"\b(?:to|for|in|at|nach|für|pour|para|à|en) \w{3,}")
_NEXT_TURN = regex.compile(r"\n[^\S\n]*(?:q|question|user|human|frage|pregunta)\s*:", regex.I)
_SPACES = regex.compile(rf"(?:[^\S\n]|[{NEW}{OLD}{OTHER_QUANTITY}])+")
_UNEVEN = re.compile(rf"[^\S\n ]|  |[{NEW}{OLD}{OTHER_QUANTITY}]")  # found fast
_STRUCK_OUT = regex.compile(r"~~[^~\n]{1,200}~~")


def stated(
    answer: str,
    new: Collection[str],
    old: Collection[str] = (),
    *,
    about: Collection[str] = (),
    question: str = "",
    limit: TimeLimit | None = None,
) -> Stated:
    """What an answer says.

    new, old: the names of the new object and of the old one, any of which states it. about: the
    names of the subject. question: what was asked, by which "yes" and "no" and parts of names are
    read. limit: how long reading may take, after which it raises OverTimeError.
    """
    if limit:
        limit.check()
    text = _answer_itself(answer)

    def named(names_of_new: tuple[str, ...], names_of_old: tuple[str, ...]) -> Stated:
        others = _EditNames.of(names_of_new, names_of_old, tuple(about))
        marks, marked = _marks_in(text, others, question, limit)
        return _verdict(marks, marked)

    def states(item: str) -> bool:
        others = _EditNames.of((item,), (), tuple(about))
        return NEW in _marks_in(text, others, question, limit)[0]

    asked = AnswerAsked(text, question, tuple(about))
    names_of_new = as_asked(tuple(new), tuple(old), question, about)
    names_of_old = as_asked(tuple(old), tuple(new), question, about)
    return stated_in_parts(asked, names_of_new, names_of_old, NameReader(named, states))


def _marks_in(
    text: str, names: "_EditNames", question: str, limit: TimeLimit | None
) -> tuple[set[str], str]:
    """The marks of the objects that an answer states, and the answer with all marks."""
    # 1. Read which objects the answer names, and which of these it does not deny.
    marked = _with_marks(text, names, question, limit)
    marks = _marks_stated(marked, question, limit)

    # 2. Read "yes" and "no" by the question, and an answer that is only part of a name.
    if question:
        marks = _with_yes_or_no(marks, text, question, names)
    if not marks and not _NAMED.search(marked):
        marks = _marks_of_part(text, question, names)

    if marks == {NEW, OLD}:
        marks = _likelier(marked, question, limit) or marks
    return marks, marked


def _verdict(marks: set[str], marked: str) -> Stated:
    """What an answer says, by the marks of the objects that it states."""
    if marks == {NEW, OLD}:
        return Stated.BOTH
    if marks:
        return Stated.NEW if NEW in marks else Stated.OLD
    return Stated.REFUSED if refuses(marked) else Stated.NEITHER


@dataclass(frozen=True)
class _EditNames:
    """The names of an edit's objects and of its subject."""

    new: ObjectNames
    old: ObjectNames
    subject: ObjectNames
    marks_by_name: tuple[tuple[str, str], ...] = ()  # of the objects' names
    about: str = ""  # the subject's names

    @classmethod
    def of(cls, new: tuple[str, ...], old: tuple[str, ...], about: tuple[str, ...]) -> Self:
        """The names of objects and subject, as they are read."""
        marks_by_name = (*((name, NEW) for name in new), *((name, OLD) for name in old))
        return cls(
            object_names(new),
            object_names(old),
            object_names(about),
            marks_by_name,
            " ".join(about),
        )

    @property
    def by_mark(self) -> dict[str, ObjectNames]:
        return {NEW: self.new, OLD: self.old, _SUBJECT: self.subject}

    @property
    def quantities(self) -> bool:
        """Whether an object is a quantity."""
        return are_quantities(name for name, _ in self.marks_by_name)

    @property
    def numbers(self) -> bool:
        """Whether one of the names holds a digit."""
        return self.new.numbers or self.old.numbers or self.subject.numbers

    @property
    def dates(self) -> str:
        """The dates that are objects."""
        return "; ".join(filter(None, (self.new.dates, self.old.dates)))

    def words_of_others(self, mark: str) -> frozenset[str]:
        """The words of all names but those of a mark."""
        others = [names.folded for other, names in self.by_mark.items() if other != mark]
        return frozenset().union(*others)


class _Place(NamedTuple):
    """Where a form stands in an answer, by the numbers of its words."""

    begin: int
    end: int
    rank: Rank
    mark: str


def _answer_itself(answer: str) -> str:
    """An answer without thoughts, marks, what it strikes out, and a next turn that it makes up."""
    answer = without_thoughts(answer).replace("**", "").replace("`", "")
    if "~~" in answer:
        answer = _STRUCK_OUT.sub(" ", answer)
    if "\n" not in answer:
        return answer
    stripped = answer.strip()
    next_turn = _NEXT_TURN.search(stripped)
    return stripped[: next_turn.start()] if next_turn else answer


def _with_marks(text: str, names: _EditNames, question: str, limit: TimeLimit | None = None) -> str:
    """A text in lower case with marks for the objects that it names."""
    spaced = _SPACES.sub(" ", text) if _UNEVEN.search(text) else text
    if names.quantities:
        reading = AnswerRead(spaced, f"{question} {names.about}", limit)
        spaced = with_marks(reading, names.marks_by_name, OTHER_QUANTITY)
    words = _words_of(spaced, names.numbers, names.dates)
    places = _places(words, names)
    marked = words.replaced({(place.begin, place.end): place.mark for place in places})
    return marked.casefold().replace("’", "'")


@lru_cache(maxsize=4)  # one answer is read for each item of a list
def _words_of(text: str, numbers: bool, dates: str) -> Words:
    """The words of a text, with numbers in one form if asked for, and dates read by these."""
    return Words.of(uniform(text, numbers, dates))


def _marks_stated(marked: str, question: str, limit: TimeLimit | None) -> set[str]:
    """The marks in a text that nothing around them denies, at one place at least."""
    marks = set[str]()
    for match in _MARK.finditer(marked):
        if limit:
            limit.check()
        if match[0] not in marks and _is_stated(marked, match, question):
            marks.add(match[0])
    return marks


def _likelier(marked: str, question: str, limit: TimeLimit | None) -> set[str]:
    """Of the marks of both objects those with a place that nothing around it weakens."""
    asked = frozenset(Words.of(question).folded())
    marks = set[str]()
    for match in _MARK.finditer(marked):
        if limit:
            limit.check()
        if match[0] in marks or not _is_stated(marked, match, question):
            continue
        before, behind = _around(marked, match)
        if not is_weak(before, behind) and not is_of_other_thing(before, behind, asked):
            marks.add(match[0])
    return marks if len(marks) == 1 else _about_asked(marked, asked) or marks


def _about_asked(marked: str, asked: Collection[str]) -> set[str]:
    """Of both marks the one whose clauses alone have telling words of the question.

    The clauses of the other are about another thing: "6.90 to Austria; to Germany it's 4.90".
    """
    telling = frozenset(asked) - word_list("small words")
    marks = set[str]()
    of_others = set[str]()
    for clause in _CLAUSE_END.split(marked):
        has_telling = not telling.isdisjoint(Words.of(clause).folded())
        found = set(_MARK.findall(clause))
        if has_telling:
            marks |= found
        elif _TO_OTHER.search(clause):
            of_others |= found
    return marks if len(marks) == 1 and of_others == {NEW, OLD} - marks else set()


def _is_stated(marked: str, match: regex.Match[str], question: str) -> bool:
    """Whether nothing around a mark denies it."""
    before, behind = _around(marked, match)
    if is_denied(before, behind) or is_in_other_role(behind, question):
        return False
    return asks_of_end(question) or not is_ended(before, behind)


def _around(marked: str, match: regex.Match[str]) -> tuple[str, str]:
    """What stands before a mark and behind it."""
    before = marked[max(0, match.start() - _AROUND) : match.start()]
    return before, marked[match.end() : match.end() + _AROUND]


def _with_yes_or_no(marks: set[str], text: str, question: str, names: _EditNames) -> set[str]:
    """The marks with the one that the question names if the answer is yes, without it if no."""
    said = behind_politeness(text)
    yes = is_yes(said)
    if not yes and not is_no(said):
        return marks
    marks_of_question = set(_with_marks(question, names, question)) & {NEW, OLD}
    if len(marks_of_question) != 1:
        return marks
    return marks | marks_of_question if yes else marks - marks_of_question


def _marks_of_part(text: str, question: str, names: _EditNames) -> set[str]:
    """The mark of an object, if the answer is nothing but a part of that object's name.

    Empty where the words of the answer all stand in the question or in the subject's name.
    """
    line = without_lead(first_line(text))
    if line.count(" ") > _MOST_SPACES_ALONE:
        return set()
    part = Words.of(uniform(line, names.new.numbers))
    if not 0 < len(part) <= _MOST_ALONE:
        return set()
    telling_words = set(part.folded()) - word_list("small words")
    if telling_words <= names.subject.folded | set(Words.of(question).folded()):
        return set()

    share_of_new = share_of_name(part, names.new)
    share_of_old = share_of_name(part, names.old)
    if share_of_new == share_of_old:
        return set()
    return {NEW} if share_of_new > share_of_old else {OLD}


def _places(words: Words, names: _EditNames) -> list[_Place]:
    """Where a text names objects, in order: the longest names that do not overlap.

    Words that name both objects count for neither, nor do words within a name of the subject.
    """
    candidates = [place for mark in names.by_mark for place in _candidates(words, mark, names)]
    longest_first = sorted(
        candidates, key=lambda place: (place.begin - place.end, -place.rank, not place.mark)
    )
    place_by_word: dict[int, _Place] = {}
    for place in longest_first:
        numbers = range(place.begin, place.end)
        taken = {place_by_word[end] for end in (numbers[0], numbers[-1]) if end in place_by_word}
        of_other_object = place._replace(mark=OLD if place.mark == NEW else NEW)
        if not taken:
            place_by_word.update(dict.fromkeys(numbers, place))
        elif place.mark and taken == {of_other_object}:
            place_by_word.update(dict.fromkeys(numbers, place._replace(mark=_SUBJECT)))
    return sorted({place for place in place_by_word.values() if place.mark})


def _candidates(words: Words, mark: str, names: _EditNames) -> Iterator[_Place]:
    """Where the forms of an object, or of the subject, stand in a text, and may name it."""
    own_names = names.by_mark[mark]
    words_of_others = names.words_of_others(mark)
    all_lower_case = words.text.islower()
    for form in own_names.forms:
        if not _counts(form, mark, words_of_others):
            continue
        for begin, end in words.spans(form.words):
            if form.last and _is_of_other_name(words, begin, end, own_names):
                continue
            in_lower_case = words.text[words.begins[begin]].islower()
            if form.capital and in_lower_case and not all_lower_case:
                continue
            yield _Place(begin, end, form.rank, mark)


def _counts(form: ObjectForm, mark: str, words_of_others: frozenset[str]) -> bool:
    """Whether a form counts anywhere in a text, and not only if the answer is nothing else.

    Short forms count for objects alone, and only if no other name has all their words.
    """
    if form.rank is Rank.NAME:
        return True
    is_of_object = mark != _SUBJECT
    return form.rank is Rank.SHORT and is_of_object and not form.folded <= words_of_others


def _is_of_other_name(words: Words, begin: int, end: int, names: ObjectNames) -> bool:
    """Whether a last name is another person's, as it stands beside a further name of theirs."""
    if begin > 0 and _one_space_before(words, begin) and _is_of_name(words, begin - 1, names):
        return True
    return end < len(words) and _one_space_before(words, end) and _is_of_name(words, end, names)


def _one_space_before(words: Words, number: int) -> bool:
    return words.text[words.ends[number - 1] : words.begins[number]] == " "


def _is_of_name(words: Words, number: int, names: ObjectNames) -> bool:
    """Whether a word beside a last name may be of another name than these."""
    folded = words.word(number)
    if folded in word_list("particles"):
        return folded not in names.folded
    text = words.between(number, number + 1)
    if len(text) <= 1 or not text[0].isupper() or folded in names.folded:
        return False
    return folded not in word_list("titles") and folded not in word_list("common words")
