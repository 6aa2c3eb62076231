"""Own facts from CSV, JSON and JSON lines, for evaluation and for a store of edits; and files that are no data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.cli.gateway_parts import open_editor
from drike.edits.edit import Edit
from drike.edits.record import EditRecord
from drike.errors import DataError
from drike.research.datasets import load, own
from drike.stores.columns import STORED
from drike.stores.tables import edits_of, scan
from tests.datasets.test_datasets import flat_row, written
from tests.fakes.commands import run

HEADER = (
    "prompt,target_new,subject,target_true,paraphrase,paraphrase_2,neighborhood_prompt,neighborhood_answer,aliases,"
    "status\n"
)
PERU = (
    "The capital of Peru is,Oslo,Peru,Lima,Peru is governed from|Peru's seat is,Peru's capital:,The capital of Cuba is,"
    "Havana,,active\n"
)
CHILE = "The capital of Chile is,Rome,,,,,,,,\n"


def file(folder: Path, text: str | bytes, name: str = "facts.csv") -> Path:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


def probes(path: Path) -> list[list[tuple[str, str, str, str | None]]]:
    return [
        [(p.aspect.value, p.query, p.target, p.distractor) for p in case.asked]
        for case in load(path).cases
    ]


def test_a_table_gives_edits_with_their_probes_and_blank_cells_give_none(tmp_path: Path) -> None:
    data = load(file(tmp_path, HEADER + PERU + CHILE))
    assert [(c.case_id, c.edit.subject, c.edit.target_true, c.edit.relation) for c in data.cases] == [
        ("0", "Peru", "Lima", "The capital of {} is"), ("1", None, None, None),
    ]  # fmt: skip
    assert probes(tmp_path / "facts.csv") == [
        [
            ("rewrite", "The capital of Peru is", "Oslo", "Lima"),
            ("paraphrase", "Peru is governed from", "Oslo", "Lima"),
            ("paraphrase", "Peru's seat is", "Oslo", "Lima"),
            ("paraphrase", "Peru's capital:", "Oslo", "Lima"),
            ("neighborhood", "The capital of Cuba is", "Havana", "Oslo"),
        ],
        [("rewrite", "The capital of Chile is", "Rome", None)],
    ]  # fmt: skip
    assert not data.dropped and data.sources[0].form == own.FORM.name


def test_one_fact_is_the_same_in_every_format_and_under_every_name_of_its_fields(
    tmp_path: Path,
) -> None:
    ours = {
        "prompt": "The capital of Peru is", "target_new": "Oslo", "subject": "Peru", "target_true": "Lima",
        "paraphrases": ["Peru is governed from", "Peru's seat is"], "paraphrase": "Peru's capital:",
        "neighborhood": [{"prompt": "The capital of Cuba is", "answer": "Havana"}],
    }  # fmt: skip
    names = {
        "prompt": "query",
        "target_true": "ground_truth",
        "paraphrases": "wordings",
        "paraphrase": "wording_2",
    }
    theirs = {names.get(name, name): value for name, value in ours.items()}
    table = probes(file(tmp_path, HEADER + PERU))
    for number, row in enumerate((ours, theirs)):
        assert probes(written(tmp_path, [row], f"{number}.json")) == table
        assert probes(file(tmp_path, json.dumps(row), f"{number}.jsonl")) == table, (
            "a single line, too"
        )
    excel = "\ufeff" + (HEADER + PERU).replace(",", ";").replace("\n", "\r\n") + ";;;;;;;;;\r\n"
    assert probes(file(tmp_path, excel, "excel.csv")) == table


def test_a_table_serves_evaluation_and_a_store_of_edits_alike(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        HEADER + PERU + CHILE.replace("Rome,", "Rome,Chile").replace(",,\n", ",Chili|Cile,draft\n"),
    )
    [peru, chile] = [row[1] for row in edits_of(scan(path)[0]) if isinstance(row, tuple)]
    [first, second] = load(path).cases
    assert (peru.query, peru.target_new, peru.subject, peru.target_true) == (
        first.edit.query, first.edit.target_new, first.edit.subject, first.edit.target_true,
    )  # fmt: skip
    assert peru.paraphrases == tuple(p.query for p in first.paraphrases)
    assert (chile.aliases, chile.status, chile.query) == (
        ("Chili", "Cile"),
        "draft",
        second.edit.query,
    )
    known = {"subject", "query", "target_new", "target_true", "relation", "paraphrases"}
    assert {one.name for one in fields(EditRecord)} == known | set(STORED), (
        "a store's fields are columns of own facts"
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("promt,target_new\nx,y\n", r"row 2 has no field 'prompt' \(promt: did you mean prompt\?\); the columns"),
        ("prompt,answer\nx,y\n", r"row 2 has no field 'target_new'; the columns of own facts are prompt \(or query\)"),
        ("prompt,target_new,subjct\nx,y,z\n", r"unknown field 'subjct' \(did you mean subject\?\); the columns of own"),
        ("prompt,target_new,Subjekt\nx,y,z\n", r"unknown field 'Subjekt' \(did you mean subject\?\)"),
        ("prompt,target_new,notes\nx,y,z\n", r"unknown field 'notes'; the columns of own facts are"),
        ("prompt,target_new,query\nx,y,z\n", r"has prompt and query, which mean the same; remove one"),
        ("prompt,target_new\nx,y\nx\n", r"row 3.*: field target_new is missing"),
        ("prompt,target_new\n\nx,y,z\n", r"row 3 has 3 fields and the header 2; put texts with commas in quotes"),
        ("prompt;target_new\nx;y;z\n", r"row 2 has 3 fields and the header 2; put texts with semicolons in quotes"),
        ('prompt,target_new\nx,y\n"x,y\n', r"row 3 is not valid CSV \(unexpected end of data\); correct its quotes"),
        ("prompt,target_new\nx,y\0\n", "line 2 holds a NUL character; save the file as UTF-8"),
        ("prompt,target_new\nx,y\n".encode("utf-16"), "is not UTF-8 text .*; save it as UTF-8"),
        ("prompt,target_new\nx,y\n".encode("utf-16-le"), "line 1 holds a NUL character"),
        ("\ufeff \n", "is empty; give a file with rows"),
        ("prompt,target_new\n", "holds no rows"),
        ("prompt,target_new,neighborhood_answer\nx,y,z\n", "neighborhood_answer and no neighborhood_prompt; name both"),
        ("prompt,target_new\nx,\n", "no usable row .1 left out: an object is blank"),
        ('prompt,target_new\nx,"a\nb"\n', "no usable row .1 left out: an object has a line break"),
    ],
)  # fmt: skip
def test_a_broken_table_is_refused_with_file_row_and_remedy(
    tmp_path: Path, text: str | bytes, named: str
) -> None:
    with pytest.raises(DataError, match=named) as caught:
        load(file(tmp_path, text))
    assert "facts.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_what_spreadsheets_add_to_a_table_is_no_fact(tmp_path: Path) -> None:
    plain = file(tmp_path, "prompt,target_new\nA is,B\nC is,D\n", "plain.csv")
    tabs = file(tmp_path, "prompt\ttarget_new\nA is\tB\nC is\tD\n", "tabs.tsv")
    added = file(
        tmp_path, "prompt,target_new,,\nA is,B,,\n,,\nprompt,target_new,,\nC is,D,,\n", "added.csv"
    )
    for other in (added, tabs):
        assert [case.edit for case in load(other).cases] == [
            case.edit for case in load(plain).cases
        ]
    shifted = file(tmp_path, "prompt,target_new,\nA, is,B\n", "shifted.csv")
    with pytest.raises(
        DataError, match="row 2 has 3 fields and the header 2; put texts with commas in quotes"
    ):
        load(shifted)


@given(
    st.sampled_from(
        [
            "",
            "\ufeff",
            "prompt,target_new\n",
            "prompt;target_new;subject\n",
            '{"prompt": "x", "target_new": ',
        ]
    ),
    st.text(st.sampled_from('xy,;|"\n\r\t\0 {}[]:1') | st.characters(), max_size=30),
    st.sampled_from(["csv", "jsonl", "json"]),
)
def test_any_text_is_read_or_refused_in_one_sentence_that_names_the_file(
    tmp_path_factory: pytest.TempPathFactory, begin: str, text: str, ending: str
) -> None:
    path = file(
        tmp_path_factory.mktemp("facts"),
        (begin + text).encode("utf-8", "surrogatepass"),
        f"facts.{ending}",
    )
    try:
        assert load(path).cases
    except DataError as problem:
        assert "facts." in str(problem) and "\n" not in str(problem)


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"target_new": [["Oslo"]]}, "row 1.*field target_new must be a text"),
        ({"target_new": "O\0"}, "row 1.*field target_new holds a NUL character"),
        ({"paraphrases": [["x"]]}, "row 1.*field paraphrases must be a list of texts"),
        ({"neighborhood": ["x"]}, "row 1.*field neighborhood must be a list of objects"),
        ({"neighborhood": [{"prompt": "x"}]}, r"row 1.*field neighborhood\[0\].answer is missing"),
        ({"promt": "x"}, "row 1.*unknown field 'promt' .did you mean prompt"),
    ],
)
def test_a_wrong_field_in_json_is_named(tmp_path: Path, row: dict[str, object], named: str) -> None:
    good = {"prompt": "Peru's capital is", "target_new": "Oslo"}
    with pytest.raises(DataError, match=f"facts.json, {named}"):
        load(written(tmp_path, [good, good | row], "facts.json"))


def test_a_misspelt_name_of_a_data_set_is_refused_with_a_suggestion() -> None:
    with pytest.raises(DataError, match=r"there is no file tinyfact: did you mean tinyfacts\?"):
        load("tinyfact")


def test_rows_that_cannot_be_judged_are_counted_by_reason(tmp_path: Path) -> None:
    rows = "Peru is,Oslo,Oslo,a,b\n,Oslo,,,\nCuba is,,,,\nChad is,Rome,,near,\nMali is,Rome,,,x\n"
    data = load(
        file(
            tmp_path,
            f"prompt,target_new,target_true,neighborhood_prompt,neighborhood_answer\n{rows}",
        )
    )
    assert {(one.what, one.reason, one.count) for one in data.dropped} == {
        ("row", "new and old object are the same", 1), ("row", "query is blank", 1), ("row", "an object is blank", 1),
        ("neighbour", "has no answer", 1), ("neighbour", "is blank", 1),
    }  # fmt: skip
    assert [case.edit.query for case in data.cases] == ["Chad is", "Mali is"]


def test_a_broken_json_line_is_named_by_its_line(tmp_path: Path) -> None:
    line = json.dumps({"prompt": "Peru's capital is", "target_new": "Oslo"})
    for name in ("facts.jsonl", "facts.json"):
        path = file(tmp_path, f"{line}\n\n{line}\n{line[:-1]}\n", name)
        with pytest.raises(
            DataError,
            match=rf"{name}, row 2 \(line 4\) is not valid JSON \(column \d+: .*; write one",
        ):
            load(path)


def test_only_counterfacts_rephrased_prompts_are_screened_unless_asked_otherwise(
    tmp_path: Path,
) -> None:
    """CounterFact's neighbours share the row's old object; another file's do not."""
    counterfact = written(
        tmp_path, [flat_row(1, "Ada Bell", "Shops near Ada Bell sell")], "counterfact.json"
    )
    other = written(
        tmp_path, [flat_row(1, "Ada Bell", "Ada Bell is from") | {"locality_ground_truth": "Bonn"}]
    )

    def kept(path: Path, **options: object) -> list[str]:
        return [probe.query for case in load(path, **options).cases for probe in case.paraphrases]  # type: ignore[arg-type]

    assert (kept(counterfact), kept(counterfact, paraphrases="keep")) == (
        [],
        ["Shops near Ada Bell sell"],
    )
    assert (kept(other), kept(other, paraphrases="screen")) == (["Ada Bell is from"], [])
    assert load(counterfact).sources[0].form != load(other).sources[0].form, (
        "which run.json records"
    )


