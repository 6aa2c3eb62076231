"""What stands around a name in a text: whether it is part of a longer one, and whether its capitals mean anything."""

from collections.abc import Collection

from drike.text.short_forms import demonyms, lists
from drike.text.words import Words

_STOPS, _AROUND = (
    frozenset(".!?:;\n…•"),
    6,
)  # what ends a sentence; words on each side that say how a text is written
_ASKED, QUESTION_WORDS = (
    8,
    frozenset(("who", "whom", "whose", "what", "which", "where", "when", "how")),
)
_LISTED, _OF = ("and", "or", "und", "y", "et"), ("of", "de", "di")
_FORMAL = 7  # words before a country that may belong to its formal name
_BEFORE_NAMES = ("about", "for", "from", "in", "of", "to", "with")


def continued(words: Words, begin: int, end: int) -> bool:
    """Whether a word in capitals or a number adjoins a name, as if it were part of a longer one: "iPhone X"."""

    def adjoins(i: int) -> bool:
        return words.text[words.ends[i] : words.begins[i + 1]] in (" ", "-", "–")

    def names(i: int) -> bool:
        return _capital(words, i) and words.folded(i, i + 1)[0] not in lists("acronyms")

    if end < len(words) and adjoins(end - 1) and names(end):
        return True
    if (
        begin > 1
        and words.folded(begin - 1, begin) == ["of"]
        and adjoins(begin - 1)
        and adjoins(begin - 2)
    ):
        begin -= 1
    return begin > 1 and adjoins(begin - 1) and names(begin - 1)


def inside(words: Words, begin: int, end: int, *, last: bool = False) -> bool:
    """Whether a name surely is part of a longer one: "Peru" in "Peru, Indiana". last: it is a person's last name."""
    own, behind = words.folded(begin, end), words.folded(end, end + 2)
    lower = words.between(begin, end).islower()  # then words around it may be in lower case, too
    if begin and _spaced(words, begin - 1):
        first = len(own) == 1 and _first_name(words, begin - 1, lower, last)
        if first or _belongs_to_before(words, begin, lower):
            return True
    if behind and _spaced(words, end - 1) and (lower or _capital(words, end)):
        if behind[0] in lists("after") or " ".join(behind) in lists("after"):
            return True
        if own[0] in lists("first names") and not lower and _last_name(words, begin, end):
            return True
    return other_place(words, begin, end) or _goes_on(words, begin, end)


def _goes_on(words: Words, begin: int, end: int) -> bool:
    """Whether a question for a name writes the word behind a name with a capital, too: "Who wrote Dune Messiah?"."""
    if end >= len(words) or not (
        _spaced(words, end - 1) and _capital(words, begin) and _capital(words, end)
    ):
        return False
    behind, before = words.between(end, end + 1), words.folded(max(0, begin - _ASKED), begin)
    named = behind[1:].islower() and behind.casefold() not in lists("common words")
    return named and not QUESTION_WORDS.isdisjoint(before) and not _titled(words, begin, end)


def _belongs_to_before(words: Words, begin: int, lower: bool) -> bool:
    """Whether what stands before a name makes another name with it: "University of", "Air", "New"."""
    i, before = begin - 1, words.folded(max(0, begin - 2), begin)
    if before[-1] in _OF and i and _spaced(words, i - 1):
        return before[0] in lists("of") and (lower or _capital(words, i - 1))
    starts = before[-1] in ("new", "north", "real", "south") and _starts(words, i)
    return before[-1] in lists("before") and (lower or _capital(words, i)) and not starts


def _last_name(words: Words, begin: int, end: int) -> bool:
    """Whether the word behind a first name is a last name, as far as one can tell: "Jordan Peterson"."""
    if (
        begin and words.folded(begin - 1, begin)[0] in _BEFORE_NAMES
    ):  # "is the capital of Jordan Amman?"
        return False
    [other] = words.folded(end, end + 1)
    return (
        other.isalpha()
        and len(other) > 2
        and other not in lists("common words")
        and not _titled(words, begin, end)
    )


def cased(words: Words, begin: int, end: int, stored: Collection[str]) -> bool:
    """Whether a name is written as one that is stored, and not only because all has capitals at its place."""
    surface = words.between(begin, end)
    if any(map(str.islower, stored)) or (
        end - begin > 1 and any(name[1:].islower() for name in stored)
    ):
        return True
    if (
        surface not in stored
        and end - begin > 1
        and words.folded(begin, begin + 1)[0] in lists("articles")
    ):
        surface = f"{surface[0].upper()}{surface[1:]}"
    if surface not in stored or _titled(words, begin, end):
        return False
    if len(surface) == 1 or surface[1:].islower():
        return not _starts(words, begin) and words.folded(begin - 1, begin)[0] not in lists(
            "german articles"
        )
    return True


