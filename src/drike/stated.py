"""What an answer in free text says of an edit: its new object, the old one, both, neither, or that it refuses.

`matching` judges answers that begin with the object, as rewards and metrics ask for; this reads what a deployed model
writes to a person. By rules, in time linear in the answer:

* an object is named by its names, their short forms, and a number, date or quantity in any usual form; the longest name
  at a place counts, and what stands inside a name of the subject names no object;
* an object is stated where it is named and not denied (in English, German, Spanish or French): by a negation, a
  correction ("not Lima but Oslo"), as the past ("used to be Lima"), as what the user said, in a question, or by what a
  model says when it does not answer;
* an answer that is nothing but part of a name states it ("Bernini"), unless the question has the same words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import regex

from drike.matching import first_line
from drike.quantities import has_digits, uniform
from drike.short_forms import PARTICLES, NameMatch, lists, short_forms
from drike.words import Words
from drike.words import words as words_of


class Stated(StrEnum):
    """Which object of an edit an answer states."""

    NEW = "new"
    OLD = "old"
    BOTH = "both"
    NEITHER = "neither"
    REFUSED = "refused"


class _Form(NamedTuple):
    """A way to write an object. rank: of a name, of a short form, or 0 for one that counts only alone."""

    words: Words
    folded: frozenset[str]
    rank: int
    last: bool = False  # of a person
    capital: bool = False  # a common word, which is a name only with a capital: May, US


class _Names(NamedTuple):
    """The forms of an object's names. numbers: whether one holds a digit."""

    forms: tuple[_Form, ...]
    folded: frozenset[str]
    numbers: bool


class _Place(NamedTuple):
    """Where a form stands in an answer, by the numbers of its words."""

    begin: int
    end: int
    rank: int
    mark: str


_MARKS = _NEW, _OLD = "\ue000", "\ue001"  # stand for the objects where denials are looked for
_SUBJECT = ""
_MARK = regex.compile(f"[{_NEW}{_OLD}]")
_NAME, _SHORT = 2, 1  # ranks of forms
_SMALL_WORDS = frozenset(words_of("a an the of de du des del von van der in at for and und y et or to by on"))
_PREPOSITIONS = frozenset(words_of("of de du des del von van in at for"))
_PLACES_AND_HOUSES = frozenset(
    words_of(
        "state province city county kingdom republic district region municipality department prefecture duchy empire"
        " town commonwealth island isle diocese house battle siege university"
    )
)
_TITLES = ("Mr", "Mrs", "Ms", "Dr")
_NEAR = 100  # characters before an object, and behind it, in which a denial may stand
_MOST_ALONE = 12  # words of an answer that is only part of a name
_PLURAL = 5  # letters of a common noun that may be the plural of a shorter one

_THOUGHT = regex.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", regex.S | regex.I)
_THOUGHT_END = regex.compile(r"</think>", regex.I)
_NEXT_TURN = regex.compile(r"\n\s*(?:q|question|user|human|frage|pregunta)\s*:", regex.I)
_SPACES = regex.compile(rf"(?:[^\S\n]|[{_NEW}{_OLD}])+")
_STRUCK = regex.compile(r"~~[^~\n]{1,200}~~")
_LEAD = regex.compile(
    r"\W*(?:(?:a|answer|antwort|respuesta|réponse)\s*:|(?:the (?:correct )?answer is|it is|it's|it was|that is|that's"
    r"|this is|(?:s?he|they) (?:is|was|are|were)|(?:es|das|er|sie) (?:ist|war)|es|c'est)\b:?)?\s*",
    regex.I,
)
_YES = regex.compile(r"\W*(?:yes|yeah|yep|correct|right|indeed|true|ja|sí|oui)\b(?!\s*:)", regex.I)
_NO = regex.compile(r"\W*(?:no|nope|incorrect|wrong|false|nein|non)\b(?! longer)", regex.I)

