"""Compare objectives of training on TinyFacts: each row makes an editor of a seed's material, tested on its edits.

Sets drawn from a policy (Bernoulli, Plackett-Luce; retains only or all roles), MO-IKE as published and as released,
FWE-IKE, next to IKE, the paper's DR-IKE, the nearest retains and DR-IKE-Q. "same sizes" shows as many demonstrations of
each role as the row above it, but the nearest to the edit; "top 4" the four best retains of a ranking, for every query.
All prompts of a test edit go to the model in one call. Means over seeds; intervals resample the edits of all
seeds, an edit that several seeds test being one case. "closed" is the share of the gap between the paper's DR-IKE and
the best k per query in hindsight. "training tokens": computed by the model in that row's training.

    python benchmarks/objectives.py [--seeds 3] [--model embedded] [--edits 300] [--epochs 2] [--only ROW] [--curves]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from drike import load_model
from drike.edits.edit import ASPECTS_OF_S, Aspect, Edit, EditCase
from drike.encoders import TextEncoder, load_encoder
from drike.encoders.base import unit
from drike.models.protocols import LanguageModel
from drike.prompts import Demonstration, DemonstrationSet, Prompt, PromptStyle, Role
from drike.research import datasets
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Ranker, Similarity
from drike.research.editors.retriever import Form, Retriever
from drike.research.editors.selectors import RankAndCut, RoleCounts
from drike.research.evaluation.case_answers import CaseAnswers
from drike.research.evaluation.judge import Question
from drike.research.evaluation.metrics import harmonic_mean
from drike.research.training.algorithm1 import rewrite_reward, train
from lib import pages
from lib.ceilings import mixes_of, shows_all_fixed
from lib.ensemble import fitness_weighted
from lib.pair_policy import PairPolicy, train_pair_policy
from lib.seeds import resampled_by_edit
from lib.sets import RememberedAnswers, SetEpisode, SetTraining, mo_ike, train_sets
from lib.subsets import ROLES, Bernoulli, Draw, PlackettLuce, SubsetPolicy

TITLE = "Sets of demonstrations, MO-IKE and FWE-IKE"

Rates = NDArray[np.float64]  # right answers and probes of each case and aspect, [cases, 3, 2]
STYLE, RETAINS = PromptStyle(), (Role.RETAIN,)
SIZES = (2, 4, 8)
PRICE, SHORT = SetTraining.price, 0.5
SAME = "same sizes as "
ALL, PAPER, NEAREST, PER_QUERY = (
    "IKE-All, appended",
    "DR-IKE (paper)",
    "nearest k = 4",
    "per query, 18 mixes",
)
CEILING = "ceiling: best k per query"


@dataclass
class Material:
    """What a row may use of a seed: the training edits, some held out to choose between settings, and the model."""

    seed: int
    model: LanguageModel
    encoder: TextEncoder
    pool: Pool
    cases: tuple[EditCase, ...]
    held_out: tuple[EditCase, ...]
    settings: SetTraining
    answers: RememberedAnswers  # to mixes of the nearest; rows that draw sets ask anew, so that their tokens count
    made: dict[str, tuple[Any, int]] = field(default_factory=dict)
    episodes: dict[str, list[SetEpisode]] = field(default_factory=dict)  # of policies over sets

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, made once for all rows that need it; its tokens are kept."""
        if name not in self.made:
            before = self.model.usage.tokens_computed
            result = make()
            self.made[name] = result, self.model.usage.tokens_computed - before
            print(
                f"  seed {self.seed}: {name}, {self.made[name][1]:,} tokens",
                file=sys.stderr,
                flush=True,
            )
        return self.made[name][0]


Row = Callable[[Material], tuple[Editor, str | None]]  # an editor, and the training that it took


def ike(m: Material, name: str, ranker: Ranker, budget: object) -> InContextEditor[RankAndCut]:
    """IKE's editor in the layout of training."""
    return InContextEditor(name, m.pool, RankAndCut(ranker, budget), STYLE)  # type: ignore[arg-type]


def paper(m: Material, form: Form = "dot") -> InContextEditor[RankAndCut]:
    """The paper's DR-IKE."""

    def make() -> InContextEditor[RankAndCut]:
        editor = ike(m, PAPER, Retriever(m.encoder, form=form, seed=m.seed), Threshold())
        *_, last = train(editor, rewrite_reward(m.model), m.cases)
        return replace(editor, selector=replace(editor.selector, budget=last.budget))

    made: InContextEditor[RankAndCut] = m.once(f"paper, {form}", make)
    return made


