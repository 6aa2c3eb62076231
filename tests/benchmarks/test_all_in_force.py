"""Many edits at once: the order in which they were stored changes nothing, and nothing is left once they are retired."""

from __future__ import annotations

import pytest

from benchmarks.all_in_force import Stored, after_retiring, in_order, prompts_in, show_series
from drike.gates.by_name import Named
from drike.prompts import Prompt
from drike.research.datasets import TINYFACTS, load
from drike.research.deployment.simulated_stores import SimulatedStores


def of_tinyfacts(rows: int = 30) -> Stored:
    cases = load(TINYFACTS).cases[:rows]
    stores = SimulatedStores([case.edit for case in cases])
    edits = [version.record.edit for version in stores.whole.edits.values()]
    return Stored(rows, edits, stores, Named(), None, cases[:3])


def test_another_order_gives_the_same_prompts() -> None:
    stored = of_tinyfacts()
    queries = [case.edit.query for case in stored.cases]
    first = prompts_in(stored.stores.whole, stored.gate, queries)
    assert all(prompt != Prompt(query) for prompt, query in zip(first, queries, strict=True))
    ids = [edit.id for edit in in_order(stored, 1).edits.values()]
    facts = [edit.record.fact for _, edit in sorted(in_order(stored, 1).edits.items())]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    assert facts != [edit.record.fact for _, edit in sorted(stored.stores.whole.edits.items())]
    assert prompts_in(in_order(stored, 1), stored.gate, queries) == first


def test_retired_edits_leave_every_query_as_it_is() -> None:
    stored = of_tinyfacts()
    queries = [case.edit.query for case in stored.cases]
    left, before = after_retiring(stored, queries)
    assert left == 0
    assert before == prompts_in(stored.stores.whole, stored.gate, queries)


def test_the_series_prints_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    show_series(of_tinyfacts(), 2)
    assert "prompts that differ in any of 2 orders | 0" in capsys.readouterr().out
