"""CounterFact in EasyEdit's flat form: one prompt, one rephrased prompt and one neighbour a row, all plain texts.

`rephrase_prompt` is mostly one of CounterFact's *generation* prompts, which do not ask for the object. It is kept only
if it ends in the whole wording of some row's own prompt with the same true object; without cleaning, all are dropped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from drike.datasets.counts import Cut
from drike.datasets.form import Entry, Form, Target
from drike.datasets.paraphrases import Template, Templates, around, begins, known_end, wording
from drike.datasets.rows import Row
from drike.edits import Edit


def _edit(row: Row, target: Target) -> Edit:
    query, subject = row.text("prompt"), row.text("subject")
    return Edit(query, row.text("target_new"), row.text("ground_truth"), subject, wording(query, subject))


def _learn(entries: Sequence[Entry]) -> Templates:
    """For each true object, the templates of the prompts that ask for it."""
    wordings: dict[str, set[Template]] = defaultdict(set)
    for edit in (entry.edit for entry in entries):
        if template := around(edit.query, edit.subject or ""):
            wordings[edit.target_true or ""].add(template)
    return wordings


def _paraphrases(entry: Entry, known: Templates | None) -> Iterator[str]:
    text, edit = entry.row.text("rephrase_prompt"), entry.edit
    start = known_end(text, edit.subject or "", (known or {}).get(edit.target_true or "", ()))
    if start is None or not begins(text, start):
        entry.drop("paraphrase", "rephrase_prompt is not a known wording of the question")
    else:
        yield entry.cut(Cut(text, text[start:], "template" if start else "unchanged", suspicious=False))


FORM = Form(
    name="EasyEdit's flat CounterFact (case_id, prompt, subject, target_new, ground_truth)",
    recognises=lambda row: row.values.keys() >= {"case_id", "prompt", "subject", "target_new", "ground_truth"},
    edit=_edit,
    case_id=Row.case_id,
    learn=_learn,
    paraphrases=_paraphrases,
    neighbours=lambda entry: [(entry.row.text("locality_prompt"), entry.row.text("locality_ground_truth"))],
)
