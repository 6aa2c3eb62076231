"""Reports: published values, which runs can share a table, and pages, Markdown and LaTeX that escape all text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from commands import run as cli
from drike.cli import console as showing
from drike.edits import Aspect
from drike.encoders import HashingEncoder
from drike.errors import ReportError, RunError
from drike.metrics import METRICS, Estimate, counted, paired_difference, paired_differences, summarise
from drike.models.protocols import Usage
from drike.report.cases import as_script, packed
from drike.report.comparison import by_model, counterparts
from drike.report.document import document, latex, markdown
from drike.report.figures import intervals, pareto
from drike.report.findings import findings
from drike.report.groups import grouped
from drike.report.latex import as_latex, escaped
from drike.report.page import html
from drike.report.paper import TABLES
from drike.report.reading import read_runs
from drike.report.tables import shown, starred, work
from drike.report.variants import distribution_of, distribution_table
from drike.retrieval.learned_budget import Controller
from drike.runs import checkpoint
from drike.table import Table, as_markdown
from drike.visible import visible
from reports import QUALITY, Page, run_of

PAPER = Path(__file__).parents[2] / "shared" / "paper" / "dr-ike.tex"
HOSTILE = "</script><img src=x onerror=alert(1)><!-- \"'`| %$&_{}\\ #~^ *a* [b](http://c) ]]> \u2028 \ud800"


# -- published values --


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.label)
def test_published_numbers_are_those_printed_in_the_paper(table) -> None:  # type: ignore[no-untyped-def]
    source = PAPER.read_text("utf-8")
    [body] = [b for b in re.findall(r"\\begin\{tabular\}.*?\\label\{[^}]*\}", source, re.DOTALL) if table.label in b]
    body = re.sub(r"\\makecell(\[l\])?\{([^}]*)\}", lambda m: m[2].replace(r"\\", " "), body.split("\\caption")[0])
    printed, heading = [], ""
    for line in re.sub(r"\\(textbf|underline|textsc)\s*\{([^{}]*)\}", r"\2", body).replace("\\%", "%").split(r"\\"):
        cells = [" ".join(cell.split()) for cell in re.sub(r"\\hline|\\end\{tabular\}", "", line).split("&")]
        if "multicolumn" in cells[0]:
            heading = re.findall(r"\{([^{}]*)\}", cells[0])[-1]
        elif len(cells) > 1 and re.fullmatch(r"-?[\d.]+|--|0|20M|49M", cells[-1]):
            numbers = [None if cell == "--" else cell for cell in cells[1:]]
            extra = numbers.pop(0) if table.number == 1 else ""
            printed.append((heading, cells[0].removesuffix(" (Ours)"), extra, [n and float(n) for n in numbers]))
    assert len(printed) == len(table.rows)
    for (heading, name, extra, numbers), row in zip(printed, table.rows, strict=True):
        assert numbers == [row.value(column) for column in table.columns]
        assert extra == row.extra_parameters
        assert heading in ("", row.model, row.data)
        label = row.variant or (row.model if table.number == 3 else row.editor)
        assert re.sub(r"\W|sigma", "", label) == re.sub(r"\W|sigma", "", name.replace(r"$\sigma$", ""))


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_all_tables_of_the_paper_are_included() -> None:
    assert re.findall(r"\\label\{(tab:[^}]*)\}", PAPER.read_text("utf-8")) == [table.label for table in TABLES]


# -- which runs can share a table --


def test_seeds_are_pooled_and_models_are_rows() -> None:
    one, two, other = run_of(0), run_of(1), run_of(0, model="another")
    groups = grouped([one, two, other])
    assert [(group.model, group.seeds()) for group in groups] == [("some-model", (0, 1)), ("another", (0,))]
    pooled = groups[0].summaries["IKE"]
    assert pooled == summarise(
        [*one.outcomes["IKE"], *two.outcomes["IKE"]], [*one.outcomes["Unedited"], *two.outcomes["Unedited"]]
    )
    assert pooled.cases == len(set(one.test) | set(two.test))


@pytest.mark.parametrize("name", ["data", "template", "epochs", "budget"])
def test_runs_that_differ_in_a_setting_share_a_table_only_if_it_is_named_in_across(name: str) -> None:
    one, two = run_of(0, budget="threshold"), run_of(1, **{"budget": "threshold", name: "another"})
    with pytest.raises(ReportError, match=f"differ in {name} .*--across {name}"):
        grouped([one, two])
    assert len(grouped([one, two], [name])) == 2
    with pytest.raises(ReportError, match="no run has a setting 'maze'"):
        grouped([one, two], ["maze"])


def test_runs_that_cannot_be_compared_are_refused() -> None:
    one = run_of(0)
    refused = {
        "different test edits": replace(one, folder="b", test=("77",)),
        "differ in the dtype": replace(run_of(1), identity={"dtype": "bfloat16"}),
        "both measured": replace(one, folder="b"),
    }
    for message, other in refused.items():
        with pytest.raises(ReportError, match=message):
            grouped([one, other])


def test_editors_of_one_seed_can_come_from_several_runs() -> None:
    [group] = grouped([run_of(0, editors=["IKE", "Unedited"]), run_of(0, editors=["DR-IKE"])])
    assert list(group.outcomes) == ["Unedited", "IKE", "DR-IKE"] and group.comparable("DR-IKE", "IKE")
    [group] = grouped([run_of(0), run_of(1, editors=["DR-IKE"])])
    assert not group.comparable("DR-IKE", "IKE")
    assert not any("minus" in sentence for sentence in findings(group))


def test_a_table_of_the_paper_appears_if_the_runs_have_a_counterpart() -> None:
    def numbers(*runs, across=()):  # type: ignore[no-untyped-def]
        return [int(table.title.split()[1]) for table in counterparts(grouped(runs, across), across)]

    assert numbers(run_of(0, editors=["IKE", "DR-IKE"])) == [1]
    assert numbers(run_of(0)) == [1, 2]
    assert numbers(run_of(0), run_of(0, model="another")) == [1, 2, 3]
    assert numbers(run_of(0, editors=["IKE", "DR-IKE"], scores=False)) == [1, 4]
    assert numbers(run_of(0, data="zsre_eval", editors=["IKE"])) == [1, 5]
    assert numbers(run_of(0, data="temporal", editors=["IKE"])) == [1, 8]
    varied = (run_of(0, editors=["DR-IKE"], budget="a"), run_of(0, editors=["DR-IKE"], budget="b"))
    assert numbers(*varied, across=["budget"]) == [1, 6]


def test_halluedits_own_figures_stand_beside_runs_on_its_data_only() -> None:
    asked = replace(run_of(0, editors=["IKE"]), form="HalluEditBench (CSV: subject, object, question, ...)")
    *_, table = counterparts(grouped([asked]))
    measured, published = table.rows[:2], table.rows[2:]
    assert [row[0] for row in measured] == ["Measured: some-model, Lands", "IKE"]
    assert (measured[1][2:], published[0]) == (
        ("n/a", "n/a", "n/a"), ("Published, not measured here: ICE, its in-context editor",),
    )  # fmt: skip
    assert published[1] == ("Llama-2-7B", "0.99", "0.50", "0.41", "0.35")
    assert not any("HalluEditBench" in one.title for one in counterparts(grouped([run_of(0, editors=["IKE"])])))


def test_runs_of_several_models_give_table_3_with_s_and_intervals() -> None:
    groups = grouped([run_of(0), run_of(0, model="another"), run_of(1, model="another")])
    table = by_model(groups)
    assert table is not None and table.header == ("Model", "ESR", "PC", "RR", "S")
    headings = [row[0] for row in table.rows if len(row) == 1]
    assert headings == ["Measured: DR-IKE, Lands", "Measured: IKE, Lands", "Published: DR-IKE, CounterFact"]
    for at, editor in ((1, "DR-IKE"), (4, "IKE")):
        for row, group in zip(table.rows[at : at + 2], groups, strict=True):
            one = group.summaries[editor]
            assert row == (group.model, *(shown(estimate) for estimate in (one.esr, one.pc, one.rr, one.s)))
    assert table.rows[7] == ("Llama 3.1 (8B)", "0.89", "0.81", "0.66", "0.775"), "S as in the paper's Table 1"
    assert len(table.rows) == 13 and by_model(groups[:1]) is None


def test_models_that_differ_in_another_setting_keep_their_full_labels_in_table_3() -> None:
    runs = [run_of(0, model=name, budget=budget) for name in ("a", "b") for budget in ("x", "y")]
    table = by_model(grouped(runs, ["budget"]))
    assert table is not None
    assert [row[0] for row in table.rows[1:5]] == [f"{m}, Lands, budget {b}" for m in ("a", "b") for b in ("x", "y")]


def test_scores_without_measurements_have_no_chart_and_are_named() -> None:
    whole = run_of(0, editors=["IKE", "DR-IKE"])
    rewrites = {name: tuple(o for o in of if o.aspect is Aspect.REWRITE) for name, of in whole.outcomes.items()}
    summary = document(grouped([replace(whole, outcomes=rewrites)])).sections[0]
    assert [figure.caption for figure in summary.figures] == ["Share of edits that take effect"]
    assert any(line.startswith("Not measured: PC, RR, as the test edits have no such probes") for line in summary.text)
    assert len(document(grouped([whole])).sections[0].figures) == 4


def test_every_model_has_an_entry_in_the_legend_though_its_first_editor_lacks_a_score() -> None:
    one, other = run_of(0), run_of(0, model="another")
    partial = {name: tuple(o for o in of if name != "Unedited" or o.aspect is Aspect.REWRITE)
               for name, of in one.outcomes.items()}  # fmt: skip
    figure = intervals(grouped([replace(one, outcomes=partial), other]), "PC")
    assert figure is not None and "some-model, Lands" in figure.svg and "another, Lands" in figure.svg


def test_means_over_prompts_and_over_edits_have_different_labels() -> None:
    run = run_of(0, editors=["IKE", "DR-IKE"])
    outcomes = {name: tuple(o for o in of if o.shots < 3 or o.aspect is Aspect.REWRITE)
                for name, of in run.outcomes.items()}  # fmt: skip
    [group] = grouped([replace(run, outcomes=outcomes)])
    per_prompt, per_edit = group.summaries["DR-IKE"].shots, distribution_of(group.outcomes["DR-IKE"]).mean
    assert f"{per_prompt:.2f}" != f"{per_edit:.2f}"
    sections = {section.id: section for section in document([group]).sections}
    overview, budget = sections["summary"].tables[0], sections["budget"].tables[0]
    assert dict(zip(overview.header, overview.rows[-1], strict=True))["retains/prompt"] == f"{per_prompt:.2f}"
    assert dict(zip(budget.header, budget.rows[1], strict=True))["mean retains/edit"] == f"{per_edit:.2f}"
    assert not [table for section in sections.values() for table in section.tables if "retains" in table.header]


def test_paired_differences_of_all_metrics_equal_those_of_each_alone() -> None:
    run = run_of(0)
    ours, theirs = run.outcomes["DR-IKE"], run.outcomes["IKE"]
    assert paired_differences(counted(ours), counted(theirs)) == {
        name: paired_difference(ours, theirs, name) for name in METRICS
    }


def test_findings_claim_a_difference_only_where_the_interval_excludes_0() -> None:
    [group] = grouped([run_of(0)])
    [finding] = [sentence for sentence in findings(group) if sentence.startswith("DR-IKE minus")]
    for name in ("S", "ESR", "PC", "RR"):
        one = paired_difference(group.outcomes["DR-IKE"], group.outcomes["IKE"], name)
        assert one.low is not None and one.high is not None
        word = "higher" if one.low > 0 else "lower" if one.high < 0 else "not significant"
        assert re.search(rf"\b{name} [^a-z]*\({word}\)", finding)


def test_the_best_editor_is_significantly_above_the_next_only_if_the_interval_excludes_0() -> None:
    one = run_of(0, editors=["IKE", "DR-IKE"], cases=40)
    ike = one.outcomes["IKE"]

    def best(**outcomes: object) -> str:
        named = {name.replace("_", "-"): of for name, of in outcomes.items()}
        [group] = grouped([replace(one, outcomes=named)])  # type: ignore[arg-type]
        return next(line for line in findings(group) if line.startswith("Best S"))

    def renamed(correct: dict[int, bool]):  # type: ignore[no-untyped-def]
        return tuple(replace(o, editor="DR-IKE", correct=correct.get(i, o.correct)) for i, o in enumerate(ike))

    assert ", equal to DR-IKE with" in best(IKE=ike, DR_IKE=renamed({}))
    wrong = next(i for i, o in enumerate(ike) if not o.correct)
    assert "Best S: DR-IKE with" in best(IKE=ike, DR_IKE=renamed({wrong: True}))
    assert ", not significantly above IKE with" in best(IKE=ike, DR_IKE=renamed({wrong: True}))
    assert ", significantly above IKE with" in best(IKE=ike, DR_IKE=renamed(dict.fromkeys(range(len(ike)), True)))


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_difference_has_a_star_exactly_if_its_unrounded_interval_excludes_0(
    value: float, below: float, above: float
) -> None:
    one = Estimate(value, value - below, value + above)
    assert ("*" in starred(one)) == (not value - below <= 0 <= value + above)
    assert starred(one).replace("*", "") == shown(one, signed=True)
    assert "*" in starred(Estimate(-0.2, -0.36, -0.0001)) and "[-.36,-.00]" in starred(Estimate(-0.2, -0.36, -0.0001))
    assert starred(Estimate(None)) == "n/a"


def test_epochs_sum_their_episodes() -> None:
    run = run_of(0)
    assert [epoch.calls for epoch in run.epochs] == [12, 12]
    assert sum(e.seconds for e in run.epochs) == sum(step.seconds for step in run.steps)
    assert run.epochs[-1].sigma == run.steps[-1].sigma
    assert (
        replace(run, steps=(replace(run.steps[0], prompt_tokens=None), *run.steps[1:])).epochs[0].prompt_tokens is None
    )


# -- escaping --

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
SPACES = re.compile(r"\s+")


def squeezed(text: str) -> str:
    return SPACES.sub("", text)


@given(TEXT, TEXT)
def test_markdown_shows_the_text_of_a_cell_unchanged(title: str, cell: str) -> None:
    if visible(title + cell) != title + cell or re.search(r"\s", (title + cell).replace(" ", "")):
        return
    table = Table(f"T{title}T", ("a", "b"), ((f"x{cell}x", f"y{cell}"), (f"h{cell}",)), wide=True)
    page = Page(MarkdownIt("commonmark").enable("table").render(as_markdown(table)))
    assert {name for name, _ in page.elements} <= {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    cells = squeezed(page.text("td"))
    assert squeezed(f"x{cell}x") in cells and squeezed(f"y{cell}") in cells and len(page.all("tr")) == 3


LATEX = {
    r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~", r"\textless{}": "<",
    r"\textgreater{}": ">", r"\textbar{}": "|", r"\textquotedbl{}": '"', r"\textasciigrave{}": "`",
    r"\{": "{", r"\}": "}", r"\$": "$", r"\&": "&", r"\#": "#", r"\%": "%", r"\_": "_", "{[}": "[", "{*}": "*",
}  # fmt: skip
TOKEN = re.compile("|".join(map(re.escape, sorted(LATEX, key=len, reverse=True))))


@given(st.text(max_size=40))
def test_latex_prints_the_text_of_a_cell_unchanged(text: str) -> None:
    shown = escaped(text)
    left = TOKEN.sub("", shown)
    assert not set(left) & set('\\{}$&#%_^~<>|[*`"'), "every special character is one of the known commands"
    printable = "".join(c if c.isprintable() else " " for c in text)
    assert TOKEN.sub(lambda m: LATEX[m[0]], shown) == " ".join(printable.split())


def test_hostile_tables_keep_their_shape_in_latex() -> None:
    table = Table(HOSTILE, ("a", "b"), ((HOSTILE,), (HOSTILE, "0.500 [.40,.60]"), ("[x", "*y")), (HOSTILE,))
    text = as_latex(table, "tab:x")
    rows = text.split("\\midrule\n", 1)[1].split("\\bottomrule")[0].splitlines()
    assert len(rows) == 3 and all(row.endswith(r" \\") for row in rows)
    assert all(len(re.findall(r"(?<!\\)&", row)) == 1 for row in rows[1:])
    assert "\\scriptsize {[}.40,.60]" in rows[1]
    assert not re.search(r"\\\\\s*[\[*]", text), "no bracket or star follows a line break"


def test_latex_has_minus_signs_in_numbers_and_hyphens_in_names() -> None:
    row = as_latex(Table("x", ("a", "b"), (("DR-IKE-2", "-0.119 [-.25,-.01]"), ("x", "2026-11-20"))), "tab:x")
    assert r"DR-IKE-2 & $-$0.119 {\scriptsize {[}$-$.25,$-$.01]} \\" in row
    assert "x & 2026-11-20" in row


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(demo: Path, tmp_path: Path) -> None:
    hostile = Table(HOSTILE, ("a", "b"), ((HOSTILE,), (HOSTILE, "-0.500 [.40,.60]"), ("[x", "*y")), (HOSTILE,))
    (tmp_path / "tables.tex").write_text(latex(document(grouped(read_runs([demo])))) + as_latex(hostile, "x"), "utf-8")
    packages = r"\usepackage[T1]{fontenc}\usepackage{booktabs}"
    page = rf"\documentclass{{article}}{packages}\begin{{document}}\input{{tables.tex}}\end{{document}}"
    (tmp_path / "page.tex").write_text(page, "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, errors="replace", check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists, max_leaves=8))
def test_data_in_a_script_element_round_trip_unchanged(data: object) -> None:
    text = as_script(data)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == data


@pytest.fixture(scope="module")
def hostile_page() -> str:
    groups = grouped([run_of(0, hostile=HOSTILE, cases=4), run_of(0, model="b", hostile=HOSTILE, cases=4)])
    return html(document(groups))


def test_hostile_texts_add_no_element_to_a_page(hostile_page: str) -> None:
    harmless = html(document(grouped([run_of(0, cases=4), run_of(0, model="b", cases=4)])))

    def shape(text: str) -> list[str]:  # drawings have as many paths as their labels need, so they are left out
        return [tag for tag, _ in Page(re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)).elements]

    assert shape(hostile_page) == shape(harmless)
    page = Page(hostile_page)
    assert not page.all("img")
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    assert "onerror=alert(1)" in page.text("h1"), "it is shown as text"
    hostile_page.encode("utf-8")


def test_a_page_loads_nothing_and_runs_no_script_but_its_viewer(hostile_page: str) -> None:
    page = Page(hostile_page)
    [policy] = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy
    assert not [a for _, attributes in page.elements for a in attributes if a == "src"]
    assert all((link["href"] or "").startswith("#") for link in page.all("a"))
    assert len(page.all("script")) == 2 and not page.all("link")


def test_a_page_is_accessible_to_screen_readers(hostile_page: str) -> None:
    page = Page(hostile_page)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for name in ("href", "aria-labelledby"):
            target = (attributes.get(name) or "").removeprefix("#")
            assert not target or target in ids
    assert page.all("html")[0]["lang"] == "en" and len(page.all("main")) == len(page.all("header")) == 1
    assert len(page.all("caption")) == len(page.all("table"))
    pictures = [attributes for _, attributes in page.elements if attributes.get("role") == "img"]
    assert len(pictures) == len(page.all("svg")) > 10
    assert all(len(picture["aria-label"] or "") > 20 for picture in pictures)
    assert next(h for h, _ in page.elements if re.fullmatch("h[1-6]", h)) == "h1"


# -- reports of a run's folder --


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "demo"
    small = ("--model", "reader", "--encoder", "hashing", "--edits", "15", "--test", "8", "--epochs", "2")
    assert cli("demo", *small, "--out", str(folder)) == 0
    return folder


@pytest.fixture
def copy(demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo, tmp_path / "copy"))


def test_a_report_written_twice_has_the_same_bytes(demo: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert cli("report", str(demo), "--out", str(tmp_path / name / "r.html"), "--case", "62") == 0
    for suffix in ("html", "md", "tex"):
        one, two = ((tmp_path / name / f"r.{suffix}").read_bytes() for name in ("a", "b"))
        assert one == two and len(one) > 2000


def test_a_report_has_all_sections_and_tables(copy: Path) -> None:
    assert cli("report", str(copy)) == 0
    page = Page((copy / "report.html").read_text("utf-8"))
    sections = [section["id"] for section in page.all("section")]
    assert sections == ["summary", "paper", "differences", "cost", "training", "budget", "runs", "cases"]
    text = (copy / "report.md").read_text("utf-8")
    for expected in ("Table 1 of the paper", "Table 2 of the paper", "DR-IKE minus IKE", "| 2 |", "0.775", "3.02"):
        assert expected in text
    assert (copy / "report.tex").read_text("utf-8").count("\\toprule") == len(page.all("table"))


def test_the_case_viewer_holds_every_outcome(demo: Path) -> None:
    groups = grouped(read_runs([demo]))
    data = json.loads(as_script(packed(groups)))
    run = groups[0].runs[0]
    assert len(data["cases"]) == len(run.test)
    seen = {
        (data["editors"][answers[i]], data["strings"][case_id], data["strings"][probes[4 * p + 1]], right == "1")
        for _, _, case_id, probes, answers in data["cases"]
        for i in range(0, len(answers), 6)
        for p, right in enumerate(answers[i + 1])
    }
    assert seen == {(o.editor, o.case_id, o.query, o.correct) for of in run.outcomes.values() for o in of}


def test_the_report_of_an_evaluation_includes_its_training_run(demo: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert cli("evaluate", "--run", str(demo), "--editors", "ike,rank-all", "--out", str(again)) == 0
    [run] = read_runs([again])
    assert len(run.steps) == 30 and run.training_edits == 15 and run.settings["epochs"] == "2"
    shutil.rmtree(again / "outcomes")
    (demo / "outcomes").rename(tmp_path / "kept")
    try:
        with pytest.raises(RunError, match="has no outcomes: evaluate it"):
            read_runs([demo])
        assert cli("evaluate", "--run", str(demo), "--editors", "ike", "--out", str(tmp_path / "other")) == 0
        assert [one.folder for one in read_runs([demo, tmp_path / "other"])] == [str(tmp_path / "other")]
    finally:
        (tmp_path / "kept").rename(demo / "outcomes")


def cut(path: Path, lines: int) -> None:
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:lines]), "utf-8")


def older(path: Path) -> None:
    record = json.loads(path.read_text("utf-8"))
    del record["data_fingerprint"], record["sha256"]
    path.write_text(json.dumps(record), "utf-8")


DAMAGED = {
    "no run": (lambda f: (f / "run.json").unlink(), "is not a run"),
    "half a run.json": (lambda f: (f / "run.json").write_text("{", "utf-8"), "run.json is damaged"),
    "an older run.json": (lambda f: older(f / "run.json"), "lacks data_fingerprint"),
    "no split": (lambda f: (f / "split.json").unlink(), "split"),
    "no outcomes": (lambda f: shutil.rmtree(f / "outcomes"), "has no outcomes"),
    "half an evaluation": (lambda f: cut(f / "outcomes" / "ike.jsonl", 20), "of 8 test edits"),
    "a case cut short": (lambda f: cut(f / "outcomes" / "ike.jsonl", -1), "same probes"),
    "an editor twice": (lambda f: shutil.copy(f / "outcomes" / "ike.jsonl", f / "outcomes" / "z.jsonl"), "twice"),
    "older outcomes": (lambda f: (f / "outcomes" / "ike.jsonl").write_text('{"a": 1}\n', "utf-8"), "of this version"),
    "older episodes": (lambda f: (f / "episodes.jsonl").write_text('{"a": 1}\n{}\n', "utf-8"), "train again"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_run_is_refused_in_one_sentence(kind: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage, expected = DAMAGED[kind]
    damage(copy)
    capsys.readouterr()
    assert cli("report", str(copy)) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Error: ") and expected in said and "Traceback" not in said
    assert not (copy / "report.html").exists()


def test_an_episode_whose_line_was_cut_off_is_left_out(copy: Path) -> None:
    path = copy / "episodes.jsonl"
    path.write_text(path.read_text("utf-8")[:-40], "utf-8")
    [run] = read_runs([copy])
    assert len(run.steps) == 29
    assert "Epoch 2 was stopped after 14 of 15 edits" in markdown(document(grouped([run])))


def test_a_report_names_the_editors_that_a_stopped_evaluation_lacks(demo: Path, tmp_path: Path) -> None:
    asked = ("--editors", "ike,rank-50,dr-ike", "--order", "reversed", "--sigmas", ".06")
    assert cli("evaluate", "--run", str(demo), *asked, "--out", str(tmp_path / "e")) == 0
    [whole] = read_runs([tmp_path / "e"])
    assert whole.missing == () and not any("Incomplete" in line for line in document(grouped([whole])).sections[0].text)
    for name in ("dr-ike-reversed", "rank-50", "dr-ike-sigma-06"):
        (tmp_path / "e" / "outcomes" / f"{name}.jsonl").unlink()
    [torn] = read_runs([tmp_path / "e"])
    assert torn.missing == ("Rank-50%", "DR-IKE (reversed)", "DR-IKE (sigma .06)")
    text = markdown(document(grouped([torn])))
    assert "has no outcomes of Rank-50%, DR-IKE (reversed), DR-IKE (sigma .06)" in text and "evaluate --resume" in text


def test_a_report_says_whose_outcomes_are_missing_from_a_finished_run(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("ike", "rank-50"):
        (copy / "outcomes" / f"{name}.jsonl").unlink()
    capsys.readouterr()
    assert cli("report", str(copy)) == 0
    expected = f"{copy} has no outcomes of IKE, Rank-50%"
    assert expected in " ".join(capsys.readouterr().out.split())
    for suffix in ("html", "md"):
        text = (copy / f"report.{suffix}").read_text("utf-8")
        assert "has no outcomes of IKE, Rank-50%" in text and "drike evaluate --run" in text


def test_reporting_an_unfinished_evaluation_names_the_command_that_resumes_it(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "e"
    assert cli("evaluate", "--run", str(demo), "--editors", "ike,rank-50", "--out", str(folder)) == 0
    cut(folder / "outcomes" / "ike.jsonl", 20)
    for _ in range(2):
        capsys.readouterr()
        assert cli("report", str(folder)) == 1
        assert f"drike evaluate --resume {folder}" in capsys.readouterr().err.replace("\n", " ").replace("  ", " ")
        shutil.rmtree(folder / "outcomes", ignore_errors=True)
    assert cli("evaluate", "--resume", str(folder)) == 0 and cli("report", str(folder)) == 0


def test_a_report_says_that_training_was_stopped(copy: Path) -> None:
    cut(copy / "episodes.jsonl", 6)
    assert "training stopped after 6 of 30 episodes" in markdown(document(grouped(read_runs([copy]))))


def test_table_1_counts_trained_parameters_beside_the_published_ones(demo: Path, tmp_path: Path) -> None:
    trained = checkpoint.load(demo, encoder=HashingEncoder())
    [group] = grouped(read_runs([demo]))
    assert group.parameters("DR-IKE") == group.parameters("Rank-50%") == trained.retriever.parameters > 0
    assert group.parameters("IKE") == group.parameters("Unedited") == 0
    table = next(iter(counterparts([group])))
    extra = {row[0]: row[-1] for row in reversed(table.rows) if len(row) > 1}
    assert table.header[-1] == "Extra Params" and extra["DR-IKE"] == f"{trained.retriever.parameters:,}"
    assert {row[-1] for row in table.rows[-8:]} >= {"0", "20M", "49M"} and any(
        "s/query" in note for note in table.notes
    )
    moved = Path(shutil.copytree(demo, tmp_path / "moved"))
    (moved / "checkpoint.safetensors").write_bytes(b"no tensors")
    [group] = grouped(read_runs([moved]))
    assert group.parameters("DR-IKE") is None and group.parameters("IKE") == 0


def test_parameters_of_a_learned_budget_count_for_dr_ike_only(tmp_path: Path) -> None:
    small = ("--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "2", "--epochs", "1")
    run = tmp_path / "run"
    assert cli("train", *small, "--budget", "scores", "--out", str(run)) == 0
    asked = ("--editors", "rank-all,dr-ike", "--out", str(tmp_path / "e"))
    assert cli("evaluate", "--run", str(run), *asked) == 0
    [group] = grouped(read_runs([tmp_path / "e"]))
    trained = checkpoint.load(run, encoder=HashingEncoder())
    assert isinstance(trained.budget, Controller)
    assert group.parameters("Rank-All") == trained.retriever.parameters
    assert group.parameters("DR-IKE") == trained.retriever.parameters + trained.budget.weights.numel()


def test_wrong_options_are_explained(demo: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    wrong = {
        ("report", str(demo), "--out", str(tmp_path / "r.pdf")): ("end in .html", 2),
        ("report", str(demo), "--across", "maze"): ("no run has a setting 'maze'", 1),
        ("report", str(demo), "--case", "nowhere"): ("no editable case", 2),
        ("case", "--run", str(demo), "--case", "62", "--editors", "factprompt"): ("shows no retains", 2),
        ("case", "--run", str(tmp_path), "--case", "62"): ("is not a run", 1),
    }
    for arguments, (expected, code) in wrong.items():
        assert cli(*arguments) == code
        assert expected in " ".join(capsys.readouterr().err.split())


def test_a_report_of_the_demo_has_its_editors(demo: Path) -> None:
    [group] = grouped(read_runs([demo]))
    names = ["Unedited", "FactPrompt", "EditCoT", "IKE", "Rank-50%", "DR-IKE", "DR-IKE-Q", "Nearest (k of DR-IKE)"]
    assert list(group.summaries) == names
    assert set(QUALITY) <= set(group.summaries)
    assert latex(document([group])).count("\\begin{table}") == latex(document([group])).count("\\end{table}")


def test_importing_the_command_line_does_not_load_matplotlib() -> None:
    code = (
        "import sys, drike.cli, drike.report; sys.exit(any(m in sys.modules for m in ('matplotlib', 'jinja2.loaders')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- variants of editors --


def test_a_report_has_tables_of_reordered_editors_and_of_a_sigma_sweep() -> None:
    editors = ["IKE", "DR-IKE", "DR-IKE (reversed)", "DR-IKE (sigma .06)"]
    made = document(grouped([run_of(0, editors=editors), run_of(1, editors=editors)]))
    for text in (html(made), markdown(made), latex(made)):
        assert "Effect of the order of retains, paired" in text and "S against prompt length" in text
    [section] = [one for one in made.sections if one.id == "variants"]
    order, lengths = section.tables
    assert [row[0] for row in order.rows] == ["DR-IKE (reversed)"] and len(lengths.rows) == len(editors)
    plain = document(grouped([run_of(0)]))
    assert "variants" not in [one.id for one in plain.sections]


def test_the_chart_of_s_against_tokens_names_every_editor_and_its_names_do_not_overlap() -> None:
    many = ["IKE", *(f"DR-IKE (sigma .{i})" for i in range(10, 30))]
    for editors in (["IKE", "DR-IKE"], many):
        [group] = grouped([run_of(0, editors=editors)])
        drawn = pareto(group)
        assert drawn is not None
        named = re.findall(r'font-size: (\S+)px[^>]* y="(\S+)"[^>]*>([^<]+)</text>', drawn.svg)
        lines = sorted(float(y) for _, y, name in named if name in editors)
        size = max(float(size) for size, _, name in named if name in editors)
        assert len(lines) == len(editors) and all(b - a > size for a, b in pairwise(lines))
    assert pareto(grouped([run_of(0, editors=["Unedited", "IKE"])])[0]) is None


def test_an_order_that_some_seeds_did_not_measure_is_not_compared() -> None:
    made = document(grouped([run_of(0, editors=["DR-IKE", "DR-IKE (reversed)"]), run_of(1, editors=["DR-IKE"])]))
    assert "variants" not in [one.id for one in made.sections]


def test_a_report_and_an_evaluation_give_the_same_mean_and_std_of_retains() -> None:
    groups = grouped([run_of(0)])
    found = distribution_of(groups[0].outcomes["DR-IKE"])
    [section] = [one for one in document(groups).sections if one.id == "budget"]
    row = next(row for row in section.tables[0].rows if row[0].startswith("DR-IKE, some-model"))
    assert row[1:3] == (f"{found.mean:.2f}", f"{found.std:.2f}")
    assert f"std {row[2]}," in distribution_table(groups[0].outcomes["DR-IKE"]).title
    assert f"standard deviation {row[2]}." in section.figures[0].alt


def test_the_usage_table_fits_80_columns_without_broken_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "console", Console(width=80, record=True, file=StringIO()))
    used = Usage(prompts=12_345, forwards=1_234, tokens_computed=1_231_251, tokens_cached=530_209, seconds=232.4)
    showing.draw(work({"training": used, "Nearest (k of DR-IKE)": used}))
    words = showing.console.export_text().split()
    assert {"training", "Nearest", "computed", "shared", "prefix", "cached", "seconds", "12,345", "232.4"} <= {*words}


def test_a_table_too_wide_for_the_terminal_continues_below_with_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(showing, "console", Console(width=80, record=True, file=StringIO()))
    many = 10**9
    used = Usage(prompts=many, forwards=many, tokens_computed=many, tokens_cached=many, seconds=many)
    showing.draw(work({"training": used, "Nearest (k of DR-IKE)": used}))
    text = showing.console.export_text()
    assert text.count("training") == text.count("Nearest") == 2 and text.count("1,000,000,000") == 4 * 2
    assert {"prompts", "forwards", "computed", "shared", "prefix", "cached", "seconds"} <= {*text.split()}
    assert all(len(line) <= 80 for line in text.splitlines())
