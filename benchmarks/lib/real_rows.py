"""Editors as choices among kept answers, and the tables of `benchmarks/real_models.py`: no model is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from drike.edits.edit import ASPECTS_OF_S, Aspect, EditCase
from drike.encoders import TextEncoder
from drike.research.datasets.dataset import Split
from drike.research.editors.query_policy import QueryPolicy
from drike.research.editors.selectors import RoleCounts
from drike.research.evaluation.bootstrap import RESAMPLES, Floats
from drike.research.evaluation.case_answers import CaseAnswers
from drike.research.evaluation.metrics import (
    METRICS,
    RATIOS,
    Counts,
    harmonic_mean,
    paired_differences,
)
from drike.research.evaluation.unedited_answers import Retention
from drike.research.training.s_objective import train_query_policy
from drike.support.table import Cell, Difference, Estimate, Number
from drike.text.words import mentions

from . import pages
from .kept_answers import GREEDY, PREFERS, UNCHANGED, Kept, KeptEdit

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
OWN, NAMED, OTHER = range(3)  # kinds of queries, by their text

DR_IKE_Q, HINDSIGHT = "DR-IKE-Q", "best mix by kind, in hindsight"
RULES = (
    "IKE",
    "by name: copies and updates, else retains",
    "by name: copies and updates, else alone",
    "by name: the fact alone, else alone",
    "by name: FactPrompt, else alone",
    "mixes by kind, chosen in training",
)
# Likelihood S (ES, PS, NS) as published, one edit at a time if nothing else is said.
PUBLISHED = (
    ("ROME", "GPT-2 M / L / XL", ".874 / .882 / .892"),
    ("ROME", "GPT-J (6B)", ".915"),
    ("IKE", "GPT-J (6B)", ".896"),
    ("retrieval prompt, 2,048 edits at once", "GPT-2 XL", ".822"),
    ("MEMIT, 2,048 edits at once", "GPT-2 XL", ".805"),
    ("AlphaEdit, 2,048 edits at once", "GPT-2 XL", ".839"),
    ("AlphaEdit, 2,000 edits at once", "Llama-3-8B", ".848"),
    ("AlphaEdit+NAS, 20,877 edits at once", "Llama-3-8B", ".772"),
)


@dataclass(frozen=True, eq=False)
class Row:
    """What an editor answers to all test probes of all seeds.

    flags: of `kept_answers` [probes]. tokens: of the prompts [probes]. measured: which probes were asked [probes].
    columns: the choice that each probe is shown [probes]; None for an editor that a training leaves.
    """

    name: str
    flags: Ints
    tokens: Ints
    measured: Flags
    columns: Ints | None = None


@dataclass(frozen=True, eq=False)
class Probes:
    """The probes of cases, asked under each choice, flattened in their order.

    case_ids: of each probe. seeds: whose test or training edit it is. aspects: as a place in `ASPECTS_OF_S`. kinds: of
    the queries. flags, tokens: [choices, probes].
    """

    case_ids: tuple[str, ...]
    seeds: Ints
    aspects: Ints
    kinds: Ints
    flags: Ints
    tokens: Ints

    @property
    def known(self) -> Flags:
        """Which neighbours the unedited model answers right; the first choice is without an edit."""
        is_known: Flags = (self.aspects == 2) & (self.flags[0] & GREEDY > 0)
        return is_known

    @property
    def comparable(self) -> Flags:
        """Which neighbours have an own answer of the model to compare with."""
        is_known: Flags = (self.aspects == 2) & (self.flags[0] & UNCHANGED > 0)
        return is_known


@dataclass(frozen=True, eq=False)
class Material:
    """Kept answers, and the splits, the encoder and the mixes that they were asked with."""

    splits: tuple[Split, ...]
    kept: Kept
    encoder: TextEncoder
    mixes: tuple[RoleCounts, ...]

    @property
    def choices(self) -> tuple[str, ...]:
        """The names of what every probe was asked under."""
        return self.kept.asked.choices if self.kept.asked else ()

    def known_cases(self, cases: Sequence[EditCase]) -> list[EditCase]:
        """Those of the cases that were asked."""
        return [case for case in cases if case.case_id in self.kept.edits]

    @cached_property
    def test(self) -> Probes:
        """The test probes of all seeds."""
        return self.probes([(s, split.test) for s, split in enumerate(self.splits)])

    def train(self, seed: int) -> Probes:
        """The training probes of a seed."""
        return self.probes([(seed, self.splits[seed].train)])

    def probes(self, parts: Iterable[tuple[int, Sequence[EditCase]]]) -> Probes:
        """The probes of the cases that were asked."""
        found: list[tuple[str, int, int, int]] = []
        flags: list[tuple[str, ...]] = []
        tokens: list[tuple[int, ...]] = []
        for seed, cases in parts:
            for case in self.known_cases(cases):
                kept = self.kept.edits[case.case_id]
                for probe in case.asked:
                    aspect = ASPECTS_OF_S.index(probe.aspect)
                    found.append((case.case_id, seed, aspect, kind_of(case, probe.query)))
                flags += zip(*kept.flags, strict=True)
                tokens += zip(*kept.tokens, strict=True)
        case_ids, seeds, aspects, kinds = zip(*found, strict=True)
        return Probes(
            case_ids,
            np.array(seeds),
            np.array(aspects),
            np.array(kinds),
            flags=np.array(flags, dtype=np.int64).T,
            tokens=np.array(tokens, dtype=np.int64).T,
        )


def kind_of(case: EditCase, query: str) -> int:
    """What the text of a query says about it: the edit's own, one that names its subject, another."""
    if query == case.edit.query:
        return OWN
    return NAMED if mentions(query, case.edit.subject or query) else OTHER


