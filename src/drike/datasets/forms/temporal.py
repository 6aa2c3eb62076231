"""The temporal edits published with IKE (Zheng et al. 2023; drawn from TempLAMA): facts that changed over the years.

Each group is a list of dated records of one cloze query, `[{query: "... _X_.", answer: [{name}], date, relation}, ..]`.
"""

from __future__ import annotations

from drike.datasets.form import Form, Target
from drike.datasets.rows import GROUP, Row, shown
from drike.edits import Edit

_MASK = "_X_"
_ENDINGS = {"P39": " holds the position of", "P54": " plays for", "P108": " works for"}  # after the subject


def _recognises(row: Row) -> bool:
    records = row.values.get(GROUP)
    return isinstance(records, list) and isinstance(records[0], dict) and {"query", "answer", "date"} <= set(records[0])


def _case_id(row: Row) -> str | None:
    """Subject and relation, as in the ids of a group's records without their year; None where they have no ids."""
    first = row.objects(GROUP)[:1]
    return first[0].text("id").rpartition("_")[0] or None if first and "id" in first[0].values else None


def _edit(row: Row, target: Target) -> Edit:
    records = sorted(row.objects(GROUP), key=lambda record: record.text("date"))
    if not records:
        raise row.wrong(GROUP, "must hold dated records")
    cloze = records[0].text("query")
    if any(record.text("query") != cloze for record in records):
        raise row.wrong(f"{GROUP}.query", "must be the same in all records of a group")
    query, mask, after = (part.strip() for part in cloze.partition(_MASK))
    if not mask or after not in ("", "."):
        raise row.wrong(f"{GROUP}.query", f"must end in its mask {_MASK}, it is {shown(cloze)!r}")
    relation = records[0].text("relation") if "relation" in records[0].values else None
    ending = _ENDINGS.get(relation or "")
    subject = query.removesuffix(ending) if ending and query.endswith(ending) else None
    return Edit(query, _answer(records[-1]), _answer(records[0]), subject, relation)


def _answer(record: Row) -> str:
    """The first of a record's answers; "" where it has none, which drops the row."""
    return next((answer.text("name") for answer in record.objects("answer")), "")


FORM = Form("temporal edits as published with IKE (groups of query, answer, date)", _recognises, _edit, _case_id)
