"""To which requests an edit applies: conditions on their model and headers, as "model=gpt-*" or "x-region=eu".

Conditions on one name are alternatives; those on different names must all hold. Case does not count.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a name of HTTP
_WILDCARD = re.compile(r"[*?\[]")
_END = "\n"  # of a pattern without wildcards


def condition(text: str) -> str:
    """A condition, its name in lower case. Raises ValueError for a text that is none."""
    name, _, pattern = (part.strip() for part in text.partition("="))
    if not (pattern and _HEADER.fullmatch(name)):
        raise ValueError(
            f"{text!r:.60} is no condition: write model=gpt-*, or the name of a header, = and its value"
        )
    return f"{name.casefold()}={pattern}"


def applies(only: Sequence[str], values: Mapping[str, str]) -> bool:
    """Whether all conditions hold for a request. values: its model, as "model", and its headers by lower-case name."""
    said = ((values.get(name), patterns) for name, patterns in _by_name(only).items())
    return all(
        value is not None and any(fnmatchcase(value.casefold(), p) for p in own)
        for value, own in said
    )


def apart(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether no request meets the conditions of both, told by how their patterns begin."""
    one, other = _by_name(first), _by_name(second)
    shared = (
        product(map(_beginning, one[name]), map(_beginning, other[name]))
        for name in one.keys() & other
    )
    return any(not any(a.startswith(b) or b.startswith(a) for a, b in pairs) for pairs in shared)


def _by_name(only: Sequence[str]) -> Mapping[str, list[str]]:
    patterns: dict[str, list[str]] = {}
    for name, _, pattern in (text.partition("=") for text in only):
        patterns.setdefault(name, []).append(pattern.casefold())
    return patterns


def _beginning(pattern: str) -> str:
    """A pattern up to its first wildcard, or all of it with a mark of its end."""
    return _WILDCARD.split(f"{pattern}{_END}", maxsplit=1)[0]
