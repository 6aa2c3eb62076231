"""Loaders of the zsRE, KnowEdit and temporal forms, published data sets, and arbitrary JSON."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drike.edits.edit import Aspect
from drike.encoders import HashingEncoder
from drike.errors import DataError
from drike.prompts import Role
from drike.research.datasets import PUBLISHED, Dataset, description, load
from drike.research.datasets.dataset import SUBSETS
from drike.research.datasets.generated import with_generated
from drike.research.editors.pool import Pool
from drike.research.evaluation.metrics import Outcome, summarise
from tests.datasets.test_datasets import SHARED, flat_row, row, server, written

__all__ = ["server"]  # a fixture


def zsre_row(subject: str = "Ada Bell", **changed: object) -> dict[str, object]:
    """Make a row in MEND's form of zsRE."""
    return {
        "subject": subject, "src": f"In which town was {subject} raised?", "pred": "Bonn", "alt": "Oslo",
        "rephrase": f"Where did {subject} grow up?", "answers": ["Rome", "Roma"], "loc": "nq question: who is ed fox",
        "loc_ans": "a singer", "cond": "Rome >> Oslo || In which town?",
    } | changed  # fmt: skip


def known_row(subject: str = "Ada Bell", **changed: object) -> dict[str, object]:
    """Make a row in KnowEdit's form, as in WikiData-counterfact."""
    return {
        "subject": subject, "prompt": f"The home town of {subject} is", "target_new": "Oslo", "ground_truth": "Rome",
        "portability": {
            "Subject_Aliasing": [{"prompt": "The home town of Miss Bell is", "ground_truth": "Oslo"}],
            "Reasoning": [{"prompt": "The country she is from is", "ground_truth": "Norway"}],
        },
        "locality": {
            "Relation_Specificity": [
                {"prompt": f"The instrument of {subject} is", "ground_truth": [["cello", "violoncello"]]}
            ],
            "Forgetfulness": [{"prompt": "The home town, which is not Oslo, is", "ground_truth": "Rome"}],
        },
    } | changed  # fmt: skip


def group(subject: str = "Ada Bell", *answers: str, **changed: object) -> list[dict[str, object]]:
    """Make a group in the temporal form, latest record first: dates matter, not order."""
    dated = list(enumerate(answers or ("Reds", "Blues", "Greens"), 2010))
    return [
        {
            "query": f"{subject} plays for _X_.", "answer": [{"wikidata_id": "Q1", "name": name}], "date": str(year),
            "id": f"Q{len(subject)}_P54_{year}", "relation": "P54",
        } | changed
        for year, name in reversed(dated)
    ]  # fmt: skip


def hop_row(*edits: tuple[str, str], **changed: object) -> dict[str, object]:
    """Make a row in the multi-hop form of MQuAKE and RippleEdits, with one edit for each (subject, new object)."""
    return {
        "case_id": 5, "questions": ["Which river is in the home town of Ada Bell?", "What flows by her home?"],
        "requested_rewrite": [
            {
                "prompt": "The home town of  {}  is", "relation_id": "P1", "target_new": {"str": new, "id": "Q1"},
                "target_true": {"str": "Rome", "id": "Q2"}, "subject": subject, "question": f"Where is {subject} from?",
            }
            for subject, new in edits or [("Ada Bell", "Oslo")]
        ],
        "answer": "Tiber", "answer_alias": ["Tevere"], "new_answer": "Aker", "new_answer_alias": ["Akers", "Aker"],
    } | changed  # fmt: skip


def quiz_row(subject: str = "Ada Bell", **changed: object) -> dict[str, object]:
    """Make a row of a HalluEditBench file."""
    return {
        "topic": "town", "subject": subject, "relation": "home town", "object": "Oslo",
        "question": f"Where is {subject} from?", "output_llama": "Rome", "paraphrased_question": f"Home of {subject}?",
        "multiple_choice_with_letters": "A. Rome  B. Bonn  C. St. A. Bay  D. Oslo", "multiple_choice_labels": "D",
        "yes_question": "Is she from Oslo?", "no_question": "Is she from Rome?", "locality_question": "How old is she?",
        "reversed_relation_question": "Who is from Oslo?", "question_2hop": "In which land is it?",
        "answer_2hop": "Norway", "question_3hop": "Who rules that?", "answer_3hop": "Harald",
    } | changed  # fmt: skip


