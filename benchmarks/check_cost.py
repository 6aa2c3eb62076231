"""What the scoring engine's check of itself costs in a long run, in tokens and in CPU time.

    python benchmarks/check_cost.py [--trees 1500]

A random-weights Llama of one layer reads trees one after another, as a training run of 300 edits and 5 epochs does:
8 queries of 12 tokens after a text that is shown to all. The text has
  any length:       50 to 1,000 tokens, drawn anew for each tree,
  growing:          50 tokens in the first tree, and steadily more, up to 1,000 in the last, or
  growing, kept:    the same of one text, whose beginnings are kept, so that most of it is never read again.
Each tree is read twice in turn, with the check and without, each time by a reader of its own. The shares are the sums
of all trees, in CPU time of one thread.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Iterator

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from drike.models.local.attention import use_given_masks
from drike.models.local.plans import Plan
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.self_check import CheckedReader
from drike.models.local.tokens import Encoded
from drike.models.protocols import Usage
from lib import pages

TITLE = "What checking scores costs"
SHORTEST, LONGEST, QUERIES, QUERY = 50, 1000, 8, 12
VOCABULARY = 200


class Unchecked(CheckedReader):
    """Reads as if every check had been passed."""

    def _is_covered(self, packed: object) -> bool:
        return True


def tree(rng: random.Random, shown: list[int]) -> list[Encoded]:
    """Queries after a text."""
    queries = [rng.choices(range(VOCABULARY), k=QUERY) for _ in range(QUERIES)]
    return [Encoded((*shown, *query), len(shown) + QUERY - 2) for query in queries]


def texts(workload: str, trees: int) -> Iterator[list[int]]:
    """What the queries of each tree come after."""
    rng = random.Random(1)
    whole = rng.choices(range(VOCABULARY), k=LONGEST)
    for i in range(trees):
        length = SHORTEST + (LONGEST - SHORTEST) * i // trees
        if workload == "any length":
            length = rng.randint(SHORTEST, LONGEST)
        kept = workload == "growing, kept"
        yield whole[:length] if kept else rng.choices(range(VOCABULARY), k=length)


def measure(workload: str, trees: int) -> tuple[str, str, str]:
    """Read all trees with the check and without: what it adds to tokens and to CPU time."""
    kept = 64 << 20 if workload == "growing, kept" else 0
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    more = {"num_attention_heads": 4, "vocab_size": VOCABULARY, "max_position_embeddings": 4096}
    model = LlamaForCausalLM(LlamaConfig(**shape, **more)).eval()
    use_given_masks(model)
    plan = Plan("tree", "")
    readers = [kind(model, plan, PrefixCache(kept)) for kind in (CheckedReader, Unchecked)]
    usages, seconds = [Usage(), Usage()], [0.0, 0.0]
    rng = random.Random(0)
    for i, shown in enumerate(texts(workload, trees)):
        requests = tree(rng, shown)
        for one in (0, 1) if i % 2 else (1, 0):
            began = time.process_time()
            usages[one] += readers[one].read(requests).usage
            seconds[one] += time.process_time() - began
    checked, unchecked = usages
    assert readers[0].plan.strategy == "tree"
    share = checked.tokens_computed / unchecked.tokens_computed - 1
    in_time = seconds[0] / seconds[1] - 1
    return f"{unchecked.tokens_computed:,}", f"{share:.1%}", f"{in_time:.1%}"


def main() -> None:
    """Measure both workloads."""
    parser = pages.parser(__doc__)
    parser.add_argument("--trees", type=int, default=1500, help="trees in a run")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with pages.measured(args, TITLE, __doc__):
        workloads = ("any length", "growing", "growing, kept")
        rows = [(workload, *measure(workload, args.trees)) for workload in workloads]
        columns = ("texts", "tokens without checks", "more tokens", "more CPU time")
        pages.draw(f"What the check adds to {args.trees:,} trees", columns, rows, "")


if __name__ == "__main__":
    main()
