"""Reports: published values, which runs stand together, and pages, Markdown and LaTeX that nothing breaks out of."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from commands import run as cli
from drike.encoders import HashingEncoder
from drike.errors import ReportError, RunError
from drike.metrics import METRICS, Estimate, paired_difference, paired_differences, summarise
from drike.report.cases import as_script, packed
from drike.report.document import counterparts, document, latex, markdown
from drike.report.findings import findings
from drike.report.latex import as_latex, escaped
from drike.report.measured import grouped
from drike.report.page import html
from drike.report.paper import TABLES
from drike.report.reading import read_runs
from drike.report.tables import Table, as_markdown, shown, starred
from drike.report.variants import distribution_of, distribution_table
from drike.retrieval.learned_budget import Controller
from drike.runs import checkpoint
from reports import QUALITY, Page, run_of

PAPER = Path(__file__).parents[2] / "shared" / "paper" / "dr-ike.tex"
HOSTILE = "</script><img src=x onerror=alert(1)><!-- \"'`| %$&_{}\\ #~^ *a* [b](http://c) ]]> \u2028 \ud800"


# -- what was published --


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.label)
def test_every_published_number_stands_as_the_paper_prints_it(table) -> None:  # type: ignore[no-untyped-def]
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
        told = row.variant or (row.model if table.number == 3 else row.editor)
        assert re.sub(r"\W|sigma", "", told) == re.sub(r"\W|sigma", "", name.replace(r"$\sigma$", ""))


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_no_table_of_the_paper_is_missing() -> None:
    assert re.findall(r"\\label\{(tab:[^}]*)\}", PAPER.read_text("utf-8")) == [table.label for table in TABLES]


# -- which runs stand in one table --


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
def test_another_setting_is_refused_by_name_and_allowed_by_name(name: str) -> None:
    one, two = run_of(0, budget="threshold"), run_of(1, **{"budget": "threshold", name: "another"})
    with pytest.raises(ReportError, match=f"differ in {name} .*--across {name}"):
        grouped([one, two])
    assert len(grouped([one, two], [name])) == 2
    with pytest.raises(ReportError, match="no run has a setting 'maze'"):
        grouped([one, two], ["maze"])


def test_what_cannot_be_compared_is_refused() -> None:
    one = run_of(0)
    refused = {
        "not their test edits": replace(one, folder="b", test=("77",)),
        "differ in the dtype": replace(run_of(1), identity={"dtype": "bfloat16"}),
        "both measured": replace(one, folder="b"),
    }
    for told, other in refused.items():
        with pytest.raises(ReportError, match=told):
            grouped([one, other])


def test_editors_of_one_seed_may_come_from_several_runs() -> None:
    [group] = grouped([run_of(0, editors=["IKE", "Unedited"]), run_of(0, editors=["DR-IKE"])])
    assert list(group.outcomes) == ["Unedited", "IKE", "DR-IKE"] and group.comparable("DR-IKE", "IKE")
    [group] = grouped([run_of(0), run_of(1, editors=["DR-IKE"])])
    assert not group.comparable("DR-IKE", "IKE")
    assert not any("minus" in sentence for sentence in findings(group))


def test_tables_appear_where_the_runs_have_their_counterpart() -> None:
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


def test_several_metrics_are_those_taken_one_by_one() -> None:
    run = run_of(0)
    ours, theirs = run.outcomes["DR-IKE"], run.outcomes["IKE"]
    assert paired_differences(ours, theirs, METRICS) == {
        name: paired_difference(ours, theirs, metric) for name, metric in METRICS.items()
    }


def test_findings_claim_a_difference_only_where_the_interval_excludes_0() -> None:
    [group] = grouped([run_of(0)])
    [told] = [sentence for sentence in findings(group) if sentence.startswith("DR-IKE minus")]
    for name in ("S", "ESR", "PC", "RR"):
        one = paired_difference(group.outcomes["DR-IKE"], group.outcomes["IKE"], METRICS[name])
        assert one.low is not None and one.high is not None
        word = "higher" if one.low > 0 else "lower" if one.high < 0 else "not told apart"
        assert re.search(rf"\b{name} [^a-z]*\({word}\)", told)


def test_the_best_is_before_the_next_only_where_they_are_told_apart() -> None:
    one = run_of(0, editors=["IKE", "DR-IKE"], cases=40)
    ike = one.outcomes["IKE"]

    def best(**outcomes: object) -> str:
        told = {name.replace("_", "-"): of for name, of in outcomes.items()}
        [group] = grouped([replace(one, outcomes=told)])  # type: ignore[arg-type]
        return next(line for line in findings(group) if line.startswith("Best S"))

    def renamed(correct: dict[int, bool]):  # type: ignore[no-untyped-def]
        return tuple(replace(o, editor="DR-IKE", correct=correct.get(i, o.correct)) for i, o in enumerate(ike))

    assert ", level with DR-IKE's" in best(IKE=ike, DR_IKE=renamed({}))
    wrong = next(i for i, o in enumerate(ike) if not o.correct)
    assert "Best S: DR-IKE's" in best(IKE=ike, DR_IKE=renamed({wrong: True}))
    assert ", not told apart from IKE's" in best(IKE=ike, DR_IKE=renamed({wrong: True}))
    assert ", before IKE's" in best(IKE=ike, DR_IKE=renamed(dict.fromkeys(range(len(ike)), True)))


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_star_says_that_0_is_outside_the_whole_interval(value: float, below: float, above: float) -> None:
    one = Estimate(value, value - below, value + above)
    assert ("*" in starred(one)) == (not value - below <= 0 <= value + above)
    assert starred(one).replace("*", "") == shown(one, signed=True)
    assert "*" in starred(Estimate(-0.2, -0.36, -0.0001)) and "[-.36,-.00]" in starred(Estimate(-0.2, -0.36, -0.0001))
    assert starred(Estimate(None)) == "n/a"


def test_epochs_add_up_their_episodes() -> None:
    run = run_of(0)
    assert [epoch.calls for epoch in run.epochs] == [12, 12]
    assert sum(e.seconds for e in run.epochs) == sum(step.seconds for step in run.steps)
    assert run.epochs[-1].sigma == run.steps[-1].sigma
    assert (
        replace(run, steps=(replace(run.steps[0], prompt_tokens=None), *run.steps[1:])).epochs[0].prompt_tokens is None
    )


# -- nothing breaks out --

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
SPACES = re.compile(r"\s+")


def told(text: str) -> str:
    return SPACES.sub("", text)


@given(TEXT, TEXT)
def test_markdown_shows_what_a_cell_holds(title: str, cell: str) -> None:
    visible = [text for text in (title, cell) if not re.search(r"[\x00-\x1f\x7f-\x9f]", text)]
    if len(visible) < 2:
        return
    table = Table(f"T{title}T", ("a", "b"), ((f"x{cell}x", f"y{cell}"), (f"h{cell}",)), wide=True)
    page = Page(MarkdownIt("commonmark").enable("table").render(as_markdown(table)))
    assert {name for name, _ in page.elements} <= {"p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    cells = told(page.text("td"))
    assert told(f"x{cell}x") in cells and told(f"y{cell}") in cells and len(page.all("tr")) == 3


LATEX = {
    r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~", r"\textless{}": "<",
    r"\textgreater{}": ">", r"\textbar{}": "|", r"\textquotedbl{}": '"', r"\textasciigrave{}": "`",
    r"\{": "{", r"\}": "}", r"\$": "$", r"\&": "&", r"\#": "#", r"\%": "%", r"\_": "_", "{[}": "[", "{*}": "*",
}  # fmt: skip
TOKEN = re.compile("|".join(map(re.escape, sorted(LATEX, key=len, reverse=True))))


@given(st.text(max_size=40))
def test_latex_prints_what_a_cell_holds(text: str) -> None:
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
    assert not re.search(r"\\\\\s*[\[*]", text), "nothing reads as an argument of a line break"


def test_numbers_have_a_minus_and_names_a_hyphen() -> None:
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
def test_data_survives_its_script_element(data: object) -> None:
    text = as_script(data)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == data


@pytest.fixture(scope="module")
def hostile_page() -> str:
    groups = grouped([run_of(0, hostile=HOSTILE, cases=4), run_of(0, model="b", hostile=HOSTILE, cases=4)])
    return html(document(groups))


def test_a_hostile_page_has_the_elements_of_a_harmless_one(hostile_page: str) -> None:
    harmless = html(document(grouped([run_of(0, cases=4), run_of(0, model="b", cases=4)])))

    def shape(text: str) -> list[str]:  # drawings have as many paths as their labels need, so they are left out
        return [tag for tag, _ in Page(re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL)).elements]

    assert shape(hostile_page) == shape(harmless)
    page = Page(hostile_page)
    assert not page.all("img")
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
    assert "onerror=alert(1)" in page.text("h1"), "it is shown as the text it is"
    hostile_page.encode("utf-8")


def test_a_page_loads_nothing_and_runs_only_its_viewer(hostile_page: str) -> None:
    page = Page(hostile_page)
    [policy] = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy
    assert not [a for _, attributes in page.elements for a in attributes if a == "src"]
    assert all((link["href"] or "").startswith("#") for link in page.all("a"))
    assert len(page.all("script")) == 2 and not page.all("link")


def test_a_page_can_be_read_without_seeing_it(hostile_page: str) -> None:
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


# -- from a run's folder --


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "demo"
    small = ("--model", "reader", "--encoder", "hashing", "--edits", "15", "--test", "8", "--epochs", "2")
    assert cli("demo", *small, "--out", str(folder)) == 0
    return folder


@pytest.fixture
def copy(demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo, tmp_path / "copy"))


def test_a_report_is_the_same_bytes_twice(demo: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert cli("report", str(demo), "--out", str(tmp_path / name / "r.html"), "--case", "62") == 0
    for suffix in ("html", "md", "tex"):
        one, two = ((tmp_path / name / f"r.{suffix}").read_bytes() for name in ("a", "b"))
        assert one == two and len(one) > 2000


def test_a_report_has_all_its_parts(copy: Path) -> None:
    assert cli("report", str(copy)) == 0
    page = Page((copy / "report.html").read_text("utf-8"))
    sections = [section["id"] for section in page.all("section")]
    assert sections == ["summary", "paper", "differences", "cost", "training", "budget", "runs", "cases"]
    text = (copy / "report.md").read_text("utf-8")
    for expected in ("Table 1 of the paper", "Table 2 of the paper", "DR-IKE minus IKE", "| 2 |", "0.775", "3.02"):
        assert expected in text
    assert (copy / "report.tex").read_text("utf-8").count("\\toprule") == len(page.all("table"))


def test_the_page_holds_every_outcome(demo: Path) -> None:
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


def test_an_evaluation_brings_its_training_along(demo: Path, tmp_path: Path) -> None:
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
    "an older run.json": (lambda f: older(f / "run.json"), "lacks data_fingerprint: another version"),
    "no split": (lambda f: (f / "split.json").unlink(), "split"),
    "no outcomes": (lambda f: shutil.rmtree(f / "outcomes"), "has no outcomes"),
    "half an evaluation": (lambda f: cut(f / "outcomes" / "ike.jsonl", 20), "of 8 test edits"),
    "a case cut short": (lambda f: cut(f / "outcomes" / "ike.jsonl", -1), "same probes"),
    "an editor twice": (lambda f: shutil.copy(f / "outcomes" / "ike.jsonl", f / "outcomes" / "z.jsonl"), "twice"),
    "older outcomes": (lambda f: (f / "outcomes" / "ike.jsonl").write_text('{"a": 1}\n', "utf-8"), "of this version"),
    "older episodes": (lambda f: (f / "episodes.jsonl").write_text('{"a": 1}\n{}\n', "utf-8"), "train again"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_run_is_one_sentence(kind: str, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage, expected = DAMAGED[kind]
    damage(copy)
    capsys.readouterr()
    assert cli("report", str(copy)) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Error: ") and expected in said and "Traceback" not in said
    assert not (copy / "report.html").exists()


def test_a_torn_last_episode_costs_itself_only(copy: Path) -> None:
    path = copy / "episodes.jsonl"
    path.write_text(path.read_text("utf-8")[:-40], "utf-8")
    [run] = read_runs([copy])
    assert len(run.steps) == 29
    assert "Epoch 2 was stopped after 14 of 15 edits" in markdown(document(grouped([run])))


def test_a_stopped_evaluation_is_reported_with_what_it_lacks(demo: Path, tmp_path: Path) -> None:
    asked = ("--editors", "ike,rank-50,dr-ike", "--order", "reversed", "--sigmas", ".06")
    assert cli("evaluate", "--run", str(demo), *asked, "--out", str(tmp_path / "e")) == 0
    [whole] = read_runs([tmp_path / "e"])
    assert whole.missing == () and not any("asked for" in line for line in document(grouped([whole])).sections[0].text)
    for name in ("dr-ike-reversed", "rank-50", "dr-ike-sigma-06"):
        (tmp_path / "e" / "outcomes" / f"{name}.jsonl").unlink()
    [torn] = read_runs([tmp_path / "e"])
    assert torn.missing == ("Rank-50%", "DR-IKE (reversed)", "DR-IKE (sigma .06)")
    text = markdown(document(grouped([torn])))
    assert "Not evaluated, though asked for: Rank-50%, DR-IKE (reversed)" in text and "evaluate --resume" in text


def test_a_half_done_evaluation_is_to_be_gone_on_with(
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


def test_a_stopped_training_is_told_where_its_numbers_are(copy: Path) -> None:
    cut(copy / "episodes.jsonl", 6)
    assert "Training stopped after 6 of 30 episodes" in markdown(document(grouped(read_runs([copy]))))


def test_trained_parameters_stand_beside_the_papers(demo: Path, tmp_path: Path) -> None:
    trained = checkpoint.load(demo, encoder=HashingEncoder())
    [group] = grouped(read_runs([demo]))
    assert group.parameters("DR-IKE") == group.parameters("Rank-50%") == trained.retriever.parameters > 0
    assert group.parameters("IKE") == group.parameters("Unedited") == 0
    table = next(iter(counterparts([group])))
    told = {row[0]: row[-1] for row in reversed(table.rows) if len(row) > 1}
    assert table.header[-1] == "Extra Params" and told["DR-IKE"] == f"{trained.retriever.parameters:,}"
    assert {row[-1] for row in table.rows[-8:]} >= {"0", "20M", "49M"} and any(
        "s/query" in note for note in table.notes
    )
    moved = Path(shutil.copytree(demo, tmp_path / "moved"))
    (moved / "checkpoint.safetensors").write_bytes(b"no tensors")
    [group] = grouped(read_runs([moved]))
    assert group.parameters("DR-IKE") is None and group.parameters("IKE") == 0


def test_a_learned_budget_counts_where_it_is_used(tmp_path: Path) -> None:
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


def test_wrong_options_are_told(demo: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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


def test_a_reported_run_says_which_editors_it_has(demo: Path) -> None:
    [group] = grouped(read_runs([demo]))
    assert list(group.summaries) == ["Unedited", "FactPrompt", "EditCoT", "IKE", "Rank-50%", "DR-IKE"]
    assert set(QUALITY) <= set(group.summaries)
    assert latex(document([group])).count("\\begin{table}") == latex(document([group])).count("\\end{table}")


def test_other_commands_do_without_matplotlib() -> None:
    code = (
        "import sys, drike.cli, drike.report; sys.exit(any(m in sys.modules for m in ('matplotlib', 'jinja2.loaders')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- what variants are measured for --


def test_a_report_has_the_tables_of_reordered_and_swept_editors() -> None:
    editors = ["IKE", "DR-IKE", "DR-IKE (reversed)", "DR-IKE (sigma .06)"]
    made = document(grouped([run_of(0, editors=editors), run_of(1, editors=editors)]))
    for text in (html(made), markdown(made), latex(made)):
        assert "What the order changes, paired" in text and "S against prompt length" in text
    [section] = [one for one in made.sections if one.id == "variants"]
    order, lengths = section.tables
    assert [row[0] for row in order.rows] == ["DR-IKE (reversed)"] and len(lengths.rows) == len(editors)
    plain = document(grouped([run_of(0)]))
    assert "variants" not in [one.id for one in plain.sections]


def test_an_order_that_not_every_seed_measured_is_not_compared() -> None:
    made = document(grouped([run_of(0, editors=["DR-IKE", "DR-IKE (reversed)"]), run_of(1, editors=["DR-IKE"])]))
    assert "variants" not in [one.id for one in made.sections]


def test_a_report_and_an_evaluation_print_the_same_spread_of_retains() -> None:
    groups = grouped([run_of(0)])
    found = distribution_of(groups[0].outcomes["DR-IKE"])
    [section] = [one for one in document(groups).sections if one.id == "budget"]
    row = next(row for row in section.tables[0].rows if row[0].startswith("DR-IKE, some-model"))
    assert row[1:3] == (f"{found.mean:.2f}", f"{found.std:.2f}")
    assert f"std {row[2]}," in distribution_table(groups[0].outcomes["DR-IKE"]).title
    assert f"standard deviation {row[2]}." in section.figures[0].alt
