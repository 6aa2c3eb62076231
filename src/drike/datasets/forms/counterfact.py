"""CounterFact in its published form (Meng et al. 2022): rows with `requested_rewrite`, paraphrases, neighbours.

The form: `{case_id, requested_rewrite: {prompt: "... {} ...", relation_id, target_new: {str}, target_true: {str},
subject}, paraphrase_prompts: [..], neighborhood_prompts: [..]}`. Neighbours are bare prompts, their answer is the row's
own `target_true`. Left out: attribute and generation prompts, which no measure here uses.
"""

from __future__ import annotations

from collections.abc import Sequence

from drike.datasets.paraphrases import Wording, clean, learn
from drike.datasets.rows import Cut, Parsed, Row, Target, tally
from drike.datasets.screening import Events, neighbours, paraphrases, usable
from drike.edits import Edit, EditCase, rewrite_probe

NAME = "CounterFact as published (requested_rewrite, paraphrase_prompts, neighborhood_prompts)"


def recognises(row: Row) -> bool:
    """Whether a row has this form."""
    return isinstance(row.values.get("requested_rewrite"), dict)


def case_id(row: Row) -> str | None:
    """The row's case_id; DataError if it has none."""
    return row.case_id()


def parse(rows: Sequence[Row], *, cleaning: bool = True, target: Target = "alt") -> Parsed:
    """Rows -> cases, rewrite probe first, then paraphrases, then neighbours; `cleaning=False` keeps paraphrases raw.

    Raises DataError for a row that lacks a field or whose prompt does not hold `{}` exactly once.
    """
    edits = [_edit(row) for row in rows]
    known = learn(
        Wording(edit.relation or "", edit.subject or "", edit.query, row.texts("paraphrase_prompts"))
        for row, edit in zip(rows, edits, strict=True)
    )
    cases: list[EditCase] = []
    cuts: list[Cut] = []
    dropped: Events = []
    for row, edit in usable(rows, edits, dropped):
        texts = row.texts("paraphrase_prompts")
        if cleaning:
            own = [clean(text, edit.subject or "", known.get(edit.relation or "", ())) for text in texts]
            cuts += own
            texts = tuple(cut.after for cut in own)
        asked = [(text, edit.target_true or "") for text in row.texts("neighborhood_prompts")]
        probes = (
            rewrite_probe(edit),
            *paraphrases(texts, edit, row, dropped),
            *neighbours(asked, edit, row, dropped),
        )
        cases.append(EditCase(row.case_id(), edit, probes))
    return Parsed(tuple(cases), tally(dropped), tuple(cuts))


def _edit(row: Row) -> Edit:
    prompt, subject = row.text("requested_rewrite", "prompt"), row.text("requested_rewrite", "subject")
    if prompt.count("{}") != 1:
        raise row.wrong("requested_rewrite.prompt", f"must hold {{}} exactly once for the subject, it is {prompt!r}")
    return Edit(
        query=prompt.replace("{}", subject),
        target_new=row.text("requested_rewrite", "target_new", "str"),
        target_true=row.text("requested_rewrite", "target_true", "str"),
        subject=subject,
        relation=row.text("requested_rewrite", "relation_id"),
    )
