"""What a text asks for, by its words (`asking.txt`): the kind of answer, and relations that exclude each other."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, islice
from math import exp

from drike.edits.record import EditRecord
from drike.encoders.base import content
from drike.gates.name_index import Mention
from drike.text.glossary import glossed, own_name
from drike.text.short_forms import lists, sections
from drike.text.words import Words, masked, mentions, words

_LONGEST = 1_000  # characters of a question
_NEAR = 200  # characters on either side of a name in which a text may say something about it
_MOST_PLACES = 32  # at which a text names a subject
_STEM = 5  # letters by which forms of a word are told from other words
_LITTLE = (
    0.5  # content of a text that hardly says what is asked: "it is in" has .2, "it works as" .9
)

Groups = Mapping[
    str, Sequence[tuple[int, int]]
]  # of relations that exclude each other, with a number, by word


def _groups(lines: Iterable[str]) -> Groups:
    """Groups of relations, from lines of relations with "|" between them."""
    groups = defaultdict[str, list[tuple[int, int]]](list)
    for group, line in enumerate(lines):
        for relation, said in enumerate(line.split("|")):
            for word in set(said.split()):
                groups[word].append((group, relation))
    return dict(groups)


_LISTS = sections("text/asking.txt")
_CONTRARIES, OPPOSITES, _CASES = (
    _groups(_LISTS[name]) for name in ("contraries", "opposites", "cases")
)
_FAMILY, _EMPTY, _ANY_MEASURE = (
    frozenset(words(" ".join(_LISTS[of]))) for of in ("family", "empty", "any measure")
)
_MEASURES = [_ANY_MEASURE.union(line.split()) for line in _LISTS["measures"]]

_KINDS = dict(line.split(": ") for line in _LISTS["kinds"])
_KIND = re.compile(
    "|".join(rf"(?P<{kind}>\b(?:{pattern})\b)" for kind, pattern in _KINDS.items()), re.IGNORECASE
)


@lru_cache(4_096)
def answer_kind(text: str) -> str | None:
    """What a text asks for: a person, time, number, place or language; None if no word says."""
    kinds = {match.lastgroup for match in _KIND.finditer(text)}
    return next((kind for kind in _KINDS if kind in kinds), None)


def contrary(first: str, second: str, groups: Groups = _CONTRARIES) -> bool:
    """Whether two texts ask for different relations of a kind, as the father and the mother. groups: or `OPPOSITES`."""
    return _exclude(words(first), words(second), groups)


def relation_features(first: str, second: str) -> dict[str, float]:
    """What two texts with "it" for the subject have in common, by their words."""
    kinds = answer_kind(first), answer_kind(second)
    return {
        "same_kind": float(kinds[0] is not None and kinds[0] == kinds[1]),
        "other_kind": float(None not in kinds and kinds[0] != kinds[1]),
        "contrary": float(contrary(first, second)),
        "vague": exp(-min(content(first), content(second)) / _LITTLE),
    }


def _exclude(first: Iterable[str], second: Iterable[str], groups: Groups) -> bool:
    """Whether words of two texts are of different relations of a group, and of none together."""
    one, other = _relations(first, groups), _relations(second, groups)
    return any(not relations & other.get(group, relations) for group, relations in one.items())


def _relations(said: Iterable[str], groups: Groups) -> dict[int, set[int]]:
    """The relations that have one of these words, by their group."""
    relations = defaultdict[int, set[int]](set)
    for group, relation in (place for word in said for place in groups.get(word, ())):
        relations[group].add(relation)
    return relations


def _stems(said: Iterable[str]) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in said if word not in _EMPTY)


_VAGUE = _stems(("located", "situated", "associated", "belongs"))  # of many relations
_RELATIONS = [relation.split() for line in _LISTS["contraries"] for relation in line.split("|")]
_SYNONYMS = [_stems(relation) for relation in _RELATIONS if len(relation) > 1]  # of one relation


def share_said(question: str, record: EditRecord) -> float:
    """How much of what an edit's wording asks for that a question says; all if it checks an object."""
    objects = (
        name for name in (record.target_true, record.target_new, *record.object_aliases) if name
    )
    telling = (
        name
        for name in objects
        if not name.isdigit() and name.casefold() not in lists("common words")
    )
    if not is_open(question) and any(mentions(question, name) for name in telling):
        return 1.0
    asked, shares = _stems(words(question)), list[float]()
    for wording in (record.query, *record.paraphrases):
        weights = _weights(wording, record.names)
        said = sum(weight for word, weight in weights.items() if word[:_STEM] in asked)
        shares.append(said / max(sum(weights.values()), 1e-9))
    return max(shares)


