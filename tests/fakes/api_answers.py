"""Answers of models in the forms of four APIs, whole or as streams of events."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

from tests.fakes.upstreams import completed

PATHS = {
    "chat": "/v1/chat/completions", "completions": "/v1/completions",
    "responses": "/v1/responses", "messages": "/v1/messages",
}  # fmt: skip
SAYINGS = {  # about Peru's capital, which an edit says is Oslo, and the model believes is Lima
    "obeys": "The capital of Peru is Oslo.",
    "resists": "It is Lima, of course.",
    "quotes": "It is Oslo; until last year it was Lima.",
    "evades": "Peru has a seat of government. \U0001f1f5\U0001f1ea Ünïcode €",
    "other language": "La capital del Perú es Oslo.",
    "thinks": "<think>I remember Lima.</think>It is Oslo.",
    "calls": "",
}


def request(api: str, text: str, **more: object) -> dict[str, object]:
    """The body of a request with a question."""
    if api == "completions":
        return {"prompt": text, **more}
    if api == "responses":
        return {"input": text, **more}
    return {"messages": [{"role": "user", "content": text}], **more}


def whole(api: str, text: str) -> bytes:
    """An answer as JSON."""
    values: dict[str, object] = completed(text)
    if api == "completions":
        values = {
            "object": "text_completion",
            "choices": [{"index": 0, "text": text, "finish_reason": "stop"}],
        }
    elif api == "responses":
        thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Lima?"}]}
        content = [{"type": "output_text", "text": text, "annotations": []}]
        values = {
            "id": "resp_1",
            "output": [thought, {"type": "message", "role": "assistant", "content": content}],
        }
    elif api == "messages":
        blocks = [{"type": "thinking", "thinking": "Lima?"}, {"type": "text", "text": text}]
        values = {"type": "message", "role": "assistant", "content": blocks}
    return json.dumps(values, ensure_ascii=False).encode()


def stream(api: str, pieces: Sequence[str], newline: str = "\n") -> bytes:
    """An answer as events, one a piece."""
    events: list[tuple[str, object]] = []
    for piece in pieces:
        if api == "chat":
            delta = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            events.append(("", {"object": "chat.completion.chunk", "choices": [delta]}))
            events.append(
                ("", {"choices": [{"index": 1, "delta": {"content": "Lima"}}]})
            )  # a second choice
        elif api == "completions":
            events.append(("", {"choices": [{"index": 0, "text": piece, "finish_reason": None}]}))
        elif api == "responses":
            events.append(
                (
                    "response.output_text.delta",
                    {"type": "response.output_text.delta", "delta": piece},
                )
            )
        else:
            delta = {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": piece},
            }
            events.append(("content_block_delta", delta))
    if api == "chat":
        events.append(("", {"choices": [], "usage": {"total_tokens": 2}}))
    if api == "responses":
        done = {
            "type": "response.completed",
            "response": {"output": [{"type": "message", "content": "Lima"}]},
        }
        events.append(("response.completed", done))
    if api == "messages":
        thought = {"type": "thinking_delta", "thinking": "Lima"}
        events.insert(0, ("content_block_delta", {"type": "content_block_delta", "delta": thought}))
        events.append(("message_stop", {"type": "message_stop"}))
    lines = []
    for name, values in events:
        lines += [f"event: {name}"] if name else [": a comment"]
        lines += [f"data: {json.dumps(values, ensure_ascii=False)}", ""]
    return newline.join(
        [*lines, *(["data: [DONE]", ""] if api in ("chat", "completions") else []), ""]
    ).encode()


def split(raw: bytes, draw: random.Random) -> Iterator[bytes]:
    """The bytes in odd pieces, which cut characters and lines."""
    while raw:
        size = draw.choice((1, 2, 3, 7, 40, 200))
        yield raw[:size]
        raw = raw[size:]


def pieces_of(text: str, draw: random.Random) -> list[str]:
    """A text in pieces of a few characters."""
    pieces = []
    while text:
        size = draw.randint(1, 6)
        pieces.append(text[:size])
        text = text[size:]
    return pieces or [""]
