"""What a verification shows: tables, failures, JSON, JUnit's XML, and what changed between two."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from drike.cli.console import NOTHING, draw, say
from drike.datasets.rows import shown
from drike.errors import UsageError
from drike.stated import Stated
from drike.stores import verifications
from drike.stores.log import EditStore
from drike.stores.records import StoreError
from drike.stores.verifications import VerifiedQuestion
from drike.support.escape import visible
from drike.support.table import Cell, Estimate, Number, Table, as_text, counted

if TYPE_CHECKING:  # it takes long to import
    from drike.serving.verifying import EditOutcome

_MAX_ROWS, _MAX_FAILURES = 60, 20  # edits of a table, and failures; of more edits only those that failed are shown
_BEGINNING, _END = 200, 120  # characters of a long text that is shown
_SUBJECT = 24  # characters of one in a table


def show(outcomes: Sequence[EditOutcome], model: str) -> dict[str, float]:
    """Draw what took of each edit, and what failed; return the shares that count."""
    by_edit: dict[int, list[EditOutcome]] = {}
    for outcome in outcomes:
        by_edit.setdefault(outcome.question.edit.id, []).append(outcome)
    failures = [outcome for outcome in outcomes if outcome.problem]
    failed = dict.fromkeys(outcome.question.edit.id for outcome in failures)
    many = len(by_edit) > _MAX_ROWS
    listed = [by_edit[id] for id in (list(failed)[:_MAX_ROWS] if many else by_edit)]
    header = ("edit", "asked", "took", "old", "both", "neither", "refused", "leaked", "tokens added", "latency p50")
    if listed:
        draw(Table(f"Edits on {model}{', those that failed' * many}", header, tuple(map(_row, listed))))
    for failure in failures[:_MAX_FAILURES]:
        question, edit = failure.question, failure.question.edit
        say(f'{edit.id}@{edit.version} {question.kind} "{_cut(question.text)}": {failure.problem}')
        say(f"    answer  {_cut(failure.answer) or NOTHING}")
        if failure.sent is not None:
            say(f"    sent    {_cut(failure.sent)}")
    if len(failures) > _MAX_FAILURES:
        say(f"{len(failures) - _MAX_FAILURES:,} more failures are not shown: --json FILE and --junit FILE have all")
    from drike.serving.verifying import by_concern

    concerned, others = by_concern(outcomes)
    took, leaked = sum(o.stated is Stated.NEW for o in concerned), sum(bool(o.problem) for o in others)
    leaks = f", leaked to {leaked:,} of {len(others):,}, {as_text(Estimate.share(leaked, len(others)))}"
    share = as_text(Estimate.share(took, len(concerned)))
    about = f"{counted(len(by_edit), 'edit')}: took on {took:,} of {counted(len(concerned), 'question')}, {share}"
    say(about + (leaks if others else "; nothing was asked that they do not concern"))
    return {"took": took / len(concerned), "did not leak": 1 - leaked / max(1, len(others))}


def _row(outcomes: Sequence[EditOutcome]) -> tuple[Cell, ...]:
    from drike.serving.verifying import by_concern

    edit, (concerned, others) = outcomes[0].question.edit, by_concern(outcomes)
    stated = Counter(outcome.stated for outcome in concerned)
    states = (Stated.NEW, Stated.OLD, Stated.BOTH, Stated.NEITHER, Stated.REFUSED)
    shares = [stated[state] / len(concerned) for state in states]
    leaked = sum(bool(outcome.problem) for outcome in others) / len(others) if others else None
    tokens = [outcome.tokens for outcome in concerned if outcome.tokens is not None]
    seconds = median(outcome.seconds for outcome in outcomes)
    numbers = [Number(share, ".2f") for share in (*shares, leaked)]
    name = f"{edit.id}@{edit.version} {edit.record.subject:.{_SUBJECT}}"
    return (
        name,
        Number(len(outcomes)),
        *numbers,
        Number(median(tokens) if tokens else None, "+,.0f"),
        f"{seconds:.2f} s",
    )


def _cut(text: str) -> str:
    """A text on one line, without the middle of a long one."""
    line = " ".join(text.split())
    return line if len(line) <= _BEGINNING + _END else f"{line[:_BEGINNING]} [...] {line[-_END:]}"


def values_of(outcome: EditOutcome) -> dict[str, object]:
    """An outcome as JSON has it."""
    more = {"problem": outcome.problem, "first_turn": outcome.question.first, "before": outcome.unedited}
    kept = {name: getattr(outcome, name) for name in ("answer", "sent", "edits", "scope", "tokens", "seconds")}
    return {**asdict(outcome.kept), **more, **kept}


def junit_of(outcomes: Sequence[EditOutcome]) -> str:
    """The outcomes as a test suite of JUnit."""
    failures = str(sum(bool(outcome.problem) for outcome in outcomes))
    suite = ElementTree.Element("testsuite", name="drike edits verify", tests=str(len(outcomes)), failures=failures)
    for outcome in outcomes:
        kept, seconds = outcome.kept, f"{outcome.seconds:.3f}"
        name, edit = _in_xml(f"{kept.kind}: {kept.question}"), f"edit {kept.edit}@{kept.version}"
        case = ElementTree.SubElement(suite, "testcase", classname=edit, name=name, time=seconds)
        if outcome.problem:
            failure = ElementTree.SubElement(case, "failure", message=_in_xml(outcome.problem))
            failure.text = _in_xml(f"answer: {outcome.answer}\nsent: {outcome.sent or '(by the gateway)'}")
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _in_xml(text: str) -> str:
    return re.sub("[\ufffe\uffff]", "?", visible(text))


def compare_runs(store: EditStore, numbers: Sequence[int]) -> None:
    """Show what changed between the last run and the one before, or another. Raises StoreError if something broke."""
    last = verifications.last_number(store)
    if len(numbers) > 1:
        raise UsageError("--compare takes the number of one run: leave the others out")
    first = numbers[0] if numbers else last - 1
    before, after = (verifications.saved(store, number) for number in (first, last))
    for name in ("model", "gate", "threshold", "placement", "drike"):
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            say(f"{name}: {was} -> {now}")
    broken, mended = verifications.compare(before, after)
    header = ("edit", "kind", "question", f"run {first}", f"run {last}")
    for title, changes in (("Broken", broken), ("Mended", mended)):
        rows = tuple((f"{a.edit}@{a.version}", a.kind, shown(a.question), _said(b), _said(a)) for b, a in changes)
        if rows:
            draw(Table(f"{title} since run {first} ({before.at})", header, rows, wide=True))
    say(f"Run {first} to run {last}: {len(broken):,} broken, {len(mended):,} mended")
    if broken:
        raise StoreError(f"{counted(len(broken), 'question')} no longer answered as they should be: see above")


def _said(answer: VerifiedQuestion) -> str:
    return f"{answer.stated}{', matched' if answer.matched else ''}"


def since_the_one_before(store: EditStore, number: int) -> str:
    """What a run changed since the one before, in words."""
    if number == 1:
        return ""
    broken, mended = verifications.compare(*(verifications.saved(store, n) for n in (number - 1, number)))
    return f"; since {number - 1}: {len(broken):,} broken, {len(mended):,} mended (drike edits verify --compare)"
