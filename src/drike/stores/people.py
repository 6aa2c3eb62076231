"""Who made a change, as a history has it: a name, a name with the role of its key, or a name that somebody claims."""

from __future__ import annotations

import json
import re
import unicodedata

_MARK = re.compile(r"[(\"]|^\W*key\b|\badmin port\b|\bimported by\b", re.IGNORECASE)  # of an author by a gateway
_BY_KEY = re.compile(r"\((key [0-9a-f]{8}|admin port, [^()]*)\)$")  # who really made a change, where a name is claimed
_ROLE = re.compile(r" \((report|use|propose|approve|admin)\)$")


def claimed_author(name: str, who: str) -> str:
    """The author of a change, by the name that someone gives; in quotation marks if it reads like a mark of drike's."""
    plain = unicodedata.normalize("NFKC", name)
    return f"{json.dumps(name, ensure_ascii=False) if _MARK.search(plain) else name} ({who})"


def imported_author(name: str | None, who: str | None) -> str | None:
    """The author of an imported edit: as the file has it, with who imported it where it reads like a mark."""
    marked = name and _MARK.search(unicodedata.normalize("NFKC", name))
    return claimed_author(name, f"imported by {who or 'someone'}") if name and marked else name or who


def person(author: str | None) -> str:
    """The person who made a change, by what its author is written as: without the role, as a name or a key; or ""."""
    claimed = _BY_KEY.search(author or "")
    return (claimed[1] if claimed else _ROLE.sub("", author or "")).casefold()
