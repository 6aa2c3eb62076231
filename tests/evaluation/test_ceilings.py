"""Ceilings: laws of choices in hindsight, of the greedy search, and of `drike ceiling`."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from benchmarks.lib.seeds import measured
from drike.demonstrations import Role
from drike.editors.catalog import make
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool
from drike.editors.role_counts import RoleCounts, SameSize, SubjectSwitch, mixes_of
from drike.edits import ASPECTS_OF_S, Aspect
from drike.encoders import HashingEncoder
from drike.evaluation.answer_matrix import CaseAnswers, answers_under
from drike.evaluation.ceilings import (
    ALL,
    MOST,
    AnswerMatrix,
    RetainSubset,
    ceilings,
    hindsight_answers,
    random_subsets,
)
from drike.evaluation.evaluate import evaluate
from drike.evaluation.metrics import summarise
from drike.report.ceilings import ceilings_table
from drike.support.table import as_text
from tests.worlds.commands import run
from tests.worlds.scripted import ScriptedModel
from tests.worlds.small import CAPITALS, old_object

POOL = Pool(CAPITALS[30:], HashingEncoder(), roles=((Role.COPY, 2), (Role.UPDATE, 2), (Role.RETAIN, 6)))
TEST = CAPITALS[20:28]
MIXES = mixes_of(POOL.roles)
CHOICES = [*MIXES, *random_subsets(6, 8, seed=0)]


def moody(prompt: str) -> str:
    """Keep the old object after some texts and take the new one after others, as a hash of the text decides."""
    fact, question = prompt.splitlines()[-2:]
    return old_object(question) if crc32(prompt.encode()) % 3 else fact.split()[-1]


MODEL = ScriptedModel(moody)


@pytest.fixture(scope="module")
def answers() -> list[CaseAnswers]:
    return list(hindsight_answers(CHOICES, MODEL, POOL, TEST))


def test_more_freedom_in_hindsight_never_lowers_s(answers: list[CaseAnswers]) -> None:
    answered = AnswerMatrix.of(TEST, answers)
    s = {name: answered.score(chosen) for name, chosen in ceilings(answered, CHOICES, POOL).items()}
    for lower, higher in (
        (ALL, "best k of all edits"), ("best k of all edits", "best k per edit"), ("best k per edit", MOST),
        ("best k of all edits", "best k per kind of query"), ("best k per kind of query", MOST),
        (MOST, "best mix per query"), ("best mix per kind of query", "best mix per query"),
        ("best of 8 random subsets per edit", "best of all these subsets per edit"),
        ("greedy subset per edit", "best of all these subsets per edit"),
    ):  # fmt: skip
        assert s[lower] <= s[higher], (lower, higher)
    assert s[ALL] < s["best k per edit"] < s["best of all these subsets per edit"] and s[MOST] < s["best mix per query"]


def test_the_best_choice_per_query_is_the_maximum_over_all_choices() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        right = rng.integers(0, 2, size=(6, 3)).astype(float)
        aspect, case = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 0, 0, 1, 1, 1])
        answered = AnswerMatrix(right, right, ASPECTS_OF_S, aspect, case, ("a", "b"))
        most = max(answered.score(np.array(chosen)) for chosen in product(range(3), repeat=6))
        assert answered.score(answered.best(np.arange(6), range(3))) == pytest.approx(most)
        best = answered.score(answered.best(case, range(3)))
        assert max(answered.score(answered.always(i)) for i in range(3)) <= best <= most


def test_s_of_a_fixed_choice_is_that_of_an_evaluation(answers: list[CaseAnswers]) -> None:
    answered = AnswerMatrix.of(TEST, answers)
    for k in (1, 2, 4):
        [column] = [i for i, mix in enumerate(MIXES) if mix == RoleCounts(2, 2, k)]
        found = answered.measured(answered.always(column))
        summary = summarise(list(evaluate(make(f"nearest@{k}", pool=POOL), MODEL, TEST)))
        assert found.s == summary.s
        assert list(found.rates.values()) == pytest.approx([summary.esr.value, summary.pc.value, summary.rr.value])


def test_an_edit_that_several_seeds_test_is_one_case(answers: list[CaseAnswers]) -> None:
    seeds = [AnswerMatrix.of(TEST[::step], answers[::step]) for step in (1, -1)]  # the same edits in another order
    for column in range(len(CHOICES)):
        alone, *both = ([(seed, seed.always(column)) for seed in some] for some in (seeds[:1], seeds, seeds * 2))
        [(matrix, chosen)] = alone
        assert all(measured(found) == measured(alone) == matrix.measured(chosen) for found in both)


def test_greedy_search_ends_where_no_single_change_answers_more(answers: list[CaseAnswers]) -> None:
    def share(case: CaseAnswers, column: int) -> float:
        right = [row[column] for row in case.correct]
        return (right[0] + right[1] + sum(right[2:]) / len(right[2:])) / 3  # a rewrite, a paraphrase, neighbours

    starts = [i for i, mix in enumerate(MIXES) if (mix.copies, mix.updates) == (2, 2)]
    every = [RetainSubset(frozenset(i for i in range(6) if number >> i & 1)) for number in range(64)]
    by_case = dict(zip([case.case_id for case in TEST], answers_under(every, MODEL, POOL, TEST), strict=True))
    gained = 0
    for case in answers:
        found, best_k, all_of_them = share(case, -1), max(share(case, i) for i in starts), by_case[case.case_id]
        assert best_k <= found <= max(share(all_of_them, i) for i in range(64))
        gained += found > best_k
        ends = [i for i in range(64) if [row[i] for row in all_of_them.correct] == [row[-1] for row in case.correct]]
        assert any(all(share(all_of_them, i ^ 1 << j) <= found for j in range(6)) for i in ends)
    assert gained


def test_an_aspect_that_no_edit_probes_counts_for_nothing() -> None:
    cases = [replace(case, probes=tuple(p for p in case.probes if p.aspect is not Aspect.PARAPHRASE)) for case in TEST]
    answered = AnswerMatrix.of(cases, list(answers_under(CHOICES, MODEL, POOL, cases)))
    found = {name: answered.measured(one) for name, one in ceilings(answered, CHOICES, POOL).items()}
    table = ceilings_table(found, "lands")
    assert table.notes[-1].startswith("No test edit has a paraphrase probe") and {
        as_text(row[3]) for row in table.rows
    } == {"n/a"}
    assert "greedy subset per edit" not in found and found[MOST].s.value


def test_random_subsets_are_different_and_the_same_for_a_seed() -> None:
    assert len({*random_subsets(16, 100, 0)}) == 100 and random_subsets(16, 9, 0) == random_subsets(16, 9, 0)
    assert {*random_subsets(2, 100, 0)} == {RetainSubset(frozenset(one)) for one in ((), (0,), (1,), (0, 1))}


def test_the_control_of_a_policy_shows_as_many_demonstrations_and_the_nearest() -> None:
    few, many = RoleCounts(0, 1, 0), RoleCounts(2, 0, 4)
    editor = InContextEditor("control", POOL, SameSize(SubjectSwitch(few, many)))
    for case in TEST:
        [candidates] = POOL.candidates([case.edit])
        for probe, prompt in zip(case.probes, editor.prompts([case.edit], [p.query for p in case.probes]), strict=True):
            mix = few if probe.aspect is not Aspect.NEIGHBORHOOD else many
            assert {*prompt.demonstrations} == {*candidates.demonstrations[: mix.size]}


SMALL = ("--model", "reader", "--encoder", "hashing", "--test", "2", "--random-subsets", "1")


def test_a_ceiling_that_is_resumed_asks_only_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ceiling"
    assert run("ceiling", *SMALL, "--out", str(folder)) == 0
    assert f"{ALL} " in capsys.readouterr().out
    found, lines = (folder / "ceilings.json").read_bytes(), (folder / "answers.jsonl").read_bytes()
    asked = json.loads((folder / "usage.json").read_bytes())["answers"]["prompts"]
    for kept in (2, 1):
        first = lines.splitlines(keepends=True)[:kept]
        (folder / "answers.jsonl").write_bytes(b"".join(first) + b'{"case_id')
        (folder / "ceilings.json").unlink()
        assert run("ceiling", "--resume", str(folder)) == 0
        assert f"Recovered {kept} of 2 edits" in capsys.readouterr().out
        again = json.loads((folder / "usage.json").read_bytes())["answers"]["prompts"]
        assert again == asked if kept == 2 else again > asked
        assert (folder / "ceilings.json").read_bytes() == found and (folder / "answers.jsonl").read_bytes() == lines
    assert run("report", str(folder)) == 2
    assert "name an evaluated run" in capsys.readouterr().err
    assert run("ceiling", "--resume", str(folder), "--random-subsets", "4") == 2
    assert run("evaluate", "--resume", str(folder)) == 1


def test_a_trained_run_is_placed_between_its_floor_and_ceiling_and_in_its_report(tmp_path: Path) -> None:
    small = ("--model", "reader", "--encoder", "hashing", "--edits", "4", "--test", "2", "--epochs", "1")
    editors = "ike,dr-ike,dr-ike-q,by-name,nearest-same-size"
    trained, evaluated, folder = (str(tmp_path / name) for name in ("t", "e", "c"))
    assert run("train", *small, "--objective", "balanced", "--out", trained) == 0
    assert run("evaluate", "--run", trained, "--editors", editors, "--out", evaluated) == 0
    assert run("ceiling", "--run", trained, "--random-subsets", "1", "--out", folder) == 0
    found = json.loads((tmp_path / "c" / "ceilings.json").read_bytes())
    summaries = json.loads((tmp_path / "e" / "summary.json").read_bytes())
    for editor in ("DR-IKE", "DR-IKE-Q"):
        assert found[editor]["s"]["value"] == pytest.approx(summaries[editor]["s"]["value"])
    table = (tmp_path / "c" / "table.md").read_text("utf-8")
    [closed] = [line.split("|")[-2].strip() for line in table.splitlines() if line.startswith("| DR-IKE |")]
    assert closed == "0%" and "gap between DR-IKE and best k per query" in table
    differences = (tmp_path / "e" / "table.md").read_text("utf-8")
    for control in ("IKE", "DR-IKE", "Switch by name", "Nearest (size of DR-IKE-Q)"):
        assert f"DR-IKE-Q minus {control} " in differences
    assert run("report", evaluated, folder, "--out", str(tmp_path / "r.html")) == 0
    report = (tmp_path / "r.md").read_text("utf-8")
    assert "## Ceilings" in report and "best k per query" in report


def test_a_dry_run_counts_at_least_what_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("ceiling", "--encoder", "hashing", "--test", "1", "--random-subsets", "1", "--template", "chat")
    assert run(*asked, "--model", "vllm:m@http://127.0.0.1:9/v1", "--dry-run") == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("calls")]
    assert run(*asked, "--model", "reader", "--out", str(tmp_path / "c")) == 0
    used = json.loads((tmp_path / "c" / "usage.json").read_bytes())["answers"]["prompts"]
    assert int(line.split()[1].replace(",", "")) >= used > 0