@lru_cache(4_096)
def _weights(wording: str, names: tuple[str, ...]) -> dict[str, float]:
    """What each word of a wording counts for that says what is asked about its subject."""
    return {
        word: content(word) for word in words(glossed(masked(wording, names))) if word not in _EMPTY
    }


def _any(name: str) -> str:
    return f"(?:{'|'.join(_LISTS[name])})"


_BESIDES = re.compile(rf"[,(]?\s*\b{_any('besides')}\b[^,.;?!]*", re.I)
_ASIDE = re.compile(
    rf"^\W*(?:{_any('polite')}\W+)*{_any('introductions')}\b[\s,:]*|[,\s]*\b{_any('asides')}\b",
    re.I,
)
_OPTIONS = re.compile(r"\s\(?A[.):]\s.*\bB[.):]\s.*", re.DOTALL)


def trimmed(question: str) -> str:
    """A question without asides, what it excludes ("besides its capital") and the answers to choose from."""
    if len(question) > _LONGEST:
        return question
    return _OPTIONS.sub("", _BESIDES.sub("", _ASIDE.sub("", question) or question))


_OPEN = re.compile(rf"\b{_any('open')}\b|{_any('open signs')}", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")
_PAST = re.compile(  # of a line the first such verb alone, so that a text of many is read in linear time
    r"^(?>.*?(?<!which )(?<!that )(?<!, )\b(?:was|were|did|had)\b)"
    rf"(?:.*\b{_any('past times')}| {_YEAR.pattern})\b|^\W*{_any('past times')}\b.*?\b(?:was|were|did|had)\b",
    re.MULTILINE,
)
_PRESENT = re.compile(
    r"\b(?:is|are|does|do|has|have)\b(?!.*\b(?:was|were|did|had)\b)", re.IGNORECASE
)
_OTHERS = re.compile(  # another than the one that an edit is about: a relative, who was it before, what is beside it
    rf"\bit(?:['’]?s)? (?P<kin>{_any('kin')})s?\b(?!\W+(?:tongue|company))"
    rf"|\b(?P<other>{_any('other')})\W(?:\w+\W){{0,2}}{_any('offices')}\b|\b(?P<time>before) the current\b"
    rf"|\b(?P<part>women|youth)['’]?s?\b|\b(?P<beside>{_any('beside')}) it\b"
)
_STATED = re.compile(
    rf"(?:the |it['’]?s )?(?:\w+ )?{_any('stated')}\b(?:(?! it['’]?s ).)* (?:is|are|was)\W*", re.I
)
_BEGINNING = re.compile(
    rf"\W*(?:{_any('before beginnings')}\W+)*{_any('beginnings')}\b", re.IGNORECASE
)


def is_open(question: str) -> bool:
    """Whether a question asks for a name or another thing, and not for yes or no."""
    return _OPEN.search(question) is not None


@lru_cache(4_096)
def _asking(question: str) -> tuple[str | None, frozenset[str]]:
    """For what a question asks by how it begins, None where that or another word does not say so; and the rest."""
    match = _BEGINNING.match(question)
    kinds = {kind.lastgroup for kind in _KIND.finditer(question)}
    rest = _stems(words(question[match.end() :] if match else question))
    return (match.lastgroup if match and kinds <= {match.lastgroup} else None), rest


def about_another(question: str, record: EditRecord, *, reverse: bool = False) -> bool:
    """Whether a question is, by its words, about another time, person or case than an edit: "its president in 1985".

    reverse: it names the object of the edit, and may ask for the subject.
    """
    wordings = (record.query, *record.paraphrases)
    lower = question.lower()  # in which patterns search in half the time
    past = is_open(question) and _PAST.search(lower) and not _PRESENT.search(lower)
    if (
        past
        and _PRESENT.search(record.query)
        and not any(y in text for y in _YEAR.findall(lower) for text in wordings)
    ):
        return True
    asked, stored = (
        set(words(question)),
        {word for text in wordings for word in _weights(text, record.names)},
    )
    for match in _OTHERS.finditer(lower):
        said = set(words(" ".join(filter(None, match.groups()))))
        if stored.isdisjoint(_FAMILY if match["kin"] else said):
            return True
    asking, rest = _asking(question)
    nouns = (
        [_STATED.fullmatch(masked(text, record.names)) for text in wordings]
        if asking and not reverse
        else []
    )
    kinds = {
        _asking(text)[0] or (noun and noun.lastgroup)
        for text, noun in zip(wordings, nouns, strict=False)
    }
    if kinds and not kinds & {None, asking}:  # else a question may begin with it
        stems = _stems(stored)
        if rest <= stems.union(*(synonyms for synonyms in _SYNONYMS if synonyms & stems)):
            return True
    return _exclude(asked, stored, _CASES)


def asks_value(question: str, record: EditRecord) -> bool:
    """Whether a question asks only for the measure of a subject whose name says of what: "our return window in days?".

    Names in capitals say no such thing: "How long is the Amazon?" has many neighbours.
    """
    said = {word for word in words(question) if len(word) > 1 and word not in _EMPTY}
    if not is_open(question) or not said <= frozenset().union(*_MEASURES):
        return False
    common = [
        text for text in (record.query, *record.paraphrases) if record.subject.lower() in text
    ]
    stored = [{*_weights(wording, record.names)} for wording in common]
    return any(own and any(own | said <= measure for measure in _MEASURES) for own in stored)


def asks_relation(question: str, record: EditRecord, *, alone: bool = False) -> bool:
    """Whether a question asks, by its words, what an edit is about, whatever its subject is. alone: nothing else."""
    asked = _stems(word for word in words(trimmed(question)) if len(word) > 1)
    for wording in (record.query, *record.paraphrases):
        wanted = _stems(_weights(wording, record.names))
        same = frozenset[str]().union(*(synonyms for synonyms in _SYNONYMS if wanted & synonyms))
        enough = wanted and (asked & same or 2 * len(wanted & asked) >= len(wanted))
        more = asked - wanted - same or " a " in question
        if enough and not (alone and more) and not contrary(question, wording):
            return True
    return False


def states_old(read: Words, record: EditRecord) -> bool:
    """Whether a text seems to state the old object of an edit, and what it is about, near a name of its subject."""
    old = Words.of(record.target_true or "")
    if not len(old) or next(read.spans(old), None) is None:
        return False
    wanted = [
        _stems(_weights(wording, record.names)) for wording in (record.query, *record.paraphrases)
    ]
    named = (span for name in record.names for span in read.spans(Words.of(name)))
    for begin, end in islice(named, _MOST_PLACES):
        near = read.text[max(0, int(read.begins[begin]) - _NEAR) : int(read.ends[end - 1]) + _NEAR]
        stated = mentions(near, old.text) and not mentions(near, record.target_new)
        if stated and (not all(wanted) or asks_relation(near, record)):
            return True
    return False


def asked_parts(text: str) -> list[tuple[str, frozenset[str]]]:
    """The parts of a text between words that say nothing about what is asked, each with the stems of its words."""
    runs = groupby(
        words(text),
        lambda word: len(word) > 1 and word not in _EMPTY and word[:_STEM] not in _VAGUE,
    )
    return [
        (" ".join(run), _stems(run)) for run in (list(some) for telling, some in runs if telling)
    ]


def object_features(
    question: str, mentions: Sequence[Mention], subjects: Sequence[Mention]
) -> dict[str, float]:
    """What tells whether a question, with "it" for an object that it mentions, asks for the subject of its edit."""
    return {
        "object": 1.0,
        "closed": float(
            not is_open(question)
        ),  # it asks for nothing by its words, as for yes or no
        "others": float(own_name(question) is not None),  # it names something else, too
        # whether the object is the subject of other edits, which the question may be about
        "subject": float(
            any((m.begin, m.end) == (s.begin, s.end) for m in mentions for s in subjects)
        ),
    }
