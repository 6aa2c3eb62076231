"""EasyEdit's flat form, CounterFact's above all: one prompt, rephrased prompt and neighbour a row, all plain texts.

CounterFact's `rephrase_prompt` is mostly one of its *generation* prompts, which do not ask for the object. It is kept
only if it ends in the whole wording of some row's own prompt with the same true object; without cleaning, all are
dropped. That of other files is taken as published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from drike.datasets.form import Entry, Form, Paraphrases, edit_about
from drike.datasets.paraphrases import Template, Templates, around, begins, known_end
from drike.datasets.rows import Cut, Row


def _recognises(row: Row) -> bool:
    asked = not row.values.keys().isdisjoint({"rephrase_prompt", "locality_prompt"})
    return asked and row.values.keys() >= {"prompt", "subject", "target_new", "ground_truth"}


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
    recognises=_recognises,
    edit=lambda row, target: edit_about(row, "prompt")(row.text("target_new"), row.text("ground_truth")),
    learn=_learn,
    paraphrases=_paraphrases,
    neighbours=lambda entry: [(entry.row.text("locality_prompt"), entry.row.text("locality_ground_truth"))],
)
AS_PUBLISHED = replace(
    FORM,
    name="EasyEdit's flat form, paraphrases as published (prompt, subject, target_new, ground_truth, rephrase_prompt)",
    learn=lambda entries: {},
    paraphrases=lambda entry, known: [entry.row.text("rephrase_prompt")],
)


def form_of(rows: Sequence[Row], paraphrases: Paraphrases | None) -> Form:
    """The form of a file of this shape. By default only CounterFact's paraphrases are screened.

    It is known by its neighbours, whose answer is the row's own old object in all of its rows.
    """
    shared = all(row.values.get("locality_ground_truth") == row.values.get("ground_truth") for row in rows)
    return FORM if (paraphrases or ("screen" if shared else "keep")) == "screen" else AS_PUBLISHED