_M = "".join(_MARKS)
_IN_CLAUSE = rf"[^{_M},;:!?.\n()—–]"
_CONTRAST = r"\b(?:but|however|though|although|yet|think|believe|guess|aber|sondern|sino|pero|mais)\b"
_HERE = (  # what a denial reaches over
    rf"(?:(?!{_CONTRAST}|\b(?:and|because|since|as|which|who|where|while|und|et)\b){_IN_CLAUSE})"
)
_BEFORE = regex.compile(
    rf"""(?:
      \b(?:not(?!\ (?:only|just|merely|simply)\b)|\w+n't|never|no\ longer|neither|nor|rather\ than|instead\ of|unlike
        |contrary\ to|contrarily\ to|opposed\ to|other\ than(?<!none\ other\ than)|former|formerly|previously|used\ to
        |was\ once|once\ called|hitherto|until\ then|nicht(?!\ nur\b)|kein\w*|statt|anstatt|anders\ als|früher\w*
        |ehemal\w+|vormals|pas(?!\ seulement\b)|n'(?:est|était)\ plus|au\ lieu\ de|contrairement\ à|ancien\w*
        |no\ (?:es|era|fue|está|son|en|de|a)|et\ non|ya\ no|nunca|en\ (?:lugar|vez)\ de|anterior\w*|antes
        |a\ diferencia\ de
        |you\ (?:said|say|mentioned|mention|claimed|claim|suggested|stated|wrote|meant)|if\ you(?:'re)?\ mean\w*
        |your\ (?:claim|statement|premise|assumption|suggestion|assertion)|misconception|mistakenly|incorrectly
        |wrongly|(?:incorrect|wrong|false|inaccurate)\ to)\b
        {_HERE}{{0,60}}?
        (?:[{_M}]["'\s]*(?:\b(?:or|nor|oder|noch|ni|o|u|ou)\b){_HERE}{{0,20}}?){{0,3}}
      |\b(?:people|many|some|most|commonly|often)\s(?:\w+\s){{0,2}}?(?:think|thought|believed?|assumed?|sa(?:y|id)|list|claim)\b
        {_IN_CLAUSE}{{0,60}}?
      |\b(?:(?:previously|formerly|historically|originally|in\ the\ past|früher|antes),?
        |(?:old|former|previous)\ \w+,)\s
      |\b(?:(?:took|takes|taking)\ over
        |(?:extend|rais|chang|mov|relocat|increas|reduc|lower|renam|switch|transferr|updat)ed)\s(?:\w+\s){{0,3}}?from\s
      |\b(?:to|into)\s[{_M}]\sfrom\s
      |\b(?:replac|succe[e]?d|supersed)(?:ed|es|s|ing)\s(?:(?:the|le|la|el)\s)?
      )["'*_\s]*$""",
    regex.X,
)
_AFTER = regex.compile(
    rf"""["'*_\s)]*(?:
      (?:is|was|are|were|has|had)(?:n't|\ not|\ no\ longer|\ never)\b(?!\ (?:only|just|merely))
      |(?:ist|war|sind)\ (?:nicht|kein)\b(?!\ nur)|(?:ya\ )?no\ (?:es|era|fue)\b|n'(?:est|était)\ (?:pas|plus)\b
      |(?:is|was|are|were|would\ be|ist|es|est)\ (?:\w+\ ){{0,2}}?(?:incorrect|wrong|false|inaccurate|mistaken|outdated
        |obsolete|out\ of\ date|falsch|veraltet|incorrect[oe]|fals[oe]|faux|erron\w+)\b
      |used\ to\ be\b|has\ (?:historically|previously|traditionally)\ been\b
      |(?:was|were)\ (?:formerly|previously|once|historically|originally
        |the\ (?:former|old|previous|original))\b
      |(?:was|were|has\ been|is|wurde|fue)\ (?:\w+\ )?(?:replaced|succeeded|superseded|abgelöst|ersetzt|reemplazad\w)\b
      |(?:was|were|had\ been|served|remained|war|era|était)\b{_IN_CLAUSE}{{0,60}}?\b(?:until|before|bis|hasta|jusqu)
      |\(\s*(?:now|today|heute|ahora|maintenant)\b
      |\(\s*(?:former|previous|old|outdated|until|ehemal|früher)[^){_M}]{{0,40}}\)
      )""",
    regex.X,
)
_ORIGIN = regex.compile(rf"{_IN_CLAUSE}{{0,40}}?\b(?:to|into|nach|zu|a|à)\b{_IN_CLAUSE}{{0,40}}?[{_M}]")
_FROM = regex.compile(r"\b(?:from|von|de|desde)\W*$")
_WAS = regex.compile(rf"\b(?:was|were|had been|originally|initially|war|era|fue|était)\b{_IN_CLAUSE}{{0,40}}?$")
_NOW = regex.compile(
    rf"[^{_M}\n]{{0,80}}?\b(?:now|currently|today|nowadays|since then|heute|jetzt|nun|inzwischen|ahora|hoy|actualmente"
    rf"|maintenant|aujourd'hui|désormais)\b[^{_M}\n]{{0,60}}?[{_M}]"
)
_SAYING = regex.compile(rf"\b(?:statement|claim|idea|notion|assertion|belief|assumption|premise)\b{_HERE}{{0,60}}?$")
_FALSE = regex.compile(
    rf"{_HERE}{{0,60}}?\b(?:is|was|seems) (?:\w+ )?(?:incorrect|wrong|false|inaccurate|mistaken|outdated)\b"
)
_UNTIL = regex.compile(rf"{_HERE}{{0,40}}?\b(?:until|before|bis|hasta|jusqu)")
_OFFERED = regex.compile(r"\b(?:would|do|did|shall|should|can|could|möchte\w*|soll|quiere\w*|voulez)\b[^.!?\n]*$")
_ASKED = regex.compile(r"[^.!?\n]{0,80}\?(?:\W*(?=\w)(?!yes|ja|oui|sí|correct)|(\W*$))")
_CANNOT = (
    r"\b(?:cannot|can't|can not|couldn't|could not|unable to|not able to|(?:don't|do not|doesn't|does not) (?:have|know"
    r"|recall|provide)|not (?:sure|certain|aware|familiar|clear|known)|unsure|uncertain|won't be able|insufficient"
    r"|no (?:\w+ )?(?:information|data|record|knowledge|access|idea)|no (?:(?:lo )?sé|puedo|tengo|dispongo"
    r"|estoy segur\w)|unknown|keine (?:information|angabe|kenntnis|auskunft|daten)\w*|nicht sicher"
    r"|(?:weiss|kann)(?: \w+){0,4} nicht"
    r"|je ne (?:sais|peux|suis|dispose|connais)|je n'ai pas)\b"
)
_WITHHELD = regex.compile(rf"{_CANNOT}(?:(?!{_CONTRAST})[^.!?;:\n]){{0,90}}$")
_REFUSED = regex.compile(
    rf"{_CANNOT}|\b(?:as an? (?:ai|large|language)|sorry|i apologi[sz]e|tut mir leid|lo siento|désolée?)\b"
)


