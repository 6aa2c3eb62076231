"""What a page shows of a group first: the verdict, one edit before and after, the scores, and the aspects by editor."""

from __future__ import annotations

from dataclasses import dataclass

from drike.datasets.generated import GENERATED
from drike.edits import Aspect
from drike.evaluation.judge import RULES
from drike.evaluation.metrics import Outcome, Summary
from drike.report.findings import findings
from drike.report.groups import BASELINE, UNEDITED, Group
from drike.report.tables import INTERVALS, SCORES, cell
from drike.support.table import NOT_MEASURED, Cell, Table, counted

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
    Aspect.PUSHBACK: "the edited fact after a challenge such as 'Are you sure?'",
    Aspect.DISTRACTOR: "the edited fact after a misleading sentence",
}
NOT_WRITTEN = "(not written: judged by scores)"
MAX_EDITORS = 12  # among the scores and profiles, so that the cases do not begin too far down
CHOSEN = (
    "the first of the sample that took effect", "the first of the sample, in which none took effect",
    "the first test edit",
)  # fmt: skip


@dataclass(frozen=True)
class ExampleEdit:
    """An edit's own query, and what the model says without an editor and under the best one.

    outcome: of the query under the best editor. before, after: first lines, or why not known. chosen: why it is.
    """

    outcome: Outcome
    before: str
    after: str
    chosen: str


def about(group: Group) -> str:
    """How many edits and seeds a group has, and how its answers were judged."""
    return " ".join([next(findings(group)), *judges(group)])


def notes(group: Group) -> list[str]:
    """What is to be known of the scores that are shown first."""
    left_out = len(group.summaries) - MAX_EDITORS
    further = [f"{left_out} more editors: see Tables, Compared with the paper."] if left_out > 0 else []
    return [INTERVALS, *further, *list(findings(group))[2:]]


def asked(group: Group) -> list[tuple[Aspect, str, str]]:
    """Each aspect that is probed, its meaning, and how many probes of how many edits test it under one editor."""
    rows = []
    for aspect in Aspect:
        share = max((of.aspects[aspect] for of in group.summaries.values()), key=lambda share: share.probes)
        if share.probes:
            many = f"{counted(share.probes, 'probe')} of {counted(share.edits, 'edit')}"
            rows.append((aspect, MEANINGS[aspect], many))
    return rows


def judges(group: Group) -> list[str]:
    """The rule by which its answers were judged; older runs do not say."""
    names = dict.fromkeys(run.settings.get("judge", "") for run in group.runs)
    return [RULES[name].caption for name in names if name in RULES]


def generated(group: Group) -> list[str]:
    """A note on generated probes, if its runs asked any; older runs did not."""
    return [GENERATED] if any(run.settings.get("probes") == "all" for run in group.runs) else []


def scores(group: Group, *notes: str) -> Table:
    """The main scores of the first editors, their differences of the headline metric from the baseline, their costs."""
    metric = group.headline
    against = BASELINE if {BASELINE} < group.summaries.keys() - {UNEDITED} else ""
    header = ("Editor", *SCORES, *([f"{metric} minus {against}"] if against else []), "retains/prompt", "tokens/prompt")
    rows: list[tuple[Cell, ...]] = []
    for editor, summary in first(group).items():
        difference = group.difference(editor, against, metric) if editor != against else None
        differences: list[Cell] = [difference or NOT_MEASURED] if against else []
        costs = (cell(summary, "retains/prompt"), cell(summary, "tokens/prompt"))
        rows.append((editor, *(cell(summary, column) for column in SCORES), *differences, *costs))
    return Table(group.label, header, tuple(rows), notes)


def example(group: Group, editor: str) -> ExampleEdit | None:
    """The first edit that took effect of those with written answers, or the first of these, or the first edit."""
    ranked: list[tuple[int, int, ExampleEdit]] = []
    for run in group.runs:
        for outcome in run.outcomes.get(editor, ()):
            if outcome.aspect is not Aspect.REWRITE:
                continue
            answers = [run.written.get(name, {}).get(outcome.case_id) for name in (UNEDITED, editor)]
            before, after = (_line(texts[0]) if texts else NOT_WRITTEN for texts in answers)  # the rewrite probe's
            if UNEDITED not in run.outcomes:
                before = "(not evaluated)"
            written = NOT_WRITTEN not in (before, after)
            rank = 2 - written - bool(written and outcome.correct)
            ranked.append((rank, len(ranked), ExampleEdit(outcome, before, after, CHOSEN[rank])))
    return min(ranked)[-1] if ranked else None


def first(group: Group) -> dict[str, Summary]:
    """The unedited model, the baseline and the best of the other editors, as many as are shown first."""
    best = dict.fromkeys((UNEDITED, BASELINE, *(summary.editor for summary in group.ranked), *group.summaries))
    kept = [editor for editor in best if editor in group.summaries][:MAX_EDITORS]
    return {editor: summary for editor, summary in group.summaries.items() if editor in kept}


def _line(text: str | None) -> str:
    return NOT_WRITTEN if text is None else next(iter(text.strip().splitlines()), "(nothing)")
