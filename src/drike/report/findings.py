"""What the numbers of a group say, in sentences, each with its interval: which editor, how good, how dear, how sure."""

from __future__ import annotations

from collections.abc import Iterator

from drike.metrics import METRICS, Estimate, paired_difference, paired_differences
from drike.report.measured import BASELINE, METHOD, UNEDITED, Group
from drike.report.tables import has_0, shown


def findings(group: Group) -> Iterator[str]:
    """The sentences a report begins with; none says more than its interval allows."""
    seeds = group.seeds()
    cases = max(one.cases for one in group.summaries.values())
    over = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    yield f"{group.label}: {cases} test edits, {over}."
    ranked = sorted(
        ((one.s, name) for name, one in group.summaries.items() if name != UNEDITED and one.s.value is not None),
        key=lambda pair: -(pair[0].value or 0),
    )
    if ranked:
        s, best = ranked[0]
        rest = f", {_lead(group, ranked[0], ranked[1])} {ranked[1][1]}'s {shown(ranked[1][0])}" if ranked[1:] else ""
        yield f"Best S: {best}'s {shown(s)}{rest}."
    else:
        yield "S is n/a: it needs ESR, PC and RR, and one of them was not measured."
    if group.comparable(METHOD, BASELINE):
        yield _against(group)
        yield _tokens(group)
    widest = max((s.high - s.low for s, _ in ranked if s.high is not None and s.low is not None), default=None)
    sure = "" if widest is None else f" With {cases} edits the interval of S is up to {widest:.2f} wide."
    chance = (
        " One seed: what another split or another start of the head would change is not in it."
        if len(seeds) == 1 else " An edit that several seeds test counts as one."
    )  # fmt: skip
    yield f"How sure: brackets are 95 % bootstrap intervals over edits.{sure}{chance}"


def _lead(group: Group, first: tuple[Estimate, str], second: tuple[Estimate, str]) -> str:
    """How the best stands to the next, by their difference on the same edits."""
    (best, ours), (next_best, theirs) = first, second
    if f"{best.value:.3f}" == f"{next_best.value:.3f}":
        return "level with"
    if not group.comparable(ours, theirs):
        return "on other edits than"
    difference = paired_difference(group.outcomes[ours], group.outcomes[theirs], METRICS["S"])
    return "not told apart from" if has_0(difference) else "before"


def _against(group: Group) -> str:
    """DR-IKE minus IKE, metric by metric, in words."""
    compared = paired_differences(
        group.outcomes[METHOD], group.outcomes[BASELINE], {name: METRICS[name] for name in ("S", "ESR", "PC", "RR")}
    )
    told = [
        f"{name} {shown(one, signed=True)} ({_verdict(one)})" for name, one in compared.items() if one.value is not None
    ]
    return f"{METHOD} minus {BASELINE} on the same edits: {', '.join(told)}."


def _verdict(one: Estimate) -> str:
    if has_0(one):
        return "not told apart"
    return "higher" if (one.low or 0) > 0 else "lower"


def _tokens(group: Group) -> str:
    ours, theirs = group.summaries[METHOD], group.summaries[BASELINE]
    told = f"{METHOD} shows {ours.shots:.2f} retains where {BASELINE} shows {theirs.shots:.2f}"
    if ours.prompt_tokens is None or not theirs.prompt_tokens:
        return f"{told}."
    change = 1 - ours.prompt_tokens / theirs.prompt_tokens
    return (
        f"{told}, and its prompts have {ours.prompt_tokens:.0f} tokens against {theirs.prompt_tokens:.0f} "
        f"({abs(change):.0%} {'fewer' if change >= 0 else 'more'})."
    )
