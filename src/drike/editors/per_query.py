"""DR-IKE-Q: in-context editing whose demonstrations are chosen for every query (docs/method.md, "Past the paper")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drike.demonstrations import Demonstration
from drike.edits import Edit
from drike.prompts import Prompt, PromptStyle
from drike.retrieval.budget import TokenLimit
from drike.retrieval.cuts import CutPolicy
from drike.retrieval.pool import Pool
from drike.retrieval.query_policy import QueryPolicy


@dataclass(frozen=True)
class PerQuery:
    """Shows each query as many copies, updates and retains, nearest first, as `policy` chooses.

    limit: prune demonstrations from the end until a query's prompt fits.
    """

    name: str
    pool: Pool
    policy: CutPolicy
    style: PromptStyle = PromptStyle()
    limit: TokenLimit | None = None

    @property
    def trained_on(self) -> frozenset[tuple[str, str]]:
        """Keys of the edits that its policy was trained on."""
        return self.policy.trained_on if isinstance(self.policy, QueryPolicy) else frozenset()

    def prompts(self, edit: Edit, queries: Sequence[str]) -> list[Prompt]:
        """Choose and show for every query."""
        [candidates] = self.pool.candidates([edit])
        chosen = zip(queries, self.policy.choose(edit, queries), strict=True)
        return [self._prompt(edit, query, cut.shown(candidates)) for query, cut in chosen]

    def _prompt(self, edit: Edit, query: str, shown: Sequence[Demonstration]) -> Prompt:
        kept = len(shown)
        if self.limit is not None and kept:
            kept = self.limit.fitting(kept, lambda j: self.style.write(edit, shown[:j], [query]))
        [prompt] = self.style.write(edit, shown[:kept], [query])
        return replace(prompt, pruned=len(shown) - kept)
