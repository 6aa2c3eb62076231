"""Time all strategies for scoring an edit's prompts, relative to reading each distinct token once (the floor).

    python benchmarks/scoring.py [--large] [--own-copy] [--repetitions 5] [--dtype float32 bfloat16]

A random-weights Llama with the shape of SmolLM2-135M (--large: Qwen2.5-0.5B) reads
  an episode:     16 nested prompts of one query, one target each (as in a training step), and
  an evaluation:  13 queries after 32 demonstrations, two targets each (as for an evaluated edit).
Demonstrations have 25 tokens, followed by the edit's New Fact and Prompt lines (24 tokens). With --own-copy, the edit's
own copy comes before them (24 more tokens), as IKE and drike show it by default.

Times are medians of the CPU time of one thread, with the strategies interleaved in one process. The floor is a plain
causal forward over as many tokens as the tree has distinct ones, with logits at the same rows. Strategies that read
every prompt in full are timed on a sample of requests and scaled by tokens (--complete times them on all).
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import chain

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from drike import tinyfacts
from drike.models.local import scoring
from drike.models.local.checkpoints import open_checkpoint
from drike.models.local.huggingface import HuggingFaceModel
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.token_trees import build_tree
from drike.models.local.tokens import Encoded
from lib import pages
from lib.padded import padded_logits

TITLE = "One edit, every scoring strategy"

SHAPES = {
    "135M": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
             "num_key_value_heads": 3, "vocab_size": 49152},
    "0.5B": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
             "num_key_value_heads": 2, "vocab_size": 151936},
}  # fmt: skip
DEMONSTRATION, FACT, QUERY, TARGET = 25, 14, 10, 2
BATCH = 8


def tokens(rng: random.Random, count: int) -> list[int]:
    """Draw a piece of text that shares no prefix with another."""
    return [rng.randrange(100, 40000) for _ in range(count)]


def episode(rng: random.Random, own_copy: bool) -> list[Encoded]:
    """16 nested prompts, one target each."""
    fixed, retains = (
        tokens(rng, 16 * DEMONSTRATION),
        [tokens(rng, DEMONSTRATION) for _ in range(16)],
    )
    end = tokens(rng, (FACT + QUERY) * (2 if own_copy else 1))
    target = tokens(rng, TARGET)
    prompts = [[*fixed, *chain.from_iterable(retains[:j]), *end] for j in range(1, 17)]
    return [Encoded((*prompt, *target), len(prompt)) for prompt in prompts]


def evaluation(rng: random.Random, own_copy: bool) -> list[Encoded]:
    """13 queries after the same 32 demonstrations, two targets each."""
    shown = tokens(rng, 32 * DEMONSTRATION + (FACT + QUERY if own_copy else 0) + FACT)
    prompts = [shown + tokens(rng, QUERY) for _ in range(13)]
    targets = [tokens(rng, TARGET) for _ in range(2)]
    return [Encoded((*prompt, *target), len(prompt)) for prompt in prompts for target in targets]


def full_logits(model: LlamaForCausalLM, requests: Sequence[Encoded]) -> None:
    """Score as the published script does: one forward per request, with a loss that masks the prompt's tokens."""
    for request in requests:
        ids = torch.tensor([request.ids])
        labels = ids.clone()
        labels[:, : request.start] = -100
        with torch.inference_mode():
            model(input_ids=ids, labels=labels).loss.exp()


def batched(model: HuggingFaceModel, requests: Sequence[Encoded]) -> None:
    """Read whole prompts in batches of BATCH, padded on the right, and compute the logits that any one needs."""
    for i in range(0, len(requests), BATCH):
        logits, _ = padded_logits(model._model, requests[i : i + BATCH])
        logits.logsumexp(dim=-1)


