"""A whole report of a run: its sections and files, and what its first sentences claim."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from drike.edits.edit import Aspect
from drike.research.report.document import document, scores
from drike.research.report.groups import Group, grouped
from drike.research.report.pareto_chart import pareto
from drike.research.report.reported_runs import read_runs
from drike.research.report.sentences import about, gaps, overall, verdict
from tests.fakes.commands import run as cli
from tests.fakes.reports import QUALITY, Page, run_of


@pytest.mark.slow
def test_a_report_written_twice_has_the_same_bytes(demo: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert cli("report", str(demo), "--out", str(tmp_path / name / "r.html")) == 0
    for suffix in ("html", "md"):
        first, second = ((tmp_path / name / f"r.{suffix}").read_bytes() for name in ("a", "b"))
        assert first == second and len(first) > 2000


def test_a_report_has_all_sections_and_tables(copy: Path) -> None:
    assert cli("report", str(copy)) == 0
    page = Page((copy / "report.html").read_text("utf-8"))
    assert [section["id"] for section in page.all("section")] == ["summary", "tables", "cases"]
    folded = [fold["id"] for fold in page.all("details")]
    assert folded == ["paper", "differences", "cost", "training", "budget", "runs"]
    text = (copy / "report.md").read_text("utf-8")
    for expected in (
        "Table 1 of the paper",
        "Table 2 of the paper",
        "DR-IKE minus IKE",
        "| 2 |",
        "0.775",
        "3.02",
    ):
        assert expected in text


def test_editors_that_some_seeds_did_not_measure_are_named() -> None:
    [group] = grouped([run_of(0), run_of(1, editors=["Unedited", "IKE"])])
    fewer = ", ".join(name for name in QUALITY if name not in ("Unedited", "IKE"))
    assert about(group).endswith(
        f"2 seeds; an edit tested under several counts once; under fewer seeds: {fewer}."
    )
    [group] = grouped([run_of(0), run_of(1)])
    assert about(group).endswith("counts once.")


def test_a_report_never_writes_over_a_text_of_somebody_else(demo: Path, tmp_path: Path) -> None:
    page = tmp_path / "notes.html"
    text = tmp_path / "notes.md"
    text.write_text("mine", "utf-8")
    assert cli("report", str(demo), "--out", str(page)) == 2
    assert text.read_text("utf-8") == "mine" and not page.exists()
    text.unlink()
    for _ in range(2):  # its own it writes again
        assert cli("report", str(demo), "--out", str(page)) == 0 and page.exists() and text.exists()


def test_wrong_options_are_explained(
    demo: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wrong = {
        ("report", str(demo), "--out", str(tmp_path / "r.pdf")): ("end in .html", 2),
        ("report", str(demo), "--across", "maze"): ("no run has a setting 'maze'", 1),
    }
    for arguments, (expected, code) in wrong.items():
        assert cli(*arguments) == code
        assert expected in " ".join(capsys.readouterr().err.split())


def test_a_report_of_the_demo_has_its_editors(demo: Path) -> None:
    [group] = grouped(read_runs([demo]))
    names = [
        "Unedited",
        "FactPrompt",
        "EditCoT",
        "IKE",
        "Rank-50%",
        "DR-IKE",
        "DR-IKE-Q",
        "Nearest (k of DR-IKE)",
    ]
    assert list(group.summaries) == names
    assert set(QUALITY) <= set(group.summaries)


def test_importing_the_command_line_does_not_load_what_renders_reports() -> None:
    code = "import sys, drike.cli, drike.research.report; sys.exit('jinja2.loaders' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_scores_without_measurements_are_named_and_the_next_metric_ranks_the_editors() -> None:
    whole = run_of(0, editors=["IKE", "DR-IKE"])
    rewrites = {
        name: tuple(o for o in of if o.aspect is Aspect.REWRITE)
        for name, of in whole.outcomes.items()
    }
    [group] = grouped([replace(whole, outcomes=rewrites)])
    assert any(
        line.startswith("Not measured: PC, RR, as the test edits have no such probes")
        for line in gaps(group)
    )
    assert (
        group.headline == "ESR"
        and "the highest ESR" in verdict(group)
        and " S " not in verdict(group)
    )
    drawn = pareto(group)
    assert drawn is not None and drawn.caption.startswith("ESR against prompt tokens")
    unjudged = {
        name: tuple(replace(o, correct=None) for o in of) for name, of in whole.outcomes.items()
    }
    [group] = grouped([replace(whole, outcomes=unjudged)])
    assert any(
        "ESR, PC, RR, as the test edits have no such probes that the rule" in line
        for line in gaps(group)
    )


def answered(correct: dict[str, Sequence[bool | None]]) -> Group:
    """A group whose editors answer as given.

    correct: by editor the verdicts on a rewrite, a paraphrase and a neighbourhood probe of each
    case in turn.
    """
    aspects = (Aspect.REWRITE, Aspect.PARAPHRASE, Aspect.NEIGHBORHOOD)
    first_probes = tuple(f"{aspect.value} 0" for aspect in aspects)
    most_answers = max(len(verdicts) for verdicts in correct.values())
    whole = run_of(0, editors=list(correct), cases=most_answers // 3)
    outcomes = {}
    for editor, verdicts in correct.items():
        asked = [
            outcome for outcome in whole.outcomes[editor] if outcome.query.startswith(first_probes)
        ]
        outcomes[editor] = tuple(
            replace(outcome, correct=verdict)
            for outcome, verdict in zip(asked, verdicts, strict=False)
        )
    [group] = grouped([replace(whole, outcomes=outcomes)])
    return group


def test_the_verdict_claims_a_lead_only_if_the_interval_of_the_difference_excludes_0() -> None:
    good = [True] * 30
    bad = [True, True, False, False, True, True] * 5
    near = [True] * 29 + [False]
    clear = verdict(answered({"Unedited": [False] * 30, "IKE": bad, "DR-IKE": good}))
    assert clear == (
        "DR-IKE has the highest S, 1.000 [.69,1.00] on 10 test edits, significantly above IKE and Unedited."
    )
    close = verdict(answered({"IKE": good, "DR-IKE": near}))
    assert close.startswith("IKE has the highest S") and close.endswith(
        ", but not significantly above DR-IKE."
    )
    loses = verdict(answered({"IKE": good, "FactPrompt": near, "DR-IKE": bad}))
    assert loses.endswith(", significantly above DR-IKE, but not significantly above FactPrompt.")
    same = verdict(
        answered({"Unedited": [False] * 30, "IKE": good, "FactPrompt": near, "DR-IKE": good})
    )
    assert same == (
        "IKE and DR-IKE share the highest S, 1.000 [.69,1.00] on 10 test edits, significantly above Unedited, but not "
        "significantly above FactPrompt."
    )
    assert verdict(answered({"IKE": good, "DR-IKE": good})).endswith(
        "share the highest S, 1.000 [.69,1.00] on 10 test edits."
    )


def test_the_verdict_is_a_sentence_for_any_run() -> None:
    good = [True] * 30
    none = [None] * 30
    said = {
        "one editor": verdict(answered({"IKE": good})),
        "one editor and the unedited model": verdict(
            answered({"Unedited": [False] * 30, "IKE": good})
        ),
        "no editor": verdict(answered({"Unedited": good})),
        "nothing gained": verdict(answered({"Unedited": [False] * 30, "IKE": [False] * 30})),
        "five edits": verdict(answered({"IKE": [True] * 15, "DR-IKE": [False] * 15})),
        "nothing judged": verdict(answered({"IKE": none})),
        "other edits": verdict(grouped([run_of(0), run_of(1, editors=["DR-IKE"])])[0]),
        "two models": overall(grouped([run_of(0), run_of(0, model="another")])),
        "two settings without a right answer": overall([answered({"IKE": [False] * 30})] * 2),
    }
    assert said["one editor"] == "IKE has S 1.000 [.69,1.00] on 10 test edits."
    assert said["one editor and the unedited model"].endswith(", significantly above Unedited.")
    assert said["no editor"].startswith("Only the unedited model was measured: its S is 1.000")
    assert said["nothing gained"].startswith(
        "No editor is significantly better than the unedited model"
    )
    assert (
        said["five edits"]
        == "IKE has S 1.000 [.48,1.00] on 5 test edits, too few to tell editors apart."
    )
    assert said["nothing judged"] == "No answer of this run could be judged."
    assert said["other edits"].endswith(", but no other editor was measured on the same edits.")
    assert said["two models"] == "Highest S in 2 settings: DR-IKE in 2."
    assert said["two settings without a right answer"] == "No editor is above 0 in any setting."
    assert all(
        re.fullmatch(r"[A-Z].*[^.]\.", sentence) and "n/a" not in sentence
        for sentence in said.values()
    )


def retention(unedited: float) -> list[str]:
    """What is said of RR where the unedited model answers this share of neighbours."""
    whole = run_of(0, cases=20)
    neighbours = [o for o in whole.outcomes["Unedited"] if o.aspect is Aspect.NEIGHBORHOOD]
    right = {id(o) for o in neighbours[: round(unedited * len(neighbours))]}
    outcomes = tuple(
        replace(o, correct=id(o) in right) if o.aspect is Aspect.NEIGHBORHOOD else o
        for o in whole.outcomes["Unedited"]
    )
    [group] = grouped([replace(whole, outcomes={**whole.outcomes, "Unedited": outcomes})])
    [summary, *_] = document([group]).sections
    return [line for line in summary.text if "RR cannot be read" in line]


def test_the_first_screen_says_when_retention_cannot_be_read() -> None:
    [line] = retention(0.05)
    assert "answers only 5% of the neighbouring facts right" in line and "RR known" in line
    assert retention(0.45) and not retention(0.5) and not retention(1.0)


def test_the_first_table_explains_every_editor_that_is_not_the_papers() -> None:
    controls = ["Switch by name", "Nearest (size of DR-IKE-Q)", "Nearest, k=4"]
    [group] = grouped([run_of(0, editors=["Unedited", "IKE", "DR-IKE", *controls])])
    [table] = scores(group)
    notes = " ".join(table.notes)
    assert "Switch by name: copies and updates where a query names the edit's subject" in notes
    assert "as many demonstrations as DR-IKE-Q shows for the query, but the nearest" in notes
    assert "Nearest, k=4: the 4 retains nearest to the edit" in notes and "IKE: " not in notes


def test_two_trainings_of_one_label_and_seed_are_both_shown() -> None:
    one = run_of(0, editors=["Unedited", "IKE"])
    other = replace(run_of(0, editors=["DR-IKE"]), folder="runs/other", episodes=one.episodes[:6])
    groups = grouped([one, other])
    assert len(groups) == 1
    [training] = [section for section in document(groups).sections if section.id == "training"]
    [table] = training.tables
    headings = [row[0] for row in table.rows if len(row) == 1]
    assert headings == ["some-model, Lands, seed 0", "some-model, Lands, seed 0, runs/other"]
    same = replace(other, episodes=one.episodes)  # two evaluations of one training
    [training] = [each for each in document(grouped([one, same])).sections if each.id == "training"]
    assert len([row for row in training.tables[0].rows if len(row) == 1]) == 1
