"""Temporal edits as published with IKE (Zheng et al. 2023; drawn from TempLAMA).

They are facts that changed over the years. A row is a group, a list of dated records of one cloze
query: `[{query: "... _X_.", answer: [{name}], date, relation}, ...]`.
"""

from collections.abc import Sequence

from drike.edits.edit import Edit
from drike.research.datasets.form import Form, Target
from drike.support.rows import GROUP, Row, shown

_MASK = "_X_"
# What follows the subject, by relation.
_ENDINGS = {
    "P39": " holds the position of",
    "P54": " plays for",
    "P108": " works for",
}


def _recognises(row: Row) -> bool:
    records = row.values.get(GROUP)
    if not isinstance(records, list) or not records:
        return False
    first = records[0]
    return isinstance(first, dict) and first.keys() >= {"query", "answer", "date"}


def _case_id(row: Row) -> str | None:
    """Subject and relation, as in the ids of a group's records without their year.

    None where they have no ids.
    """
    records = row.objects(GROUP)
    if not records or "id" not in records[0].values:
        return None
    subject_and_relation, _, _ = records[0].text("id").rpartition("_")
    return subject_and_relation or None


def _edits(row: Row, target: Target) -> list[Edit]:
    records = sorted(row.objects(GROUP), key=lambda record: record.text("date"))
    if not records:
        raise row.wrong(GROUP, "must hold dated records")
    query = _query(row, records)
    relation = records[0].text("relation") if "relation" in records[0].values else None
    new = _answer(records[-1])
    old = _answer(records[0])
    return [Edit(query, new, old, _subject(query, relation), relation)]


def _query(row: Row, records: Sequence[Row]) -> str:
    """What stands before the mask in the cloze query of all records."""
    cloze = records[0].text("query")
    if any(record.text("query") != cloze for record in records):
        raise row.wrong(f"{GROUP}.query", "must be the same in all records of a group")
    query, mask, after = (part.strip() for part in cloze.partition(_MASK))
    if not mask or after not in ("", "."):
        raise row.wrong(f"{GROUP}.query", f"must end in its mask {_MASK}, it is {shown(cloze)!r}")
    return query


def _subject(query: str, relation: str | None) -> str | None:
    ending = _ENDINGS.get(relation or "")
    if ending is None or not query.endswith(ending):
        return None
    return query.removesuffix(ending)


def _answer(record: Row) -> str:
    """The first answer of a record; a blank one drops the row."""
    answers = record.objects("answer")
    return answers[0].text("name") if answers else ""


FORM = Form(
    "temporal edits as published with IKE (groups of query, answer, date)",
    _recognises,
    _edits,
    case_id=_case_id,
)
