"""Own facts, in files that `drike edits import` reads, too; what only a store uses (`STORED`) is not read here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache

from drike.edits.edit import Edit
from drike.errors import DataError
from drike.research.datasets.form import (
    Asked,
    Form,
    Target,
    Templates,
    neighbour,
    paraphrase,
)
from drike.support.rows import ReadLog, Row, shown
from drike.text.templates import query_template

STORED = (
    "aliases", "negatives", "object_aliases", "status", "valid_from", "valid_to", "priority", "enforce", "only",
    "approved_as", "owner", "review_by", "review_days", "metadata", "source", "author", "reason", "move",
)  # fmt: skip
NEEDED = ("prompt", "target_new")
COLUMNS = (
    "the columns of own facts are prompt (or query) and target_new, and where known subject, target_true, relation, "
    "paraphrase (also paraphrase_2, ...), neighborhood_prompt with neighborhood_answer, and for a store "
    + ", ".join(STORED)
)
SEPARATOR = "|"  # of several texts in one cell
_SEVERAL = (
    "paraphrase",
    "neighborhood_prompt",
    "neighborhood_answer",
)  # may have several columns, with numbers
_PATTERNS = {name: name for name in (*NEEDED, "subject", "relation", "neighborhood", "case_id", *STORED)} | {
    "prompt": "prompt|query", "target_true": "target_true|ground_truth",
    "paraphrase": r"(?:paraphrase|wording)s?(?:_?\d+)?",
    **{name: rf"{name}(?:_?\d+)?" for name in ("neighborhood_prompt", "neighborhood_answer")},
}  # fmt: skip
_ALIKE = 0.78  # from which on a name is taken for a misspelt one: "object" is none of "subject"


def named(row: Row) -> Mapping[str, list[str]]:
    """The row's fields by what they hold. Raises DataError for an unknown field, and for two that mean the same."""
    fields: dict[str, list[str]] = {}
    for field in row.values:
        if (name := meaning(field)) is None:
            meant = f" (did you mean {close}?)" if (close := near(field.casefold())) else ""
            raise DataError(f"{row.place} has an unknown field {shown(field)!r}{meant}; {COLUMNS}")
        fields.setdefault(name, []).append(field)
        if len(fields[name]) > 1 and name not in _SEVERAL:
            raise DataError(
                f"{row.place} has {' and '.join(fields[name])}, which mean the same; remove one of them"
            )
    for answer in fields.get("neighborhood_answer", ()):
        if (prompt := answer.replace("answer", "prompt")) not in fields.get(
            "neighborhood_prompt", ()
        ):
            raise DataError(f"{row.place} has {answer} and no {prompt}; name both alike")
    return fields


@lru_cache(maxsize=1 << 10)  # rows have the same fields
def meaning(field: str) -> str | None:
    """What a field holds; None for an unknown one."""
    return next((name for name, pattern in _PATTERNS.items() if re.fullmatch(pattern, field)), None)


def near(field: str) -> str | None:
    """The field that an unknown one may be a misspelling of; None if there is none like it."""
    return next(iter(get_close_matches(field, _PATTERNS, n=1, cutoff=_ALIKE)), None)


def missing(row: Row) -> DataError | None:
    """Which needed field is missing or misspelt; None if all are there, or nothing like one of them."""
    lacking = [name for name in NEEDED if name not in map(meaning, row.values)]
    meant = {
        name: near[0]
        for name in lacking
        if (near := get_close_matches(name, row.values, n=1, cutoff=_ALIKE))
    }
    if not lacking or not (meant or len(lacking) < len(NEEDED)):
        return None
    name = next(iter(meant or lacking))
    hint = f" ({shown(meant[name])}: did you mean {name}?)" if meant else ""
    return DataError(f"{row.place} has no field {name!r}{hint}; {COLUMNS}")


def _edits(row: Row, target: Target) -> list[Edit]:
    names = named(row)
    query, new = (row.text(*names.get(name, [name])) for name in NEEDED)
    known = (
        names[name][0] if name in names else "" for name in ("target_true", "subject", "relation")
    )
    true, subject, relation = (_if_any(row, field) or None for field in known)
    return [
        Edit(
            query,
            new,
            true,
            subject,
            relation or (query_template(query, subject) if subject else None),
        )
    ]


def _if_any(row: Row, field: str) -> str:
    """The text of a field that a row may lack, or leave null."""
    return "" if row.values.get(field) is None else row.text(field)


def _asked(row: Row, edits: Sequence[Edit], log: ReadLog, known: Templates | None) -> Asked:
    edit, names = edits[0], named(row)
    for field in names.get("paraphrase", ()):
        cell = row.values[field]
        texts = (
            [text for text in cell.split(SEPARATOR) if text.strip()]
            if isinstance(cell, str)
            else cell or []
        )
        yield from (
            paraphrase(edit, text)
            for text in replace(row, values={**row.values, field: texts}).texts(field)
        )
    yield from (
        neighbour(edit, pair.text("prompt"), pair.text("answer"))
        for pair in row.objects("neighborhood")
    )
    for field in names.get("neighborhood_prompt", ()):
        query, answer = (_if_any(row, name) for name in (field, field.replace("prompt", "answer")))
        if query or answer:
            yield neighbour(edit, query, answer)


FORM = Form(
    "own facts (prompt, target_new; where known subject, target_true, paraphrase, neighborhood_prompt, ...)",
    lambda row: {*NEEDED} <= {*map(meaning, row.values)}, _edits, _asked, published=False,
)  # fmt: skip
