"""How fast a GPU evaluates edits and trains on them, against what its matrix products allow.

    python benchmarks/gpu.py [--shapes 135M 1B 8B] [--seconds 6] [--limit 240]
    python benchmarks/gpu.py --baselines [--shapes 8B] [--episodes 300]

Llamas with random weights, of the shapes of SmolLM2-135M (in float32, as the small real models are stored, and in
bfloat16), Llama-3.2-1B and Llama-3.1-8B (in bfloat16), do what a run does, from one process, all Python included:
  evaluated edits    `evaluate` asks the questions of TinyFacts edits under IKE's prompts, several edits in a call
  one by one         the same, a forward for each edit, as on a processor
  episodes           `train` earns the rewards of all 16 prefixes of an edit, in blocks (`--parallel-edits`)
  unedited answers   16 tokens are written after each question alone
The ceiling is the rate at which the card would do the products of all layers, each distinct token once, at the rate of
a large square product of the same type, which is measured here. A last table says where the time of a call goes.

With `--baselines` it prints instead the seconds for an epoch of episodes (with 16 nested prompts each, and with the
paper's mean of 3 retains) and for an evaluated edit, with the packed tree, with all prompts of one read in a padded
batch, and with one plain forward per prompt (the latter two on a sample, scaled by tokens); the share of the card's
bfloat16 matrix throughput that the tree reaches; how far the tree's log-probabilities are from those of plain forwards,
and how far the batch's are, which differ by rounding alone; and the same difference in float32, with a quarter of the
layers. For comparison: the paper's seconds for an epoch of 300 edits with this model on its card (1459.6 s).

`--shapes tiny --device cpu --seconds 1` tries the script without a GPU; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from drike import tinyfacts
from drike.edits.edit import EditCase
from drike.encoders import HashingEncoder
from drike.models.answers import complete
from drike.models.local import scoring
from drike.models.local.checkpoints import open_checkpoint
from drike.models.local.huggingface import HuggingFaceModel
from drike.models.local.memory import bytes_to_keep
from drike.models.local.prefix_cache import PrefixCache
from drike.models.local.scorer import TokenBudget
from drike.models.local.scoring import TokenScores
from drike.models.local.token_trees import build_tree, packs
from drike.models.local.tokens import Encoded
from drike.models.protocols import Request, Score, Usage
from drike.prompts import Prompt
from drike.research import datasets
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.training.algorithm1 import in_blocks, rewrite_reward, train
from drike.support.parallel import in_groups
from lib import pages
from lib.padded import padded_logits

TITLE = "Scoring on a GPU"

PAPER_EPOCH_SECONDS = 1459.6
SHAPES = {
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256},
    "1B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
           "num_key_value_heads": 8, "vocab_size": 128256},
    "135M": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
             "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True},
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 8000},
}  # fmt: skip
DEMONSTRATION, FACT, QUERY, TARGET = 25, 14, 10, 2


DTYPES = {"135M": (torch.float32, torch.bfloat16), "tiny": (torch.float32,)}  # else bfloat16 alone
BLOCK = 32  # edits in a call
COLUMNS = (
    "shape", "weights", "work", "edits a second", "at most", "share", "tokens read", "distinct", "forwards an edit",
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """Work on edits: `run` does it for some, and says what was asked of the model for each."""

    name: str
    model: HuggingFaceModel
    run: Callable[[Sequence[EditCase]], object]
    reads: bool = True  # and does not write


class Noting:
    """A model that notes what it is asked to score."""

    def __init__(self, inner: HuggingFaceModel) -> None:
        self.inner = inner
        self.requests: list[Request] = []
        self.info = inner.info
        self.generate = inner.generate
        self.count_tokens = inner.count_tokens
        self.forget = inner.forget

    @property
    def usage(self) -> Usage:
        """The work of the inner model."""
        return self.inner.usage

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score, and note the requests."""
        self.requests += requests
        return self.inner.score(requests)


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


def matrix_rate(device: str, dtype: torch.dtype = torch.bfloat16) -> float:
    """Measure the FLOP/s of a large square product."""
    size = 8192 if device == "cuda" else 256
    a = torch.randn(size, size, device=device, dtype=dtype)
    taken = [seconds(lambda: a @ a) for _ in range(10)][2:]
    return 2 * size**3 / statistics.median(taken)


def weights_read(model: HuggingFaceModel) -> int:
    """Weights of the layers' products; a token takes two operations for each."""
    named = model._model.model.named_parameters()
    return sum(p.numel() for n, p in named if p.ndim > 1 and "embed" not in n)


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
    flops = 2 * weights_read(model) * distinct
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


