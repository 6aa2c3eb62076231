"""Put a report together, which `page` writes as HTML: tables, and sentences that claim no more than their intervals."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drike.edits.edit import Aspect
from drike.research.datasets.generated import GENERATED
from drike.research.evaluation.judge import RULES
from drike.research.evaluation.metrics import Outcome
from drike.research.report import tables
from drike.research.report.groups import (
    BASELINE,
    METHOD,
    PER_QUERY,
    UNEDITED,
    Group,
    ReportedRun,
    evaluate_again,
)
from drike.research.report.paper import EPOCH_SECONDS, RETAIN_BUDGETS, paper_tables
from drike.research.report.tables import INTERVALS, PER_PROMPT, SCORES
from drike.support.table import (
    NOT_MEASURED,
    Cell,
    Number,
    Table,
    as_markdown,
    as_text,
    counted,
    markdown_text,
)

# On fewer edits no difference is claimed: of two equally good editors, one would win on all of five edits with a
# probability of 2 / 2**5, above 5 %.
MIN_EDITS = 6


@dataclass(frozen=True)
class Section:
    """A part of a report: paragraphs, then tables."""

    id: str
    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Document:
    """A whole report. groups: their outcomes go into the case viewer."""

    title: str
    groups: tuple[Group, ...]
    sections: tuple[Section, ...]


def document(groups: Sequence[Group]) -> Document:
    """The report of groups of runs (see `groups.grouped`)."""
    runs = [run for group in groups for run in group.runs]
    summary = [sentence for group in groups for sentence in gaps(group)]
    summary += [sentence for group in groups for sentence in (about(group), verdict(group))]
    if any(group.data == "TinyFacts" for group in groups):
        summary += [
            "TinyFacts shows that the method runs; its numbers are no evidence about large models."
        ]
    trained = {
        f"{group.label}, seed {run.seed}": run.episodes for group in groups for run in group.runs
    }
    epochs = {name: tables.by_epoch(episodes) for name, episodes in trained.items() if episodes}
    seconds = "; ".join(
        f"{model} {before:.1f} and {after:.1f}" for model, (before, after) in EPOCH_SECONDS.items()
    )
    published = f"Published seconds per epoch without and with the budget controller: {seconds} (NVIDIA L4, 300 edits)."
    sections = (
        Section(
            "summary", "Summary", summary, [table for group in groups for table in scores(group)]
        ),
        Section("paper", "Compared with the paper", (), list(paper_tables(groups))),
        Section(
            "differences",
            "Differences",
            (),
            [table for group in groups for table in _differences(group)],
        ),
        Section(
            "deployed",
            "Many edits in force",
            (),
            [table for run in runs for table in _deployed(run)],
        ),
        Section(
            "cost", "Quality and cost", (), [table for group in groups for table in _costs(group)]
        ),
        Section(
            "training", "Training", [published], [tables.epochs_table(epochs)] if epochs else ()
        ),
        Section("budget", "Retain budget", (), _budgets(groups)),
        Section("runs", "Settings", (), [_settings(runs)]),
    )
    title = f"drike report: {'; '.join(dict.fromkeys(group.label for group in groups))}"
    return Document(title, tuple(groups), tuple(section for section in sections if section.tables))


def markdown(document: Document) -> str:
    """The summary and all tables as Markdown."""
    lines = [f"# {markdown_text(document.title, first=True)}\n"]
    for section in document.sections:
        lines.append(f"## {markdown_text(section.title, first=True)}\n")
        if section.text:
            lines.append(
                "\n".join(f"* {markdown_text(line, first=True)}" for line in section.text) + "\n"
            )
        lines += map(as_markdown, section.tables)
    return "\n".join(lines)


def _differences(group: Group) -> list[Table]:
    """Every editor against IKE, DR-IKE against every other editor, and DR-IKE-Q against its controls."""
    editors = [name for name in group.outcomes if name not in (UNEDITED, BASELINE)]
    against = [(METHOD, name) for name in editors if name not in (METHOD, PER_QUERY)]
    pairs = dict.fromkeys(
        (*((name, BASELINE) for name in editors), *against, *tables.compared(list(group.outcomes)))
    )
    comparable = [pair for pair in pairs if group.comparable(*pair)]
    return tables.paired(group.counts, comparable, f"Paired differences, {group.label}")


def _deployed(run: ReportedRun) -> list[Table]:
    """The tables of a run that was evaluated with --stored; none of another run."""
    judge = [RULES[run.settings["judge"]].caption] if run.settings.get("judge") in RULES else []
    title = f"{run.stored} edits in force, {run.data}, model {run.model}"
    return (
        tables.deployed_tables(run.outcomes, run.deployed, run.gate, title, *judge)
        if run.gate
        else []
    )


def _costs(group: Group) -> list[Table]:
    summaries = list(group.summaries.values())
    found = [(group.label, tables.hops(summaries)), (group.label, tables.costs(summaries))]
    found += [
        (f"{group.label}, seed {run.seed}", tables.work(run.usage))
        for run in group.runs
        if run.usage
    ]
    return [replace(table, title=f"{table.title}, {label}") for label, table in found if table]


def _budgets(groups: Sequence[Group]) -> list[Table]:
    editors = [
        (group, editor)
        for group in groups
        for editor in group.outcomes
        if editor.startswith(METHOD)
    ]
    with_budgets = [
        pair for pair in editors if pair[1] != PER_QUERY
    ]  # which has no budget per edit
    rows: list[tuple[Cell, ...]] = [("Measured",)]
    notes: list[str] = []
    for group, editor in with_budgets:
        kept = tables.distribution_of(group.outcomes[editor])
        extremes = (Number(end(kept.counts), "d") for end in (min, max))
        rows.append(
            (
                f"{editor}, {group.label}",
                Number(kept.mean, ".2f"),
                Number(kept.std, ".2f"),
                *extremes,
            )
        )
        edits = ", ".join(f"{k} at {number}" for k, number in kept.counts.items())
        notes.append(f"{editor}, {group.label}: edits by retains kept: {edits}.")
    rows.append(("Published",))
    for model, published in RETAIN_BUDGETS.items():
        rows.append(
            (
                f"DR-IKE, {model}",
                *(Number(value, ".2f") for value in published),
                NOT_MEASURED,
                NOT_MEASURED,
            )
        )
    notes += [
        "Every edit counts once here; retains/prompt in the other tables is a mean over prompts, so an edit with more "
        "probes counts more there.",
        "std: of the population; the paper does not say which it uses.",
    ]
    header = ("Editor", "mean retains/edit", "std", "min", "max")
    return (
        [Table("Retains kept per test edit", header, tuple(rows), tuple(notes))]
        if with_budgets
        else []
    )


def _settings(runs: Sequence[ReportedRun]) -> Table:
    """The settings of the runs: enough to repeat them."""
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    weights = {"dtype": "dtype of the weights", "weights_sha256": "SHA-256 of the weights"}
    rows = [
        (name, *(str(getattr(run, name)) for run in runs))
        for name in ("folder", "started", "model")
    ]
    rows += [
        (what, *(run.identity.get(name, "n/a")[:16] for run in runs))
        for name, what in weights.items()
    ]
    rows += [("seed", *(str(run.seed) for run in runs))]
    rows += [(name, *(run.settings.get(name, "default") for run in runs)) for name in names]
    rows += [
        (name, *(run.versions.get(name, "n/a") for run in runs))
        for name in ("drike", "torch", "transformers")
    ]
    return Table(
        "Settings of the runs",
        ("", *(f"run {i + 1}" for i in range(len(runs)))),
        tuple(rows),
        wide=True,
    )


def gaps(group: Group) -> Iterator[str]:
    """What was meant to be measured but is missing from the group's numbers."""
    for run in group.runs:
        if run.missing:
            lacks = f"{run.folder} has no outcomes of {', '.join(run.missing)}, which this report leaves out"
            yield f"Incomplete: {lacks}; to measure what is missing: {evaluate_again(run.folder)}"
        if 0 < len(run.episodes) < run.asked_episodes:
            done = f"{len(run.episodes)} of {run.asked_episodes} episodes"
            yield f"Incomplete: training stopped after {done} ({group.label}, seed {run.seed})."
    if absent := [
        name
        for name in SCORES
        if all(of.metric(name).value is None for of in group.summaries.values())
    ]:
        missing = ", ".join(name for name in absent if name != "S")
        unjudged = any(
            outcome.correct is None for outcomes in group.outcomes.values() for outcome in outcomes
        )
        which = "no such probes that the rule can judge" if unjudged else "no such probes"
        yield f"Not measured: {missing}, as the test edits have {which}; S needs ESR, PC and RR ({group.label})."


