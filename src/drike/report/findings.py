"""What a group's numbers say, in sentences with intervals: the best editor, its scores, cost and uncertainty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from drike.evaluation.metrics import Summary
from drike.report.groups import BASELINE, METHOD, UNEDITED, Group
from drike.report.reading import evaluate_again
from drike.report.tables import SCORES
from drike.support.table import Estimate, as_text, counted

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


def findings(group: Group) -> Iterator[str]:
    """The sentences a report begins with; none claims more than its interval allows."""
    seeds = group.seeds()
    cases = max(summary.cases for summary in group.summaries.values())
    yield f"{group.label}: {cases} test edits, {f'seed {seeds[0]}' if len(seeds) == 1 else f'{len(seeds)} seeds'}."
    yield verdict(group)
    if group.comparable(METHOD, BASELINE):
        yield _against_baseline(group)
    values = [summary.metric(group.headline) for summary in group.ranked]
    yield _uncertainty(cases, values, group.headline, len(seeds))


def verdict(group: Group) -> str:
    """Which editor is best, whether its lead is more than chance, and at what length of prompts."""
    metric, ranked = group.headline, group.ranked
    unedited = group.summaries.get(UNEDITED)
    known = "" if unedited is None or unedited.metric(metric).value is None else as_text(unedited.metric(metric))
    if not ranked:
        only = f"Only the unedited model was measured: its {metric} is {known}"
        edits = counted(unedited.cases, "test edit") if unedited else ""
        return f"{only} on {edits}." if known else "No answer of this run could be judged."
    best, *others = ranked
    where, value = counted(best.cases, "test edit"), as_text(best.metric(metric))
    if best.cases < MIN_EDITS:
        return f"{best.editor} has {metric} {value} on {where}, too few to tell editors apart."
    above_unedited = known and _above(group, best.editor, UNEDITED)
    if known and above_unedited is False:
        none = f"No editor is significantly better than the unedited model, whose {metric} is {known} on {where}"
        return f"{none}; the best is {best.editor} with {value}."
    if not others:
        beyond = f", significantly above the unedited model's {known}" if above_unedited else ""
        return f"{best.editor} reaches {metric} {value} on {where}{beyond}."
    level = [other.editor for other in others if other.metric(metric).value == best.metric(metric).value]
    rest = {other.editor: _above(group, best.editor, other.editor) for other in others if other.editor not in level}
    verb = f"share the highest {metric}" if level else f"has the highest {metric}"
    sentence = f"{listed([best.editor, *level])} {verb}, {value} on {where}{_length(group, best)}{_lead(rest)}"
    method = group.summaries.get(METHOD)
    if method in others and METHOD not in level and not best.editor.startswith(METHOD):
        below = {True: "significantly lower", False: "not significantly lower", None: "measured on other edits"}
        sentence += f"; {METHOD} has {as_text(method.metric(metric))}, {below[rest[METHOD]]}"
    return f"{sentence}."


def overall(groups: Sequence[Group]) -> str:
    """The verdict on all groups together: which editor is highest in how many of them, and how often significantly."""
    if len(groups) == 1:
        return verdict(groups[0])
    rankings = [(of, [summary.editor for summary in of.ranked if summary.metric(of.headline).value]) for of in groups]
    first = Counter(editors[0] for _, editors in rankings if editors)
    if not first:
        return "No editor makes an edit take effect in any of these settings."
    (winner, times), *others = first.most_common()
    clear = sum(bool(names[1:] and _above(group, *names[:2])) for group, names in rankings if winner in names[:1])
    metric = " or ".join(dict.fromkeys(group.headline for group in groups))
    also = f"; highest in the others: {listed([editor for editor, _ in others])}" if others else ""
    lead = f"significantly above the next editor in {clear or 'none'}"
    return f"{winner} has the highest {metric} in {times} of {len(groups)} settings, {lead}{also}."


def listed(names: Sequence[str]) -> str:
    """Names as a phrase: "A, B and C", or "A, B and 4 others"."""
    if len(names) > 3:
        return f"{', '.join(names[:2])} and {len(names) - 2} others"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _above(group: Group, ours: str, theirs: str) -> bool | None:
    """Whether an editor is significantly above another in the headline metric; None if that cannot be said."""
    difference = group.difference(ours, theirs, group.headline)
    return None if difference is None else difference.significant and (difference.estimate.value or 0) > 0


def _lead(rest: dict[str, bool | None]) -> str:
    """Which other editors the best one is significantly above, and which not; None: measured on other edits."""
    below = [name for name, above in rest.items() if above]
    near = [name for name, above in rest.items() if above is False]
    if rest and not below and not near:
        return ", but no other editor was measured on the same edits"
    count = f"{'' if near else 'all '}{len(below)} others{' on the same edits' if None in rest.values() else ''}"
    above = f", significantly above {listed(below) if len(below) < 3 else count}" if below else ""
    return f"{above}, but not significantly above {listed(near)}" if near else above


def _length(group: Group, best: Summary) -> str:
    """The best editor's prompt tokens as a share of those of the baseline."""
    baseline = group.summaries.get(BASELINE)
    if baseline is None or best.editor == BASELINE or best.prompt_tokens is None or not baseline.prompt_tokens:
        return ""
    return f" with {best.prompt_tokens / baseline.prompt_tokens:.0%} of {BASELINE}'s prompt tokens"


def _against_baseline(group: Group) -> str:
    in_words = []
    for name in SCORES:
        difference = group.difference(METHOD, BASELINE, name)
        if difference is not None and difference.estimate.value is not None:
            direction = "higher" if (difference.estimate.low or 0) > 0 else "lower"
            said = direction if difference.significant else "not significant"
            in_words.append(f"{name} {as_text(difference.estimate, signed=True)} ({said})")
    return f"{METHOD} minus {BASELINE} on the same edits: {', '.join(in_words)}."


def _uncertainty(cases: int, values: list[Estimate], metric: str, seeds: int) -> str:
    widths = [value.high - value.low for value in values if value.high is not None and value.low is not None]
    wide = f" With {cases} edits the interval of {metric} is up to {max(widths):.2f} wide." if widths else ""
    chance = (
        " There is one seed, so the intervals do not include what another split or another initial head would change."
        if seeds == 1 else " An edit tested under several seeds counts once."
    )  # fmt: skip
    return f"Uncertainty: brackets are 95 % intervals over edits.{wide}{chance}"
