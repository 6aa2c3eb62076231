"""An upstream of a gateway that records every byte it gets, and what such upstreams answer."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.fakes.servers import Server, hang_up


@dataclass(frozen=True)
class Received:
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.casefold() == name]


@dataclass
class Recorded:
    """An upstream: its address and what it received. `gone`: set when a client of it hung up."""

    url: str = ""
    calls: list[Received] = field(default_factory=list)
    gone: threading.Event = field(default_factory=threading.Event)

    @property
    def body(self) -> bytes:
        return self.calls[-1].body


Respond = Callable[["RawHandler", Received], None]


class RawHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    recorded: Recorded
    respond: Respond

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        call = Received(self.command, self.path, list(self.headers.items()), body)
        self.recorded.calls.append(call)
        type(self).respond(self, call)

    do_GET = do_POST = do_PUT = do_HEAD = answer  # noqa: N815

    def reply(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def break_off(self) -> None:
        hang_up(self)  # type: ignore[arg-type]

    def log_message(self, format: str, *args: object) -> None:
        pass


def completed(text: str, model: str = "tiny") -> dict[str, object]:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}  # fmt: skip


def events(words: list[str]) -> bytes:
    """A stream of chat completion chunks."""
    deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words), {}]
    parts = []
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        parts.append(
            {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "tiny",
                "choices": [choice],
            }
        )
    return (
        b"".join(b"data: " + json.dumps(part).encode() + b"\n\n" for part in parts)
        + b"data: [DONE]\n\n"
    )


def echo(handler: RawHandler, call: Received) -> None:
    """Answer a chat with the last message, streamed if asked for; anything else with its own body."""
    try:
        body = json.loads(call.body)
        content = body["messages"][-1]["content"]
        text = content if isinstance(content, str) else json.dumps(content)
    except (ValueError, LookupError, TypeError):
        return handler.reply(200, call.body, Content_Type="application/octet-stream")
    if not body.get("stream"):
        return handler.reply(
            200, json.dumps(completed(text)).encode(), Content_Type="application/json"
        )
    handler.begin_stream()
    handler.chunk(events(text.split(" ")))
    handler.chunk(b"")


@contextmanager
def upstream(respond: Respond = echo) -> Iterator[Recorded]:
    recorded = Recorded()
    handler = type("Bound", (RawHandler,), {"recorded": recorded, "respond": staticmethod(respond)})
    with Server(("127.0.0.1", 0), handler) as serving:
        recorded.url = f"http://127.0.0.1:{serving.server_address[1]}/v1"
        threading.Thread(
            target=lambda: serving.serve_forever(poll_interval=0.02), daemon=True
        ).start()
        try:
            yield recorded
        finally:
            serving.shutdown()


FACT = re.compile(r"^- (.*) (\S+)$", re.MULTILINE)


Answer = Callable[
    [list[str]], str
]  # to the new objects that the last message states, or the first one that does


def answering(
    answer: Answer, *, models: tuple[str, ...] = ("tiny",), usage: bool = True
) -> Respond:
    """Answer chats by `answer`, and list some models."""

    def respond(handler: RawHandler, call: Received) -> None:
        if call.method == "GET":
            listed: dict[str, Any] = {"object": "list", "data": [{"id": name} for name in models]}
        else:
            said = [message["content"] for message in json.loads(call.body)["messages"]]
            stated = next((found for text in reversed(said) if (found := FACT.findall(text))), [])
            listed = completed(answer([new for _, new in stated]))
            listed["usage"] = (
                {"prompt_tokens": sum(map(len, said)), "completion_tokens": 1} if usage else None
            )
        handler.reply(200, json.dumps(listed).encode(), Content_Type="application/json")

    return respond


def obeys(new: list[str]) -> str:
    return f"It is {new[0]}." if new else "It is Lima."


def resists(new: list[str]) -> str:
    return "It is Lima."


def quotes_both(new: list[str]) -> str:
    return f"It is either {new[0]} or Lima." if new else "It is Lima."


def declines(new: list[str]) -> str:
    return "I cannot help with that."
