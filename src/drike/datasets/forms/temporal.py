"""The temporal edits published with IKE (Zheng et al. 2023; drawn from TempLAMA): facts that changed over the years.

The form: a list of groups, each a list of dated records of one cloze query, `[{query: "... _X_.", answer: [{name}],
date, relation}, ..]`. The edit's query is the text before the mask; the old object is the answer of the earliest
date, the new one that of the latest. There are neither paraphrases nor neighbours: PC, RR and S are n/a.
"""

from __future__ import annotations

from collections.abc import Sequence

from drike.datasets.rows import GROUP, Parsed, Row, Target, tally
from drike.datasets.screening import Events, usable
from drike.edits import Edit, EditCase, rewrite_probe

NAME = "temporal edits as published with IKE (groups of query, answer, date)"
_MASK = "_X_"
_ENDINGS = {"P39": " holds the position of", "P54": " plays for", "P108": " works for"}  # behind the subject


def recognises(row: Row) -> bool:
    """Whether a row has this form."""
    records = row.values.get(GROUP)
    return isinstance(records, list) and isinstance(records[0], dict) and {"query", "answer", "date"} <= set(records[0])


def case_id(row: Row) -> str | None:
    """Subject and relation, as in the ids of a group's records without their year; None where they have no ids.

    The published file is sorted by relation; in order of these ids the first half has as many of each as the second.
    """
    first = row.objects(GROUP)[:1]
    return first[0].text("id").rpartition("_")[0] or None if first and "id" in first[0].values else None


def parse(rows: Sequence[Row], *, cleaning: bool = True, target: Target = "alt") -> Parsed:
    """Groups -> cases with a rewrite probe each. There is nothing to clean and no target to choose.

    Raises DataError for a group of several queries, a query without its mask at the end, or a record without a field.
    """
    dropped: Events = []
    edits = [_edit(row) for row in rows]
    cases = [EditCase(row.case_id(), edit, (rewrite_probe(edit),)) for row, edit in usable(rows, edits, dropped)]
    return Parsed(tuple(cases), tally(dropped), ())


def _edit(row: Row) -> Edit:
    records = sorted(row.objects(GROUP), key=lambda record: record.text("date"))
    if not records:
        raise row.wrong(GROUP, "must hold dated records")
    cloze = records[0].text("query")
    if any(record.text("query") != cloze for record in records):
        raise row.wrong(f"{GROUP}.query", "must be the same in all records of a group")
    query, mask, behind = (part.strip() for part in cloze.partition(_MASK))
    if not mask or behind not in ("", "."):
        raise row.wrong(f"{GROUP}.query", f"must end in its mask {_MASK}, it is {cloze!r}")
    relation = records[0].text("relation") if "relation" in records[0].values else None
    ending = _ENDINGS.get(relation or "")
    return Edit(
        query=query,
        target_new=_answer(records[-1]),
        target_true=_answer(records[0]),
        subject=query.removesuffix(ending) if ending and query.endswith(ending) else None,
        relation=relation,
    )


def _answer(record: Row) -> str:
    """The first of a record's answers; "" where it has none, which drops the row."""
    return next((one.text("name") for one in record.objects("answer")), "")
