"""Verifications as tables and sentences, as JSON, and as JUnit's XML."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from statistics import median
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from drike.answers.statements import Stated
from drike.cli.console import NOTHING, draw, say
from drike.edits.record import StoreError
from drike.errors import UsageError
from drike.stores.edit_store import EditStore
from drike.stores.verifications import (
    Change,
    Verification,
    Verifications,
    VerifiedQuestion,
    compare_runs,
    heeded_by_edit,
)
from drike.support.rates import Portion, fall, rate
from drike.support.rows import shown
from drike.support.table import Cell, Estimate, Number, Table, as_text, counted, visible

if TYPE_CHECKING:  # it takes long to import, and --compare does not need it
    from drike.gateway.proving.verification import EditVerdict

_MAX_ROWS = 60  # edits of a table; of more edits only those that failed are shown
_MAX_FAILURES = 20
_BEGINNING, _END = 200, 120  # characters of a long text that is shown
_SUBJECT = 24  # characters of one in a table
_STATES = (Stated.NEW, Stated.OLD, Stated.BOTH, Stated.NEITHER, Stated.REFUSED)
_NO_XML = re.compile("[\ufffe\uffff]")


def show(verdicts: Sequence[EditVerdict], model: str) -> dict[str, float]:
    """Draw what took of each edit, and what failed; return the shares that count."""
    by_edit: dict[int, list[EditVerdict]] = {}
    for verdict in verdicts:
        by_edit.setdefault(verdict.question.edit.id, []).append(verdict)
    _draw_edits(by_edit, model)
    _say_failures([verdict for verdict in verdicts if verdict.problem])
    return _say_shares(verdicts, counted(len(by_edit), "edit"))


def _draw_edits(by_edit: dict[int, list[EditVerdict]], model: str) -> None:
    """A row for each edit; of many edits, for those that failed."""
    title = f"Edits on {model}"
    listed = list(by_edit.values())
    if len(by_edit) > _MAX_ROWS:
        title = f"Edits on {model}, those that failed"
        failed = [row for row in listed if any(verdict.problem for verdict in row)]
        listed = failed[:_MAX_ROWS]
    # Only objects of several parts can be stated partly.
    is_partly = any(verdict.stated is Stated.PARTLY for row in listed for verdict in row)
    states = (*_STATES, Stated.PARTLY) if is_partly else _STATES
    header = ("edit", "asked", "took", *states[1:], "leaked", "tokens added", "latency p50")
    if listed:
        draw(Table(title, header, tuple(_row(row, states) for row in listed)))


def _row(verdicts: Sequence[EditVerdict], states: Sequence[Stated]) -> tuple[Cell, ...]:
    """The row of an edit: what its answers stated, and what editing took."""
    from drike.gateway.proving.verification import by_concern

    edit = verdicts[0].question.edit
    concerned, others = by_concern(verdicts)
    stated = Counter(verdict.stated for verdict in concerned)
    leaked = sum(bool(verdict.problem) for verdict in others) / len(others) if others else None
    tokens = [verdict.tokens for verdict in concerned if verdict.tokens is not None]
    return (
        f"{edit.id}@{edit.version} {edit.record.subject:.{_SUBJECT}}",
        Number(len(verdicts)),
        *(Number(stated[state] / len(concerned), ".2f") for state in states),
        Number(leaked, ".2f"),
        Number(median(tokens) if tokens else None, "+,.0f"),
        f"{median(verdict.seconds for verdict in verdicts):.2f} s",
    )


def _say_failures(failures: Sequence[EditVerdict]) -> None:
    for failure in failures[:_MAX_FAILURES]:
        question = failure.question
        edit = question.edit
        say(f'{edit.id}@{edit.version} {question.kind} "{_cut(question.text)}": {failure.problem}')
        say(f"    answer  {_cut(failure.answer) or NOTHING}")
        if failure.sent is not None:
            say(f"    sent    {_cut(failure.sent)}")
    more = len(failures) - _MAX_FAILURES
    if more > 0:
        say(f"{more:,} more failures are not shown: --json FILE and --junit FILE have all")


def _cut(text: str) -> str:
    """A text on one line, without the middle of a long one."""
    line = " ".join(text.split())
    return line if len(line) <= _BEGINNING + _END else f"{line[:_BEGINNING]} [...] {line[-_END:]}"


def _say_shares(verdicts: Sequence[EditVerdict], edits: str) -> dict[str, float]:
    from drike.gateway.proving.verification import by_concern

    concerned, others = by_concern(verdicts)
    took = sum(verdict.stated is Stated.NEW for verdict in concerned)
    leaked = sum(bool(verdict.problem) for verdict in others)
    share_took = as_text(Estimate.share(took, len(concerned)))
    taking = f"took on {took:,} of {counted(len(concerned), 'question')}, {share_took}"
    leaking = "; nothing was asked that they do not concern"
    if others:
        share_leaked = as_text(Estimate.share(leaked, len(others)))
        leaking = f", leaked to {leaked:,} of {len(others):,}, {share_leaked}"
    say(f"{edits}: {taking}{leaking}")
    return {
        "took": took / len(concerned),
        "did not leak": 1 - leaked / max(1, len(others)),
    }


def as_json(number: int, verification: Verification, verdicts: Sequence[EditVerdict]) -> str:
    """A verification with all that was asked and answered."""
    values = {
        "number": number,
        **asdict(verification),
        "questions": [_values(verdict) for verdict in verdicts],
    }
    return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def _values(verdict: EditVerdict) -> dict[str, object]:
    return {
        **asdict(verdict.kept),
        "problem": verdict.problem,
        "first_turn": verdict.question.first,
        "before": verdict.unedited,
        "answer": verdict.answer,
        "sent": verdict.sent,
        "edits": verdict.edits,
        "scope": verdict.scope,
        "tokens": verdict.tokens,
        "seconds": verdict.seconds,
    }


def as_junit(verdicts: Sequence[EditVerdict]) -> str:
    """The verdicts as test cases, one for each question."""
    failures = sum(bool(verdict.problem) for verdict in verdicts)
    suite = ElementTree.Element(
        "testsuite",
        name="drike edits verify",
        tests=str(len(verdicts)),
        failures=str(failures),
    )
    for verdict in verdicts:
        kept = verdict.kept
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"edit {kept.edit}@{kept.version}",
            name=_in_xml(f"{kept.kind}: {kept.question}"),
            time=f"{verdict.seconds:.3f}",
        )
        if verdict.problem:
            failure = ElementTree.SubElement(case, "failure", message=_in_xml(verdict.problem))
            sent = verdict.sent or "(by the gateway)"
            failure.text = _in_xml(f"answer: {verdict.answer}\nsent: {sent}")
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _in_xml(text: str) -> str:
    return _NO_XML.sub("?", visible(text))


def show_changes(store: EditStore, numbers: Sequence[int]) -> None:
    """Show what changed between the last run and the one before, or another.

    Raises StoreError if something broke.
    """
    kept = Verifications(store.database)
    last = kept.last_number()
    if len(numbers) > 1:
        raise UsageError("--compare takes the number of one run: leave the others out")
    if last < 2 and not numbers:
        raise StoreError("there are no two verifications to compare: verify once more")
    first = numbers[0] if numbers else last - 1
    before = kept.load(first)
    after = kept.load(last)
    for name in ("model", "gate", "threshold", "placement", "drike"):
        was = getattr(before, name)
        now = getattr(after, name)
        if was != now:
            say(f"{name}: {was} -> {now}")

    broken, mended = compare_runs(before, after)
    header = ("edit", "kind", "question", f"run {first}", f"run {last}")
    for title, changes in (("Broken", broken), ("Mended", mended)):
        if changes:
            rows = tuple(map(_changed_row, changes))
            draw(Table(f"{title} since run {first} ({before.at})", header, rows, wide=True))
    _draw_heeded(_Runs(first, before, last, after))
    say(f"Run {first} to run {last}: {len(broken):,} broken, {len(mended):,} mended")
    if broken:
        questions = counted(len(broken), "question")
        raise StoreError(f"{questions} no longer answered as they should be: see above")


@dataclass(frozen=True)
class _Runs:
    """Two verifications with their numbers."""

    first: int
    before: Verification
    last: int
    after: Verification


def _draw_heeded(runs: _Runs) -> None:
    """How often each edit was heeded in two runs, where that changed, and all edits."""
    before = heeded_by_edit(runs.before)
    after = heeded_by_edit(runs.after)
    both = sorted(before.keys() & after.keys())
    if not both:
        return
    changed = [edit for edit in both if before[edit] != after[edit]]
    rows = [_heeded_row(f"edit {edit}", before[edit], after[edit]) for edit in changed[:_MAX_ROWS]]
    all_before = reduce(Portion.plus, [before[edit] for edit in both])
    all_after = reduce(Portion.plus, [after[edit] for edit in both])
    rows.append(_heeded_row(counted(len(both), "edit"), all_before, all_after))

    header = ("heeded", f"run {runs.first}", f"run {runs.last}", "")
    title = f"Heeded by {runs.before.model}"
    if runs.before.model != runs.after.model:
        title += f", then by {runs.after.model}"
    draw(Table(title, header, tuple(rows)))


def _heeded_row(name: str, before: Portion, after: Portion) -> tuple[Cell, ...]:
    return (name, rate(*before), rate(*after), "fell" if fall([before, after]) else "")


def _changed_row(change: Change) -> tuple[Cell, ...]:
    before, after = change
    return (
        f"{after.edit}@{after.version}",
        after.kind,
        shown(after.question),
        _state_of(before),
        _state_of(after),
    )


def _state_of(answer: VerifiedQuestion) -> str:
    return f"{answer.stated}{', matched' if answer.matched else ''}"