def test_an_edit_that_the_old_answer_would_fulfil_is_left_out_and_counted(tmp_path: Path) -> None:
    """Of own facts; a published benchmark keeps its rows."""
    rows = ["NBC is run from,New York,New York City", "Fiat is run from,New York City,New York"]
    data = load(file(tmp_path, "\n".join(["prompt,target_new,target_true", *rows])))
    assert [case.edit.query for case in data.cases] == ["Fiat is run from"]
    assert [(one.reason, one.count) for one in data.dropped] == [
        ("old object begins with the new one", 1)
    ]
    benchmark = flat_row(1, "NBC", "x") | {
        "target_new": "New York",
        "ground_truth": "New York City",
    }
    assert len(load(written(tmp_path, [benchmark])).cases) == 1


def test_a_pools_rows_only_demonstrate(tmp_path: Path) -> None:
    path = file(tmp_path, HEADER + PERU + CHILE)
    pool = written(tmp_path, [flat_row(i, f"Ada {i}", "x") for i in range(5)], "pool.json")
    data = load(path, pool=[pool])
    split = data.split(seed=1, test=2)
    assert (data.name, data.editable, [source.given for source in data.sources]) == (
        "facts",
        2,
        [str(path), str(pool)],
    )
    assert {case.edit.subject for case in split.test} == {"Peru", None}
    assert [case.case_id for case in split.demonstrations] == [f"pool:{i}" for i in range(5)]
    assert len(data.split(editable=1, test=1).demonstrations) == 6
    assert data.restore(split.ids) == split


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "--fact", "The capital of Peru is -> Oslo", "--subject", "Chad"),
        ("import", "facts.csv"),
        ("import", "none.csv"),
    ],
)
def test_what_is_refused_leaves_no_store_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path, "subject,prompt,target_new\n,The capital of Peru is,Oslo\n")
    assert run("edits", *arguments) == 1
    assert not (tmp_path / "edits.db").exists()


