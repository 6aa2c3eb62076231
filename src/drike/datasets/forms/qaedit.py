"""QAEdit (Yang et al. 2025): natural questions with their answer, a rephrased one, and unrelated questions.

The old object is what the model would have said, which is not published.
"""

from __future__ import annotations

from drike.datasets.form import Form, edit_about, question

FORM = Form(
    name="QAEdit (prompt, target, subject, rephrase, locality)",
    recognises=lambda row: row.values.keys() >= {"prompt", "target", "rephrase", "locality"},
    edit=lambda row, target: edit_about(row, "prompt")(row.text("target"), None),
    paraphrases=lambda entry, known: [entry.row.text("rephrase")],
    neighbours=lambda entry: [
        (question(asked.text("loc")), asked.text("loc_ans")) for asked in entry.row.objects("locality")
    ],
)
