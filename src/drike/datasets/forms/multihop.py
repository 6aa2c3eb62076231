"""The multi-hop form of MQuAKE (Zhong et al. 2023), in which RippleEdits (Cohen et al. 2024) is published as well.

A row has edits, all in force at once, the first the case's own, and questions whose answer follows from them and more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from drike.datasets.form import Entry, Form, is_answer
from drike.datasets.forms.counterfact import edit_at
from drike.datasets.rows import Row
from drike.edits import Aspect, Edit, Probe


def _edits(row: Row) -> list[tuple[Edit, Sequence[str]]]:
    if not (rewrites := row.objects("requested_rewrite")):
        raise row.wrong("requested_rewrite", "must hold an edit")
    pairs = ((edit_at(rewrite), _texts_if_any(rewrite, "question")) for rewrite in rewrites)
    # RippleEdits puts two spaces around the subject.
    return [(replace(edit, query=" ".join(edit.query.split())), paraphrases) for edit, paraphrases in pairs]


def _texts_if_any(row: Row, field: str) -> tuple[str, ...]:
    """The texts of a field that a row may lack, or leave null."""
    return () if row.values.get(field) is None else row.aliases(field)


def _hops(entry: Entry) -> int | None:
    """How many facts lead to the new answer: as many as `new_single_hops` lists, or `single_hops` if it has none."""
    before, after = (len(entry.row.objects(field)) for field in ("single_hops", "new_single_hops"))
    if before and after and before != after:
        entry.drop("number of hops", "single_hops and new_single_hops differ in it")
        return None
    return after or before or None


def _further(entry: Entry) -> Iterator[Probe]:
    row, hops = entry.row, _hops(entry)
    new = row.text("new_answer")
    old = next(iter(_texts_if_any(row, "answer")), None)
    also = tuple(alias for alias in _texts_if_any(row, "new_answer_alias") if alias != new)
    for question in row.texts("questions"):
        if old and is_answer(old, (new, *also)):
            entry.drop("multi_hop probe", "the edits do not change its answer")
        else:
            yield Probe(Aspect.MULTI_HOP, question, new, old, also, hops=hops)


FORM = Form(
    name="the multi-hop form of MQuAKE and RippleEdits (requested_rewrite as a list, questions, new_answer)",
    recognises=lambda row: isinstance(row.values.get("requested_rewrite"), list),
    edit=lambda row, target: _edits(row)[0][0],
    others=lambda row: _edits(row)[1:],
    case_id=Row.case_id,
    paraphrases=lambda entry, known: _edits(entry.row)[0][1],
    further=_further,
)
