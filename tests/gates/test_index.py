"""Laws of the index of edits in force: brought up to date with a store, it decides as one made anew does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drike.edits.record import EditRecord, EditVersion, Status
from drike.edits.times import stamp
from drike.encoders import HashingEncoder
from drike.encoders.base import BULK, FloatArray, TextEncoder
from drike.encoders.frozen import FeatureStore, FrozenEncoder
from drike.gates.by_name import EveryQuery, Named
from drike.gates.calibration import default_gate
from drike.gates.decision import Gate
from drike.gates.index import EditIndex
from drike.gates.names import find_names
from drike.gates.parsed_query import ParsedQuery
from drike.live.live_edits import StoreView
from drike.stores.snapshots import Snapshot
from drike.text.name_forms import SubjectNames
from drike.text.short_forms import NameMatch
from drike.text.words import Words
from tests.fakes.indexes import PERU, CountingEncoder, stored
from tests.fakes.timing import quickest

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
ENCODER = HashingEncoder(64)


GATE = replace(default_gate(), encoder=ENCODER.name, threshold=0.3)
WORDS = ("Ada", "Lovelace", "Kingston", "Marburg", "of", "Peru", "C++", "Ángel", "Countess")


NEW = ("Lovelase", "Valparaiso")
NAMES = st.lists(st.sampled_from(NEW * 4 + WORDS), min_size=1, max_size=3).map(
    " ".join
) | st.sampled_from(
    ("Ada Lovelace, Countess of Peru", "Kingston (Peru)", "It", "Marburg an der Lahn")
)


TYPED, MISTYPED = ("las", "ston", "ce", "ai"), ("lac", "tson", "c", "ia")


RELATIONS = ("The capital of {} is", "{} was founded by", "Where is {}?", "The mayor of {} is")


@dataclass
class FakeLog:
    """A store that is only read."""

    log: list[EditVersion] = field(default_factory=list)

    def changes(self, after: int = 0, edit: int | None = None) -> Sequence[EditVersion]:
        return self.log[after:]

    def append(self, id: int, entry: EditRecord) -> None:
        version = 1 + sum(one.id == id for one in self.log)
        self.log.append(EditVersion(len(self.log) + 1, id, version, "", entry))


@st.composite
def entries(draw: st.DrawFn) -> EditRecord:
    name, *aliases = draw(st.lists(NAMES, min_size=1, max_size=3))
    query, *paraphrases = draw(
        st.lists(st.sampled_from(RELATIONS), min_size=1, max_size=3, unique=True)
    )
    times = draw(st.sampled_from(((None, None), (None, None), (None, 2), (1, None), (1, 3))))
    begin, end = (
        None if hours is None else stamp(NOON + timedelta(hours=hours)) for hours in times
    )
    return EditRecord(
        name, query.format(name), "new", aliases=tuple(aliases),
        paraphrases=tuple(text.format(name) for text in paraphrases),
        status=draw(st.sampled_from((Status.ACTIVE, Status.ACTIVE, Status.SHADOW, Status.RETIRED, Status.DRAFT))),
        valid_from=begin, valid_to=end, priority=draw(st.integers(0, 1)),
    )  # fmt: skip


def base() -> FakeLog:
    """Enough edits that a few changes are not merged at once."""
    rng, found = random.Random(0), FakeLog()
    for i in range(1, 81):
        name = " ".join(rng.sample(WORDS, rng.randint(1, 3)))
        found.append(
            i, EditRecord(name, rng.choice(RELATIONS).format(name), "old", aliases=(f"{name} {i}",))
        )
    return found


BASE = base()
FIRST = {encoder: StoreView().at(NOON, BASE, encoder, shadow=True) for encoder in (None, ENCODER)}


@pytest.mark.parametrize(
    ("encoder", "gates"),
    [
        (None, [Named(), EveryQuery()]),
        (ENCODER, [Named(), GATE]),
    ],
)
@settings(max_examples=8)
@given(
    changes=st.lists(st.tuples(st.integers(79, 82), entries()), min_size=1, max_size=8),
    reads=st.sets(st.integers(0, 7)),
)
@pytest.mark.sampled(3)
def test_an_index_brought_up_to_date_decides_as_a_fresh_one(
    encoder: TextEncoder | None,
    gates: list[Gate],
    changes: list[tuple[int, EditRecord]],
    reads: set[int],
) -> None:
    store, now, clock = FakeLog(list(BASE.log)), FIRST[encoder], NOON
    for i, (id, entry) in enumerate(changes):
        store.append(id, entry)
        if i in reads:
            clock += timedelta(minutes=30)
            now = now.at(clock, store, encoder, shadow=True)
    now = now.at(clock, store, encoder, shadow=True)
    fresh = StoreView().at(clock, store, encoder, shadow=True)
    assert now.index.edits == fresh.index.edits
    assert now.at(clock, store, encoder, shadow=True) is now
    assert now.index._active_counts == fresh.index._active_counts
    names = {name for _, entry in changes for name in entry.names}
    texts = {
        text
        for name in names
        for text in (name, name.split(",")[0], *map(name.replace, TYPED, MISTYPED))
    }
    for text in texts:
        assert (
            ParsedQuery.of(text, now.index).mentions == ParsedQuery.of(text, fresh.index).mentions
        )
    queries = [
        relation.format(text)
        for relation, text in zip(cycle(RELATIONS), sorted(texts)[:12], strict=False)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drike.gates.calibrated.MIN_SEMANTIC_TEXTS", 1)
        for gate in gates:
            for query in queries:
                assert gate.decide(query, now.index) == gate.decide(query, fresh.index)


def test_words_of_names_are_no_typos_while_an_edit_has_them() -> None:
    names = FIRST[None].index.lookup.names

    def kinds(text: str) -> list[NameMatch]:
        return [mention.kind for mention in find_names(Words.of(text), names)]

    assert (kinds("Lovelase"), kinds("Valpariaso")) == ([NameMatch.TYPO], [])
    names = names.replace(
        gone={},
        new={81: SubjectNames(["Lovelase X", "Valparaiso"]), 82: SubjectNames(["Lovelase Y"])},
    )
    assert (kinds("Lovelase"), kinds("Valpariaso")) == ([], [NameMatch.TYPO])
    names = names.replace(gone={82: SubjectNames(["Lovelase Y"])}, new={})
    assert (kinds("Lovelase"), kinds("Valpariaso")) == ([], [NameMatch.TYPO])
    names = names.replace(gone={81: SubjectNames(["Lovelase X", "Valparaiso"])}, new={})
    assert (kinds("Lovelase"), kinds("Valpariaso")) == ([NameMatch.TYPO], [])


def test_an_edit_takes_the_place_of_its_earlier_version() -> None:
    index = FIRST[None].index
    later = replace(index.edits[1], record=EditRecord("Cusco", "The mayor of Cusco is", "Ann"))
    found, fresh = index.changed([], [later]), index.changed([1], [later])
    assert found.lookup.names == fresh.lookup.names and found.edits == fresh.edits


def test_names_do_not_grow_when_edits_change() -> None:
    names = FIRST[None].index.lookup.names
    for i in range(30):
        names = names.replace(
            gone={81: SubjectNames([f"Town{i - 1} of Peru"])} if i else {},
            new={81: SubjectNames([f"Town{i} of Peru"])},
        )
    names = names.replace(gone={81: SubjectNames(["Town29 of Peru"])}, new={})
    assert names.parts == FIRST[None].index.lookup.names.parts
    assert np.array_equal(names.known.sorted, sorted(names.parts))


def test_what_is_new_in_force_is_named_once() -> None:
    store, first = FakeLog(list(BASE.log)), FIRST[None]
    store.append(
        81,
        EditRecord(
            "Cusco", "The mayor of Cusco is", "Ann", valid_to=stamp(NOON + timedelta(hours=1))
        ),
    )
    after = first.at(NOON, store, None, shadow=True)
    assert [one.id for one in after.new] == [81]
    store.append(1, replace(store.log[0].record, priority=1))
    other = after.at(NOON, store, None, shadow=True)
    assert ([one.id for one in other.new], other.until) == ([1], after.until)
    gone = other.at(NOON + timedelta(hours=1), store, None, shadow=True)
    assert (gone.new, gone.index.edits.keys(), gone.until) == ([], first.index.edits.keys(), None)
    store.append(81, replace(store.log[-1].record, valid_to=None))
    again = gone.at(NOON, store, None, shadow=True)
    assert [one.id for one in again.new] == [81]
    store.append(81, replace(store.log[-1].record, status=Status.RETIRED))
    assert again.at(NOON, store, None, shadow=True).new == []


def test_vectors_of_edits_are_kept_on_disk_for_each_encoder_and_none_of_queries(
    tmp_path: Path,
) -> None:
    names = [f"Town{i}" for i in range(2 * BULK)]
    edits = [
        EditVersion(i, i, 1, "", EditRecord(name, f"{name} is in", "Peru"))
        for i, name in enumerate(names, 1)
    ]
    query = "Who is the mayor of " + ", ".join(names[:40]) + "?"
    others = [f"Who is the mayor of {name}?" for name in names]
    asked: list[str] = []

    def computed(texts: Sequence[str], _: bool) -> FloatArray:
        asked.extend(texts)
        return ENCODER.encode(texts)

    def started(identity: str) -> EditIndex:
        asked.clear()
        encoder = FrozenEncoder(
            ENCODER.name, {}, lambda: computed, features=FeatureStore(tmp_path, identity), bulk=BULK
        )
        return EditIndex.of(edits, encoder)

    first, texts = started("a"), {*(one.record.query for one in edits), "it is in"}
    assert {*asked} == texts
    asked.clear()
    decisions = GATE.decide(query, first)
    first.embed(others)
    queries = set(asked) - texts
    assert len(queries) > BULK and queries >= {*others} and decisions.candidates
    assert GATE.decide(query, started("a")).candidates == decisions.candidates
    assert not FeatureStore(tmp_path, "a").read(queries)
    started("b")
    assert {*asked} == texts
    (tmp_path / "a.sqlite").write_bytes(b"damaged!" * 1024)
    started("a")
    assert {*asked} == texts
    started("a")
    assert asked == ["it is in"]  # of fewer texts at once than `bulk` none is kept


def of_many(many: int) -> EditIndex:
    rng = random.Random(0)
    syllables = ("ba", "do", "ke", "li", "mu")
    names = [
        " ".join(rng.choice(syllables) + str(rng.randrange(900)) for _ in "ab") for _ in range(many)
    ]
    return EditIndex.of(
        EditVersion(i, i, 1, "", EditRecord(name, f"{name} is", "new"))
        for i, name in enumerate(names, 1)
    )


@pytest.fixture(scope="module")
def sizes() -> tuple[EditIndex, EditIndex]:
    """Indexes of 100 and of 10,000 edits."""
    return of_many(100), of_many(10_000)


@pytest.mark.slow
def test_looking_up_names_takes_no_longer_with_a_hundred_times_as_many_edits(
    sizes: tuple[EditIndex, ...],
) -> None:
    query = "Hello, could you please tell me how I could learn to play the piano within a year, and with whom?"
    assert [Named().decide(query, index).reason for index in sizes] == ["no subject is named"] * 2
    few, many = quickest(*(partial(Named().decide, query, index) for index in sizes), rounds=50)
    assert many < 2 * few


@pytest.mark.slow
def test_a_change_takes_less_than_a_hundredth_of_indexing_all_edits(
    sizes: tuple[EditIndex, ...],
) -> None:
    seen = Snapshot(10_000, dict(sizes[1].edits))
    store, now = FakeLog(list(seen.edits.values())), StoreView(seen, sizes[1], until=None)

    def change() -> None:
        nonlocal now
        i = len(store.log) + 1
        store.log.append(
            EditVersion(i, i, 1, "", EditRecord(f"Newtown {i}", f"Newtown {i} is", "new"))
        )
        now = now.at(NOON, store, None)
        assert [edit.id for edit in Named().decide(f"What is Newtown {i}?", now.index).matched] == [
            i
        ]

    changing, a_tenth = *quickest(change, rounds=20), *quickest(partial(of_many, 1000), rounds=1)
    assert changing < a_tenth / 10


def test_an_index_made_from_a_previous_one_equals_a_fresh_one_and_embeds_only_what_is_new() -> None:
    encoder = CountingEncoder()
    anthem = EditRecord(
        "Peru", "The national anthem of Peru is", "Ode", paraphrases=("Peru sings",)
    )
    chile = EditRecord(
        "Chile", "The capital of Chile is", "Rome", paraphrases=("Chile is governed from",)
    )
    before = EditIndex.of(stored(PERU, anthem), encoder)
    encoder.asked.clear()
    edits = stored(PERU, replace(anthem, paraphrases=("Peruvians sing",)), chile)
    reused, fresh = EditIndex.of(edits, encoder, before), EditIndex.of(edits, HashingEncoder())
    texts, masked = (
        ["Peruvians sing", chile.query, *chile.paraphrases],
        ["Peruvians sing", "it is governed from"],
    )
    assert encoder.asked == [*texts, *masked]
    for one, other in ((reused.texts, fresh.texts), (reused.masked, fresh.masked)):
        assert one.edits == other.edits
        assert one.vectors.keys() == other.vectors.keys()
        assert all(
            np.array_equal(vector, other.vectors[text]) for text, vector in one.vectors.items()
        )
    assert not EditIndex.of([], encoder, reused).edits


def test_the_wordings_of_a_store_are_counted_again_where_they_change_and_before_a_question_waits() -> (
    None
):
    store = FakeLog()
    for i, name in enumerate(("Peru", "Chile", "Spain"), 1):
        store.append(i, EditRecord(name, f"The capital of {name} is", "Rome"))
    store.append(4, EditRecord("Peru", "The anthem of Peru is", "Ode"))
    view = StoreView().at(NOON, store, ENCODER)
    before = view.index._worded_texts
    assert vars(view.index)["wordings"] and {text: own.edits for text, own in before.items()} == {
        "The capital of it is": 3, "The anthem of it is": 1
    }  # fmt: skip
    store.append(3, EditRecord("Spain", "The capital of Spain is", "Rome", status=Status.RETIRED))
    store.append(2, EditRecord("Chile", "The capital of Chile is", "Bern"))
    view = view.at(NOON, store, ENCODER)
    after = view.index._worded_texts
    assert (
        "wordings" in vars(view.index)
        and after["The anthem of it is"] is before["The anthem of it is"]
    )
    assert after["The capital of it is"].answers == {"rome": 1, "bern": 1}
    store.append(4, EditRecord("Peru", "The anthem of Peru is", "Ode", status=Status.DRAFT))
    assert [*view.at(NOON, store, ENCODER).index._worded_texts] == ["The capital of it is"]


def test_an_edit_counts_once_for_a_text_that_it_has_under_several_names() -> None:
    facts = [("United Kingdom", "UK", "Rome"), ("United States", "USA", "Bern")]
    ask = "The capital of {} is".format
    edits = stored(
        *(EditRecord(n, ask(n), new, aliases=(s,), paraphrases=(ask(s),)) for n, s, new in facts)
    )
    index = EditIndex.of(edits, ENCODER)
    for id in (1, 2):
        index = index.changed([id], ()).changed((), [edits[id - 1]])
    for made in (index, EditIndex.of(edits, ENCODER)):
        assert (
            made.masked.edits["The capital of it is"] == (1, 2) and len(made.masked.texts[1]) == 1
        )
