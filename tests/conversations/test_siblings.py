"""Laws of turns that only name a sibling of the subject before."""

from __future__ import annotations

import pytest

from drike.conversations.following import Follower
from drike.conversations.rendering import AsBlock
from drike.conversations.siblings import only_name
from drike.conversations.turns import Api, read
from drike.edits.record import EditRecord
from tests.fakes.indexes import GATE, indexed

INDEX = indexed(
    EditRecord("Tern 5", "The price of the Tern 5 is", "749 euros"),
    EditRecord("Tern 6", "The price of the Tern 6 is", "899 euros"),
    EditRecord("Sumpter Growth plan", "The Sumpter Growth plan costs", "49 euros"),
    EditRecord("Sumpter Starter plan", "The Sumpter Starter plan costs", "9 euros"),
)


@pytest.mark.parametrize(
    ("before", "turn", "expected"),
    [
        ("How much is the Tern 5?", "and the 6?", ["899 euros"]),
        ("How much is the Tern 5?", "And the 7?", []),
        ("How much is the Sumpter Growth plan?", "What about Starter?", ["9 euros"]),
    ],
)
def test_a_turn_that_names_a_sibling_asks_the_same_of_it(
    before: str, turn: str, expected: list[str]
) -> None:
    messages = [
        {"role": "user", "content": before},
        {"role": "assistant", "content": "It costs something."},
        {"role": "user", "content": turn},
    ]
    follower = Follower(lambda text: GATE.decide(text, INDEX), INDEX, AsBlock())
    decision = follower.follow(read(Api.CHAT, {"messages": messages})).decision
    assert decision is not None
    assert [edit.record.target_new for edit in decision.applied] == expected


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        ("and the 6?", "6"),
        ("What about Starter?", "Starter"),
        ("And Hull please?", "Hull"),
        ("And when does it close at night?", ""),
        ("thanks, that helped a lot today!", ""),
    ],
)
def test_what_may_be_a_name_alone(turn: str, expected: str) -> None:
    assert only_name(turn) == expected
