"""What the numbers of a group say, in sentences, each with its interval: which editor, how good, how dear, how sure."""

from __future__ import annotations

from collections.abc import Iterator

from drike.metrics import METRICS, Estimate, paired_differences
from drike.report.measured import BASELINE, METHOD, UNEDITED, Group
from drike.report.tables import shown


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
        rest = f", before {ranked[1][1]}'s {shown(ranked[1][0])}" if len(ranked) > 1 else ""
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
    if one.low is None or one.high is None or one.low <= 0 <= one.high:
        return "not told apart"
    return "higher" if one.low > 0 else "lower"


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
