"""Measure the speed-up from processing several edits at once, with slow endpoints or several replicas of a model.

Endpoints are simulated by a model that sleeps 50 ms per call and takes N calls at once. Speed-up is the time
with one endpoint over the time with N; efficiency is speed-up over N. The loss is due to drike (prompts, rankings,
threads) and in part to the simulation. With --replicas, Ray actors hold the embedded model instead, each on its own
core; "here" is the same model in this process, without Ray. Runs of all sizes alternate and the best of each counts,
because the machine may be shared.

    python benchmarks/parallel.py [--edits 160] [--repeat 3]
    OMP_NUM_THREADS=1 python benchmarks/parallel.py --replicas 1 2 --edits 100
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

from drike import tinyfacts
from drike.encoders import load_encoder
from drike.models.protocols import CustomModel, LanguageModel, Request, Score
from drike.research import datasets
from drike.research.datasets.dataset import Split
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.training.algorithm1 import in_blocks, rewrite_reward, train
from lib import pages

TITLE = "Several edits at once"

ENDPOINTS, LATENCY = (1, 4, 16), 0.05
BLOCKS = (16, 32, 80)  # edits at once in training; all divide the default number of edits


def endpoints(count: int) -> CustomModel:
    """Simulate `count` endpoints that answer every call after `LATENCY` seconds."""

    def score(requests: Sequence[Request]) -> list[Score]:
        time.sleep(LATENCY)  # one network call
        return [Score((-1.0,), greedy=False, logit_gap=-1.0)] * len(requests)

    return CustomModel(
        "endpoints",
        lambda prompts, max_tokens, stop: [""] * len(prompts),
        score,
        calls_at_once=count,
    )


def main() -> None:
    """Run all measurements and print them."""
    arguments = pages.parser(__doc__)
    arguments.add_argument("--edits", type=int, default=160, help="number of edits")
    arguments.add_argument("--repeat", type=int, default=3, help="runs of each size")
    arguments.add_argument(
        "--replicas", type=int, nargs="*", default=[], help="numbers of Ray replicas to compare"
    )
    given = arguments.parse_args()
    with pages.measured(given, TITLE, __doc__):
        measure(given)


def measure(given: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset = datasets.load(datasets.TINYFACTS)
    parts = dataset.split(train=0, test=given.edits, seed=0)
    encoder = load_encoder()
    pool = Pool(parts.demonstrations, encoder)
    ike = InContextEditor("IKE", pool, RankAndCut(Similarity(), Fraction(1.0)))
    list(
        evaluate(
            ike, CustomModel("echo", lambda prompts, max_tokens, stop: list(prompts)), parts.test
        )
    )  # compute all features
    if given.replicas:
        measure_replicas(given.replicas, given.repeat, [ike, FactPrompt()], parts)
        return
    rows = []
    for editor in (FactPrompt(), ike):
        works = {n: partial(answer, editor, endpoints(n), parts) for n in ENDPOINTS}
        rows.append((f"evaluate, {editor.name}", *times(works, given.repeat, given.edits)))
    for at_once in BLOCKS:
        works = {n: partial(learn, endpoints(n), pool, parts, at_once) for n in ENDPOINTS}
        rows.append(
            (f"train, --parallel-edits {at_once}", *times(works, given.repeat, given.edits))
        )
    title = f"ms per edit (share of linear), {given.edits} edits, {LATENCY * 1e3:.0f} ms a call"
    pages.draw(title, ("", *(f"{n} endpoint(s)" for n in ENDPOINTS)), rows)


def measure_replicas(
    sizes: Sequence[int], repeat: int, editors: Sequence[Editor], parts: Split
) -> None:
    """Compare Ray actors with the model in this process, and check that the answers are the same."""
    import ray as actors

    from drike.models import ray
    from drike.models.local import huggingface

    where = str(tinyfacts.MODEL)
    # One core per actor, so that all sizes can be ready; only one of them works at a time.
    actors.init(address="local", num_cpus=sum(sizes), include_dashboard=False, log_to_driver=False)
    models: dict[str, LanguageModel] = {"here": huggingface.load(where, device="cpu")}
    models |= {f"{n} replicas": ray.load(where, replicas=n, device="cpu") for n in sizes}
    rows = []
    for editor in editors:
        answers = {name: correct(editor, model, parts) for name, model in models.items()}
        best = dict.fromkeys(models, float("inf"))
        for _ in range(repeat):
            for name, model in models.items():
                model.forget()
                best[name] = min(best[name], timed(partial(answer, editor, model, parts)))
        seconds = list(best.values())
        each = (f"{one_model / len(parts.test) * 1e3:.1f}" for one_model in seconds)
        same = "yes" if all(given == answers["here"] for given in answers.values()) else "NO"
        rows.append((editor.name, *each, f"{seconds[1] / seconds[-1]:.2f} x", same))
    against = f"{sizes[-1]} against {sizes[0]}"
    pages.draw(
        "ms per edit of replicas", ("", "no Ray", *list(models)[1:], against, "same answers"), rows
    )


def answer(editor: Editor, model: LanguageModel, parts: Split) -> None:
    """Evaluate all test edits."""
    list(evaluate(editor, model, parts.test))


def correct(editor: Editor, model: LanguageModel, parts: Split) -> list[bool]:
    """Return which probes are answered correctly."""
    return [outcome.correct for outcome in evaluate(editor, model, parts.test)]


def learn(model: LanguageModel, pool: Pool, parts: Split, at_once: int) -> None:
    """Train one epoch in blocks of `at_once` edits."""
    retriever = Retriever(pool.encoder)
    editor = InContextEditor("DR-IKE", pool, RankAndCut(retriever, Threshold()))
    list(
        train(
            editor,
            rewrite_reward(model),
            parts.test,
            epochs=1,
            schedule=in_blocks(at_once, model.info.calls_at_once),
        )
    )


def timed(work: Callable[[], None]) -> float:
    """Measure seconds of wall time."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def times(works: dict[int, Callable[[], None]], repeat: int, edits: int) -> list[str]:
    """The best time per edit of each size in ms, and its share of linear."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeat):
        for n, work in works.items():
            best[n] = min(best[n], timed(work))
    first, *_ = works
    each = {n: f"{seconds / edits * 1e3:.1f}" for n, seconds in best.items()}
    return [
        each[n] if n == first else f"{each[n]} ({best[first] * first / seconds / n:.0%})"
        for n, seconds in best.items()
    ]


if __name__ == "__main__":
    main()
