"""Time a whole training run of Algorithm 1 on the embedded model: drike's engine against reading prompts one by one.

    python benchmarks/training.py [--budget threshold|all] [--repetitions 3] [--edits 60] [--epochs 5] [--generate]

With --budget threshold (the paper's rule) the number of prompts per episode falls from 16 to a few; with all
(training without a budget) every episode has 16.

The baselines read one prompt at a time and share nothing:
  naive, selected rows   one forward per prompt, logits only where a target token is predicted (our own oracle)
  naive, full logits     one forward per prompt, logits of every token, as the published IKE script scores
  generate               16 new tokens per prompt, as in a text-generation pipeline (--generate; as in the paper)

Times are medians of the CPU time of one thread, with whole runs interleaved in one process. The script also checks
that every run ends with the same trained head, bit for bit, and the same sigma.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch

from drike import tinyfacts
from drike.encoders import MINILM, load_encoder
from drike.models.local import scoring
from drike.models.local.huggingface import HuggingFaceModel, load
from drike.models.local.tokens import decode, encode_prompts, encode_requests
from drike.models.protocols import ANSWER_TOKENS, Completion, LanguageModel, Request, Score, cut
from drike.research import datasets
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.runs.setup import Setup
from drike.research.training.algorithm1 import rewrite_reward, train
from lib import pages

TITLE = "A whole training run"


class FullLogits:
    """Score as the published script does: one plain forward per request, with the logits of every token."""

    def __init__(self, inner: HuggingFaceModel) -> None:
        self.name = "naive, full logits"
        self._inner = inner

    def generate(
        self, prompts: Sequence[str], max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Generate as the wrapped model does."""
        return self._inner.generate(prompts, max_tokens, stop)

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Score with one forward per request."""
        model, scores = self._inner._model, []
        for request in encode_requests(self._inner._tokenizer, requests, "plain"):
            with torch.inference_mode():
                logits = model(input_ids=torch.tensor([request.ids])).logits[0].float()
            rows = torch.arange(request.start - 1, len(request.ids)).numpy()
            [reading] = scoring.token_scores(logits, [request], [rows])
            scores.append(self._inner._score(request, reading))
        return scores


class Pipeline:
    """Answer as a text-generation pipeline does: one prompt at a time, with all allowed new tokens."""

    def __init__(self, inner: HuggingFaceModel) -> None:
        self.name = "generate"
        self._inner = inner

    def generate(
        self, prompts: Sequence[str], max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Decode greedily and cut the answer afterwards."""
        model, tokenizer, completions = self._inner._model, self._inner._tokenizer, []
        for prompt in encode_prompts(tokenizer, prompts, "plain"):
            ids = torch.tensor([prompt])
            with torch.inference_mode():
                out = model.generate(
                    ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, min_new_tokens=max_tokens,
                    do_sample=False, pad_token_id=0,
                )  # fmt: skip
            completions.append(
                Completion(
                    cut(decode(tokenizer, out[0, len(prompt) :].tolist()), stop), len(prompt)
                )
            )
        return completions


def main() -> None:
    """Run all variants in turns and print the ratios."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--budget", choices=["threshold", "all"], default="threshold", help="budget rule"
    )
    parser.add_argument("--repetitions", type=int, default=3, help="timed rounds")
    parser.add_argument("--edits", type=int, default=60, help="number of training edits")
    parser.add_argument("--epochs", type=int, default=5, help="training epochs")
    parser.add_argument(
        "--generate", action="store_true", help="also time a text-generation pipeline"
    )
    args = parser.parse_args()
    with pages.measured(args, TITLE, __doc__):
        measure(args)


def measure(args: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    torch.set_num_threads(1)
    data = datasets.load(datasets.TINYFACTS)
    encoder = load_encoder(MINILM)
    split = data.split(seed=0, train=args.edits, test=10)
    setup = Setup(data, split, Pool(split.demonstrations, encoder))
    budget: Budget = Threshold() if args.budget == "threshold" else Fraction(1.0)
    where = str(tinyfacts.MODEL)

    def naive() -> HuggingFaceModel:
        return load(where, device="cpu", remember=False, strategy="naive")

    variants: dict[str, Callable[[], LanguageModel]] = {
        "drike, score cache on": lambda: load(where, device="cpu"),
        "drike, score cache off": lambda: load(where, device="cpu", remember=False),
        "naive, selected rows": naive,
        "naive, full logits": lambda: FullLogits(naive()),
    }
    if args.generate:
        variants["generate, 16 tokens per prompt"] = lambda: Pipeline(naive())
    heads: dict[str, list[torch.Tensor]] = {}
    sigmas: dict[str, object] = {}
    taken: dict[str, list[float]] = {name: [] for name in variants}
    work: dict[str, str] = {}
    asked = []
    for _ in range(args.repetitions):
        for name, make in variants.items():
            model, retriever = make(), Retriever(encoder)
            for case in setup.pool.candidates([case.edit for case in setup.split.train]):
                retriever.features(case)  # from the cache on disk, as in every run after the first
            began = time.process_time()
            editor = InContextEditor("DR-IKE", setup.pool, RankAndCut(retriever, budget))
            episodes = list(
                train(editor, rewrite_reward(model), setup.split.train, epochs=args.epochs)
            )
            taken[name].append(time.process_time() - began)
            heads[name] = [weight.detach().clone() for weight in retriever.head.parameters()]
            sigmas[name] = episodes[-1].budget
            asked = [episode.k for episode in episodes]
            if isinstance(model, HuggingFaceModel):
                work[name] = (
                    f"{model.usage.forwards:,} forwards, {model.usage.tokens_computed:,} tokens"
                )
    first, *others = heads.values()
    same = all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))
    rows = []
    for name, times in taken.items():
        off, on = (
            statistics.median(t / d for t, d in zip(times, taken[ours], strict=True))
            for ours in ("drike, score cache off", "drike, score cache on")
        )
        ratio = "" if name.startswith("drike") else f"{off:.1f} / {on:.1f}"
        rows.append((name, f"{statistics.median(times):.1f}", ratio))
        print(name, work.get(name, ""), file=sys.stderr)
    title = (
        f"{args.edits} edits x {args.epochs} epochs, budget {args.budget}, {sum(asked):,} prompts "
        f"(k {sum(asked) / len(asked):.1f} on average)"
    )
    pages.draw(title, ("run", "CPU seconds", "ratio to cache off / on"), rows)
    print(
        f"The same trained head bit for bit: {same}; the same sigma: {len(set(map(repr, sigmas.values()))) == 1}"
    )


if __name__ == "__main__":
    main()