# Rows.


def rows_of(m: Material, price: float) -> dict[str, Row]:
    """All editors, as far as they were asked."""
    rows = [*rows_of_rules(m, price), dr_ike_q(m, price)]
    return {row.name: row for row in rows if row.measured.any()}


def rows_of_rules(m: Material, price: float) -> list[Row]:
    """All editors but DR-IKE-Q."""
    column = {name: place for place, name in enumerate(m.choices)}
    fact, line, imagined = (column[f"0+0+0 {form}"] for form in ("styled", "line", "imagined"))
    mixes = {(mix.copies, mix.updates, mix.retains): name for mix, name in _named(m)}
    everything = max(mixes)
    copies, updates, retains = everything
    both = column[mixes[copies, updates, 0]]
    few = min(r for c, u, r in mixes if (c, u) == (copies, updates) and r)
    rows = [
        _always(m, "unedited", 0),
        _always(m, "FactPrompt", imagined),
        _always(m, "fact alone, New Fact line", line),
        _always(m, "fact alone, with its copy", fact),
        _always(m, "IKE", column["IKE"]),
        _always(m, f"copies, updates, nearest {few} retains", column[mixes[copies, updates, few]]),
        _always(m, "copies and updates", both),
        *(_learned(m, place) for place in (2, 1, 0)),
    ]
    by_name = zip(
        RULES[1:5],
        ((both, column[mixes[0, 0, retains]]), (both, 0), (fact, 0), (imagined, 0)),
        strict=True,
    )
    rows += [_by_name(m, name, *columns) for name, columns in by_name]
    return [*rows, _chosen_in_training(m, price), _hindsight(m)]


def _named(m: Material) -> Iterator[tuple[RoleCounts, str]]:
    """The mixes whose fact is stated as the style does, with the names of their choices."""
    for mix, name in zip(m.mixes, m.choices[1:], strict=False):
        if mix.fact == "styled":
            yield mix, name


def _always(m: Material, name: str, column: int) -> Row:
    return _choosing(m, name, np.full(len(m.test.case_ids), column))


def _choosing(m: Material, name: str, columns: Ints, measured: Flags | None = None) -> Row:
    """The row of an editor that shows each probe the choice of a column."""
    places = np.arange(len(columns))
    every = np.ones(len(columns), dtype=bool)
    return Row(
        name,
        m.test.flags[columns, places],
        m.test.tokens[columns, places],
        every if measured is None else measured,
        columns,
    )


