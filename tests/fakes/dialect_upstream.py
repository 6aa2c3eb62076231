"""An upstream that speaks four dialects as the real servers do, plain and in streams, and records what it is asked.

It follows one script: a user who says "N times" gets N tool calls, if the request has a tool, some
of them two at once; then an answer in words. Responses are kept, so that a request with
`previous_response_id` or `conversation` is heard with what came before.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream

Heard = tuple[tuple[str, str], ...]  # (role, text), in order
STEPS = re.compile(r"(\d+) times")
APIS = {
    "/v1/chat/completions": "chat", "/v1/completions": "completions", "/v1/responses": "responses",
    "/v1/messages": "messages", "/v1/messages/count_tokens": "messages",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A model call: the conversation as the model reads it, with what the upstream has stored of it."""

    api: str
    path: str
    body: dict[str, Any]
    heard: Heard


@dataclass
class Speaker:
    """The upstream's state."""

    url: str = ""
    recorded: Recorded = field(default_factory=Recorded)
    calls: list[Call] = field(default_factory=list)
    _stored: dict[str | None, list[Any]] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def answer(self, handler: RawHandler, call: Received) -> None:
        path, _, _ = call.path.partition("?")
        if path not in APIS:
            return handler.reply(
                200, b'{"object": "list", "data": []}', Content_Type="application/json"
            )
        api, body = APIS[path], json.loads(call.body)
        conversation = body.get("conversation", "")
        items = [
            *self._stored.get(conversation or body.get("previous_response_id"), []),
            *_listed(body.get("input", [])),
        ]
        heard = tuple(texts(api, {**body, "input": items} if api == "responses" else body))
        self.calls.append(Call(api, path, body, heard))
        if path.endswith("/count_tokens"):
            return _plain(handler, {"input_tokens": sum(len(text.split()) for _, text in heard)})
        number, tools = next(self._ids), _tools(heard, body.get("tools"))
        words = "" if tools else f"Answer {number}: it is as I said."
        if api == "responses":
            output = [_called(number, i, tool) for i, tool in enumerate(tools)] or [
                _said(number, words)
            ]
            self._stored[conversation or f"resp_{number}"] = [*items, *output]
            return _responses(handler, number, output, bool(body.get("stream")))
        send = {"chat": _chat, "completions": _completion, "messages": _messages}[api]
        return send(handler, number, words, tools, body)


@contextmanager
def speaker() -> Iterator[Speaker]:
    """The upstream, on loopback."""
    speaking = Speaker()
    with upstream(speaking.answer) as recorded:
        speaking.url, speaking.recorded = recorded.url, recorded
        yield speaking


def texts(api: str, body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Who says what in a request. Written apart from drike's own reader, which it checks."""
    if api == "completions":
        yield "user", body["prompt"]
        return
    before = body.get("instructions") if api == "responses" else body.get("system")
    yield from (("system", text) for text in _parts(before))
    for item in _listed(body["input"] if api == "responses" else body["messages"]):
        kind = item.get("type", "message")
        if kind == "function_call_output":
            yield from (("tool", text) for text in _parts(item["output"]))
        elif kind == "message":
            for part in item["content"] if isinstance(item.get("content"), list) else ():
                if part["type"] == "tool_result":
                    yield from (("tool", text) for text in _parts(part["content"]))
            yield from ((item["role"], text) for text in _parts(item.get("content")))


def _listed(given: object) -> list[Any]:
    return given if isinstance(given, list) else [{"role": "user", "content": given}]


def _parts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part.get("text"), str):
            yield part["text"]


def at_once(step: int, steps: int) -> int:
    """How many calls of a tool come at once after so many of all."""
    return min(2 if step % 5 == 1 else 1, steps - step)


def _tools(heard: Heard, tools: Iterable[dict[str, Any]] | None) -> list[tuple[str, str]]:
    """The tools to call, with their arguments, while there are calls left."""
    last = max((i for i, (role, _) in enumerate(heard) if role == "user"), default=None)
    if not tools or last is None or not (asked := STEPS.search(heard[last][1])):
        return []
    step = sum(role == "tool" for role, _ in heard[last:])
    [tool, *_] = tools
    name = tool.get("name") or tool["function"]["name"]
    return [(name, json.dumps({"page": step + 1 + i})) for i in range(at_once(step, int(asked[1])))]


def _plain(handler: RawHandler, value: dict[str, Any]) -> None:
    """Answer in JSON, compressed for clients that take it."""
    content = json.dumps(value).encode()
    if "gzip" not in handler.headers.get("Accept-Encoding", ""):
        return handler.reply(200, content, Content_Type="application/json")
    return handler.reply(
        200, gzip.compress(content), Content_Type="application/json", Content_Encoding="gzip"
    )


def _stream(
    handler: RawHandler, events: Iterable[dict[str, Any]], *, named: bool, done: bytes = b""
) -> None:
    handler.begin_stream()
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        handler.chunk(f"{head}data: {json.dumps(event)}\n\n".encode())
    if done:
        handler.chunk(done)
    handler.chunk(b"")


