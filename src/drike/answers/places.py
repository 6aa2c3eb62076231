"""Places with the country that they are in: "Bergen, Norway"."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from drike.text.word_lists import demonyms, word_list
from drike.text.words import words

_PLACE_AND_COUNTRY = re.compile(
    r"(?P<place>[^,()\d]{2,40}?)(?:, | \()(?:[^,()]{2,40}, )?(?P<country>[^,()]{2,40})\)?"
)


@lru_cache(maxsize=1 << 10)  # edits are judged many times
def place_and_country(name: str) -> tuple[str, ...]:
    """The place and the country of "Bergen, Norway" or "Bergen (Norway)"; () of any other name."""
    match = _PLACE_AND_COUNTRY.fullmatch(name.strip(" ."))
    if match is None or not match["place"][0].isupper():
        return ()
    country = " ".join(words(match["country"]))
    is_place = country in _countries() and " ".join(words(match["place"])) not in _countries()
    return (match["place"], match["country"]) if is_place else ()


@cache
def _countries() -> frozenset[str]:
    """The names of countries and states, as words are compared."""
    return frozenset(demonyms()) | word_list("states")


def is_elsewhere(names: Sequence[str], answer: str) -> bool:
    """Whether an answer gives another place of the country: "Oslo, Norway" for "Bergen, Norway"."""
    place, country = names
    other = re.compile(rf"(\w*[^\W\d_a-z][\w'-]*)(?:,| in) {re.escape(country)}\b")
    given = [match[1] for match in other.finditer(answer)]
    return bool(given) and not any(name in place.split() for name in given)
