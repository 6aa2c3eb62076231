"""QAEdit (Yang et al. 2025): natural questions with their answer, a rephrased one, and unrelated questions.

The old object is what the model would have said, which is not published.
"""

from __future__ import annotations

from drike.datasets.form import Entry, Form, Target
from drike.datasets.paraphrases import query_template
from drike.datasets.rows import Row
from drike.edits import Edit


def _edit(row: Row, target: Target) -> Edit:
    query, subject = row.text("prompt"), row.text("subject")
    return Edit(query, row.text("target"), None, subject, query_template(query, subject))


def _neighbours(entry: Entry) -> list[tuple[str, str]]:
    asked = [(question.text("loc"), question.text("loc_ans")) for question in entry.row.objects("locality")]
    return [(f"{loc.removesuffix('?').rstrip()}?" if loc else "", answer) for loc, answer in asked]


FORM = Form(
    name="QAEdit (prompt, target, subject, rephrase, locality)",
    recognises=lambda row: row.values.keys() >= {"prompt", "target", "rephrase", "locality"},
    edit=_edit,
    paraphrases=lambda entry, known: [entry.row.text("rephrase")],
    neighbours=_neighbours,
)
