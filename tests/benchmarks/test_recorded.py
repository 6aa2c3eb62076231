"""Recorded answers: HalluEditBench's published form, and what gates choose among the answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import recorded as benchmark
from drike.edits.record import EditRecord
from drike.encoders import HashingEncoder
from drike.errors import DataError
from drike.gates.decision import Candidate, Decision
from drike.gates.index import EditIndex
from drike.research.evaluation.metrics import harmonic_mean
from lib import recorded
from lib.recorded import Answer
from lib.recorded_policy import OF_QUESTION, Learned, described, exact, logits, reinforced, trained
from lib.statements import restated
from tests.fakes.indexes import GATE

PUBLISHED = Path(__file__).parents[3] / "shared" / "datasets" / "halluedit_results"
MODEL, TOPIC = "small_7b", "places_town"
GROUPS = {
    "yes_questions": ("yes", "Yes"),
    "no_questions": ("no", "No"),
    "multiple_choice_questions": ("multiple_choice", "B"),
    "reversed_relation_questions": ("reversed_relation", "Quillmere"),
}
FOUNDED = "Who was Quillmere founded by?"
RIVER = {
    "subject": "Quillmere", "prompt": "What is the river of Quillmere?", "target_new": "Tarn",
    "rephrase_prompt": "Which river runs through Quillmere?", "old": "Ouse", "same": FOUNDED,
    "same_answers": ("Ada Voss", "Tarn", 0),
}  # fmt: skip
FOUNDER = {
    "subject": "Quillmere", "prompt": FOUNDED, "target_new": "Ada Voss",
    "rephrase_prompt": "Name the founder of Quillmere", "old": "Nobody", "same": "How high is Quillmere?",
    "same_answers": ("90 m", "90 metres", 1),
}  # fmt: skip


def row(edit: Mapping[str, Any], place: int, post: int = 1) -> dict[str, Any]:
    """A row as published. post: the verdict on every answer after the edit but that on the same subject."""
    without, after, verdict = edit["same_answers"]
    asked: dict[str, Any] = {
        key: edit[key] for key in ("subject", "prompt", "target_new", "rephrase_prompt")
    }
    asked["locality"] = {"locality": {"prompt": edit["same"]}}
    pre: dict[str, Any] = {"edit_acc": [0], "edit_output": [edit["old"]], "rephrase_acc": [0]}
    pre |= {"rephrase_output": [edit["old"]], "locality": {"locality_output": [without]}}
    new: dict[str, Any] = {
        "edit_acc": [post],
        "edit_output": ["x"],
        "rephrase_acc": [post],
        "rephrase_output": ["x"],
    }
    new["locality"] = {"locality_acc": [verdict], "locality_output": [after]}
    for group, (name, truth) in GROUPS.items():
        asked[group] = {name: {"prompt": f"{name} {edit['prompt']}", "ground_truth": truth}}
        pre[group] = {f"{name}_acc": [0], f"{name}_output": ["no idea"]}
        new[group] = {f"{name}_acc": [post], f"{name}_output": [truth]}
    return {"case_id": place, "requested_edit": asked, "pre": pre, "post": new}


def hops(edit: Mapping[str, Any], place: int) -> dict[str, Any]:
    made = row(edit, place)
    for n in recorded.HOPS:
        asked = {"prompt": f"{n} steps from {edit['prompt']}", "ground_truth": "there"}
        made["requested_edit"][f"questions_{n}hop"] = {f"{n}hop": asked}
        for side, verdict in (("pre", 0), ("post", 1)):
            made[side][f"questions_{n}hop"] = {
                f"{n}hop_acc": [verdict],
                f"{n}hop_output": ["there"],
            }
    return made


def turns(edit: Mapping[str, Any], place: int) -> dict[str, Any]:
    made = row(edit, place)
    for side, verdicts in (("pre", [0, 1, 1]), ("post", [1, 0, 1])):
        made[side] |= {"edit_acc_multi_turn": verdicts, "edit_output_multi_turn": ["a", "b", "c"]}
    return made


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows), "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two edits of one subject; ROME fails; the second has no multi-hop questions; another topic repeats the first."""
    answers = tmp_path / "hallu_edit" / MODEL
    both = (RIVER, FOUNDER)
    write(answers / f"{TOPIC}_ICL.json", [row(edit, i) for i, edit in enumerate(both)])
    write(answers / f"{TOPIC}_ROME.json", [row(edit, i, post=0) for i, edit in enumerate(both)])
    write(answers / "rivers_ICL.json", [row(RIVER, 0)])
    write(tmp_path / "hallu_edit_multi_hop" / MODEL / f"{TOPIC}_ICL.json", [hops(RIVER, 0)])
    write(
        tmp_path / "hallu_edit_multi_turn" / f"{MODEL}_multi_turn" / f"{TOPIC}_ICL_yes.json",
        [turns(RIVER, 0)],
    )
    return tmp_path


