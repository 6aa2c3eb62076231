"""Run the paper's other studies on the embedded model and several seeds.

    ablation       IKE-All, Rank-All, Rank-50%, DR-IKE (Table 2)
    orders         the same retains in other orders; all demonstrations shuffled (appendix, sensitivity)
    rewards        training with late and noisy rewards (Table 7)
    efficiency     an epoch of training with and without the budget (section 5.3)
    budget         how many retains DR-IKE keeps per edit (figures 4 and 5)
    sweep          DR-IKE at fixed sigmas: S against prompt tokens

Every seed draws its own split and initial weights. Differences are paired over edits; an edit tested by several seeds
is one case. Each difference is shown beside what the paper reports (up, down, or the same: a difference within .05)
and whether ours agrees, does not, or is within noise. Prints Markdown; progress goes to standard error.

    python benchmarks/studies.py [--seeds 3] [--edits 300] [--test 200] [--epochs 5] [--model embedded]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from drike import tinyfacts
from drike.edits.edit import EditCase
from drike.encoders import load_encoder
from drike.models import load
from drike.models.protocols import LanguageModel
from drike.prompts import OrderName, PromptStyle
from drike.research import datasets
from drike.research.datasets.dataset import Split
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import Outcome, Summary, paired_difference, summarise
from drike.research.report.tables import costs, distribution_of, table1
from drike.research.report.training_tables import by_epoch, epochs_table
from drike.research.training.algorithm1 import Episode, rewrite_reward, train
from drike.support.table import Estimate, Table, as_markdown
from lib import pages
from lib.feedback import disturbed
from lib.variants import agreement_table, distribution_table, frontier_table

TITLE = "The paper's studies"

WITH, WITHOUT = "with the budget", "without (all 16 evaluated)"
CHANNELS = {
    "delay to 10": (10, 0.0),
    "delay to 50": (50, 0.0),
    "noise .1": (0, 0.1),
    "noise .3": (0, 0.3),
}
Direction = Literal["up", "down", "same"]
MARGIN = 0.05  # a change in a share that counts as unchanged
SIGMAS = (0.03, 0.05, 0.06, 0.07, 0.08, 0.1, 0.15, 0.2, 1.0)


@dataclass(frozen=True)
class Claim:
    """A difference that the paper reports: a metric of `ours` minus that of `base`."""

    ours: str
    base: str
    metric: str
    reported: Direction
    says: str


CLAIMS = (
    Claim("Rank-All", "IKE", "ESR", "same", "Table 2: .81 / .76, .84 / .75; the text: comparable"),
    Claim("Rank-All", "IKE", "PC", "same", "Table 2: .69 / .67, .67 / .69"),
    Claim("Rank-All", "IKE", "RR", "same", "Table 2: .76 / .76, .78 / .78"),
    Claim("Rank-50%", "IKE", "ESR", "up", "Table 2: .86 / .76, .84 / .75"),
    Claim("Rank-50%", "IKE", "PC", "up", "Table 2: .71 / .67, .76 / .69"),
    Claim("Rank-50%", "IKE", "RR", "up", "Table 2: .78 / .76, .79 / .78"),
    Claim("DR-IKE", "IKE", "S", "up", "Table 1: .775 / .727, .779 / .738"),
    Claim("DR-IKE", "IKE", "ESR", "up", "Table 2: .89 / .76, .89 / .75"),
    Claim("DR-IKE", "IKE", "PC", "up", "Table 2: .81 / .67, .77 / .69"),
    Claim("DR-IKE", "IKE", "RR", "down", "Table 2: .66 / .76, .70 / .78"),
    Claim(
        "DR-IKE",
        "Rank-50%",
        "S",
        "same",
        "follows from Table 2: .775 / .778, .779 / .795; the text: best balance",
    ),
    Claim("DR-IKE", "Rank-50%", "ESR", "up", "Table 2: .89 / .86, .89 / .84"),
    Claim("DR-IKE", "Rank-50%", "PC", "up", "Table 2: .81 / .71, .77 / .76"),
    Claim("DR-IKE", "Rank-50%", "RR", "down", "Table 2: .66 / .78, .70 / .79"),
)


@dataclass
class Found:
    """Results so far: outcomes by editor, over all seeds."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    episodes: list[dict[str, Sequence[Episode]]] = field(
        default_factory=list
    )  # for every seed, by training

    def summaries(self, names: Iterable[str]) -> list[Summary]:
        """Summarise editors, with RR on what the unedited model knows."""
        return [summarise(self.outcomes[name], self.outcomes["Unedited"]) for name in names]


