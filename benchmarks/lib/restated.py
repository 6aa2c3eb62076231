"""An editor in evaluation whose facts stand through a conversation: every challenge of an answer is put under them.

One function says here and in requests to the gateway what is a challenge. It stays as it is; behind it, on lines of
their own, come the facts and the question whose answer is challenged, without the demonstrations of the first turn. So
a model that only completes has something to complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from drike.conversations.cues import is_challenge
from drike.edits.edit import Edit, EditCase, Key, Probe, trained_on
from drike.prompts import Prompt
from drike.research.editors.editor import Editor
from drike.research.editors.placements import NEW_FACTS
from drike.research.editors.unedited import Unedited


@runtime_checkable
class WritesTurns(Protocol):
    """An editor that also writes the later turns of a conversation; those of others reach the model as they are."""

    def later_turns(
        self, edits: Sequence[Edit], query: str, turns: Sequence[str]
    ) -> tuple[str, ...]:
        """The user's turns after `query` as the model gets them, each written given only those before it."""


def later_turns(editor: Editor, edits: Sequence[Edit], probe: Probe) -> tuple[str, ...]:
    """The user's turns after a probe's query as the model gets them."""
    if probe.challenges and isinstance(editor, WritesTurns):
        return editor.later_turns(edits, probe.query, probe.challenges)
    return probe.challenges


def as_written(editor: Editor, cases: Iterable[EditCase]) -> list[EditCase]:
    """The cases with the later turns of their probes as the editor writes them."""

    def written(case: EditCase, probes: Iterable[Probe]) -> tuple[Probe, ...]:
        return tuple(
            replace(probe, challenges=later_turns(editor, case.edits, probe)) for probe in probes
        )

    return [
        replace(case, probes=written(case, case.probes), further=written(case, case.further))
        for case in cases
    ]


@dataclass(frozen=True)
class Restated:
    """An editor that writes later turns, too (`WritesTurns`).

    facts: writes what stands behind a challenge, unless the challenged answer was not given under edits. further:
    writes a turn that asks something else; the default leaves it as it is, since it does not concern the edits.
    """

    editor: Editor
    facts: Editor = NEW_FACTS
    further: Editor = field(default_factory=Unedited)

    @property
    def name(self) -> str:
        """The editor's, marked."""
        return f"{self.editor.name}, restated"

    @property
    def trained_on(self) -> frozenset[Key]:
        """As its parts say."""
        return trained_on(self.editor, self.facts, self.further)

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """The editor's."""
        return self.editor.prompts(edits, queries)

    def later_turns(
        self, edits: Sequence[Edit], query: str, turns: Sequence[str]
    ) -> tuple[str, ...]:
        """The user's turns after `query` as the model gets them, in order. Raises ValueError for no edits."""
        question, facts, written = query, self.facts, []
        for turn in turns:
            if is_challenge(turn):
                [prompt] = facts.prompts(edits, [question])
                written.append(turn if prompt.text == question else f"{turn}\n{prompt.text}")
                continue
            [prompt] = self.further.prompts(edits, [turn])
            question, facts = turn, Unedited() if prompt.text == turn else self.facts
            written.append(prompt.text)
        return tuple(written)