def table(folder: Path, rows: list[dict[str, object]], name: str = "quiz.csv") -> Path:
    """Write rows as CSV."""
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / name


def asked_row(**changed: object) -> dict[str, object]:
    """Make a row in QAEdit's form."""
    return {
        "id": 7, "source": "NQ", "prompt": "where is ada bell from", "target": "Oslo", "subject": "ada bell",
        "rephrase": "What is the home of Ada Bell?", "locality": [{"loc": "who is ed fox", "loc_ans": "a singer"}],
    } | changed  # fmt: skip


def further(data: Dataset) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(p.aspect.value, p.query, (p.target, *p.also)) for p in data.cases[0].further]


def probes(data: Dataset) -> list[tuple[str, str, str, str | None]]:
    return [(p.aspect.value, p.query, p.target, p.distractor) for p in data.cases[0].probes]


def reasons(data: Dataset) -> dict[tuple[str, str], int]:
    return {(one.what, one.reason): one.count for one in data.dropped}


class TestZsre:
    def test_zsre_edits_target_alt_or_the_true_answer(self, tmp_path: Path) -> None:
        path = written(tmp_path, [zsre_row()])
        query, other, near = (
            "In which town was Ada Bell raised?",
            "Where did Ada Bell grow up?",
            "nq question: who is ed fox?",
        )
        assert probes(load(path)) == [
            ("rewrite", query, "Oslo", "Rome"), ("paraphrase", other, "Oslo", "Rome"),
            ("neighborhood", near, "a singer", "Oslo"),
        ]  # fmt: skip
        assert probes(load(path, target="answers")) == [
            ("rewrite", query, "Rome", None), ("paraphrase", other, "Rome", None),
            ("neighborhood", near, "a singer", "Rome"),
        ]  # fmt: skip
        assert load(path).cases[0].edit.relation == "In which town was {} raised?"
        with pytest.raises(DataError, match="alt or answers"):
            load(path, target="both")  # type: ignore[arg-type]

    def test_unusable_zsre_rows_are_dropped_with_a_reason(self, tmp_path: Path) -> None:
        rows = [
            zsre_row(), zsre_row(alt=" "), zsre_row(alt="the rome"), zsre_row(alt="Roma"), zsre_row(answers=[]),
            zsre_row(), zsre_row("Bo", loc_ans=" "), zsre_row("Cy", rephrase="In which town was Cy raised?"),
            zsre_row("Di", alt="A Singer"),
        ]  # fmt: skip
        data = load(written(tmp_path, rows))
        assert [case.case_id for case in data.cases] == ["0", "6", "7", "8"]
        assert reasons(data) == {
            ("row", "an object is blank"): 2,
            ("row", "new and old object are the same"): 1,
            ("row", "new object is one of the answers already"): 1,
            ("row", "edit and probes repeat another row's"): 1,
            ("neighbour", "has no answer"): 1,
            ("neighbour", "its answer is the new object"): 1,
            ("paraphrase", "is the edit's own query"): 1,
        }
        assert not data.cases[1].neighborhood and not data.cases[2].paraphrases