def seconds(work: Callable[[], object]) -> float:
    """Measure the CPU time of a piece of work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(
    model: HuggingFaceModel,
    raw: LlamaForCausalLM,
    requests: list[Encoded],
    args: argparse.Namespace,
) -> dict[str, str]:
    """Time all strategies on one workload; return the CPU time of each relative to the floor's."""
    tree = build_tree([request.ids for request in requests])
    rows = scoring.pack(requests).rows
    inner = model._model
    kept, whole = PrefixCache(1 << 32), sum(len(request.ids) for request in requests)

    def floor() -> None:
        with torch.inference_mode():
            raw(
                input_ids=torch.from_numpy(tree.ids)[None],
                use_cache=False,
                logits_to_keep=torch.from_numpy(rows),
            )

    def cold() -> None:
        kept.clear()
        scoring.score_tree(inner, scoring.pack(requests), kept)

    some = requests if args.complete else requests[:: len(requests) // 4][:4]
    scale = whole / sum(len(request.ids) for request in some)
    padded = requests if args.complete else requests[-BATCH // 2 :]
    wide = (
        len(requests)
        * max(len(r.ids) for r in requests)
        / (len(padded) * max(len(r.ids) for r in padded))
    )
    timed: dict[str, tuple[Callable[[], object], float]] = {
        "floor": (floor, 1),
        "tree": (lambda: scoring.score_tree(inner, scoring.pack(requests)), 1),
        "tree, storing its prefix": (cold, 1),
        "tree, prefix already cached": (
            lambda: scoring.score_tree(inner, scoring.pack(requests), kept),
            1,
        ),
        "fork": (lambda: scoring.score_fork(inner, scoring.pack(requests)), 1),
        "batches of 8, nothing shared": (lambda: batched(model, padded), wide),
        "naive, selected rows": (lambda: scoring.score_naively(inner, some), scale),
        "naive, full logits (published IKE script)": (lambda: full_logits(raw, some), scale),
    }
    timed = {
        name: way
        for name, way in timed.items()
        if args.only is None or name.startswith(tuple(args.only))
    }
    taken: dict[str, list[float]] = {name: [] for name in timed}
    for repetition in range(args.repetitions + 1):
        for name, (work, factor) in timed.items():
            spent = seconds(work) * factor
            if repetition:  # the first round is a warm-up
                taken[name].append(spent)
    base = statistics.median(taken["floor"])
    print(f"{whole:,} tokens in {len(requests)} requests, {len(tree):,} distinct", file=sys.stderr)
    for name, times in taken.items():
        ratios = [t / b for t, b in zip(times, taken["floor"], strict=True)]
        print(
            f"{name}: {min(ratios):.2f} to {max(ratios):.2f} of the floor",
            file=sys.stderr,
            flush=True,
        )
    off = scoring.disagreement(
        scoring.score_tree(inner, scoring.pack(some)).scores,
        scoring.score_naively(inner, some).scores,
    )
    print(
        f"Largest difference of a log-probability, tree against naive: {off:.1e}", file=sys.stderr
    )
    ratio = {name: f"{statistics.median(times) / base:.2f}" for name, times in taken.items()}
    return ratio | {"floor": f"1.00 ({base:.2f})"}


def main() -> None:
    """Run both workloads for every data type."""
    parser = pages.parser(__doc__)
    parser.add_argument("--large", action="store_true", help="use the shape of Qwen2.5-0.5B")
    parser.add_argument(
        "--own-copy", action="store_true", help="prompts as IKE and drike show them by default"
    )
    parser.add_argument(
        "--complete", action="store_true", help="time the slow strategies on all requests"
    )
    parser.add_argument(
        "--only", nargs="+", help="prefixes of the strategies to time; must include floor and tree"
    )
    parser.add_argument("--repetitions", type=int, default=5, help="timed rounds")
    parser.add_argument(
        "--dtype",
        nargs="+",
        default=["float32", "bfloat16"],
        choices=["float32", "bfloat16"],
        help="data types",
    )
    args = parser.parse_args()
    with pages.measured(args, TITLE, __doc__):
        measure_all(args)


def measure_all(args: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    _, tokenizer = open_checkpoint(str(tinyfacts.MODEL), None)
    name, columns = "0.5B" if args.large else "135M", dict[str, dict[str, str]]()
    for kind in args.dtype:
        torch.manual_seed(0)
        shape = SHAPES[name] | {"tie_word_embeddings": True, "max_position_embeddings": 4096}
        raw = LlamaForCausalLM(LlamaConfig(**shape)).to(getattr(torch, kind)).eval()
        wrapped = LlamaForCausalLM(raw.config)
        wrapped.load_state_dict(raw.state_dict())
        model = HuggingFaceModel(wrapped.to(getattr(torch, kind)), tokenizer, name=name)
        for make in (episode, evaluation):
            end = "with the edit's own copy" if args.own_copy else "without the edit's own copy"
            print(f"{name}, {kind}: {make.__name__}, {end}", file=sys.stderr, flush=True)
            columns[f"{make.__name__}, {kind}"] = measure(
                model, raw, make(random.Random(0), args.own_copy), args
            )
    first = next(iter(columns.values()))
    rows = [(strategy, *(column[strategy] for column in columns.values())) for strategy in first]
    note = "floor: one plain causal forward pass over the distinct tokens; its CPU seconds in brackets."
    pages.draw(
        f"CPU time relative to the floor, shape of {name}", ("strategy", *columns), rows, note
    )


if __name__ == "__main__":
    main()
