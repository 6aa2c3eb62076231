"""Edits, the probes that judge them, and cases (paper, section 3): plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

Key = tuple[str, str]  # what identifies a new fact in any file: its query and its object


class Aspect(StrEnum):
    """Which side of an edit a probe looks at.

    same_subject: another fact about the edited subject, which must stay. alias: the subject under another name. yes_no,
    choice: answered yes or no, or with one of several options. reverse: asks for the subject. multi_hop: a fact that
    follows from the edit and others. pushback: after a doubt. distractor: after a misleading sentence.
    """

    REWRITE = "rewrite"
    PARAPHRASE = "paraphrase"
    NEIGHBORHOOD = "neighborhood"
    SAME_SUBJECT = "same_subject"
    ALIAS = "alias"
    YES_NO = "yes_no"
    CHOICE = "choice"
    REVERSE = "reverse"
    MULTI_HOP = "multi_hop"
    PUSHBACK = "pushback"
    DISTRACTOR = "distractor"


# The paper's aspects, of which S is made and from which all training learns.
ASPECTS_OF_S = (Aspect.REWRITE, Aspect.PARAPHRASE, Aspect.NEIGHBORHOOD)


@dataclass(frozen=True)
class Edit:
    """A fact the model shall state from now on: `query` completed with `target_new`.

    `query` is the text right before the object ("The capital of Peru is"); targets carry no leading space.
    """

    query: str
    target_new: str
    target_true: str | None = None
    subject: str | None = None
    relation: str | None = None

    @property
    def fact(self) -> str:
        """The new fact as a sentence without a full stop."""
        return f"{self.query} {self.target_new}"

    @property
    def key(self) -> Key:
        """What identifies the new fact."""
        return self.query, self.target_new


@dataclass(frozen=True)
class Probe:
    """One question about a case: `query` must be completed with `target` and not with `distractor`.

    also: other right answers, such as aliases of the target. doubts: what the user says after each of the model's
    answers; the last answer counts. hops: how many facts a multi_hop probe goes through; None if that is not known.
    """

    aspect: Aspect
    query: str
    target: str
    distractor: str | None = None
    also: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    hops: int | None = None

    @property
    def asked(self) -> str:
        """The query and all doubts, a line each: what outcomes record."""
        return "\n".join((self.query, *self.doubts))


@dataclass(frozen=True)
class BaselineQuestion:
    """A question that the unedited model is asked first (`baseline_answers`): what it says is right.

    among: with one of these answers only is the question asked under the edit; empty: with any. target: what is right
    under the edit instead, if the question rests on a fact that the model must know (`among`) and the edit changes.
    """

    aspect: Aspect
    query: str
    among: tuple[str, ...] = ()
    target: str | None = None


@dataclass(frozen=True)
class EditCase:
    """A benchmark row: an edit and the probes that judge it.

    probes: of the aspects that S is made of, the rewrite probe first; training learns from these. further: probes of
    other aspects, which only evaluation asks. unanswered: questions that are asked once they have an answer.
    other_edits: in force as well when the probes are asked. Raises ValueError for a probe in the wrong one of the first
    two.
    """

    case_id: str
    edit: Edit
    probes: tuple[Probe, ...]
    further: tuple[Probe, ...] = ()
    unanswered: tuple[BaselineQuestion, ...] = ()
    other_edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        misplaced = [p for p in self.probes if p.aspect not in ASPECTS_OF_S]
        misplaced += [p for p in self.further if p.aspect in ASPECTS_OF_S]
        if misplaced:
            right = "probes" if misplaced[0].aspect in ASPECTS_OF_S else "further"
            raise ValueError(f"case {self.case_id}: put its {misplaced[0].aspect} probes into `{right}`")

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All edits in force when its probes are asked."""
        return (self.edit, *self.other_edits)

    @property
    def asked(self) -> tuple[Probe, ...]:
        """All probes, as evaluation asks them."""
        return (*self.probes, *self.further)

    @property
    def paraphrases(self) -> tuple[Probe, ...]:
        """Probes of the edited fact in other words."""
        return tuple(probe for probe in self.probes if probe.aspect is Aspect.PARAPHRASE)

    @property
    def neighborhood(self) -> tuple[Probe, ...]:
        """Probes of neighbouring facts, whose target is the object they already have."""
        return tuple(probe for probe in self.probes if probe.aspect is Aspect.NEIGHBORHOOD)


@runtime_checkable
class TrainedOnEdits(Protocol):
    """What may have been trained on edits: a ranker, a policy, a budget or an editor."""

    @property
    def trained_on(self) -> frozenset[Key]:
        """Keys of the edits that it, or a part of it, was trained on."""


def trained_on(*parts: object) -> frozenset[Key]:
    """Keys of the edits that any of the parts was trained on; those that do not say were trained on none."""
    return frozenset().union(*(part.trained_on for part in parts if isinstance(part, TrainedOnEdits)))


def mentions(text: str, subject: str) -> bool:
    """Whether a text names a subject as whole words, whatever the case: "Tirana" does not name "Iran"."""
    return re.search(rf"(?<!\w){re.escape(subject)}(?!\w)", text, re.IGNORECASE) is not None


def rewrite_probe(edit: Edit) -> Probe:
    """The probe of the edit's own query."""
    return Probe(Aspect.REWRITE, edit.query, edit.target_new, edit.target_true)
