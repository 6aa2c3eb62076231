"""CounterFact in its published form (Meng et al. 2022): rows with `requested_rewrite`, paraphrases, neighbours.

The form: `{case_id, requested_rewrite: {prompt: "... {} ...", relation_id, target_new: {str}, target_true: {str},
subject}, paraphrase_prompts: [..], neighborhood_prompts: [..]}`. Neighbours are bare prompts, their answer is the row's
own `target_true`. Left out: attribute and generation prompts, which no measure here uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drike.answers import normalise
from drike.datasets.paraphrases import Wording, clean, learn
from drike.datasets.rows import Cut, Parsed, Row, tally
from drike.edits import Aspect, Edit, EditCase, Probe, rewrite_probe

NAME = "CounterFact as published (requested_rewrite, paraphrase_prompts, neighborhood_prompts)"


def recognises(row: Row) -> bool:
    """Whether a row has this form."""
    return isinstance(row.values.get("requested_rewrite"), dict)


def parse(rows: Sequence[Row], *, cleaning: bool = True) -> Parsed:
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
    dropped: list[tuple[str, str, str]] = []
    for row, edit in usable(rows, edits, dropped):
        texts = row.texts("paraphrase_prompts")
        if cleaning:
            own = [clean(text, edit.subject or "", known.get(edit.relation or "", ())) for text in texts]
            cuts += own
            texts = tuple(cut.after for cut in own)
        paraphrases = distinct("paraphrase", texts, edit, row, dropped)
        neighbours = distinct("neighbour", row.texts("neighborhood_prompts"), edit, row, dropped)
        probes = [rewrite_probe(edit)]
        probes += [Probe(Aspect.PARAPHRASE, text, edit.target_new, edit.target_true) for text in paraphrases]
        probes += [Probe(Aspect.NEIGHBORHOOD, text, edit.target_true or "", edit.target_new) for text in neighbours]
        cases.append(EditCase(row.case_id(), edit, tuple(probes)))
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


def usable(
    rows: Sequence[Row], edits: Sequence[Edit], dropped: list[tuple[str, str, str]]
) -> Iterator[tuple[Row, Edit]]:
    """The rows whose edit can be judged, with it; the others are added to `dropped`."""
    for row, edit in zip(rows, edits, strict=True):
        reason = _unusable(edit)
        if reason:
            dropped.append(("row", reason, row.place))
        else:
            yield row, edit


def _unusable(edit: Edit) -> str | None:
    """Why an edit cannot be judged, or None."""
    if not edit.subject:
        return "subject is blank"
    if not edit.target_new or not edit.target_true:
        return "an object is blank"
    if normalise(edit.target_new) == normalise(edit.target_true):
        return "new and old object are the same"
    return None


def distinct(
    what: str, texts: Sequence[str], edit: Edit, row: Row, dropped: list[tuple[str, str, str]]
) -> tuple[str, ...]:
    """The texts without blanks, repeats and the edit's own query; what goes is added to `dropped`."""
    kept: dict[str, None] = {}
    for text in texts:
        if not text:
            dropped.append((what, "is blank", row.place))
        elif text == edit.query:
            dropped.append((what, "is the edit's own query", row.place))
        elif text in kept:
            dropped.append((what, "stands twice in its row", row.place))
        else:
            kept[text] = None
    return tuple(kept)
