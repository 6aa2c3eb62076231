"""CounterFact in EasyEdit's flat form: one prompt, one rephrased prompt and one neighbour a row, all plain texts.

The form: `{case_id, prompt, target_new, subject, ground_truth, rephrase_prompt, locality_prompt,
locality_ground_truth}`. `rephrase_prompt` is mostly one of CounterFact's *generation* prompts, which start a story and
do not ask for the object ("On a walk around X one meets"): it is kept as a paraphrase only if it ends in a
whole wording that is some row's own prompt with the same true object, so that it asks for an object of that kind.
The others are dropped and counted. Without a relation id, the relation is the prompt's template.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from drike.datasets.paraphrases import Template, around, begins, known_end
from drike.datasets.rows import Cut, Parsed, Row, Target, tally
from drike.datasets.screening import Events, neighbours, paraphrases, usable
from drike.edits import Edit, EditCase, rewrite_probe

NAME = "EasyEdit's flat CounterFact (case_id, prompt, subject, target_new, ground_truth)"
_FIELDS = frozenset({"case_id", "prompt", "subject", "target_new", "ground_truth"})


def recognises(row: Row) -> bool:
    """Whether a row has this form."""
    return row.values.keys() >= _FIELDS


def case_id(row: Row) -> str | None:
    """The row's case_id; DataError if it has none."""
    return row.case_id()


def parse(rows: Sequence[Row], *, cleaning: bool = True, target: Target = "alt") -> Parsed:
    """Rows -> cases; `cleaning=False` drops every `rephrase_prompt` rather than keep the recognised ones.

    Raises DataError for a row that lacks a field.
    """
    edits = [_edit(row) for row in rows]
    known = _wordings(edits) if cleaning else {}
    cases: list[EditCase] = []
    cuts: list[Cut] = []
    dropped: Events = []
    for row, edit in usable(rows, edits, dropped):
        probes = [rewrite_probe(edit)]
        cut = _paraphrase(row, edit, known)
        if cut is None:
            dropped.append(("paraphrase", "rephrase_prompt is not a known wording of the question", row.place))
        else:
            cuts.append(cut)
            probes += paraphrases((cut.after,), edit, row, dropped)
        neighbour = row.text("locality_prompt"), row.text("locality_ground_truth")
        probes += neighbours((neighbour,), edit, row, dropped)
        cases.append(EditCase(row.case_id(), edit, tuple(probes)))
    return Parsed(tuple(cases), tally(dropped), tuple(cuts))


def _edit(row: Row) -> Edit:
    query, subject = row.text("prompt"), row.text("subject")
    template = around(query, subject)
    return Edit(
        query=query,
        target_new=row.text("target_new"),
        target_true=row.text("ground_truth"),
        subject=subject,
        relation="{}".join(template) if template else None,
    )


def _wordings(edits: Sequence[Edit]) -> dict[str, set[Template]]:
    """For each true object, the templates of the prompts that ask for it."""
    wordings: dict[str, set[Template]] = defaultdict(set)
    for edit in edits:
        template = around(edit.query, edit.subject or "")
        if template:
            wordings[edit.target_true or ""].add(template)
    return wordings


def _paraphrase(row: Row, edit: Edit, known: dict[str, set[Template]]) -> Cut | None:
    text = row.text("rephrase_prompt")
    start = known_end(text, edit.subject or "", known.get(edit.target_true or "", ()))
    if start is None or not begins(text, start):
        return None
    return Cut(text, text[start:], "template" if start else "unchanged", suspicious=False)