def _learned(m: Material, place: int) -> Row:
    """An editor that a training leaves, where it was asked."""
    name = m.kept.asked.learned[place] if m.kept.asked else ""
    flags: list[int] = []
    tokens: list[int] = []
    measured: list[bool] = []
    for seed, split in enumerate(m.splits):
        for case in m.known_cases(split.test):
            kept = m.kept.learned.get((seed, case.case_id))
            count = len(case.asked)
            flags += map(int, kept.flags[place]) if kept else [0] * count
            tokens += kept.tokens[place] if kept else [0] * count
            measured += [kept is not None] * count
    return Row(name, np.array(flags), np.array(tokens), np.array(measured))


def _by_name(m: Material, name: str, named: int, other: int) -> Row:
    return _choosing(m, name, np.where(m.test.kinds == OTHER, other, named))


def _chosen_in_training(m: Material, price: float) -> Row:
    """For each kind of query the choice with the largest S unchanged, less the price, in training."""
    columns = np.zeros(len(m.test.case_ids), dtype=np.int64)
    measured = np.zeros(len(columns), dtype=bool)
    for seed, split in enumerate(m.splits):
        of_seed = m.test.seeds == seed
        if m.known_cases(split.train):
            chosen = best_by_kind(m.train(seed), price)
            columns[of_seed] = np.array(chosen)[m.test.kinds[of_seed]]
            measured |= of_seed
    return _choosing(m, RULES[5], columns, measured)


def best_by_kind(probes: Probes, price: float) -> tuple[int, ...]:
    """The choice for each kind of query that together have the largest S unchanged, less the price."""
    right = np.where(probes.aspects == 2, probes.flags & UNCHANGED, probes.flags & GREEDY) > 0
    counted = (probes.aspects < 2) | probes.comparable
    costs = probes.tokens / max(1.0, probes.tokens.mean(axis=1).max())
    of_kind = [probes.kinds == kind for kind in range(3)]
    sums = np.array(
        [
            [(right & (probes.aspects == aspect) & counted & kind).sum(axis=1) for kind in of_kind]
            for aspect in range(3)
        ]
    )  # [aspects, kinds, choices]
    numbers = np.array([((probes.aspects == aspect) & counted).sum() for aspect in range(3)])
    spent = np.array([costs[:, kind].sum(axis=1) for kind in of_kind]) / len(probes.case_ids)

    def net_score(chosen: tuple[int, ...]) -> float:
        shares = sums[:, range(3), list(chosen)].sum(axis=1) / numbers
        return float(harmonic_mean(shares)) - price * float(spent[range(3), list(chosen)].sum())

    return max(product(range(len(probes.flags)), repeat=3), key=net_score)


def _hindsight(m: Material) -> Row:
    """For each aspect the choice that answers most of its test probes right, known neighbours for RR."""
    right = m.test.flags & GREEDY > 0
    columns = np.zeros(len(m.test.case_ids), dtype=np.int64)
    for aspect in range(3):
        of_aspect = m.test.aspects == aspect
        counted = of_aspect if aspect < 2 else m.test.known
        if not counted.any():  # the model knows no neighbour: leave them alone
            continue
        columns[of_aspect] = right[:, counted].mean(axis=1).argmax()
    return _choosing(m, HINDSIGHT, columns)


def dr_ike_q(
    m: Material,
    price: float,
    reading: Retention = Retention.UNCHANGED,
) -> Row:
    """DR-IKE-Q, trained on each seed's own training edits."""
    columns = np.zeros(len(m.test.case_ids), dtype=np.int64)
    measured = np.zeros(len(columns), dtype=bool)
    for seed, split in enumerate(m.splits):
        trained_on = m.known_cases(split.train)
        tested = m.known_cases(split.test)
        if not trained_on or not tested:
            continue
        policy = trained_policy(m, trained_on, price, reading)
        columns[m.test.seeds == seed] = [
            place for case in tested for place in columns_chosen(policy, case)
        ]
        measured |= m.test.seeds == seed
    return _choosing(m, DR_IKE_Q, columns, measured)


def columns_chosen(policy: QueryPolicy, case: EditCase) -> list[int]:
    """The choice that a policy makes for each probe of a case."""
    chosen = policy.choose(case.edits, [probe.query for probe in case.asked])
    return [0 if mix is None else 1 + policy.mixes.index(mix) for mix in chosen]


