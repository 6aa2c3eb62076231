"""KnowEdit's form (Zhang et al. 2024): zsRE, WikiData-counterfact and WikiData-recent, with locality and portability.

The form: `{subject, prompt, target_new, ground_truth, locality: {Relation_Specificity: [{prompt, ground_truth}]},
portability: {Subject_Aliasing: [{prompt, ground_truth}], ..}}`, zsRE also with `rephrase_prompt`, and no case_id. An
answer is a text, a list of aliases or a list of such lists; its first text is the answer.

Paraphrases are `rephrase_prompt`, or where the data set has none the edit's query about an alias of its subject
(Subject_Aliasing). Neighbours are Relation_Specificity: another relation of the *same* subject, each with its own
answer. Where that answer is the old object the probe mostly asks the very fact that was edited (some 390 of zsRE's
2,608): such probes are dropped. Left out: Forgetfulness (the old object as a second answer), Reasoning,
Logical_Generalization.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drike.datasets.forms.zsre import is_answer, wording
from drike.datasets.rows import Parsed, Row, Target, tally
from drike.datasets.screening import Events, neighbours, paraphrases, usable
from drike.edits import Edit, EditCase, mentions, rewrite_probe

NAME = "KnowEdit's form (prompt, target_new, ground_truth, locality, portability)"
_FIELDS = frozenset({"subject", "prompt", "target_new"})


def recognises(row: Row) -> bool:
    """Whether a row has this form."""
    sections = any(isinstance(row.values.get(section), dict) for section in ("locality", "portability"))
    return sections and row.values.keys() >= _FIELDS and "locality_prompt" not in row.values


def case_id(row: Row) -> str | None:
    """The row's case_id where someone has added one."""
    return row.case_id() if "case_id" in row.values else None


def parse(rows: Sequence[Row], *, cleaning: bool = True, target: Target = "alt") -> Parsed:
    """Rows -> cases. `target="answers"` makes zsRE's first true answer the new object. There is nothing to clean.

    Raises DataError for a row that lacks a field.
    """
    dropped: Events = []
    edits = [_edit(row, target) for row in rows]
    cases: list[EditCase] = []
    for row, edit in usable(rows, edits, dropped):
        old = _old(row)
        if edit.target_true is not None and is_answer(edit.target_new, old):
            dropped.append(("row", "new object is one of the answers already", row.place))
            continue
        probes = (
            rewrite_probe(edit),
            *paraphrases(_other_words(row, edit, dropped), edit, row, dropped),
            *neighbours(_other_facts(row, edit, old, dropped), edit, row, dropped),
        )
        cases.append(EditCase(row.case_id(), edit, probes))
    return Parsed(tuple(cases), tally(dropped), ())


def _edit(row: Row, target: Target) -> Edit:
    query, subject, old = row.text("prompt"), row.text("subject"), _old(row)
    true = _first(old) if "ground_truth" in row.values else None
    new = _first(row.aliases("target_new"))
    if target == "answers" and "rephrase_prompt" in row.values:  # zsRE's rows; WikiData's edits are what they are
        new, true = true or "", None
    return Edit(query, new, true, subject, wording(query, subject))


def _old(row: Row) -> tuple[str, ...]:
    """All known answers before the edit; () where the data set gives none."""
    return row.aliases("ground_truth") if "ground_truth" in row.values else ()


def _first(aliases: Sequence[str]) -> str:
    return aliases[0] if aliases else ""


def _other_words(row: Row, edit: Edit, dropped: Events) -> Iterator[str]:
    if "rephrase_prompt" in row.values:
        yield from row.aliases("rephrase_prompt")
        return
    for alias in row.objects("portability", "Subject_Aliasing"):
        if is_answer(edit.target_new, alias.aliases("ground_truth")):
            yield _first(alias.aliases("prompt"))
        else:
            dropped.append(("paraphrase", "its answer is not the new object", row.place))


def _other_facts(row: Row, edit: Edit, old: Sequence[str], dropped: Events) -> Iterator[tuple[str, str]]:
    for fact in row.objects("locality", "Relation_Specificity"):
        query, answer = _first(fact.aliases("prompt")), _first(fact.aliases("ground_truth"))
        if answer and is_answer(answer, old) and mentions(query, edit.subject or ""):
            dropped.append(("neighbour", "asks the edited fact (own subject, old object)", row.place))
        else:
            yield query, answer
