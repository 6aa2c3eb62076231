"""The multi-hop form of MQuAKE (Zhong et al. 2023), in which RippleEdits (Cohen et al. 2024) is published as well.

A row has one or several edits, and questions whose answer follows from them and from other facts. Rows with several
edits are left out: an editor takes one edit at a time.
"""

from __future__ import annotations

from collections.abc import Iterator

from drike.datasets.form import Entry, Form, Target, is_answer
from drike.datasets.rows import Row, shown
from drike.edits import Aspect, Edit, Probe


def _skip(row: Row) -> str | None:
    edits = len(row.objects("requested_rewrite"))
    if not edits:
        raise row.wrong("requested_rewrite", "must hold an edit")
    return "has several edits" if edits > 1 else None


def _edit(row: Row, target: Target) -> Edit:
    [one] = row.objects("requested_rewrite")
    prompt, subject = one.text("prompt"), one.text("subject")
    if prompt.count("{}") != 1:
        raise one.wrong("prompt", f"must hold {{}} exactly once for the subject, it is {shown(prompt)!r}")
    return Edit(
        query=" ".join(prompt.replace("{}", subject).split()),  # RippleEdits puts two spaces around the subject
        target_new=one.text("target_new", "str"),
        target_true=one.text("target_true", "str"),
        subject=subject,
        relation=one.text("relation_id"),
    )


def _paraphrases(entry: Entry) -> tuple[str, ...]:
    [one] = entry.row.objects("requested_rewrite")
    return _texts_if_any(one, "question")


def _texts_if_any(row: Row, field: str) -> tuple[str, ...]:
    """The texts of a field that a row may lack, or leave null."""
    return () if row.values.get(field) is None else row.aliases(field)


def _further(entry: Entry) -> Iterator[Probe]:
    row = entry.row
    new = row.text("new_answer")
    old = next(iter(_texts_if_any(row, "answer")), None)
    also = tuple(one for one in _texts_if_any(row, "new_answer_alias") if one != new)
    for question in row.texts("questions"):
        if old and is_answer(old, (new, *also)):
            entry.drop("multi_hop probe", "the edit does not change its answer")
        else:
            yield Probe(Aspect.MULTI_HOP, question, new, old, also)


FORM = Form(
    name="the multi-hop form of MQuAKE and RippleEdits (requested_rewrite as a list, questions, new_answer)",
    recognises=lambda row: isinstance(row.values.get("requested_rewrite"), list),
    skip=_skip,
    edit=_edit,
    case_id=Row.case_id,
    paraphrases=lambda entry, known: _paraphrases(entry),
    further=_further,
)
