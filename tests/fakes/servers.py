"""Loopback servers for tests, with real sockets: one serves a model, others fail in every known way."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from unittest.mock import patch

from drike.models.protocols import LanguageModel, Request, Template
from drike.models.served import ApiOptions, openai
from drike.models.served.openai import ATTEMPTS, ServedModel
from drike.prompts import CHAT_INSTRUCTION
from tests.fakes.ports import closed_port
from tests.fakes.waiting import HANG

ANSWER = "Paris"
CANARY = "sk-canary-0123456789abcdef"  # a key that must never be shown


@dataclass
class Served:
    """A running server: its address and the requests it received."""

    url: str
    bodies: list[dict] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    began: list[float] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return len(self.began)

    def named(self, service: str = "vllm", model: str = "some-model") -> str:
        return f"{service}:{model}@{self.url}"


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        """Ignore clients that hang up, as some tests do."""


Respond = Callable[["Handler", dict], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    served: Served
    respond: Respond

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.served.began.append(time.monotonic())
        self.served.bodies.append(body)
        self.served.headers.append(dict(self.headers))
        type(self).respond(self, body)

    def reply(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def reply_json(
        self, value: object, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.reply(status, json.dumps(value).encode(), headers)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve(respond: Respond) -> Iterator[Served]:
    """Start a server that answers every POST with `respond`."""
    served = Served("")
    handler = type("Bound", (Handler,), {"served": served, "respond": staticmethod(respond)})
    with Server(("127.0.0.1", 0), handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(
            target=lambda: server.serve_forever(poll_interval=0.02), daemon=True
        )
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()


def connect(
    name: str,
    *,
    template: Template = "chat",
    attempts: int = ATTEMPTS,
    **options,  # type: ignore[no-untyped-def]
) -> ServedModel:
    """Connect to a served model, with `ApiOptions` as keywords."""
    with patch.object(openai, "ATTEMPTS", attempts):
        return openai.ServedModel(name, ApiOptions(**options), template=template)


# A working server


def usage(prompt: str, answer: str) -> dict[str, object]:
    read, written = len(prompt.split()), len(answer.split())
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def chat_answer(text: str | None, prompt: str = "", **more: object) -> dict[str, object]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
        **more,
    }
    return {"object": "chat.completion", "choices": [choice], "usage": usage(prompt, text or "")}


def serving(
    model: LanguageModel, *, scores: bool = False, lock: threading.Lock | None = None
) -> Respond:
    """Serve `model` as chat/completions and completions; with `scores`, completions echo log-probabilities.

    Tokens are words with the preceding space. The score of a text is that of its last word after
    the others.
    """
    one_at_a_time = lock or threading.Lock()

    def respond(handler: Handler, body: dict) -> None:
        with one_at_a_time:
            if handler.path.endswith("/chat/completions"):
                text = body["messages"][0]["content"].removeprefix(f"{CHAT_INSTRUCTION}\n\n")
                [completion] = model.generate([text], body["max_tokens"], None)
                reply = chat_answer(completion.text, text)
            elif body.get("echo"):
                reply = echoed(model, body["prompt"]) if scores and model.score else generated(body)
            else:
                reply = generated(body)
        handler.reply_json(reply)

    def generated(body: dict) -> dict[str, object]:
        [completion] = model.generate([body["prompt"]], body["max_tokens"], None)
        choice = {"index": 0, "text": completion.text, "finish_reason": "stop", "logprobs": None}
        return {"choices": [choice], "usage": usage(body["prompt"], completion.text)}

    return respond


def echoed(model: LanguageModel, text: str) -> dict[str, object]:
    """Return a text with its log-probabilities and one more token, in the form of completions with echo."""
    tokens = ["<s>", *re.findall(r"\s*\S+", text)]
    prompt, last = text[: len(text) - len(tokens[-1])], tokens[-1]
    if prompt == openai.PROBE:
        lead = 3.0 if last == openai.OBVIOUS else -3.0
        logprob, following = -1.0 if lead > 0 else -4.0, "\n"
    else:
        [score] = model.score([Request(prompt, last)])  # type: ignore[misc]
        logprob, lead, following = score.logprob, score.logit_gap, score.following or ""
    best = [
        None,
        *({token: -0.5, "?": -1.0} for token in tokens[1:-1]),
        {last: logprob, "<other>": logprob - lead},
    ]
    logprobs = {
        "tokens": [*tokens, following],
        "token_logprobs": [None, *[-0.5] * (len(tokens) - 2), logprob, -0.1],
        "top_logprobs": [*best, {following: -0.1}],
    }
    return {
        "choices": [{"text": text + following, "logprobs": logprobs}],
        "usage": usage(text, following),
    }


# Failing servers


@contextmanager
def nobody() -> Iterator[Served]:
    """Yield an address where nothing listens."""
    with closed_port() as port:
        yield Served(f"http://127.0.0.1:{port}/v1")


@contextmanager
def deaf() -> Iterator[Served]:
    """Yield a socket with a full connection queue, so that connecting hangs."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        time.sleep(0.05)
        try:
            yield Served(f"http://127.0.0.1:{port}/v1")
        finally:
            for one in waiting:
                one.close()