def mixed(m: Material) -> PairPolicy:
    """DR-IKE-Q's former policy, whose features the sets share."""

    def make() -> PairPolicy:
        policy = PairPolicy(m.encoder, mixes_of(m.pool.roles))
        known = tested(m.answers, [fixed(m, mix) for mix in policy.mixes], m.cases)
        rows = [(known.right[known.case == i] > 0).tolist() for i in range(len(m.cases))]
        answers = [
            CaseAnswers(c.case_id, tuple(map(tuple, row)), ())
            for c, row in zip(m.cases, rows, strict=True)
        ]
        train_pair_policy(policy, m.cases, answers)
        return policy

    made: PairPolicy = m.once(PER_QUERY, make)
    return made


def title(draw: Draw, roles: Sequence[Role], price: float = PRICE) -> str:
    """The name of such a row."""
    name = "Bernoulli" if isinstance(draw, Bernoulli) else "Plackett-Luce"
    return f"{name}, {'retains only' if roles == RETAINS else 'all roles'}{'' if price == PRICE else f', price {price:g}'}"


def drawn(m: Material, draw: Draw, roles: Sequence[Role], price: float = PRICE) -> SubsetPolicy:
    """A policy over sets, trained on S."""

    def make() -> SubsetPolicy:
        policy = SubsetPolicy(m.encoder, draw, roles=roles)
        return trained_on_sets(
            m, title(draw, roles, price), policy, replace(m.settings, price=price)
        )

    made: SubsetPolicy = m.once(title(draw, roles, price), make)
    return made


def mo_ike_of(m: Material, *, as_released: bool) -> SubsetPolicy:
    """MO-IKE's policy."""

    def make() -> SubsetPolicy:
        policy, settings = mo_ike(m.encoder, as_released=as_released)
        return trained_on_sets(
            m, name, policy, replace(settings, epochs=m.settings.epochs, seed=m.seed)
        )

    name = f"MO-IKE, as {'released' if as_released else 'published'}"
    made: SubsetPolicy = m.once(name, make)
    return made


def trained_on_sets(
    m: Material, name: str, policy: SubsetPolicy, settings: SetTraining
) -> SubsetPolicy:
    """The policy after training; its episodes are kept."""
    m.episodes[name] = list(
        train_sets(policy, RememberedAnswers(m.model), m.pool, m.cases, settings=settings)
    )
    return policy


def fwe_ike(m: Material) -> InContextEditor[RankAndCut]:
    """An ensemble of similarity and the paper's two forms, weighted by S at k = 4; the best k of SIZES, held out."""

    def make() -> InContextEditor[RankAndCut]:
        rankers = (Similarity(), paper(m).selector.ranker, paper(m, "cross").selector.ranker)
        asked = m.answers

        def score(ranker: Ranker, k: int, cases: Sequence[EditCase]) -> float:
            return score_of(tested(asked, [ike(m, "", ranker, Fraction(1.0, k))], cases).rates(0))

        ensemble = fitness_weighted(
            rankers, [score(ranker, 4, m.cases[: len(m.held_out)]) for ranker in rankers]
        )
        k = max(SIZES, key=lambda k: score(ensemble, k, m.held_out))
        weights = ", ".join(f"{w:.2f}" for w in ensemble.weights)
        print(f"  FWE-IKE: weights {weights}, k = {k}", file=sys.stderr)
        return ike(m, "FWE-IKE", ensemble, Fraction(1.0, k))

    made: InContextEditor[RankAndCut] = m.once("FWE-IKE", make)
    return made


