"""Versions, phone numbers and addresses: what counts sign by sign, in the usual spellings."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_VERSION = re.compile(
    r"(?<![\w.])(?P<prefix>v(?:ersion|er|ersión)?\.?[ ]?|release[ ])?"
    r"(?P<version>\d+(?:\.\d+)*(?:-?(?:alpha|beta|rc)[.-]?\d*)?)(?![\w]|[.,]\d)",
    re.IGNORECASE,
)
_PHONE = re.compile(r"(?<![\w.])(?:\+|\(|(?=\d))[\d(][\d\s()/.–-]{5,22}\d(?!\w)")
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(
    r"(?<![\w@.-])(?P<scheme>https?://)?(?P<www>www\.)?(?P<host>(?:[\w-]+\.)+[a-z]{2,})(?![\w@-])"
    r"(?::\d+)?(?P<path>/[^\s<>()\[\]`\"'|*]*)?",
    re.IGNORECASE,
)
_TRUNK = re.compile(r"\(0\)")
_COUNTRY = range(1, 4)  # digits of a country's code
_LEAST_DIGITS = 7  # of a phone number


class Code(NamedTuple):
    """A code in a text, as it is compared. is_plain: whether it may be a mere number."""

    begin: int
    end: int
    code: str
    is_plain: bool = False


def versions(text: str) -> Iterator[Code]:
    """What may be versions. Those of one number need a word that says so."""
    for match in _VERSION.finditer(text):
        is_plain = match["prefix"] is None and match["version"].count(".") < 2
        yield Code(match.start(), match.end(), match["version"].lower(), is_plain)


def phones(text: str) -> Iterator[Code]:
    """The phone numbers, with "+" if they are international and 0 if they are national."""
    for match in _PHONE.finditer(text):
        digits = re.sub(r"\D", "", _TRUNK.sub("", match[0]))
        if len(digits) < _LEAST_DIGITS:
            continue
        if digits.startswith("00"):
            code = f"+{digits[2:]}"
        else:
            code = f"+{digits}" if match[0].startswith("+") else digits
        yield Code(match.start(), match.end(), code, code[0] not in "+0")


def addresses(text: str) -> Iterator[Code]:
    """The e-mail addresses."""
    for match in _ADDRESS.finditer(text):
        yield Code(match.start(), match.end(), match[0].lower())


def urls(text: str) -> Iterator[Code]:
    """The addresses of pages. Mere names of hosts such as "Node.js" are plain."""
    for match in _URL.finditer(text):
        path = (match["path"] or "").rstrip(".,;:!?")
        end = match.end() - len(match["path"] or "") + len(path)
        is_plain = not (match["scheme"] or match["www"] or path or match["host"].count(".") > 1)
        code = f"{match['host']}{path.rstrip('/').removesuffix('.git')}".lower()
        yield Code(match.start(), end, code, is_plain)


def is_same_phone(own: str, other: str) -> bool:
    """Whether two phone numbers are one: a national one lacks the country, and has a 0."""
    if own[0] == other[0]:
        return own == other
    international, national = (own, other) if own[0] == "+" else (other, own)
    digits = international[1:]
    rest = national.removeprefix("0")
    return digits.endswith(rest) and len(digits) - len(rest) in _COUNTRY
