"""Data set loaders: how rows are read and cleaned, and errors that name the place and a remedy."""

from __future__ import annotations

import hashlib
import http.server
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike import tinyfacts
from drike.edits.edit import ASPECTS_OF_S, Edit
from drike.errors import DataError
from drike.research.datasets import by_case_id, description, fetch, load
from drike.research.datasets.cleaning import clean, learn
from drike.text.templates import around

SHARED = Path(__file__).parents[3] / "shared" / "datasets"
FULL = SHARED / "counterfact_400.json"
FLAT = (SHARED / "counterfact_flat_edit.json", SHARED / "counterfact_flat_train.json")

needs_full = pytest.mark.skipif(not FULL.is_file(), reason=f"needs a CounterFact file at {FULL}")
needs_flat = pytest.mark.skipif(
    not all(file.is_file() for file in FLAT), reason=f"needs the flat files in {SHARED}"
)

WORDINGS = ["{} grew up in", "The home town of {} is", "Where is {} from? From"]


def row(case_id: object = 0, subject: str = "Ada Bell", **changed: object) -> dict[str, object]:
    """Make a row in CounterFact's published form."""
    rewrite = {
        "prompt": "{} was raised in",
        "relation_id": "P19",
        "target_new": {"str": "Oslo", "id": "Q1"},
        "target_true": {"str": "Rome", "id": "Q2"},
        "subject": subject,
    }
    fields: dict[str, object] = {
        "case_id": case_id,
        "requested_rewrite": rewrite,
        "paraphrase_prompts": [
            f"It rained a lot. {subject} grew up in",
            f"The home town of {subject} is",
        ],
        "neighborhood_prompts": ["Cy Dorn was raised in", "Ed Fox grew up in"],
    }
    return (
        fields
        | {key: value for key, value in changed.items() if key in fields}
        | {
            "requested_rewrite": rewrite
            | {key: value for key, value in changed.items() if key in rewrite}
        }
    )


def flat_row(
    case_id: int, subject: str, rephrase: str, prompt: str = "{} was raised in"
) -> dict[str, object]:
    """Make a row in the flat form."""
    return {
        "case_id": case_id, "prompt": prompt.replace("{}", subject), "subject": subject, "target_new": "Oslo",
        "ground_truth": "Rome", "rephrase_prompt": rephrase, "locality_prompt": "Cy Dorn was raised in",
        "locality_ground_truth": "Rome",
    }  # fmt: skip


