"""The paper's tables, with measured rows above the published ones."""

from __future__ import annotations

from drike.research.report.groups import grouped
from drike.research.report.paper import by_model, paper_tables
from drike.support.table import as_text
from tests.fakes.reports import run_of


def test_a_table_of_the_paper_appears_if_the_runs_have_a_counterpart() -> None:
    def numbers(*runs):  # type: ignore[no-untyped-def]
        return [int(table.title.split()[1]) for table in paper_tables(grouped(runs))]

    assert numbers(run_of(0, editors=["IKE", "DR-IKE"])) == [1]
    assert numbers(run_of(0)) == [1, 2]
    assert numbers(run_of(0), run_of(0, model="another")) == [1, 2, 3]
    assert numbers(run_of(0, editors=["IKE", "DR-IKE"], scores=False)) == [1, 4]
    assert numbers(run_of(0, data="zsre_eval", editors=["IKE"])) == [1, 5]
    assert numbers(run_of(0, data="temporal", editors=["IKE"])) == [1, 8]


def test_runs_of_several_models_give_table_3_with_s_and_intervals() -> None:
    groups = grouped([run_of(0), run_of(0, model="another"), run_of(1, model="another")])
    table = by_model(groups)
    assert table is not None and table.header == ("Model", "ESR", "PC", "RR", "S")
    headings = [row[0] for row in table.rows if len(row) == 1]
    assert headings == [
        "Measured: DR-IKE, Lands",
        "Measured: IKE, Lands",
        "Published: DR-IKE, CounterFact",
    ]
    for at, editor in ((1, "DR-IKE"), (4, "IKE")):
        for row, group in zip(table.rows[at : at + 2], groups, strict=True):
            summary = group.summaries[editor]
            assert row == (group.model, summary.esr, summary.pc, summary.rr, summary.s)
    assert tuple(map(as_text, table.rows[7])) == (
        "Llama 3.1 (8B)",
        "0.89",
        "0.81",
        "0.66",
        "0.775",
    ), "S as in the paper's Table 1"
    assert len(table.rows) == 13 and by_model(groups[:1]) is None


def test_models_that_differ_in_another_setting_keep_their_full_labels_in_table_3() -> None:
    runs = [run_of(0, model=name, budget=budget) for name in ("a", "b") for budget in ("x", "y")]
    table = by_model(grouped(runs, ["budget"]))
    assert table is not None
    assert [row[0] for row in table.rows[1:5]] == [
        f"{m}, Lands, budget {b}" for m in ("a", "b") for b in ("x", "y")
    ]