class TestKnowEdit:
    def test_subject_aliases_serve_as_paraphrases_if_there_are_no_others(
        self, tmp_path: Path
    ) -> None:
        query, alias, near = (
            "The home town of Ada Bell is",
            "The home town of Miss Bell is",
            "The instrument of Ada Bell is",
        )
        assert probes(load(written(tmp_path, [known_row()]))) == [
            ("rewrite", query, "Oslo", "Rome"), ("paraphrase", alias, "Oslo", "Rome"),
            ("neighborhood", near, "cello", "Oslo"),
        ]  # fmt: skip
        asked = known_row(rephrase_prompt="Where is Ada Bell from?", ground_truth=["Rome", "Roma"])
        assert [p.query for p in load(written(tmp_path, [asked])).cases[0].paraphrases] == [
            "Where is Ada Bell from?"
        ]
        true = load(written(tmp_path, [asked]), target="answers").cases[0].edit
        assert (true.target_new, true.target_true) == ("Rome", None)
        # WikiData edits have only one possible target.
        assert (
            load(written(tmp_path, [known_row()]), target="answers").cases[0].edit.target_new
            == "Oslo"
        )

    @given(
        st.sampled_from(["Rome", ["Rome"], [["Rome", "Roma"]], [["Rome"], ["Roma"]], ["", "Rome"]])
    )
    def test_an_answer_may_be_text_a_list_or_lists_of_aliases(
        self, tmp_path_factory, truth: object
    ) -> None:
        path = written(tmp_path_factory.mktemp("data"), [known_row(ground_truth=truth)])
        assert load(path).cases[0].edit.target_true == "Rome"

    def test_probes_with_another_target_or_about_the_edited_fact_are_dropped(
        self, tmp_path: Path
    ) -> None:
        specific = [
            {"prompt": "The town Ada Bell calls home is", "ground_truth": ["Rome"]},
            {"prompt": "The town of the Pope is", "ground_truth": ["Rome"]},
            {"prompt": "The age of Ada Bell is", "ground_truth": []},
        ]
        aliases = [{"prompt": "The home town of Miss Bell is", "ground_truth": "Lima"}]
        changed = known_row(
            locality={"Relation_Specificity": specific}, portability={"Subject_Aliasing": aliases}
        )
        data = load(written(tmp_path, [changed]))
        assert [p.query for p in data.cases[0].probes[1:]] == ["The town of the Pope is"]
        assert reasons(data) == {
            ("neighbour", "asks the edited fact (own subject, old object)"): 1,
            ("neighbour", "has no answer"): 1,
            ("paraphrase", "its answer is not the new object"): 1,
            ("same_subject probe", "has no answer"): 1,
            ("alias probe", "its answer is not the new object"): 1,
        }

    def test_a_row_may_lack_sections_and_the_old_object(self, tmp_path: Path) -> None:
        bare = known_row(portability={}, locality=None)
        del bare["ground_truth"]
        data = load(written(tmp_path, [bare]))
        assert probes(data) == [("rewrite", "The home town of Ada Bell is", "Oslo", None)]
        assert not data.dropped

    def test_portability_and_locality_are_further_aspects(self, tmp_path: Path) -> None:
        portable = {
            "Subject_Aliasing": [{"prompt": "Miss Bell is from", "ground_truth": ["Oslo"]}],
            "Reasoning": [{"prompt": "Her country is", "ground_truth": [["Norway", "Norge"]]}],
            "Logical_Generalization": [
                {"prompt": "A child of Oslo is", "ground_truth": "Ada Bell"},
                {"prompt": "A sister of Ada Bell is", "ground_truth": "Ada Bell"},
                {"prompt": "Is she alive?", "ground_truth": "no"},
            ],
        }
        data = load(written(tmp_path, [known_row(portability=portable)]))
        assert further(data) == [
            ("same_subject", "The instrument of Ada Bell is", ("cello", "violoncello")),
            ("same_subject", "The home town, which is not Oslo, is", ("Rome",)),
            ("alias", "Miss Bell is from", ("Oslo",)),
            ("multi_hop", "Her country is", ("Norway", "Norge")),
            ("reverse", "A child of Oslo is", ("Ada Bell",)),
        ]
        assert reasons(data) == {
            ("reverse probe", "its answer is not the subject"): 1,
            ("reverse probe", "names its own answer"): 1,
        }
        other = known_row(portability=portable, rephrase_prompt="Where is Ada Bell from?")
        true = load(written(tmp_path, [other]), target="answers")
        assert {aspect for aspect, _, _ in further(true)} == {"same_subject"}, (
            "what follows from alt is left out"
        )
        assert reasons(true)["multi_hop probe", "follows from the other target"] == 1