def sizes(edits: int, test: int) -> tuple[int, int, str]:
    """Return the numbers of training and test edits to use, with a note if they differ from those requested.

    If TinyFacts has too few, the test set shrinks: the policies then keep the paper's training size, and intervals grow
    by only a few percent.
    """
    room = tinyfacts.EDITABLE - edits
    if room < 1:
        raise SystemExit(
            f"TinyFacts has {tinyfacts.EDITABLE} editable rows: ask for fewer --edits than that"
        )
    if test <= room:
        return edits, test, ""
    wider = (test / room) ** 0.5 - 1
    return edits, room, (
        f"{edits} training and {test} test edits were requested, but TinyFacts has {tinyfacts.EDITABLE} editable rows. "
        f"The training size is kept, so that policies are those of our other results, and the remaining {room} are "
        f"tested (intervals are about {wider:.0%} wider than with {test})."
    )  # fmt: skip


def trained(
    model: LanguageModel,
    parts: Split,
    pool: Pool,
    *,
    budget: Budget,
    feedback: tuple[int, float],
    epochs: int,
    seed: int,
) -> tuple[Retriever, list[Episode]]:
    """Train a fresh head by Algorithm 1, with an empty cache."""
    model.forget()  # so that the seconds count this training only
    retriever = Retriever(pool.encoder, seed=seed)
    channel = disturbed(*feedback, episodes=epochs * len(parts.train), seed=seed)
    editor = InContextEditor("DR-IKE", pool, RankAndCut(retriever, budget))
    return retriever, list(
        train(editor, rewrite_reward(model), parts.train, epochs=epochs, channel=channel)
    )


