"""The multi-hop form of MQuAKE (Zhong et al. 2023).

RippleEdits (Cohen et al. 2024) is published in it as well. A row has edits, all in force at once,
and questions whose answer follows from them and further facts.
"""

from collections.abc import Sequence
from dataclasses import replace

from drike.edits.edit import Aspect, Edit, Probe
from drike.research.datasets.cleaning import Templates
from drike.research.datasets.form import (
    Form,
    Questions,
    Target,
    is_answer,
    paraphrase,
    texts_if_any,
)
from drike.research.datasets.forms.counterfact import edit_at
from drike.research.datasets.read_log import ReadLog
from drike.support.rows import Row


def _recognises(row: Row) -> bool:
    return isinstance(row.values.get("requested_rewrite"), list)


def _edits(row: Row, target: Target) -> list[Edit]:
    rewrites = row.objects("requested_rewrite")
    if not rewrites:
        raise row.wrong("requested_rewrite", "must hold an edit")
    return [_with_single_spaces(edit_at(rewrite)) for rewrite in rewrites]


def _with_single_spaces(edit: Edit) -> Edit:
    """RippleEdits doubles some spaces."""
    return replace(edit, query=" ".join(edit.query.split()))


def _questions(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    new_answer = row.text("new_answer")
    for edit, rewrite in zip(edits, row.objects("requested_rewrite"), strict=True):
        for text in texts_if_any(rewrite, "question"):
            yield paraphrase(edit, text)

    hops = _hops(row, log)
    old_answers = texts_if_any(row, "answer")
    old_answer = old_answers[0] if old_answers else None
    aliases = [text for text in texts_if_any(row, "new_answer_alias") if text != new_answer]
    changes_nothing = old_answer is not None and is_answer(old_answer, [new_answer, *aliases])
    for text in row.texts("questions"):
        if changes_nothing:
            log.drop("multi_hop probe", "the edits do not change its answer", row)
        else:
            yield Probe(Aspect.MULTI_HOP, text, new_answer, old_answer, tuple(aliases), hops=hops)


def _hops(row: Row, log: ReadLog) -> int | None:
    """How many facts lead to the new answer; None where the row is of two minds."""
    old_hops = len(row.objects("single_hops"))
    new_hops = len(row.objects("new_single_hops"))
    if old_hops and new_hops and old_hops != new_hops:
        log.drop("number of hops", "single_hops and new_single_hops differ in it", row)
        return None
    return new_hops or old_hops or None


FORM = Form(
    "the multi-hop form of MQuAKE and RippleEdits "
    "(requested_rewrite as a list, questions, new_answer)",
    _recognises,
    _edits,
    _questions,
    case_id=Row.case_id,
)
