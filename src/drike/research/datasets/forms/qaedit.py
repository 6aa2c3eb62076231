"""QAEdit (Yang et al. 2025): natural questions, each with a rephrased one and unrelated ones.

The old object is what the model would have said, which is not published.
"""

from collections.abc import Sequence

from drike.edits.edit import Edit
from drike.research.datasets.cleaning import Templates
from drike.research.datasets.form import (
    Form,
    Questions,
    Target,
    edit_about,
    neighbour,
    paraphrase,
    with_question_mark,
)
from drike.research.datasets.read_log import ReadLog
from drike.support.rows import Row


def _recognises(row: Row) -> bool:
    return row.values.keys() >= {"prompt", "target", "rephrase", "locality"}


def _edits(row: Row, target: Target) -> list[Edit]:
    return [edit_about(row, "prompt", row.text("target"), None)]


def _questions(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    [edit] = edits
    yield paraphrase(edit, row.text("rephrase"))
    for unrelated in row.objects("locality"):
        query = with_question_mark(unrelated.text("loc"))
        yield neighbour(edit, query, unrelated.text("loc_ans"))


FORM = Form("QAEdit (prompt, target, subject, rephrase, locality)", _recognises, _edits, _questions)
