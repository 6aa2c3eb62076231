"""People by a title and their last name: "Ms Okonjo" for Samira Okonjo."""

from __future__ import annotations

import re
from collections.abc import Sequence

from drike.text.fingerprints import extended
from drike.text.name_forms import key_of

_ANY_TITLE = "ms"  # stands for all titles where such names are looked up
# Two to four words that may be a person's.
_PERSON = re.compile(
    r"[A-ZÀ-Þ][\w'’-]+(?: (?:[A-Z]\.|[a-z]{1,3}|[A-ZÀ-Þ][\w'’-]+)){0,2} (?P<last>[A-ZÀ-Þ][\w'’-]+)"
)

# What stands before a name that is written with titles: "Prof. Dr. Ilse Brandner".
_TITLES = re.compile(
    r"(?:(?:Dr|Prof|Professor|Doctor|Mr|Mrs|Ms|Miss|Sir|Dame|Frau|Herr|Mme|Madame|Monsieur|Sr|Sra"
    r"|Rev|Ing|Mag|Dipl)\b\.?(?:-Ing\.?)? )+"
)


def names_of_person(name: str) -> tuple[str, ...]:
    """What else a person may be called: without titles, and by a title and the last name.

    () for what may be no person's name.
    """
    titles = _TITLES.match(name)
    plain = name[titles.end() :] if titles else name
    person = _PERSON.fullmatch(plain)
    if person is None:
        return ()
    with_title = f"{_ANY_TITLE} {person['last']}"
    return (plain, with_title) if titles else (with_title,)


def key_of_titled(last_name: Sequence[int]) -> int:
    """The fingerprint of any title with a last name, given the fingerprint of that, if any."""
    prefix = extended(0, key_of(_ANY_TITLE))
    return extended(prefix, last_name[0]) if last_name else 0
