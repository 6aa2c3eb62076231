"""What a gate may match by a name is what is looked up where the gate fails: both read names alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.edits.record import EditRecord
from drike.gates.by_name import Named
from drike.gates.decision import EQUAL, Gate
from drike.gates.names import edits_named
from drike.text.words import Words
from tests.fakes.indexes import GATE, indexed

EDITS = (
    EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima", aliases=("Republic of Peru",)),
    EditRecord("New York", "The governor of New York is", "Ann Bee", aliases=("京都", "NYC")),
    EditRecord("Ann Bee", "The home of Ann Bee is", "Łódź"),
    EditRecord("J. R. R. Tolkien", "The employer of J. R. R. Tolkien is", "Nordlicht GmbH"),
    EditRecord("Nordlicht GmbH", "The chief executive of Nordlicht GmbH is", "Bo Dee"),
    EditRecord("서울", "서울의 시장은", "Kim"),
    EditRecord("Россия", "Столица России", "Тула", paraphrases=("Где теперь столица?",)),
    EditRecord("مصر", "عاصمة مصر هي", "الأقصر"),
    EditRecord("snake_case", "The style of snake_case is", "old"),
    EditRecord("C++", "The author of C++ is", "Zed"),
    EditRecord("Ελλάδα", "Η πρωτεύουσα της Ελλάδα είναι", "Πάτρα"),
    EditRecord("भारत", "भारत की राजधानी है", "मुंबई"),
    EditRecord("ไทย", "เมืองหลวงของ ไทย คือ", "เชียงใหม่"),
)
INDEX = indexed(*EDITS)

NAMES = (
    *(name for edit in EDITS for name in edit.names), "Tolkien", "JRR Tolkien", "Peruvian", "Peruvians", "Nordlicht",
    "Oslo", "Bee", "Nordlciht GmbH", "Perus", "NewYork", "Republic", "Где теперь столица?",
)  # fmt: skip
DECORATED: dict[str, Callable[[str], str]] = {
    "plain": str,
    "italics": lambda name: f"_{name}_",
    "bold": lambda name: f"__{name}__",
    "bold italics": lambda name: f"___{name}___",
    "half italics": lambda name: f"_{name}",
    "italics behind": lambda name: f"{name}_'s",
    "stars": lambda name: f"**{name}**",
    "code": lambda name: f"`{name}`",
    "struck": lambda name: f"~~{name}~~",
    "heading": lambda name: f"# {name} #",
    "link": lambda name: f"[{name}](https://x.y/{name})",
    "tag": lambda name: f"<b>{name}</b>",
    "tag inside": lambda name: f"{name[:1]}<i>{name[1:]}</i>",
    "tags between words": lambda name: f"<i>{name.replace(' ', '</i> <i>')}</i>",
    "quoted": lambda name: f'"{name}"',
    "quoted low": lambda name: f"„{name}“",
    "guillemets": lambda name: f"«{name}»",
    "corners": lambda name: f"「{name}」",
    "brackets": lambda name: f"({name})",
    "zero width": "\u200b".join,
    "soft hyphens": "\u00ad".join,
    "marks of direction": lambda name: f"\u202e{name}\u202c",
    "hyphens": lambda name: name.replace(" ", "-"),
    "low lines": lambda name: name.replace(" ", "_"),
    "italic words": lambda name: f"_{name.replace(' ', '_ _')}_",
    "lines": lambda name: name.replace(" ", "\n"),
    "wide spaces": lambda name: name.replace(" ", "\u00a0\u3000"),
    "wide letters": lambda name: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in name),
    "capitals": str.upper,
    "small letters": str.lower,
    "accents": lambda name: "".join(f"{c}\u0301" for c in name),
    "genitive": lambda name: f"{name}'s",
    "joined behind": lambda name: f"{name}_and_others",
    "joined before": lambda name: f"The-{name}",
    "hashtag": lambda name: f"#{name}",
    "handle": lambda name: f"@{name}",
}  # fmt: skip
FRAMES = (
    "What is the capital of {}?", "{}", "Tell me about {}, please.", "{} の首都は?", "{}의 시장은", "Где {}?",
    "The governor of {} is", "Who heads the employer of {}? Where is the home of that?", "x " * 300 + "{}",
)  # fmt: skip


def _decorated(name: str, kinds: list[str]) -> str:
    for kind in kinds:
        name = DECORATED[kind](name)
    return name


decorated_names = st.builds(
    _decorated,
    st.sampled_from(NAMES),
    st.lists(st.sampled_from([*DECORATED]), min_size=1, max_size=2),
)
texts = st.builds(
    lambda frame, names, between: frame.format(between.join(names)),
    st.sampled_from(FRAMES),
    st.lists(decorated_names, min_size=1, max_size=3),
    st.sampled_from([" ", " and ", "_", "-", "/", "", "\n", "_ _", ", "]),
)


def matched_by_name(gate: Gate, text: str) -> set[int]:
    """The edits that a gate considers by a name in a text, as a text of theirs, or in a chain."""
    return {
        candidate.edit.id
        for candidate in gate.decide(text, INDEX).candidates
        if candidate.name is not None or candidate.follows is not None or EQUAL in candidate.features
    }  # fmt: skip


@given(texts)
def test_what_a_gate_matches_by_name_is_reached_by_name(text: str) -> None:
    for gate in (Named(), GATE):
        assert matched_by_name(gate, text) <= INDEX.reached_by_name(text)


@given(texts)
def test_edits_named_are_reached_by_name(text: str) -> None:
    assert INDEX.named(text) <= INDEX.reached_by_name(text)


@pytest.mark.parametrize("kind", DECORATED)
@pytest.mark.parametrize("name", ["Peru", "New York", "京都", "Россия"])
def test_a_decorated_name_is_looked_up_as_the_gate_reads_it(name: str, kind: str) -> None:
    text = f"Who governs {DECORATED[kind](name)} now?"
    assert matched_by_name(Named(), text) <= INDEX.named(text)


@pytest.mark.parametrize("marks", ["_", "__", "___"])
def test_marks_of_italics_belong_to_no_name_and_a_low_line_in_a_name_does(marks: str) -> None:
    assert INDEX.named(f"What is the capital of {marks}Peru{marks}?") == {1}
    assert INDEX.named(f"What is the style of {marks}snake_case{marks}?") == {9}
    assert not edits_named(Words.of(f"{marks}Peru{marks}"), INDEX.lookup.names)


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("Who employs Tolkien?", 4),  # a last name alone
        ("Which city do the Peruvians govern from?", 1),  # a demonym
        ("Which country has Oslo as its capital?", 1),  # a new object
        ("Где теперь столица?", 7),  # one of its texts, without a name
        ("Where is the home of the governor of New York?", 3),  # a chain of two
        ("Who is chief executive of Tolkien's employer?", 5),
    ],
)
def test_more_than_a_subjects_own_names_reaches_an_edit(text: str, edit: int) -> None:
    assert edit not in INDEX.named(text) and edit in INDEX.reached_by_name(text)
