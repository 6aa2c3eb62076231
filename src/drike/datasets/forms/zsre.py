"""zsRE in MEND's form (Levy et al. 2017; Mitchell et al. 2022): evaluation and training rows, and EasyEdit's copies.

The neighbour is asked as ROME and MEMIT ask it: with "nq question: " and with a question mark. `pred` (the answer of
MEND's own model), `cond` and `portability` are not read.
"""

from __future__ import annotations

from drike.datasets.form import Entry, Form, Target
from drike.datasets.paraphrases import query_template
from drike.datasets.rows import Row
from drike.edits import Edit


def _edit(row: Row, target: Target) -> Edit:
    query, subject, true = row.text("src"), row.text("subject"), row.answer("answers")
    new, old = (row.text("alt"), true) if target == "alt" else (true, None)
    return Edit(query, new, old, subject, query_template(query, subject))


def _neighbours(entry: Entry) -> list[tuple[str, str]]:
    loc, answer = entry.row.text("loc"), entry.row.answer("loc_ans")
    return [(f"{loc.removesuffix('?').rstrip()}?" if loc else "", answer)]


FORM = Form(
    name="zsRE in MEND's form (src, rephrase, alt, answers, loc, loc_ans)",
    recognises=lambda row: row.values.keys() >= {"subject", "src", "answers"},
    edit=_edit,
    answers=lambda row: row.aliases("answers"),
    paraphrases=lambda entry, known: entry.row.aliases("rephrase"),
    neighbours=_neighbours,
)
