"""KnowEdit's form (Zhang et al. 2024): zsRE, WikiData-counterfact and WikiData-recent, with locality and portability.

Neighbours are Relation_Specificity: another relation of the *same* subject.
"""

from __future__ import annotations

from collections.abc import Iterator

from drike.datasets.form import Entry, Form, Target, is_answer
from drike.datasets.paraphrases import Templates, wording
from drike.datasets.rows import Row
from drike.edits import Edit, mentions


def _recognises(row: Row) -> bool:
    sections = any(isinstance(row.values.get(section), dict) for section in ("locality", "portability"))
    return sections and row.values.keys() >= {"subject", "prompt", "target_new"} and "locality_prompt" not in row.values


def _edit(row: Row, target: Target) -> Edit:
    query, subject = row.text("prompt"), row.text("subject")
    true = row.answer("ground_truth") if "ground_truth" in row.values else None
    new = row.answer("target_new")
    if target == "answers" and "rephrase_prompt" in row.values:  # zsRE; WikiData's rows have one reading only
        new, true = true or "", None
    return Edit(query, new, true, subject, wording(query, subject))


def _answers(row: Row) -> tuple[str, ...]:
    return row.aliases("ground_truth") if "ground_truth" in row.values else ()


def _paraphrases(entry: Entry, known: Templates | None) -> Iterator[str]:
    if "rephrase_prompt" in entry.row.values:
        yield from entry.row.aliases("rephrase_prompt")
        return
    for alias in entry.row.objects("portability", "Subject_Aliasing"):
        if is_answer(entry.edit.target_new, alias.aliases("ground_truth")):
            yield alias.answer("prompt")
        else:
            entry.drop("paraphrase", "its answer is not the new object")


def _neighbours(entry: Entry) -> Iterator[tuple[str, str]]:
    old = _answers(entry.row)
    for fact in entry.row.objects("locality", "Relation_Specificity"):
        query, answer = fact.answer("prompt"), fact.answer("ground_truth")
        if answer and is_answer(answer, old) and mentions(query, entry.edit.subject or ""):
            entry.drop("neighbour", "asks the edited fact (own subject, old object)")
        else:
            yield query, answer


FORM = Form(
    name="KnowEdit's form (prompt, target_new, ground_truth, locality, portability)",
    recognises=_recognises,
    edit=_edit,
    answers=_answers,
    paraphrases=_paraphrases,
    neighbours=_neighbours,
)
