"""The word lists that come with drike, as they are read from data files."""

import re
from collections import defaultdict
from functools import cache
from importlib.resources import files

from drike.text.words import Words, words

_HEADING = re.compile(r"\[([a-z ]+)\]")
_NO_PLURAL = ("h", "s", "e", "hman", "hmen")  # endings of demonyms that take no s: Irish, Swiss


def data_lines(file: str) -> list[str]:
    """The lines of a file of the package, such as `text/names.txt`, without comments."""
    lines = files("drike").joinpath(file).read_text("utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


@cache
def data_sections(file: str) -> dict[str, list[str]]:
    """The lines of such a file by the heading in brackets above them."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in data_lines(file):
        if heading := _HEADING.fullmatch(line):
            lines = sections[heading[1]] = []
        else:
            lines.append(line)
    return sections


@cache
def word_list(name: str) -> frozenset[str]:
    """A list of names.txt. Its items have the form in which words are compared."""
    items = [item for line in data_sections("text/names.txt")[name] for item in line.split(",")]
    folded_items = (" ".join(item.folded()) for item in Words.of_each(items))
    return frozenset(item for item in folded_items if item)


@cache
def demonyms() -> dict[str, tuple[str, ...]]:
    """What is of a country ("French"), by the country's names as words are compared."""
    demonyms_by_country = {}
    for line in data_sections("text/names.txt")["countries"]:
        countries, _, rest = line.partition(":")
        singulars = [demonym.strip() for demonym in rest.split(",")]
        plurals = [f"{demonym}s" for demonym in singulars if not demonym.endswith(_NO_PLURAL)]
        for country in Words.of_each(countries.split(",")):
            demonyms_by_country[" ".join(country.folded())] = (*singulars, *plurals)
    return demonyms_by_country


@cache
def in_other_languages() -> dict[str, tuple[str, ...]]:
    """Names in other languages by their English names, as words are compared."""
    translations_by_name = defaultdict[str, list[str]](list)
    for line in data_sections("text/names.txt")["in other languages"]:
        names, _, translations = line.partition(": ")
        for name in names.split(", "):
            translations_by_name[" ".join(words(name))] += translations.split(", ")
    return {name: tuple(translations) for name, translations in translations_by_name.items()}


@cache
def synonyms() -> dict[str, tuple[str, ...]]:
    """All names of a place, person or thing, also in other languages, by each English one."""
    names_by_name = defaultdict[str, dict[str, None]](dict)
    for line in data_sections("text/names.txt")["in other languages"]:
        english, _, others = line.partition(": ")
        names = english.split(", ")
        for name in names:
            of_name = names_by_name[" ".join(words(name))]
            of_name |= dict.fromkeys((*names, *others.split(", ")))
    return {name: tuple(names) for name, names in names_by_name.items()}