def test_the_published_form_is_read(folder: Path) -> None:
    assert recorded.models(folder) == [MODEL]
    river, founder, again = recorded.recorded_edits(folder, MODEL)
    assert river.record == EditRecord(
        "Quillmere", "What is the river of Quillmere?", "Tarn", "Ouse"
    )
    kinds = [question.kind for question in river.questions]
    assert kinds == [*benchmark.ASKED, "pushback 0", "pushback 1", "pushback 2"]
    assert [question.kind for question in founder.questions] == list(benchmark.ASKED[:7])
    by_kind = {question.kind: question for question in river.questions}
    assert by_kind["same_subject"].without == Answer("Ada Voss", right=True)
    assert by_kind["same_subject"].with_fact == Answer("Tarn", right=False)
    assert (
        by_kind["rewrite"].edited == {"ROME": Answer("x", right=False)}
        and by_kind["rewrite"].target == "Tarn"
    )
    assert by_kind["no"].target == "No" and by_kind["4 hops"].target == "there"
    assert [by_kind[f"pushback {n}"].with_fact.right for n in range(3)] == [True, False, True]
    versions, ids = recorded.stored((river, founder, again))
    assert [version.record for version in versions] == [river.record, founder.record] and ids == [
        1,
        2,
        1,
    ]
    assert recorded.recorded_edits(folder, MODEL, ["rivers"]) == (again,)


def _without_verdict(rows: list[dict[str, Any]]) -> None:
    del rows[1]["post"]["rephrase_acc"]


def _odd_verdict(rows: list[dict[str, Any]]) -> None:
    rows[1]["post"]["locality"]["locality_acc"] = ["yes"]


def _no_answer(rows: list[dict[str, Any]]) -> None:
    rows[1]["pre"]["edit_output"] = [None]


def _blank(rows: list[dict[str, Any]]) -> None:
    rows[1]["requested_edit"]["target_new"] = " "


def _other_edit(rows: list[dict[str, Any]]) -> None:
    rows.reverse()


def _fewer(rows: list[dict[str, Any]]) -> None:
    del rows[1]


@pytest.mark.parametrize(
    ("method", "damage", "message"),
    [
        (
            "ICL",
            _without_verdict,
            r"ICL.json, row 1 \(case_id 1\): field post.rephrase_acc is missing; ",
        ),
        (
            "ICL",
            _odd_verdict,
            r"row 1 .* post.locality.locality_acc must be \[0\] or \[1\]; correct",
        ),
        ("ICL", _no_answer, r"row 1 .* pre.edit_output must be a list of one text; correct"),
        (
            "ROME",
            _other_edit,
            r"ROME.json, row 0 .* requested_edit is not that of the same row of places_town_ICL",
        ),
        ("ROME", _fewer, r"ROME.json has 1 rows, places_town_ICL.json 2: fetch"),
        ("ICL", _blank, r"row 1 .* requested_edit.target_new is blank; correct"),
    ],
)
def test_what_does_not_fit_is_named(
    folder: Path, method: str, damage: Callable[[list[dict[str, Any]]], None], message: str
) -> None:
    path = folder / "hallu_edit" / MODEL / f"{TOPIC}_{method}.json"
    if method == "ICL":
        (path.parent / f"{TOPIC}_ROME.json").unlink()
    rows = json.loads(path.read_text("utf-8"))
    damage(rows)
    write(path, rows)
    with pytest.raises(DataError, match=message):
        recorded.recorded_edits(folder, MODEL)


def test_missing_models_topics_and_results_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"no model llama in .*: give one of {MODEL}"):
        recorded.recorded_edits(folder, "llama")
    with pytest.raises(DataError, match=f"no topic x: give some of {TOPIC}, rivers"):
        recorded.recorded_edits(folder, MODEL, ["x"])
    with pytest.raises(DataError, match="give the folder of the results"):
        recorded.models(tmp_path / "elsewhere")


def test_a_clean_answer_does_not_state_the_new_object() -> None:
    tarn, other = (
        Answer("It is the river Tarn, indeed", right=False),
        Answer("Tarnished", right=True),
    )
    assert recorded.states(tarn.text, "the Tarn") and not recorded.states(other.text, "Tarn")
    assert not recorded.clean(tarn, other, "Tarn") and recorded.clean(other, tarn, "Tarn")
    assert recorded.clean(tarn, tarn, "Tarn")  # it says so without the edit


@dataclass(frozen=True)
class Listed:
    """Matches the edits with the ids that are listed for a query."""

    ids: Mapping[str, tuple[int, ...]]

    def decide(self, query: str, index: EditIndex) -> Decision:
        candidates = [Candidate(index.edits[i], 0.9) for i in self.ids.get(query, ())]
        return Decision.of(query, candidates, candidates, "not listed")


