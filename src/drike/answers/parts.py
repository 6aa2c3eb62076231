"""What an answer states of objects of several parts: all of one, a part of the new one, or none."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from drike.answers.contents import Content, content_of, share_of_items
from drike.answers.denials import refuses
from drike.answers.hours import contradicts, gives_part, is_every_day, names_days
from drike.answers.matching import normalise
from drike.answers.outcomes import Stated
from drike.answers.permissions import forbids, rules_on_permission
from drike.answers.places import is_elsewhere, place_and_country
from drike.answers.policies import AnswerContent, PartsGiven
from drike.answers.policy_words import telling_stems
from drike.answers.turned import is_negated
from drike.answers.yes_no import YES_OR_NO, asks_whether_not, says_of

_NO_THING = re.compile(r"(?:no|kein\w*|aucune?|ningún|ninguna) \w", re.IGNORECASE)
_NOT = re.compile(
    r"\b(?:not|never|non|no longer|nicht|pas|no)[ -]| not\b|(?<=can)not\b|n['’]t\b", re.I
)


@dataclass(frozen=True)
class NameReader:
    """What an answer states by names alone. named: for such names of both objects.

    states: whether it states an item of this name.
    """

    named: Callable[[tuple[str, ...], tuple[str, ...]], Stated]
    states: Callable[[str], bool]


@dataclass(frozen=True)
class AnswerAsked:
    """An answer, what was asked, and the names of the subject."""

    text: str
    question: str
    about: tuple[str, ...]


def stated_in_parts(
    answer: AnswerAsked, new: tuple[str, ...], old: tuple[str, ...], by_names: NameReader
) -> Stated:
    """What an answer states."""
    content_of_new = _content(new)
    content_of_old = _content(old)
    new, old = _with_places(new, old), _with_places(old, new)
    if opposites := _opposites(new[0], old[0]) if new and old else None:
        content_of_new, content_of_old = opposites
    if content_of_new == content_of_old:
        return by_names.named(new, old)
    return _PartsOf(answer, new, old, content_of_new, content_of_old, by_names).stated()


def _opposites(new: str, old: str) -> tuple[Content, Content] | None:
    """What two objects say of which one denies the other: "refundable", "not refundable"."""
    if _is_word_of_permission(new) and _is_word_of_permission(old):
        of_new = Content(says="no" if forbids(new) else "yes")
        of_old = Content(says="no" if forbids(old) else "yes")
        return (of_new, of_old) if of_new != of_old else None
    if _denies(new, old):
        return _contents_of_denial(old)
    if _denies(old, new):
        of_old, of_new = _contents_of_denial(new)
        return of_new, of_old
    return None


def _is_word_of_permission(name: str) -> bool:
    return " " not in name and rules_on_permission(name)


def _denies(denial: str, term: str) -> bool:
    """Whether a name is another one with a "not"."""
    stripped = _NOT.sub("", denial.strip(" ."))
    return stripped != denial.strip(" .") and normalise(stripped) == normalise(term)


def _contents_of_denial(term: str) -> tuple[Content, Content]:
    """What "not" with a term says, and what the term does."""
    if rules_on_permission(term):
        return Content(says="no"), Content(says="yes")
    return Content(conditions=(f"not {term}",)), Content(conditions=(term,))


def _content(names: Sequence[str]) -> Content | None:
    """What an object says by the first of its names that is of several parts."""
    return next(filter(None, map(content_of, names)), None)


def _with_places(names: tuple[str, ...], others: Sequence[str]) -> tuple[str, ...]:
    """Names of an object, with the place alone of "Bergen, Norway" if the other is not named so."""
    places = [place for name in names for place in place_and_country(name)[:1]]
    named = {normalise(name) for name in (*names, *others)}
    return (*names, *(place for place in places if normalise(place) not in named))


def _stems(content: Content | None) -> frozenset[str]:
    """The stems of the telling words of a policy."""
    return telling_stems(" ".join(content.conditions)) if content else frozenset()


@dataclass(frozen=True)
class _PartsOf:
    """An answer in which the parts of objects are looked for."""

    answer: AnswerAsked
    new_names: tuple[str, ...]
    old_names: tuple[str, ...]
    new: Content | None
    old: Content | None
    by_names: NameReader

    @cached_property
    def _read(self) -> AnswerContent:
        shared = _stems(self.new) & _stems(self.old)
        return AnswerContent.of(self.answer.text, self.answer.question, self.answer.about, shared)

    def stated(self) -> Stated:
        """What it states."""
        # 1. Yes and no are read where the answer begins, not as words anywhere.
        if self.new and self.new.says:
            return self._yes_or_no(self.new)

        # 2. Lists that are surely such are read by their items, which may be those of the other.
        said = self.by_names.named(self.new_names, self.old_names)
        contents = [content for content in (self.new, self.old) if content]
        is_list = any(content.is_certain_list for content in contents) or self._shares_an_item

        # 3. All else may be named as a whole.
        is_open = said in (Stated.NEITHER, Stated.REFUSED) or self._are_opposites
        said = self._by_shares(said) if is_list or is_open else said
        return self._by_no() if said is Stated.NEITHER else said

    def _by_no(self) -> Stated:
        """What it states by a "no" to what one object alone denies: "no minimum order"."""
        denies = [
            any(_NO_THING.match(name) for name in names)
            for names in (self.new_names, self.old_names)
        ]
        if denies[0] == denies[1] or self._read.says != "no":
            return Stated.NEITHER
        return Stated.NEW if denies[0] else Stated.OLD

    @property
    def _shares_an_item(self) -> bool:
        """Whether one object is an item of the other, which then is a list: "Ann and Bo", "Bo"."""
        pairs = ((self.new, self.old_names), (self.old, self.new_names))
        return any(
            normalise(item) in map(normalise, names)
            for content, names in pairs
            if content
            for item in content.items
        )

    @property
    def _are_opposites(self) -> bool:
        """Whether one object denies the other, whose name stands in it."""
        if not (self.new_names and self.old_names):
            return False
        return _opposites(self.new_names[0], self.old_names[0]) is not None

    @property
    def _are_places(self) -> bool:
        """Whether both objects are places with the countries that they are in."""
        return all(content is not None and content.is_place for content in (self.new, self.old))

    def _yes_or_no(self, new: Content) -> Stated:
        """What an answer states under a new object such as "Yes, on a leash"."""
        text = self.answer.text
        says = says_of(self.answer.question, text, "")
        if not says and asks_whether_not(self.answer.question):
            says = self._read.permission
        share = self._read.share_of(new.conditions) if new.conditions else PartsGiven.ALL
        if not says and new.conditions and share is PartsGiven.ALL:
            says = "no" if is_negated(text) else "yes"
        if not says and not refuses(text.casefold()):
            says = self._read.permission
        if says == new.says:
            return Stated.NEW if share is PartsGiven.ALL else Stated.PARTLY
        if says and says == self._says_of_old:
            return Stated.OLD
        others = self.by_names.named((), self.old_names)
        return others if others in (Stated.OLD, Stated.REFUSED) else Stated.NEITHER

    @property
    def _says_of_old(self) -> str:
        """Yes or no, if the old object begins with it: "no deposit" does beside "yes, €80"."""
        if self.old and self.old.says:
            return self.old.says
        matches = [match for match in map(YES_OR_NO.match, self.old_names) if match]
        return next(("yes" if match["yes"] else "no" for match in matches), "")

    def _by_shares(self, said: Stated) -> Stated:
        """What an answer states by the parts of both objects. said: by their names."""
        new, items_of_new = self._share(self.new)
        old, items_of_old = self._share(self.old)
        has_new = new is PartsGiven.ALL or (self.new is None and said.includes_new)
        has_old = old is PartsGiven.ALL or (self.old is None and said in (Stated.OLD, Stated.BOTH))
        if has_new and has_old:
            return Stated.NEW if items_of_old < items_of_new else Stated.BOTH
        if has_new:
            return Stated.NEW
        if has_old:
            return Stated.OLD
        is_of_both = items_of_new == items_of_old and self._are_places
        if new is PartsGiven.SOME and items_of_old <= items_of_new and not is_of_both:
            return Stated.PARTLY
        return Stated.REFUSED if said is Stated.REFUSED else Stated.NEITHER

    def _share(self, content: Content | None) -> tuple[PartsGiven, set[str]]:
        """How much of an object the answer gives, and which items of a list."""
        if content is None:
            return PartsGiven.NONE, set()
        if content.items:
            if contradicts(content.items, self.answer.text):
                return PartsGiven.NONE, set()
            if content.is_place and is_elsewhere(content.items, self.answer.text):
                return PartsGiven.NONE, set()
            return share_of_items(self._needed(content.items), self._share_of_item)
        return self._read.share_of(content.conditions), set()

    def _needed(self, items: Sequence[str]) -> Sequence[str]:
        """The items of a list that an answer must give: that it is so every day may go unsaid."""
        needed = [item for item in items if not is_every_day(item)]
        if not needed or len(needed) == len(items) or names_days(self.answer.text):
            return items
        return needed

    def _share_of_item(self, item: str) -> PartsGiven:
        names = (item, self._as_asked(item))
        if any(name and self.by_names.states(name) for name in names):
            return PartsGiven.ALL
        if self._states_without_noun(item):
            return PartsGiven.ALL
        is_part = gives_part(item, self.answer.text)
        return PartsGiven.SOME if is_part else PartsGiven.NONE

    def _as_asked(self, item: str) -> str:
        """An item without a word that the question has: "M" of "Size M", asked which sizes."""
        asked = {word.lower().removesuffix("s") for word in self.answer.question.split()}
        first, _, rest = item.partition(" ")
        return rest if rest and first.lower().removesuffix("s") in asked else ""

    def _states_without_noun(self, item: str) -> bool:
        """Whether it states an item without the noun of all: "oat and soy milk" has "oat milk"."""
        first, _, noun = item.rpartition(" ")
        if not first or not self._is_noun_of_all(noun, item):
            return False
        is_named = re.search(rf"\b{re.escape(noun)}\b", self.answer.text, re.IGNORECASE)
        return is_named is not None and self.by_names.states(first)

    def _is_noun_of_all(self, noun: str, item: str) -> bool:
        """Whether all items of this one's list that have several words end with a noun."""
        lists = [content.items for content in (self.new, self.old) if content]
        items = next((each for each in lists if item in each), ())
        nouns = {each.split()[-1].lower() for each in items if " " in each}
        return len(items) > 1 and nouns == {noun.lower()}
