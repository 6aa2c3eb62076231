"""Own facts, in files that `drike edits import` reads, too.

What only a store uses is not read here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from drike.edits.edit import Edit
from drike.errors import DataError
from drike.research.datasets.cleaning import Templates
from drike.research.datasets.form import Form, Questions, Target, neighbour, paraphrase
from drike.research.datasets.read_log import ReadLog
from drike.stores.columns import (
    COLUMNS,
    NEEDED,
    SEPARATOR,
    SIMILARITY,
    columns_by_name,
    name_of,
    says_nothing,
    states_nothing,
)
from drike.support.rows import Row, shown
from drike.text.templates import query_template


def missing(row: Row) -> DataError | None:
    """The error for a needed field that is missing or misspelt.

    None if all are there, or nothing like one of them: then the row is of another form.
    """
    names = [name_of(column) for column in row.values]
    lacking = [name for name in NEEDED if name not in names]
    misspelt_as = _misspellings(lacking, row)
    if not lacking or (len(lacking) == len(NEEDED) and not misspelt_as):
        return None

    if misspelt_as:
        name, column = next(iter(misspelt_as.items()))
        hint = f" ({shown(column)}: did you mean {name}?)"
    else:
        name = lacking[0]
        hint = ""
    return DataError(f"{row.place} has no field {name!r}{hint}; {COLUMNS}")


def _misspellings(names: Sequence[str], row: Row) -> dict[str, str]:
    """For each of the names that a column of the row is like, that column."""
    column_by_name = {}
    for name in names:
        similar = get_close_matches(name, row.values, n=1, cutoff=SIMILARITY)
        if similar:
            column_by_name[name] = similar[0]
    return column_by_name


def _recognises(row: Row) -> bool:
    names = {name_of(column) for column in row.values}
    return names.issuperset(NEEDED)


def _edits(row: Row, target: Target) -> list[Edit]:
    columns = columns_by_name(row)
    query, target_new = (_needed_text(row, columns, name) for name in NEEDED)
    target_true = _text_if_any(row, columns, "target_true") or None
    subject = _text_if_any(row, columns, "subject") or None
    relation = _text_if_any(row, columns, "relation") or None
    if relation is None and subject is not None:
        relation = query_template(query, subject)
    return [Edit(query, target_new, target_true, subject, relation)]


def _needed_text(row: Row, columns: Mapping[str, Sequence[str]], name: str) -> str:
    """The text of a needed column. Raises DataError for one that a spreadsheet left or spoilt."""
    names = columns.get(name, [name])
    text = row.text(*names)
    if states_nothing(text):
        problem = (
            f"is {shown(text)!r}, by which tables mark an empty cell or an error, or shorten a "
            "number"
        )
        raise row.wrong(names[0], problem)
    return text


def _text_if_any(row: Row, columns: Mapping[str, Sequence[str]], name: str) -> str:
    """The text in the first column of a name; "" if the row lacks it or says nothing there."""
    return _text_in(row, columns[name][0]) if name in columns else ""


def _text_in(row: Row, column: str) -> str:
    value = row.values.get(column)
    return "" if value is None or says_nothing(value) else row.text(column)


def _questions(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    [edit] = edits
    columns = columns_by_name(row)
    for column in columns.get("paraphrase", ()):
        for text in _texts_in(row, column):
            yield paraphrase(edit, text)

    for pair in row.objects("neighborhood"):
        yield neighbour(edit, pair.text("prompt"), pair.text("answer"))
    for column in columns.get("neighborhood_prompt", ()):
        query = _text_in(row, column)
        answer = _text_in(row, column.replace("prompt", "answer"))
        if query or answer:
            yield neighbour(edit, query, answer)


def _texts_in(row: Row, column: str) -> tuple[str, ...]:
    """The texts of a cell: a list, or several in one text with separators between them."""
    cell = row.values[column]
    if isinstance(cell, str):
        texts = [text for text in cell.split(SEPARATOR) if text.strip()]
    else:
        texts = cell or []
    if isinstance(texts, list):
        texts = [text for text in texts if not says_nothing(text)]
    with_list = replace(row, values={**row.values, column: texts})
    return with_list.texts(column)


FORM = Form(
    "own facts "
    "(prompt, target_new; where known subject, target_true, paraphrase, neighborhood_prompt, ...)",
    _recognises,
    _edits,
    _questions,
    is_published=False,
)