def casual(words: Words, begin: int) -> bool:
    """Whether the text around a word is all in lower case, so that a name in it may be, too."""
    return words.text[max(0, words.begins[begin] - 200) : words.ends[begin] + 200].islower()


def _first_name(words: Words, i: int, lower: bool, last: bool) -> bool:
    """Whether a word is a first name, or an initial behind one. last: before a last name, so that any name is."""
    while len(word := words.folded(i, i + 1)[0]) == 1 and word not in lists("first names"):
        if not i or words.text[words.ends[i]] != ".":
            return False
        if last and _capital(words, i) and not _starts(words, i):
            return True
        i, last = i - 1, False
    if word in lists("first names"):
        return lower or _capital(words, i)
    last = last and _capital(words, i) and not _starts(words, i)
    return (
        last
        and not any(word in lists(known) for known in ("titles", "common words"))
        and not _titled(words, i)
    )


def other_place(words: Words, begin: int, end: int) -> bool:
    """Whether a country or famous town is another place by what stands around it.

    A state behind its comma, a country at a hyphen ("Denmark-Norway"), a wrong form ("Third Republic of South Korea").
    """
    if (own := " ".join(words.folded(begin, end))) not in demonyms():
        return own in lists("famous towns") and _in_state(words, end)
    return _in_state(words, end) or _joined(words, begin, end) or _other_state(words, begin, own)


def _in_state(words: Words, end: int) -> bool:
    behind = words.folded(end, end + 3)
    if not behind or words.text[words.ends[end - 1] : words.begins[end]] != ", ":
        return False
    size = next((size for size in (2, 1) if " ".join(behind[:size]) in lists("states")), 0)
    return bool(size) and not (behind[size:] and behind[size] in _LISTED)


def _joined(words: Words, begin: int, end: int) -> bool:
    """Whether a hyphen joins a country with another one."""
    return any(
        words.text[words.ends[left] : words.begins[left + 1]] in ("-", "–")
        and words.folded(other, other + 1)[0] in demonyms()
        for left, other in ((begin - 1, begin - 1), (end - 1, end))
        if left >= 0 and other < len(words)
    )


def _other_state(words: Words, begin: int, own: str) -> bool:
    """Whether a form of state before "of" and a country is not how it calls itself: "Kingdom of Italy"."""
    if words.folded(max(0, begin - 1), begin) == ["the"]:
        begin -= 1
    before = words.folded(max(0, begin - _FORMAL), begin)
    if len(before) < 2 or before[-1] != "of" or before[-2] not in lists("states of"):
        return False
    country, known = own.removeprefix("the "), lists("formal names")
    starts = (i for i in range(len(before) - 1) if " ".join((*before[i:], country)) in known)
    first = begin - len(before) + next(starts, len(before))
    if first == begin:
        return _capital(words, begin - 2)
    if not (first and _capital(words, first - 1) and _spaced(words, first - 1)):
        return False
    [further] = words.folded(first - 1, first)
    return further not in lists("articles") and not (
        _starts(words, first - 1) and further in lists("common words")
    )


def _titled(words: Words, begin: int, end: int | None = None) -> bool:
    """Whether all longer words around have capitals, as in titles and texts in capitals."""
    end = end or begin + 1
    around = [*range(max(0, begin - _AROUND), begin), *range(end, min(len(words), end + _AROUND))]
    some = [i for i in around if words.ends[i] - words.begins[i] > 3]
    return len(some) > 1 and all(_capital(words, i) for i in some)


def _starts(words: Words, i: int) -> bool:
    return not i or not _STOPS.isdisjoint(words.text[words.ends[i - 1] : words.begins[i]])


def _capital(words: Words, i: int) -> bool:
    first = words.text[words.begins[i]]
    return first.isupper() or first.isdigit()


def _spaced(words: Words, i: int) -> bool:
    """Whether only a space stands between a word and the next, or a point behind an initial."""
    gap = words.text[words.ends[i] : words.begins[i + 1]]
    return gap == " " or (gap == ". " and words.ends[i] - words.begins[i] == 1)