def status(code: int, *, value: object = None, headers: dict[str, str] | None = None) -> Respond:
    value = value or {
        "error": {"message": f"no {code}", "type": "some_error", "code": None, "param": None}
    }
    return lambda handler, body: handler.reply_json(value, code, headers)


def content(raw: bytes, headers: dict[str, str] | None = None) -> Respond:
    return lambda handler, body: handler.reply(200, raw, headers)


def always(what: object) -> Respond:
    return lambda handler, body: handler.reply_json(what)


DRIPS = int(HANG / 0.05)  # bytes or headers, of which one comes in 50 ms


def silent(handler: Handler, body: dict) -> None:
    time.sleep(HANG)


def reset_before_headers(handler: Handler, body: dict) -> None:
    hang_up(handler)


def reset_in_body(handler: Handler, body: dict) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    hang_up(handler)


def hang_up(handler: Handler) -> None:
    """Close the connection with a reset."""
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.close_connection = True
    handler.connection.close()


def drip(handler: Handler, body: dict) -> None:
    """Send a valid answer one byte at a time, too long to wait for."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    for _ in range(DRIPS):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


def drip_headers(handler: Handler, body: dict) -> None:
    for i in range(DRIPS):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" if i == 0 else b"X-More: 1\r\n")
        handler.wfile.flush()
        time.sleep(0.05)


def huge(handler: Handler, body: dict) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(20 << 20))
    handler.end_headers()
    for _ in range(20):
        handler.wfile.write(b" " * (1 << 20))


def tattling(code: int) -> Respond:
    """Repeat the received key in an error or in an answer."""

    def respond(handler: Handler, body: dict) -> None:
        key = handler.headers["Authorization"]
        if code == 200:
            handler.reply_json(chat_answer(f"{ANSWER} {key}"))
        else:
            handler.reply_json({"error": {"message": f"a bad key: {key}"}}, code)

    return respond


def with_usage(**counts: object) -> Respond:
    """Answer with token counts that cannot be right."""
    return always({**chat_answer(ANSWER), "usage": counts})


def refusing(**fields: object) -> Respond:
    """Refuse every request, with these fields in the error."""
    return status(400, value={"error": {"message": "no", "code": "unsupported", **fields}})


def twice(handler: Handler, body: dict) -> None:
    """Send two answers to one request in one packet, the second of them wrong."""
    right, wrong = (json.dumps(chat_answer(text)).encode() for text in (ANSWER, "Rome"))
    answers = [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(one), one)
        for one in (right, wrong)
    ]
    handler.wfile.write(b"".join(answers))


BOMB = gzip.compress(b" " * (17 << 20))
QUOTA = {
    "error": {
        "message": "You have no money.",
        "type": "insufficient_quota",
        "code": "insufficient_quota",
    }
}

# What servers send with status 200 where they have failed; each says why, or how the answer ended.
THOUGHTS = "The user asks for a capital."
FAILURES_WITH_200: dict[str, object] = {
    "finish error": chat_answer("", finish_reason="error"),
    "finish error after half a word": chat_answer("Par", finish_reason="error"),
    "finish abort": chat_answer(ANSWER, finish_reason="abort"),
    "finish of an overload": chat_answer(ANSWER, finish_reason="insufficient_system_resource"),
    "error beside a choice": {**chat_answer("Par"), "error": {"message": "the server broke"}},
    "text of an error beside a choice": {**chat_answer(ANSWER), "error": "the server broke"},
    "error in a choice": chat_answer("Par", error={"code": 502, "message": "the server broke"}),
    "code and message": {"code": 503, "message": "the server broke"},
    "detail": {"detail": "the server broke"},
    "list of details": {"detail": [{"loc": ["body"], "msg": "the server broke"}]},
    "text of an error": {"error": "the server broke"},
    "list of errors": {"success": False, "errors": [{"message": "the server broke"}]},
    "list of an error": [{"error": {"code": 400, "message": "the server broke"}}],
    "a text alone": "the server broke",
    "capital letters": {"__type": "ThrottlingException", "Message": "the server broke"},
    "capital error": {"Error": {"Code": "x", "Message": "the server broke"}},
    "fault": {"fault": {"faultstring": "the server broke", "detail": {"errorcode": "q"}}},
    "code beside null": {
        "choices": None,
        "base_resp": {"status_code": 1004, "status_msg": "the server broke"},
    },
    "code beside a choice": {
        **chat_answer(""),
        "base_resp": {"status_code": 1004, "status_msg": "the server broke"},
    },
    "header": {"header": {"code": 10013, "message": "the server broke", "status": 2}},
    "status code and body": {"statusCode": 503, "body": "the server broke"},
    "state beside a choice": {
        **chat_answer("Par"),
        "status": "error",
        "message": "the server broke",
    },
    "code and msg beside a choice": {
        **chat_answer("Par"),
        "code": "500",
        "msg": "the server broke",
    },
    "no success beside a choice": {
        **chat_answer("Par"),
        "success": False,
        "message": "the server broke",
    },
    "errors by field": {"errors": {"model": ["the server broke"]}},
    "error in a message": chat_answer(
        "", message={"content": "Par", "error": {"message": "the server broke"}}
    ),
    "error in data": {"data": {"error": "the server broke"}},
    "finish of a loaded model": chat_answer("", finish_reason="load"),
    "finish of an overloaded server": chat_answer("Par", finish_reason="overloaded"),
    "finish of a server that shuts down": chat_answer("Par", finish_reason="server_shutdown"),
    "finish in capitals": chat_answer("Par", finish_reason="MALFORMED_FUNCTION_CALL"),
    "nothing, and a finish that nobody knows": chat_answer("", finish_reason="whatever"),
    "message beside no choices": {"choices": [], "message": "the server broke"},
    "calls of tools": chat_answer("", finish_reason="tool_calls"),
}
# Answers with fields that look like failures.
SUCCESSES_WITH_200: dict[str, object] = {
    "code 0": {**chat_answer(ANSWER), "code": 0, "message": "success"},
    "code of its own": {**chat_answer(ANSWER), "code": 10000, "msg": "Success"},
    "code 200": {**chat_answer(ANSWER), "code": "200"},
    "base_resp": {**chat_answer(ANSWER), "base_resp": {"status_code": 0, "status_msg": ""}},
    "status": {**chat_answer(ANSWER), "status": "completed", "success": True},
    "empty error": {**chat_answer(ANSWER), "error": {"code": 0, "message": ""}},
    "filter that failed": chat_answer(
        ANSWER, content_filter_results={"error": {"code": "content_filter_error", "message": "x"}}
    ),
    **{
        f"finish {finish}": chat_answer(ANSWER, finish_reason=finish)
        for finish in (
            None,
            "STOP",
            "eos_token",
            "stop_sequence",
            "end_turn",
            "COMPLETE",
            "whatever",
        )
    },
}
ONLY_THOUGHTS: dict[str, object] = {
    "reasoning": chat_answer("", message={"content": "", "reasoning": THOUGHTS}),
    "reasoning_content": chat_answer("", message={"content": "", "reasoning_content": THOUGHTS}),
    "null beside them": chat_answer("", message={"content": None, "reasoning_content": THOUGHTS}),
    "parts": chat_answer(
        "", message={"content": [{"type": "thinking", "thinking": [{"text": THOUGHTS}]}]}
    ),
    "cut": chat_answer(f"<think>\n{THOUGHTS}", finish_reason="length"),
    "cut, without a reason": chat_answer(f"<reasoning>{THOUGHTS}", finish_reason=None),
    "nothing behind them": chat_answer(f"<think>{THOUGHTS}</think>\n"),
}

# Faults that always occur: those that are final at once, and those worth another attempt.
FINAL: dict[str, Respond] = {
    "400": status(400),
    "401": status(401),
    "402": status(402),
    "403": status(403),
    "404": status(404),
    "413": status(413),
    "422": status(422),
    "400 in a list": status(
        400, value=[{"error": {"code": 400, "message": "no such model", "status": "INVALID"}}]
    ),
    "quota": status(429, value=QUOTA),
    "redirect": status(307, headers={"Location": "http://127.0.0.2:1/v1/chat/completions"}),
    "wrong types": always({"choices": "none", "usage": 3}),
    "wrong choice": always({"choices": [7]}),
    "wrong content": always({"choices": [{"message": {"content": 7}, "finish_reason": "stop"}]}),
    "no object": always([1, 2]),
    "no choices": always({"choices": []}),
    "null content": always(chat_answer(None)),
    "thought only": always(chat_answer("", finish_reason="length")),
    "error with 200": always({"error": {"message": "upstream is down", "code": 502}}),
    **{f"{kind} with 200": always(what) for kind, what in FAILURES_WITH_200.items()},
    "drip": drip,
    "dripping headers": drip_headers,
    "huge": huge,
    "more than 16 MB in gzip": content(BOMB, {"Content-Encoding": "gzip"}),
    "gzip in gzip": content(gzip.compress(BOMB), {"Content-Encoding": "gzip, gzip"}),
    "brotli": content(b"\x0b\x02\x80{}\x03", {"Content-Encoding": "br"}),
    "negative count": with_usage(prompt_tokens=-5),
    "endless count": with_usage(prompt_tokens=10**400),
    "count of 5,000 digits": content(
        json.dumps({**chat_answer(ANSWER), "usage": {"prompt_tokens": "@"}})
        .replace('"@"', "9" * 5_000)
        .encode()
    ),
    "infinite count": with_usage(completion_tokens=float("inf")),
    "count of true": with_usage(completion_tokens=True),
    "parameter is an object": refusing(param={"a": 1}),
    "parameter is a list": refusing(param=["temperature"], message=[1]),
    **{f"only thoughts, {kind}": always(what) for kind, what in ONLY_THOUGHTS.items()},
    "tattling 400": tattling(400),
    "tattling 401": tattling(401),
}
AGAIN: dict[str, Respond] = {
    "silent": silent,
    "reset before headers": reset_before_headers,
    "reset in body": reset_in_body,
    "408": status(408),
    "429": status(429),
    "429 with Retry-After": status(429, headers={"Retry-After": "0.01"}),
    "500": status(500),
    "502": status(502),
    "503": status(503),
    "503 with Retry-After": status(503, headers={"Retry-After": "0.01"}),
    "504": status(504),
    "529": status(529),
    "empty": content(b""),
    "truncated": content(b'{"choices": [{"message": {"content": "Par'),
    "html": content(b"<html><body>Bad gateway</body></html>", {"Content-Type": "text/html"}),
    "bad UTF-8": content(b'{"choices": [{"message": {"content": "Par\xff\xfe"}}]}'),
    "not gzip": content(b"{}", {"Content-Encoding": "gzip"}),
    "deep": content(b"[" * 200_000),
    "tattling 500": tattling(500),
}