class TestMultiHop:
    def test_questions_have_the_new_answer_with_its_aliases(self, tmp_path: Path) -> None:
        data = load(written(tmp_path, [hop_row()]))
        assert probes(data) == [
            ("rewrite", "The home town of Ada Bell is", "Oslo", "Rome"),
            ("paraphrase", "Where is Ada Bell from?", "Oslo", "Rome"),
        ]
        assert further(data) == [
            ("multi_hop", query, ("Aker", "Akers"))
            for query in ("Which river is in the home town of Ada Bell?", "What flows by her home?")
        ]
        assert data.cases[0].further[0].distractor == "Tiber"
        assert not data.dropped

    def test_all_edits_of_a_row_are_in_force_and_probed(self, tmp_path: Path) -> None:
        data = load(
            written(tmp_path, [hop_row(), hop_row(("Ada", "Oslo"), ("Oslo", "Peru"), case_id=6)])
        )
        case = data.cases[1]
        assert [(one.subject, one.target_new) for one in case.edits] == [
            ("Ada", "Oslo"),
            ("Oslo", "Peru"),
        ]
        assert case.edit == case.edits[0]
        assert [(one.aspect.value, one.query, one.target) for one in case.probes] == [
            ("rewrite", "The home town of Ada is", "Oslo"), ("rewrite", "The home town of Oslo is", "Peru"),
            ("paraphrase", "Where is Ada from?", "Oslo"), ("paraphrase", "Where is Oslo from?", "Peru"),
        ]  # fmt: skip
        assert "  edits in force: 1 in 1 cases, 2 in 1 cases" in description(data)
        assert (
            data.fingerprint
            != load(written(tmp_path, [hop_row(), hop_row(("Ada", "Oslo"), case_id=6)])).fingerprint
        )

    def test_hops_are_counted_and_unknown_where_the_row_contradicts_itself(
        self, tmp_path: Path
    ) -> None:
        two, three = [{}, {}], [{}, {}, {}]
        hops = [
            {"single_hops": two, "new_single_hops": two}, {"single_hops": None, "new_single_hops": three},
            {"single_hops": three}, {}, {"single_hops": two, "new_single_hops": three},
        ]  # fmt: skip
        data = load(
            written(tmp_path, [hop_row(case_id=i, **of_row) for i, of_row in enumerate(hops)])
        )
        assert [{one.hops for one in case.further} for case in data.cases] == [
            {2},
            {3},
            {3},
            {None},
            {None},
        ]
        assert reasons(data) == {
            ("number of hops", "single_hops and new_single_hops differ in it"): 1
        }
        assert "  hops: 2 in 2 multi_hop probes, 3 in 4 multi_hop probes" in description(data)

    def test_rows_whose_other_edits_cannot_be_judged_are_dropped_with_a_reason(
        self, tmp_path: Path
    ) -> None:
        rows = [
            hop_row(("Ada", "Oslo"), ("Ada", "Peru")), hop_row(("Ada", "Oslo"), ("Bo", "Rome"), case_id=6),
            hop_row(("Ada", "Oslo"), ("Bo", " "), case_id=7), hop_row(case_id=8, new_answer=" "),
        ]  # fmt: skip
        data = load(written(tmp_path, rows))
        assert [case.case_id for case in data.cases] == ["8"]
        assert reasons(data) == {
            ("row", "two of its edits have the same query"): 1,
            ("row", "new and old object are the same"): 1,
            ("row", "an object is blank"): 1,
            ("multi_hop probe", "has no answer"): 2,
        }

    def test_old_answers_may_be_unknown_or_unchanged(self, tmp_path: Path) -> None:
        unknown = hop_row(answer=None, answer_alias=None, new_answer_alias=None)
        data = load(written(tmp_path, [unknown, hop_row(case_id=6, answer="Akers")]))
        assert (data.cases[0].further[0].distractor, data.cases[0].further[0].also) == (None, ())
        assert reasons(data) == {("multi_hop probe", "the edits do not change its answer"): 2}


