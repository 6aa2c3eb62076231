"""How far a ranking is from the best choice of retains, on the closed-form reader of TinyFacts.

The reader answers in microseconds and exactly, so the best subset of k retains of an edit is found by trying them all.
Regret at k = what the best subset of k earns minus what the ranking's first k earn, for the edit's own query: in
reward (+1 right, -1 wrong) and in P(target_new). Compared: similarity, the head before training, the head after 5
epochs of Algorithm 1, for both forms of S_theta; held-out edits; means over seeds.

    python benchmarks/regret.py [--seeds 3] [--test 100] [--largest 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, pstdev

from drike import datasets, tinyfacts
from drike.datasets import splits
from drike.demonstrations import Candidates
from drike.editors.ike import arrange
from drike.encoder import load_encoder
from drike.models import Request, Score
from drike.models.reader import BayesianReader
from drike.pool import Pool
from drike.prompts import in_context
from drike.reinforce import train
from drike.retriever import FORMS, Ranker, Retriever, Similarity
from drike.tinyfacts.templates import TEMPLATES


def ask(reader: BayesianReader, candidates: Candidates, chosen: Sequence[Sequence[int]]) -> list[Score]:
    """Scores of target_new under each choice of retains (pool indices)."""
    edit = candidates.edit
    prompts = [in_context(arrange(candidates, [candidates.retains[i] for i in c]), edit, edit.query) for c in chosen]
    return reader.score([Request(prompt.text, f" {edit.target_new}") for prompt in prompts])


def best(reader: BayesianReader, candidates: Candidates, k: int) -> tuple[float, float]:
    """Reward and probability of the best subset of k retains, by enumeration."""
    scores = ask(reader, candidates, list(combinations(range(len(candidates.retains)), k)))
    return max(1.0 if s.greedy else -1.0 for s in scores), max(s.mean_probability for s in scores)


def main() -> None:
    """Print a table of regrets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--test", type=int, default=100)
    parser.add_argument("--largest", type=int, default=3, help="largest k; C(16, k) prompts an edit")
    options = parser.parse_args()
    dataset = datasets.load(tinyfacts.rows_path(), name="TinyFacts")
    reader = BayesianReader(tinyfacts.facts(), TEMPLATES)
    encoder = load_encoder()
    sizes = range(1, options.largest + 1)
    found: dict[str, list[list[float]]] = {}
    for seed in range(options.seeds):
        split = splits.draw(dataset, editable=tinyfacts.EDITABLE, test=options.test, seed=seed)
        parts = splits.parts(split, dataset)
        pool = Pool(parts.demonstrations, encoder)
        rankers: dict[str, Ranker] = {"similarity": Similarity()}
        for form in FORMS:
            rankers[f"{form}, untrained"] = Retriever(encoder, form=form, seed=seed)
            trained = Retriever(encoder, form=form, seed=seed)
            for _ in train(reader, parts.train, pool, trained, seed=seed):
                pass
            rankers[f"{form}, trained"] = trained
        tested = pool.candidates([case.edit for case in parts.test])
        ceilings = {k: [best(reader, candidates, k) for candidates in tested] for k in sizes}
        for name, ranker in rankers.items():
            row: list[float] = []
            for k in sizes:
                got = [ask(reader, candidates, [ranker.rank(candidates).order[:k]])[0] for candidates in tested]
                row.append(fmean(c[0] - (1.0 if s.greedy else -1.0) for c, s in zip(ceilings[k], got, strict=True)))
                row.append(fmean(c[1] - s.mean_probability for c, s in zip(ceilings[k], got, strict=True)))
            found.setdefault(name, []).append(row)
    header = " | ".join(f"k={k} reward | k={k} P(new)" for k in sizes)
    print(f"| ranking | {header} |\n|---|{'---:|' * 2 * len(sizes)}")
    for name, rows in found.items():
        cells = [f"{fmean(column):.3f} ± {pstdev(column):.3f}" for column in zip(*rows, strict=True)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
