"""Compare DR-IKE-Q with rules that anybody writes in a minute, on TinyFacts: what each query is shown, or left alone.

Every probe is asked once under each action: the query alone, the fact alone, with copies, with updates, with some and
with all retains, and 16 retains alone. DR-IKE-Q is trained as by `drike train --objective s`; the threshold of the
cosine is the one with the largest S on the training edits, one for each reading. Readings: "plain" has the probes of S;
"both" counts paraphrases with the subject cut to the last word of its name (where no other subject has it) for PC, too,
and for RR other relations of the subject, of which what the unedited model says is to stay; "hard alone" counts these
alone. Each query stands under its own edit, as in the paper. Intervals resample the edits of all seeds.

With --folds no test edit is looked at: the training edits are tested in five folds by a policy and thresholds that were
chosen on the others, once with folds of edits, once with folds of relations, none of which is trained on then.

    python benchmarks/rivals.py [--seeds 3] [--model embedded] [--folds]
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deployed import READINGS, with_hard_questions
from drike import load_model, tinyfacts
from drike.edits.edit import ASPECTS_OF_S, Aspect, EditCase
from drike.encoders import TextEncoder, load_encoder
from drike.encoders.base import unit
from drike.models.protocols import LanguageModel
from drike.research import datasets
from drike.research.datasets.dataset import Split
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import IKE_ROLES, Pool
from drike.research.editors.query_policy import QueryPolicy
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import (
    LeaveAlone,
    RankAndCut,
    RoleCounts,
    SameSize,
    Selector,
)
from drike.research.evaluation.baseline_questions import baseline_answers, with_baseline_answers
from drike.research.evaluation.bootstrap import estimated
from drike.research.evaluation.case_answers import CaseAnswers, answers_under
from drike.research.report.tables import INTERVALS
from drike.research.training import algorithm1
from drike.research.training.algorithm1 import rewrite_reward
from drike.research.training.s_objective import actions, train_query_policy, training_cases
from drike.support.table import NOT_MEASURED
from drike.text.words import mentions
from lib import pages
from lib.ceilings import AnswerMatrix
from lib.seeds import measured, scores

TITLE = "DR-IKE-Q and its rivals"

FOLDS = 5
COSINES = np.arange(0.2, 0.9, 0.02)
OURS = "DR-IKE-Q"
ACTIONS = actions([role for role, count in IKE_ROLES for _ in range(count)])
# Columns: the query alone, copies and updates, retains alone, everything; what else is asked comes behind.
ALONE, SHOWN, RETAINS, EVERYTHING = (
    ACTIONS.index(action)
    for action in (
        LeaveAlone(),
        RoleCounts(4, 12, 0),
        RoleCounts(0, 0, 16),
        RoleCounts(4, 12, 16),
    )
)
Columns = NDArray[np.int64]  # the action for each probe [probes]
Rows = dict[str, dict[str, Columns]]  # by reading and name


class Asked:
    """Cases with the answers to their probes under each action, what each probe names, and how near it is."""

    def __init__(
        self, cases: Sequence[EditCase], answers: Sequence[CaseAnswers], encoder: TextEncoder
    ) -> None:
        self.cases, self.answers, self.encoder = cases, answers, encoder
        self.probes = [probe for case in cases for probe in case.asked]
        self.owner = np.repeat(np.arange(len(cases)), [len(case.asked) for case in cases])
        self.right = np.array([row for of in answers for row in of.correct], dtype=float)
        self.tokens = np.array([row for of in answers for row in of.prompt_tokens], dtype=float)
        edits = [cases[place].edit for place in self.owner]
        self.named = np.array(
            [mentions(p.query, e.subject or "") for p, e in zip(self.probes, edits, strict=True)]
        )
        texts = [edit.query for edit in edits], [probe.query for probe in self.probes]
        own, asked = (unit(encoder.encode(of)) for of in texts)
        self.cosine = (own * asked).sum(axis=1)

    def some(self, places: Sequence[int]) -> Asked:
        """Some of the cases."""
        return Asked(
            [self.cases[i] for i in places], [self.answers[i] for i in places], self.encoder
        )

    def chosen(self, policy: QueryPolicy) -> Columns:
        """A policy's actions."""
        chosen = [
            policy.choose(case.edits, [probe.query for probe in case.asked]) for case in self.cases
        ]
        return np.array(
            [
                0 if mix is None else 1 + policy.mixes.index(mix)
                for of_case in chosen
                for mix in of_case
            ]
        )

    def read(self, reading: str) -> tuple[AnswerMatrix, NDArray[np.bool_]]:
        """The answers that a reading counts, and which probes these are."""
        column = {
            Aspect.REWRITE: 0,
            **{aspect: i for i in (1, 2) for aspect in READINGS[reading][i - 1]},
        }
        kept = np.array([probe.aspect in column for probe in self.probes])
        aspect = np.array([column[probe.aspect] for probe in self.probes if probe.aspect in column])
        ids = tuple(case.case_id for case in self.cases)
        return AnswerMatrix(
            self.right[kept], self.tokens[kept], ASPECTS_OF_S, aspect, self.owner[kept], ids
        ), kept


