"""Laws of long texts: gates read all of them, in time linear in their length, and embed a bounded part."""

from __future__ import annotations

import random
import re
import string
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.edits.record import EditRecord, EditVersion
from drike.gates.by_name import Named
from drike.gates.index import EditIndex
from drike.gates.name_index import NameIndex
from drike.gates.names import find_names
from drike.text.name_forms import SubjectNames
from drike.text.short_forms import NameMatch
from drike.text.words import Words
from tests.fakes.indexes import GATE, PERU, CountingEncoder, indexed, matched, stored
from tests.fakes.tally import Tally
from tests.fakes.timing import quickest

PADDING = "It rained in the hills, and nothing else was said about it that day. " * 300
MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        f"{PADDING}What is the capital of Peru? {PADDING}",
        f"What is the capital of Peru?\n{PADDING}",
        f"{PADDING}\nWhat is the capital of Peru?",
        f"Peru is large. {PADDING}What is the capital of this country?",
    ],
    ids=["middle", "beginning", "end", "subject first, question last"],
)
def test_all_of_a_long_text_is_read(text: str) -> None:
    assert matched(text, PERU) == [1]
    assert [
        edit.id for edit in replace(GATE, threshold=0.4).decide(text, indexed(PERU)).matched
    ] == [1]


NAMED = [
    *[
        "Peru",
        "Lima",
        "Ada Lovelace",
        "Bank of Peru",
        "New York City",
        "May",
        "Vacation policy",
        "Lovelace",
    ],
    "京都",
    "서울",
]
SAID = [
    *NAMED,
    *[
        "Perus",
        "Limas",
        "Lovelac",
        "Yrok",
        "polices",
        "of",
        "the",
        "bank",
        "in",
        "Lima's",
        "東京都",
        "서울에서는",
    ],
]


@given(st.lists(st.sampled_from(SAID), max_size=25))
def test_names_in_a_short_text_are_those_in_a_long_one(said: list[str]) -> None:
    """Short texts are read word by word, long ones all at once."""
    names, text = index_of_names(), " ".join(said)
    rain = " quod" * 200
    assert find_names(Words.of(f"{text} quod"), names) == find_names(Words.of(text + rain), names)


@cache
def index_of_names() -> NameIndex:
    return NameIndex().replace(
        gone={}, new={id: SubjectNames([name]) for id, name in enumerate(NAMED, 1)}
    )


def test_of_many_names_none_hides_another_that_is_misspelt() -> None:
    """Around each misspelt name stand other names, and the other misspelt ones."""
    names = [*map("Ort{}stadt".format, range(40)), "Albania", "Ecuador", "Romania"]
    index = EditIndex.of(stored(*(EditRecord(name, f"{name} is", "new") for name in names)))
    text = " ".join(
        [*names[:40], "Albbania", *names[:40], "Ecuadro", *names[:40], "Romannia", *names[:40]]
    )
    found = {
        mention.name
        for mention in find_names(Words.of(text), index.lookup.names)
        if mention.kind is NameMatch.TYPO
    }
    assert found == {"albania", "ecuador", "romania"}


def test_of_a_long_text_only_what_names_a_subject_and_the_end_are_embedded() -> None:
    encoder = CountingEncoder()
    index = EditIndex.of(stored(PERU), encoder)
    encoder.asked.clear()
    GATE.decide(f"{PADDING}What is the capital of Peru? {PADDING}How is the weather?", index)
    assert "What is the capital of it? " in encoder.asked
    assert max(map(len, encoder.asked)) < 700 and any("weather" in text for text in encoder.asked)


