"""zsRE in MEND's form (Levy et al. 2017; Mitchell et al. 2022): evaluation and training rows, and EasyEdit's copies.

The form: `{subject, src, rephrase, alt, answers: [..], pred, loc, loc_ans, cond}`, without a case_id; EasyEdit's files
have the same rows, some with `portability`. `src` is a question and stays one: a prompt ends in it, the answer
follows. The neighbour is an unrelated question of Natural Questions, published in lower case and without its mark;
it is asked as ROME and MEMIT ask it: with its "nq question: " and with a question mark.

Two readings of the target: `alt`, a made-up object (EasyEdit), or `answers[0]`, the true one (ROME, MEMIT), for which
no old object is known. Left out: `pred` (what MEND's own model said), `cond`, `portability`.
"""

from __future__ import annotations

from collections.abc import Sequence

from drike.answers import normalise
from drike.datasets.paraphrases import around
from drike.datasets.rows import Parsed, Row, Target, tally
from drike.datasets.screening import Events, neighbours, paraphrases, usable
from drike.edits import Edit, EditCase, rewrite_probe

NAME = "zsRE in MEND's form (src, rephrase, alt, answers, loc, loc_ans)"
_FIELDS = frozenset({"subject", "src", "answers"})


def recognises(row: Row) -> bool:
    """Whether a row has this form."""
    return row.values.keys() >= _FIELDS


def case_id(row: Row) -> str | None:
    """The row's case_id where someone has added one."""
    return row.case_id() if "case_id" in row.values else None


def parse(rows: Sequence[Row], *, cleaning: bool = True, target: Target = "alt") -> Parsed:
    """Rows -> cases; `target` is the field that edits lead to. There is nothing to clean.

    Raises DataError for a row that lacks a field.
    """
    dropped: Events = []
    edits = [_edit(row, target) for row in rows]
    cases: list[EditCase] = []
    for row, edit in usable(rows, edits, dropped):
        if target == "alt" and is_answer(edit.target_new, row.aliases("answers")):
            dropped.append(("row", "new object is one of the answers already", row.place))
            continue
        loc, answers = row.text("loc"), row.aliases("loc_ans")
        asked = f"{loc.removesuffix('?').rstrip()}?" if loc else ""
        probes = (
            rewrite_probe(edit),
            *paraphrases(row.aliases("rephrase"), edit, row, dropped),
            *neighbours([(asked, answers[0] if answers else "")], edit, row, dropped),
        )
        cases.append(EditCase(row.case_id(), edit, probes))
    return Parsed(tuple(cases), tally(dropped), ())


def _edit(row: Row, target: Target) -> Edit:
    query, subject, answers = row.text("src"), row.text("subject"), row.aliases("answers")
    true = answers[0] if answers else ""
    return Edit(
        query=query,
        target_new=row.text("alt") if target == "alt" else true,
        target_true=true if target == "alt" else None,
        subject=subject,
        relation=wording(query, subject),
    )


def wording(query: str, subject: str) -> str | None:
    """The question with {} for its subject: the relation of a data set that names none."""
    template = around(query, subject)
    return "{}".join(template) if template else None


def is_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether a text is one of the known answers, as answers are compared everywhere."""
    return normalise(text) in {normalise(answer) for answer in answers}