def ask(model: LanguageModel, pool: Pool, cases: Sequence[EditCase], *further: Selector) -> Asked:
    """Ask all probes under each action, and as other selectors have it."""
    choices = [*ACTIONS, *further]
    return Asked(cases, list(answers_under(choices, model, pool, cases)), pool.encoder)


def cosine_rule(train: Asked, reading: str, other: int) -> float:
    """The cosine above which copies and updates are best shown, and else another action."""
    matrix, kept = train.read(reading)
    cosine = train.cosine[kept]
    return float(max(COSINES, key=lambda at: matrix.score(np.where(cosine > at, SHOWN, other))))


def policy_of(pool: Pool, train: Asked) -> QueryPolicy:
    """DR-IKE-Q, trained on these answers."""
    learned = [
        CaseAnswers(
            of.case_id,
            tuple(r[: len(ACTIONS)] for r in of.correct),
            tuple(t[: len(ACTIONS)] for t in of.prompt_tokens),
        )
        for of in train.answers
    ]
    return train_query_policy(
        QueryPolicy.untrained(pool.encoder, pool.roles), train.cases, learned
    )[0]


def rules(asked: Asked, policy: QueryPolicy, untrained: QueryPolicy, tuned: Asked) -> Rows:
    """What each row does. tuned: the answers on which thresholds are chosen."""
    shared = {
        OURS: asked.chosen(policy),
        "named: copies and updates, else alone": np.where(asked.named, SHOWN, ALONE),
        "named: copies and updates, else 16 retains": np.where(asked.named, SHOWN, RETAINS),
        "calibrated gate: copies and updates, else alone": np.where(
            asked.chosen(untrained) == ALONE, ALONE, SHOWN
        ),
        "best action per query (oracle)": np.lexsort((asked.tokens, -asked.right), axis=1)[:, 0],
        "all demonstrations": np.full(len(asked.probes), EVERYTHING),
    }
    rows: Rows = {reading: dict(shared) for reading in READINGS}
    for reading, of_reading in rows.items():
        for other, name in ((ALONE, "alone"), (RETAINS, "16 retains")):
            shown = asked.cosine > cosine_rule(tuned, reading, other)
            of_reading[f"cosine: copies and updates, else {name}"] = np.where(shown, SHOWN, other)
    return rows


def tested(
    model: LanguageModel, pool: Pool, parts: Split, train: Asked, questions: Asked
) -> tuple[Asked, Rows]:
    """The rows on the test edits, with three that have prompts of their own."""
    policy = policy_of(pool, questions)
    editor = InContextEditor(
        "DR-IKE", pool, RankAndCut(Retriever(pool.encoder, seed=pool.seed), Threshold())
    )
    *_, last = algorithm1.train(editor, rewrite_reward(model), parts.train, epochs=5)
    own = {
        "nearest of any role, as many as DR-IKE-Q": SameSize(policy),
        "IKE, appended": RankAndCut(Similarity(), Fraction(1.0)),
        "DR-IKE": RankAndCut(editor.selector.ranker, last.budget),
    }
    asked = ask(model, pool, with_hard_questions(model, parts.test, pool.seed), *own.values())
    rows = rules(asked, policy, QueryPolicy.untrained(pool.encoder, pool.roles), train)
    own_columns = {name: np.full(len(asked.probes), len(ACTIONS) + i) for i, name in enumerate(own)}
    return asked, {reading: of_reading | own_columns for reading, of_reading in rows.items()}


