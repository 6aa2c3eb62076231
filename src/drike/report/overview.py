"""What a report says first: what is missing, the best editor, the scores, and one edit before and after.

No sentence claims more than its interval allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from drike.datasets.generated import GENERATED
from drike.edits import Aspect
from drike.evaluation.judge import RULES
from drike.evaluation.metrics import Outcome
from drike.report.groups import BASELINE, UNEDITED, Group
from drike.report.reading import evaluate_again
from drike.report.tables import INTERVALS, PER_PROMPT, SCORES, aspects, cell
from drike.support.table import NOT_MEASURED, Cell, Table, as_text, counted

# On fewer edits no difference is claimed: of two equally good editors, one would win on all of five edits with a
# probability of 2 / 2**5, above 5 %.
MIN_EDITS = 6


def gaps(group: Group) -> Iterator[str]:
    """What was meant to be measured but is missing from the group's numbers."""
    for run in group.runs:
        if run.missing:
            lacks = f"{run.folder} has no outcomes of {', '.join(run.missing)}, which this report leaves out"
            yield f"Incomplete: {lacks}; to measure what is missing: {evaluate_again(run.folder)}"
        if 0 < len(run.episodes) < run.asked_episodes:
            done = f"{len(run.episodes)} of {run.asked_episodes} episodes"
            yield f"Incomplete: training stopped after {done} ({group.label}, seed {run.seed})."
    summaries = group.summaries.values()
    if absent := [name for name in SCORES if all(summary.metric(name).value is None for summary in summaries)]:
        missing = ", ".join(name for name in absent if name != "S")
        unjudged = any(outcome.correct is None for outcomes in group.outcomes.values() for outcome in outcomes)
        which = "no such probes that the rule can judge" if unjudged else "no such probes"
        yield f"Not measured: {missing}, as the test edits have {which}; S needs ESR, PC and RR ({group.label})."


def about(group: Group) -> str:
    """How many edits and seeds a group has, and what its intervals leave out."""
    seeds, cases = group.seeds(), max(summary.cases for summary in group.summaries.values())
    if len(seeds) > 1:
        return f"{group.label}: {cases} test edits, {len(seeds)} seeds; an edit tested under several counts once."
    beyond = "intervals do not include what another split or another initial head would change"
    return f"{group.label}: {cases} test edits, seed {seeds[0]}; {beyond}."


def verdict(group: Group) -> str:
    """Which editor is best, and whether its lead is more than chance."""
    metric, ranked = group.headline, group.ranked
    values = {editor: as_text(summary.metric(metric)) for editor, summary in group.summaries.items()}
    known = values.get(UNEDITED, NOT_MEASURED)
    if not ranked:
        only = f"Only the unedited model was measured: its {metric} is {known}."
        return "No answer of this run could be judged." if known == NOT_MEASURED else only
    best, *others = (summary.editor for summary in ranked)
    where = counted(ranked[0].cases, "test edit")
    if ranked[0].cases < MIN_EDITS:
        return f"{best} has {metric} {values[best]} on {where}, too few to tell editors apart."
    above = {other: _above(group, best, other) for other in (*others, *([] if known == NOT_MEASURED else [UNEDITED]))}
    if above.get(UNEDITED) is False:
        none = f"No editor is significantly better than the unedited model, whose {metric} is {known} on {where}"
        return f"{none}; the best is {best} with {values[best]}."
    clear, near = ([name for name in above if above[name] is significant] for significant in (True, False))
    has = f"{best} has the highest {metric}" if others else f"{best} has {metric}"
    lead = f", significantly above {_listed(clear)}" if clear else ""
    lead += f", but not significantly above {_listed(near)}" if near else ""
    alone = ", but no other editor was measured on the same edits" if others and not lead else ""
    return f"{has}{', ' if others else ' '}{values[best]} on {where}{lead}{alone}."


def overall(groups: Sequence[Group]) -> str:
    """The verdict on all groups together: which editor is highest in how many of them."""
    if len(groups) == 1:
        return verdict(groups[0])
    best = ((group.headline, group.ranked[0]) for group in groups if group.ranked)
    first = Counter(of.editor for metric, of in best if of.metric(metric).value)
    won = ", ".join(f"{editor} in {times}" for editor, times in first.most_common())
    metric = " or ".join(dict.fromkeys(group.headline for group in groups))
    return f"Highest {metric} in {len(groups)} settings: {won}." if won else "No editor is above 0 in any setting."


def tables(group: Group) -> list[Table]:
    """The scores, and the aspects that S does not count where they were asked."""
    judges = dict.fromkeys(run.settings.get("judge", "") for run in group.runs)  # older runs do not say
    meanings = " ".join(f"{name}: {meaning}." for name, meaning in SCORES.items())
    captions = (RULES[name].caption for name in judges if name in RULES)
    generated = [GENERATED] if any(run.settings.get("probes") == "all" for run in group.runs) else []
    further = aspects(list(group.summaries.values()), *generated)
    shown = [_scores(group, meanings, *captions, INTERVALS, PER_PROMPT)]
    return [*shown, replace(further, title=f"{further.title}, {group.label}")] if further else shown


def example(group: Group, editor: str) -> tuple[Outcome, str, str] | None:
    """An edit that took effect, of those with written answers: what the model says without and under the editor."""
    for run in group.runs:
        for outcome in run.outcomes.get(editor, ()):
            if outcome.aspect is Aspect.REWRITE and outcome.correct:
                answers = [run.written.get(name, {}).get(outcome.case_id) for name in (UNEDITED, editor)]
                before, after = (texts[0] if texts else None for texts in answers)  # the rewrite probe's
                if before is not None and after is not None:
                    return outcome, before.strip() or "(nothing)", after.strip()
    return None


def _scores(group: Group, *notes: str) -> Table:
    """The main scores of editors, their differences of the headline metric from the baseline, their costs."""
    metric = group.headline
    against = BASELINE if {BASELINE} < group.summaries.keys() - {UNEDITED} else ""
    header = ("Editor", *SCORES, *([f"{metric} minus {against}"] if against else []), "retains/prompt", "tokens/prompt")
    rows: list[tuple[Cell, ...]] = []
    for editor, summary in group.summaries.items():
        difference = group.difference(editor, against, metric) if editor != against else None
        differences: list[Cell] = [difference or NOT_MEASURED] if against else []
        costs = (cell(summary, "retains/prompt"), cell(summary, "tokens/prompt"))
        rows.append((editor, *(cell(summary, column) for column in SCORES), *differences, *costs))
    return Table(group.label, header, tuple(rows), notes)


def _listed(names: Sequence[str]) -> str:
    """Names as a phrase: "A, B and C", or "A, B and 4 others"."""
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} others"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _above(group: Group, ours: str, theirs: str) -> bool | None:
    """Whether an editor is significantly above another in the headline metric; None if that cannot be said."""
    difference = group.difference(ours, theirs, group.headline)
    return None if difference is None else difference.significant and (difference.estimate.value or 0) > 0