def about(group: Group) -> str:
    """How many edits and seeds a group has, and what its intervals leave out."""
    seeds, cases = group.seeds(), max(summary.cases for summary in group.summaries.values())
    if len(seeds) > 1:
        some = ", ".join(name for name in group.outcomes if group.seeds(name) != seeds)
        once = "an edit tested under several counts once" + (
            f"; under fewer seeds: {some}" if some else ""
        )
        return f"{group.label}: {cases} test edits, {len(seeds)} seeds; {once}."
    beyond = "intervals do not include what another split or another initial head would change"
    return f"{group.label}: {cases} test edits, seed {seeds[0]}; {beyond}."


def verdict(group: Group) -> str:
    """Which editor is best, and whether its lead is more than chance."""
    metric, ranked = group.headline, group.ranked
    values = {
        editor: as_text(summary.metric(metric)) for editor, summary in group.summaries.items()
    }
    known = values.get(UNEDITED, NOT_MEASURED)
    if not ranked:
        only = f"Only the unedited model was measured: its {metric} is {known}."
        return "No answer of this run could be judged." if known == NOT_MEASURED else only
    best, *others = (summary.editor for summary in ranked)
    where = counted(ranked[0].cases, "test edit")
    if ranked[0].cases < MIN_EDITS:
        return f"{best} has {metric} {values[best]} on {where}, too few to tell editors apart."
    compared = [*others, *([] if known == NOT_MEASURED else [UNEDITED])]
    differences = {other: group.difference(best, other, metric) for other in compared}
    tied = [name for name in others if (of := differences[name]) and of.estimate.value == 0]
    above = {
        other: of and of.significant and (of.estimate.value or 0) > 0
        for other, of in differences.items()
    }
    if above.get(UNEDITED) is False:
        none = f"No editor is significantly better than the unedited model, whose {metric} is {known} on {where}"
        return f"{none}; the best {'are' if tied else 'is'} {_listed([best, *tied])} with {values[best]}."
    clear, near = (
        [of for of in above if above[of] is wanted and of not in tied] for wanted in (True, False)
    )
    has = f"{_listed([best, *tied])} {'share' if tied else 'has'}{' the highest' * bool(others)} {metric}"
    lead = f", significantly above {_listed(clear)}" if clear else ""
    lead += f", but not significantly above {_listed(near)}" if near else ""
    alone = (
        ", but no other editor was measured on the same edits"
        if others and not (lead or tied)
        else ""
    )
    return f"{has}{', ' if others else ' '}{values[best]} on {where}{lead}{alone}."


