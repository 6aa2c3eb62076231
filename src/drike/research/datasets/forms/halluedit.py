"""HalluEditBench (Huang et al. 2025): facts that a model got wrong, with questions of many kinds.

There is a CSV file for each topic. The edit leads from what the model said to the right answer. The
question about another fact of the subject has no published answer.
"""

import re
from collections.abc import Sequence

from drike.edits.edit import Aspect, BaselineQuestion, Edit, Probe
from drike.research.datasets.cleaning import Templates
from drike.research.datasets.form import Form, Questions, Target, edit_about, paraphrase
from drike.research.datasets.generated import choice, yes_no
from drike.research.datasets.read_log import ReadLog
from drike.support.rows import Row, shown

_HOP_FIELD = re.compile(r"(?:question|answer)_(\d+)hop")
_OPTION = re.compile(r"(?:^|\s{2,})([A-Z])\. ")  # two spaces stand between options


def _recognises(row: Row) -> bool:
    return row.values.keys() >= {"subject", "object", "question", "paraphrased_question"}


def _edits(row: Row, target: Target) -> list[Edit]:
    outputs = [name for name in row.values if name.startswith("output_")]
    if len(outputs) > 1:
        raise row.wrong(outputs[1], f"is a second model's answer beside {outputs[0]}")
    new = row.text("object")
    true = row.text(outputs[0]) if outputs else None
    return [edit_about(row, "question", new, true)]


def _questions(
    row: Row, edits: Sequence[Edit], log: ReadLog, wordings: Templates | None
) -> Questions:
    [edit] = edits
    yield paraphrase(edit, row.text("paraphrased_question"))
    yield yes_no(row.text("yes_question"), yes=True)
    yield yes_no(row.text("no_question"), yes=False)
    yield _choice(row, edit)
    yield Probe(Aspect.REVERSE, row.text("reversed_relation_question"), edit.subject or "")
    yield BaselineQuestion(Aspect.SAME_SUBJECT, row.text("locality_question"))
    for hops in _numbers_of_hops(row):
        query = row.text(f"question_{hops}hop")
        answer = row.text(f"answer_{hops}hop")
        yield Probe(Aspect.MULTI_HOP, query, answer, hops=hops)


def _choice(row: Row, edit: Edit) -> Probe:
    """The edit's query with the published options: "A. Oslo  B. Lima  C. unsure"."""
    options = row.text("multiple_choice_with_letters")
    right_letter = row.text("multiple_choice_labels")
    _, *parts = _OPTION.split(options)  # letters and texts in turn
    text_by_letter = {
        letter: text.strip() for letter, text in zip(parts[::2], parts[1::2], strict=True)
    }
    if not text_by_letter.get(right_letter):
        problem = f"must be the letter of an option, it is {shown(right_letter)!r}"
        raise row.wrong("multiple_choice_labels", problem)
    return choice(edit.query, options, right_letter, text_by_letter[right_letter])


def _numbers_of_hops(row: Row) -> list[int]:
    matches = [_HOP_FIELD.fullmatch(name) for name in row.values]
    return sorted({int(match[1]) for match in matches if match is not None})


FORM = Form(
    "HalluEditBench "
    "(CSV: subject, object, question, paraphrased_question, locality_question, question_2hop, ...)",
    _recognises,
    _edits,
    _questions,
)
