"""Drop edits that change nothing and probes that measure nothing, and count them.

Every form's loader uses it, so that a defect has the same name in every data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from drike.answers import normalise
from drike.datasets.rows import Row
from drike.edits import Aspect, Edit, Probe

Events = list[tuple[str, str, str]]  # (what, reason, place): as `rows.tally` takes them


def usable(rows: Sequence[Row], edits: Sequence[Edit], dropped: Events) -> Iterator[tuple[Row, Edit]]:
    """The rows whose edit can be judged, with the edit; the others are added to `dropped`."""
    for row, edit in zip(rows, edits, strict=True):
        reason = _unusable(edit)
        if reason:
            dropped.append(("row", reason, row.place))
        else:
            yield row, edit


def _unusable(edit: Edit) -> str | None:
    """Why an edit cannot be judged, or None. An unknown old object (None) is fine, a blank one is not."""
    if not edit.query:
        return "query is blank"
    if edit.subject == "":
        return "subject is blank"
    if not edit.target_new or edit.target_true == "":
        return "an object is blank"
    if edit.target_true is not None and normalise(edit.target_new) == normalise(edit.target_true):
        return "new and old object are the same"
    return None


def paraphrases(texts: Iterable[str], edit: Edit, row: Row, dropped: Events) -> list[Probe]:
    """Paraphrase probes with these texts."""
    kept = distinct("paraphrase", texts, edit, row, dropped)
    return [Probe(Aspect.PARAPHRASE, text, edit.target_new, edit.target_true) for text in kept]


def neighbours(known: Iterable[tuple[str, str]], edit: Edit, row: Row, dropped: Events) -> list[Probe]:
    """Neighbourhood probes from (query, answer); one whose answer is the new object measures nothing and is dropped."""
    pairs = list(known)
    answers = dict(reversed(pairs))  # of a repeated query, the first answer
    probes: list[Probe] = []
    for text in distinct("neighbour", (text for text, _ in pairs), edit, row, dropped):
        answer = answers[text]
        if not answer:
            dropped.append(("neighbour", "has no answer", row.place))
        elif normalise(answer) == normalise(edit.target_new):
            dropped.append(("neighbour", "its answer is the new object", row.place))
        else:
            probes.append(Probe(Aspect.NEIGHBORHOOD, text, answer, edit.target_new))
    return probes


def distinct(what: str, texts: Iterable[str], edit: Edit, row: Row, dropped: Events) -> tuple[str, ...]:
    """The texts without blanks, repeats and the edit's own query, which are added to `dropped`."""
    kept: dict[str, None] = {}
    for text in texts:
        if not text:
            dropped.append((what, "is blank", row.place))
        elif text == edit.query:
            dropped.append((what, "is the edit's own query", row.place))
        elif text in kept:
            dropped.append((what, "is repeated in its row", row.place))
        else:
            kept[text] = None
    return tuple(kept)
