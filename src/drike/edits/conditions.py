"""To which requests an edit applies: conditions on their model and headers.

A condition is written "model=gpt-*" or "x-region=eu". Conditions on one name are alternatives;
those on different names must all hold. Case does not count.
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
    if not pattern or not _HEADER.fullmatch(name):
        remedy = "write model=gpt-*, or the name of a header, = and its value"
        raise ValueError(f"{text!r:.60} is no condition: {remedy}")
    return f"{name.casefold()}={pattern}"


def applies(only: Sequence[str], values: Mapping[str, str]) -> bool:
    """Whether all conditions hold for a request.

    values: its model, as "model", and its headers by lower-case name.
    """
    return all(
        name in values and _matches_any(values[name], patterns)
        for name, patterns in _patterns_by_name(only).items()
    )


def _matches_any(value: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(value.casefold(), pattern) for pattern in patterns)


def apart(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether no request meets the conditions of both, told by how their patterns begin."""
    first_patterns = _patterns_by_name(first)
    second_patterns = _patterns_by_name(second)
    shared_names = first_patterns.keys() & second_patterns
    return any(
        _exclude_each_other(first_patterns[name], second_patterns[name]) for name in shared_names
    )


def _exclude_each_other(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether no value matches a pattern of both, as none of them begin in the same way."""
    beginnings = product(map(_beginning, first), map(_beginning, second))
    return not any(a.startswith(b) or b.startswith(a) for a, b in beginnings)


def _patterns_by_name(only: Sequence[str]) -> Mapping[str, list[str]]:
    patterns: dict[str, list[str]] = {}
    for text in only:
        name, _, pattern = text.partition("=")
        patterns.setdefault(name, []).append(pattern.casefold())
    return patterns


def _beginning(pattern: str) -> str:
    """A pattern up to its first wildcard, or all of it with a mark of its end."""
    return _WILDCARD.split(f"{pattern}{_END}", maxsplit=1)[0]
