"""How much faster several edits at once are: against endpoints that take their time, and over replicas of a model.

Endpoints are simulated: a scripted model that sleeps 50 ms a call, N calls at once. Speed-up is the time of one
endpoint over the time of N; efficiency is that over N. What is lost is ours: prompts, rankings, threads (and some of it
the simulation's own scoring). With --replicas, Ray actors hold the embedded model instead, on a core each; "here" is
the same model in this process, without Ray.
Runs of the sizes alternate; the best of each counts, since others may use the machine.

    python benchmarks/parallel.py [--edits 160] [--repeat 3]
    OMP_NUM_THREADS=1 python benchmarks/parallel.py --replicas 1 2 --edits 100
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial

from drike import datasets, tinyfacts
from drike.datasets.splits import Split
from drike.editors import Editor
from drike.editors.factprompt import FactPrompt
from drike.editors.ike import IKE
from drike.encoders import load_encoder
from drike.evaluation import evaluate
from drike.models.protocols import LanguageModel, Request, Score
from drike.models.scripted import CustomModel, ScriptedModel
from drike.retrieval.budget import Fraction, Threshold
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Retriever, Similarity
from drike.training.reinforce import train
from drike.training.rewards import edit_takes
from drike.training.schedules import in_blocks

ENDPOINTS, LATENCY = (1, 4, 16), 0.05
BLOCKS = (16, 32, 80)  # edits at once in training; all divide the default number of edits


def endpoints(count: int) -> CustomModel:
    """`count` endpoints that answer anything, `LATENCY` seconds after they were asked."""
    model = ScriptedModel(lambda prompt: prompt[-7:])

    def score(requests: Sequence[Request]) -> list[Score]:
        time.sleep(LATENCY)  # one call over the wire
        return model.score(requests)

    return CustomModel("endpoints", model.generate, score, calls_at_once=count)


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--edits", type=int, default=160)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--replicas", type=int, nargs="*", default=[])
    given = arguments.parse_args()
    dataset = datasets.load(datasets.TINYFACTS)
    parts = dataset.split(train=0, test=given.edits, seed=0)
    encoder = load_encoder()
    pool = Pool(parts.demonstrations, encoder)
    ike = IKE("IKE", pool, Similarity(), Fraction(1.0))
    list(evaluate(ike, ScriptedModel(str), parts.test))  # so that all features are computed
    if given.replicas:
        measure_replicas(given.replicas, given.repeat, [ike, FactPrompt()], parts)
        return
    for editor in (FactPrompt(), ike):
        works = {n: partial(answer, editor, endpoints(n), parts) for n in ENDPOINTS}
        show(f"evaluate, {editor.name}", works, given.repeat, given.edits, "endpoint")
    for at_once in BLOCKS:
        works = {n: partial(learn, endpoints(n), pool, parts, at_once) for n in ENDPOINTS}
        show(f"train, --parallel-edits {at_once}", works, given.repeat, given.edits, "endpoint")


def measure_replicas(sizes: Sequence[int], repeat: int, editors: Sequence[Editor], parts: Split) -> None:
    """Ray actors against the model in this process; that the answers are the same is checked, too."""
    import ray as actors

    from drike.models import ray
    from drike.models.local import huggingface

    where = str(tinyfacts.model_path())
    # As many cores for Ray as there are actors, so that all sizes stand ready; only one of them works at a time.
    actors.init(address="local", num_cpus=sum(sizes), include_dashboard=False, log_to_driver=False)
    models: dict[str, LanguageModel] = {"here": huggingface.load(where, device="cpu")}
    models |= {f"{n} replicas": ray.load(where, replicas=n, device="cpu") for n in sizes}
    for editor in editors:
        answers = {name: correct(editor, model, parts) for name, model in models.items()}
        best = dict.fromkeys(models, float("inf"))
        for _ in range(repeat):
            for name, model in models.items():
                model.forget()
                best[name] = min(best[name], timed(partial(answer, editor, model, parts)))
        for name, seconds in best.items():
            print(
                f"{editor.name:12} {name:>10}  {seconds:6.2f} s  {seconds / len(parts.test) * 1e3:6.1f} ms/edit"
                f"  {best['here'] / seconds:5.2f} x  "
                + ("same answers" if answers[name] == answers["here"] else "OTHER ANSWERS")
            )


def answer(editor: Editor, model: LanguageModel, parts: Split) -> None:
    """Evaluate all test edits."""
    list(evaluate(editor, model, parts.test))


def correct(editor: Editor, model: LanguageModel, parts: Split) -> list[bool]:
    """Which probes are answered rightly."""
    return [outcome.correct for outcome in evaluate(editor, model, parts.test)]


def learn(model: LanguageModel, pool: Pool, parts: Split, at_once: int) -> None:
    """One epoch in blocks of so many edits."""
    retriever = Retriever(pool.encoder)
    editor = IKE("DR-IKE", pool, retriever, Threshold())
    list(train(editor, edit_takes(model), parts.test, epochs=1, pace=in_blocks(at_once, model.info.calls_at_once)))


def timed(work: Callable[[], None]) -> float:
    """Seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(what: str, works: dict[int, Callable[[], None]], repeat: int, edits: int, unit: str) -> None:
    """A line a size: best time, speed-up against the first, efficiency."""
    best = dict.fromkeys(works, float("inf"))
    for _ in range(repeat):
        for n, work in works.items():
            best[n] = min(best[n], timed(work))
    first, *_ = works
    for n, seconds in best.items():
        gain = best[first] * first / seconds
        print(
            f"{what:28} {n:3} {unit}s  {seconds:6.2f} s  {seconds / edits * 1e3:6.1f} ms/edit"
            f"  {gain:5.2f} x  {gain / n:5.0%}"
        )


if __name__ == "__main__":
    main()