def _chat(
    handler: RawHandler, number: int, words: str, tools: list[tuple[str, str]], body: dict[str, Any]
) -> None:
    calls = [
        {
            "id": f"call_{number}_{i}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for i, (name, arguments) in enumerate(tools)
    ]
    reason, usage = ("tool_calls" if tools else "stop"), _usage("prompt", "completion")
    base = {
        "id": f"chatcmpl-{number}",
        "created": 1,
        "model": body["model"],
        "system_fingerprint": "fp",
    }
    if not body.get("stream"):
        message = {"role": "assistant", "content": words or None, "refusal": None}
        choice = {
            "index": 0,
            "message": message | ({"tool_calls": calls} if tools else {}),
            "logprobs": None,
        }
        completion = base | {
            "object": "chat.completion",
            "choices": [choice | {"finish_reason": reason}],
        }
        return _plain(handler, completion | {"usage": usage})
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if words else None}]
    for i, (name, arguments) in enumerate(tools):
        begun = {"index": i, **calls[i], "function": {"name": name, "arguments": ""}}
        halves = [
            {"index": i, "function": {"arguments": half}} for half in (arguments[:4], arguments[4:])
        ]
        deltas += [{"tool_calls": [part]} for part in (begun, *halves)]
    deltas += [{"content": f"{word} "} for word in words.split()]
    base |= {"object": "chat.completion.chunk"}
    chunks = [
        base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append(base | {"choices": [], "usage": usage})
    return _stream(handler, chunks, named=False, done=b"data: [DONE]\n\n")


def _completion(
    handler: RawHandler, number: int, words: str, tools: list[tuple[str, str]], body: dict[str, Any]
) -> None:
    choice = {"index": 0, "text": words, "finish_reason": "stop", "logprobs": None}
    base = {
        "id": f"cmpl-{number}",
        "object": "text_completion",
        "created": 1,
        "model": body["model"],
    }
    _plain(handler, base | {"choices": [choice], "usage": _usage("prompt", "completion")})


def _usage(read: str, written: str) -> dict[str, Any]:
    return {f"{read}_tokens": 9, f"{written}_tokens": 5, "total_tokens": 14}


def _called(number: int, place: int, tool: tuple[str, str]) -> dict[str, Any]:
    """A call of a tool, as a response puts it out."""
    call = {
        "type": "function_call",
        "id": f"fc_{number}_{place}",
        "call_id": f"call_{number}_{place}",
    }
    return call | {"status": "completed", "name": tool[0], "arguments": tool[1]}


def _said(number: int, words: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": words, "annotations": [], "logprobs": []}]
    return {
        "type": "message",
        "id": f"msg_{number}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def _responses(
    handler: RawHandler, number: int, output: list[dict[str, Any]], stream: bool
) -> None:
    details = {
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    response: dict[str, Any] = {
        "id": f"resp_{number}", "object": "response", "created_at": 1, "model": "tiny", "status": "in_progress",
        "output": [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
        "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0,
    }  # fmt: skip
    whole = response | {
        "status": "completed",
        "output": output,
        "usage": _usage("input", "output") | details,
    }
    if not stream:
        return _plain(handler, whole)
    events: list[dict[str, Any]] = [
        {"type": f"response.{kind}", "response": response} for kind in _BEGIN
    ]
    for i, item in enumerate(output):
        events += _item_events(item, i)
    events.append({"type": "response.completed", "response": whole})
    return _stream(
        handler, [event | {"sequence_number": i} for i, event in enumerate(events)], named=True
    )


def _item_events(item: dict[str, Any], place: int) -> Iterator[dict[str, Any]]:
    """How a stream of a response puts out an item."""
    at = {"item_id": item["id"], "output_index": place}
    if item["type"] == "function_call":
        empty, kind, text = (
            item | {"arguments": "", "status": "in_progress"},
            "function_call_arguments",
            "arguments",
        )
        deltas, part = [item["arguments"][:4], item["arguments"][4:]], {}
    else:
        empty, kind, text = item | {"content": [], "status": "in_progress"}, "output_text", "text"
        deltas, part = (
            [f"{word} " for word in item["content"][0]["text"].split(" ")],
            {"content_index": 0, "logprobs": []},
        )
    yield {"type": "response.output_item.added", "output_index": place, "item": empty}
    if part:
        bare = item["content"][0] | {"text": ""}
        yield {"type": "response.content_part.added", **at, "content_index": 0, "part": bare}
    for delta in deltas:
        yield {"type": f"response.{kind}.delta", **at, **part, "delta": delta}
    yield {"type": f"response.{kind}.done", **at, **part, text: "".join(deltas)}
    if part:
        yield {
            "type": "response.content_part.done",
            **at,
            "content_index": 0,
            "part": item["content"][0],
        }
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


_BEGIN = ("created", "in_progress")


def _messages(
    handler: RawHandler, number: int, words: str, tools: list[tuple[str, str]], body: dict[str, Any]
) -> None:
    blocks: list[dict[str, Any]] = [
        {
            "type": "tool_use",
            "id": f"toolu_{number}_{i}",
            "name": name,
            "input": json.loads(arguments),
        }
        for i, (name, arguments) in enumerate(tools)
    ] or [{"type": "text", "text": words}]
    end = {"stop_reason": "tool_use" if tools else "end_turn", "stop_sequence": None}
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
    }
    if not body.get("stream"):
        return _plain(
            handler,
            message | end | {"content": blocks, "usage": {"input_tokens": 9, "output_tokens": 5}},
        )
    begin = message | {"content": [], "stop_reason": None, "stop_sequence": None}
    begin["usage"] = {"input_tokens": 9, "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begin}, {"type": "ping"}]
    for i, block in enumerate(blocks):
        empty = block | ({"input": {}} if tools else {"text": ""})
        written = json.dumps(block["input"]) if tools else words
        kind, field = ("input_json_delta", "partial_json") if tools else ("text_delta", "text")
        deltas = [{"type": kind, field: half} for half in (written[:4], written[4:])]
        events.append({"type": "content_block_start", "index": i, "content_block": empty})
        events += [{"type": "content_block_delta", "index": i, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": i})
    events += [
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return _stream(handler, events, named=True)
