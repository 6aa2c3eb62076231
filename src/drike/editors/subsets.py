"""Editors whose policy chooses a set of demonstrations: for every query, or once for the edit as MO-IKE does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drike.demonstrations import shared_out
from drike.editors.per_query import prompt_with
from drike.edits import Edit
from drike.prompts import Prompt, PromptStyle
from drike.retrieval.budget import TokenLimit
from drike.retrieval.pool import Pool
from drike.retrieval.subsets import SubsetPolicy


@dataclass(frozen=True)
class Subsets:
    """Shows each query the set that `policy` chooses.

    limit: prune demonstrations from the end until a query's prompt fits.
    """

    name: str
    pool: Pool
    policy: SubsetPolicy
    style: PromptStyle = PromptStyle()
    limit: TokenLimit | None = None

    @property
    def trained_on(self) -> frozenset[tuple[str, str]]:
        """Keys of the edits that its policy was trained on."""
        return self.policy.trained_on

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """Choose and show for every query. Raises ValueError for no edits."""
        chosen = [self.policy.choose(pool, queries) for pool in self.pool.together(edits)]
        return [
            prompt_with(shared_out(shown), edits, query, self.style, self.limit)
            for query, *shown in zip(queries, *chosen, strict=True)
        ]
