"""What of a row can be judged: edits that change something, probes that ask something. All else is told and counted.

Every form's loader sends its rows through here, so that the same defect has the same name in every data set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from drike.answers import normalise
from drike.datasets.rows import Row
from drike.edits import Aspect, Edit, Probe

Events = list[tuple[str, str, str]]  # (what, reason, place): as `rows.tally` takes them


def usable(rows: Sequence[Row], edits: Sequence[Edit], dropped: Events) -> Iterator[tuple[Row, Edit]]:
    """The rows whose edit can be judged, with it; the others are added to `dropped`."""
    for row, edit in zip(rows, edits, strict=True):
        reason = _unusable(edit)
        if reason:
            dropped.append(("row", reason, row.place))
        else:
            yield row, edit


def _unusable(edit: Edit) -> str | None:
    """Why an edit cannot be judged, or None. An old object that is not known (None) is no defect, a blank one is."""
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
    """Probes that ask the edited fact in these other words."""
    kept = distinct("paraphrase", texts, edit, row, dropped)
    return [Probe(Aspect.PARAPHRASE, text, edit.target_new, edit.target_true) for text in kept]


def neighbours(known: Iterable[tuple[str, str]], edit: Edit, row: Row, dropped: Events) -> list[Probe]:
    """Probes of facts that shall stay, from (query, answer). One answered by the new object tells nothing and goes."""
    pairs = list(known)
    answers = dict(reversed(pairs))  # of a query that stands twice, the first answer
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
