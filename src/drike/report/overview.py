"""What a page shows of a group first: the verdict, one edit before and after, the scores, and the aspects by editor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drike.datasets.generated import GENERATED
from drike.edits import Aspect
from drike.evaluation.judge import RULES
from drike.evaluation.metrics import Estimate, Share, Summary
from drike.report.figures import Figure, pareto
from drike.report.findings import findings, listed, verdict
from drike.report.groups import BASELINE, UNEDITED, Group
from drike.report.tables import INTERVALS, SCORES, cell, shown, starred
from drike.support.table import Table

MEANINGS = {
    Aspect.REWRITE: "the edit's own query (ESR)",
    Aspect.PARAPHRASE: "the edited fact in other words (PC)",
    Aspect.NEIGHBORHOOD: "a fact about another subject, which must stay (RR)",
    Aspect.SAME_SUBJECT: "another fact about the edited subject, which must stay",
    Aspect.ALIAS: "the edited fact with the subject under another name",
    Aspect.YES_NO: "the edited fact as a question answered yes or no",
    Aspect.CHOICE: "the edited fact as one of several options",
    Aspect.REVERSE: "the subject, asked for by the new object",
    Aspect.MULTI_HOP: "a fact that follows from the edit and others",
    Aspect.PUSHBACK: "the edited fact after a doubt",
    Aspect.DISTRACTOR: "the edited fact after a misleading sentence",
}
NOT_WRITTEN = "(not written: judged by scores)"
MOST = 12  # editors among the scores and profiles, so that the cases do not begin too far down
CHOSEN = (
    "the first of the sample that took", "the first of the sample, in which no edit took", "the first test edit",
)  # fmt: skip


@dataclass(frozen=True)
class Example:
    """An edit's own query, and what the model says without and under the best editor; why not, if that is not known."""

    case_id: str
    query: str
    old: str | None
    new: str
    editor: str
    before: str
    after: str
    took: bool | None
    chosen: str


@dataclass(frozen=True)
class Profile:
    """The share of right answers of an editor in each aspect that any editor was asked; the lowest in words."""

    editor: str
    best: bool
    shares: Mapping[Aspect, Share]
    lowest: str


@dataclass(frozen=True)
class Overview:
    """What stands above a group's tables. metrics: of the best editor, with their meanings."""

    label: str
    verdict: str
    about: str
    metrics: tuple[tuple[str, str, str], ...]
    best: str
    example: Example | None
    chart: Figure | None
    scores: Table
    notes: tuple[str, ...]
    asked: tuple[tuple[Aspect, str, str], ...]
    profiles: tuple[Profile, ...]
    weakest: str


def overview(group: Group) -> Overview:
    """The overview of a group."""
    summaries, ranked = list(group.summaries.values()), group.ranked
    best = ranked[0] if ranked else summaries[0]
    about, _, *notes = findings(group)
    asked = [aspect for aspect in Aspect if any(one.aspects[aspect].probes for one in summaries)]
    most = {aspect: max((one.aspects[aspect] for one in summaries), key=lambda share: share.probes) for aspect in asked}
    counts = {aspect: f"{_count(of.probes, 'probe')} of {_count(of.edits, 'edit')}" for aspect, of in most.items()}
    return Overview(
        group.label,
        verdict(group),
        " ".join([about, *judges(group)]),
        tuple((name, shown(best.metric(name)), meaning) for name, meaning in SCORES.items()),
        best.editor,
        example(group, best.editor) if ranked else None,
        pareto(group),
        scores(group),
        (
            INTERVALS,
            *([f"{left} more editors: see Tables, Beside the paper."] if (left := len(summaries) - MOST) > 0 else ()),
            *notes,
        ),
        tuple((aspect, MEANINGS[aspect], counts[aspect]) for aspect in asked),
        tuple(
            Profile(one.editor, one is best, {a: one.aspects[a] for a in asked}, _lowest_words(one, asked))
            for one in _first(group).values()
        ),
        " ".join([_weakest(group, best, asked), *generated(group)]),
    )


def judges(group: Group) -> list[str]:
    """The rule by which its answers were judged; older runs do not say."""
    names = dict.fromkeys(run.settings.get("judge", "") for run in group.runs)
    return [RULES[name].caption for name in names if name in RULES]


