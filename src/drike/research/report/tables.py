"""Tables of outcomes with intervals: scores, aspects, differences, costs, many edits behind a gate; of training."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from statistics import fmean, pstdev

from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.models.protocols import Usage
from drike.research.edited_model import GateRecord
from drike.research.evaluation.metrics import (
    Counts,
    Outcome,
    Share,
    Summary,
    paired_differences,
    share_over_cases,
    summarise,
)
from drike.research.training.algorithm1 import EpisodeRecord, count_tokens
from drike.support.table import (
    NOT_MEASURED,
    Cell,
    Difference,
    Estimate,
    Noted,
    Number,
    Table,
    as_text,
)

COLUMNS = ("S", "ESR", "PC", "RR", "ESM", "GSM")
SCORES = {  # what a report begins with
    "S": "harmonic mean of ESR, PC and RR",
    "ESR": "share of edits that take effect",
    "PC": "share of paraphrases of the edits answered with the new object",
    "RR": "share of neighbouring facts still answered right",
}
INTERVALS = (
    "Brackets: 95 % interval over cases, by bootstrap; by Clopper and Pearson's where all agree."
)
STARRED = "*: the interval excludes 0."
PER_PROMPT = (
    "retains/prompt: mean over the prompts of all probes, so an edit with more probes counts more; where a table says "
    "retains/edit, every edit counts once."
)
NEAREST = 20  # misses of a gate that are shown
_COSTS: dict[str, Callable[[Summary], Number]] = {
    "retains/prompt": lambda summary: Number(summary.shots, ".2f"),
    "tokens/prompt": lambda summary: Number(summary.prompt_tokens, ".0f"),
    "calls/edit": lambda summary: Number(summary.calls, ".1f"),
    "s/edit": lambda summary: Number(summary.seconds, ".3f"),
}


def cell(summary: Summary, column: str) -> Cell:
    """A metric of a summary with its interval, or one of its costs."""
    return _COSTS[column](summary) if column in _COSTS else summary.metric(column)


def _summary_table(
    title: str, summaries: Iterable[Summary], columns: Sequence[str], *notes: str
) -> Table:
    rows = tuple(
        (summary.editor, *(cell(summary, column) for column in columns)) for summary in summaries
    )
    return Table(title, ("Editor", *columns), rows, notes)


def table1(summaries: Sequence[Summary], title: str, *notes: str) -> Table:
    """Summaries in the columns of the paper's Table 1, each with its 95 % interval over cases."""
    return _summary_table(title, summaries, COLUMNS, INTERVALS, *notes)


def disagreement(outcomes: Sequence[Outcome]) -> str:
    """A sentence on how often greedy and generate differ in outcomes of a sample, which have scores and text."""
    differing = [outcome for outcome in outcomes if outcome.matched not in (None, outcome.correct)]
    edits = len({outcome.case_id for outcome in outcomes})
    such = (
        f", such as {first.editor}'s on {first.answer!r} for {first.target!r}"
        for first in differing[:1]
    )
    differ = f"{len(differing)} of {len(outcomes):,} verdicts differ{''.join(such)}"
    return f"Judged by greedy and by generate on a sample of {edits} edits: {differ}."


def costs(summaries: Sequence[Summary]) -> Table:
    """The cost of each editor's prompts, and RR on the neighbours that the model knew."""
    note = "RR known: RR on neighbours that the unedited model answers right. tokens/prompt: of the prompt answered."
    return _summary_table(
        "Retention of known facts, and cost", summaries, ("RR known", *_COSTS), note, PER_PROMPT
    )


def aspects(summaries: Sequence[Summary], *notes: str) -> Table | None:
    """The share of right answers to each aspect that S does not count; None where no probe asks one."""
    further = (aspect for aspect in Aspect if aspect not in ASPECTS_OF_S)
    asked = [
        aspect for aspect in further if any(summary.aspects[aspect].probes for summary in summaries)
    ]
    by_editor = {summary.editor: summary.aspects for summary in summaries}
    note = "Share of probes answered right; S does not count them."
    return _shares("Aspects", asked, by_editor, note, *notes) if asked else None


def hops(summaries: Sequence[Summary]) -> Table | None:
    """The share of right answers to multi-hop questions by their number of hops; None unless it varies."""
    numbers = sorted({number for summary in summaries for number in summary.hops}, key=int)
    note = "Share of multi_hop probes answered right, by how many facts they go through."
    by_editor = {summary.editor: summary.hops for summary in summaries}
    return (
        _shares("Multi-hop questions by hops", numbers, by_editor, note)
        if len(numbers) > 1
        else None
    )


