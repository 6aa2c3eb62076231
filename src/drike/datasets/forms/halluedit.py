"""HalluEditBench (Huang et al. 2025): facts that a model got wrong, with questions of many kinds; a CSV file a topic.

The edit leads from what the model said to the right answer. Options are asked for by their letter, and both letter and
text are right. The question about another fact of the subject has no published answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drike.datasets.form import Entry, Form, Target, edit_about
from drike.datasets.generated import choice, yes_no
from drike.datasets.rows import Row, shown
from drike.edits import Aspect, BaselineQuestion, Edit, Probe

_HOPS = re.compile(r"(?:question|answer)_(\d+)hop")
_OPTION = re.compile(r"(?:^|\s{2,})([A-Z])\. ")  # two spaces stand between options


def _edit(row: Row, target: Target) -> Edit:
    edit = edit_about(row, "question")
    said = [name for name in row.values if name.startswith("output_")]
    if len(said) > 1:
        raise row.wrong(said[1], f"is a second model's answer beside {said[0]}")
    true = row.text(said[0]) if said else None
    return edit(row.text("object"), true)


def _choice(row: Row, query: str) -> Probe:
    options, right = row.text("multiple_choice_with_letters"), row.text("multiple_choice_labels")
    _, *parts = _OPTION.split(options)
    by_letter = dict(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))
    if not by_letter.get(right):
        raise row.wrong("multiple_choice_labels", f"must be the letter of an option, it is {shown(right)!r}")
    return choice(query, options, right, by_letter[right])


def _further(entry: Entry) -> Iterator[Probe | BaselineQuestion]:
    row, edit = entry.row, entry.edit
    yield yes_no(row.text("yes_question"), yes=True)
    yield yes_no(row.text("no_question"), yes=False)
    yield _choice(row, edit.query)
    yield Probe(Aspect.REVERSE, row.text("reversed_relation_question"), edit.subject or "")
    yield BaselineQuestion(Aspect.SAME_SUBJECT, row.text("locality_question"))
    for hops in sorted({int(match[1]) for name in row.values if (match := _HOPS.fullmatch(name))}):
        yield Probe(Aspect.MULTI_HOP, row.text(f"question_{hops}hop"), row.text(f"answer_{hops}hop"), hops=hops)


FORM = Form(
    name="HalluEditBench (CSV: subject, object, question, paraphrased_question, locality_question, question_2hop, ...)",
    recognises=lambda row: row.values.keys() >= {"subject", "object", "question", "paraphrased_question"},
    edit=_edit,
    paraphrases=lambda entry, known: [entry.row.text("paraphrased_question")],
    further=_further,
)
