"""zsRE in MEND's form (Levy et al. 2017; Mitchell et al. 2022): evaluation and training rows, and EasyEdit's copies.

The neighbour is asked as ROME and MEMIT ask it: with "nq question: " and with a question mark. `pred` (the answer of
MEND's own model), `cond` and `portability` are not read.
"""

from __future__ import annotations

from drike.datasets.form import Form, Target, edit_about, question
from drike.datasets.rows import Row
from drike.edits import Edit


def _edit(row: Row, target: Target) -> Edit:
    edit, true = edit_about(row, "src"), row.answer("answers")
    return edit(row.text("alt"), true) if target == "alt" else edit(true, None)


FORM = Form(
    name="zsRE in MEND's form (src, rephrase, alt, answers, loc, loc_ans)",
    recognises=lambda row: row.values.keys() >= {"subject", "src", "answers"},
    edit=_edit,
    answers=lambda row: row.aliases("answers"),
    paraphrases=lambda entry, known: entry.row.aliases("rephrase"),
    neighbours=lambda entry: [(question(entry.row.text("loc")), entry.row.answer("loc_ans"))],
)