def folded(pool: Pool, train: Asked, questions: Asked, keys: Sequence[str]) -> tuple[Asked, Rows]:
    """The rows on the training edits, in folds of these keys [cases]. questions: what is trained on."""
    names = sorted(set(keys))
    fold_of = dict(
        zip(names, np.random.default_rng(0).permutation(len(names)) % FOLDS, strict=True)
    )
    rows: Rows = {reading: {} for reading in READINGS}
    for fold in range(FOLDS):
        held, others = (
            [i for i, key in enumerate(keys) if (fold_of[key] == fold) == own]
            for own in (True, False)
        )
        policy, untrained = (
            policy_of(pool, questions.some(others)),
            QueryPolicy.untrained(pool.encoder, pool.roles),
        )
        for reading, of_fold in rules(
            train.some(held), policy, untrained, train.some(others)
        ).items():
            for name, columns in of_fold.items():
                of_all = rows[reading].setdefault(name, np.zeros(len(train.probes), dtype=np.int64))
                of_all[np.isin(train.owner, held)] = columns
    return train, rows


def main() -> None:
    """Print the tables."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument(
        "--model",
        default="embedded",
        help="model to ask: a name, or the folder of another small one",
    )
    parser.add_argument("--folds", action="store_true", help="test on the training edits, in folds")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    rows = Path(options.model, "rows.json")
    dataset = datasets.load(rows if rows.exists() else datasets.TINYFACTS)
    encoder, model = load_encoder(), load_model(options.model)
    found = defaultdict[str, list[tuple[Asked, Rows]]](list)
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed, editable=tinyfacts.EDITABLE)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        train = ask(model, pool, with_hard_questions(model, parts.train, seed))
        asked = training_cases(parts.train, seed)
        questions = ask(
            model, pool, with_baseline_answers(asked, baseline_answers(model, asked)).cases
        )
        if options.folds:
            keys = {"edits": [case.case_id for case in parts.train]}
            keys["relations never trained on"] = [case.edit.relation or "" for case in parts.train]
            for what, of_case in keys.items():
                found[f"Folds of training edits: {what}"].append(
                    folded(pool, train, questions, of_case)
                )
        else:
            found["Test edits"].append(tested(model, pool, parts, train, questions))
        print(
            f"seed {seed}: {model.usage.tokens_computed:,} tokens computed so far",
            file=sys.stderr,
            flush=True,
        )
    for title, seeds in found.items():
        show(f"{title}, {options.seeds} seeds, model {model.info.name}", seeds)


def show(title: str, seeds: Sequence[tuple[Asked, Rows]]) -> None:
    """Print what each row comes to, and by how much DR-IKE-Q is above it."""
    pairs = {
        (reading, name): [
            (matrix, rows[reading][name][kept])
            for asked, rows in seeds
            for matrix, kept in [asked.read(reading)]
        ]
        for reading in READINGS
        for name in seeds[0][1][reading]
    }
    names = list(dict.fromkeys(name for _, name in pairs))
    made = {key: measured(of_seeds) for key, of_seeds in pairs.items()}
    body, less = [], []
    for name in names:
        plain, both, hard = (made[reading, name] for reading in READINGS)
        rates = [*plain.rates.values(), *list(hard.rates.values())[1:]]
        tokens = [f"{of.tokens or 0.0:.0f}" for of in (plain, both, hard)]
        body.append(
            (
                name,
                plain.s,
                both.s,
                hard.s,
                *(f"{rates[i]:.3f}".replace("nan", NOT_MEASURED) for i in (0, 1, 3, 2, 4)),
                *tokens,
            )
        )
        if name != OURS:
            less.append(
                (name, *(minus(pairs[reading, OURS], pairs[reading, name]) for reading in READINGS))
            )
    header = (
        "choice",
        "S",
        "S, both",
        "S, hard alone",
        "ESR",
        "PC",
        "PC, short",
        "RR",
        "RR, same subject",
    )
    pages.draw(title, (*header, *(f"tokens, {reading}" for reading in READINGS)), body, INTERVALS)
    edits = len({case.case_id for asked, _ in seeds for case in asked.cases})
    pages.draw(f"{OURS} minus each, paired over {edits} edits", header[:4], less, INTERVALS)


def minus(
    ours: Sequence[tuple[AnswerMatrix, Columns]], theirs: Sequence[tuple[AnswerMatrix, Columns]]
) -> str:
    """The paired difference in S of two choices on the same seeds."""
    (s, drawn), (other, others) = scores(ours), scores(theirs)
    [found] = estimated(np.array([s - other]), (drawn - others)[:, None])
    if found.value is None or found.low is None:  # nothing of the kind is asked of this model
        return NOT_MEASURED
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


if __name__ == "__main__":
    main()
