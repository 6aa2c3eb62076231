"""In-context editing whose demonstrations are chosen for every query: DR-IKE-Q, policies over sets, and MO-IKE.

docs/method.md, "Past the paper", describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from drike.demonstrations import Demonstration, DemonstrationSet, interleave
from drike.editors.budgets import TokenLimit
from drike.editors.pool import Pool
from drike.edits import Edit, Key, trained_on
from drike.prompts import Prompt, PromptStyle


class QueryChoice(Protocol):
    """Chooses among the demonstrations of an edit for every query."""

    def shown(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[tuple[Demonstration, ...]]:
        """What is shown to each query, in order."""


@dataclass(frozen=True)
class PerQuery:
    """Shows each query the demonstrations that `policy` chooses for it.

    limit: prune demonstrations from the end until a query's prompt fits. Where several edits are in force, the policy
    chooses for each, and the prompt shows what `interleave` takes of that.
    """

    name: str
    pool: Pool
    policy: QueryChoice
    style: PromptStyle = PromptStyle()
    limit: TokenLimit | None = None

    @property
    def trained_on(self) -> frozenset[Key]:
        """Keys of the edits that its policy, or the policy behind it, was trained on."""
        return trained_on(self.policy)

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """Choose and show for every query. Raises ValueError for no edits."""
        chosen = [self.policy.shown(pool, queries) for pool in self.pool.together(edits)]
        return [
            prompt_with(interleave(shown), edits, query, self.style, self.limit)
            for query, *shown in zip(queries, *chosen, strict=True)
        ]


def prompt_with(
    shown: Sequence[Demonstration],
    edits: Sequence[Edit],
    query: str,
    style: PromptStyle,
    limit: TokenLimit | None = None,
) -> Prompt:
    """The prompt of a query with these demonstrations, or as many of the first of them as fit into the limit."""
    kept = len(shown)
    if limit is not None and kept:
        kept = limit.fitting(kept, lambda j: style.write(edits, shown[:j], [query]))
    [prompt] = style.write(edits, shown[:kept], [query])
    return replace(prompt, pruned=len(shown) - kept)