def trained_policy(
    m: Material, cases: Sequence[EditCase], price: float, reading: Retention
) -> QueryPolicy:
    """The policy that is trained on these cases."""
    counted = [_counted(case, m.kept.edits[case.case_id], reading) for case in cases]
    untrained = QueryPolicy.untrained(m.encoder, (), m.mixes)
    policy, _ = train_query_policy(
        untrained, [case for case, _ in counted], [answers for _, answers in counted], price=price
    )
    return policy


def _counted(case: EditCase, kept: KeptEdit, reading: Retention) -> tuple[EditCase, CaseAnswers]:
    """The case with the probes that count by a reading of retention, and the answers of a policy's choices."""
    probes = []
    correct = []
    tokens = []
    flags_by_probe = zip(*kept.flags[:-1], strict=True)  # the last choice, IKE, is none of a policy
    tokens_by_probe = zip(*kept.tokens[:-1], strict=True)
    for probe, flags, of_probe in zip(case.probes, flags_by_probe, tokens_by_probe, strict=True):
        numbers = [int(flag) for flag in flags]
        judge = GREEDY
        if probe.aspect is Aspect.NEIGHBORHOOD and reading is not Retention.ALL:
            judge = UNCHANGED if reading is Retention.UNCHANGED else GREEDY
            if not numbers[0] & judge:  # not comparable, or not known
                continue
        probes.append(probe)
        correct.append(tuple(number & judge > 0 for number in numbers))
        tokens.append(tuple(number or None for number in of_probe))  # 0: not counted
    counted = replace(case, probes=tuple(probes), further=(), baseline_questions=())
    return counted, CaseAnswers(case.case_id, tuple(correct), tuple(tokens))


# Tables.


def counts_of(m: Material, row: Row, judge: int, within: Flags | None = None) -> Counts:
    """What the tables need of a row, by case; an edit of several seeds is one case.

    judge: `GREEDY`, or `PREFERS`, by which RR known and RR unchanged are not measured. within: only these probes.
    """
    measured = row.measured if within is None else row.measured & within
    names = tuple(dict.fromkeys(np.array(m.test.case_ids)[measured].tolist()))
    place_by_case = {case_id: place for place, case_id in enumerate(names)}
    places = np.array([place_by_case.get(case_id, -1) for case_id in m.test.case_ids])
    right = row.flags & judge > 0

    by_case: Floats = np.zeros((len(names), len(RATIOS), 2))

    def add(ratio: str, counted: Flags, values: Flags) -> None:
        column = RATIOS.index(ratio)
        some = counted & measured
        np.add.at(by_case[:, column, 0], places[some], values[some])
        np.add.at(by_case[:, column, 1], places[some], 1.0)

    for aspect, ratio in enumerate(RATIOS[:3]):
        add(ratio, m.test.aspects == aspect, right)
    if judge == GREEDY:
        add("RR known", m.test.known, right)
        add("RR unchanged", m.test.comparable, row.flags & UNCHANGED > 0)
    return Counts(row.name, names, METRICS, by_case, RESAMPLES, {})


def show_tables(m: Material, model: str, *, price: float) -> None:
    """Print all tables."""
    if not m.known_cases([case for split in m.splits for case in split.test]):
        print("No test edit was asked yet.")
        return
    _show_size(m, model)
    rows = rows_of(m, price)
    _show_greedy(m, rows)
    _show_likelihood(m, rows)
    if DR_IKE_Q in rows:
        _show_differences(m, rows)
        _show_choices(m, rows[DR_IKE_Q])
    _show_seeds(m, rows)


def _show_size(m: Material, model: str) -> None:
    tests = len(m.known_cases([case for split in m.splits for case in split.test]))
    distinct = len(set(m.test.case_ids))
    trained = sum(len(m.known_cases(split.train)) for split in m.splits)
    phases = ", ".join(f"{name} {value / 60:.1f}" for name, value in m.kept.seconds.items())
    known = int(m.test.known.sum())
    print(
        f"{model}: {tests} test edits of {len(m.splits)} seeds ({distinct} distinct), {trained} training edits; "
        f"{known} of {int((m.test.aspects == 2).sum())} neighbours known. Minutes of all processes on "
        f"{m.kept.machine or 'a machine'}: {phases or 'not recorded'}.\n"
    )


