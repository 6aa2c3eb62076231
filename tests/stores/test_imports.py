"""Laws of reading edits from files."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drike.edits.record import EditRecord, RecordError, Status
from drike.edits.record_checks import checked
from drike.edits.record_json import to_json
from drike.errors import DataError
from drike.research.datasets.published_edits import PublishedForms
from drike.stores.edit_store import EditStore, require_approvals
from drike.stores.imports import CheckedRecord, PlacedRecord, import_edits
from drike.stores.moves import approve, change, retire
from drike.stores.snapshots import snapshot
from drike.stores.sqlite import SqliteStore
from drike.stores.tables import _as_given, edits_of, scan, write_refused
from drike.support.rows import OverlongRowError, Row
from tests.fakes.stores import PERU, Opener


def imported(
    store: EditStore, path: Path, text: str, **options: Any
) -> tuple[int, int, tuple[str, ...]]:
    path.write_text(text, "utf-8")
    rows = edits_of(scan(path)[0], published=PublishedForms())
    done = import_edits(store, rows, **options)
    return len(done.added), done.repeated, done.refused


def test_a_csv_file_is_imported_and_every_refused_row_is_named(
    store: EditStore, tmp_path: Path
) -> None:
    path = tmp_path / "facts.csv"
    text = (
        "\ufeffsubject,query,target_new,aliases,priority,status\r\n"
        'Peru,The capital of Peru is,"Oslo, of all places",Perú|Republic of Peru,3,\r\n'
        ",The capital of Chile is,Rome,,,\r\n"
        "Chile,The capital of Chile is,Rome,a||b,,\r\n"
        "Chile,The capital of Chile is,Rome,,many,\r\n"
        "Peru,The capital of Peru is,Rome,,,\r\n"
        "Cuba,The capital of Cuba is,Rome,,,,,x\r\n"
        "\r\n"
        "Cuba,The capital of Cuba is,Rome,,,draft\r\n"
    )
    added, repeated, refused = imported(store, path, text, author="me")
    assert (added, repeated) == (2, 0)
    assert [line.removeprefix(f"{path}, ")[:40] for line in refused] == [
        "row 3: it lacks subject",
        "row 4: aliases is blank: give it a text,",
        "row 5: priority: 'many' is not a whole n",
        'row 6: "The capital of Peru is" -> "Rome',
        "row 7 has 8 fields and the header 6; put",
    ]
    peru, cuba = (one.record for one in store.changes())
    assert (peru.target_new, peru.aliases, peru.priority) == (
        "Oslo, of all places",
        ("Perú", "Republic of Peru"),
        3,
    )
    assert (peru.author, cuba.status) == ("me", Status.DRAFT)
    assert imported(store, path, text)[:2] == (0, 2), "neither is added again"


@pytest.mark.parametrize(
    ("fields", "lacks"),
    [
        ({}, ""),
        ({"subject": "peru", "query": "The Capital of Peru is", "target_new": "oslo"}, ""),
        ({"query": "Peru is ruled from", "relation": "capital"}, ""),
        ({"aliases": ["Perú"], "negatives": ["Is Peru warm?"], "valid_to": "2030-01-01"}, ""),
        ({"owner": "Legal"}, ""),
        ({"aliases": ["Perú", "Pérou"], "enforce": "true"}, "aliases, enforce"),
        ({"negatives": ["Who rules Peru?"], "valid_to": "2031-01-01"}, "negatives, valid_to"),
        ({"query": "Peru has its seat at", "relation": "capital"}, "wordings"),
    ],
)
def test_a_row_is_stored_already_only_if_the_edit_says_all_that_it_says(
    store: EditStore, tmp_path: Path, fields: dict[str, object], lacks: str
) -> None:
    more = {
        "aliases": ("Perú",),
        "negatives": ("Is Peru warm?",),
        "paraphrases": ("Peru is ruled from",),
    }
    store.put(replace(PERU, **more, relation="capital", valid_to="2030-01-01", priority=1))
    row = {"subject": "Peru", "query": QUERY, "target_new": OBJECT, "relation": "capital", **fields}
    counts = imported(store, tmp_path / "a.jsonl", json.dumps(row))
    if lacks:
        [reason] = counts[2]
        assert f"row 0: edit 1 lacks its {lacks}: add that (drike edits change 1), or let" in reason
        assert imported(store, tmp_path / "a.jsonl", json.dumps(row), supersede=True)[0] == 1
    else:
        assert counts == (0, 1, ())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.csv",
            "subject,query,answer\nPeru,x,y\n",
            r"row 2 has an unknown field 'answer'; the columns of own facts are prompt .or query. and target_new",
        ),
        ("a.csv", "subject;query;target_new\n", r"holds no rows"),
        (
            "a.csv",
            "subject,query\nPeru,x\n",
            r"row 2 has no field 'target_new'; the columns of own facts are",
        ),
        (
            "a.csv",
            "prompt,target_new\nx,y\n",
            r"row 2 has no field 'subject'; the columns of own facts are",
        ),
        ("a.csv", "subject,query,query,target_new\nx,y,z,w", r"has the column 'query' twice"),
        (
            "a.csv",
            "subject,query,prompt,target_new\nx,y,z,w",
            r"has query and prompt, which mean the same",
        ),
        ("a.csv", "", r"a.csv is empty"),
        (
            "a.csv",
            'subject,query,target_new\n"Peru,x,y\n',
            r"row 2 is not valid CSV \(unexpected end of data\); correct its quotes",
        ),
        (
            "a.jsonl",
            '{"edit": "x", "questions": []}\n',
            r"has an unknown field 'edit'; the columns",
        ),
        ("a.json", "[1", r"is not valid JSON"),
    ],
)
def test_a_file_without_the_right_columns_is_refused_in_a_sentence_that_names_them(
    store: EditStore, tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(Exception, match=message):
        imported(store, tmp_path / name, text)
    assert store.changes() == []


def test_json_lines_are_imported_and_a_broken_line_is_refused(
    store: EditStore, tmp_path: Path
) -> None:
    good = '{"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo"}'
    lines = [good, "{", "[1]", '{"subject": "x"}', '{"query": "x", "query": "y"}', "[" * 99_999]
    added, _, refused = imported(store, tmp_path / "facts.jsonl", "\n".join(lines))
    assert added == 1
    reasons = (
        "row 1 (line 2) is not valid JSON (column 2: Expecting",
        "row 2 is a list, not an object",
        "row 3: it lacks query",
        "row 4 has the key 'query' twice",
        "row 5 (line 6) is not usable JSON",
    )
    assert len(refused) == len(reasons)
    assert all(reason in line for line, reason in zip(refused, reasons, strict=True))


def counterfact(number: int, target: str) -> dict[str, Any]:
    rewrite = {"prompt": "The river of {} is", "subject": f"Town {number}", "relation_id": "P1",
               "target_new": {"str": target}, "target_true": {"str": "Po"}}  # fmt: skip
    return {
        "case_id": number,
        "requested_rewrite": rewrite,
        "paraphrase_prompts": ["x"],
        "neighborhood_prompts": [],
    }


def test_counterfact_rows_give_edits_without_their_probes(store: EditStore, tmp_path: Path) -> None:
    rows = [counterfact(1, "Nile"), counterfact(2, ""), counterfact(1, "Rhine")]
    added, _, refused = imported(store, tmp_path / "cf.json", json.dumps(rows))
    assert (added, len(refused)) == (1, 2)
    assert "row 1 (case_id 2): target_new is blank" in refused[0]
    [stored] = store.changes()
    assert (stored.record.relation, stored.record.target_true, stored.record.paraphrases) == (
        "P1",
        "Po",
        (),
    )
    assert stored.record.source == f"{tmp_path / 'cf.json'}, row 0 (case_id 1)"
    superseding = import_edits(
        store, edits_of(scan(tmp_path / "cf.json")[0], published=PublishedForms()), supersede=True
    )
    assert superseding.added[-1].record.target_new == "Rhine"


@pytest.mark.reliability
def test_a_file_of_counterfacts_size_is_imported_within_a_minute(
    store: EditStore, tmp_path: Path
) -> None:
    rows = [counterfact(number, f"River {number % 97}") for number in range(21_919)]
    began = time.process_time(), time.perf_counter()
    assert imported(store, tmp_path / "cf.json", json.dumps(rows)) == (len(rows), 0, ())
    seconds = time.process_time() - began[0], time.perf_counter() - began[1]
    print(f"{len(rows):,} edits: {seconds[0]:.1f} s of CPU time, {seconds[1]:.1f} s in all")
    assert seconds[0] < 60
    began = time.process_time(), time.perf_counter()
    seen = snapshot(store)
    print(f"read: {time.process_time() - began[0]:.2f} s")
    [added] = store.put(PERU)
    began = time.process_time(), time.perf_counter()
    assert snapshot(store, seen).edits[added.id] == added
    print(f"read after one change: {1e3 * (time.perf_counter() - began[1]):.1f} ms")


def test_what_is_exported_can_be_imported(store: EditStore, opener: Opener, tmp_path: Path) -> None:
    store.put(
        replace(PERU, aliases=("Perú|x",), source="a,b\u2028", priority=1, valid_to="2027-01-01")
    )
    store.put(
        EditRecord(
            "Chile",
            "The capital of Chile is",
            "Łódź",
            status=Status.SHADOW,
            negatives=("Chile borders",),
        )
    )
    edits = list(snapshot(store).edits.values())
    copy = opener(tmp_path / "copy.db")
    path = tmp_path / "edits.jsonl"
    assert imported(copy, path, "".join(f"{to_json(one.record)}\n" for one in edits)) == (2, 0, ())
    assert [one.record for one in copy.changes()] == [one.record for one in edits]


def test_a_column_has_the_other_names_of_the_object(tmp_path: Path) -> None:
    path = tmp_path / "edits.csv"
    path.write_text(
        "subject,query,target_new,object_aliases\nPeru,Peru's capital is,Oslo,Christiania|Kristiania\n",
        "utf-8",
    )
    [row] = edits_of(scan(path)[0])
    assert isinstance(row, tuple) and row[1].object_aliases == ("Christiania", "Kristiania")


def test_rows_with_long_facts_and_names_are_refused_with_their_length(tmp_path: Path) -> None:
    rows = [
        {"subject": "Peru", "query": "The capital of Peru is", "target_new": "x" * 500},
        {
            "subject": "Peru " * 12 + "Lima",
            "query": "The capital of " + "Peru " * 12 + "Lima is",
            "target_new": "Oslo",
        },
    ]
    (path := tmp_path / "edits.json").write_text(json.dumps(rows), "utf-8")
    fact, name = edits_of(scan(path)[0])
    assert "row 0: query and target_new have 523 characters: shorten them to 512" in fact
    assert "row 1: subject" in name and "has 13 words: shorten it to 12 words" in name


QUERY, OBJECT = "The capital of Peru is", "Oslo"


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (f"subject,query,target_new\nPerú,The capital of Perú is,{OBJECT}\n".encode(), "utf-8"),
        (
            f"subject,query,target_new\nPerú,The capital of Perú is,{OBJECT}\n".encode("utf-8-sig"),
            "utf-8-sig",
        ),
        (
            f"subject;query;target_new\r\nPerú;The capital of Perú is;{OBJECT}\r\n".encode(
                "utf-16"
            ),
            "utf-16",
        ),
        (
            f"subject\tquery\ttarget_new\nPerú\tThe capital of Perú is\t{OBJECT}\n".encode(
                "utf-16-le"
            ),
            "utf-16-le",
        ),
        (
            f"subject;query;target_new\r\nPerú;The capital of Perú is;{OBJECT}\r\n".encode(
                "cp1252"
            ),
            "cp1252",
        ),
        (
            f"\n\nsubject,query,target_new,,\nPerú,The capital of Perú is,{OBJECT},,,\n,,\n".encode(),
            "utf-8",
        ),
        (
            ("subject,query,target_new\n" * 2 + f"Perú,The capital of Perú is,{OBJECT}\n").encode(),
            "utf-8",
        ),
    ],
)
def test_messy_tables_are_read(tmp_path: Path, content: bytes, encoding: str) -> None:
    path = tmp_path / "messy.csv"
    path.write_bytes(content)
    rows, found = scan(path)
    [(_, record)] = edits_of(rows)
    assert found == encoding and (record.subject, record.target_new) == ("Perú", OBJECT)


def test_columns_are_renamed_and_others_are_metadata(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    text = f'Frage,answer,subject,ticket_2,ticket,ticket\r\n{QUERY},{OBJECT},Peru,"T-1\n(open)",late,T-3\r\n'
    path.write_text(text, "utf-8", newline="")
    rows, _ = scan(path)
    [(_, record)] = edits_of(rows, {"Frage": "query", "answer": "target_new"})
    assert (record.query, record.target_new) == (QUERY, OBJECT)
    assert record.metadata == {"ticket_2": "T-1\n(open)", "ticket": "late", "ticket_3": "T-3"}
    with pytest.raises(DataError, match="no column 'question'; it has Frage"):
        edits_of(rows, {"question": "query"})
    path.write_text(f"q,subject,target_new,query\n{QUERY},Peru,{OBJECT},Who rules Peru?\n", "utf-8")
    with pytest.raises(DataError, match="has two columns for 'query': rename one"):
        edits_of(scan(path)[0], {"q": "query"})


def test_refused_rows_are_written_so_that_they_can_be_imported_again(tmp_path: Path) -> None:
    path, out = tmp_path / "facts.csv", tmp_path / "facts.csv.refused.csv"
    path.write_text(
        f"subject,query,target_new\nPeru,{QUERY},{OBJECT}\nChad,{QUERY},Rome\n", "utf-8"
    )
    rows, _ = scan(path)
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        imported = import_edits(store, edits_of(rows))
        write_refused(out, rows, imported)
        assert len(imported.added) == 1 and "refused because" in out.read_text("utf-8")
        out.write_text(out.read_text("utf-8").replace(QUERY, "The capital of Chad is"), "utf-8")
        again = import_edits(store, edits_of(scan(out)[0]))
    [record] = [edit.record for edit in again.added]
    assert (record.subject, record.reason, record.metadata, again.refused) == (
        "Chad",
        None,
        None,
        (),
    )


def test_a_refused_row_with_half_a_character_is_written(tmp_path: Path) -> None:
    path, out = tmp_path / "facts.jsonl", tmp_path / "refused.csv"
    path.write_text(
        json.dumps({"subject": "Peru", "query": QUERY, "target_new": "\ud800"}) + "\n", "utf-8"
    )
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        write_refused(out, scan(path)[0], import_edits(store, edits_of(scan(path)[0])))
    assert QUERY in out.read_text("utf-8")


def test_lists_and_metadata_of_refused_rows_are_read_again_as_they_were(tmp_path: Path) -> None:
    path, out = tmp_path / "facts.jsonl", tmp_path / "refused.csv"
    fields = {
        "aliases": ["Chad Republic", "Tchad"],
        "negatives": ["Who?", "Where?"],
        "metadata": {"ticket": "A-2"},
    }
    rows = [{"subject": "Peru", "query": QUERY, "target_new": OBJECT}]
    rows.append({"subject": "Chad", "query": QUERY, "target_new": "Rome", **fields})
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        write_refused(out, scan(path)[0], import_edits(store, edits_of(scan(path)[0])))
        out.write_text(out.read_text("utf-8").replace(QUERY, "The capital of Chad is"), "utf-8")
        [added] = import_edits(store, edits_of(scan(out)[0])).added
    assert (added.record.aliases, added.record.negatives) == (
        ("Chad Republic", "Tchad"),
        ("Who?", "Where?"),
    )
    assert added.record.metadata == {"ticket": "A-2"}


def test_rows_are_proposals_where_the_store_requires_approvals(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_text(f"subject,query,target_new\nPeru,{QUERY},{OBJECT}\n", "utf-8")
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        require_approvals(store, 1)
        [added] = import_edits(store, edits_of(scan(path)[0])).added
        again = [import_edits(store, edits_of(scan(path)[0]))]  # while it waits
        approve(store, added.id, author="Ann")
        again.append(import_edits(store, edits_of(scan(path)[0])))  # now that it is in force
        path.write_text(
            f"subject,query,target_new,status\nChad,The capital of Chad is,{OBJECT},shadow\n",
            "utf-8",
        )
        shadow = [import_edits(store, edits_of(scan(path)[0])) for _ in range(2)]
    assert [(imported.added, imported.repeated) for imported in again] == [((), 1)] * 2
    assert added.record.status is Status.PROPOSED and [
        imported.repeated for imported in shadow
    ] == [0, 1]


def test_a_row_that_cannot_be_read_is_named_and_leaves_no_empty_one(tmp_path: Path) -> None:
    path, out = tmp_path / "facts.csv", tmp_path / "refused.csv"
    path.write_text(f"subject,query,target_new\nPeru,{QUERY},a, b\nPeru,,{OBJECT}\n", "utf-8")
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        imported = import_edits(store, edits_of(scan(path)[0]))
        write_refused(out, scan(path)[0], imported)
    assert "row 2 has 4 fields and the header 3" in imported.refused[0]
    assert [row.values["subject"] for row in scan(out)[0] if isinstance(row, Row)] == ["Peru"]
    again = scan(out)[0]
    assert isinstance(again[0], OverlongRowError), "it is refused until its texts are in quotes"
    text = out.read_text("utf-8")
    [line] = [line for line in text.splitlines() if line.startswith("Peru,The")]
    assert line.startswith(f"Peru,{QUERY},a,") and line.endswith(", b")


NOTHING = ["#N/A", "#REF!", "NULL", "nan", "N/A", "#BEZUG!", "#DIV/0!", "<NA>", "NaT", "Err:502"]
NOTHING += ["#¡REF!", "#¿NOMBRE?", "#YOK", "#Н/Д", "#REF", "k.A.", "(leer)", "Loading..."]
STATES_NOTHING = [
    "1.23457E+11",
    "4.1E+15",
    "=A1",
    "=SUM(B2)",
    "=Facts!$A$1",
    "-",
    "—",
    "???",
    "...",
]


@pytest.mark.parametrize("mark", NOTHING)
def test_marks_of_empty_cells_and_errors_are_no_facts(
    store: EditStore, tmp_path: Path, mark: str
) -> None:
    rows = [
        f"Peru,{QUERY},{mark},,,,",
        f"{mark},What is {mark}?,{OBJECT},,,,",
        f"Peru,{mark},{OBJECT},,,,",
        f"Peru,{QUERY},{OBJECT},{mark},Perú|{mark},{mark},{mark}",
    ]
    text = "\n".join(["subject,query,target_new,target_true,aliases,priority,ticket", *rows])
    added, _, refused = imported(store, tmp_path / "a.csv", text)
    assert added == 1 and len(refused) == 3
    fields = ["target_new", "subject", "query"]
    for field, reason in zip(fields, refused, strict=True):
        assert f"{field} is '{mark}', by which tables mark" in reason
    [record] = [version.record for version in store.changes()]
    assert (record.target_true, record.aliases, record.metadata) == (None, ("Perú",), None)


@pytest.mark.parametrize("spoilt", STATES_NOTHING)
def test_signs_shortened_numbers_and_formulas_are_no_facts(
    store: EditStore, tmp_path: Path, spoilt: str
) -> None:
    text = f"subject,query,target_new,ticket\nPeru,{QUERY},{spoilt},\nPeru,{QUERY},Oslo,{spoilt}\n"
    added, _, [refused] = imported(store, tmp_path / "a.csv", text)
    assert added == 1 and f"target_new is {spoilt!r}, by which tables mark" in refused
    [record] = [version.record for version in store.changes()]
    assert record.metadata == {"ticket": spoilt}


def test_a_mark_in_a_published_form_is_no_fact(store: EditStore, tmp_path: Path) -> None:
    text = json.dumps([counterfact(1, "NaN")])
    assert "target_new is 'NaN'" in imported(store, tmp_path / "a.json", text)[2][0]


@pytest.mark.parametrize("name", ["Nan", "Null", "Nana", "#MeToo", "N", "C#", "#FFF", "3E", "Vide"])
def test_names_like_a_mark_are_imported(store: EditStore, tmp_path: Path, name: str) -> None:
    text = f"subject,query,target_new\n{name},The home of {name} is,Oslo\n"
    assert imported(store, tmp_path / "a.csv", text)[0] == 1


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *(("Kraków, Wrocław", "cp1250"), ("Москва", "cp1251"), ("Москва", "koi8-r")),
        *(("Málaga", "mac-roman"), ("Perú", "cp437"), ("東京", "euc-jp"), ("東京", "shift-jis")),
        *(("台北", "big5"), ("Αθήνα", "cp1253"), ("ירושלים", "cp1255"), ("Łódź", "iso8859-2")),
    ],
)
def test_a_file_in_an_encoding_that_is_not_known_is_refused(
    tmp_path: Path, text: str, encoding: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f'subject,query,target_new\nPeru,{QUERY},"{text}"\n'.encode(encoding))
    with pytest.raises(DataError, match=r"line 2: its encoding is not known .* CSV in UTF-8"):
        scan(path)


@pytest.mark.parametrize(
    "text",
    [
        *("¿Qué? «Sí»", "5 µm, 3 m² or 10×20 mm", "Müller & Söhne, Größe ½", "£4.50–£6 per Œuvre"),
        *("naïve café – “quoted” ‘x’", "20 °C ± 5, §5 Abs. 2", "Ñandú 1ª 2º", "l’été à 5 €/mois"),
    ],
)
def test_texts_of_western_europe_are_read_as_they_are(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f'subject,query,target_new\nPeru,{QUERY},"{text}"\n'.encode("cp1252"))
    [row] = scan(path).rows
    assert isinstance(row, Row) and row.values["target_new"] == text


@pytest.mark.parametrize("begins", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"%PDF"])
def test_a_file_that_is_no_text_is_told_so(tmp_path: Path, begins: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(begins + bytes(range(256)))
    with pytest.raises(DataError, match="no table in text: save it as CSV in UTF-8"):
        scan(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "header",
    ["Subject,Query,Target_New", "SUBJECT,Prompt,Target new", " subject ,query,target-new"],
)
def test_headers_are_read_in_any_case(store: EditStore, tmp_path: Path, header: str) -> None:
    assert imported(store, tmp_path / "a.csv", f"{header}\nPeru,{QUERY},Oslo\n")[0] == 1


@pytest.mark.parametrize("first", ["sep=;\n", '"sep=;"\r\n', "\ufeffSEP=;\n", "sep=|\n"])
def test_a_first_line_may_name_the_separator(store: EditStore, tmp_path: Path, first: str) -> None:
    sign = "|" if "|" in first else ";"
    lines = [["subject", "query", "target_new"], ["Peru", QUERY, "Oslo, of all, places"]]
    text = first + "\n".join(sign.join(line) for line in lines)
    assert imported(store, tmp_path / "a.csv", text)[0] == 1
    assert scan(tmp_path / "a.csv")[0][0].index == 2


def test_refused_rows_hold_no_formula_and_are_read_again_as_they_were(
    store: EditStore, tmp_path: Path
) -> None:
    path, out = tmp_path / "facts.csv", tmp_path / "refused.csv"
    cells = ["=HYPERLINK(1)", "+1+cmd", "-x", "@SUM(1)", "\t=1", "'=1", "-3.5", "+7", "a=b"]
    header = [f"c{number}" for number in range(len(cells))]
    lines = [
        ["subject", "query", "target_new", *header, "=evil"],
        ["Peru", "About nothing", OBJECT, *cells, "x"],
    ]
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    path.write_text(text.getvalue(), "utf-8")
    for source in (path, out):
        rows = scan(source)[0]
        write_refused(out, rows, import_edits(store, edits_of(rows)))
        for line in csv.reader(io.StringIO(out.read_text("utf-8"))):
            formulas = [cell for cell in line if cell and cell[0] in "=+-@\t"]
            assert set(formulas) <= {"-3.5", "+7"}
    out.write_text(out.read_text("utf-8").replace("About nothing", QUERY), "utf-8")
    [added] = import_edits(store, edits_of(scan(out)[0])).added
    assert [(added.record.metadata or {})[column] for column in header] == cells
    assert (added.record.metadata or {})["=evil"] == "x"


def is_run_by_a_spreadsheet(cell: str) -> bool:
    """Whether a cell begins as a formula, in any width and behind what nobody sees."""
    seen = [c for c in cell if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cf")]
    return bool(seen) and unicodedata.normalize("NFKC", seen[0]) in "=+-@\u2212"


def test_no_refused_cell_is_run_wherever_a_spreadsheet_divides_rows(
    store: EditStore, tmp_path: Path
) -> None:
    signs = [*"=+-@'\t\n;, a|\"", *"\u200b\ufeff\xad\u202e\xa0\uff1d\uff0b\uff0d\uff20\ufe66\u2212"]
    chance = random.Random(53)
    cells = ["".join(chance.choices(signs, k=5)) + "." for _ in range(300)]
    path, out = tmp_path / "facts.jsonl", tmp_path / "refused.csv"
    metadata = {f"c{number}": cell for number, cell in enumerate(cells)}
    path.write_text(
        json.dumps({"subject": "Peru", "query": "None", "target_new": OBJECT, **metadata})
    )
    for source in (path, out):
        rows = scan(source)[0]
        write_refused(out, rows, import_edits(store, edits_of(rows)))
        written = out.read_text("utf-8")
        assert not any(map(is_run_by_a_spreadsheet, re.split(r"[;\t\n]", written)))
        for line in csv.reader(io.StringIO(written, newline="")):
            assert not any(map(is_run_by_a_spreadsheet, line))
    row = scan(out)[0][0]
    assert isinstance(row, Row)
    assert [_as_given(row.values)[column] for column in metadata] == cells


@pytest.mark.parametrize("name", ["!!!", "\N{SLIGHTLY SMILING FACE}", "$", "\u200b", "\u2026", "_"])
def test_a_name_without_a_word_is_refused_wherever_it_comes_from(
    store: EditStore, tmp_path: Path, name: str
) -> None:
    text = (
        f"subject,query,target_new,aliases\n{name},What is {name},Oslo,\nPeru,{QUERY},Oslo,{name}\n"
    )
    subject, alias = imported(store, tmp_path / "a.csv", text)[2]
    assert "subject " in subject and "has no word" in subject
    assert "aliases " in alias and "has no word" in alias


def test_a_store_that_holds_a_name_without_a_word_is_opened_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, closing(SqliteStore(tmp_path / "edits.db")) as store:
        patch.setattr("drike.stores.edit_store.checked", lambda record: record)
        store.put(replace(PERU, aliases=("!!!",)))
        store.put(EditRecord("$", "What is $", "Oslo"))
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        change(store, 1, {"aliases": ()})
        retire(store, 2)
        assert [edit.record.status for edit in snapshot(store).edits.values()] == [
            Status.ACTIVE,
            Status.RETIRED,
        ]


def test_an_import_checks_each_row_once_and_asks_for_the_approvals_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "subject,query,target_new,author\n"
    rows = [f"Town {i},The mayor of Town {i} is,Ann,\n" for i in range(20)]
    file = tmp_path / "edits.csv"
    file.write_text(columns + "".join(rows))
    done: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def count(*values: Any) -> Any:
            done[name] += 1
            return function(*values)

        return count

    for module in ("tables", "imports", "edit_store"):
        monkeypatch.setattr(f"drike.stores.{module}.checked", counted("checks", checked))
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        monkeypatch.setattr(store.settings, "get", counted("settings", store.settings.get))
        imported = import_edits(store, edits_of(scan(file).rows), author="bo")
    assert len(imported.added) == 20
    assert done == {"checks": 20 + 1, "settings": 1}  # of the author of all rows, once


def test_rows_that_nobody_has_checked_are_checked(tmp_path: Path) -> None:
    blank = PlacedRecord("row 1", EditRecord("Peru", "The capital of Peru is", " "))
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        for author in (None, "ann"):
            with pytest.raises(RecordError, match="target_new is blank"):
                import_edits(store, [blank], author=author)
        told = CheckedRecord("row 1", replace(blank.record, target_new="Oslo"))
        with pytest.raises(RecordError, match="half a character"):
            import_edits(store, [told], author="\ud800")
        assert store.changes() == []
