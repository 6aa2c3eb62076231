"""Requests of four APIs as turns: who says what, and where each text stands."""

from __future__ import annotations

import pytest

from drike.conversations.turns import MAX_MESSAGES, Api, UnreadError, read

IMAGE = {"type": "image_url", "image_url": {"url": "x"}}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
}
REQUESTS: list[tuple[Api, dict, list[tuple[str, str]]]] = [
    (
        Api.CHAT,
        {"messages": [
         {"role": "developer", "content": "S"},
         {"role": "user", "content": [IMAGE, {"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}, CALL,
         {"role": "tool", "content": "T"}, {"role": "function", "content": "F"},
         {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, {"role": "user", "content": "C"}]},
        [("system", "S"), ("user", "A\nB"), ("tool", "T"), ("tool", "F"), ("user", "C")],
    ),
    (Api.COMPLETIONS, {"prompt": "A"}, [("user", "A")]),
    (Api.COMPLETIONS, {"prompt": ["A"], "suffix": "B"}, [("user", "A")]),
    (Api.RESPONSES, {"instructions": "S", "input": "A"}, [("system", "S"), ("user", "A")]),
    (
        Api.RESPONSES,
        {"input": [{"role": "user", "content": "A"}, {"type": "function_call", "name": "f", "arguments": "{}"},
         {"type": "reasoning", "summary": [{"type": "summary_text", "text": "R"}]},
         {"type": "function_call_output", "call_id": "1", "output": "T"},
         {"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": "U"}, {"type": "input_image"}]},
         {"type": "computer_call_output", "output": {"type": "computer_screenshot"}},
         {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "B"}]},
         {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "C"},
          {"type": "input_file"}]}]},
        [("user", "A"), ("tool", "T"), ("tool", "U"), ("assistant", "B"), ("user", "C")],
    ),
    (
        Api.MESSAGES,
        {"system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}], "messages": [
            {"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "D"}},
                                         {"type": "text", "text": "A"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "M"}, {"type": "tool_use"}]},
            {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "T"}, {}]},
                                         {"type": "tool_result", "content": "U"}, {"type": "text", "text": "B"}]}]},
        [("system", "S"), ("user", "A"), ("tool", "D"), ("tool", "T\nU"), ("beside", "B")],
    ),
    (
        Api.MESSAGES,
        {"messages": [{"role": "user", "content": [
            {"type": "tool_result", "content": [
                {"type": "search_result", "title": "W", "content": [{"type": "text", "text": "T"}]},
                {"type": "document", "source": {"type": "text", "data": "U"}}]},
            {"type": "search_result", "content": [{"type": "text", "text": "V"}]},
            {"type": "text", "text": "A"},
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "D"}]}},
            {"type": "document", "source": {"type": "content", "content": "E"}}]}]},
        [("tool", "T\nU\nV"), ("beside", "A"), ("tool", "D\nE")],
    ),
    (
        Api.MESSAGES,  # of what no upstream takes, only the outer one is read, so that depth is no matter
        {"messages": [{"role": "user", "content": [
            {"type": kind, "content": [{"type": "text", "text": "T"}, {"type": kind, "content": "U"}]}
            for kind in ("tool_result", "search_result")]}]},
        [("tool", "T\nT")],
    ),
    (Api.MESSAGES, {"system": "S", "messages": [{"role": "user", "content": "A"}]}, [("system", "S"), ("user", "A")]),
    (
        Api.RESPONSES,
        {"prompt": {"id": "pmpt_1", "variables": {"city": "A"}}, "input": [
            {"type": "shell_call_output", "output": [
                {"stdout": "T", "stderr": "U", "outcome": {"type": "exit", "exit_code": 0}}, {"stdout": "V"}]},
            {"role": "user", "content": "B"}]},
        [("tool", "T\nU\nV"), ("user", "B")],
    ),
    (
        Api.CHAT,
        {"messages": [{"role": role, "content": role} for role in ("System", "Human", "Observation", "USER", "gpt")]},
        [("system", "System"), ("user", "Human"), ("tool", "Observation"), ("user", "USER"), ("assistant", "gpt")],
    ),
    (Api.CHAT, {}, []),
    (Api.RESPONSES, {"previous_response_id": "resp_1"}, []),
]  # fmt: skip


def at(value: object, path: tuple) -> object:
    for key in path:
        value = value[key]  # type: ignore[index]
    return value


@pytest.mark.parametrize(("api", "values", "said"), REQUESTS)
def test_each_api_is_read_as_turns(api: Api, values: dict, said: list[tuple[str, str]]) -> None:
    conversation = read(api, values)
    assert [(turn.speaker.value, turn.said) for turn in conversation.turns] == said
    assert all(at(values, path) == text for path, text in conversation.texts.items())


@pytest.mark.parametrize(
    ("values", "before", "stays"),
    [
        ({"previous_response_id": "resp_1"}, "resp_1", False), ({"conversation": "resp_1"}, "resp_1", True),
        ({"previous_response_id": "1f"}, "1f", False), ({"conversation": {"id": "conv_2"}}, "conv_2", True),
        ({"conversation": 7}, None, False), ({}, None, False),
    ],
)  # fmt: skip
def test_the_id_of_earlier_turns_is_read(values: dict, before: str | None, stays: bool) -> None:
    conversation = read(Api.RESPONSES, {"input": "A", **values})
    assert (conversation.before, conversation.stays) == (before, stays)
    assert read(Api.CHAT, {"messages": [], **values}).before is None


@pytest.mark.parametrize(
    ("api", "values"),
    [
        (Api.CHAT, {"messages": "A"}),
        (Api.CHAT, {"messages": ["A"]}),
        (Api.CHAT, {"messages": [{"role": "user", "content": {"text": "A"}}]}),
        (Api.CHAT, {"messages": [{"role": "user", "content": [7]}]}),
        (Api.COMPLETIONS, {"prompt": ["A", "B"]}),
        (Api.COMPLETIONS, {"prompt": [1, 2]}),
        (Api.RESPONSES, {"input": {"role": "user"}}),
        (Api.RESPONSES, {"prompt": {"id": "pmpt_1", "variables": {"question": "A"}}}),
        (
            Api.RESPONSES,
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": 7}]}]},
        ),
        (Api.MESSAGES, {"messages": [{"role": "user", "content": 7}]}),
        (Api.MESSAGES, {"system": 7, "messages": []}),
    ],
)
def test_a_form_in_which_texts_could_be_missed_is_not_read(api: Api, values: dict) -> None:
    with pytest.raises(UnreadError):
        read(api, values)


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(ValueError, match="2,000 at most"):
        read(Api.CHAT, {"messages": [{}] * (MAX_MESSAGES + 1)})
