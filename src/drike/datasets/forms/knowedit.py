"""KnowEdit's form (Zhang et al. 2024): zsRE, WikiData-counterfact and WikiData-recent, with locality and portability.

Neighbours are Relation_Specificity: another relation of the *same* subject. They and the subject's aliases are asked as
the paper's aspects, for RR and PC, and once more as same_subject and alias, with all their right answers. Forgetfulness
asks for another object of the edited relation.
"""

from __future__ import annotations

from collections.abc import Iterator

from drike.datasets.form import Entry, Form, Target, edit_about, is_answer
from drike.datasets.paraphrases import Templates
from drike.datasets.rows import Row
from drike.edits import Aspect, Edit, Probe
from drike.words import mentions


def _recognises(row: Row) -> bool:
    sections = any(isinstance(row.values.get(section), dict) for section in ("locality", "portability"))
    return sections and row.values.keys() >= {"subject", "prompt", "target_new"} and "locality_prompt" not in row.values


def _edit(row: Row, target: Target) -> Edit:
    edit = edit_about(row, "prompt")
    true = row.answer("ground_truth") if "ground_truth" in row.values else None
    new = row.answer("target_new")
    if target == "answers" and "rephrase_prompt" in row.values:  # zsRE; WikiData's rows have one reading only
        new, true = true or "", None
    return edit(new, true)


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
    for fact in entry.row.objects("locality", "Relation_Specificity"):
        query, answer = fact.answer("prompt"), fact.answer("ground_truth")
        if _is_edited_fact(entry, query, answer):
            entry.drop("neighbour", "asks the edited fact (own subject, old object)")
        else:
            yield query, answer


def _is_edited_fact(entry: Entry, query: str, answer: str) -> bool:
    old = _answers(entry.row)
    return bool(answer) and is_answer(answer, old) and mentions(query, entry.edit.subject or "")


def _further(entry: Entry) -> Iterator[Probe]:
    row, edit = entry.row, entry.edit
    for fact in row.objects("locality", "Relation_Specificity"):
        query = fact.answer("prompt")
        if mentions(query, edit.subject or "") and not _is_edited_fact(entry, query, fact.answer("ground_truth")):
            yield _probe(Aspect.SAME_SUBJECT, fact, edit.target_new)
    for fact in row.objects("locality", "Forgetfulness"):
        yield _probe(Aspect.SAME_SUBJECT, fact, edit.target_new)
    for fact in row.objects("portability", "Subject_Aliasing"):
        if is_answer(edit.target_new, fact.aliases("ground_truth")):
            yield Probe(Aspect.ALIAS, fact.answer("prompt"), edit.target_new, edit.target_true)
        else:
            entry.drop("alias probe", "its answer is not the new object")
    for section, aspect in (("Reasoning", Aspect.MULTI_HOP), ("Logical_Generalization", Aspect.REVERSE)):
        for fact in row.objects("portability", section):
            if not is_answer(edit.target_new, [row.answer("target_new")]):
                entry.drop(f"{aspect} probe", "follows from the other target")
            elif aspect is Aspect.REVERSE and not is_answer(edit.subject or "", fact.aliases("ground_truth")):
                entry.drop("reverse probe", "its answer is not the subject")
            else:
                yield _probe(aspect, fact, None)


def _probe(aspect: Aspect, fact: Row, distractor: str | None) -> Probe:
    """A probe with all published answers; "" as its target, which drops it, where there is none."""
    target, *also = fact.aliases("ground_truth") or ("",)
    return Probe(aspect, fact.answer("prompt"), target, distractor, tuple(also))


FORM = Form(
    name="KnowEdit's form (prompt, target_new, ground_truth, locality, portability)",
    recognises=_recognises,
    edit=_edit,
    answers=_answers,
    paraphrases=_paraphrases,
    neighbours=_neighbours,
    further=_further,
)