class TestHalluEditBench:
    def test_every_question_has_its_aspect_and_the_one_without_an_answer_is_kept_apart(
        self, tmp_path: Path
    ) -> None:
        data = load(table(tmp_path, [quiz_row()]))
        assert probes(data) == [
            ("rewrite", "Where is Ada Bell from?", "Oslo", "Rome"), ("paraphrase", "Home of Ada Bell?", "Oslo", "Rome"),
        ]  # fmt: skip
        options = "A. Rome  B. Bonn  C. St. A. Bay  D. Oslo The letter of the right answer:"
        assert further(data) == [
            ("yes_no", "Is she from Oslo?", ("Yes",)),
            ("yes_no", "Is she from Rome?", ("No",)),
            ("choice", f"Where is Ada Bell from? {options}", ("D", "Oslo")),
            ("reverse", "Who is from Oslo?", ("Ada Bell",)),
            ("multi_hop", "In which land is it?", ("Norway",)),
            ("multi_hop", "Who rules that?", ("Harald",)),
        ]
        assert [(one.aspect.value, one.query) for one in data.cases[0].baseline_questions] == [
            ("same_subject", "How old is she?")
        ]
        [asked] = with_generated(data.cases)
        added = Counter(one.aspect.value for one in asked.further[len(data.cases[0].further) :])
        assert added == {"pushback": 2, "distractor": 1}, (
            "it publishes yes_no and choice, and has no neighbours"
        )
        assert any(
            "1 same_subject; right is what the unedited model says" in line
            for line in description(data)
        )
        assert "  same_subject probes: none published" in description(data)

    def test_a_file_may_have_another_number_of_hops_and_several_files_are_one_data_set(
        self, tmp_path: Path
    ) -> None:
        fewer = {name: value for name, value in quiz_row("Bo").items() if not name.endswith("3hop")}
        files = [
            table(tmp_path, [fewer | {"question_9hop": "?", "answer_9hop": " "}], f"{i}.csv")
            for i in range(6)
        ]
        data = load(table(tmp_path, [quiz_row()]), *files)
        assert data.name == "quiz+6 more"
        assert [len(case.further) for case in data.cases] == [6, 5]
        assert reasons(data)["multi_hop probe", "has no answer"] == 6
        assert reasons(data)["row", "edit and probes repeat another row's"] == 5

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            (
                "subject,object,question,paraphrased_question\nAda,Oslo,q?,p?",
                "row 2 .*field yes_question is missing",
            ),
            (
                "subject,object,question,paraphrased_question\nAda,Oslo",
                "row 2 .*field question is missing",
            ),
            ("subject,object,question,subject\na,b,c,d", "column 'subject' twice"),
            (
                "subject,object\na,b,c",
                "row 2 has 3 fields and the header 2; put texts with commas in quotes",
            ),
            ('subject,object\n"a,b', "not valid CSV"),
            ("subject,object\n", "holds no rows"),
            ("", "is empty"),
            ("topic\ntown", "has no known form: its first row has the fields topic"),
        ],
    )
    def test_a_broken_table_is_refused_with_file_row_and_column(
        self, tmp_path: Path, text: str, named: str
    ) -> None:
        (tmp_path / "quiz.csv").write_text(text)
        with pytest.raises(DataError, match=named) as caught:
            load(tmp_path / "quiz.csv")
        assert "quiz.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_qaedit_asks_unrelated_questions_as_zsre_does(tmp_path: Path) -> None:
    data = load(written(tmp_path, [asked_row(), asked_row(target="A Singer", id=7)]))
    assert probes(data) == [
        ("rewrite", "where is ada bell from", "Oslo", None),
        ("paraphrase", "What is the home of Ada Bell?", "Oslo", None),
        ("neighborhood", "who is ed fox?", "a singer", "Oslo"),
    ]  # fmt: skip
    assert reasons(data) == {("neighbour", "its answer is the new object"): 1}


def test_a_neighbour_whose_first_answer_is_the_new_object_is_not_asked_with_its_second(
    tmp_path: Path,
) -> None:
    twice = [{"loc": "who is ed fox", "loc_ans": answer} for answer in ("Oslo", "a singer")]
    data = load(written(tmp_path, [asked_row(), asked_row(locality=twice)]))
    assert [probe.aspect for probe in data.cases[1].probes] == [Aspect.REWRITE, Aspect.PARAPHRASE]
    assert reasons(data) == {
        ("neighbour", "its answer is the new object"): 1, ("neighbour", "is repeated in its row"): 1,
    }  # fmt: skip


class TestTemporal:
    def test_the_first_answer_is_the_old_object_and_the_last_the_new(self, tmp_path: Path) -> None:
        data = load(written(tmp_path, [group(), group("Bo", "Reds", "Blues", "Reds")]))
        assert probes(data) == [("rewrite", "Ada Bell plays for", "Greens", "Reds")]
        assert (data.cases[0].case_id, data.cases[0].edit.subject, data.cases[0].edit.relation) == (
            "Q8_P54", "Ada Bell", "P54",
        )  # fmt: skip
        assert reasons(data) == {("row", "new and old object are the same"): 1}

    def test_a_repeated_group_is_one_case_and_a_conflicting_one_is_refused(
        self, tmp_path: Path
    ) -> None:
        assert len(load(written(tmp_path, [group(), group()])).cases) == 1
        with pytest.raises(DataError, match=r"row 1: .*case_id is also the one of row 0"):
            load(written(tmp_path, [group(), group("Ada Bull")]))

    def test_metrics_without_probes_are_none(self, tmp_path: Path) -> None:
        case = load(written(tmp_path, [group()])).cases[0]
        outcomes = [
            Outcome("E", case.case_id, p.aspect, p.query, p.target, p.distractor, True, None, None, None, None, 0.5,
                    None, None, 1, 0, None, 1, 0.0)
            for p in case.probes
        ]  # fmt: skip
        found = summarise(outcomes)
        assert (found.esr.value, found.esm.value) == (1.0, 0.5)
        assert (
            found.pc.value
            is found.rr.value
            is found.s.value
            is found.gsm.value
            is found.rr_known.value
            is None
        )


