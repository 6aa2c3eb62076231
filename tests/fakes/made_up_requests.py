"""Made-up requests in four dialects: damaged, mixed, or sent to another endpoint."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.fakes.damaged_json import mutate, replaced

ENDPOINTS = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/messages/count_tokens",
)
APIS = dict(
    zip(ENDPOINTS, ("chat", "completions", "responses", "messages", "messages"), strict=True)
)
TEXTS = [
    "What is the capital of Peru?", "The capital of Peru is", "Are you sure?", "and its CEO?", "why?", "Hello", "",
    "ok bye", "The capital of Peru is Lima.", "Peru", "\ud800 Peru", "Peru\udfff", "\0", "\u202ePeru\u200b", " \n\t",
    "Écris un haïku.", "ペルーの首都は?", "<corrected-facts id=1>\n- x\n</corrected-facts id=1>", "x" * 3_000, "{}",
    "My source says Lima.", "🇵🇪 Peru" * 20,
]  # fmt: skip


def text(rng: random.Random) -> str:
    return rng.choice(TEXTS)


def parts(rng: random.Random, kind: str, image: dict[str, Any]) -> object:
    """A content: a text, or a list of parts."""
    if rng.random() < 0.6:
        return text(rng)
    made = [{"type": kind, "text": text(rng)} for _ in range(rng.randrange(4))]
    return [*made, image] if rng.random() < 0.2 else made


def chat(rng: random.Random) -> dict[str, Any]:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages: list[dict[str, Any]] = []
    for _ in range(rng.randrange(1, 6)):
        messages.append({"role": "user", "content": parts(rng, "text", image)})
        if rng.random() < 0.3:
            called = {
                "id": "c",
                "type": "function",
                "function": {"name": "f", "arguments": '{"a": 1}'},
            }
            messages.append({"role": "assistant", "content": None, "tool_calls": [called]})
            messages.append(
                {"role": "tool", "tool_call_id": "c", "content": parts(rng, "text", image)}
            )
        messages.append(
            {"role": rng.choice(["assistant", "user", "developer"]), "content": text(rng)}
        )
    system = (
        [{"role": "system", "content": parts(rng, "text", image)}] if rng.random() < 0.5 else []
    )
    return {
        "model": "m",
        "messages": [*system, *messages[: rng.randrange(1, len(messages) + 1)]],
        "temperature": 0.5,
    }


def completion(rng: random.Random) -> dict[str, Any]:
    some: list[object] = [text(rng), [text(rng)], [text(rng), text(rng)], [1, 2], [[1], [2]], []]
    return {
        "model": "m",
        "prompt": some[0] if rng.random() < 0.6 else rng.choice(some),
        "max_tokens": 5,
    }


def responses(rng: random.Random) -> dict[str, Any]:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    items: list[dict[str, Any]] = []
    for _ in range(rng.randrange(1, 6)):
        items.append(
            {"role": "user", "content": parts(rng, "input_text", image), "type": "message"}
        )
        if rng.random() < 0.4:
            items.append({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"})
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": parts(rng, "input_text", image),
                }
            )
        if rng.random() < 0.3:
            items.append(
                {
                    "type": "reasoning",
                    "id": "r",
                    "summary": [{"type": "summary_text", "text": text(rng)}],
                }
            )
        items.append(
            {
                "role": "assistant",
                "content": [{"type": "output_text", "text": text(rng), "annotations": []}],
            }
        )
    body: dict[str, Any] = {"model": "m", "input": items[: rng.randrange(1, len(items) + 1)]}
    if rng.random() < 0.3:
        body["input"] = text(rng)
    if rng.random() < 0.5:
        body["instructions"] = text(rng)
    if rng.random() < 0.2:
        body[rng.choice(["previous_response_id", "conversation"])] = rng.choice(
            ["resp_1", {"id": "conv_1"}]
        )
    return body


def messages(rng: random.Random) -> dict[str, Any]:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    }
    made: list[dict[str, Any]] = []
    for _ in range(rng.randrange(1, 6)):
        made.append({"role": "user", "content": parts(rng, "text", image)})
        if rng.random() < 0.3:
            made.append(
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}],
                }
            )
            result = {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": parts(rng, "text", image),
            }
            source = {"type": "text", "media_type": "text/plain", "data": text(rng)}
            made.append(
                {"role": "user", "content": [result, {"type": "document", "source": source}]}
            )
        made.append({"role": "assistant", "content": text(rng)})
    body = {"model": "m", "max_tokens": 9, "messages": made[: rng.randrange(1, len(made) + 1)]}
    if rng.random() < 0.5:
        cached = {"type": "text", "text": text(rng), "cache_control": {"type": "ephemeral"}}
        body["system"] = rng.choice([text(rng), [cached]])
    return body


MAKERS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "chat": chat, "completions": completion, "responses": responses, "messages": messages,
}  # fmt: skip


def made_up(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """An endpoint, and a request that is right, damaged, or meant for another endpoint."""
    endpoint = rng.choice(ENDPOINTS)
    body = MAKERS[APIS[endpoint]](rng)
    kind = rng.randrange(10)
    if kind == 0:
        body = rng.choice(list(MAKERS.values()))(rng)
    elif kind == 1:  # of several dialects at once
        body |= rng.choice(list(MAKERS.values()))(rng)
    elif kind == 2:
        for key, value in body.items():
            if isinstance(value, list) and value and rng.random() < 0.05:
                body[key] = [copy.deepcopy(value[0])] * rng.choice([200, 1_999, 2_001, 5_000])
    if kind > 4:
        rows: list[object] = [body]
        for _ in range(rng.choice([1, 1, 2, 4])):
            if rows and (isinstance(rows[0], list | dict) and rows[0]):
                mutate(rows, rng)
        body = rows[0] if rows and isinstance(rows[0], dict) else {}
    return endpoint, body


def encoded(body: dict[str, Any], rng: random.Random) -> tuple[bytes, bytes]:
    """The bytes of a request, some of them damaged, and their Content-Encoding."""
    spaces = rng.choice([None, (",", ":"), (" , ", " :  ")])
    written = replaced(json.dumps(body, ensure_ascii=rng.random() < 0.5, separators=spaces))
    raw = written.encode("utf-8", "surrogatepass")
    match rng.randrange(24):
        case 0:
            raw = raw[: rng.randrange(len(raw) + 1)]
        case 1 if raw:
            at = rng.randrange(len(raw))
            raw = raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
        case 2:
            raw = raw.decode("utf-8", "replace").encode(
                rng.choice(["utf-16", "utf-32", "utf-8-sig", "latin-1"]), "replace"
            )
        case 3:
            return gzip.compress(raw), rng.choice([b"gzip", b"gzip", b"deflate", b"br", b""])
        case _:
            pass
    return raw, b""


def requests(number: int, seed: int) -> Iterator[tuple[str, bytes, bytes]]:
    """Endpoints, bodies and their Content-Encodings."""
    rng = random.Random(seed)
    for _ in range(number):
        endpoint, body = made_up(rng)
        yield endpoint, *encoded(body, rng)