def stated(
    answer: str, new: Collection[str], old: Collection[str] = (), *, about: Collection[str] = (), question: str = ""
) -> Stated:
    """What an answer says. new, old: the names of the new object and of the old one, any of which states it.

    about: the names of the subject. question: what was asked, by which "yes" and "no" and parts of names are read.
    """
    named = dict(zip((_NEW, _OLD, _SUBJECT), (_names(tuple(names)) for names in (new, old, about)), strict=True))
    text = _said(answer)
    marked = _read(text, named)
    states = {mark for mark, denied in _statements(marked) if not denied}
    yes = _YES.match(text)
    if question and (yes or _NO.match(text)):
        meant = set(_read(question, named)) & {_NEW, _OLD}
        if len(meant) == 1:
            states = states | meant if yes else states - meant
    if not states and not any(mark in marked for mark in _MARKS):
        states = _alone(text, named, question)
    if states:
        return Stated.BOTH if len(states) > 1 else Stated.NEW if _NEW in states else Stated.OLD
    return Stated.REFUSED if _REFUSED.search(marked) else Stated.NEITHER


def _said(answer: str) -> str:
    """An answer without what a model thinks before it, what it strikes out, and a next turn that it makes up."""
    answer = _THOUGHT_END.split(_THOUGHT.sub(" ", answer))[-1]
    if "~~" in answer:
        answer = _STRUCK.sub(" ", answer)
    following = _NEXT_TURN.search(answer.strip()) if "\n" in answer else None
    return answer.strip()[: following.start()] if following else answer


def _read(text: str, named: Mapping[str, _Names]) -> str:
    """A text in lower case with marks for the objects that it names."""
    words = Words.of(uniform(_SPACES.sub(" ", text), any(names.numbers for names in named.values())))
    pieces, at = [], 0
    for place in _places(words, named):
        start = int(words.begins[place.begin])
        pieces += [words.text[at:start], place.mark]
        at = int(words.ends[place.end - 1])
    return "".join([*pieces, words.text[at:]]).casefold().replace("’", "'")


@lru_cache(maxsize=1 << 10)  # edits are judged many times
def _names(names: tuple[str, ...]) -> _Names:
    texts = [text for name in names if len(Words.of(text := uniform(name)))]
    forms: dict[str, _Form] = {}

    def add(text: str, rank: int, last: bool = False) -> None:
        words, capital = Words.of(text), text[:1].isupper() and text.casefold() in lists("common words")
        forms.setdefault(text, _Form(words, frozenset(words.folded()), rank, last, capital))

    for text in texts:
        forms.pop(text, None)
        add(text, _NAME)
        noun = text.split()[-1]
        if noun.islower() and noun.isalpha() and len(noun) > 2:  # a common noun
            add(f"{text}es" if text.endswith(("s", "x", "ch", "sh")) else f"{text}s", _NAME)
            add(text[:-1] if noun.endswith("s") and len(noun) >= _PLURAL else text, _NAME)
        if text.endswith("ism"):  # Lutheran, of Lutheranism
            add(text[:-3], 0)
    for text in texts:
        name = Words.of(text)
        for short in short_forms(name, name.folded()):
            plain, last = short.text(name), short.kind is NameMatch.LAST
            alone = plain.casefold() in lists("common words") or short.kind is NameMatch.DEMONYM
            alone = alone or (last and name.folded(0, 1)[0] not in lists("first names"))
            add(plain, 0 if alone else _SHORT, last)
            for title in _TITLES if last else ():
                add(f"{title} {plain}", _SHORT)
    folded = frozenset[str]().union(*(Words.of(text).folded() for text in texts))
    return _Names(tuple(forms.values()), folded, any(map(has_digits, texts)))


