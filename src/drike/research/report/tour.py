"""The tour: what drike does to a model, as one page without a script that needs no network.

The embedded model answers when the page is made, with edits of TinyFacts in force. The figures on
real models' recorded answers are in recorded.tsv, which a test compares with
benchmarks/notes/recorded.md.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drike.edits.edit import EditCase
from drike.research.deployment.edited_model import EditedModel
from drike.research.deployment.routing import write_prompts
from drike.research.report.templates import rendered

OTHERS = 100  # further edits that are in force
TOURED = (  # subjects and relations of the edits that are asked for
    ("Felix Plater", "P27"),
    ("Uttar Pradesh", "P37"),
)
# By query: how the question is put, and whether the edit is to change its answer.
QUESTIONS = {
    "Felix Plater holds the nationality of": ("the edit's own query", True),
    "By nationality, Felix Plater belongs to": ("in other words", True),
    "Plater holds the nationality of": ("by the last name alone", True),
    "Felix Plater wrote at length on": ("another fact about him", False),
    "Dieter Moebius holds the nationality of": ("the same of somebody else", False),
    "The landmass that holds Uttar Pradesh is": (
        "another fact about the subject of another edit",
        False,
    ),
    "Schools in Uttar Pradesh teach in": (
        "that edit, asked for in words that say little of it",
        True,
    ),
}


def edits_of(cases: Sequence[EditCase]) -> list[EditCase]:
    """The toured edits, and `OTHERS` further ones, one a subject."""
    case_by_fact = {(case.edit.subject, case.edit.relation): case for case in cases}
    toured_subjects = dict(TOURED)
    other_by_subject = {
        case.edit.subject: case for case in cases if case.edit.subject not in toured_subjects
    }
    toured = [case_by_fact[fact] for fact in TOURED]
    return toured + list(other_by_subject.values())[:OTHERS]


def recorded() -> list[list[str]]:
    """What ways of editing do to a real model, a row each.

    The columns after the name: PC, RR and S (other answers unchanged), S (clean of the new object).
    """
    path = Path(__file__).with_name("recorded.tsv")
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


@dataclass(frozen=True)
class CorrectedChat:
    """A question to a chat model, and its answers without and with an edit.

    new: the edit's new object, or None for a question about something else. before: None where it
    was not asked.
    """

    model: str
    question: str
    new: str | None
    before: str | None
    after: str


def html(
    edited: EditedModel, toured: Sequence[EditCase], corrected: Sequence[CorrectedChat] = ()
) -> str:
    """The page: every question asked without and with the edits in force.

    corrected: the same of a real chat model.

    The same answers give the same text.
    """
    answered = edited.before_after(list(QUESTIONS))
    prompts = write_prompts(edited.editor, [answers.decision for answers in answered])
    stops = zip(QUESTIONS.values(), answered, prompts, strict=True)
    return rendered(
        "tour.html",
        toured=toured,
        corrected=corrected,
        stops=stops,
        in_force=len(edited.index.edits),
        rows=recorded(),
    )