def overall(groups: Sequence[Group]) -> str:
    """The verdict on all groups together: which editor is highest in how many of them."""
    if len(groups) == 1:
        return verdict(groups[0])
    best = ((group.headline, group.ranked[0]) for group in groups if group.ranked)
    first = Counter(of.editor for metric, of in best if of.metric(metric).value)
    won = ", ".join(f"{editor} in {times}" for editor, times in first.most_common())
    metric = " or ".join(dict.fromkeys(group.headline for group in groups))
    return (
        f"Highest {metric} in {len(groups)} settings: {won}."
        if won
        else "No editor is above 0 in any setting."
    )


def scores(group: Group) -> list[Table]:
    """Scores and costs of editors, with their headline metric minus the baseline's; then aspects S does not count."""
    metric, summaries = group.headline, group.summaries
    against = BASELINE if {BASELINE} < summaries.keys() - {UNEDITED} else ""
    header = (
        "Editor",
        *SCORES,
        *([f"{metric} minus {against}"] if against else []),
        "retains/prompt",
        "tokens/prompt",
    )
    rows: list[tuple[Cell, ...]] = []
    for editor, summary in summaries.items():
        difference = group.difference(editor, against, metric) if editor != against else None
        main, costs = (
            [tables.cell(summary, column) for column in columns]
            for columns in (SCORES, header[-2:])
        )
        rows.append((editor, *main, *([difference or NOT_MEASURED] if against else []), *costs))
    judges = dict.fromkeys(
        run.settings.get("judge", "") for run in group.runs
    )  # older runs do not say
    captions = (RULES[name].caption for name in judges if name in RULES)
    meanings = " ".join(f"{name}: {meaning}." for name, meaning in SCORES.items())
    table = Table(group.label, header, tuple(rows), (meanings, *captions, INTERVALS, PER_PROMPT))
    generated = (
        [GENERATED] if any(run.settings.get("probes") == "all" for run in group.runs) else []
    )
    further = tables.aspects(list(summaries.values()), *generated)
    return (
        [table, replace(further, title=f"{further.title}, {group.label}")] if further else [table]
    )


def example(group: Group, editor: str) -> tuple[Outcome, str, str] | None:
    """An edit that took effect, of those with written answers: what the model says without and under the editor."""
    for run in group.runs:
        for outcome in run.outcomes.get(editor, ()):
            if outcome.aspect is Aspect.REWRITE and outcome.correct:
                answers = [
                    run.written.get(name, {}).get(outcome.case_id) for name in (UNEDITED, editor)
                ]
                before, after = (
                    texts[0] if texts else None for texts in answers
                )  # the rewrite probe's
                if before is not None and after is not None:
                    return outcome, before.strip() or "(nothing)", after.strip()
    return None


def _listed(names: Sequence[str]) -> str:
    """Names as a phrase: "A, B and C", or "A, B and 4 others"."""
    *first, last = names if len(names) <= 3 else (*names[:2], f"{len(names) - 2} others")
    return " and ".join(filter(None, (", ".join(first), last)))
