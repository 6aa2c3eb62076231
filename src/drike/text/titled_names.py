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


def titled(name: str) -> str | None:
    """What may be a person's name as a title and the last name; None for what is none."""
    person = _PERSON.fullmatch(name)
    return f"{_ANY_TITLE} {person['last']}" if person else None


def key_of_titled(last_name: Sequence[int]) -> int:
    """The fingerprint of any title with a last name, given the fingerprint of that, if any."""
    prefix = extended(0, key_of(_ANY_TITLE))
    return extended(prefix, last_name[0]) if last_name else 0
