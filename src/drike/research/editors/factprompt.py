"""FactPrompt: the new facts after "Imagine that", the in-context baseline of RippleEdits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from drike.edits.edit import Edit
from drike.prompts import Prompt, facts_of


@dataclass(frozen=True)
class FactPrompt:
    """States the new facts before the query, without demonstrations.

    line: what is written for each fact, which replaces "{}". before: what precedes the query.
    """

    name: str = "FactPrompt"
    line: str = field(default="Imagine that {}.\n", repr=False)
    before: str = field(default="", repr=False)

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """Each fact on a line of its own, then the query. Raises ValueError for no edits."""
        fact_lines = "".join(self.line.format(fact) for fact in facts_of(edits))
        return [Prompt(fact_lines + self.before + query) for query in queries]