def _shares(
    title: str, names: Sequence[str], by: Mapping[str, Mapping[str, Share]], note: str, *notes: str
) -> Table:
    """Named shares of each editor, and how many probes and edits each has."""
    none = Share(Estimate(None), 0, 0)
    cells = {editor: [shares.get(name, none) for name in names] for editor, shares in by.items()}
    rows: list[tuple[Cell, ...]] = [
        (editor, *(of.estimate for of in shares)) for editor, shares in cells.items()
    ]
    largest = [
        max(column, key=lambda share: share.probes) for column in zip(*cells.values(), strict=True)
    ]
    counts = "; ".join(
        f"{name} {of.probes:,} ({of.edits:,})" for name, of in zip(names, largest, strict=True)
    )
    notes = (note, f"Probes (edits) of each: {counts}.", INTERVALS, *notes)
    return Table(title, ("Editor", *map(str, names)), tuple(rows), notes)


def work(usages: Mapping[str, Usage]) -> Table:
    """The model's work for each part of a run: prompts, forwards, tokens computed and saved, seconds."""
    counts = attrgetter(
        "prompts", "forwards", "tokens", "tokens_computed", "tokens_shared", "tokens_cached"
    )
    rows: list[tuple[Cell, ...]] = []
    for name, usage in usages.items():
        rows.append((name, *map(Number, counts(usage)), Number(usage.seconds or None, ".1f")))
    header = ("", "prompts", "forwards", "tokens", "computed", "shared prefix", "cached", "seconds")
    note = (
        "tokens: if every prompt were read by itself; shared prefix: computed once for all prompts that have them in "
        "common, minus those of self-checks; cached: tokens of prompts whose answer was known already."
    )
    return Table("Work of the model", header, tuple(rows), (note,))


def differences(ours: Counts, theirs: Counts) -> tuple[Difference, ...]:
    """Paired differences of the metrics in COLUMNS. Raises ValueError if the two are not about the same cases."""
    by_name = paired_differences(ours, theirs)
    return tuple(Difference(by_name[column]) for column in COLUMNS)


def compared(editors: Sequence[str]) -> list[tuple[str, str]]:
    """The comparisons that matter: DR-IKE with IKE, DR-IKE-Q with its controls."""
    controls = ("IKE", "Rank-All", "Rank-50%", "DR-IKE", "Switch by name")
    pairs = [("DR-IKE", "IKE")]
    pairs += [
        ("DR-IKE-Q", name) for name in editors if name in controls or name.startswith("Nearest")
    ]
    return [pair for pair in pairs if {*pair} <= {*editors}]


def paired(
    counts: Mapping[str, Counts], pairs: Iterable[tuple[str, str]], title: str
) -> list[Table]:
    """A row for each pair of editors: the paired differences of every metric; no table without pairs."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (f"{a} minus {b}", *differences(counts[a], counts[b])) for a, b in pairs
    )
    return (
        [Table(title, ("", *COLUMNS), rows, ("Paired bootstrap over the same edits.", STARRED))]
        if rows
        else []
    )


@dataclass(frozen=True)
class Distribution:
    """counts[k]: how many edits got k retains. std: of the population."""

    counts: Mapping[int, int]
    mean: float
    std: float


def distribution_of(outcomes: Sequence[Outcome]) -> Distribution:
    """Count one editor's retains, every edit once. Raises ValueError if there is no outcome of a rewrite probe."""
    if not (shots := [outcome.shots for outcome in outcomes if outcome.aspect is Aspect.REWRITE]):
        raise ValueError(
            "no outcome of a rewrite probe: retains are counted once per edit, at its rewrite probe"
        )
    return Distribution(dict(sorted(Counter(shots).items())), fmean(shots), pstdev(shots))


def deployed_tables(
    outcomes: Mapping[str, Sequence[Outcome]], deployed: Mapping[str, Sequence[Outcome]],
    records: Sequence[GateRecord], title: str, *notes: str,
) -> list[Table]:  # fmt: skip
    """All tables of an evaluation with many edits in force. outcomes: each under its case's edit, by editor."""
    behind = {editor: summarise(of_editor) for editor, of_editor in deployed.items()}
    rows: list[tuple[Cell, ...]] = []
    for editor, gated in behind.items():
        alone = summarise(outcomes[editor])
        tokens = (Number(summary.prompt_tokens, ".0f") for summary in (alone, gated))
        rows.append((editor, alone.s, gated.s, gated.esr, gated.pc, gated.rr, *tokens))
    header = (
        "Editor",
        "S",
        "deployed S",
        "deployed ESR",
        "deployed PC",
        "deployed RR",
        "tokens",
        "deployed tokens",
    )
    meaning = (
        "S: every query under its case's edit, as in the paper. Deployed: all edits are in force at once, and each "
        "query is asked under those that the gate matches to it; where another edit changed a fact, its new object is "
        "right.",
        "tokens: mean length of a prompt.",
    )
    tables = [Table(f"Deployed: {title}", header, tuple(rows), (*meaning, INTERVALS, *notes))]
    if further := aspects(list(behind.values())):
        tables.append(replace(further, title="Deployed: aspects"))
    return [*tables, gate_table(records), near_misses(records)]


