"""What a group's numbers say, in sentences with intervals: the best editor, its scores, cost and uncertainty."""

from __future__ import annotations

from collections.abc import Iterator

from drike.metrics import Estimate, paired_differences
from drike.report.groups import BASELINE, METHOD, UNEDITED, Group
from drike.report.reading import evaluate_again
from drike.report.tables import SCORES, has_0, shown


def gaps(group: Group) -> Iterator[str]:
    """What was to be measured and is not in the group's numbers."""
    for run in group.runs:
        if run.missing:
            yield (
                f"Incomplete: {run.folder} has no outcomes of {', '.join(run.missing)}, which this report leaves out; "
                f"to measure what is missing: {evaluate_again(run.folder)}"
            )
        if 0 < len(run.steps) < run.asked_episodes:
            done = f"{len(run.steps)} of {run.asked_episodes} episodes"
            yield f"Incomplete: training stopped after {done} ({group.label}, seed {run.seed})."
    summaries = group.summaries.values()
    if absent := [name for name in SCORES if all(one.metric(name).value is None for one in summaries)]:
        missing = ", ".join(name for name in absent if name != "S")
        yield f"Not measured: {missing}, as the test edits have no such probes; S needs ESR, PC and RR ({group.label})."


def findings(group: Group) -> Iterator[str]:
    """The sentences a report begins with; none claims more than its interval allows."""
    seeds = group.seeds()
    cases = max(one.cases for one in group.summaries.values())
    yield f"{group.label}: {cases} test edits, {f'seed {seeds[0]}' if len(seeds) == 1 else f'{len(seeds)} seeds'}."
    ranked = sorted(
        ((one.s, name) for name, one in group.summaries.items() if name != UNEDITED and one.s.value is not None),
        key=lambda pair: -(pair[0].value or 0),
    )
    if ranked:
        (s, best), *others = ranked
        second = "".join(f", {_lead(group, best, name)} {name} with {shown(one)}" for one, name in others[:1])
        yield f"Best S: {best} with {shown(s)}{second}."
    if group.comparable(METHOD, BASELINE):
        yield _against_baseline(group)
        yield _prompt_sizes(group)
    yield _uncertainty(cases, [one for one, _ in ranked], len(seeds))


def _lead(group: Group, ours: str, theirs: str) -> str:
    """How the best editor compares with the next, by their difference on the same edits."""
    if f"{group.summaries[ours].s.value:.3f}" == f"{group.summaries[theirs].s.value:.3f}":
        return "equal to"
    if not group.comparable(ours, theirs):
        return "on other edits than"
    difference = paired_differences(group.counts[ours], group.counts[theirs])["S"]
    return "not significantly above" if has_0(difference) else "significantly above"


def _against_baseline(group: Group) -> str:
    """DR-IKE minus IKE, metric by metric, in words."""
    compared = paired_differences(group.counts[METHOD], group.counts[BASELINE])
    parts = [
        f"{name} {shown(one, signed=True)} "
        f"({'not significant' if has_0(one) else 'higher' if (one.low or 0) > 0 else 'lower'})"
        for name in SCORES if (one := compared[name]).value is not None
    ]  # fmt: skip
    return f"{METHOD} minus {BASELINE} on the same edits: {', '.join(parts)}."


def _prompt_sizes(group: Group) -> str:
    ours, theirs = group.summaries[METHOD], group.summaries[BASELINE]
    retains = f"{METHOD}'s prompts hold {ours.shots:.2f} retains on average, {BASELINE}'s {theirs.shots:.2f}"
    if ours.prompt_tokens is None or not theirs.prompt_tokens:
        return f"{retains}."
    change = 1 - ours.prompt_tokens / theirs.prompt_tokens
    return (
        f"{retains}; they have {ours.prompt_tokens:.0f} and {theirs.prompt_tokens:.0f} tokens "
        f"({abs(change):.0%} {'fewer' if change >= 0 else 'more'})."
    )


def _uncertainty(cases: int, of_s: list[Estimate], seeds: int) -> str:
    widths = [s.high - s.low for s in of_s if s.high is not None and s.low is not None]
    wide = f" With {cases} edits the interval of S is up to {max(widths):.2f} wide." if widths else ""
    chance = (
        " There is one seed, so the intervals do not include what another split or another initial head would change."
        if seeds == 1 else " An edit that several seeds test counts as one."
    )  # fmt: skip
    return f"Uncertainty: brackets are 95 % bootstrap intervals over edits.{wide}{chance}"