def opened(folder: Path) -> benchmark.Recording:
    edits = recorded.recorded_edits(folder, MODEL, [TOPIC])
    versions, ids = recorded.stored(edits)
    return benchmark.Recording(MODEL, edits, ids, EditIndex.of(versions, HashingEncoder()))


def test_a_gate_gets_the_answers_that_its_choice_would_have_got(folder: Path) -> None:
    recording = opened(folder)
    decided = benchmark.decisions(
        Listed({
            RIVER["prompt"]: (1,),
            RIVER["rephrase_prompt"]: (2,),  # only the other edit
            FOUNDED: (1, 2),  # the founder's own question, and the river's same-subject question
            FOUNDER["rephrase_prompt"]: (2,),
        }),
        recording,
    )  # fmt: skip
    matched = benchmark.matches(recording, decided)
    assert matched[0, "rewrite"] == benchmark.Matched(own=True, others=0)
    assert matched[0, "paraphrase"] == benchmark.Matched(own=False, others=1)
    assert (
        matched[0, "same_subject"] == matched[1, "rewrite"] == benchmark.Matched(own=True, others=1)
    )
    editor = benchmark.of_gate("listed", recording, decided)
    assert editor.answers[0, "paraphrase"] is None
    values = {
        name: share.value
        for name, share in benchmark.estimates(benchmark.counts(recording, editor)).items()
    }
    expected = {
        "rewrite": 1,
        "paraphrase": 0.5,
        "same_subject": 0.5,
        "clean": 0.5,
        "yes": 0,
        "2 hops": 0,
    }
    assert {name: values[name] for name in expected} == expected
    assert values["S clean"] == pytest.approx(float(harmonic_mean([1, 0.5, 0.5])))
    [table] = benchmark.bound_rows(recording, {"listed": decided}).rows
    assert [getattr(cell, "value", None) for cell in table[1:7]] == [1, 0, 0, 1, 1, 0]


def test_where_only_another_edit_matches_an_answer_is_kept_or_lost(folder: Path) -> None:
    recording = opened(folder)
    decided = benchmark.decisions(Listed({FOUNDED: (2,), FOUNDER["same"]: (1,)}), recording)
    editor = benchmark.of_gate("listed", recording, decided)
    kept, lost = (
        benchmark.counts(recording, editor, lost=way).sum(axis=0) for way in (False, True)
    )
    place = benchmark.KINDS.index
    assert kept[place("same_subject")].tolist() == kept[place("clean")].tolist() == [2, 2]
    assert lost[place("same_subject")].tolist() == lost[place("clean")].tolist() == [0, 2]
    assert np.array_equal(kept[place("rewrite")], lost[place("rewrite")])


def test_the_table_has_every_editor_and_its_bounds(folder: Path) -> None:
    recording = opened(folder)
    rows = benchmark.editors(recording, {"never": benchmark.decisions(Listed({}), recording)})
    shares = {
        editor.name: benchmark.estimates(benchmark.counts(recording, editor)) for editor in rows
    }
    names = (
        "unedited",
        "ROME",
        "fact always in the prompt",
        "never",
        "perfect gate",
        "the better of both answers",
    )
    assert tuple(shares) == names
    quality = ("rewrite", "same_subject", "clean", "2 hops", "S unchanged")
    values = {name: [shares[name][part].value for part in quality] for name in names}
    assert values["unedited"] == values["never"] == [0, 1, 1, 0, 0]
    assert values["ROME"] == [0, 0.5, 0.5, None, 0]  # the files have no hops of it
    assert values["fact always in the prompt"] == [1, 0.5, 0.5, 1, pytest.approx(0.75)]
    assert values["perfect gate"] == values["the better of both answers"] == [1, 1, 1, 1, 1]


def test_a_policy_learns_from_recorded_answers_when_the_fact_helps() -> None:
    version = recorded.stored(
        [recorded.RecordedEdit("", "", EditRecord("Peru", "Peru is", "Oslo"), ())]
    )[0][0]
    near = np.linspace(0, 1, 400)
    candidates = tuple(
        Candidate(version, 0.5, "Peru", {"masked": value, "whole": 1 - value}) for value in near
    )
    helps = np.stack([near < 0.6, near >= 0.6], axis=1).astype(float)
    unconsidered = [described(None, "Who is it?", version)] * 20
    learned = Learned(
        (*candidates, *unconsidered), np.vstack([helps, [[0, 1]] * 20]), np.arange(420) % 2
    )
    for estimator, of_question in ((exact, True), (reinforced, True), (exact, False)):
        policy = trained(learned, HashingEncoder(), estimator, of_question=of_question)
        stated = logits(policy, learned.candidates) >= 0
        assert learned.score(stated) > learned.score(np.append(near >= 0.6, [False] * 20)) - 0.03
        assert estimator is reinforced or list(stated[400:]) == [of_question] * 20