def _places(words: Words, named: Mapping[str, _Names]) -> list[_Place]:
    """Where a text names objects, in order: the longest names that do not overlap, none that both objects have."""
    places, casual = [], words.text.islower()
    for mark, names in named.items():
        others = frozenset().union(*(other.folded for known, other in named.items() if known != mark))
        for form in names.forms:
            if form.rank == _NAME or (form.rank and mark and not form.folded <= others):
                places += [
                    _Place(begin, end, form.rank, mark)
                    for begin, end in words.spans(form.words)
                    if not (form.last and _is_of_other_name(words, begin, end, names))
                    and not (form.capital and not casual and words.text[words.begins[begin]].islower())
                ]
    kept: dict[int, _Place] = {}  # by the number of each word
    for place in sorted(places, key=lambda place: (place.begin - place.end, -place.rank, not place.mark)):
        rivals = {kept.get(at) for at in (place.begin, place.end - 1)} - {None}
        if not rivals:
            kept.update(dict.fromkeys(range(place.begin, place.end), place))
        elif place.mark and rivals == {place._replace(mark=_OLD if place.mark == _NEW else _NEW)}:
            kept.update(dict.fromkeys(range(place.begin, place.end), place._replace(mark=_SUBJECT)))
    return sorted({place for place in kept.values() if place.mark})


def _is_of_other_name(words: Words, begin: int, end: int, names: _Names) -> bool:
    """Whether another first or last name stands beside a last name."""
    for at, gap in ((begin - 1, begin), (end, end)):
        if 0 < gap < len(words) and words.text[words.ends[gap - 1] : words.begins[gap]] == " ":
            [folded], text = words.folded(at, at + 1), words.between(at, at + 1)
            known = folded in names.folded or folded in lists("titles") or folded in lists("common words")
            if folded in PARTICLES or (len(text) > 1 and text[0].isupper() and not known):
                return True
    return False


def _statements(marked: str) -> Iterator[tuple[str, bool]]:
    """Each mark in a text, and whether what is around it denies that the object is the answer."""
    for match in _MARK.finditer(marked):
        before, after = marked[max(0, match.start() - _NEAR) : match.start()], marked[match.end() :][:_NEAR]
        denied = (
            (_BEFORE.search(before) or _AFTER.match(after) or _WITHHELD.search(before))
            or (_FROM.search(before) and _ORIGIN.match(after))
            or (_SAYING.search(before) and _FALSE.match(after))
            or (_WAS.search(before) and (_UNTIL.match(after) or _NOW.match(after)))
            or ((asked := _ASKED.match(after)) and (asked[1] is None or _OFFERED.search(before)))
        )
        yield match[0], bool(denied)


def _alone(text: str, named: Mapping[str, _Names], question: str) -> set[str]:
    """The marks of the objects of whose name an answer is nothing but a part, which the question does not hold."""
    part = Words.of(uniform(_LEAD.sub("", first_line(text), count=1), named[_NEW].numbers))
    folded = set(part.folded()) - _SMALL_WORDS
    if not 0 < len(part) <= _MOST_ALONE or folded <= named[_SUBJECT].folded | set(words_of(question)):
        return set()
    new, old = (max((_rank(part, form) for form in named[mark].forms), default=0) for mark in _MARKS)
    return {_NEW} if new > old else {_OLD} if old > new else set()


def _rank(part: Words, form: _Form) -> int:
    """2 if a text is a form, 1 if it is a part of a name that tells it: "State of Palestine", not "Tower of London"."""
    if form.words.folded() == part.folded():
        return 2
    befores = [form.words.folded(0, begin + 1) for begin, _ in form.words.spans(part)] if form.rank == _NAME else ()
    return int(any(_PREPOSITIONS.isdisjoint(before) or not _PLACES_AND_HOUSES.isdisjoint(before) for before in befores))