def written(folder: Path, rows: object, name: str = "rows.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


class TestCounterFact:
    def test_probes_are_in_order_with_their_targets(self, tmp_path: Path) -> None:
        case = load(written(tmp_path, [row(7)])).cases[0]
        assert case.case_id == "7"
        assert case.edit.query == "Ada Bell was raised in"
        assert [(p.aspect.value, p.query, p.target, p.distractor) for p in case.probes] == [
            ("rewrite", "Ada Bell was raised in", "Oslo", "Rome"),
            ("paraphrase", "Ada Bell grew up in", "Oslo", "Rome"),
            ("paraphrase", "The home town of Ada Bell is", "Oslo", "Rome"),
            ("neighborhood", "Cy Dorn was raised in", "Rome", "Oslo"),
            ("neighborhood", "Ed Fox grew up in", "Rome", "Oslo"),
        ]

    @given(
        st.text(
            st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=12
        ).filter(str.strip)
    )
    def test_the_subject_is_inserted_literally(self, tmp_path_factory, subject) -> None:
        path = written(tmp_path_factory.mktemp("data"), [row(0, subject)])
        assert load(path).cases[0].edit.query == f"{subject.strip()} was raised in"

    def test_rows_are_sorted_by_case_id(self, tmp_path: Path) -> None:
        ids = [10, 9, 100, 1]
        path = written(tmp_path, [row(i, f"Ada {i}") for i in ids])
        assert [case.case_id for case in load(path).cases] == ["1", "9", "10", "100"]
        assert by_case_id(reversed(load(path).cases)) == list(load(path).cases)

    def test_probes_that_cannot_be_judged_are_dropped_and_counted(self, tmp_path: Path) -> None:
        rows = [
            row(0), row(1, target_new={"str": "the rome"}), row(2, target_new={"str": " "}), row(0),
            row(3, "Bo", neighborhood_prompts=["X is in", "X is in", "Bo was raised in"], paraphrase_prompts=[]),
        ]  # fmt: skip
        data = load(written(tmp_path, rows))
        assert [case.case_id for case in data.cases] == ["0", "3"]
        assert len(data.cases[1].neighborhood) == 1
        assert {(one.what, one.reason): one.count for one in data.dropped} == {
            ("row", "row is repeated in its file"): 1,
            ("row", "new and old object are the same"): 1,
            ("row", "an object is blank"): 1,
            ("neighbour", "is repeated in its row"): 1,
            ("neighbour", "is the edit's own query"): 1,
        }

    @needs_full
    def test_the_real_counterfact_file_loads_completely(self) -> None:
        before = hashlib.sha256(FULL.read_bytes()).hexdigest()
        data = load(FULL)
        raw = {str(one["case_id"]): one for one in json.loads(FULL.read_text(encoding="utf-8"))}
        assert len(data.cases) == len(raw) == 400
        for case in data.cases:
            rewrite = raw[case.case_id]["requested_rewrite"]
            assert case.edit.query == rewrite["prompt"].replace("{}", rewrite["subject"])
            assert case.edit.target_new == rewrite["target_new"]["str"]
            assert {p.query for p in case.neighborhood} == set(
                raw[case.case_id]["neighborhood_prompts"]
            )
            assert all(
                any(text.endswith(p.query) for text in raw[case.case_id]["paraphrase_prompts"])
                for p in case.paraphrases
            )
        assert data.sources[0].sha256 == before == hashlib.sha256(FULL.read_bytes()).hexdigest()

    def test_tinyfacts_loads_without_cleaning(self) -> None:
        if not tinyfacts.ROWS.is_file():
            pytest.skip("TinyFacts' rows are not built")
        data = load(tinyfacts.ROWS)
        assert data.cuts and all(cut.how == "unchanged" for cut in data.cuts)
        assert not data.dropped
        assert [case.case_id for case in data.cases] == [str(i) for i in range(len(data.cases))]


def row_wording(subject: str, prompt: str, *texts: str) -> tuple[Edit, tuple[str, ...]]:
    """How a row words the relation P19: its edit, with the clean prompt, and its paraphrases as published."""
    return Edit(prompt, "Oslo", "Rome", subject, "P19"), texts


class TestCleaning:
    junk = st.sampled_from(
        [
            "It rained. ",
            "He won 3–2.\n",
            "Notes\n\nCategory:Rivers ",
            'as "VA1" ',
            "1 ",
            "Why? Yes! ",
        ]
    )
    wordings = st.sampled_from(WORDINGS)
    names = st.sampled_from(["Ada Bell", "Cy Dorn", "Ed Fox Jr.", "St. Olaf", "A{}B", "Q+ (band)"])

    @given(
        st.lists(
            st.tuples(junk, wordings, names),
            min_size=1,
            max_size=8,
            unique_by=lambda drawn: drawn[:2],
        )
    )
    def test_a_known_wording_is_found_after_any_junk(self, drawn) -> None:
        prompts = [row_wording("Bo", text.replace("{}", "Bo")) for text in WORDINGS]
        texts = [
            (junk + wording.replace("{}", name), wording, name) for junk, wording, name in drawn
        ]
        # Each question is asked about many subjects, with different junk before each.
        others = [
            row_wording(str(i), f"{i} was raised in", text.replace("{}", str(i)))
            for i in range(30)
            for text in WORDINGS
        ]
        known = learn(
            [
                *prompts,
                *others,
                *(row_wording(name, f"{name} was raised in", text) for text, _, name in texts),
            ]
        )
        for text, wording, name in texts:
            cut = clean(text, name, known["P19"])
            assert (cut.after, cut.how) == (wording.replace("{}", name), "template")

    @given(st.text(max_size=40), st.text(max_size=8), st.text(max_size=20))
    def test_cleaning_keeps_an_ending_that_contains_the_subject(
        self, before, subject, behind
    ) -> None:
        text = before + subject + behind
        cut = clean(text, subject, [])
        assert text.endswith(cut.after)
        assert subject in cut.after
        assert clean(cut.after, subject, []).after == cut.after or cut.suspicious

    @given(st.permutations(range(6)))
    def test_clean_files_are_unchanged_in_any_row_order(self, order) -> None:
        texts = ["Think of a town. {} is from", "Here it goes! The town of {} is"]
        rows = [
            row_wording(
                f"Ada {i}", f"Ada {i} was raised in", texts[i % 2].replace("{}", f"Ada {i}")
            )
            for i in order
        ]
        known = learn(rows)
        for edit, [text] in rows:
            assert clean(text, edit.subject or "", known["P19"]).how == "unchanged"

    def test_guessed_cuts_are_reported(self) -> None:
        cut = clean("Notes\nCategory:Rivers of Maine Ada Bell grew up in", "Ada Bell", [])
        assert (cut.after, cut.how, cut.suspicious) == ("Ada Bell grew up in", "subject", True)
        assert clean("No mention at all", "Ada Bell", []).suspicious
        assert clean("他去了商店。莱昂说的语言是", "莱昂", []).after == "莱昂说的语言是"

    def test_cleaning_cuts_at_the_last_whole_word_mention(self) -> None:
        assert around("Go is old. Go was made by Google", "Go") == (
            "Go is old. ",
            " was made by Google",
        )

    @needs_full
    def test_cleaning_the_real_file_gives_the_recorded_counts(self) -> None:
        cuts = load(FULL).cuts
        assert len(cuts) == 800
        assert sum(cut.how == "template" for cut in cuts) >= 780
        assert sum(cut.suspicious for cut in cuts) <= 12
        raw = load(FULL, cleaning=False)
        assert not raw.cuts
        assert sum("Category" in p.query for case in raw.cases for p in case.paraphrases) >= 50
        assert not any("Category" in p.query for case in load(FULL).cases for p in case.paraphrases)

    @needs_full
    def test_cleaning_does_not_depend_on_row_order(self, tmp_path: Path) -> None:
        rows = json.loads(FULL.read_text(encoding="utf-8"))
        random.Random(1).shuffle(rows)
        shuffled = load(written(tmp_path, rows))
        assert shuffled.cases == load(FULL).cases
        assert shuffled.fingerprint == load(FULL).fingerprint


class TestFlat:
    def test_a_rephrased_prompt_is_kept_only_if_its_wording_is_known(self, tmp_path: Path) -> None:
        rows = [
            flat_row(1, "Ada Bell", "It rained. The home town of Ada Bell is"),
            flat_row(
                2,
                "Cy Dorn",
                "Around Cy Dorn's home there are restaurants like",
                "The home town of {} is",
            ),
            flat_row(3, "Ed Fox", "Ed Fox was raised in"),
        ]
        data = load(written(tmp_path, rows))
        assert [[p.query for p in case.paraphrases] for case in data.cases] == [
            ["The home town of Ada Bell is"], [], []
        ]  # fmt: skip
        assert sum(one.count for one in data.dropped if one.what == "paraphrase") == 2
        assert data.cases[0].edit.relation == "{} was raised in"
        assert not any(
            case.paraphrases for case in load(tmp_path / "rows.json", cleaning=False).cases
        )

    def test_a_wording_used_for_other_objects_is_not_a_paraphrase(self, tmp_path: Path) -> None:
        speaks = flat_row(1, "Ada Bell", "Ada Bell was raised in", "{} speaks")
        speaks |= {"ground_truth": "Latin", "locality_ground_truth": "Latin"}
        data = load(written(tmp_path, [speaks, flat_row(2, "Cy Dorn", "x")]))
        assert not data.cases[0].paraphrases

    def test_full_rows_take_precedence_over_flat_rows(self, tmp_path: Path) -> None:
        full = written(tmp_path, [row(1)], "full.json")
        flat = written(
            tmp_path, [flat_row(1, "Ada Bell", "x"), flat_row(2, "Cy Dorn", "x")], "flat.json"
        )
        data = load(full, flat)
        assert [len(case.paraphrases) for case in data.cases] == [2, 0]
        assert ("row", "case_id occurs in an earlier file") in {
            (one.what, one.reason) for one in data.dropped
        }
        assert data.name == "full+flat"

    def test_numbers_that_two_files_give_to_different_edits_lose_none(self, tmp_path: Path) -> None:
        facts = [(f"The mayor of Town{i} is,Ann{i},Town{i},{i % 3}") for i in range(6)]
        for name, some in (("a", facts[:3]), ("b", facts[3:])):
            (tmp_path / f"{name}.csv").write_text(
                "\n".join(["prompt,target_new,subject,case_id", *some]), "utf-8"
            )
        data = load(str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
        assert sorted(case.edit.target_new for case in data.cases) == [f"Ann{i}" for i in range(6)]
        assert len({case.case_id for case in data.cases}) == 6

    def test_rows_that_share_a_number_and_a_new_object_but_not_a_query_are_both_kept(
        self, tmp_path: Path
    ) -> None:
        for name, query in (("a", "The capital of Peru is"), ("b", "Rolex is run from")):
            (tmp_path / f"{name}.csv").write_text(
                f"case_id,prompt,target_new\n1,{query},Oslo\n", "utf-8"
            )
        data = load(tmp_path / "a.csv", tmp_path / "b.csv")
        assert [case.edit.query for case in data.cases] == [
            "The capital of Peru is",
            "Rolex is run from",
        ]
        assert not data.dropped

    @needs_flat
    @needs_full
    @pytest.mark.slow
    def test_kept_paraphrases_ask_the_same_as_the_original(self) -> None:
        """For rows in both forms, kept paraphrases are those of the original or their synonyms, never a story."""
        originals = {case.case_id: case for case in load(FULL).cases}
        kept = [
            case for case in load(*FLAT).cases if case.paraphrases and case.case_id in originals
        ]
        same = [c for c in kept if set(c.paraphrases) <= set(originals[c.case_id].paraphrases)]
        assert len(kept) > 40
        assert len(same) / len(kept) > 0.8

    @needs_flat
    @pytest.mark.slow
    def test_the_real_flat_files_load_with_the_recorded_counts(self) -> None:
        data = load(*FLAT)
        assert len(data.cases) == 20000
        assert len({case.edit.relation for case in data.cases}) == 218
        assert sum(len(case.paraphrases) for case in data.cases) > 3000


class TestComplaints:
    @pytest.mark.parametrize(
        ("rows", "named"),
        [
            (
                [row(5, prompt="no gap")],
                r"row 0 \(case_id 5\): field requested_rewrite.prompt must hold {} exactly once",
            ),
            ([row(5, prompt="{} and {}")], "exactly once"),
            (
                [row(5, target_new={"id": "Q1"})],
                "field requested_rewrite.target_new.str is missing",
            ),
            ([row(5, target_true="Rome")], "field requested_rewrite.target_true.str is missing"),
            ([row(5, subject=3)], "field requested_rewrite.subject must be a text"),
            (
                [row(5, paraphrase_prompts="one")],
                "field paraphrase_prompts must be a list of texts",
            ),
            ([row(5), row(None)], "row 1 .* field case_id must be a number or a name"),
            (
                [row(5), row(5, "Cy Dorn")],
                "field case_id is also the one of row 0, whose content differs",
            ),
            (
                [row(5, target_new={"str": "Rome"})],
                "no usable row .1 left out: new and old object are the same",
            ),
            (
                [{"src": "x", "alt": "y"}],
                "has no known form: its first row has the fields alt, src",
            ),
            ([[row(5)]], "has no known form: its first row is a list of records"),
            ([[5]], "row 0 is a list"),
            ([], "holds no rows"),
            ({"rows": []}, "not a list of rows"),
        ],
    )
    def test_row_errors_name_file_row_and_field(
        self, tmp_path: Path, rows: object, named: str
    ) -> None:
        with pytest.raises(DataError, match=named) as caught:
            load(written(tmp_path, rows))
        assert "rows.json" in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_file_errors_name_the_problem(self, tmp_path: Path) -> None:
        cut_short = tmp_path / "cut.json"
        cut_short.write_text(json.dumps([row(1)])[:-9])
        binary = tmp_path / "binary.json"
        binary.write_bytes(b"\xff\xfe\x00")
        for path, named in [
            (cut_short, "download it again"), (binary, "not UTF-8"), (tmp_path / "none.json", "check the path"),
            (tmp_path, "cannot be read"),
        ]:  # fmt: skip
            with pytest.raises(DataError, match=named):
                load(path)

    def test_json_lines_files_are_accepted(self, tmp_path: Path) -> None:
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(json.dumps(row(i, f"Ada {i}")) for i in range(3)) + "\n")
        assert len(load(path).cases) == 3

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
    def test_only_line_feeds_end_a_json_line(self, tmp_path: Path, end: str) -> None:
        breaks = "\u2028\u2029\u0085"  # valid inside JSON strings
        path = tmp_path / "rows.jsonl"
        text = end.join(json.dumps(row(i, f"Ada{breaks}{i}"), ensure_ascii=False) for i in range(3))
        path.write_bytes(text.encode())
        assert [case.edit.subject for case in load(path).cases] == [
            f"Ada{breaks}{i}" for i in range(3)
        ]

    @pytest.mark.parametrize("end", [", ", "\n"])
    @pytest.mark.parametrize(
        ("twice", "name"),
        [
            ('"case_id": 1, ', "case_id"),
            ('"extra": {"a": [{"b": 1, "c": {}, "b": 1}]}, ', "b"),
            ('"": 1, "": 1,', ""),
        ],
    )
    def test_a_key_that_occurs_twice_is_refused_with_its_row(
        self, tmp_path: Path, end: str, twice: str, name: str
    ) -> None:
        path = tmp_path / "rows.json"
        rows = end.join([json.dumps(row(0, "Bo")), "{" + twice + json.dumps(row(1))[1:]])
        path.write_text(rows if end == "\n" else f"[{rows}]")
        with pytest.raises(
            DataError, match=rf"rows.json, row 1 has the key '{name}' twice .*; remove one"
        ):
            load(path)

    @pytest.mark.parametrize(
        "change", [{"subject": "x" * 10_001}, {"neighborhood_prompts": ["Cy is", "x" * 100_000]}]
    )
    def test_a_text_of_more_than_ten_thousand_characters_is_refused(
        self, tmp_path: Path, change: dict
    ) -> None:
        [name] = change
        with pytest.raises(
            DataError, match=rf"row 1 .* field (requested_rewrite.)?{name} .* at most 10,000"
        ) as caught:
            load(written(tmp_path, [row(0, "Bo"), row(1, **change)]))
        assert len(str(caught.value)) < 300
        load(written(tmp_path, [row(0, "x" * 9_900)]))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve one file on loopback; yield the address and the requested paths."""
    content = json.dumps([row(3)]).encode()
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            known = self.path in ("/rows.json", "/short.json")
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(content) + 9 * (self.path == "/short.json")))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}", asked
    running.shutdown()
    running.server_close()


class TestFetch:
    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        return tmp_path / "drike" / "datasets"

    def test_a_file_is_downloaded_once_and_again_if_its_copy_is_damaged(
        self, server, cache: Path
    ) -> None:
        address, asked = server
        first = load(f"{address}/rows.json")
        assert first.cases == load(f"{address}/rows.json").cases
        assert asked == ["/rows.json"]
        assert first.sources[0].given == f"{address}/rows.json"
        first.sources[0].path.write_bytes(b"[]")
        assert load(f"{address}/rows.json").cases == first.cases
        assert len(asked) == 2
        assert sorted(file.suffix for file in cache.iterdir()) == [".json", ".sha256"]

    @pytest.mark.parametrize(
        ("path", "named"), [("/none.json", "Not Found"), ("/short.json", "announced")]
    )
    def test_download_errors_are_one_sentence_and_leave_no_file(
        self, server, cache: Path, path: str, named: str
    ) -> None:
        with pytest.raises(DataError, match=rf"{named}.*give the path"):
            load(server[0] + path)
        assert not cache.exists() or not list(cache.iterdir())

    def test_an_unreachable_server_is_one_sentence(self) -> None:
        with pytest.raises(DataError, match="could not be downloaded"):
            fetch("http://127.0.0.1:9/rows.json")


class TestInspect:
    def test_inspected_counts_agree_with_the_cases(self, tmp_path: Path) -> None:
        data = load(written(tmp_path, [row(i, f"Ada {i}") for i in range(10)]))
        text = "\n".join(description(data))
        assert all(
            f"{aspect} probes: {count}\n" in text
            for aspect, count in zip(ASPECTS_OF_S, (10, 20, 20), strict=True)
        )
        assert "10 cases" in text
        assert data.sources[0].sha256 in text