@dataclass(frozen=True)
class Chosen:
    """An editor by a function from an edit's demonstrations and queries to what each query is shown; one edit only."""

    name: str
    pool: Pool
    choose: Callable[[DemonstrationSet, Sequence[str]], Sequence[Sequence[Demonstration]]]

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query."""
        [candidates] = self.pool.candidates(edits)
        chosen = zip(queries, self.choose(candidates, queries), strict=True)
        return [STYLE.write(edits, shown, [query])[0] for query, shown in chosen]


def same_sizes(policy: SubsetPolicy, m: Material) -> Chosen:
    """As many demonstrations of each role as the policy shows, the nearest to the edit."""

    def choose(
        candidates: DemonstrationSet, queries: Sequence[str]
    ) -> list[Sequence[Demonstration]]:
        counts = [
            Counter(d.role for d in shown)
            for shown in (chosen.shown for chosen in policy.select(candidates, queries))
        ]
        return [
            RoleCounts(*(count[role] for role in (Role.COPY, Role.UPDATE, Role.RETAIN))).nearest(
                candidates
            )
            for count in counts
        ]

    return Chosen("same sizes", m.pool, choose)


def top(policy: SubsetPolicy, k: int, m: Material) -> Chosen:
    """The k demonstrations with the highest scores for each query."""

    def choose(
        candidates: DemonstrationSet, queries: Sequence[str]
    ) -> list[Sequence[Demonstration]]:
        with torch.no_grad():
            z = policy.scores(candidates, policy.features(candidates, queries))[:, :-1]
        best = z.argsort(dim=1, descending=True, stable=True)[:, :k].tolist()
        chosen = [policy.with_set(candidates, tuple(row)) for row in best]
        return chosen if policy.reads_query else chosen * len(queries)

    return Chosen("top", m.pool, choose)


def fixed(m: Material, mix: RoleCounts) -> Chosen:
    """One mix for every query."""
    return Chosen(
        "fixed", m.pool, lambda candidates, queries: [mix.nearest(candidates)] * len(queries)
    )


def nearest_to_query(k: int, m: Material) -> Chosen:
    """All copies and updates, and the k retains whose query is nearest to the query asked."""

    def choose(
        candidates: DemonstrationSet, queries: Sequence[str]
    ) -> list[Sequence[Demonstration]]:
        retains = candidates.retains
        vectors = unit(
            np.asarray(m.encoder.encode([*queries, *(d.query for d in retains)]), dtype=np.float64)
        )
        cosines = vectors[: len(queries)] @ vectors[len(queries) :].T
        return [
            (*candidates.fixed, *(retains[i] for i in np.argsort(-row, kind="stable")[:k]))
            for row in cosines
        ]

    return Chosen("nearest to the query", m.pool, choose)


def policies(draw: Draw, roles: Sequence[Role], price: float = PRICE) -> dict[str, Row]:
    """The rows of a policy over sets and of its control."""
    name = title(draw, roles, price)
    return {
        name: lambda m: (InContextEditor(name, m.pool, drawn(m, draw, roles, price)), name),
        f"{SAME}{name}": lambda m: (same_sizes(drawn(m, draw, roles, price), m), None),
    }


ROWS: dict[str, Row] = {
    ALL: lambda m: (ike(m, "", Similarity(), Fraction(1.0)), None),
    "IKE-All, ordered by the paper's policy": lambda m: (ike(m, "", paper(m).selector.ranker, Fraction(1.0)), None),
    PAPER: lambda m: (paper(m), "paper, dot"),
    NEAREST: lambda m: (ike(m, "", Similarity(), Fraction(1.0, 4)), None),
    PER_QUERY: lambda m: (InContextEditor("", m.pool, mixed(m)), PER_QUERY),
    "FWE-IKE": lambda m: (fwe_ike(m), "FWE-IKE"),
    "MO-IKE, as published": lambda m: (
        InContextEditor("", m.pool, mo_ike_of(m, as_released=False)), "MO-IKE, as published",
    ),
    "MO-IKE, as released": lambda m: (
        InContextEditor("", m.pool, mo_ike_of(m, as_released=True)), "MO-IKE, as released",
    ),
    **policies(Bernoulli(), RETAINS),
    **policies(PlackettLuce(), RETAINS),
    **policies(Bernoulli(), ROLES),
    **policies(PlackettLuce(), ROLES),
    **policies(Bernoulli(), ROLES, SHORT),
    "IKE-All, ordered by Plackett-Luce": lambda m: (top(drawn(m, PlackettLuce(), RETAINS), 16, m), None),
    "top 4 of Bernoulli": lambda m: (top(drawn(m, Bernoulli(), RETAINS), 4, m), None),
    "top 4 of Plackett-Luce": lambda m: (top(drawn(m, PlackettLuce(), RETAINS), 4, m), None),
    "top 4 by nearness to the query": lambda m: (nearest_to_query(4, m), None),
}  # fmt: skip
PAIRS = (
    *((name.removeprefix(SAME), name) for name in ROWS if name.startswith(SAME)),
    ("top 4 of Bernoulli", NEAREST),
    ("top 4 of Plackett-Luce", NEAREST),
    ("top 4 by nearness to the query", NEAREST),
    ("FWE-IKE", NEAREST),
    ("MO-IKE, as published", ALL),
    ("MO-IKE, as released", ALL),
    ("Bernoulli, all roles", PER_QUERY),
    ("Plackett-Luce, all roles", PER_QUERY),
)


NOTE = (
    "same sizes: as many demonstrations of each role as the row above, but the nearest. prompt tokens: share of "
    "the first row's. closed: share of the gap between the paper's rule and the ceiling. Brackets: 95 % bootstrap "
    "intervals over edits."
)


@dataclass(frozen=True)
class Tested:
    """Right answers and prompt tokens of every probe under every editor, [probes, editors]; whose probe it is."""

    right: NDArray[np.float64]
    tokens: NDArray[np.float64]
    case: NDArray[np.int64]
    aspect: NDArray[np.str_]
    cases: tuple[str, ...]

    def rates(self, editor: int | Sequence[int]) -> Rates:
        """Of an editor, or of the best of several for each probe."""
        right = (
            self.right[:, editor]
            if isinstance(editor, int)
            else self.right[:, [*editor]].max(axis=1)
        )
        found = np.zeros((self.case.max() + 1, 3, 2))
        for j, aspect in enumerate(ASPECTS_OF_S):
            mask = self.aspect == aspect
            np.add.at(found[:, j, 0], self.case[mask], right[mask])
            np.add.at(found[:, j, 1], self.case[mask], 1)
        return found


def tested(
    answers: RememberedAnswers, editors: Sequence[Editor], cases: Sequence[EditCase]
) -> Tested:
    """Every probe under every editor, all prompts of a case in one call."""
    right, tokens = [], []
    for case in cases:
        queries = [probe.query for probe in case.probes]
        prompts = [editor.prompts(case.edits, queries) for editor in editors]
        questions = [
            Question(prompt, p.target)
            for row in prompts
            for prompt, p in zip(row, case.probes, strict=True)
        ]
        verdicts, shape = answers.ask(questions), (len(editors), len(queries))
        right.append(np.array([float(one.correct) for one in verdicts]).reshape(shape).T)
        tokens.append(
            np.array([one.prompt_tokens or np.nan for one in verdicts], dtype=float)
            .reshape(shape)
            .T
        )
    whose = np.array([i for i, case in enumerate(cases) for _ in case.probes])
    aspects = np.array([probe.aspect for case in cases for probe in case.probes])
    return Tested(
        np.concatenate(right),
        np.concatenate(tokens),
        whose,
        aspects,
        tuple(case.case_id for case in cases),
    )


def score_of(rates: Rates) -> float:
    """S: the harmonic mean of the three aspects."""
    return float(harmonic_mean(means_of(rates.sum(axis=0))))


def means_of(sums: Rates) -> Rates:
    """The mean of each aspect, [..., 3, 2] to [..., 3]."""
    return np.maximum(sums[..., 0] / sums[..., 1], 1e-9)


def report(
    found: dict[str, list[tuple[Rates, float]]],
    costs: dict[str, list[int]],
    cases: Sequence[Sequence[str]],
) -> None:
    """Print a table of the rows, and one of paired differences; cases: the ids of every seed's edits."""
    drawn = {
        name: harmonic_mean(
            means_of(
                resampled_by_edit([(ids, r) for ids, (r, _) in zip(cases, seeds, strict=True)])
            )
        )
        for name, seeds in found.items()
    }
    drawn = {name: of_seeds.mean(axis=-1) for name, of_seeds in drawn.items()}
    scores = {
        name: float(np.mean([score_of(rates) for rates, _ in seeds]))
        for name, seeds in found.items()
    }
    rows = []
    for name, seeds in found.items():
        low, high = np.quantile(drawn[name], [0.025, 0.975])
        aspects = (
            f"{m:.3f}" for m in np.mean([means_of(rates.sum(axis=0)) for rates, _ in seeds], axis=0)
        )
        share = np.mean([tokens for _, tokens in seeds]) / np.mean(
            [tokens for _, tokens in found[ALL]]
        )
        tokens = "n/a" if np.isnan(share) else f"{share:.2f}"
        gap = scores[CEILING] - scores[PAPER] if PAPER in scores else np.nan
        closed = "" if np.isnan(gap) else f"{(scores[name] - scores[PAPER]) / gap:.0%}"
        cost = f"{np.mean(costs[name]):,.0f}" if name in costs else ""
        rows.append(
            (name, f"{scores[name]:.3f} [{low:.3f}, {high:.3f}]", *aspects, tokens, closed, cost)
        )
    header = ("row", "S", "ESR", "PC", "RR", "prompt tokens", "closed", "training tokens")
    edits = len({edit for ids in cases for edit in ids})
    pages.draw(f"{len(cases)} seed(s), {edits} test edits", header, rows, NOTE)
    rows = []
    for ours, theirs in PAIRS:
        if ours in drawn and theirs in drawn:
            low, high = np.quantile(drawn[ours] - drawn[theirs], [0.025, 0.975])
            rows.append(
                (ours, theirs, f"{scores[ours] - scores[theirs]:+.3f} [{low:+.3f}, {high:+.3f}]")
            )
    pages.draw("Paired differences on the same edits", ("row", "minus", "S"), rows, wide=True)


