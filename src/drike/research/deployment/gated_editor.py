"""An editor behind a gate."""

from collections.abc import Sequence
from dataclasses import dataclass

from drike.edits.edit import Edit
from drike.gates.decision import Gate
from drike.prompts import Prompt
from drike.research.deployment.routing import route_each, write_prompts
from drike.research.deployment.simulated_stores import SimulatedStores
from drike.research.editors.editor import Editor


@dataclass(frozen=True)
class GatedEditor:
    """An editor behind a gate: each query gets the edits that it concerns, or none at all."""

    editor: Editor
    gate: Gate
    stores: SimulatedStores

    @property
    def name(self) -> str:
        """The editor's."""
        return self.editor.name

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order, under the edits in force that it concerns."""
        index = self.stores.index_for(edits)
        decisions = route_each(self.gate, index, queries)
        return write_prompts(self.editor, decisions)
