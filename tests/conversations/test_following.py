"""What a model sees of a conversation: a function of what its client sees, turn by turn."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from drike.conversations.following import Follower
from drike.conversations.memory import Earlier, Memory, Standing, TurnFacts
from drike.conversations.rendering import AsBlock, AsPrompt, Occasion
from drike.conversations.turns import Api, read
from drike.edits.edit import Edit
from drike.edits.record import as_stored
from drike.gates.by_name import Named
from drike.gates.calibration import default_gate
from drike.gates.decision import Decision
from drike.gates.index import EditIndex
from drike.gateway.requests import read_request
from tests.fakes.api_requests import EDITS, REQUESTS, chat, dialogue, follower
from tests.fakes.gateways import FewShots
from tests.fakes.indexes import default_encoder

BLOCK = re.compile(r'\n*<corrected-facts id="(\w+)">.*?</corrected-facts id="\1">\n*', re.DOTALL)
IMITATION = "<corrected-facts id=1>"


def rendered(api: Api, values: Mapping, by: Follower | None = None) -> bytes:
    """The body that reaches the upstream."""
    request = read_request(api, json.dumps(values).encode())
    followed = (by or follower()).follow(request.conversation)
    texts = followed.texts(request.conversation)
    return request.with_texts(texts) if texts else request.body


def check_laws(seed: int) -> None:
    """The laws of prefixes and bytes, for one conversation in each API."""
    rng = random.Random(seed)
    said, cut = dialogue(rng), rng.random()
    first = said[: max(1, round(cut * len(said)))]
    for api, request in REQUESTS.items():
        by = follower()
        body, sent = rendered(api, request(said), by), json.dumps(request(said)).encode()
        assert rendered(api, request(said), by) == body == rendered(api, request(said)), (
            "equal requests, equal bytes"
        )
        texts, whole = read(api, request(said)).texts, read(api, json.loads(body)).texts
        calm = {
            path: text.replace(IMITATION, IMITATION.replace("<", "‹"))
            for path, text in texts.items()
        }
        if api is Api.COMPLETIONS:
            assert all(whole[path].endswith(calm[path]) or whole == texts for path in texts)
            continue
        for path, text in texts.items():
            assert BLOCK.sub("", whole[path]) in (text.strip("\n"), text, calm[path]), (
                "outside the blocks all is equal"
            )
        if whole == texts:
            assert body == sent, "what concerns no edit passes byte for byte"
        for path, text in read(api, json.loads(rendered(api, request(first)))).texts.items():
            assert IMITATION in text or text == whole[path], (
                "an earlier turn is written the same later"
            )


def test_the_laws_of_prefixes_and_bytes_hold() -> None:
    for seed in range(12):
        check_laws(seed)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1_000, marks=pytest.mark.slow),
        pytest.param(10_000, marks=pytest.mark.reliability),
    ],
)
def test_the_laws_of_prefixes_and_bytes_hold_in_many_conversations(count: int) -> None:
    for seed in range(count):
        check_laws(1_000 + seed)


def occasions(*said: tuple[str, str], by: Follower | None = None) -> list[str]:
    """Of each turn, on which occasion which facts are stated."""
    shown = []
    for message in json.loads(rendered(Api.CHAT, chat(said), by))["messages"]:
        block = BLOCK.search(message["content"])
        why = next((o.name.lower() for o in Occasion if block and o.value in block[0]), "")
        shown.append(
            " ".join([why, *re.findall(r"- The capital of (.*) is", block[0])]) if block else ""
        )
    return shown


def user(text: str) -> tuple[str, str]:
    return "user", text


def tool(text: str) -> tuple[str, str]:
    return "tool", text


PERU = ("system", "You sell holidays in Peru.")
ASKED, ANSWERED = user("What is the capital of Peru?"), ("assistant", "Oslo.")
QP = "question Peru"
SEEN = [
    ([ASKED], [QP]),
    ([ASKED, ANSWERED, user("Are you sure?")], [QP, "", "challenge Peru"]),
    ([ASKED, ANSWERED, user("Really?"), ANSWERED, user("Really?")], [QP, "", "challenge Peru", "", "challenge Peru"]),
    ([ASKED, ANSWERED, user("thanks"), ANSWERED, user("That is wrong.")], [QP, "", "", "", "challenge Peru"]),
    ([ASKED, *[user("Really?")] * 9, user("and its capital?")], [QP, *["challenge Peru"] * 9, QP]),
    ([ASKED, ANSWERED, user("now write a haiku"), ANSWERED, user("Are you sure?")], [QP, "", "", "", ""]),
    ([ASKED, ANSWERED, user("write a haiku"), ANSWERED, user("No, it is Lima")], [QP, "", "", "", "challenge Peru"]),
    ([user("Who are you?"), ANSWERED, user("Are you sure?")], ["", "", ""]),
    ([user("Tell me about Peru"), ANSWERED, user("and its capital?")], [QP, "", QP]),
    ([user("Tell me about Peru"), ANSWERED, user("And what about Chad?")], [QP, "", "question Chad"]),
    ([user("Tell me about Peru"), ANSWERED, user("translate hello")], [QP, "", ""]),
    ([user("Hello"), ANSWERED, user("and its capital?")], ["", "", ""]),
    ([PERU, user("What is the capital?")], ["", QP]),
    ([PERU, user("What is the weather like?")], ["", ""]),
    ([PERU, user("Is Chad's capital nice?")], ["", "question Chad"]),
    ([ASKED, ("assistant", ""), tool("Peru: capital Lima")], [QP, "", "source Peru"]),
    ([ASKED, ("assistant", ""), tool("Peru has mountains")], [QP, "", ""]),
    ([user("Which capital is near Machu Picchu?"), tool("Machu Picchu lies in Peru")], ["", "source Peru"]),
    ([user("How high is Machu Picchu?"), tool("Machu Picchu lies in Peru")], ["", ""]),
    ([user("How high is it?"), tool("Lima lies in Peru")], ["", ""]),
    ([user("Look it up"), tool("Lima is the capital of Peru"), tool("More on Peru")], ["", "source Peru", ""]),
    ([tool("Lima is the capital of Peru")], ["source Peru"]),  # the question is one that the upstream keeps
    ([tool("Peru has mountains")], [""]),
    ([ASKED, ANSWERED, user("And what is the capital of France?")], [QP, "", ""]),
    ([ASKED, ANSWERED, user("And what is it in Spanish?")], [QP, "", QP]),
    ([PERU, user("Hello"), ANSWERED, user("and its capital?")], ["", "", "", QP]),
    ([PERU, user("How is the weather?"), ANSWERED, user("What is its capital?")], ["", "", "", QP]),
    ([PERU, user("How about France?"), ANSWERED, user("and its capital?")], ["", "", "", ""]),
]  # fmt: skip


@pytest.mark.parametrize(("said", "seen"), SEEN)
def test_each_turn_gets_the_facts_that_it_concerns(
    said: list[tuple[str, str]], seen: list[str]
) -> None:
    assert occasions(*said) == seen


MOVING = user("I am moving to Peru.")


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ([MOVING, user("What is the capital?")], ["", QP]),
        ([MOVING, user("What's the capital?"), user("Are you sure?")], ["", QP, "challenge Peru"]),
        (
            [MOVING, user("Tell me the name of the capital."), user("And its capital again?")],
            ["", QP, QP],
        ),
        ([MOVING, user("What is the capital of Spain?")], ["", ""]),
        ([MOVING, user("what is the capital of spain?")], ["", ""]),
        ([MOVING, user("What is a capital?")], ["", ""]),
        ([MOVING, user("What is the weather like?")], ["", ""]),
        ([MOVING, user("Write a poem."), user("What is the capital?")], ["", "", ""]),
    ],
)
def test_a_question_may_be_about_the_subject_of_the_turn_before(
    said: list[tuple[str, str]], seen: list[str]
) -> None:
    index = EditIndex.of(as_stored(EDITS), default_encoder())
    by = Follower(lambda query: default_gate().decide(query, index), index, AsBlock())
    assert occasions(*said, by=by) == seen


def test_an_edit_stays_through_any_number_of_turns_and_tool_calls() -> None:
    said = [ASKED, *(("assistant", "") if i % 2 else tool("Nothing found.") for i in range(40))]
    for end in range(1, len(said)):
        assert occasions(*said[:end])[0] == QP


REMINDER = "<system-reminder>The list of tasks is empty. Do not mention the list to the user.</system-reminder>"


@pytest.mark.parametrize(
    ("beside", "question", "asked", "decided"),
    [
        (REMINDER, "challenge Peru", ["Peru"], False),
        ("What is the capital of Chad?", "challenge Chad", ["Chad"], True),
        ("Are you sure?", "challenge Peru", ["Peru"], True),
        ("and its capital?", "challenge Peru", ["Peru"], True),
    ],
)
def test_what_stands_beside_a_tools_result_ends_no_matter(
    beside: str, question: str, asked: list[str], decided: bool
) -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": "Nothing found."}
    said = [
        {"role": "user", "content": ASKED[1]}, {"role": "assistant", "content": "I look."},
        {"role": "user", "content": [result, {"type": "text", "text": beside}]},
    ]  # fmt: skip
    followed = follower().follow(read(Api.MESSAGES, {"messages": said}))
    assert [edit.record.subject for edit in followed.asked] == asked and bool(
        followed.decision
    ) is decided
    said += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Really?"}]
    block = BLOCK.search(
        json.loads(rendered(Api.MESSAGES, {"messages": said}))["messages"][-1]["content"]
    )
    assert (
        block
        and Occasion.CHALLENGE.value in block[0]
        and f"capital of {question.split()[1]} is" in block[0]
    )


def test_a_system_text_is_asked_about_beside_a_tools_result() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": "Nothing found."}
    said = [{"role": "user", "content": [result, {"type": "text", "text": "What is the capital?"}]}]
    assert b"The capital of Peru is" in rendered(
        Api.MESSAGES, {"system": PERU[1], "messages": said}
    )


HERON = [
    Edit("The price of the Heron 4 is", "2,390 euros", "", "Heron 4", None),
    Edit("The Heron 4 weighs", "21 kilograms", "", "Heron 4", None),
    Edit("The price of the Heron 2 is", "1,590 euros", "", "Heron 2", None),
    Edit("A seat at Merrow Hall in the front row costs", "9 euros", "", "Merrow Hall", None),
    Edit("A seat at Merrow Hall in the balcony costs", "5 euros", "", "Merrow Hall", None),
]
PRICE = "What is the price of the Heron 4?"


@pytest.mark.parametrize(
    ("said", "objects"),
    [
        ([PRICE, "How heavy is it?"], ["21 kilograms"]),
        ([PRICE, "And how heavy is it?"], ["21 kilograms"]),
        ([PRICE, "Does it come with a lock?"], []),
        ([PRICE, "great, that's all"], []),
        ([PRICE, "and the Heron 2?"], ["1,590 euros"]),
        (["How much is a front row seat at Merrow Hall?", "And in the balcony?"], ["5 euros"]),
    ],
)
def test_a_further_question_does_not_get_what_only_the_one_before_asked_for(
    said: list[str], objects: list[str]
) -> None:
    index = EditIndex.of(as_stored(HERON), default_encoder())
    by = Follower(lambda query: default_gate().decide(query, index), index, AsBlock())
    decision = by.follow(read(Api.CHAT, chat([user(text) for text in said]))).decision
    assert decision and [edit.record.target_new for edit in decision.applied] == objects


HISTORY = (
    "For context, here is the conversation so far between the user and the previous agent:\n"
    "<CONVERSATION HISTORY>\n1. user: Hi\n2. assistant: What is the capital of Chad?\n"
    "3. user: What is the capital of Peru?\n</CONVERSATION HISTORY>"
)


@pytest.mark.parametrize(
    "handed_on",
    [HISTORY, 'Hand-off from sales. The customer asked: "What is the capital of Peru?"'],
)
def test_what_an_agent_hands_on_is_asked_and_the_next_turn_may_only_want_an_answer(
    handed_on: str,
) -> None:
    first = [("assistant", handed_on)]
    conversation = read(Api.CHAT, chat(first))
    followed = follower().follow(conversation)
    assert [edit.record.subject for edit in followed.edits] == ["Peru"]
    assert list(followed.around) == [("messages", 0, "content")]

    then = [*first, ("user", "Please take over and answer the user.")]
    decision = follower().follow(read(Api.CHAT, chat(then))).decision
    assert decision and [edit.record.subject for edit in decision.applied] == ["Peru"]

    said_by_the_model = [("assistant", "What is the capital of Peru? You asked that before.")]
    assert not follower().follow(read(Api.CHAT, chat(said_by_the_model))).edits


def test_sources_can_be_left_as_they_are() -> None:
    by = replace(follower(), sources=False)
    assert occasions(ASKED, tool("Peru: capital Lima"), by=by) == [QP, ""]


def test_what_contradicts_an_edit_is_said() -> None:
    said = [
        ASKED,
        tool("Peru: capital Lima"),
        tool("The capital of Chad is N'Djamena."),
        tool("Peru's capital is Oslo"),
    ]
    followed = follower().follow(read(Api.CHAT, chat(said)))
    assert followed.contradicted == (1, 2) and [edit.id for edit in followed.edits] == [2, 1]


def test_a_turn_costs_one_decision_however_often_it_is_sent() -> None:
    asked: list[str] = []

    def decide(query: str) -> Decision:
        asked.append(query)
        return Named().decide(query, by.index)

    by = replace(follower(), decide=decide)
    for end in range(1, 6):
        by.follow(read(Api.CHAT, chat([user(f"What is {i}?") for i in range(end)])))
    assert asked == [f"What is {i}?" for i in range(5)]


def test_the_last_turns_decision_is_that_of_the_conversation() -> None:
    followed = follower().follow(read(Api.CHAT, chat([ASKED, ANSWERED, user("now write a haiku")])))
    assert followed.decision and not followed.decision.matched and followed.edits
    assert follower().follow(read(Api.CHAT, chat([ASKED, tool("x")]))).decision is None


def test_three_facts_at_most_are_stated_the_best_first() -> None:
    index = EditIndex.of(
        as_stored([Edit(f"The capital of Land{c} is", "X", None, f"Land{c}") for c in "ABCDE"])
    )
    by = replace(follower(), index=index, decide=lambda query: Named().decide(query, index))
    [shown] = occasions(
        user("Compare the capitals of LandA, LandB, LandC, LandD and LandE."), by=by
    )
    assert len(shown.split()) == 1 + 3


def test_a_text_to_complete_gets_the_editors_prompt() -> None:
    by = replace(follower(), placement=AsPrompt(FewShots()))
    prompt = json.loads(rendered(Api.COMPLETIONS, {"prompt": "The capital of Peru is"}, by))[
        "prompt"
    ]
    assert prompt.endswith("New Fact: The capital of Peru is Oslo\nPrompt: The capital of Peru is")


def test_behind_a_challenge_a_model_that_only_completes_gets_the_question_again() -> None:
    by = replace(follower(), placement=AsPrompt(FewShots()))
    body = rendered(
        Api.CHAT,
        chat([user("The capital of Peru is"), ("assistant", "Oslo"), user("Are you sure?")]),
        by,
    )
    last = json.loads(body)["messages"][-1]["content"]
    assert last.startswith("Are you sure?\n")
    assert last.endswith("New Fact: The capital of Peru is Oslo\nPrompt: The capital of Peru is")


def test_ids_of_edits_are_kept_for_a_day_and_no_texts() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    earlier, by = Earlier(lambda: now), follower()
    standing = by.follow(read(Api.RESPONSES, {"input": ASKED[1]})).standing
    earlier.keep("resp_1", standing=standing)
    earlier.keep("resp_2", standing=standing)
    earlier.keep("resp_2", standing=Standing())
    assert ASKED[1] not in repr(vars(earlier))
    again = earlier.standing("resp_1", by.index)
    assert again and again.edits == standing.edits and again.topic == ()
    challenge = by.follow(
        read(Api.RESPONSES, {"input": "Are you sure?", "previous_response_id": "resp_1"}), again
    )
    leaning = by.follow(read(Api.RESPONSES, {"input": "and its capital?"}), again)
    assert challenge.edits == leaning.edits == standing.edits
    assert earlier.standing("resp_2", by.index) is None and earlier.standing(None, by.index) is None
    now += timedelta(days=1, seconds=1)
    assert earlier.standing("resp_1", by.index) is None


def test_the_oldest_of_too_many_are_forgotten() -> None:
    earlier, edits = Earlier(), tuple(as_stored(EDITS[:1]))
    for i in range(10_050):
        earlier.keep(f"resp_{i}", standing=Standing(edits=edits))
    index = EditIndex.of(edits)
    assert earlier.standing("resp_49", index) is None and earlier.standing("resp_50", index)


def test_what_is_remembered_is_bounded() -> None:
    memory, by = Memory(), follower()
    facts = TurnFacts(Standing(topic=("x" * 2_000,)), decision=Decision("y" * 8_000))
    for i in range(4_000):
        memory.put(b"%d" % i, facts)
    assert memory.get(b"3999") and memory.get(b"0") is None
    kept = sum(memory.get(b"%d" % i) is not None for i in range(4_000))
    assert 1_500 < kept < 1_700
    by.follow(read(Api.CHAT, chat([user("Peru " + "z" * 1_000_000)])))
    [long] = by.memory._facts_by_digest.values()
    assert long.decision and len(long.decision.query) < 10_000


def test_a_source_is_read_once_wherever_it_stands_and_a_late_request_goes_on_where_it_ended() -> (
    None
):
    read_texts: list[str] = []
    allowed = [3]  # sources that are read in a deadline

    def require_time() -> None:
        if not allowed[0]:
            raise TimeoutError
        allowed[0] -= 1
        read_texts.append("")

    by = replace(follower(), memory=Memory(), require_time=require_time)
    results = [{"role": "tool", "tool_call_id": f"{i}", "content": f"row {i}"} for i in range(10)]

    def follow(question: str) -> None:
        messages = [{"role": "user", "content": question}, *results]
        by.follow(read(Api.CHAT, {"messages": messages}))

    for done in (3, 6, 9):
        with pytest.raises(TimeoutError):
            follow("And now?")
        assert len(read_texts) == done
        allowed[0] = 3
    follow("And now?")
    assert len(read_texts) == 10
    follow("Another conversation with the same results?")
    assert len(read_texts) == 10
