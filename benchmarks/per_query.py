"""Measure ceilings, and a policy that chooses demonstrations for each query, on TinyFacts and the embedded model.

Every probe of training and test edits is asked under each mix (copies and updates: none, copies, all; retains: 0, 1,
2, 4, 8, 16; nearest first), once. From these answers come the ceilings (the best choices in hindsight on the test
edits), the policy DR-IKE-Q, trained on the training edits with and without the feature "the query names the subject",
and its controls. Means over seeds; intervals resample test edits within each seed. "closed" is the share of the gap
between IKE and the best mix per query. "unseen relations" trains on 20 of the 27 relations and tests on the other 7.

    python benchmarks/per_query.py [--seeds 3] [--model embedded]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from drike import datasets, load_model
from drike.edits import Aspect, EditCase
from drike.encoders import load_encoder
from drike.retrieval.mixes import ByName, Mix, MixPolicy, mixes_of
from drike.retrieval.pool import Pool
from drike.retrieval.query_policy import QueryPolicy
from drike.training.answers import CaseAnswers, answers_under
from drike.training.balanced import train_balanced

Choice = NDArray[np.int64]  # the index of a mix, for each probe of the test edits in order
PRICES = (0.0, 0.05, 0.2, 0.5)
RELATIONS = 20


class Answered:
    """The test edits of a seed with their answers under every mix."""

    def __init__(self, cases: Sequence[EditCase], answers: Sequence[CaseAnswers], mixes: Sequence[Mix]) -> None:
        self.cases, self.mixes = cases, tuple(mixes)
        self.right = np.array([row for one in answers for row in one.correct], dtype=float)
        self.tokens = np.array([row for one in answers for row in one.prompt_tokens], dtype=float)
        self.aspect = np.array([probe.aspect for case in cases for probe in case.probes])
        self.case = np.array([i for i, case in enumerate(cases) for _ in case.probes])

    def chosen_by(self, policy: MixPolicy) -> Choice:
        """The mix that a policy chooses for each probe."""
        mixes = [mix for case in self.cases for mix in policy.choose(case.edit, [p.query for p in case.probes])]
        return np.array([self.mixes.index(mix) for mix in mixes])

    def fixed(self, mix: Mix) -> Choice:
        """One mix for every probe."""
        return np.full(len(self.aspect), self.mixes.index(mix))

    def rates(self, choice: Choice) -> NDArray[np.float64]:
        """Rewrites, paraphrases and neighbours: right answers and probes of each case, [cases, 3, 2]."""
        right = self.right[np.arange(len(choice)), choice]
        found = np.zeros((len(self.cases), 3, 2))
        for j, aspect in enumerate(Aspect):
            mask = self.aspect == aspect
            np.add.at(found[:, j, 0], self.case[mask], right[mask])
            np.add.at(found[:, j, 1], self.case[mask], 1)
        return found

    def share_of_tokens(self, choice: Choice) -> float:
        """Prompt tokens as a share of those with all demonstrations."""
        return float(self.tokens[np.arange(len(choice)), choice].sum() / self.tokens[:, -1].sum())

    def best(self, groups: Callable[[int], object], among: Sequence[Mix]) -> Choice:
        """The mix that is best in hindsight for each group of probes; for S of all groups found by ascent."""
        allowed = [self.mixes.index(mix) for mix in among]
        labels = np.array([hash(groups(i)) for i in range(len(self.aspect))])
        choice = np.full(len(labels), allowed[-1])
        for _ in range(3):
            means = means_of(self.rates(choice))
            weight = (score_of(means) / means) ** 2 / np.array([(self.aspect == a).sum() for a in Aspect])
            value = self.right * np.array([weight[list(Aspect).index(a)] for a in self.aspect])[:, None]
            for label in np.unique(labels):
                mask = labels == label
                choice[mask] = allowed[int(value[mask][:, allowed].sum(axis=0).argmax())]
        return choice


def means_of(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each aspect."""
    total = rates.sum(axis=0)
    return np.maximum(total[:, 0] / total[:, 1], 1e-9)


def score_of(means: NDArray[np.float64]) -> float:
    """S: the harmonic mean."""
    return float(len(means) / (1 / means).sum())


