"""A download from a failing server, or of a strange address, ends in one sentence, in time, and leaves no file."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from drike.errors import DataError
from drike.research.datasets import fetch, load
from tests.datasets.test_datasets import row
from tests.fakes.waiting import HANG

CONTENT = json.dumps([row(3)]).encode()
Reply = bytes | Callable[[socket.socket], None]


def reply(*headers: str, status: str = "200 OK", body: bytes = CONTENT) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "", ""]).encode("latin-1") + body


def redirect(address: str) -> bytes:
    return reply(f"Location: {address}", "Content-Length: 0", status="302 Found", body=b"")


def drip(start: bytes) -> Callable[[socket.socket], None]:
    """Send a byte now and then, always sooner than a socket's timeout."""

    def respond(connection: socket.socket) -> None:
        connection.sendall(start)
        for _ in range(int(HANG / 0.05)):
            connection.sendall(b"a")
            time.sleep(0.05)

    return respond


REPLIES: dict[str, Reply] = {
    "nothing": b"",
    "no HTTP": b"220 mail.example.org ESMTP\r\n",
    "binary": bytes(range(256)) * 9,
    "endless status": b"HTTP/1.1 200 " + b"a" * 200_000,
    "500 headers": reply(*(f"X-{i}: 1" for i in range(500))),
    "401": reply(status="401 Unauthorized"),
    "404": reply(status="404 Not Found"),
    "404 with escapes": reply(status="404 \x1b[31m\x9b1mNot \x07Found" + "!" * 9_000),
    "500": reply(status="500 Internal Server Error"),
    "length: a word": reply("Content-Length: many"),
    "length: empty": reply("Content-Length: "),
    "length: negative": reply("Content-Length: -5"),
    "length: a float": reply("Content-Length: 1e3"),
    "length: 5,000 digits": reply("Content-Length: " + "9" * 5_000),
    "length: 4,000 digits": reply("Content-Length: " + "9" * 4_000),
    "length: too large": reply(f"Content-Length: {len(CONTENT) + 9}"),
    "chunk of no number": reply("Transfer-Encoding: chunked", body=b"many\r\n" + CONTENT),
    "chunk of negative size": reply("Transfer-Encoding: chunked", body=b"-5\r\n" + CONTENT),
    "chunk cut off": reply("Transfer-Encoding: chunked", body=b"ffff\r\n" + CONTENT),
    "location missing": reply("Content-Length: 0", status="302 Found", body=b""),
    "location empty": redirect(""),
    "location: half a host": redirect("http://["),
    "location: a port of letters": redirect("http://127.0.0.1:port/"),
    "location: a port too large": redirect("http://127.0.0.1:99999/"),
    "location: a file": redirect("file:///etc/passwd"),
    "location: another scheme": redirect("gopher://127.0.0.1/"),
    "location: no host": redirect("http:///rows.json"),
    "location: two dots": redirect("http://a..b/"),
    "location: not ASCII": redirect("http://\xe9\xff/\xe9 \xa0"),
    "location: control characters": redirect("http://127.0.0.1/\x1b[31m\x00"),
    "location: itself": redirect("/rows.json"),
    "dripping status": drip(b"HTTP/1.1 200 "),
    "dripping headers": drip(b"HTTP/1.1 200 OK\r\nX-More: "),
    "dripping body": drip(reply("Content-Length: 100000", body=b"")),
    "dripping body without a length": drip(reply(body=b"")),
    "silence": lambda connection: time.sleep(HANG),
}
ADDRESSES = [
    "http://", "http://[", "http://[::1/x", "http://127.0.0.1:port/x", "http://127.0.0.1:-1/x", "http://127.0.0.1:99999/x",
    "http://127.0.0.1:9/a\r\nX: y", "http://127.0.0.1:9/a\nb", "http://127.0.0.1\r\n:9/a", "http://127.0.0.1:9/\x00",
    "http://127.0.0.1:9/\x1b[31m", "http://127.0.0.1:9/\u2028", "http://127.0.0.1:9/\udc80", "http://127.0.0.1:9/a b",
    "http://127.0.0.1:9/é", "http://é..ü/", "http://user:key@127.0.0.1:9/", "http://127.0.0.1:9/" + "a" * 300,
    "HTTP://127.0.0.1:9/%00", "http://a" + ".a" * 200 + "/",
]  # fmt: skip


@contextmanager
def serving(answer: Reply) -> Iterator[str]:
    """Answer every connection in the same way; yield the address of a file."""

    def respond(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65_536)
            if callable(answer):
                answer(connection)
            else:
                connection.sendall(answer)

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=respond, args=[listening.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, args=[listening], daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/rows.json"
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    module = sys.modules[fetch.__module__]
    monkeypatch.setattr(module, "TIMEOUT", 0.4)
    monkeypatch.setattr(module, "DEADLINE", 0.6, raising=False)
    return tmp_path / "drike" / "datasets"


def refused(address: str, cache: Path) -> str:
    began = time.monotonic()
    with pytest.raises(DataError) as caught:
        load(address)
    assert time.monotonic() - began < HANG / 2, "what drips or is silent goes on for HANG"
    assert not cache.exists() or not list(cache.iterdir())
    sentence = str(caught.value)
    assert sentence.isprintable() and len(sentence) < 600
    return sentence


@pytest.mark.parametrize("kind", REPLIES)
@pytest.mark.sampled(4)
def test_a_failing_server_leads_to_one_sentence_and_no_file(kind: str, cache: Path) -> None:
    with serving(REPLIES[kind]) as address:
        assert refused(address, cache).startswith(f"{address} could not be downloaded (")


@pytest.mark.parametrize("address", ADDRESSES, ids=range(len(ADDRESSES)))
def test_a_strange_address_leads_to_one_sentence_and_no_file(address: str, cache: Path) -> None:
    assert (
        "address" in (sentence := refused(address, cache))
        or "could not be downloaded (" in sentence
    )


def test_a_failing_server_leaves_the_copy_that_was_there(cache: Path) -> None:
    with serving(reply(f"Content-Length: {len(CONTENT)}")) as address:
        path = fetch(address)
        assert path.read_bytes() == CONTENT
        path.with_name(f"{path.name}.sha256").write_bytes(b"\xff\xfe damaged")
        assert fetch(address) == path
    path.with_name(f"{path.name}.sha256").unlink()
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(address)
    assert path.read_bytes() == CONTENT


def check_damaged_replies(number: int) -> Counter[str]:
    """Change some bytes of a reply, cut it off, or put two together: a file is read or refused in one sentence."""
    rng, counts = random.Random(0), Counter[str]()
    whole = [one for one in REPLIES.values() if isinstance(one, bytes) and one] + [reply()] * 9
    for _ in range(number):
        content = bytearray(rng.choice(whole)[:20_000])
        for _ in range(rng.choice([0, 1, 1, 3, 9])):
            content[rng.randrange(len(content))] = rng.choice(b"\x00\n\r :;-0159azHTP/\xff")
        content += rng.choice([b"", b"", rng.choice(whole)])
        with serving(
            bytes(content[: rng.choice([len(content), rng.randrange(len(content))])])
        ) as address:
            try:
                load(address)
            except DataError as problem:
                assert str(problem).isprintable() and len(str(problem)) < 600
                counts["refused"] += 1
            else:
                counts["read"] += 1
    return counts


def test_any_reply_is_read_or_refused_in_one_sentence() -> None:
    assert check_damaged_replies(40).keys() == {"read", "refused"}


@pytest.mark.reliability
def test_three_thousand_replies_are_read_or_refused_in_one_sentence() -> None:
    print("replies:", dict(check_damaged_replies(3_000)))
