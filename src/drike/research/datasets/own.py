"""Own facts, in files that `drike edits import` reads, too; what only a store uses is not read here."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

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
from drike.research.datasets.read_log import ReadLog
from drike.stores.columns import (
    COLUMNS,
    NEEDED,
    SEPARATOR,
    SIMILARITY,
    columns_by_name,
    name_of,
)
from drike.support.rows import Row, shown
from drike.text.templates import query_template


def missing(row: Row) -> DataError | None:
    """Which needed field is missing or misspelt; None if all are there, or nothing like one of them."""
    lacking = [name for name in NEEDED if name not in map(name_of, row.values)]
    meant = {
        name: near[0]
        for name in lacking
        if (near := get_close_matches(name, row.values, n=1, cutoff=SIMILARITY))
    }
    if not lacking or not (meant or len(lacking) < len(NEEDED)):
        return None
    name = next(iter(meant or lacking))
    hint = f" ({shown(meant[name])}: did you mean {name}?)" if meant else ""
    return DataError(f"{row.place} has no field {name!r}{hint}; {COLUMNS}")


def _edits(row: Row, target: Target) -> list[Edit]:
    names = columns_by_name(row)
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
    edit, names = edits[0], columns_by_name(row)
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
    lambda row: {*NEEDED} <= {*map(name_of, row.values)}, _edits, _asked, published=False,
)  # fmt: skip
