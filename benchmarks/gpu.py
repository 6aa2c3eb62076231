"""Time training episodes and evaluated edits on a GPU, with a random-weights Llama-3.1-8B in bfloat16.

    python benchmarks/gpu.py [--episodes 300] [--shape 8B|1B|tiny] [--device cuda]

Prints the seconds for an epoch of episodes (with 16 nested prompts each, and with the paper's mean of 3 retains) and
for an evaluated edit, with the packed tree, with all prompts of one read in a padded batch, and with one plain forward
per prompt (the latter two on a sample, scaled by tokens); the share of the card's bfloat16 matrix throughput (measured
here with a large product) that the tree reaches; how far the tree's log-probabilities are from those of plain forwards,
and how far the batch's are, which differ by rounding alone; and the same difference in float32, with a quarter of the
layers. For comparison: the paper's seconds for an epoch of 300 edits with this model on its card (1459.6 s).

`--shape tiny --device cpu --episodes 2` tries the script without a GPU; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from itertools import chain

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from drike import tinyfacts
from drike.models.local import scoring
from drike.models.local.checkpoints import open_checkpoint
from drike.models.local.huggingface import HuggingFaceModel
from drike.models.local.memory import bytes_to_keep
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.scoring import TokenScores
from drike.models.local.token_trees import build_tree
from drike.models.local.tokens import Encoded
from lib import pages
from lib.padded import padded_logits

TITLE = "Scoring on a GPU"

PAPER_EPOCH_SECONDS = 1459.6
SHAPES = {
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256},
    "1B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256},
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 8000},
}  # fmt: skip
DEMONSTRATION, FACT, QUERY, TARGET = 25, 14, 10, 2


def tokens(rng: random.Random, count: int, vocabulary: int) -> list[int]:
    """Draw a piece of text that shares no prefix with another."""
    return [rng.randrange(10, vocabulary) for _ in range(count)]


def episode(rng: random.Random, retains: int, vocabulary: int) -> list[Encoded]:
    """Nested prompts with 1 to `retains` retains after 16 copies and updates, one target."""
    fixed = tokens(rng, 16 * DEMONSTRATION, vocabulary)
    blocks = [tokens(rng, DEMONSTRATION, vocabulary) for _ in range(retains)]
    end, target = tokens(rng, 2 * (FACT + QUERY), vocabulary), tokens(rng, TARGET, vocabulary)
    prompts = [[*fixed, *chain.from_iterable(blocks[:j]), *end] for j in range(1, retains + 1)]
    return [Encoded((*prompt, *target), len(prompt)) for prompt in prompts]


def evaluation(rng: random.Random, vocabulary: int) -> list[Encoded]:
    """13 queries after 32 demonstrations, two targets each."""
    shown = tokens(rng, 32 * DEMONSTRATION + FACT + QUERY + FACT, vocabulary)
    prompts = [shown + tokens(rng, QUERY, vocabulary) for _ in range(13)]
    targets = [tokens(rng, TARGET, vocabulary) for _ in range(2)]
    return [Encoded((*prompt, *target), len(prompt)) for prompt in prompts for target in targets]


def seconds(work: Callable[[], object]) -> float:
    """Measure wall time, with the device idle before and after."""
    drain()
    began = time.perf_counter()
    work()
    drain()
    return time.perf_counter() - began


def drain() -> None:
    """Wait until the device is idle."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def matrix_rate(device: str, size: int) -> float:
    """Measure the FLOP/s of a square bfloat16 product."""
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    taken = [seconds(lambda: a @ a) for _ in range(10)][2:]
    return 2 * size**3 / statistics.median(taken)


def sum_of(reads: list[list[Encoded]]) -> int:
    """Count the tokens of all requests, as if each were read separately."""
    return sum(len(request.ids) for requests in reads for request in requests)


def score_batched(model: PreTrainedModel, requests: list[Encoded]) -> list[TokenScores]:
    """Score with one forward over all requests, padded on the right; nothing is shared."""
    logits, columns = padded_logits(model, requests)
    needed = (np.arange(request.start - 1, len(request.ids)) for request in requests)
    places = [i * len(columns) + np.searchsorted(columns, own) for i, own in enumerate(needed)]
    return scoring.token_scores(logits.flatten(0, 1), requests, places)