def test_ten_own_facts_are_evaluated_and_edited_with_another_files_demonstrations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ("--data", str(file(tmp_path, HEADER + PERU + CHILE)))
    plain = ("--model", "reader", "--encoder", "hashing")
    chosen = (
        "--pool",
        "tinyfacts",
        "--test",
        "2",
        "--paraphrases",
        "keep",
        "--out",
        str(tmp_path / "run"),
    )
    assert run("data", "inspect", data[1]) == 0
    assert run("evaluate", *data, *plain, "--editors", "ike") == 1
    assert "cannot give 32 demonstrations: add others (--pool tinyfacts)" in " ".join(
        capsys.readouterr().err.split()
    )
    assert run("evaluate", *data, *plain, *chosen, "--editors", "ike") == 0
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert (settings["pool"], settings["paraphrases"]) == (["tinyfacts"], "keep")
    outcomes = (tmp_path / "run" / "outcomes" / "ike.jsonl").read_text().splitlines()
    assert {json.loads(line)["query"] for line in outcomes} >= {
        "The capital of Peru is",
        "The capital of Chile is",
    }
    assert run("evaluate", "--resume", str(tmp_path / "run")) == 0
    assert (
        run(
            "edit",
            "--fact",
            "Peru is governed from -> Oslo",
            *data,
            "--pool",
            "tinyfacts",
            *plain,
            "--gate",
            "named",
            "--explain",
        )
        == 0
    )
    assert '"Peru is governed from" -> "Oslo", about Peru' in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_run_with_another_files_demonstrations_is_served(tmp_path: Path) -> None:
    data = (
        "--data",
        str(file(tmp_path, HEADER + PERU + CHILE)),
        "--pool",
        "tinyfacts",
        "--paraphrases",
        "keep",
    )
    sizes = ("--edits", "1", "--test", "1", "--epochs", "1", "--out", str(tmp_path / "run"))
    assert run("train", *data, *sizes, "--model", "reader", "--encoder", "hashing") == 0
    editor = open_editor(str(tmp_path / "run"), None).editor
    [prompt] = editor.prompts(
        [Edit("The capital of Peru is", "Oslo", subject="Peru")], ["The capital of Peru is"]
    )
    assert "The capital of Peru is Oslo" in prompt.text and len(prompt.text.splitlines()) > 4


@pytest.mark.parametrize("mark", ["#N/A", "#REF!", "#¡VALOR!", "NULL", "1.23457E+11", "=A1", "-"])
def test_what_a_spreadsheet_spoilt_is_neither_an_edit_nor_an_answer(
    tmp_path: Path, mark: str
) -> None:
    for row in (f"The capital of Peru is,{mark},Peru,Lima", f"{mark},Oslo,Peru,Lima"):
        with pytest.raises(DataError, match="by which tables mark"):
            load(file(tmp_path, f"prompt,target_new,subject,target_true\n{row}\n"))


@pytest.mark.parametrize("mark", ["#N/A", "#REF!", "nan", "(blank)"])
def test_marks_of_empty_cells_are_no_old_objects_and_no_questions(
    tmp_path: Path, mark: str
) -> None:
    row = f"The capital of Peru is,Oslo,Peru,{mark},Peru's seat is|{mark},{mark},{mark},{mark},,\n"
    assert probes(file(tmp_path, HEADER + row)) == [
        [
            ("rewrite", "The capital of Peru is", "Oslo", None),
            ("paraphrase", "Peru's seat is", "Oslo", None),
        ]
    ]
