"""How continuations are scored: all strategies, and the fastest one that is exact for a model."""

from dataclasses import dataclass
from typing import Literal, get_args

from transformers import PreTrainedModel

from drike.models.local.architecture import fork_obstacle, tree_obstacle
from drike.models.local.attention import SPLIT

Strategy = Literal["tree", "fork", "naive"]  # fastest first; each is exact for more models
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


@dataclass(frozen=True)
class Plan:
    """A scoring strategy, and the reason for it.

    tree: one forward over a packed tree reads shared prefixes once. fork: one forward per branch of
    the tree reads them once, too, as the model's own cache is copied at every fork. naive: one
    forward per request, possible with any model.
    """

    strategy: Strategy
    reason: str


def plan(model: PreTrainedModel) -> Plan:
    """The fastest strategy that is exact for the model, by its config."""
    if obstacle := fork_obstacle(model):
        return Plan("naive", obstacle)
    if obstacle := tree_obstacle(model):
        return Plan("fork", obstacle)
    attention = model.config.get_text_config()._attn_implementation
    if attention == SPLIT:
        attention = "sdpa, causal kernel on the trunk"
    return Plan("tree", f"attention ({attention}) follows the given mask and position_ids")


def slower(strategy: Strategy) -> Strategy:
    """The next slower strategy; there is one unless it is "naive"."""
    return STRATEGIES[STRATEGIES.index(strategy) + 1]