def measure(
    model: HuggingFaceModel, name: str, reads: list[list[Encoded]], rate: float, keep: int
) -> float:
    """Print the time for `reads` with the tree, with cached prefixes, and unshared; return that of the tree."""
    inner = model._model
    distinct = sum(len(build_tree([r.ids for r in requests])) for requests in reads)
    flops = (
        2
        * sum(
            p.numel() for n, p in inner.model.named_parameters() if p.ndim > 1 and "embed" not in n
        )
        * distinct
    )
    for requests in reads[:2]:
        scoring.score_tree(inner, scoring.pack(requests))  # warm-up
    tree = seconds(
        lambda: [scoring.score_tree(inner, scoring.pack(requests)) for requests in reads]
    )
    kept = PrefixCache(keep)
    seconds(lambda: [scoring.score_tree(inner, scoring.pack(requests), kept) for requests in reads])
    again = seconds(
        lambda: [scoring.score_tree(inner, scoring.pack(requests), kept) for requests in reads]
    )
    some = reads[: max(1, len(reads) // 20)]
    share = sum_of(reads) / sum_of(some)
    score_batched(inner, reads[0])
    batch = share * seconds(lambda: [score_batched(inner, requests) for requests in some])
    naive = share * seconds(lambda: [scoring.score_naively(inner, requests) for requests in some])
    plain = scoring.score_naively(inner, reads[0]).scores
    off = scoring.disagreement(scoring.score_tree(inner, scoring.pack(reads[0])).scores, plain)
    batch_off = scoring.disagreement(score_batched(inner, reads[0]), plain)
    print(
        f"| {name} | {len(reads)} | {distinct:,} of {sum_of(reads):,} | {tree:.2f} | {again:.2f} | {batch:.1f} | "
        f"{naive:.1f} | {batch / tree:.1f} | {naive / tree:.1f} | {100 * flops / tree / rate:.0f} % | {off:.1e} | "
        f"{batch_off:.1e} |",
        flush=True,
    )
    return tree


def exactness(shape: dict[str, int], device: str) -> dict[str, float]:
    """Differences in nats between the tree's log-probabilities and those of plain forwards, in float32."""
    rng = random.Random(1)
    model = build(
        shape | {"num_hidden_layers": max(1, shape["num_hidden_layers"] // 4)},
        device,
        torch.float32,
    )
    reads = {
        "episode": episode(rng, 16, shape["vocab_size"]),
        "evaluated edit": evaluation(rng, shape["vocab_size"]),
    }
    return {
        name: scoring.disagreement(
            scoring.score_tree(model._model, scoring.pack(requests)).scores,
            scoring.score_naively(model._model, requests).scores,
        )
        for name, requests in reads.items()
    }


def build(shape: dict[str, int], device: str, dtype: torch.dtype) -> HuggingFaceModel:
    """A Llama of this shape with random weights, and a tokenizer that it does not need."""
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    with torch.device(device):
        raw = LlamaForCausalLM(LlamaConfig(**shape, max_position_embeddings=8192))
    torch.set_default_dtype(torch.float32)
    _, tokenizer = open_checkpoint(str(tinyfacts.MODEL), None)
    return HuggingFaceModel(raw, tokenizer, name="random weights")


def main() -> None:
    """Build the model on the device and print all timings."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--episodes", type=int, default=300, help="number of training episodes to time"
    )
    parser.add_argument("--shape", choices=list(SHAPES), default="8B", help="size of the model")
    parser.add_argument("--device", default="cuda", help="torch device")
    args = parser.parse_args()
    with pages.measured(args, TITLE, __doc__):
        measure_all(args)


def measure_all(args: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit(
            "there is no CUDA device here: --shape tiny --device cpu --episodes 2 tries the script without one"
        )
    shape = SHAPES[args.shape]
    exact = exactness(shape, args.device)
    model = build(shape, args.device, torch.bfloat16)
    keep = bytes_to_keep(model._model)
    rate = matrix_rate(args.device, 8192 if args.device == "cuda" else 256)
    card = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    print(
        f"{card}, {rate / 1e12:.1f} TFLOP/s in a bfloat16 product; Llama {args.shape}, random weights\n"
    )
    print(
        "| read | times | distinct tokens | tree, s | trunk kept, s | batch, s | naive, s | batch/tree | naive/tree | "
        "of the rate | off, nats | batch off, nats |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    rng, vocabulary = random.Random(0), shape["vocab_size"]
    epoch = {}
    for retains in (16, 3):
        reads = [episode(rng, retains, vocabulary) for _ in range(args.episodes)]
        epoch[retains] = measure(model, f"episode, {retains} retains", reads, rate, keep)
    reads = [evaluation(rng, vocabulary) for _ in range(max(2, args.episodes // 15))]
    measure(model, "evaluated edit", reads, rate, keep)
    shown = ", ".join(f"{name} {off:.1e}" for name, off in exact.items())
    print(f"\nDifferences from plain forwards in float32, nats: {shown}")
    if args.shape == "8B":
        for retains, spent in epoch.items():
            of_300 = spent * 300 / args.episodes
            print(
                f"\nAn epoch of 300 edits, {retains} retains each: {of_300:.1f} s, "
                f"{PAPER_EPOCH_SECONDS / of_300:.0f}x faster than the paper's {PAPER_EPOCH_SECONDS} s"
            )


if __name__ == "__main__":
    main()
