"""Edits, the probes that judge them, and cases (paper, section 3): plain data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Aspect(StrEnum):
    """Which side of an edit a probe looks at."""

    REWRITE = "rewrite"
    PARAPHRASE = "paraphrase"
    NEIGHBORHOOD = "neighborhood"


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
    def key(self) -> tuple[str, str]:
        """What identifies the new fact in any file: its query and its object."""
        return self.query, self.target_new


@dataclass(frozen=True)
class Probe:
    """One question about a case: `query` must be completed with `target` and not with `distractor`."""

    aspect: Aspect
    query: str
    target: str
    distractor: str | None = None


@dataclass(frozen=True)
class EditCase:
    """A benchmark row: an edit and the probes that judge it. The rewrite probe always comes first."""

    case_id: str
    edit: Edit
    probes: tuple[Probe, ...]

    @property
    def paraphrases(self) -> tuple[Probe, ...]:
        """Probes of the edited fact in other words."""
        return tuple(probe for probe in self.probes if probe.aspect is Aspect.PARAPHRASE)

    @property
    def neighborhood(self) -> tuple[Probe, ...]:
        """Probes of neighbouring facts, whose target is the object they already have."""
        return tuple(probe for probe in self.probes if probe.aspect is Aspect.NEIGHBORHOOD)


def mentions(text: str, subject: str) -> bool:
    """Whether a text names a subject as whole words, whatever the case: "Tirana" does not name "Iran"."""
    return re.search(rf"(?<!\w){re.escape(subject)}(?!\w)", text, re.IGNORECASE) is not None


def rewrite_probe(edit: Edit) -> Probe:
    """The probe of the edit's own query."""
    return Probe(Aspect.REWRITE, edit.query, edit.target_new, edit.target_true)
