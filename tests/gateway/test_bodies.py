"""Bodies: read within bounds of time and memory, unpacked within bounds, and changed in single texts only."""

from __future__ import annotations

import gzip
import json
import random
import sys
import time
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

from drike.conversations.turns import Api, Conversation, JsonPath, UnreadError
from drike.gateway.bodies import MAX_UNPACKED, MAX_VALUES, decoded, read_object
from drike.gateway.requests import EditableRequest, read_request
from drike.gateway.splicing import text_spans
from tests.fakes.tally import Tally
from tests.gateway.long_series import made_up

MB = 1 << 20


def hostile(kind: str, size: int) -> bytes:
    """A chat of about this size in bytes, made to be expensive to read."""
    repeated = {
        "lists": b"[],", "objects": b"{},", "numbers": b"1,", "texts": b'"",', "members": b'{"a":{}},',
        "pairs": b"[[]],",
    }  # fmt: skip
    if kind in repeated:
        values = repeated[kind] * (size // len(repeated[kind]))
        return b'{"messages": [' + values + b'{"role": "user", "content": "Peru"}]}'
    if kind == "keys":
        return b"{%s}" % b",".join(b'"%07x":0' % i for i in range(size // 12))
    if (
        kind == "half a text"
    ):  # of which the marks are outside if it is read from its second quotation mark
        return b'{"a": "' + b"[]," * (size // 3)
    quoted = {
        "escapes": b"\\n",
        "quotes": b'\\"',
        "backslashes": b"\\\\",
        "commas": b"[,{",
        "code": b"\\u00e9",
    }[kind]
    return b'{"messages": [{"role": "user", "content": "' + quoted * (size // len(quoted)) + b'"}]}'


STRUCTURES = ("lists", "objects", "numbers", "texts", "members", "pairs", "keys")
TEXTS = ("escapes", "quotes", "backslashes", "commas", "code")


def cost(body: bytes) -> tuple[float, float, object]:
    """CPU seconds and memory, in bodies, of reading a body, and the result."""
    tracemalloc.start()
    began = time.thread_time()
    result: object
    try:
        result = read_request(Api.CHAT, body)
    except UnreadError as problem:
        result = problem.reason
    seconds = time.thread_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, peak / len(body), result


@pytest.mark.parametrize("kind", STRUCTURES)
def test_a_body_of_many_values_is_not_read_and_takes_neither_time_nor_memory(kind: str) -> None:
    seconds, memory, result = cost(hostile(kind, 2 * MB))
    assert result == "size" and memory <= 4 and seconds < 0.3


@pytest.mark.parametrize("kind", TEXTS)
def test_a_long_text_is_read_whatever_it_holds(kind: str) -> None:
    seconds, memory, request = cost(hostile(kind, MB))
    assert request and memory <= 4 and seconds < 0.3


@pytest.mark.parametrize(
    "text", ["word " * 200_000 + "😀", "é" * 500_000, "京" * 300_000], ids=["😀", "é", "京"]
)
def test_a_long_text_takes_as_much_memory_as_python_needs_for_it_twice(text: str) -> None:
    body = json.dumps(
        {"messages": [{"role": "user", "content": text}]}, ensure_ascii=False
    ).encode()
    size = max(2, sys.getsizeof(text) / len(body))
    tracemalloc.start()
    values = read_object(body).values
    _, reading = tracemalloc.get_traced_memory()
    request, path = (
        EditableRequest(body, body, values, Conversation(Api.CHAT, ())),
        ("messages", 0, "content"),
    )
    tracemalloc.reset_peak()
    kept, new = tracemalloc.get_traced_memory()[0], {path: f"facts\n{text}"}
    assert json.loads(request.with_texts(new))["messages"][0]["content"] == new[path]
    assert reading <= 2.1 * size * len(body)
    tracemalloc.reset_peak()
    request.with_texts(new)
    changing = tracemalloc.get_traced_memory()[1] - kept - sys.getsizeof(new[path])
    tracemalloc.stop()
    assert changing <= 4 * len(body)


@pytest.mark.reliability
@pytest.mark.parametrize("kind", [*STRUCTURES, *TEXTS, "half a text"])
def test_no_body_of_ten_megabytes_costs_more_than_its_size(kind: str, tally: Tally) -> None:
    tally("bodies of 10 MB made to be slow, and bombs", 1)
    seconds, memory, result = cost(hostile(kind, 9_900_000))
    print(
        f"{kind}: {1000 * seconds:.0f} ms, {memory:.1f} times the body, {result if isinstance(result, str) else 'read'}"
    )
    assert memory <= 4 and seconds < 1


def test_values_are_counted_as_json_has_them() -> None:
    for text in (b'"[,{" , "a\\\\" , "\\"[[,,"', b"0"):
        values = b",".join([text] * (MAX_VALUES // 4))
        assert read_object(b'{"a":[' + values + b"]}")
    with pytest.raises(UnreadError):
        read_object(b'{"a":["\\\\",' + b"0," * MAX_VALUES + b"0]}")
    with pytest.raises(UnreadError):  # a unit of UTF-16 is no quotation mark
        read_object(('{"a":"\u4122",' + '"b":[' + "0," * MAX_VALUES + "0]}").encode("utf-16"))


def texts_of(value: object, path: JsonPath = ()) -> Iterator[tuple[JsonPath, str]]:
    if isinstance(value, str):
        yield path, value
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield from texts_of(inner, (*path, key))


def check_splices(number: int, seed: int) -> int:
    """Change a text of each made-up body; count the texts. All other bytes must stay, and nothing else must change."""
    rng, texts = random.Random(seed), 0
    for _ in range(number):
        value = {
            rng.choice(["a", 'é\\"', ",", "\ud800", ""]): made_up(rng)
            for _ in range(rng.randrange(4))
        }
        if not (found := dict(texts_of(value))):
            continue
        indent, ascii_only = rng.choice([None, 0, "\t"]), rng.random() < 0.5
        body = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode(
            "utf-8", "surrogatepass"
        )
        body = body.replace(b"/", b"\\/").replace(b"NaN", b"1e999").replace(b"Infinity", b"-0.0E+1")
        spans = text_spans(body, found)
        assert {path: json.loads(body[start:end]) for path, (start, end) in spans.items()} == found
        path = rng.choice(list(found))
        new = rng.choice(["new", 'facts "\n' + found[path], "\ud800", ""])
        changed = EditableRequest(body, body, value, Conversation(Api.CHAT, ())).with_texts(
            {path: new}
        )
        start, end = spans[path]
        assert changed.startswith(body[:start]) and changed.endswith(body[end:])
        assert dict(texts_of(json.loads(changed))) == {**found, path: new}
        texts += len(found)
    return texts


def test_a_changed_text_changes_no_other_byte() -> None:
    assert check_splices(300, 0) > 300


@pytest.mark.reliability
def test_a_hundred_thousand_changed_texts_change_no_other_byte(tally: Tally) -> None:
    tally("made-up bodies with changed texts", 100_000)
    print("texts:", check_splices(100_000, 1))


ODD = (
    b'\t{ "x":1e999,"y":-0.10E+5, "big":123456789012345678901234567890, "a":1,"a":[{}, "\\/\\ud800"], "n":null,\r\n'
    b'"messages":"no", "messages" :[ {"content":"earlier","role":"assistant"} ,{"role":"user",'
    b'"c\\u006fntent":"old", '
    b'"content":[{"type":"text", "text" : "What\\/\\u0020of \xc3\xa9\\ud83d\\ude00?"}]}] , "z":"\\/"}\n'
)


def test_all_bytes_but_those_of_the_text_stay() -> None:
    request = read_request(Api.CHAT, ODD)
    assert request and request.conversation.said == "What/ of é😀?"
    [(first, text)] = request.conversation.turns[-1].texts
    changed = request.with_texts({first: 'é "new"\n' + text})
    assert changed == ODD.replace(b'"What', b'"\\u00e9 \\"new\\"\\nWhat')
    changed = request.with_texts({first: "all\ud800", ("messages", 0, "content"): "too"})
    assert json.loads(changed)["messages"][1]["content"][0]["text"] == "all\ud800"
    assert changed.startswith(ODD[: ODD.index(b"earlier")] + b"too") and changed.endswith(
        ODD[ODD.index(b'"}]}] , "z"') :]
    )


BODY = json.dumps({"prompt": "Peru " * 50}).encode()


def packed(body: bytes) -> bytes:
    """The same bytes at any time, as names of tests are made from them."""
    return gzip.compress(body, mtime=0)


def raw(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", packed(BODY)), (b" X-GZIP", packed(BODY[:9]) + packed(BODY[9:])),
        (b"deflate", zlib.compress(BODY)), (b"deflate", raw(BODY)), (b"identity", BODY), (b"", BODY),
    ],
)  # fmt: skip
def test_compressed_bodies_are_read(encoding: bytes, body: bytes) -> None:
    assert decoded(body, encoding.decode("latin-1")) == BODY


DAMAGED = [
    (b"gzip", packed(BODY)[:-4]), (b"gzip", packed(BODY) + b"x"), (b"gzip", BODY), (b"gzip", b""),
    (b"deflate", zlib.compress(BODY)[:-1]), (b"deflate", zlib.compress(BODY) * 2), (b"br", BODY),
    (b"gzip,gzip", packed(packed(BODY))), (b"gzip", packed(b"") * 10_000), (b"\xff", BODY),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "body"), DAMAGED)
def test_what_does_not_unpack_is_not_read(encoding: bytes, body: bytes) -> None:
    with pytest.raises(UnreadError, match="gzip or deflate") as problem:
        decoded(body, encoding.decode("latin-1"))
    assert problem.value.reason == "encoding"


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
def test_a_body_that_unpacks_to_too_much_is_given_up_on_the_way(encoding: bytes) -> None:
    packer, zeros = zlib.compressobj(1, wbits=31 if encoding == b"gzip" else 15), bytes(40 * MB)
    bomb = packer.compress(zeros) + packer.flush()
    tracemalloc.start()
    with pytest.raises(UnreadError, match="10 MB when it is unpacked"):
        decoded(bomb, encoding.decode("latin-1"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * MAX_UNPACKED and len(bomb) < MB