def draw_curves(episodes: dict[str, list[SetEpisode]], edits: int) -> None:
    """Print what the sets drawn in training earned, epoch by epoch: right answers by aspect, and their mean size."""
    epochs = max(map(len, episodes.values())) // edits
    shown = sorted({*range(0, epochs, -(-epochs // 8)), epochs - 1})
    rows = []
    for name, of_row in episodes.items():
        of_epochs = [of_row[i : i + edits] for i in range(0, len(of_row), edits)]
        for what, value in (
            *((str(aspect), lambda e, a=aspect: e.means.get(a, np.nan)) for aspect in ASPECTS_OF_S),
            ("shown", lambda e: e.shots),
        ):
            rows.append(
                (
                    name,
                    what,
                    *(
                        f"{np.nanmean([value(e) for e in epoch]):.3f}"
                        for epoch in (of_epochs[i] for i in shown)
                    ),
                )
            )
    header = ("row, seed 0", "mean of draws", *(f"epoch {i + 1}" for i in shown))
    pages.draw("Training, epoch by epoch", header, rows)


def trimmed(case: EditCase, neighbours: int) -> EditCase:
    """A case with its first neighbours only."""
    others = (probe for probe in case.probes if probe.aspect is not Aspect.NEIGHBORHOOD)
    return replace(case, probes=(*others, *case.neighborhood[:neighbours]))


def main() -> None:
    """Print the tables after every seed."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--model", default="embedded", help="model to ask")
    parser.add_argument("--edits", type=int, default=300, help="training edits of a seed")
    parser.add_argument(
        "--neighbours",
        type=int,
        default=9,
        help="most neighbours of a training edit that are asked",
    )
    parser.add_argument("--epochs", type=int, default=2, help="epochs of training on sets")
    parser.add_argument(
        "--rate", type=float, default=SetTraining.learning_rate, help="Adam's learning rate on sets"
    )
    parser.add_argument(
        "--only", action="append", default=[], help="train and test this row; repeatable"
    )
    parser.add_argument("--curves", action="store_true", help="also training epoch by epoch")
    parser.add_argument(
        "--validation", action="store_true", help="test on held-out edits instead of test edits"
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset, model, encoder = datasets.load("tinyfacts"), load_model(options.model), load_encoder()
    found: dict[str, list[tuple[Rates, float]]] = {}
    costs: dict[str, list[int]] = {}
    cases_of: list[tuple[str, ...]] = []
    curves: dict[str, list[SetEpisode]] = {}
    chosen = {
        name: row for name, row in ROWS.items() if not options.only or name in (ALL, *options.only)
    }
    for seed in range(options.seeds):
        parts = dataset.split(seed=seed, validation=59)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        cases = tuple(trimmed(case, options.neighbours) for case in parts.train[: options.edits])
        settings = SetTraining(options.epochs, learning_rate=options.rate, seed=seed)
        m = Material(
            seed,
            model,
            encoder,
            pool,
            cases,
            parts.validation[:30],
            settings,
            RememberedAnswers(model),
        )
        made = {name: row(m) for name, row in chosen.items()}
        mixes = mixes_of(pool.roles)
        nearest = [fixed(m, mix) for mix in mixes if shows_all_fixed(mix, pool)]
        editors = [*(editor for editor, _ in made.values()), *nearest]
        result = tested(m.answers, editors, parts.validation if options.validation else parts.test)
        for i, (name, (_, training)) in enumerate(made.items()):
            found.setdefault(name, []).append((result.rates(i), float(result.tokens[:, i].sum())))
            if training is not None:
                costs.setdefault(name, []).append(m.made[training][1])
        found.setdefault(CEILING, []).append((result.rates(range(len(made), len(editors))), np.nan))
        cases_of.append(result.cases)
        curves = curves or m.episodes
        print(f"seed {seed}", file=sys.stderr, flush=True)
    report(found, costs, cases_of)
    if options.curves:
        draw_curves(curves, options.edits)


if __name__ == "__main__":
    main()
