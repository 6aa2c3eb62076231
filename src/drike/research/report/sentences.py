"""What a report says in sentences, which claim no more than their intervals."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from drike.research.evaluation.metrics import Summary
from drike.research.report.groups import UNEDITED, Group
from drike.research.report.reported_runs import evaluate_again
from drike.support.table import NOT_MEASURED, Difference, as_text, counted

# On fewer edits no difference is claimed: of two equally good editors, one would win on all of
# five edits with a probability of 2 / 2**5, above 5 %.
MIN_EDITS = 6
_PAPERS = ("S", "ESR", "PC", "RR")
# Below this RR of the unedited model, RR is about what it does not know.
READABLE_FROM = 0.5


def gaps(group: Group) -> Iterator[str]:
    """What was meant to be measured but is missing from the group's numbers."""
    for run in group.runs:
        if run.missing:
            missing = ", ".join(run.missing)
            yield (
                f"Incomplete: {run.folder} has no outcomes of {missing}, which this report leaves "
                f"out; to measure what is missing: {evaluate_again(run.folder)}"
            )
        if 0 < len(run.episodes) < run.asked_episodes:
            done = f"{len(run.episodes)} of {run.asked_episodes} episodes"
            yield f"Incomplete: training stopped after {done} ({group.label}, seed {run.seed})."

    unmeasured = [name for name in _PAPERS if not _is_measured(group, name)]
    if unmeasured:
        probes = "no such probes"
        if _has_unjudged_outcomes(group):
            probes = "no such probes that the rule can judge"
        names = ", ".join(name for name in unmeasured if name != "S")
        yield (
            f"Not measured: {names}, as the test edits have {probes}; "
            f"S needs ESR, PC and RR ({group.label})."
        )


def _is_measured(group: Group, metric: str) -> bool:
    return any(summary.metric(metric).value is not None for summary in group.summaries.values())


def _has_unjudged_outcomes(group: Group) -> bool:
    return any(
        outcome.correct is None for outcomes in group.outcomes.values() for outcome in outcomes
    )


def about(group: Group) -> str:
    """How many edits and seeds a group has, and what its intervals leave out."""
    seeds = group.seeds()
    edits = max(summary.cases for summary in group.summaries.values())
    if len(seeds) == 1:
        return (
            f"{group.label}: {edits} test edits, seed {seeds[0]}; intervals do not include what "
            "another split or another initial head would change."
        )
    sentence = (
        f"{group.label}: {edits} test edits, {len(seeds)} seeds; "
        "an edit tested under several counts once"
    )
    partly_measured = [editor for editor in group.outcomes if group.seeds(editor) != seeds]
    if partly_measured:
        sentence += f"; under fewer seeds: {', '.join(partly_measured)}"
    return f"{sentence}."


def on_retention(summaries: Mapping[str, Summary], label: str) -> list[str]:
    """That RR cannot be read, where the unedited model knows few of the neighbouring facts."""
    if UNEDITED not in summaries:
        return []
    known = summaries[UNEDITED].metric("RR").value
    if known is None or known >= READABLE_FROM:
        return []
    return [
        f"RR cannot be read ({label}): even the unedited model answers only {known:.0%} of the "
        "neighbouring facts right, so that RR, and S with it, show what it does not know, or what "
        "retains tell it, rather than what edits harm. Read RR known and RR unchanged instead, and "
        "S with these."
    ]


def verdict(group: Group) -> str:
    """Which editor is best, and whether its lead is more than chance."""
    ranked = group.ranked
    if not ranked:
        return _verdict_without_editors(group)

    edits = counted(ranked[0].cases, "test edit")
    best = _Best(ranked[0].editor, group.headline, _value(group, ranked[0].editor), edits)
    if ranked[0].cases < MIN_EDITS:
        return (
            f"{best.editor} has {best.metric} {best.value} on {edits}, "
            "too few to tell editors apart."
        )

    others = [summary.editor for summary in ranked[1:]]
    compared = list(others)
    if _value(group, UNEDITED) != NOT_MEASURED:
        compared.append(UNEDITED)
    differences = {
        editor: group.difference(best.editor, editor, best.metric) for editor in compared
    }
    tied = [editor for editor in others if _is_tie(differences[editor])]

    unedited = differences.get(UNEDITED)
    if unedited is not None and not _is_clear_lead(unedited):
        return _verdict_of_no_gain(group, best, tied)
    return _verdict_of_lead(best, tied, differences, has_rivals=bool(others))


@dataclass(frozen=True)
class _Best:
    """The best editor, its headline metric with the value as text, and on how many edits."""

    editor: str
    metric: str
    value: str
    edits: str


def _value(group: Group, editor: str) -> str:
    """An editor's headline metric as text."""
    if editor not in group.summaries:
        return NOT_MEASURED
    return as_text(group.summaries[editor].metric(group.headline))


def _is_tie(difference: Difference | None) -> bool:
    return difference is not None and difference.estimate.value == 0


def _is_clear_lead(difference: Difference) -> bool:
    return difference.significant and (difference.estimate.value or 0) > 0


def _verdict_without_editors(group: Group) -> str:
    unedited = _value(group, UNEDITED)
    if unedited == NOT_MEASURED:
        return "No answer of this run could be judged."
    return f"Only the unedited model was measured: its {group.headline} is {unedited}."


def _verdict_of_no_gain(group: Group, best: _Best, tied: Sequence[str]) -> str:
    are = "are" if tied else "is"
    return (
        f"No editor is significantly better than the unedited model, whose {best.metric} is "
        f"{_value(group, UNEDITED)} on {best.edits}; "
        f"the best {are} {_listed([best.editor, *tied])} with {best.value}."
    )


def _verdict_of_lead(
    best: _Best,
    tied: Sequence[str],
    differences: Mapping[str, Difference | None],
    *,
    has_rivals: bool,
) -> str:
    """The best editors, and above which others they are significantly.

    differences: the best editor minus the others, None for one measured on other edits, of which
    nothing is said.
    """
    clearly_below = []
    nearly_as_good = []
    for editor, difference in differences.items():
        if difference is None or editor in tied:
            continue
        if _is_clear_lead(difference):
            clearly_below.append(editor)
        else:
            nearly_as_good.append(editor)

    lead = ""
    if clearly_below:
        lead += f", significantly above {_listed(clearly_below)}"
    if nearly_as_good:
        lead += f", but not significantly above {_listed(nearly_as_good)}"
    if has_rivals and not lead and not tied:
        lead = ", but no other editor was measured on the same edits"

    has = "share" if tied else "has"
    metric = f"the highest {best.metric}," if has_rivals else best.metric
    return f"{_listed([best.editor, *tied])} {has} {metric} {best.value} on {best.edits}{lead}."


def overall(groups: Sequence[Group]) -> str:
    """The verdict on all groups together: which editor is highest in how many of them."""
    if len(groups) == 1:
        return verdict(groups[0])

    wins: Counter[str] = Counter()
    for group in groups:
        if group.ranked and group.ranked[0].metric(group.headline).value:
            wins[group.ranked[0].editor] += 1
    if not wins:
        return "No editor is above 0 in any setting."
    won = ", ".join(f"{editor} in {times}" for editor, times in wins.most_common())
    metrics = " or ".join(dict.fromkeys(group.headline for group in groups))
    return f"Highest {metrics} in {len(groups)} settings: {won}."


def _listed(names: Sequence[str]) -> str:
    """Names as a phrase: "A, B and C", or "A, B and 4 others"."""
    shown = list(names)
    if len(names) > 3:
        shown = [*names[:2], f"{len(names) - 2} others"]
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