def build(
    shape: dict[str, int],
    device: str,
    dtype: torch.dtype,
    budget: TokenBudget | None = None,
) -> HuggingFaceModel:
    """A Llama of this shape with random weights, and the tokenizer of the embedded model."""
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    with torch.device(device):
        raw = LlamaForCausalLM(LlamaConfig(**shape, max_position_embeddings=8192))
    torch.set_default_dtype(torch.float32)
    _, tokenizer = open_checkpoint(str(tinyfacts.MODEL), None)
    return HuggingFaceModel(raw, tokenizer, name="random weights", budget=budget, remember=False)


def works(model: HuggingFaceModel, alone: HuggingFaceModel, pool: Pool) -> list[Work]:
    """What is timed. alone: the same weights, which read one edit at a time."""
    ike = InContextEditor("IKE", pool, RankAndCut(Similarity(), Fraction(1.0)))

    def evaluated(asked: HuggingFaceModel) -> Callable[[Sequence[EditCase]], object]:
        return lambda cases: list(evaluate(ike, asked, cases))

    def trained(cases: Sequence[EditCase]) -> object:
        selector = RankAndCut(Retriever(pool.encoder), Fraction(1.0))
        editor = InContextEditor("DR-IKE", pool, selector)
        schedule = in_blocks(BLOCK)
        return list(train(editor, rewrite_reward(model), cases, epochs=1, schedule=schedule))

    def written(cases: Sequence[EditCase]) -> object:
        queries = [Prompt(probe.query) for case in cases for probe in case.neighborhood]
        return complete(model, queries)

    return [
        Work("evaluated edits", model, evaluated(model)),
        Work("evaluated edits, one by one", alone, evaluated(alone)),
        Work("episodes", model, trained),
        Work("edits' unedited answers", model, written, reads=False),
    ]


def timed(work: Work, cases: Sequence[EditCase], most_seconds: float) -> tuple[int, float, Usage]:
    """Edits done in about this time, block by block after one to warm up, the seconds, and the work."""
    size = max(4, work.model.info.edits_per_call)
    work.run(cases[:size])
    work.model.forget()
    before = work.model.usage
    spent = 0.0
    edits = 0
    for block in in_groups([*cases[size:], *cases[:size]], size):
        spent += seconds(partial(work.run, block))
        work.model.forget()
        edits += len(block)
        if spent > most_seconds:
            break
    return edits, spent, work.model.usage - before


def distinct_tokens(work: Work, cases: Sequence[EditCase], pool: Pool) -> float:
    """The distinct tokens that are read for an edit, on average over some."""
    noting = Noting(work.model)
    for each in works(noting, noting, pool):  # type: ignore[arg-type]
        if each.name == work.name:
            each.run(cases)
    encoded = work.model._encode(noting.requests)
    texts = [request.ids for request in encoded]
    groups = packs(texts, budget=1 << 20, unrelated=0)
    return sum(len(build_tree([texts[i] for i in group])) for group in groups) / len(cases)


def parts(model: HuggingFaceModel, cases: Sequence[EditCase], pool: Pool) -> tuple[str, ...]:
    """Milliseconds an edit of a call's parts: tokenising, packing, reading, and all of it."""
    noting = Noting(model)
    ike = InContextEditor("IKE", pool, RankAndCut(Similarity(), Fraction(1.0)))
    whole = seconds(lambda: list(evaluate(ike, noting, cases)))
    tokenising = seconds(lambda: model._encode(noting.requests))
    encoded = model._encode(noting.requests)
    packing = seconds(lambda: list(model._scorer._batches(encoded)))
    reading = seconds(lambda: model._scorer.read(encoded)) - packing
    rest = whole - tokenising - packing - reading
    taken = (tokenising, packing, reading, rest, whole)
    return tuple(f"{1000 * each / len(cases):.1f}" for each in taken)


def measure_rates(args: argparse.Namespace) -> None:
    """Print rates and ceilings, each when it is known."""
    clock = Clock(args.limit)
    data = datasets.load(datasets.TINYFACTS)
    split = data.split(seed=0, train=10, test=args.edits)
    pool = Pool(split.demonstrations, HashingEncoder())
    pool.for_groups([case.edits for case in split.test])
    setting = Setting(split.test, pool, args.seconds, args.device, clock)
    card = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    print(f"{card}; {torch.__version__}; random weights, {len(split.test)} edits of TinyFacts\n")
    print(f"| {' | '.join(COLUMNS)} |")
    print(f"|---|---|---|{'---:|' * (len(COLUMNS) - 3)}", flush=True)
    rates: dict[torch.dtype, float] = {}
    table_of_parts = []
    for name in args.shapes:
        for dtype in DTYPES.get(name, (torch.bfloat16,)):
            if dtype not in rates:
                rates[dtype] = matrix_rate(args.device, dtype)
                clock.note(f"{rates[dtype] / 1e12:.1f} TFLOP/s in a product of {dtype}")
            if not clock.is_over:
                taken = measure_shape(name, dtype, rates[dtype], setting)
                table_of_parts.append((name, named(dtype), *taken))
            free()
    columns = ("shape", "weights", "tokenising", "packing", "reading", "all else", "together")
    print()
    pages.draw("Milliseconds an edit, evaluated under IKE", columns, table_of_parts)
    shown = ", ".join(f"{rate / 1e12:.1f} in {named(dtype)}" for dtype, rate in rates.items())
    print(f"TFLOP/s of a large product: {shown}.", flush=True)