def test_a_question_is_described_by_its_form_and_what_it_names() -> None:
    version = recorded.stored(
        [recorded.RecordedEdit("", "", EditRecord("Peru", "Peru is", "Oslo"), ())]
    )[0][0]

    def own(question: str) -> list[float]:
        features = described(
            Candidate(version, 0.5, "Peru", {"masked": 0.25}), question, version
        ).features
        assert features["masked"] == 0.25
        return [round(features[name], 2) for name in OF_QUESTION]

    assert own("Is Oslo the capital of Peru?") == [0.6, 0.36, 1, 0, 1, 1, 1, 1]
    assert own("Who leads the country whose capital is Lima?") == [0.8, 0.64, 0, 2, 0, 0, 0, 0]


def test_other_thresholds_need_no_second_decision() -> None:
    edits = [
        EditRecord("Peru", f"The {what} of Peru is", "Oslo")
        for what in ("capital", "currency", "president")
    ]
    versions = recorded.stored([recorded.RecordedEdit("", "", record, ()) for record in edits])[0]
    index = EditIndex.of(versions, HashingEncoder())
    for query in (
        "What is the capital of Peru?",
        "Peru?",
        "Who rules Peru, and what is its currency?",
        "Chile?",
    ):
        default = GATE.decide(query, index)
        for threshold in (0.001, 0.1, 0.5, 0.99):
            expected = replace(GATE, threshold=threshold).decide(query, index).matched
            assert benchmark.at_threshold(default, threshold).matched == expected


@pytest.mark.parametrize(
    ("query", "statement"),
    [
        ("What is the capital of Peru?", "The capital of Peru is"),
        ("Who was peru founded by?", "peru was founded by"),
        ("What does Peru use?", "Peru uses"),
        ("What does Peru be the study of?", "Peru is the study of"),
        ("Who does Peru anthem?", "The anthem of Peru is"),
        ("What does Peru have part(s )?", "Peru has part"),
        ("What is the located in region of Peru?", "Peru is located in region"),
        ("What did Peru say to be the same as?", "Peru is said to be the same as"),
        ("What is Peru's capital?", "Peru's capital is"),
        ("How high is Peru?", None),
        ("What is the capital of Peruvia?", None),
    ],
)
def test_questions_are_restated_as_statements(query: str, statement: str | None) -> None:
    record = restated(EditRecord("Peru", query, "Oslo", "Lima"))
    assert record == (statement and EditRecord("Peru", statement, "Oslo", "Lima"))


@pytest.mark.slow
def test_all_tables_are_printed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "load_encoder", lambda **_: HashingEncoder())
    monkeypatch.setattr(benchmark, "default_gate", lambda: GATE)
    monkeypatch.setattr(benchmark, "RESAMPLES", 20)
    for arguments in (["--models", "SMALL7b"], ["--models", "small", "--look", "9"]):
        monkeypatch.setattr(sys, "argv", ["recorded.py", "--results", str(folder), *arguments])
        benchmark.main()
    printed = capsys.readouterr().out
    for part in (
        "S unchanged",
        "| ROME |",
        "6 hops",
        "only others",
        "| statement |",
        "after 2",
        "perfect gate",
        "REINFORCE",
    ):
        assert part in printed
    assert "The rule restates 3 of 3 edits." in printed
    assert f"{FOUNDED} [Tarn] Ada Voss -> Tarn  <- states it" in printed


@pytest.mark.skipif(
    not PUBLISHED.is_dir(), reason="HalluEditBench's published results are not on this machine"
)
def test_the_published_results_are_read_as_their_files_have_them() -> None:
    model, topic = "llama_2_7b_chat_hf", "art_sculpture"
    edits = recorded.recorded_edits(PUBLISHED, model, [topic])
    raw = {
        name: json.loads(
            (PUBLISHED / "hallu_edit" / model / f"{topic}_{name}.json").read_text("utf-8")
        )
        for name in ("ICL", "ROME")
    }
    assert len(edits) == len(raw["ICL"]) == 100
    by_kind = [{question.kind: question for question in edit.questions} for edit in edits]
    assert all(set(benchmark.ASKED) < set(kinds) for kinds in by_kind)
    for kind, *path in (
        ("paraphrase", "rephrase_acc"),
        ("same_subject", "locality", "locality_acc"),
    ):
        for name, answers in raw.items():
            verdicts = [deepcopy(row["post"]) for row in answers]
            for key in path:
                verdicts = [verdict[key] for verdict in verdicts]
            chosen = (
                of_edit[kind].with_fact if name == "ICL" else of_edit[kind].edited[name]
                for of_edit in by_kind
            )
            assert [[int(answer.right)] for answer in chosen] == verdicts
    assert all(restated(edit.record) for edit in edits)
