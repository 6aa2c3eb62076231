"""Compare DR-IKE with its ablation and with IKE on the embedded model and several seeds.

Each seed draws its own split (300 training and 100 test edits; the rest are for validation), trains both forms of
S_theta for 5 epochs of Algorithm 1, and evaluates on the test edits. The tables
hold training epoch by epoch, the choice of S_theta on the validation edits, the results, paired differences over all
seeds and, with --switches, the effect of single switches of the method. Rank-All and Rank-50 % use the head that was
trained under DR-IKE's threshold; with --own-head Rank-50 % is also shown with a head trained under its own budget, all
8 prefixes tried (dot only).

    python benchmarks/results.py [--seeds 3] [--model embedded] [--switches] [--own-head]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from drike import tinyfacts
from drike.edits.edit import EditCase
from drike.encoders import load_encoder
from drike.models import load
from drike.models.protocols import LanguageModel
from drike.prompts import PromptStyle
from drike.research import datasets
from drike.research.datasets.dataset import TEST, TRAIN, Split
from drike.research.editors.budgets import Budget, Flip, Fraction, Threshold
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import FORMS, Form, Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.metrics import Outcome, counted, summarise
from drike.research.report.tables import COLUMNS, STARRED, costs, differences, table1
from drike.research.training.algorithm1 import Episode, rewrite_reward, top, train
from drike.support.table import Table, as_markdown
from lib import pages
from lib.draws import renormalised, sampled, stopped_at_flip

TITLE = "DR-IKE against IKE and its ablation"

EPOCHS = 5
OF_EPOCHS = (
    "ESR: with the prompt the budget selects, which for the threshold is the longest one evaluated. reward: mean over "
    "all prefixes evaluated. sigma: at the end of the epoch."
)
VARIANTS = (
    "DR-IKE",
    "DR-IKE, flip=algorithm1",
    "DR-IKE, selection=sample",
    "DR-IKE, renormalise",
    "DR-IKE, stop_on_flip",
)
OWN_HEAD = "Rank-50% (dot, own head)"


@dataclass(frozen=True)
class Trained:
    """A policy after training, with its episodes."""

    retriever: Retriever
    budget: Budget
    episodes: tuple[Episode, ...]


def trained(
    model: LanguageModel, parts: Split, pool: Pool, *, form: Form, seed: int, variant: str
) -> Trained:
    """Train a fresh head by Algorithm 1."""
    flip: Flip = "algorithm1" if "flip=" in variant else "offender"
    budget = Fraction(0.5) if variant == OWN_HEAD else Threshold(flip=flip)
    choose = (
        sampled(random.Random(seed))
        if "sample" in variant
        else renormalised(top)
        if "renorm" in variant
        else top
    )
    retriever = Retriever(pool.encoder, form=form, seed=seed)
    reward = (stopped_at_flip if "stop_on_flip" in variant else rewrite_reward)(model)
    editor = InContextEditor(variant, pool, RankAndCut(retriever, budget))
    episodes = tuple(train(editor, reward, parts.train, epochs=EPOCHS, choose=choose))
    print(
        f"  {variant}, {form}, seed {seed}: k {episodes[-1].k}, {episodes[-1].budget}",
        file=sys.stderr,
        flush=True,
    )
    return Trained(retriever, episodes[-1].budget, episodes)


def draw_epochs(by_run: dict[str, Sequence[Episode]]) -> None:
    """Print ESR at the budget's cut, mean reward, mean k, and sigma at the end of every epoch."""
    rows = []
    for name, episodes in by_run.items():
        cells = []
        for epoch in range(1, EPOCHS + 1):
            these = [episode for episode in episodes if episode.epoch == epoch]
            esr = fmean(episode.success for episode in these)
            reward = fmean(fmean(episode.rewards) for episode in these)
            sigma = these[-1].budget.sigma if isinstance(these[-1].budget, Threshold) else 0.0
            cells.append(
                f"ESR {esr:.2f}, reward {reward:+.2f}, k {fmean(e.k for e in these):.2f}, sigma {sigma:.3f}"
            )
        rows.append((name, *cells))
    header = ("run", *(f"epoch {epoch}" for epoch in range(1, EPOCHS + 1)))
    pages.draw("Training, epoch by epoch", header, rows, OF_EPOCHS, wide=True)