def towns(number: int, form: str) -> list[object]:
    """Make rows about `n` people in a form."""
    makers: dict[str, Callable[[str, int], object]] = {
        "zsre": lambda name, i: zsre_row(name, loc=f"nq question: who is number {i}"),
        "knowedit": lambda name, i: known_row(name),
        "temporal": lambda name, i: group(name, f"Old{i % 7}", f"New{i % 5}", id=f"Q{i}_P54_2010"),
    }
    return [makers[form](f"Ada {i}", i) for i in range(number)]


@pytest.mark.parametrize("form", ["zsre", "knowedit", "temporal"])
def test_every_published_form_can_fill_a_pool(form: str, tmp_path: Path) -> None:
    """IKE's 4, 12 and 16; where the form has no paraphrases, copies replace the 12."""
    cases = load(written(tmp_path, towns(50, form))).cases
    pool = Pool(cases[1:], HashingEncoder())
    [candidates] = pool.candidates([cases[0].edit])
    counts = [sum(d.role is role for d in candidates.demonstrations) for role in Role]
    assert counts == ([16, 0, 16] if form == "temporal" else [4, 12, 16])
    assert bool(pool.fallbacks) == (form == "temporal")
    assert all(d.answer != d.fact.split()[-1] for d in candidates.retains)


class TestNumbers:
    def test_rows_without_an_id_are_numbered_after_those_with_one(self, tmp_path: Path) -> None:
        first = written(tmp_path, towns(3, "zsre"), "first.json")
        second = written(tmp_path, [flat_row(7, "Bo", "x"), flat_row(2, "Cy", "y")], "second.json")
        third = written(tmp_path, towns(3, "knowedit"), "third.json")
        assert [case.case_id for case in load(first).cases] == ["0", "1", "2"]
        assert [c.case_id for c in load(first, second, third).cases] == [
            "2",
            "7",
            "8",
            "9",
            "10",
            "11",
            "12",
            "13",
        ]

    def test_an_existing_case_id_is_kept(self, tmp_path: Path) -> None:
        rows = [zsre_row("Bo", case_id="b"), zsre_row("Cy", case_id=41), zsre_row("Di")]
        assert [case.case_id for case in load(written(tmp_path, rows)).cases] == ["41", "42", "b"]