@dataclass(frozen=True)
class Setting:
    """What every shape is measured with."""

    cases: Sequence[EditCase]
    pool: Pool
    seconds: float
    device: str
    clock: Clock


def measure_shape(name: str, dtype: torch.dtype, rate: float, setting: Setting) -> tuple[str, ...]:
    """Print the rates of a shape, and return where the time goes."""
    cases = setting.cases
    pool = setting.pool
    clock = setting.clock
    budget = TokenBudget(4096, 16384) if setting.device == "cpu" else None
    model = build(SHAPES[name], setting.device, dtype, budget)
    alone = HuggingFaceModel(
        model._model,
        model._tokenizer,
        name="one by one",
        budget=TokenBudget(model._scorer.budget, 0),
        remember=False,
    )
    clock.note(f"{name}, {dtype}: {model._model.num_parameters() / 1e6:.0f} M weights")
    for work in works(model, alone, pool):
        if clock.is_over:
            clock.note(f"no time is left for {work.name}")
            continue
        edits, spent, used = timed(work, cases, setting.seconds)
        row = [name, named(dtype), work.name, f"{edits / spent:.1f}"]
        if work.reads:
            distinct = distinct_tokens(work, cases[:2], pool)
            most = rate / (2 * weights_read(model) * distinct)
            row += [f"{most:.0f}", f"{100 * edits / spent / most:.0f} %"]
            row += [f"{used.tokens_computed / edits:.0f}", f"{distinct:.0f}"]
            row += [f"{used.forwards / edits:.2f}"]
        else:
            row += ["", "", f"{used.tokens_computed / edits:.0f}", "", ""]
        print(f"| {' | '.join(row)} |", flush=True)
        clock.note(f"{work.name}: {edits} edits in {spent:.1f} s, read by {work.model._scorer.way}")
    taken = parts(model, cases[:BLOCK], pool)
    clock.note(f"milliseconds an edit, tokenising to all: {taken}")
    return taken


@dataclass
class Clock:
    """What time it is since the start, and whether nothing more should begin."""

    limit: float
    began: float = field(default_factory=time.perf_counter)

    @property
    def is_over(self) -> bool:
        """Whether the limit has passed."""
        return time.perf_counter() - self.began > self.limit

    def note(self, text: str) -> None:
        """Say on standard error what is known."""
        spent = time.perf_counter() - self.began
        print(f"{spent:6.1f} s  {text}", file=sys.stderr, flush=True)


def named(dtype: torch.dtype) -> str:
    """The name of a type of numbers."""
    return str(dtype).removeprefix("torch.")


def free() -> None:
    """Give the memory of dropped models back."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def main() -> None:
    """Build the models on the device and print all timings."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--shapes", nargs="+", choices=list(SHAPES), default=["135M", "1B", "8B"], help="of models"
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="that each rate is measured for")
    parser.add_argument(
        "--limit", type=float, default=240.0, help="seconds after which nothing more begins"
    )
    parser.add_argument("--edits", type=int, default=256, help="different edits, at most")
    parser.add_argument("--device", default="cuda", help="torch device")
    parser.add_argument(
        "--baselines", action="store_true", help="time the tree, batches and plain forwards instead"
    )
    parser.add_argument(
        "--episodes", type=int, default=300, help="with --baselines: training episodes to time"
    )
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit(
            "there is no CUDA device here: --shapes tiny --device cpu --seconds 1 tries the script without one"
        )
    with pages.measured(args, TITLE, __doc__):
        if not args.baselines:
            measure_rates(args)
            return
        for name in args.shapes:
            measure_baselines(args, name)


def measure_baselines(args: argparse.Namespace, name: str) -> None:
    """Print the tables of a shape; progress goes to standard error."""
    shape = SHAPES[name]
    exact = exactness(shape, args.device)
    model = build(shape, args.device, torch.bfloat16)
    keep = bytes_to_keep(model._model)
    rate = matrix_rate(args.device)
    card = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
    print(
        f"{card}, {rate / 1e12:.1f} TFLOP/s in a bfloat16 product; Llama {name}, random weights\n"
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
    if name == "8B":
        for retains, spent in epoch.items():
            of_300 = spent * 300 / args.episodes
            print(
                f"\nAn epoch of 300 edits, {retains} retains each: {of_300:.1f} s, "
                f"{PAPER_EPOCH_SECONDS / of_300:.0f}x faster than the paper's {PAPER_EPOCH_SECONDS} s"
            )


if __name__ == "__main__":
    main()
