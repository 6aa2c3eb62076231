"""The names of the months in English, German, Spanish and French, wherever they are looked for."""

from __future__ import annotations

import re
from functools import cache

from drike.text.word_lists import data_sections

LANGUAGES = ("english", "german", "spanish", "french")


@cache
def month_numbers() -> dict[str, int]:
    """The number of a month, from 1 on, by each of its names in lower case, English ones first."""
    return {
        name: number
        for line in data_sections("text/months.txt").values()
        for number, name in enumerate(line[0].split(), 1)
    }


@cache
def month_names(*sections: str) -> tuple[str, ...]:
    """The names of months.txt's sections, such as "english" or "german short"; all full ones."""
    sections = sections or LANGUAGES
    lines = data_sections("text/months.txt")
    return tuple(dict.fromkeys(name for section in sections for name in lines[section][0].split()))


@cache
def months_pattern(*sections: str) -> str:
    """A regular expression for the same names in lower case, without a group around it."""
    names = sorted(month_names(*sections), key=len, reverse=True)
    return "|".join(map(re.escape, names))