def gate_table(records: Sequence[GateRecord]) -> Table:
    """How often the gate gives a question the edits it is about, and others, by kind of question."""
    rows = []
    for kind in dict.fromkeys(record.kind for record in records):
        of_kind = [record for record in records if record.kind == kind]
        matched = _share([record for record in of_kind if record.asks], lambda record: record.fires)
        rows.append(
            (
                kind,
                Number(len(of_kind)),
                matched,
                _share(of_kind, lambda record: bool(record.false)),
            )
        )
    notes = (
        "matched: of the questions about an edit in force, those that get it. false matches: questions that get an "
        "edit they are not about.",
        f"{INTERVALS} Of unrelated questions, over questions.",
    )
    return Table(
        "The gate, by kind of question",
        ("kind", "questions", "matched", "false matches"),
        tuple(rows),
        notes,
    )


def near_misses(records: Sequence[GateRecord]) -> Table:
    """The questions that the gate decided wrongly, then those it came nearest to deciding otherwise; worst first."""
    missed = [(r.probability, r, "missed it", r.asks) for r in records if r.asks and not r.fires]
    false = [
        (r.nearest_probability, r, "matched it falsely", r.nearest) for r in records if r.false
    ]
    others = (r for r in records if not r.false and r.nearest_probability > 0)
    close = [(r.nearest_probability, r, "nearly matched it", r.nearest) for r in others]
    wrong = sorted(missed, key=lambda item: item[0]) + sorted(false, key=lambda item: -item[0])
    ordered = [*wrong, *sorted(close, key=lambda item: -item[0])]
    rows = dict.fromkeys(
        (r.query, r.kind, what, edit or "", f"{p:.3f}") for p, r, what, edit in ordered
    )
    header = ("question", "kind", "the gate", "edit", "p")
    return Table(
        "Nearest misses of the gate",
        header,
        tuple(rows)[:NEAREST],
        ("p: of that edit.",),
        wide=True,
    )


def _share(records: Sequence[GateRecord], holds: Callable[[GateRecord], bool]) -> Cell:
    """The share of records for which something holds, with its interval over cases, and the counts."""
    if not records:
        return NOT_MEASURED
    by_case: dict[str, list[bool]] = defaultdict(list)
    for record in records:
        by_case[record.case_id or record.query].append(holds(record))
    return Noted(
        share_over_cases(by_case.values()), f"({sum(map(holds, records)):,} of {len(records):,})"
    )


@dataclass(frozen=True)
class Epoch:
    """One epoch of training, or as much of it as was done; esr, reward and mean_k are means over its episodes."""

    epoch: int
    episodes: int
    esr: float  # whether the answer was right with the retains that the budget kept
    reward: float  # over all prefixes
    mean_k: float  # of the retains kept
    sigma: float | None  # of the budget at the end of the epoch
    share: float | None
    calls: int  # prompts sent to the model
    prompt_tokens: int | None  # as if nothing were shared; None if not counted
    seconds: float  # wall time

    @property
    def threshold(self) -> Number:
        """What the budget cuts by: its fixed share, or its sigma, where it has one."""
        return Number(self.sigma, ".4f") if self.share is None else Number(self.share, ".0%")


def by_epoch(episodes: Sequence[EpisodeRecord]) -> tuple[Epoch, ...]:
    """Summarise the episodes of one training run, given in order."""
    epochs = []
    for number, group in groupby(episodes, key=lambda episode: episode.epoch):
        own = list(group)
        epochs.append(Epoch(
            number, len(own), esr=fmean(e.success for e in own), reward=fmean(fmean(e.rewards) for e in own),
            mean_k=fmean(min(e.kept, e.k) for e in own), sigma=own[-1].sigma, share=own[-1].share,
            calls=sum(e.k for e in own), prompt_tokens=count_tokens(own), seconds=sum(e.seconds for e in own),
        ))  # fmt: skip
    return tuple(epochs)


def epochs_table(runs: Mapping[str, Sequence[Epoch]]) -> Table:
    """Training by epoch, a block of rows for each run."""
    rows: list[tuple[Cell, ...]] = []
    for name, epochs in runs.items():
        rows.append((name,))
        for epoch in epochs:
            means = (
                Number(epoch.esr, ".3f"),
                Number(epoch.reward, "+.3f"),
                Number(epoch.mean_k, ".2f"),
            )
            cut = epoch.threshold if epoch.share is None else f"share {as_text(epoch.threshold)}"
            work = (Number(epoch.calls), Number(epoch.prompt_tokens), Number(epoch.seconds, ".1f"))
            rows.append((str(epoch.epoch), *means, cut, *work))
    header = ("epoch", "ESR", "mean reward", "mean k", "sigma", "calls", "prompt tokens", "seconds")
    notes = (
        "ESR: training edits answered right under the prompt the budget gives. reward: over all evaluated prefixes. k: "
        "retains kept. sigma: at the end of the epoch. prompt tokens: as if every prompt were read by itself.",
    )
    return Table("Training by epoch", header, tuple(rows), notes)
