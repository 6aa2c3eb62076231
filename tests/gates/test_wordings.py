"""What a question has in common with an edit, by the wordings near it and their answers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from drike.edits.record import EditRecord
from drike.encoders import HashingEncoder
from drike.gates.index import EditIndex, agreements
from drike.gates.inventory import Inventory
from drike.gates.wordings import Worded, Wordings
from tests.fakes.indexes import stored

AXES = np.eye(4, dtype=np.float32)  # wordings of which none is near another
LANGUAGES, CITIES = ("French", "Latin", "Russian"), ("Oslo", "Lima", "Rome")


def worded(place: int, answers: tuple[str, ...], edits: int = 30) -> Worded:
    return Worded(AXES[place], Counter(answers), edits)


def inventory(*prototypes: int) -> Inventory:
    rows = AXES[list(prototypes)] if prototypes else np.zeros((0, 4), np.float32)
    return Inventory(tuple(map(str, prototypes)), rows, np.arange(len(prototypes)))


def test_a_wording_with_the_same_answers_asks_for_the_same() -> None:
    own, alike, else_ = worded(0, LANGUAGES), worded(1, LANGUAGES), worded(2, CITIES)
    store = Wordings({"own": own, "alike": alike, "else": else_}, inventory())
    asked = store.agreements({1: {"own": own}}, AXES[:3])[1]
    assert [round(one.same, 1) for one in asked] == [1.0, 0.9, 0.0]
    assert [round(one.other, 1) for one in asked] == [0.0, 0.1, 0.9]


def test_answers_of_few_edits_show_little() -> None:
    own = worded(0, LANGUAGES)
    others = [[worded(1, ("Oslo",), edits), own] for edits in (1, 30)]
    few, many = (Wordings(dict(zip("ab", some, strict=True)), inventory()) for some in others)
    [rarely], [often] = (store.agreements({1: {"b": own}}, AXES[1:2])[1] for store in (few, many))
    assert 0.2 < rarely.other < 0.5 < often.other


def test_where_no_answers_are_known_the_inventory_decides() -> None:
    own, other = worded(0, (), 1), worded(1, (), 1)
    store = Wordings({"own": own, "other": other}, inventory(0, 1))
    asked = store.agreements({1: {"own": own}}, AXES)[1]
    assert asked[0].same > 0.9 > 0.1 > asked[1].same
    assert asked[0].known > 0.9 > 0.6 > asked[3].known


def test_a_question_like_no_wording_agrees_with_none() -> None:
    own = worded(0, LANGUAGES)
    [asked] = Wordings({}, inventory()).agreements({1: {"own": own}}, AXES[3:])[1]
    assert asked.same < 0.1
    assert asked.other == asked.known == 0.0


@pytest.mark.parametrize("shared", [True, False])
def test_an_index_knows_the_answers_of_its_edits(shared: bool) -> None:
    """Whatever their case."""
    names = [
        f"Book {word}"
        for word in ("Alder", "Birch", "Cedar", "Elm", "Fir", "Holly", "Larch", "Maple")
    ]
    answers = LANGUAGES if shared else CITIES
    records = [
        EditRecord(name, f"{name} was written in", LANGUAGES[i % 3]) for i, name in enumerate(names)
    ]
    records += [
        EditRecord(f"Old {name}", f"The tongue of Old {name} is", answers[i % 3].upper())
        for i, name in enumerate(names)
    ]
    index = EditIndex.of(stored(*records), HashingEncoder())
    [agreement] = agreements(index, [1], index.embed(["The tongue of it is"], masked=True))[1]
    assert (agreement.same > 0.5) is (agreement.other < 0.5) is shared


def test_answers_shared_by_many_wordings_are_counted_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((12, 4)).astype(np.float32)
    counts = [
        Counter(rng.choice([f"a{i}" for i in range(9)], size).tolist())
        for size in (0, 1, 5, *[30] * 9)
    ]
    texts = {
        f"w{i}": Worded(row, count, 4)
        for i, (row, count) in enumerate(zip(rows, counts, strict=True))
    }
    store = Wordings(texts, inventory(0, 1))
    other = Worded(rows[0], Counter({"a1": 2, "a2": 1, "unknown": 3}), 4)
    for name, worded in [
        *texts.items(),
        ("another", other),
        *texts.items(),
    ]:  # and once more, from memory
        same = store._same_w(name, worded, np.zeros(2, np.float32))
        total = max(1, worded.answers.total())
        shared = [
            sum(min(n / max(1, c.total()), worded.answers[a] / total) for a, n in c.items())
            for c in counts
        ]
        np.testing.assert_allclose(same, np.array(shared) * 4 / (4 + 2), atol=1e-12)
