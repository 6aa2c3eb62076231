"""Whom a system text names, and in whose name it says that the assistant answers: the host."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from drike.edits.record import EditVersion, Status
from drike.gates.index import EditIndex
from drike.gates.names import find_names, read_words
from drike.text.name_forms import key_of
from drike.text.phrases import find_phrase
from drike.text.sentences import sentence_around
from drike.text.short_forms import is_made_up
from drike.text.unnamed import KINDS_OF_ORGANISATIONS
from drike.text.words import Words, mentions, words

_MOST = 64  # edits of a system text's subjects that are kept
_BEFORE_PLACES = (" in ", " near ", " from ", " of the city of ")
_MOST_NAMES = 8  # of a sentence, that are looked up with a kind of organisation
# Some words in a row with capitals.
_CAPITALS = re.compile(r"[A-Z][\w&'’-]*(?: (?:[A-Z&][\w'’-]*))*")
# An old object that can be recognised anywhere: a name, no amount and no common word.
_NAME = re.compile(r"[^\W\d_](?=.*[A-Z])[^\d]+")


@dataclass(frozen=True)
class Host:
    """Whom the system texts so far name.

    edits: ids of edits whose subjects they name, those of the host first. spoken_for: of these,
    those of subjects in whose name the assistant answers. outdated: those whose old object a system
    text names. called: what the host may be called, such as "hotel".
    """

    edits: tuple[int, ...] = ()
    spoken_for: frozenset[int] = frozenset()
    outdated: frozenset[int] = frozenset()
    called: frozenset[str] = frozenset()

    def with_more(self, other: Host) -> Host:
        """Both; of two system texts, the first that says it says in whose name the answers are."""
        return Host(
            tuple(dict.fromkeys((*self.edits, *other.edits)))[:_MOST],
            self.spoken_for or other.spoken_for,
            self.outdated | other.outdated,
            self.called or other.called,
        )


def host_of(text: str, index: EditIndex) -> Host:
    """Whom a system text names."""
    text_words = read_words(text)
    named = sorted(index.named(text))
    sentence = ""  # the first that says in whose name the assistant answers; later ones may be
    spoken_for: dict[int, None] = {}  # about competitors
    sure_names = [m for m in find_names(text_words, index.lookup.names) if m.certain]
    for mention in sure_names:
        around = _sentence_around(text_words, mention.begin, mention.end)
        speaks = find_phrase(around, "speaking") is not None
        if speaks and around == (sentence or around):
            sentence = around
            spoken_for |= dict.fromkeys(mention.edits)
    if not spoken_for:
        sentence = _first_speaking_sentence(text)
        spoken_for = dict.fromkeys(_called_by_kind(sentence, index))
    if not spoken_for and len({mention.edits for mention in sure_names}) == 1:
        spoken_for = dict.fromkeys(sure_names[0].edits)  # the only one that there is
    names = [index.edits[id].record.subject for id in islice(spoken_for, _MOST_NAMES)]
    spoken_for |= dict.fromkeys(_of_same_name(names or _names_in(sentence), index))

    edits = _active(index, (*spoken_for, *named))
    return Host(
        edits=tuple(edit.id for edit in edits),
        spoken_for=frozenset(spoken_for),
        outdated=frozenset(edit.id for edit in edits if _names_old(text, edit)),
        called=KINDS_OF_ORGANISATIONS.intersection(words(sentence)),
    )


def _active(index: EditIndex, edit_ids: Iterable[int]) -> list[EditVersion]:
    edits = (index.edits[edit_id] for edit_id in dict.fromkeys(edit_ids))
    return list(islice((e for e in edits if e.record.status is Status.ACTIVE), _MOST))


def _sentence_around(text_words: Words, begin: int, end: int) -> str:
    first = text_words.begins[begin]
    last = text_words.ends[end - 1]
    start, stop = sentence_around(text_words.text, first, last)
    return text_words.text[start:stop]


def _first_speaking_sentence(text: str) -> str:
    """The first sentence that says in whose name an assistant answers; "" without one."""
    place = find_phrase(text, "speaking")
    if place is None:
        return ""
    start, stop = sentence_around(text, place, place)
    return text[start:stop]


def _called_by_kind(sentence: str, index: EditIndex) -> list[int]:
    """The ids of edits whose subject a sentence calls by its name and its kind apart.

    "You are the concierge of Harbor, a hotel in Trieste" names Harbor Hotel.
    """
    found: list[int] = []
    kinds = sorted(KINDS_OF_ORGANISATIONS.intersection(words(sentence)))
    for name in islice(_CAPITALS.findall(sentence), _MOST_NAMES):
        for kind in kinds:
            found += index.lookup.names.exact(f"{name} {kind}")
            found += index.lookup.names.exact(f"{kind} {name}")
    return sorted(found)


def _names_in(sentence: str) -> list[str]:
    """The words with capitals of a sentence, but for its first and for places: "in Trieste"."""
    return [
        found[0]
        for found in islice(_CAPITALS.finditer(sentence), _MOST_NAMES)
        if found.start() and not sentence[: found.start()].endswith(_BEFORE_PLACES)
    ]


def _of_same_name(names: Iterable[str], index: EditIndex) -> list[int]:
    """The ids of edits about what is called after one of some names, as a firm's products are.

    The Querystone API and the Querystone Team plan are called after Querystone. A common word says
    nothing: New York is not called after the New Hotel.
    """
    found: dict[int, None] = {}
    for name in names:
        word = next(filter(is_made_up, words(name)), None)
        if word is None:
            continue
        ids = index.lookup.by_telling_word.get(key_of(word), ())
        for edit_id in islice(ids, _MOST):
            if word in words(index.edits[edit_id].record.subject):
                found[edit_id] = None
    return sorted(found)


def _names_old(text: str, edit: EditVersion) -> bool:
    old_object = edit.record.target_true or ""
    return is_name(old_object) and mentions(text, old_object)


def is_name(old_object: str | None) -> bool:
    """Whether an old object can be recognised wherever a question names it."""
    return old_object is not None and _NAME.fullmatch(old_object) is not None