def generated(group: Group) -> list[str]:
    """A note on generated probes, if its runs asked any; older runs did not."""
    return [GENERATED] if any(run.settings.get("probes") == "all" for run in group.runs) else []


def scores(group: Group) -> Table:
    """The main scores of every editor, with the difference of the headline metric from the baseline, and its cost."""
    metric = group.headline
    against = BASELINE if {BASELINE} < group.summaries.keys() - {UNEDITED} else ""
    header = ("Editor", *SCORES, *([f"{metric} minus {against}"] if against else []), "retains/prompt", "tokens/prompt")
    rows = []
    for name, one in _first(group).items():
        difference = (group.difference(name, against, metric) or Estimate(None)) if name != against else Estimate(None)
        apart = [starred(difference)] if against else []
        costs = (cell(one, "retains/prompt"), cell(one, "tokens/prompt"))
        rows.append((name, *(cell(one, column) for column in SCORES), *apart, *costs))
    return Table(group.label, header, tuple(rows))


def example(group: Group, editor: str) -> Example | None:
    """The first edit that took of those whose answers were written, or the first with an answer, or the first edit."""
    found: list[tuple[int, int, Example]] = []
    for run in group.runs:
        for one in run.outcomes.get(editor, ()):
            if one.aspect is not Aspect.REWRITE:
                continue
            answers = [run.written.get(name, {}).get(one.case_id) for name in (UNEDITED, editor)]
            before, after = (_line(texts[0]) if texts else NOT_WRITTEN for texts in answers)  # the rewrite probe's
            if UNEDITED not in run.outcomes:
                before = "(not evaluated)"
            written = NOT_WRITTEN not in (before, after)
            rank = 2 - written - bool(written and one.correct)
            made = Example(
                one.case_id, one.query, one.distractor, one.target, editor, before, after, one.correct, CHOSEN[rank]
            )
            found.append((rank, len(found), made))
    return min(found)[-1] if found else None


def _first(group: Group) -> dict[str, Summary]:
    """The unedited model, the baseline and the best of the other editors, as many as are shown first."""
    best = dict.fromkeys((UNEDITED, BASELINE, *(one.editor for one in group.ranked), *group.summaries))
    kept = [name for name in best if name in group.summaries][:MOST]
    return {name: one for name, one in group.summaries.items() if name in kept}


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _line(text: str | None) -> str:
    """The first line of an answer."""
    return NOT_WRITTEN if text is None else next(iter(text.strip().splitlines()), "(nothing)")


def _lowest(one: Summary) -> tuple[float, list[Aspect]]:
    """The editor's lowest share, and the aspects that have it; 1 and none where nothing was measured."""
    values = [(value, aspect) for aspect in Aspect if (value := one.aspects[aspect].estimate.value) is not None]
    least = min((value for value, _ in values), default=1.0)
    return least, [aspect for value, aspect in values if value == least]


def _lowest_words(one: Summary, asked: Sequence[Aspect]) -> str:
    least, aspects = _lowest(one)
    if len(asked) < 2 or not aspects:
        return ""
    return f"Lowest: {listed(aspects)}" if len(aspects) < 3 else f"Lowest: {len(aspects)} aspects at {least:.3f}"


def _weakest(group: Group, best: Summary, asked: Sequence[Aspect]) -> str:
    """The lowest share of the best editor, and of all editors, with intervals."""
    least, aspects = _lowest(best)
    if len(asked) < 2 or not aspects:
        return ""
    what = f"{aspects[0]}, {MEANINGS[aspects[0]]}" if len(aspects) == 1 else listed(aspects)
    sentence = f"{best.editor} is weakest in {what}: {shown(best.aspects[aspects[0]].estimate)}."
    other = min(group.ranked, key=lambda one: _lowest(one)[0], default=best)
    if _lowest(other)[0] >= least:
        return f"{sentence} No editor has a lower share in any aspect."
    lowest = _lowest(other)[1][0]
    value = shown(other.aspects[lowest].estimate)
    return f"{sentence} The lowest share of any editor is {other.editor}'s in {lowest}: {value}."