class TestComplaints:
    @pytest.mark.parametrize(
        ("rows", "named"),
        [
            ([zsre_row(), zsre_row(alt=None)], r"row 1 \(case_id 1\): field alt is missing"),
            (
                [zsre_row(answers={"a": 1})],
                "row 0 .*field answers must be a text, a list of texts or a list of lists",
            ),
            ([zsre_row(loc=5)], "field loc must be a text"),
            ([zsre_row(subject="\ud800")], "field src holds half a character"),
            ([known_row(), {"prompt": "x"}], "row 1 .*field target_new is missing"),
            (
                [known_row(locality={"Relation_Specificity": "x"})],
                "field locality.Relation_Specificity must be a list",
            ),
            (
                [known_row(locality={"Relation_Specificity": [{"prompt": "x"}]})],
                r"field locality.Relation_Specificity\[0\].ground_truth is missing",
            ),
            (
                [group(), group(query="Ada Bell plays.", id="a_b_c")],
                r"row 1 .*records.query must end in its mask _X_",
            ),
            ([group(query="_X_ is the team of Ada Bell.")], "must end in its mask"),
            ([[*group(), *group("Bo")]], "field records.query must be the same in all records"),
            ([group(date=2010)], r"field records\[0\].date must be a text"),
            ([group(answer="Reds")], r"field records\[\d\].answer must be a list of objects"),
            ([hop_row(requested_rewrite=[])], "field requested_rewrite must hold an edit"),
            ([hop_row(new_answer=[["Aker"]])], "field new_answer must be a text"),
            (
                [hop_row(("A", "B"), ("C", ["D"]))],
                r"field requested_rewrite\[1\].target_new.str must be a text",
            ),
            ([hop_row(single_hops=[["a"]])], "field single_hops must be a list of objects"),
            ([hop_row(questions="Which river?")], "field questions must be a list of texts"),
            ([hop_row(new_answer_alias={"a": 1})], "field new_answer_alias must be a text, a list"),
            ([asked_row(target=["Oslo"])], "field target must be a text"),
            (
                [asked_row(locality=[{"loc": "who is ed fox"}])],
                r"field locality\[0\].loc_ans is missing",
            ),
            (
                [quiz_row(multiple_choice_labels="E")],
                "field multiple_choice_labels must be the letter of an option",
            ),
            ([quiz_row(output_gemma="Bonn")], "field output_gemma is a second model's answer"),
            ([quiz_row(question_4hop="And then?")], "field answer_4hop is missing"),
            ([group("Bo", " ", "Reds")], "no usable row .1 left out: an object is blank"),
        ],
    )
    def test_row_errors_name_file_row_and_field(
        self, tmp_path: Path, rows: object, named: str
    ) -> None:
        with pytest.raises(DataError, match=named) as caught:
            load(written(tmp_path, rows))
        assert "rows.json" in str(caught.value) and "\n" not in str(caught.value)

    @pytest.mark.parametrize("text", ["[" * 100_000, f"[{'1' * 5000}]"])
    def test_deeply_nested_json_and_huge_numbers_are_refused_in_one_sentence(
        self, tmp_path: Path, text: str
    ) -> None:
        (tmp_path / "rows.json").write_text(text)
        with pytest.raises(DataError, match=r"rows\.json"):
            load(tmp_path / "rows.json")


SEEDS = (
    row(), flat_row(1, "Bo", "Bo was raised in"), zsre_row(), known_row(), known_row(rephrase_prompt="x"), group(),
    hop_row(), quiz_row(), asked_row(),
)  # fmt: skip
KEYS = sorted(
    {key for seed in SEEDS for key in (seed if isinstance(seed, dict) else seed[0])}
    | {"prompt", "str", "name"}
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn) -> list[object]:
    """Draw rows of real forms with some fields replaced, renamed or removed."""
    rows: list[object] = []
    for seed in draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=4)):
        copy = json.loads(json.dumps(seed))
        for fields in [copy] if isinstance(copy, dict) else copy:
            for key in draw(st.lists(st.sampled_from(sorted(fields)), max_size=2, unique=True)):
                fields[key] = draw(JSON)
                if draw(st.booleans()):
                    fields[draw(st.sampled_from(KEYS))] = fields.pop(key)
        rows.append(copy)
    return rows


@settings(max_examples=100, deadline=None)
@given(st.lists(JSON, max_size=4) | damaged(), st.sampled_from(["alt", "answers"]), st.booleans())
def test_any_json_list_is_read_or_refused_in_one_sentence(
    tmp_path_factory, rows, target, cleaning
) -> None:
    path = written(tmp_path_factory.getbasetemp(), rows, "fuzz.json")
    try:
        data = load(path, target=target, cleaning=cleaning)
    except DataError as refused:
        assert "fuzz.json" in str(refused)
        assert "\n" not in str(refused).encode().decode()
        return
    assert data.cases and data.fingerprint
    assert len({case.case_id for case in data.cases}) == len(data.cases)
    for case in data.cases:
        assert case.probes[0].aspect is Aspect.REWRITE
        assert case.edit.target_true != ""
        assert all(probe.query.strip() and probe.target.strip() for probe in case.asked)


