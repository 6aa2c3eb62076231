"""Measure ceilings, and a policy that chooses demonstrations for each query, on TinyFacts and the embedded model.

Every probe of the test edits is asked once under each mix (copies and updates: none, copies, all; retains: 0, 1, 2, 4,
8, 16; nearest first), and every probe of the training edits under the 7 mixes that the policy below chooses from. From
these answers come the ceilings (the best choices in hindsight on the test edits), a pair policy, with and without the
feature "the query names the subject", and its controls. The pair policy is DR-IKE-Q as it was before it was a gate: it
reads edit and query as vectors, and leaves no query alone (DR-IKE-Q itself: benchmarks/rivals.py). Means over seeds;
intervals resample the test edits of all seeds, an edit that several seeds test being one case. "Relations never trained
on": trained on 20 of the 27 relations, tested on the other 7.

    python benchmarks/per_query.py [--seeds 3] [--model embedded] [--random-subsets 16]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drike import load_model
from drike.edits.edit import Edit, EditCase
from drike.encoders import TextEncoder, load_encoder
from drike.research import datasets
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import RoleCounts
from drike.research.evaluation.bootstrap import estimated
from drike.research.evaluation.case_answers import CaseAnswers, answers_under
from drike.support.table import as_markdown
from drike.text.words import mentions
from lib import pages
from lib.ceilings import (
    AnswerMatrix,
    Chosen,
    ceilings,
    ceilings_table,
    hindsight_answers,
    mixes_of,
    random_subsets,
    retains_of,
    shows_all_fixed,
)
from lib.pair_policy import PairPolicy, pair_mixes, train_pair_policy
from lib.seeds import measured, scores

TITLE = "Ceilings, and the pair policy"

SWITCH = "switch by name, all roles"
PRICES = (0.0, 0.05, 0.2, 0.5)
RELATIONS = 20


def trained(
    encoder: TextEncoder,
    mixes: Sequence[RoleCounts],
    cases: Sequence[EditCase],
    answers: Sequence[CaseAnswers],
    *,
    named: bool,
    price: float,
) -> PairPolicy:
    """A policy trained on these edits."""
    policy = PairPolicy(encoder, mixes, named=named)
    train_pair_policy(policy, cases, answers, price=price)
    return policy


@dataclass(frozen=True)
class Switch:
    """One mix for queries that name the edit's subject, another for all others."""

    named: RoleCounts
    other: RoleCounts

    def choose(self, edit: Edit, queries: Sequence[str]) -> list[RoleCounts]:
        """The mix for each query."""
        return [
            self.named if mentions(query, edit.subject or "") else self.other for query in queries
        ]


def chosen_by(
    policy: PairPolicy | Switch, cases: Sequence[EditCase], mixes: Sequence[RoleCounts]
) -> Chosen:
    """The column of the mix that a policy chooses for each probe."""
    chosen = [policy.choose(case.edit, [probe.query for probe in case.probes]) for case in cases]
    return np.array([mixes.index(mix) for of_case in chosen for mix in of_case])


def main() -> None:
    """Print the table."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--model", default="embedded", help="model to ask")
    parser.add_argument("--random-subsets", type=int, default=0, help="also ceilings by subsets")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    encoder, found, unseen = load_encoder(), dict[str, list[tuple[AnswerMatrix, Chosen]]](), {}
    dataset, model = datasets.load("tinyfacts"), load_model(options.model)
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        mixes = mixes_of(pool.roles)
        everything = mixes[-1]
        retains_only = [mix for mix in mixes if shows_all_fixed(mix, pool)]
        learned, before = pair_mixes(pool.roles), model.usage.tokens_computed
        train = list(answers_under(learned, model, pool, parts.train))
        print(
            f"seed {seed}: {model.usage.tokens_computed - before:,} tokens for the training of the policies",
            file=sys.stderr,
        )
        of_k = list(answers_under(retains_only, model, pool, parts.train))
        subsets = random_subsets(retains_of(pool), options.random_subsets, seed)
        asks = hindsight_answers if subsets else answers_under
        choices = [*mixes, *subsets]
        asked = list(asks(choices, model, pool, parts.test))
        test = AnswerMatrix.of(parts.test, asked)
        rows = {
            f"nearest k = {mix.retains}": test.always(mixes.index(mix)) for mix in retains_only[2:5]
        }
        own, other = (
            RoleCounts(everything.copies, everything.updates, 0),
            RoleCounts(0, 0, everything.retains),
        )
        policies: dict[str, PairPolicy | Switch] = {
            "switch by name, retains only (0 or 16)": Switch(own, everything),
            SWITCH: Switch(own, other),
        }
        for price in PRICES:
            for named, what in ((False, ""), (True, " with the name")):
                policy = trained(encoder, learned, parts.train, train, named=named, price=price)
                policies[f"pair policy{what}, price {price:g}"] = policy
        policies["pair policy, retains only"] = trained(
            encoder, retains_only, parts.train, of_k, named=False, price=0.05
        )
        rows |= {name: chosen_by(policy, parts.test, mixes) for name, policy in policies.items()}
        relations = np.random.default_rng(seed).permutation(
            sorted({c.edit.relation or "" for c in parts.train})
        )
        seen = [
            i for i, case in enumerate(parts.train) if case.edit.relation in relations[:RELATIONS]
        ]
        policy = trained(
            encoder,
            learned,
            [parts.train[i] for i in seen],
            [train[i] for i in seen],
            named=False,
            price=0.05,
        )
        of_new = [
            i for i, case in enumerate(parts.test) if case.edit.relation in relations[RELATIONS:]
        ]
        held = [parts.test[i] for i in of_new]
        of_held = AnswerMatrix.of(held, [asked[i] for i in of_new])
        best = ceilings(of_held, choices, pool)
        for name, chosen in (ceilings(test, choices, pool) | rows).items():
            found.setdefault(name, []).append((test, chosen))
        new = {"pair policy": policy, SWITCH: policies[SWITCH]}
        for name, chosen in (
            {name: chosen_by(choice, held, mixes) for name, choice in new.items()} | best
        ).items():
            unseen.setdefault(name, []).append((of_held, chosen))
        print(
            f"seed {seed}: {model.usage.tokens_computed:,} tokens computed so far",
            file=sys.stderr,
            flush=True,
        )
    for title, of_seeds in (("All relations", found), ("Relations never trained on", unseen)):
        by_name = {name: measured(seeds) for name, seeds in of_seeds.items()}
        print(
            as_markdown(
                ceilings_table(by_name, f"{title}, {options.seeds} seeds", "best mix per query")
            ),
            flush=True,
        )
        less = [
            (name, minus(of_seeds[name], of_seeds[SWITCH]))
            for name in of_seeds
            if name.startswith("pair policy")
        ]
        edits = len({edit for matrix, _ in of_seeds[SWITCH] for edit in matrix.cases})
        pages.draw(f"{title}: minus {SWITCH}, paired over {edits} edits", ("choice", "S"), less)


def minus(
    ours: Sequence[tuple[AnswerMatrix, Chosen]], theirs: Sequence[tuple[AnswerMatrix, Chosen]]
) -> str:
    """The paired difference in S of two choices on the same seeds."""
    (s, drawn), (other, others) = scores(ours), scores(theirs)
    [found] = estimated(np.array([s - other]), (drawn - others)[:, None])
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


if __name__ == "__main__":
    main()
