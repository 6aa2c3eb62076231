"""Reports: published values, which runs can share a table, and pages, Markdown and LaTeX that escape all text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from drike.cli import console as showing
from drike.editors.learned_budgets import Controller
from drike.edits import Aspect
from drike.encoders import HashingEncoder
from drike.errors import ReportError, RunError
from drike.evaluation.metrics import METRICS, Estimate, counted, paired_difference, paired_differences, summarise
from drike.models.protocols import Usage
from drike.report.cases import as_script, packed
from drike.report.comparison import by_model, counterparts
from drike.report.document import document, latex, markdown
from drike.report.figures import pareto
from drike.report.findings import findings, gaps, overall, verdict
from drike.report.groups import Group, grouped
from drike.report.latex import as_latex, escaped
from drike.report.overview import overview
from drike.report.page import blocks, html
from drike.report.paper import TABLES
from drike.report.reading import read_runs
from drike.report.tables import shown, starred, work
from drike.report.variants import distribution_of, distribution_table
from drike.runs import checkpoint
from drike.support.escape import visible
from drike.support.table import Table, as_markdown
from tests.worlds.commands import run as cli
from tests.worlds.reports import QUALITY, Page, run_of

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "dr-ike.tex"
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
    assert headings == [
        "Measured: DR-IKE, Lands",
        "Measured: InContextEditor[RankAndCut], Lands",
        "Published: DR-IKE, CounterFact",
    ]
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


def test_scores_without_measurements_are_named_and_the_next_metric_ranks_the_editors() -> None:
    whole = run_of(0, editors=["IKE", "DR-IKE"])
    rewrites = {name: tuple(o for o in of if o.aspect is Aspect.REWRITE) for name, of in whole.outcomes.items()}
    [group] = grouped([replace(whole, outcomes=rewrites)])
    assert any(line.startswith("Not measured: PC, RR, as the test edits have no such probes") for line in gaps(group))
    assert group.headline == "ESR" and "the highest ESR" in verdict(group) and " S " not in verdict(group)
    drawn = pareto(group)
    assert drawn is not None and drawn.caption.startswith("ESR against prompt tokens")
    unjudged = {name: tuple(replace(o, correct=None) for o in of) for name, of in whole.outcomes.items()}
    [group] = grouped([replace(whole, outcomes=unjudged)])
    assert any("ESR, PC, RR, as the test edits have no such probes that the rule" in line for line in gaps(group))


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


def answered(correct: dict[str, Sequence[bool | None]]) -> Group:
    """A group whose editors answer these rewrite, paraphrase and neighbourhood probes of as many cases right."""
    aspects = (Aspect.REWRITE, Aspect.PARAPHRASE, Aspect.NEIGHBORHOOD)
    whole = run_of(0, editors=list(correct), cases=max(map(len, correct.values())) // 3)
    probes = {
        name: [o for i, o in enumerate(of) if o.query.startswith(tuple(f"{aspect.value} 0" for aspect in aspects))]
        for name, of in whole.outcomes.items()
    }
    outcomes = {
        name: tuple(replace(o, correct=right) for o, right in zip(probes[name], values, strict=False))
        for name, values in correct.items()
    }
    [group] = grouped([replace(whole, outcomes=outcomes)])
    return group


def test_the_verdict_claims_a_lead_only_if_the_interval_of_the_difference_excludes_0() -> None:
    good, bad, near = [True] * 30, [True, True, False, False, True, True] * 5, [True] * 29 + [False]
    clear = verdict(answered({"Unedited": [False] * 30, "IKE": bad, "DR-IKE": good}))
    assert clear == (
        "DR-IKE has the highest S, 1.000 [1.00,1.00] on 10 test edits with 43% of IKE's prompt tokens, "
        "significantly above IKE."
    )
    close = verdict(answered({"IKE": good, "DR-IKE": near}))
    assert close.startswith("IKE has the highest S") and ", but not significantly above DR-IKE; " in close
    assert close.endswith("not significantly lower.")
    loses = verdict(answered({"IKE": good, "FactPrompt": near, "DR-IKE": bad}))
    assert "significantly above DR-IKE, but not significantly above FactPrompt; DR-IKE has" in loses
    assert loses.endswith("], significantly lower.")
    assert "IKE and DR-IKE share the highest S" in verdict(answered({"IKE": good, "DR-IKE": good}))


def test_the_verdict_is_a_sentence_for_any_run() -> None:
    good, none = [True] * 30, [None] * 30
    said = {
        "one editor": verdict(answered({"IKE": good})),
        "one editor and the unedited model": verdict(answered({"Unedited": [False] * 30, "IKE": good})),
        "no editor": verdict(answered({"Unedited": good})),
        "nothing gained": verdict(answered({"Unedited": [False] * 30, "IKE": [False] * 30})),
        "five edits": verdict(answered({"IKE": [True] * 15, "DR-IKE": [False] * 15})),
        "nothing judged": verdict(answered({"IKE": none})),
        "other edits": verdict(grouped([run_of(0), run_of(1, editors=["DR-IKE"])])[0]),
        "two models": overall(grouped([run_of(0), run_of(0, model="another")])),
    }
    assert said["one editor"] == "IKE reaches S 1.000 [1.00,1.00] on 10 test edits."
    assert "significantly above the unedited model's 0.000" in said["one editor and the unedited model"]
    assert said["no editor"].startswith("Only the unedited model was measured: its S is 1.000")
    assert said["nothing gained"].startswith("No editor is significantly better than the unedited model")
    assert said["five edits"] == "IKE has S 1.000 [1.00,1.00] on 5 test edits, too few to tell editors apart."
    assert said["nothing judged"] == "No answer of this run could be judged."
    assert said["other edits"].endswith(", but no other editor was measured on the same edits.")
    assert re.fullmatch(
        r"DR-IKE has the highest S in 2 of 2 settings, significantly above the next editor in (none|\d)\.",
        said["two models"],
    )
    assert all(re.fullmatch(r"[A-Z].*[^.]\.", sentence) and "n/a" not in sentence for sentence in said.values())


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
    assert "onerror=alert(1)" in page.text("h2"), "it is shown as text"
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
    drawn = [svg for svg in page.all("svg") if "aria-hidden" not in svg and "x" not in svg]
    assert len(pictures) == len(drawn) > 10
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
    assert [section["id"] for section in page.all("section")] == ["summary", "tables", "cases"]
    folded = [one["id"] for one in page.all("details")]
    assert folded == ["paper", "differences", "cost", "training", "budget", "runs"]
    text = (copy / "report.md").read_text("utf-8")
    for expected in ("Table 1 of the paper", "Table 2 of the paper", "DR-IKE minus IKE", "| 2 |", "0.775", "3.02"):
        assert expected in text
    profiles = [one for one in page.all("table") if "profile" in (one["class"] or "")]
    assert (copy / "report.tex").read_text("utf-8").count("\\toprule") == len(page.all("table")) - len(profiles)


def test_the_case_viewer_holds_every_outcome(demo: Path) -> None:
    groups = grouped(read_runs([demo]))
    data = json.loads(as_script(packed(groups)))
    run = groups[0].runs[0]
    assert len(data["cases"]) == len(run.test)
    seen = {
        (data["editors"][answers[i]], data["strings"][case_id], data["strings"][probes[4 * p + 1]], right == "1")
        for _, _, case_id, probes, answers in data["cases"]
        for i in range(0, len(answers), 7)
        for p, right in enumerate(answers[i + 1])
    }
    assert seen == {(o.editor, o.case_id, o.query, o.correct) for of in run.outcomes.values() for o in of}


def test_a_run_keeps_the_prompts_and_the_written_answers_of_a_sample(demo: Path) -> None:
    [run] = read_runs([demo])
    assert set(run.prompts) == set(run.outcomes)
    for name, of_editor in run.outcomes.items():
        kept, written = run.prompts[name], run.written[name]
        assert len(kept) == 5 and set(kept) <= set(written)
        for case_id, prompts in kept.items():
            asked = [one for one in of_editor if one.case_id == case_id]
            assert list(prompts.prompts) == list(dict.fromkeys(one.query for one in asked))
            assert len(written[case_id]) == len(asked)
            for one in asked:
                roles, texts = zip(*(prompts.blocks[i] for i in prompts.prompts[one.query]), strict=True)
                assert roles.count("retain") == one.shots and one.query in texts[-1]
    [example] = [one.example for one in map(overview, grouped([run]))]
    assert example is not None and example.took and "the first of the sample that took" in example.chosen
    assert example.after == example.new != example.before


def test_a_probe_that_was_not_judged_is_packed_as_neither_right_nor_wrong() -> None:
    run = run_of(0, cases=1, editors=["IKE"])
    judged = (True, False, None, True, None, False)
    outcomes = tuple(replace(one, correct=right) for one, right in zip(run.outcomes["IKE"], judged, strict=True))
    [[*_, answers]] = packed(grouped([replace(run, outcomes={"IKE": outcomes})]))["cases"]  # type: ignore[misc]
    assert answers[1] == "10-1-0"


def test_the_best_shares_and_the_direction_of_differences_are_marked() -> None:
    rows = (("Measured",), ("Unedited", "1.000 [.9,1.0]", "9"), ("IKE", "0.500 [.4,.6]", "7"), ("B", "0.700", "1"))
    (heading, found), *_ = blocks(Table("T", ("Editor", "RR", "tokens/prompt"), (*rows, ("C", "0.700 [.1,.9]", "2"))))
    assert heading == "Measured"
    assert [[cell.kind for cell in cells] for _, cells in found] == [["", ""], ["", ""], ["best", ""], ["best", ""]]
    signs = ("x", "+0.100* [.01,.2]", "-0.100* [-.2,-.01]", "+0.100 [-.1,.2]", "n/a")
    [(_, [(_, cells)])] = blocks(Table("Paired differences", ("", "S", "ESR", "PC", "RR"), (signs,)))
    assert [(cell.kind, cell.value) for cell in cells] == [
        ("up", "\N{BLACK UP-POINTING TRIANGLE} +0.100"),
        ("down", "\N{BLACK DOWN-POINTING TRIANGLE} -0.100"),
        ("level", "\N{WHITE CIRCLE} +0.100"),
        ("", "n/a"),
    ]


def test_the_profile_names_the_lowest_aspect_of_every_editor_and_shows_what_was_not_asked_of_it() -> None:
    run = run_of(0, editors=["IKE", "DR-IKE"])
    judged = {"IKE": False, "DR-IKE": None}
    outcomes = {
        name: (*of, *(replace(o, aspect=Aspect.ALIAS, correct=judged[name]) for o in of if o.aspect is Aspect.REWRITE))
        for name, of in run.outcomes.items()
    }
    shown_of = overview(grouped([replace(run, outcomes=outcomes)])[0])
    assert [aspect for aspect, *_ in shown_of.asked] == ["rewrite", "paraphrase", "neighborhood", "alias"]
    ike, dr_ike = shown_of.profiles
    assert ike.lowest == "Lowest: alias" and not ike.best and dr_ike.best
    assert dr_ike.shares[Aspect.ALIAS].estimate.value is None
    assert f"DR-IKE is weakest in {dr_ike.lowest.removeprefix('Lowest: ')}" in shown_of.weakest
    assert shown_of.weakest.endswith("The lowest share of any editor is IKE's in alias: 0.000 [.00,.00].")


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


def test_importing_the_command_line_does_not_load_what_renders_reports() -> None:
    code = "import sys, drike.cli, drike.report; sys.exit('jinja2.loaders' in sys.modules)"
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
        drawn = pareto(grouped([run_of(0, editors=editors)])[0])
        assert drawn is not None and drawn.svg.count('class="best"') == 2, "a circle and its name"
        named = re.findall(r'<svg x="100%"[^>]*><text[^>]* y="([^"]+)"[^>]*>([^<]+)</text>', drawn.svg)
        lines = sorted(float(y) for y, _ in named)
        assert sorted(name for _, name in named) == sorted(editors) and all(b - a > 12 for a, b in pairwise(lines))
        assert all(-10 < y < 1.25 * 18 * max(15, len(editors)) for y in lines)
    [silent] = grouped([run_of(0, editors=["IKE", "DR-IKE"])])
    outcomes = {name: [replace(o, prompt_tokens=None) for o in of] for name, of in silent.outcomes.items()}
    drawn = pareto(replace(silent, runs=(replace(silent.runs[0], outcomes=outcomes),)))  # type: ignore[arg-type]
    assert drawn is not None and drawn.caption.startswith("S against retains per prompt")
    assert pareto(grouped([run_of(0, editors=["Unedited"])])[0]) is None


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