class TestPublished:
    def test_downloads_are_checked_against_their_hash(
        self, server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        address = f"{server[0]}/rows.json"
        right = hashlib.sha256(json.dumps([row(3)]).encode()).hexdigest()
        for name, digest in {"right": right, "wrong": "0" * 64}.items():
            monkeypatch.setitem(PUBLISHED, name, {"address": address, "sha256": digest})
        with pytest.raises(
            DataError, match=rf"sha256 {right}, but {'0' * 64} is recorded.*give its path"
        ):
            load("wrong")
        assert not list((tmp_path / "drike" / "datasets").glob("*"))
        data = load("right")
        assert (data.name, data.sources[0].given, data.sources[0].sha256) == (
            "right",
            "right",
            right,
        )
        with pytest.raises(DataError, match="is recorded"):
            load("wrong")  # a copy downloaded under another name is checked as well
        assert load("right").cases == data.cases

    @pytest.mark.parametrize("name", PUBLISHED)
    def test_published_addresses_use_https_and_have_full_hashes(self, name: str) -> None:
        address, digest = PUBLISHED[name]["address"], PUBLISHED[name]["sha256"]
        assert address.startswith("https://") and "/main/" not in address
        assert digest == "" or (len(digest) == 64 and int(digest, 16))


REAL = {
    # file: (target, rows, cases, paraphrases, neighbours)
    "zsre_mend_eval_portability_gpt4.json": ("alt", 1037, 1005, 1005, 1005),
    "zsre_mend_train-1k.json": ("alt", 1000, 975, 975, 975),
    "knowedit_zsre_test.json": ("answers", 1304, 1304, 1304, 2214),
    "knowedit_wiki_counterfact_train.json": ("alt", 1428, 1410, 1362, 1231),
    "time_editing.json": ("alt", 928, 918, 0, 0),
}


@pytest.mark.parametrize("file", REAL)
@pytest.mark.slow
def test_the_real_files_load_with_the_recorded_counts(file: str) -> None:
    if not (SHARED / file).is_file():
        pytest.skip(f"needs {file} in {SHARED}")
    target, rows, cases, *counts = REAL[file]
    data = load(SHARED / file, target=target)  # type: ignore[arg-type]
    assert (
        data.sources[0].rows
        == rows
        == len(data.cases) + sum(d.count for d in data.dropped if d.what == "row")
    )
    assert len(data.cases) == cases
    aspects = (Aspect.PARAPHRASE, Aspect.NEIGHBORHOOD)
    assert [
        sum(p.aspect is aspect for case in data.cases for p in case.probes) for aspect in aspects
    ] == counts
    assert all(case.edit.subject and case.edit.relation for case in data.cases)
    for entry in PUBLISHED.values():
        if entry["address"].endswith(f"/{file}"):
            assert entry["sha256"] == data.sources[0].sha256


FURTHER = {
    # files: (cases, counts of the further aspects that they ask)
    "halluedit_llama2/*.csv": (2272, {"yes_no": 4544, "choice": 2272, "reverse": 2146, "multi_hop": 11352}),
    "knowedit_zsre_test.json": (1259, {"same_subject": 2142, "alias": 237, "reverse": 244, "multi_hop": 754}),
    "knowedit_wiki_counterfact_train.json": (
        1410, {"same_subject": 2004, "alias": 1362, "reverse": 166, "multi_hop": 500},
    ),
    "qaedit_1k.json": (1000, {}),
    "ripple_pop.json": (500, {"multi_hop": 499}),
    "mquake_300.json": (300, {"multi_hop": 900}),
}  # fmt: skip


@pytest.mark.parametrize("files", FURTHER)
@pytest.mark.slow
def test_the_real_files_ask_further_aspects_as_often_as_recorded(files: str) -> None:
    found = sorted(SHARED.glob(files))
    if not found:
        pytest.skip(f"needs {files} in {SHARED}")
    cases, counts = FURTHER[files]
    data = load(*found)
    assert len(data.cases) == cases
    assert Counter(probe.aspect.value for case in data.cases for probe in case.further) == counts
    assert sum(len(case.baseline_questions) for case in data.cases) == (
        2272 if files.endswith("csv") else 0
    )


@pytest.mark.slow
def test_the_numerical_subset_has_digits_in_its_subjects_only() -> None:
    files = [SHARED / "counterfact_flat_edit.json", SHARED / "counterfact_flat_train.json"]
    if not all(file.is_file() for file in files):
        pytest.skip(f"needs the flat files in {SHARED}")
    chosen = [case.edit for case in load(*files).cases if SUBSETS["numerical"](case)]
    assert len(chosen) == 872
    assert all(any(map(str.isdigit, edit.subject or "")) for edit in chosen)
    assert not any(
        any(map(str.isdigit, edit.target_new + (edit.target_true or ""))) for edit in chosen
    )
