"""zsRE in MEND's form (Levy et al. 2017; Mitchell et al. 2022).

These are evaluation and training rows, and EasyEdit's copies. The neighbour is asked as ROME and
MEMIT ask it, with "nq question: " and with a question mark. `pred` (the answer of MEND's own
model), `cond` and `portability` are not read.
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
    return row.values.keys() >= {"subject", "src", "answers"}


def _edits(row: Row, target: Target) -> list[Edit]:
    true = row.answer("answers")
    if target == "alt":
        return [edit_about(row, "src", row.text("alt"), true)]
    return [edit_about(row, "src", true, None)]


def _questions(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    [edit] = edits
    for text in row.aliases("rephrase"):
        yield paraphrase(edit, text)
    yield neighbour(edit, with_question_mark(row.text("loc")), row.answer("loc_ans"))


def _answers(row: Row) -> Sequence[str]:
    return row.aliases("answers")


FORM = Form(
    "zsRE in MEND's form (src, rephrase, alt, answers, loc, loc_ans)",
    _recognises,
    _edits,
    _questions,
    answers=_answers,
)