def editors_of(retriever: Retriever, budget: Budget, pool: Pool, seed: int) -> list[Editor]:
    """Make all editors of one policy: unedited, IKE, the ablation, other orders, fixed sigmas."""
    rank_all = InContextEditor("Rank-All", pool, RankAndCut(retriever, Fraction(1.0)))
    rank_50 = replace(rank_all, name="Rank-50%", selector=RankAndCut(retriever, Fraction(0.5)))
    dr_ike = replace(rank_all, name="DR-IKE", selector=RankAndCut(retriever, budget))
    orders: list[OrderName] = ["similarity", "reversed", "shuffled"]
    moved = [
        replace(one, name=f"{one.name} ({order})", style=PromptStyle(order=order, order_seed=seed))
        for one in (rank_all, rank_50, dr_ike)
        for order in orders
    ]
    mixed = [
        replace(one, name=f"{one.name} (roles mixed)", style=PromptStyle("ike"))
        for one in (rank_all, rank_50, dr_ike)
    ]
    swept = [
        replace(
            dr_ike,
            name=f"DR-IKE (sigma {sigma:g})",
            selector=RankAndCut(retriever, Threshold(sigma)),
        )
        for sigma in SIGMAS
    ]
    ike = InContextEditor("IKE", pool, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike"))
    return [Unedited(), ike, rank_all, rank_50, dr_ike, *moved, *mixed, *swept]


def measured(
    editors: Iterable[Editor], model: LanguageModel, cases: Sequence[EditCase], found: Found
) -> None:
    """Evaluate every editor and add its outcomes."""
    for editor in editors:
        model.forget()
        found.outcomes.setdefault(editor.name, []).extend(evaluate(editor, model, cases))


def one_seed(
    model: LanguageModel, parts: Split, pool: Pool, found: Found, *, epochs: int, seed: int
) -> None:
    """Train with and without the budget and with every channel, and evaluate the resulting editors."""
    trainings: dict[str, tuple[Budget, tuple[int, float]]] = {
        WITHOUT: (Fraction(1.0), (0, 0.0)),
        WITH: (Threshold(), (0, 0.0)),
        **{name: (Threshold(), channel) for name, channel in CHANNELS.items()},
    }
    found.episodes.append({})
    for name, (start, feedback) in trainings.items():
        retriever, episodes = trained(
            model, parts, pool, budget=start, feedback=feedback, epochs=epochs, seed=seed
        )
        found.episodes[-1][name] = episodes
        learned = episodes[-1].budget
        print(
            f"  seed {seed}, trained {name}: k {episodes[-1].k}, {learned}",
            file=sys.stderr,
            flush=True,
        )
        if name == WITH:
            measured(editors_of(retriever, learned, pool, seed), model, parts.test, found)
        elif name in CHANNELS:
            measured(
                [InContextEditor(f"DR-IKE, {name}", pool, RankAndCut(retriever, learned))],
                model,
                parts.test,
                found,
            )


def verdict(difference: Estimate, reported: Direction, *, margin: float = MARGIN) -> str:
    """Compare a measured difference with the direction the paper reports: agrees, does not, within noise, or n/a.

    "up", "down": agrees if the interval is on that side of 0, does not if on the other. "same": agrees if the
    interval is within `margin` of 0, does not if it extends further and excludes 0. Otherwise: within noise.
    """
    low, high = difference.low, difference.high
    if low is None or high is None:
        return "n/a"
    if reported == "same":
        if max(abs(low), abs(high)) <= margin:
            return "agrees"
        return "does not" if low > 0 or high < 0 else "within noise"
    if reported == "down":
        low, high = -high, -low
    return "agrees" if low > 0 else "does not" if high < 0 else "within noise"


def claims_table(outcomes: dict[str, list[Outcome]], claims: Iterable[Claim], title: str) -> Table:
    """Tabulate our differences, what the paper reports, and whether they agree."""
    rows = []
    for claim in claims:
        ours = paired_difference(outcomes[claim.ours], outcomes[claim.base], claim.metric)
        what = f"{claim.ours} minus {claim.base}: {claim.metric}"
        rows.append((what, shown(ours), claim.reported, verdict(ours, claim.reported), claim.says))
    header = (
        "difference, paired",
        "ours",
        "the paper",
        "verdict",
        "the paper's figures (Llama, Qwen)",
    )
    return Table(title, header, tuple(rows), wide=True)


def shown(one: Estimate) -> str:
    """Format a difference with its interval."""
    return "n/a" if one.value is None else f"{one.value:+.3f} [{one.low:+.2f}, {one.high:+.2f}]"


@dataclass(frozen=True)
class Cost:
    """The mean cost of a training epoch; prompt_tokens is None if the model does not count them."""

    mean_k: float
    calls: float
    prompt_tokens: float | None
    seconds: float


def cost_of(episodes: Sequence[Episode]) -> Cost:
    """Average over the epochs of one training."""
    epochs = by_epoch(episodes)
    tokens = [epoch.prompt_tokens for epoch in epochs if epoch.prompt_tokens is not None]
    return Cost(
        mean_k=fmean(epoch.mean_k for epoch in epochs),
        calls=fmean(epoch.calls for epoch in epochs),
        prompt_tokens=fmean(tokens) if len(tokens) == len(epochs) else None,
        seconds=fmean(epoch.seconds for epoch in epochs),
    )


def saved(cost: float | None, of: float | None) -> float | None:
    """Return the share of `of` saved at `cost`; None if either is unknown or `of` is 0."""
    return None if cost is None or not of else 1 - cost / of


def efficiency_table(runs: Mapping[str, Sequence[Episode]]) -> Table:
    """Tabulate the mean cost of an epoch of each training and the saving over the first."""
    costs = {name: cost_of(episodes) for name, episodes in runs.items()}
    first = next(iter(costs.values()))
    rows = tuple(
        (
            name,
            f"{cost.mean_k:.2f}",
            f"{cost.calls:,.0f}",
            "n/a" if cost.prompt_tokens is None else f"{cost.prompt_tokens:,.0f}",
            f"{cost.seconds:.1f}",
            percent(saved(cost.prompt_tokens, first.prompt_tokens)),
            percent(saved(cost.seconds, first.seconds)),
        )
        for name, cost in costs.items()
    )
    header = (
        "Training",
        "mean k",
        "calls/epoch",
        "tokens/epoch",
        "s/epoch",
        "tokens saved",
        "s saved",
    )
    notes = (
        "tokens: if every prompt were read by itself. s: as measured, with shared prefixes read once and answers to "
        "repeated prompts cached.",
    )
    return Table("Cost of an epoch of training", header, rows, notes)


def percent(share: float | None) -> str:
    """Format a share as the paper prints it, or n/a."""
    return "n/a" if share is None else f"{100 * share:.1f} %"


def savings(found: Found) -> Table:
    """Tabulate section 5.3's claim, seed by seed: an epoch takes less time with the budget than without."""
    rows = []
    for seed, of_seed in enumerate(found.episodes):
        ours, base = cost_of(of_seed[WITH]), cost_of(of_seed[WITHOUT])
        seconds = saved(ours.seconds, base.seconds)
        agrees = "n/a" if seconds is None else "agrees" if seconds > 0 else "does not"
        tokens = percent(saved(ours.prompt_tokens, base.prompt_tokens))
        rows.append((str(seed), tokens, percent(seconds), "less time", agrees, "29.8 %, 19.5 %"))
    header = (
        "seed",
        "tokens saved",
        "s saved",
        "the paper",
        "verdict",
        "the paper's seconds (Llama, Qwen)",
    )
    return Table("Saved by the budget, per epoch on average", header, tuple(rows), wide=True)


def ablation(found: Found, title: str) -> list[Table]:
    """Table 2 with costs and the direction of each difference."""
    rows = found.summaries(["Unedited", "IKE", "Rank-All", "Rank-50%", "DR-IKE"])
    return [
        table1(rows, title),
        costs(rows),
        claims_table(found.outcomes, CLAIMS, "Against the paper"),
    ]


def orders(found: Found) -> list[Table]:
    """The effect of other orders of the context."""
    moved = [
        (f"{base} ({kind})", base)
        for base in ("Rank-All", "Rank-50%", "DR-IKE")
        for kind in ("similarity", "reversed", "shuffled", "roles mixed")
    ]
    claims = [
        Claim(name, base, "S", "same", "stable in the majority of cases; no figures")
        for name, base in moved
    ]
    return [
        agreement_table(found.outcomes, moved),
        claims_table(found.outcomes, claims, "Against the paper"),
    ]


def rewards(found: Found, title: str) -> list[Table]:
    """Table 7: the effect of late and noisy rewards."""
    esr, none = ".7533 / .7567 (delayed / not)", "no figures"
    claims = [
        Claim(
            f"DR-IKE, {name}",
            "DR-IKE",
            metric,
            "same",
            esr if metric == "ESR" and "delay" in name else none,
        )
        for name in CHANNELS
        for metric in ("ESR", "PC", "RR", "S")
    ]
    return [
        table1(found.summaries(["DR-IKE", *(f"DR-IKE, {name}" for name in CHANNELS)]), title),
        claims_table(found.outcomes, claims, "Against the paper"),
        epochs_table({name: by_epoch(found.episodes[0][name]) for name in (WITH, *CHANNELS)}),
    ]


def efficiency(found: Found) -> list[Table]:
    """Section 5.3: an epoch with and without the budget, seed by seed."""
    of_seeds = [
        efficiency_table({name: of_seed[name] for name in (WITHOUT, WITH)})
        for of_seed in found.episodes
    ]
    return [*of_seeds, savings(found)]


def budget(found: Found) -> list[Table]:
    """Figures 4 and 5: how many retains are kept per edit."""
    ours = distribution_of(found.outcomes["DR-IKE"])
    rows = (
        ("DR-IKE here", f"{ours.mean:.2f}", f"{ours.std:.2f}"),
        ("LLaMA 3.1-8B (the paper)", "3.02", "0.96"),
        ("Qwen 2.5-7B (the paper)", "3.72", "1.15"),
    )
    return [
        Table("Retains per edit", ("", "mean", "std"), rows),
        distribution_table(found.outcomes["DR-IKE"]),
    ]


def sweep(found: Found, title: str) -> list[Table]:
    """DR-IKE at fixed sigmas and other editors: S against prompt tokens."""
    names = [
        "IKE",
        "Rank-All",
        "Rank-50%",
        "DR-IKE",
        *(f"DR-IKE (sigma {sigma:g})" for sigma in SIGMAS),
    ]
    rows = found.summaries(names)
    return [frontier_table(rows), table1(rows, title)]


def as_report(
    found: Found, seeds: int, sizes: tuple[int, int, str], options: argparse.Namespace
) -> str:
    """Write all studies of the finished seeds as Markdown; sizes: training edits, test edits, and a note."""
    edits, test, note = sizes
    title = f"{seeds} seed(s) x {test} test edits of TinyFacts, model {options.model}"
    studies = {
        "Ablation (Table 2)": ablation(found, title),
        "Order of the context (appendix)": orders(found),
        "Delayed and noisy rewards (Table 7)": rewards(found, title),
        "Training with and without the budget (section 5.3)": efficiency(found),
        "How many retains an edit gets (figures 4 and 5)": budget(found),
        "Fixed sigmas": sweep(found, title),
    }
    lines = [
        f"{title}; {edits} training edits, {options.epochs} epochs."
        + (f"\n\n{note}" if note else "")
    ]
    for heading, drawn in studies.items():
        lines += [f"\n### {heading}\n", *(as_markdown(table) for table in drawn)]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the studies as Markdown; with --out, also write them to a file after every seed."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--edits", type=int, default=300, help="number of training edits")
    parser.add_argument("--test", type=int, default=200, help="number of test edits")
    parser.add_argument("--epochs", type=int, default=5, help="training epochs")
    parser.add_argument("--model", default="embedded", help="model to edit")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    edits, test, note = sizes(options.edits, options.test)
    dataset = datasets.load(datasets.TINYFACTS)
    model, encoder, found = load(options.model), load_encoder(), Found()
    for seed in range(options.seeds):
        parts = dataset.split(train=edits, test=test, seed=seed)
        one_seed(
            model,
            parts,
            Pool(parts.demonstrations, encoder, seed=seed),
            found,
            epochs=options.epochs,
            seed=seed,
        )
    print(as_report(found, options.seeds, (edits, test, note), options))


if __name__ == "__main__":
    main()