def test_what_is_embedded_for_a_decision_is_bounded() -> None:
    names, rain = [f"Town{i}" for i in range(300)], f" {PADDING[:1_400]} "
    encoder = CountingEncoder()
    index = EditIndex.of(
        stored(*(EditRecord(name, f"The mayor of {name} is", "Ann") for name in names)), encoder
    )
    for text in (
        " and ".join(names),
        ". ".join(names),
        "Who, who, who, " * 60 + ", ".join(names),
        rain.join(names),
    ):
        for gate in (GATE, Named()):
            encoder.asked.clear()
            decision = gate.decide(text, index)
            assert sum(map(len, encoder.asked)) <= 6_000 and decision.candidates
    assert index.named(rain.join(names)) == set(index.edits)


def test_a_stored_name_that_is_too_long_is_left_out_and_stops_nobody() -> None:
    long = "Peru " * 3_000 + "Lima"
    index = EditIndex.of(stored(replace(PERU, aliases=(long,))))
    began = time.thread_time()
    assert index.named("Peru " * 20_000) == {1} and not index.named("Lima")
    assert time.thread_time() - began < 0.5


def repeated(text: str) -> str:
    """A megabyte of a text."""
    return (
        (text * (MEGABYTE // len(text.encode()) + 1)).encode()[:MEGABYTE].decode("utf-8", "ignore")
    )


def drawn(length: int) -> str:
    """A megabyte of words of so many letters."""
    rng = random.Random(0)
    return " ".join(
        "".join(rng.choices(string.ascii_lowercase, k=length))
        for _ in range(MEGABYTE // (length + 1))
    )


def misspelt() -> str:
    rng = random.Random(0)
    return repeated(
        " ".join(f"{name[:2]}{rng.choice(string.ascii_lowercase)}{name[2:]}" for name in NAMES)
        + " "
    )


TEXTS: dict[str, Callable[[], str]] = {  # what takes longest to read, for the names of `large`
    "one typo": lambda: repeated("Albbania "),
    "typos": misspelt,
    "unknown words": lambda: drawn(8),
    "letters": lambda: drawn(1),
    "nearly a name": lambda: repeated("a tribe called to be or not to "),
    "first words": lambda: repeated(" ".join(name.split()[0] for name in NAMES) + " "),
    "all names": lambda: repeated(" ".join(NAMES) + " "),
    "people": lambda: repeated("Ada of Lovelace Ada Lovelace "),
    "last names": lambda: repeated(" ".join(name.split()[1] for name in NAMES) + " "),
    "initials": lambda: repeated("J. R. R. Lovelace van der Lovelace "),
    "plurals": lambda: repeated(" ".join(f"{name}s" for name in NAMES) + " "),
    "common words and namesakes": lambda: repeated(
        "Freddie Mercury, Indiana Bank of May may May River "
    ),
    "capitals": lambda: repeated("A B C D "),
    "marks": lambda: "a" + repeated("\u0301\u0323"),
    "letters that expand": lambda: repeated("\ufdfa\u3316"),
    "Han": lambda: repeated("東京都"),
    "Hangul": lambda: repeated("서울대에서는 "),
    "Thai": lambda: repeated("ประเทศไทย"),
    "one word": lambda: repeated("ab"),
    "no word": lambda: repeated("- \u200d"),
}


def made_up() -> list[str]:
    rng = random.Random(0)
    syllables = ("ba", "do", "ke", "li", "mu", "na", "ro", "si", "ta", "vu", "xe", "zo")
    return [
        " ".join("".join(rng.choices(syllables, k=3)).title() for _ in "ab") for _ in range(19_990)
    ]


NAMES = made_up()
SPECIAL = (
    "Albania",
    "Ada King Lovelace",
    "a tribe called quest",
    "to be or not to be",
    "京都",
    "서울",
    "ประเทศไทย",
    "May",
    "Mercury",
)


@pytest.fixture(scope="module")
def large() -> EditIndex:
    return EditIndex.of(
        EditVersion(i, i, 1, "", EditRecord(name, f"{name} is", "new"))
        for i, name in enumerate((*NAMES, *SPECIAL), 1)
    )


@pytest.fixture(scope="module")
def encoded() -> EditIndex:
    return EditIndex.of(
        stored(*(EditRecord(name, f"{name} is", "new") for name in NAMES)), CountingEncoder()
    )


def least(work: Callable[[], object], times: int = 3) -> float:
    """Seconds of CPU time, the least of several times."""
    took = []
    for _ in range(times):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return min(took)


def in_turns(text: str, *works: Callable[[str], object], times: int = 7) -> list[float]:
    """Seconds of CPU time of each, as `quickest` has them.

    Each time the text ends otherwise: how a text was read is kept.
    """
    texts = (f"{text} {i}" for i in count())
    return quickest(*(lambda work=work: work(next(texts)) for work in works), rounds=times)  # type: ignore[misc]


def bounded(text: str, *works: Callable[[str], object]) -> tuple[list[float], float]:
    """Seconds of each, and 50 ms, or on a slow machine three times what `re` takes to cut a megabyte into words."""
    unknown = TEXTS["unknown words"]()
    *took, cut = in_turns(text, *works, lambda _: re.findall(r"\w+", unknown))
    return took, max(0.05, 3 * cut)


@pytest.mark.reliability
@pytest.mark.parametrize("name", TEXTS)
def test_a_megabyte_of_anything_is_read_in_a_twentieth_of_a_second_among_20000_edits(
    large: EditIndex, name: str, tally: Tally
) -> None:
    tally("texts of 1 MB made to be slow", 1)
    (named, decided), bound = bounded(
        TEXTS[name](), large.named, lambda text: Named().decide(text, large)
    )
    print(
        f"{name}: named {1000 * named:.0f} ms, decided {1000 * decided:.0f} ms of {1000 * bound:.0f}"
    )
    assert named < bound and decided < bound


@pytest.mark.reliability
@pytest.mark.parametrize(
    "name", ["typos", "first words", "all names", "last names", "unknown words"]
)
def test_the_default_gate_takes_hardly_longer_than_names_do_apart_from_embedding(
    encoded: EditIndex, name: str, tally: Tally
) -> None:
    """Of a text with many names only so many excerpts are made as are embedded."""
    tally("texts of 1 MB made to be slow", 1)
    named, decided = in_turns(
        TEXTS[name](), *(partial(gate.decide, index=encoded) for gate in (Named(), GATE))
    )
    print(f"{name}: names {1000 * named:.0f} ms, decided {1000 * decided:.0f} ms")
    assert decided < 2 * named + 0.02


CRAFTED = {  # names of a store, and a word that a text repeats, made to be slow together
    "one letter": (["a"], "a "),
    "letters": (list("abcdefgh"), "a b c d e f g h "),
    "all but the last word": (["a " * 11 + "b"], "a "),
    "all sizes": (["a " * size for size in range(1, 13)], "a "),
    "all but the last sign": (["京" * 39 + "都"], "京"),
}


@pytest.mark.reliability
@pytest.mark.parametrize("kind", CRAFTED)
def test_a_megabyte_takes_time_for_each_word_of_a_crafted_name_at_most(
    kind: str, tally: Tally
) -> None:
    tally("texts of 1 MB made to be slow", 1)
    names, word = CRAFTED[kind]
    index, text = (
        indexed(*(EditRecord(name.strip(), f"{name} is", "new") for name in names)),
        repeated(word),
    )
    [took], bound = bounded(text, index.named)
    bound *= 1 if max(map(len, names)) == 1 else 6
    print(f"{kind}: {1000 * took:.0f} ms of {1000 * bound:.0f}")
    assert took < bound


@pytest.mark.parametrize("words", ["Albbania ", "Ada Lovelace ", "Per\u0301u\u0301 "])
def test_time_grows_with_the_length_of_a_text_not_with_its_square(words: str) -> None:
    names = ("Albania", "Ada King Lovelace", "Peru")
    index = indexed(*(EditRecord(name, f"{name} is", "new") for name in names))
    few, many = (least(partial(index.named, words * count)) for count in (1_000, 16_000))
    assert many < 64 * few
