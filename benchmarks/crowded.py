"""The gate's heads for named subjects, fitted to what firms are asked.

    python benchmarks/crowded.py                                # leave-one-firm-out figures, beside simple rules
    python benchmarks/crowded.py --fit src/drike/gates/gate.json      # fit the heads that drike ships

Of a subject with three active edits or more, a question may well be about another of its facts. `Calibrated.crowded`
judges these by the features of the head for named subjects, with weights of its own. It is fitted to the firms to
develop on of five sets in `questions`, each question as `firms.py` asks it, and to public questions about edits of the
first halves of HalluEditBench and PokeMQA (`gate.py`) whose subjects have as many, around the weights of the head for
named subjects. That head keeps its weights, and gets those of the attributes of firms and products (`ATTRIBUTES`) from
the same sets, where subjects have fewer facts.

Every figure is of firms that the heads in question were not fitted to: each firm is asked under heads that are fitted
to all other firms. The head *as for few* is the one for named subjects without attributes, some of whose weights were
fitted to the firms of `firms.csv` themselves, so its figures there flatter. The simple rules are fitted like the heads,
firm by firm: *nearest* is the nearest fact of the subject above a cosine, *scaled* is the head for few with another
slope and bias, and *no attributes* is refitted without them.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

import firms
import gate as gate_data
from drike.encoders import FloatArray, TextEncoder, load_encoder
from drike.gates.aspects import MANY
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.calibration import LabelledCandidate, default_gate, fit, to_json
from drike.gates.comparison import ANOTHER, CROWDED, Features
from drike.gates.decision import EQUAL
from drike.research.evaluation.bootstrap import estimated, resampled
from drike.support.table import Cell
from lib import pages
from questions import METRICS

TITLE = "The gate's head for subjects with many facts"
SETS = ("firms", "firms_direct", "firms_further", "firms_asked", "firms_talk")
KINDS = (
    "direct",
    "near",
    "qualifier",
    "typed",
    "bot",
    "word",
    "time",
    "wrapper",
    "other",
    "reversed",
)
ATTRIBUTES = ("agrees", "sole", "differs", "covered")  # features of `drike.gates.aspects`
PRIOR = 0.2  # how strongly the weights are drawn to those for named subjects
NAMED_BIAS = 1.033  # of the head for named subjects, before it had weights of attributes
OF_OBJECTS = ("object", "closed", "others", "subject")  # a crowded subject is named
PUBLIC_QUESTIONS = 250  # of each kind of a data set
PUBLIC_SHARE = 0.5  # what public examples count for
CAUTION = 1.3  # what an example of a firm counts for that no fact concerns
EAGER = 0.15  # what the bias of the head for few gets besides: as many paraphrases of public edits are found as before
KEPT, NEW = (
    20.0,
    1.0,
)  # how strongly the head for few is drawn to its weights, and to none for attributes
STEEP = 200.0  # slope of a rule that says yes or no
COSINES = np.arange(0.3, 0.9, 0.025)
NOTE = (
    "Brackets: 95 % interval by bootstrap over firms. Differences are paired, to the head for few."
)


@dataclass(frozen=True)
class Asked:
    """A question of a firm in force, and the candidates by which the head is fitted."""

    question: firms.FirmQuestion
    stored: firms.NamedIndex
    examples: Sequence[LabelledCandidate]


Examples = Sequence[LabelledCandidate]
Rule = Callable[[Calibrated, Examples], Calibrated]


def read_asked(name: str, encoder: TextEncoder, gate: Calibrated) -> list[Asked]:
    """The questions of the firms to develop on of a set."""
    asked = []
    for firm in firms.read_firms(firms.DEVELOPMENT, firms.SETS / f"{name}.csv").values():
        stored = firms.NamedIndex.of(firm.facts, encoder)
        for question in firm.questions:
            if question.kind in KINDS:
                asked.append(Asked(question, stored, examples(question, stored, gate)))
    return asked


def examples(
    question: firms.FirmQuestion, stored: firms.NamedIndex, gate: Calibrated
) -> list[LabelledCandidate]:
    """The candidates whose subject is named, but for those that are decided without a probability."""
    decision = stored.decision(question, gate)
    found = []
    for candidate in decision.candidates if decision else ():
        features = candidate.features
        name = stored.names[candidate.edit.id]
        is_wanted = name in question.wanted
        if is_judged(features) and (is_wanted or name not in question.allowed):
            weight = 1.0 if is_wanted else CAUTION
            found.append(LabelledCandidate(features, is_wanted, candidate.edit.id, weight))
    return found


def public_examples(folder: Path, encoder: TextEncoder) -> list[LabelledCandidate]:
    """Public questions about edits of first halves, which ask in other ways than customers.

    As many are about subjects with many edits as about others.
    """
    rng = random.Random(0)
    found = []
    for data in (gate_data.halluedit(folder), gate_data.pokemqa(folder)):
        edits_by_subject = Counter(entry.subject for entry in data.entries)
        for kind, has_many in product(gate_data.QUESTIONS, (True, False)):
            asked = [
                one
                for one in data.of_half(0, kind)
                if (edits_by_subject[data.entries[one.place].subject] >= MANY) is has_many
            ]
            asked = rng.sample(asked, min(PUBLIC_QUESTIONS, len(asked)))
            if asked:
                candidates = gate_data.material(data, asked, encoder)
                found += [one for one in candidates if is_judged(one.features)]
    return gate_data.weighted(found, PUBLIC_SHARE)


def is_judged(features: Features) -> bool:
    """Whether a candidate is judged by a head for named subjects."""
    return "masked" in features and not features.get(ANOTHER) and EQUAL not in features


def of_many(found: Examples) -> Examples:
    """The examples of subjects with many edits."""
    return [example for example in found if CROWDED in example.features]


def without_attributes(gate: Calibrated) -> Calibrated:
    """The gate that these heads are fitted around."""
    weights = {
        name: weight for name, weight in gate.named.weights.items() if name not in ATTRIBUTES
    }
    return replace(gate, named=LogisticHead(weights, NAMED_BIAS), crowded=None)


def crowded(
    gate: Calibrated, found: Examples, attributes: Sequence[str] = ATTRIBUTES
) -> Calibrated:
    """The gate with a head for subjects with many facts, fitted around the one for named subjects."""
    weights = {
        name: weight for name, weight in gate.named.weights.items() if name not in OF_OBJECTS
    }
    prior = LogisticHead({**weights, **dict.fromkeys(attributes, 0.0)}, gate.named.bias)
    return replace(gate, crowded=rounded(fit(of_many(found), prior, PRIOR)))


def fitted(gate: Calibrated, found: Examples) -> Calibrated:
    """The gate with both heads: the one for few facts gets weights of attributes."""
    few = [example for example in found if CROWDED not in example.features]
    prior = LogisticHead({**gate.named.weights, **dict.fromkeys(ATTRIBUTES, 0.0)}, gate.named.bias)
    strengths = [NEW if name in ATTRIBUTES else KEPT for name in prior.weights]
    head = fit(few, prior, np.array([*strengths, KEPT]))
    weights = {**head.weights, **gate.named.weights}
    named = rounded(LogisticHead(weights, head.bias + EAGER))
    return replace(crowded(gate, found), named=named)


def rounded(head: LogisticHead) -> LogisticHead:
    """The head as it is shipped."""
    weights = {name: round(weight, 3) for name, weight in head.weights.items()}
    return LogisticHead(weights, round(head.bias, 3))


def scaled(gate: Calibrated, found: Examples) -> Calibrated:
    """The gate whose head for named subjects gets another slope and bias."""
    scored = [
        replace(example, features={"logit": gate.named.logit(example.features)})
        for example in of_many(found)
    ]
    head = fit(scored, LogisticHead({"logit": 1.0}, 0.0), PRIOR)
    slope = head.weights["logit"]
    weights = {name: slope * weight for name, weight in gate.named.weights.items()}
    return replace(gate, crowded=LogisticHead(weights, slope * gate.named.bias + head.bias))


def nearest(gate: Calibrated, found: Examples) -> Calibrated:
    """The gate that takes the nearest fact of a subject above the cosine that errs least."""
    found = of_many(found)
    nearness = np.array([e.features["masked"] if not e.features["margin"] else 0.0 for e in found])
    concerns = np.array([example.concerns for example in found])
    errors = [np.sum((nearness >= cosine) != concerns) for cosine in COSINES]
    least = float(COSINES[int(np.argmin(errors))])
    weights = {"margin": 100 * STEEP, "masked": STEEP}
    return replace(gate, crowded=LogisticHead(weights, -STEEP * least))


RULES: Mapping[str, Rule] = {
    "as for few": lambda gate, _: replace(gate, crowded=None),
    "nearest": nearest,
    "scaled": scaled,
    "no attributes": lambda gate, found: crowded(gate, found, ()),
    "refitted": fitted,
}


def counts(asked: Sequence[Asked], others: Examples, gate: Calibrated) -> FloatArray:
    """For each of RULES hits and cases of each of METRICS, (rules, 4, 2), of a firm. others: examples to fit to."""
    by_rule = []
    for rule in RULES.values():
        fitted = rule(gate, others)
        hits = [
            firms.counted(one.question, one.stored.applied(one.question, fitted)) for one in asked
        ]
        by_rule.append(np.sum(hits, axis=0))
    return np.array(by_rule)


def measure(folder: Path, encoder: TextEncoder) -> None:
    """Print a table for each set."""
    gate = without_attributes(default_gate())
    asked_by_set = {name: read_asked(name, encoder, gate) for name in SETS}
    every = [one for asked in asked_by_set.values() for one in asked]
    public = public_examples(folder, encoder)
    for name, asked in asked_by_set.items():
        by_firm = []
        for firm in dict.fromkeys(one.question.firm for one in asked):
            own = [one for one in asked if one.question.firm == firm]
            others = [
                example for one in every if one.question.firm != firm for example in one.examples
            ]
            by_firm.append(counts(own, [*others, *public], gate))
        draw(name, np.array(by_firm), len(asked))


def draw(name: str, by_firm: FloatArray, questions: int) -> None:
    """Print the rates of each rule, and its differences to the first. by_firm: (firms, rules, 4, 2)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        whole, drawn = (
            sums[..., 0] / sums[..., 1] for sums in (by_firm.sum(axis=0), resampled(by_firm))
        )
    rows: list[list[Cell]] = []
    for place, rule in enumerate(RULES):
        shown = estimated(whole[place], drawn[:, place], len(by_firm))
        differences = estimated(whole[place] - whole[0], drawn[:, place] - drawn[:, 0])
        rows.append([rule, *shown, *([differences[0], differences[3]] if place else ["", ""])])
    header = ("head", *METRICS, "present, difference", "needless, difference")
    title = f"`{name}`: {len(by_firm)} firms to develop on, {questions} questions of kinds {', '.join(KINDS)}"
    pages.draw(title, header, rows, NOTE)


def main() -> None:
    """Print the tables as Markdown, or fit the head."""
    parser = pages.parser(__doc__)
    parser.add_argument("--fit", type=Path, metavar="FILE", help="write the gate with these heads")
    parser.add_argument(
        "--data", type=Path, default=gate_data.DATA, help="folder of the public files"
    )
    pages.add_cache(parser)
    options = parser.parse_args()
    encoder = load_encoder(features=options.cache)
    if options.fit:
        gate = without_attributes(default_gate())
        asked = [one for name in SETS for one in read_asked(name, encoder, gate)]
        found = [example for one in asked for example in one.examples]
        found += public_examples(options.data, encoder)
        options.fit.write_text(to_json(fitted(gate, found)))
        written = json.loads(options.fit.read_text())
        print(json.dumps([written["named"], written["crowded"]], indent=1))
        return
    with pages.measured(options, TITLE, __doc__):
        measure(options.data, encoder)


if __name__ == "__main__":
    main()
