"""DR-IKE-Q: in-context editing whose demonstrations are chosen for every query (docs/method.md, "Past the paper")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from drike.demonstrations import Demonstration, shared_out
from drike.edits import Edit
from drike.prompts import Prompt, PromptStyle
from drike.retrieval.budget import TokenLimit
from drike.retrieval.mixes import Mix, MixPolicy, SameSize
from drike.retrieval.pool import Pool
from drike.retrieval.query_policy import QueryPolicy


@dataclass(frozen=True)
class PerQuery:
    """Shows each query as many copies, updates and retains, nearest first, as `policy` chooses.

    limit: prune demonstrations from the end until a query's prompt fits. Where several edits are in force, the policy
    chooses for each, and the prompt shows what `shared_out` takes of that.
    """

    name: str
    pool: Pool
    policy: MixPolicy
    style: PromptStyle = PromptStyle()
    limit: TokenLimit | None = None

    @property
    def trained_on(self) -> frozenset[tuple[str, str]]:
        """Keys of the edits that its policy, or the policy behind it, was trained on."""
        policy = self.policy.policy if isinstance(self.policy, SameSize) else self.policy
        return policy.trained_on if isinstance(policy, QueryPolicy) else frozenset()

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """Choose and show for every query. Raises ValueError for no edits."""
        pools = self.pool.together(edits)
        chosen = [map(Mix.shown, self.policy.choose(pool.edit, queries), repeat(pool)) for pool in pools]
        return [
            prompt_with(shared_out(shown), edits, query, self.style, self.limit)
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