def minus(outcomes: Mapping[str, Sequence[Outcome]], base: str, names: Iterable[str]) -> Table:
    """Paired differences of editors from one of them, a row each."""
    counts = {name: counted(outcomes[name]) for name in (base, *names)}
    rows = tuple((name, *differences(counts[name], counts[base])) for name in names)
    return Table(f"Minus {base}, paired", ("", *COLUMNS), rows, (STARRED,))


def measured(editor: Editor, model: LanguageModel, cases: Sequence[EditCase]) -> list[Outcome]:
    """Return the outcomes of one seed. An edit tested by several seeds is one case, resampled as a whole."""
    model.forget()  # so that the seconds count this editor only
    return list(evaluate(editor, model, cases))


def main() -> None:
    """Print the tables as Markdown; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--model", default="embedded", help="model to edit")
    parser.add_argument(
        "--switches",
        action="store_true",
        help="also train with each switch of the method changed alone",
    )
    parser.add_argument(
        "--own-head", action="store_true", help="also Rank-50%% with a head of its own; dot only"
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    dataset = datasets.load(datasets.TINYFACTS)
    model, encoder = load(options.model), load_encoder()
    spare = tinyfacts.EDITABLE - TRAIN - TEST
    outcomes: dict[str, list[Outcome]] = {}
    validation: dict[str, list[Outcome]] = {}
    epochs: dict[str, Sequence[Episode]] = {}
    for seed in range(options.seeds):
        parts = dataset.split(train=TRAIN, test=TEST, validation=spare, seed=seed)
        pool = Pool(parts.demonstrations, encoder, seed=seed)
        editors: list[Editor] = [
            Unedited(),
            InContextEditor(
                "IKE", pool, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike")
            ),
        ]
        for form in FORMS[: 1 if options.own_head else None]:
            policy = trained(model, parts, pool, form=form, seed=seed, variant="DR-IKE")
            epochs[f"{form}, seed {seed}"] = policy.episodes
            of_form = [
                InContextEditor(
                    f"Rank-All ({form})", pool, RankAndCut(policy.retriever, Fraction(1.0))
                ),
                InContextEditor(
                    f"Rank-50% ({form})", pool, RankAndCut(policy.retriever, Fraction(0.5))
                ),
                InContextEditor(
                    f"DR-IKE ({form})", pool, RankAndCut(policy.retriever, policy.budget)
                ),
            ]
            editors += of_form
            validation.setdefault(form, []).extend(measured(of_form[-1], model, parts.validation))
        for variant in VARIANTS[1:] if options.switches else ():
            policy = trained(model, parts, pool, form=FORMS[0], seed=seed, variant=variant)
            epochs[f"{variant}, seed {seed}"] = policy.episodes
            editors.append(
                InContextEditor(variant, pool, RankAndCut(policy.retriever, policy.budget))
            )
        if options.own_head:
            policy = trained(model, parts, pool, form=FORMS[0], seed=seed, variant=OWN_HEAD)
            epochs[f"{OWN_HEAD}, seed {seed}"] = policy.episodes
            editors.append(
                InContextEditor(OWN_HEAD, pool, RankAndCut(policy.retriever, policy.budget))
            )
        for editor in editors:
            outcomes.setdefault(editor.name, []).extend(measured(editor, model, parts.test))
            print(f"  evaluated {editor.name}, seed {seed}", file=sys.stderr, flush=True)
    unedited = outcomes["Unedited"]
    summaries = [summarise(of_editor, unedited) for of_editor in outcomes.values()]
    title = f"{options.seeds} seeds x {TEST} test edits of TinyFacts, model {options.model}"
    draw_epochs(epochs)
    chosen = [summarise(of_form) for of_form in validation.values()]
    print(as_markdown(table1(chosen, f"S_theta on {spare} validation edits per seed")))
    print(as_markdown(table1(summaries, title)))
    print(as_markdown(costs(summaries)))
    print(
        as_markdown(
            minus(outcomes, "IKE", [name for name in outcomes if name not in ("Unedited", "IKE")])
        )
    )
    if options.own_head:
        print(as_markdown(minus(outcomes, "Rank-50% (dot)", [OWN_HEAD])))


if __name__ == "__main__":
    main()