def trained(
    encoder: object,
    mixes: Sequence[Mix],
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    *,
    named: bool,
    price: float,
) -> QueryPolicy:
    """A policy trained on these edits."""
    policy = QueryPolicy(encoder, mixes, named=named)  # type: ignore[arg-type]
    for _ in train_balanced(policy, cases, answers, price=price):
        pass
    return policy


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--model", default="embedded", help="model to ask")
    options = parser.parse_args()
    encoder, found = load_encoder(), dict[str, list[tuple[NDArray[np.float64], float]]]()
    dataset, model = datasets.load("tinyfacts"), load_model(options.model)
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        mixes = mixes_of(pool.roles)
        train = list(answers_under(mixes, model, pool, parts.train))
        test = Answered(parts.test, list(answers_under(mixes, model, pool, parts.test)), mixes)
        everything, fixed_roles = (
            mixes[-1],
            [mix for mix in mixes if (mix.copies, mix.updates) == (mixes[-1].copies, mixes[-1].updates)],
        )
        own, other = Mix(everything.copies, everything.updates, 0), Mix(0, 0, everything.retains)
        kind = test.aspect == Aspect.NEIGHBORHOOD
        rows: dict[str, tuple[Answered, Choice]] = {
            "all demonstrations, appended (IKE's)": (test, test.fixed(everything)),
            **{
                f"nearest k = {mix.retains}": (test, test.fixed(mix)) for mix in fixed_roles if mix.retains in (2, 4, 8)
            },
            "switch by name, retains only (0 or 16)": (test, test.chosen_by(ByName(own, everything))),
            "switch by name, all roles": (test, test.chosen_by(ByName(own, other))),
        }
        for price in PRICES:
            policy = trained(encoder, mixes, parts.train, train, named=False, price=price)
            rows[f"DR-IKE-Q, price {price:g}"] = (test, test.chosen_by(policy))
            policy = trained(encoder, mixes, parts.train, train, named=True, price=price)
            rows[f"DR-IKE-Q with the name, price {price:g}"] = (test, test.chosen_by(policy))
        columns = [mixes.index(mix) for mix in fixed_roles]
        only = [
            CaseAnswers(
                one.case_id,
                *(tuple(tuple(row[i] for i in columns) for row in rows) for rows in (one.correct, one.prompt_tokens)),
            )  # type: ignore[arg-type]
            for one in train
        ]
        rows["DR-IKE-Q, retains only"] = (
            test, test.chosen_by(trained(encoder, fixed_roles, parts.train, only, named=False, price=0.05)),
        )  # fmt: skip
        relations = sorted({case.edit.relation or "" for case in parts.train})
        unseen = {*np.random.default_rng(seed).permutation(relations)[RELATIONS:].tolist()}
        seen = [i for i, case in enumerate(parts.train) if case.edit.relation not in unseen]
        policy = trained(
            encoder, mixes, [parts.train[i] for i in seen], [train[i] for i in seen], named=False, price=0.05
        )
        held = [i for i, case in enumerate(parts.test) if case.edit.relation in unseen]
        of_held = Answered([parts.test[i] for i in held], [], mixes)
        mask = np.isin(test.case, held)
        of_held.right, of_held.tokens = test.right[mask], test.tokens[mask]
        rows["DR-IKE-Q on unseen relations"] = (of_held, of_held.chosen_by(policy))
        rows["all demonstrations on unseen relations"] = (of_held, of_held.fixed(everything))
        rows |= {
            "ceiling: best k of all edits": (
                test,
                max((test.fixed(mix) for mix in fixed_roles), key=lambda one: score_of(means_of(test.rates(one)))),
            ),
            "ceiling: best k per edit": (test, test.best(lambda i, case=test.case: int(case[i]), fixed_roles)),  # type: ignore[misc]
            "ceiling: best k per kind of query": (test, test.best(lambda i, kind=kind: bool(kind[i]), fixed_roles)),  # type: ignore[misc]
            "ceiling: best k per query": (test, test.best(lambda i: i, fixed_roles)),
            "ceiling: best mix per kind of query": (test, test.best(lambda i, kind=kind: bool(kind[i]), mixes)),  # type: ignore[misc]
            "ceiling: best mix per query": (test, test.best(lambda i: i, mixes)),
        }
        for name, (answered, choice) in rows.items():
            found.setdefault(name, []).append((answered.rates(choice), answered.share_of_tokens(choice)))
        print(f"seed {seed}: {model.usage.tokens_computed:,} tokens computed so far", flush=True)
    report(found)


def report(found: dict[str, list[tuple[NDArray[np.float64], float]]]) -> None:
    """Print a row for each: S with its interval, the aspects, tokens, and the share of the gap closed."""
    rng = np.random.default_rng(0)
    means = {name: np.mean([means_of(rates) for rates, _ in seeds], axis=0) for name, seeds in found.items()}
    scores = {name: float(np.mean([score_of(means_of(rates)) for rates, _ in seeds])) for name, seeds in found.items()}
    floor, ceiling = scores["all demonstrations, appended (IKE's)"], scores["ceiling: best mix per query"]
    print("| choice of demonstrations | S | ESR | PC | RR | prompt tokens | closed |\n|---|---|---|---|---|---|---|")
    for name, seeds in found.items():
        drawn = [
            np.mean([score_of(means_of(rates[rng.integers(len(rates), size=len(rates))])) for rates, _ in seeds])
            for _ in range(1000)
        ]
        low, high = np.quantile(drawn, [0.025, 0.975])
        tokens = float(np.mean([share for _, share in seeds]))
        shown = "n/a" if np.isnan(tokens) else f"{tokens:.2f}"
        closed = "" if "unseen" in name else f"{(scores[name] - floor) / (ceiling - floor):.0%}"
        aspects = " | ".join(f"{m:.3f}" for m in means[name])
        print(f"| {name} | {scores[name]:.3f} [{low:.3f}, {high:.3f}] | {aspects} | {shown} | {closed} |")


if __name__ == "__main__":
    main()