def _show_greedy(m: Material, rows: Mapping[str, Row]) -> None:
    names = ("ESR", "PC", "RR", "RR known", "RR unchanged", "S", "S known", "S unchanged")
    body: list[list[Cell]] = []
    for row in rows.values():
        estimates = dict(zip(METRICS, counts_of(m, row, GREEDY).estimates, strict=True))
        body.append([row.name, *(estimates[name] for name in names), _tokens(row)])
    pages.draw("Greedy (strict)", ("editor", *names, "tokens"), body, wide=True)


def _tokens(row: Row) -> Number:
    return Number(float(row.tokens[row.measured].mean()), ",.0f")


def _show_likelihood(m: Material, rows: Mapping[str, Row]) -> None:
    body: list[list[Cell]] = []
    ns = counts_of(m, rows["unedited"], PREFERS).values[METRICS.index("RR")]
    ceiling = 3 / (2 + 1 / ns)
    for row in rows.values():
        estimates = dict(zip(METRICS, counts_of(m, row, PREFERS).estimates, strict=True))
        share = Number((estimates["S"].value or 0.0) / ceiling, ".3f")
        body.append([row.name, *(estimates[name] for name in METRICS_OF_LIKELIHOOD), share])
    title = f"Likelihood; ceiling 3 / (2 + 1 / NS unedited) = {ceiling:.3f}"
    pages.draw(title, ("editor", "ES", "PS", "NS", "S", "of the ceiling"), body)
    published = [list(cells) for cells in PUBLISHED]
    pages.draw("Published on CounterFact, likelihood", ("editor", "model", "S"), published)


METRICS_OF_LIKELIHOOD = ("ESR", "PC", "RR", "S")


def _show_differences(m: Material, rows: Mapping[str, Row]) -> None:
    """DR-IKE-Q minus every other row, paired by edit."""
    ours = rows[DR_IKE_Q]
    body: list[list[Cell]] = []
    for row in rows.values():
        if row is ours:
            continue
        within = ours.measured & row.measured
        if not within.any():
            continue
        cells: list[Cell] = [row.name]
        for judge, names in (
            (GREEDY, ("S", "S known", "S unchanged", "PC")),
            (PREFERS, ("S",)),
        ):
            differences = paired_differences(
                counts_of(m, ours, judge, within), counts_of(m, row, judge, within)
            )
            cells += [Difference(differences[name]) for name in names]
        body.append([*cells, _ratio(ours.tokens[within], row.tokens[within])])
    header = ("minus", "S", "S known", "S unchanged", "PC", "S by likelihood", "tokens, ratio")
    pages.draw(f"{DR_IKE_Q} minus the others, paired by edit", header, body)


def _ratio(ours: Ints, theirs: Ints) -> Number:
    """Of the mean tokens; not measured for a model that counts none."""
    return Number(float(ours.mean() / theirs.mean()) if theirs.any() else None, ".2f")


def _show_choices(m: Material, row: Row) -> None:
    """Which choices the policy makes for each aspect."""
    assert row.columns is not None  # it chooses among those of every edit
    body: list[list[Cell]] = []
    for place, name in enumerate(m.choices[:-1]):
        chosen = row.columns == place
        shares = [
            float(chosen[(m.test.aspects == aspect) & row.measured].mean()) for aspect in range(3)
        ]
        body.append([name, *(Number(share, ".2f") for share in shares)])
    header = ("choice", "own query", "paraphrases", "neighbours")
    pages.draw(f"Share of queries to which {DR_IKE_Q} shows a choice", header, body)


def _show_seeds(m: Material, rows: Mapping[str, Row]) -> None:
    if len(m.splits) == 1:
        return
    body: list[list[Cell]] = []
    for name in ("IKE", "DR-IKE", RULES[2], RULES[5], DR_IKE_Q):
        if name not in rows:
            continue
        row = rows[name]
        cells: list[Cell] = [name]
        for seed in range(len(m.splits)):
            of_seed = (m.test.seeds == seed) & row.measured
            estimate = Estimate(None)
            if of_seed.any():
                counts = counts_of(m, row, GREEDY, of_seed)
                estimate = counts.estimates[METRICS.index("S known")]
            cells.append(estimate)
        body.append(cells)
    header = ("S known", *(f"seed {seed}" for seed in range(len(m.splits))))
    pages.draw("By seed", header, body)
