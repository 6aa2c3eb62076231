"""Servers that fail in every known way give a correct result or one typed error, in time, and never leak the key."""

from __future__ import annotations

import gc
import gzip
import io
import json
import logging
import signal
import subprocess
import sys
import threading
import time
import traceback
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from drike.encoders import HashingEncoder
from drike.errors import ModelError, RefusedError, ServerError
from drike.gates.by_name import Named
from drike.models.served import KEY
from drike.models.served.cache import AnswerCache, CachedModel
from drike.models.served.openai import ServedModel
from drike.models.served.pauses import pause_asked_for
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.training.algorithm1 import rewrite_reward, train
from tests.fakes.capitals import CAPITALS, follows_the_fact
from tests.fakes.models import ScriptedModel, kept_answers
from tests.fakes.servers import (
    AGAIN,
    ANSWER,
    CANARY,
    FINAL,
    Handler,
    Respond,
    Served,
    chat_answer,
    connect,
    deaf,
    nobody,
    serve,
    serving,
    silent,
    twice,
)
from tests.fakes.waiting import HANG

POOL = Pool(CAPITALS[10:], HashingEncoder())
CASES = CAPITALS[:2]
DEADLINE = 1.2
ATTEMPTS = 2
REFUSALS = {kind for kind in FINAL if kind[:3].isdigit()}
REFUSALS |= {
    "quota",
    "redirect",
    "huge",
    "tattling 400",
    "tattling 401",
    "more than 16 MB in gzip",
    "gzip in gzip",
}
REFUSALS |= {"brotli", "parameter is an object", "parameter is a list"}
EVERY = [*FINAL, *AGAIN]
SOME = [
    kind if i % 3 == 0 else pytest.param(kind, marks=pytest.mark.slow)
    for i, kind in enumerate(EVERY)
]


def training(model) -> Iterator[object]:  # type: ignore[no-untyped-def]
    retriever = Retriever(HashingEncoder(), seed=0)
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Threshold()))
    yield from train(editor, rewrite_reward(model), CASES, epochs=1, learning_rate=1e-3)


def evaluating(model) -> Iterator[object]:  # type: ignore[no-untyped-def]
    yield from evaluate(
        InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0))), model, CASES
    )


def editing(model) -> Iterator[object]:  # type: ignore[no-untyped-def]
    edited = EditedModel(model, FactPrompt(), CASES[0].edit, gate=Named())
    yield edited.ask(CASES[0].edit.query)


USES = (training, evaluating, editing)


def ending(use: Callable, served: Served, deadline: float) -> tuple[ModelError, float, int]:  # type: ignore[type-arg]
    """Return the error that ends a use, the seconds until then, and the results before it."""
    yielded = 0
    began = time.monotonic()
    model = connect(served.named(), deadline=deadline, attempts=ATTEMPTS, concurrency=4)
    with closing(model):
        try:
            for _ in use(model):
                yielded += 1
        except ModelError as error:
            return error, time.monotonic() - began, yielded
    raise AssertionError("an answer was taken from a server that gives none")


def check_fault(kind: str, open_server: Callable[[], AbstractContextManager[Served]]) -> None:
    """Run each use against its own server, all at the same time."""
    deadline = DEADLINE * (
        10 if kind in REFUSALS else 1
    )  # what is refused is refused before, on a busy machine too
    before = threading.active_count()

    def one(use: Callable) -> None:  # type: ignore[type-arg]
        with open_server() as served:
            error, seconds, yielded = ending(use, served, deadline)
            assert type(error) is (RefusedError if kind in REFUSALS else ServerError), (kind, error)
            sentence = str(error)
            assert "\n" not in sentence and ": " in sentence and len(sentence) < 400
            assert yielded == 0, "a failure yields no results"
            assert seconds < HANG / 2, "servers that drip or stay silent do so for as long as HANG"
            at_once = (
                1 if use is editing else 12
            )  # a case has few probes, and the longest prompt is sent alone
            assert served.requests <= at_once * (1 if kind in FINAL else ATTEMPTS)
            assert threading.active_count() < before + 80
            assert CANARY not in sentence

    with ThreadPoolExecutor(len(USES)) as pool:
        for done in [pool.submit(one, use) for use in USES]:
            done.result()


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.sampled(5)
def test_every_server_fault_becomes_one_typed_error_in_time(kind: str) -> None:
    check_fault(kind, lambda: serve({**FINAL, **AGAIN}[kind]))


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.sampled(4)
def test_a_fault_while_probing_never_enables_scores(kind: str) -> None:
    """Either opening fails, or the model has no scores and its first call names the fault."""
    with serve({**FINAL, **AGAIN}[kind]) as served, pytest.raises((ServerError, RefusedError)):
        model = connect(served.named("sglang"), template="plain", deadline=0.5, attempts=1)
        with closing(model):
            assert model.score is None
            model.generate(["a"])


@pytest.mark.parametrize("absent", [nobody, deaf])
def test_an_unreachable_server_becomes_one_typed_error_in_time(absent: Callable) -> None:  # type: ignore[type-arg]
    check_fault(absent.__name__, absent)


@pytest.mark.parametrize("kind", [kind for kind in AGAIN if kind != "silent"])
@pytest.mark.sampled(4)
def test_a_temporary_fault_does_not_change_the_outcomes(kind: str) -> None:
    """Every first attempt fails, yet the outcomes are those of a server that never fails."""
    direct = ScriptedModel(follows_the_fact, scores=False)
    good, seen, lock = (
        serving(ScriptedModel(follows_the_fact, scores=False)),
        set(),
        threading.Lock(),
    )

    def flaky(handler: Handler, body: dict) -> None:
        with lock:
            first = str(body) not in seen
            seen.add(str(body))
        (AGAIN[kind] if first else good)(handler, body)

    with serve(flaky) as served:
        model = connect(served.named(), deadline=20.0, attempts=3)
        with closing(model):
            got = [(o.query, o.answer, o.correct) for o in evaluate(FactPrompt(), model, CASES)]
    assert got == [(o.query, o.answer, o.correct) for o in evaluate(FactPrompt(), direct, CASES)]


@pytest.mark.parametrize("kind", SOME)
@pytest.mark.sampled(4)
def test_answers_received_before_a_fault_are_kept(kind: str, tmp_path: Path) -> None:
    """Paid answers survive any later fault and are not paid for again."""
    good = serving(ScriptedModel(follows_the_fact, scores=False))
    works = [True]
    prompts = [f"Land{i}" for i in range(6)]

    def failing_later(handler: Handler, body: dict) -> None:
        bad = not works[0] and "Land5" in str(body)
        ({**FINAL, **AGAIN}[kind] if bad else good)(handler, body)

    with serve(failing_later) as served:
        works[0] = False
        model = connect(served.named(), deadline=1.5, attempts=1, concurrency=1)
        kept = CachedModel(model, "m", AnswerCache(tmp_path / "a.sqlite"))
        with closing(model), pytest.raises(ModelError):
            kept.generate(prompts)
        works[0] = True
        before = served.requests
        again = connect(served.named(), deadline=10.0)
        with closing(again):
            answers = CachedModel(again, "m", AnswerCache(tmp_path / "a.sqlite")).generate(prompts)
        assert served.requests == before + 1
        assert len(answers) == 6


def limiting(times: list[float], pauses: Mapping[str, str], status: int = 429) -> Respond:
    """Refuse the first request with these headers; note when each came."""

    def respond(handler: Handler, body: dict) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            return handler.reply_json({"error": {"message": "slow down"}}, status, dict(pauses))
        return serving(ScriptedModel(lambda prompt: "x", scores=False))(handler, body)

    return respond


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("is_told", [False, True])
def test_a_pause_that_a_server_asks_for_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, is_told: bool, status: int
) -> None:
    told: list[str] = []
    monkeypatch.setattr("drike.support.progress.tell", told.append)
    if is_told:
        monkeypatch.setattr("drike.models.served.client.UNTOLD", 0.1)
    times: list[float] = []
    respond = limiting(times, {"Retry-After": "0.4"}, status)
    with serve(respond) as served, closing(connect(served.named(), deadline=HANG)) as model:
        assert model.generate(["a"])[0].text.strip() == "x"
    assert times[1] - times[0] >= 0.4 and len(times) == 2
    sentence = f"asks to wait 1 second ({status}: slow down): waiting"
    assert [line.partition(" ")[2] for line in told] == [sentence] * is_told


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "value", "words"),
    [
        ("Retry-After", "60", "60 seconds "),
        ("Retry-After", "90.5", "91 seconds "),
        ("Retry-After", "3720", r"3,720 seconds \(about 62 minutes\) "),
        ("Retry-After", "86400", r"86,400 seconds \(about 24 hours\) "),
        ("Retry-After", "9" * 400, "1,000,000,000 seconds"),
        ("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT", "1,000,000,000 seconds"),
        ("Retry-After-Ms", "60000", "60 seconds "),
    ],
)
def test_a_pause_longer_than_the_deadline_ends_the_run_with_its_time(
    header: str, value: str, words: str, status: int
) -> None:
    times: list[float] = []
    with (
        serve(limiting(times, {header: value}, status)) as served,
        closing(connect(served.named(), deadline=50.0)) as model,
        pytest.raises(ServerError, match=rf"asks to wait {words}.*slow down.*`deadline` \(50 sec"),
    ):
        model.generate(["a"])
    assert len(times) == 1


def test_the_last_failure_says_for_how_long_to_wait() -> None:
    with (
        serve(limiting([], {"Retry-After": "30"})) as served,
        closing(connect(served.named(), deadline=50.0, attempts=1)) as model,
        pytest.raises(ServerError, match=r"429: slow down; it asks to wait 30 seconds"),
    ):
        model.generate(["a"])


@pytest.mark.parametrize(
    "value", ["", "soon", "-5", "0", "nan", "-inf", "Thu, 01 Jan 1970 00:00:00 GMT"]
)
def test_what_is_no_pause_is_none(value: str) -> None:
    assert pause_asked_for({"retry-after": value}) is None


def test_a_pause_ends_when_another_request_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drike.models.served.client.UNTOLD", 0.1)
    paused = threading.Event()

    def respond(handler: Handler, body: dict) -> None:
        if "pause" in str(body):
            paused.set()
            return handler.reply_json({}, 429, {"Retry-After": f"{HANG}"})
        paused.wait(HANG)
        return handler.reply_json({"error": {"message": "no"}}, 400)

    began = time.monotonic()
    with (
        serve(respond) as served,
        closing(connect(served.named(), deadline=10 * HANG)) as model,
        pytest.raises(RefusedError, match="no"),
    ):
        model.generate(["pause", "fail"])
    assert time.monotonic() - began < HANG / 2


@pytest.mark.parametrize("kind", ["null content", "500"])
def test_answers_in_flight_when_another_request_fails_are_kept(kind: str, tmp_path: Path) -> None:
    good = serving(ScriptedModel(follows_the_fact, scores=False))

    def respond(handler: Handler, body: dict) -> None:
        if "Land0" in str(body):
            return {**FINAL, **AGAIN}[kind](handler, body)
        time.sleep(0.5)  # sent before the failure, answered after it
        return good(handler, body)

    with serve(respond) as served:
        store = AnswerCache(tmp_path / "a.sqlite")
        with (
            closing(connect(served.named(), deadline=10.0, attempts=1, concurrency=4)) as model,
            pytest.raises(ServerError),
        ):
            CachedModel(model, "m", store).generate([f"Land{i}" for i in range(8)])
        assert kept_answers(tmp_path / "a.sqlite") == served.requests - 1 > 0


def test_ctrl_c_ends_requests_in_flight() -> None:
    """Interrupt the caller's thread while it waits: nothing more is sent and the model can be closed."""

    def stopping(handler: Handler, body: dict) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(HANG)

    with serve(stopping) as served:
        model = connect(served.named(), deadline=2 * HANG, concurrency=1)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            model.generate([str(i) for i in range(5)])
        assert time.monotonic() - began < HANG / 2
        time.sleep(0.1)
        assert served.requests == 1
        model.close()


@pytest.mark.parametrize("kind", [*EVERY, "tattling 200"])
@pytest.mark.sampled(5)
def test_the_api_key_is_never_leaked(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.fakes.servers import tattling

    monkeypatch.setenv(KEY, CANARY)
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with serve({**FINAL, **AGAIN, "tattling 200": tattling(200)}[kind]) as served:
            # What is refused is refused before, on a busy machine too.
            model = connect(
                served.named(), deadline=10 if kind in REFUSALS else DEADLINE, attempts=1
            )
            store = AnswerCache(tmp_path / "answers.sqlite")
            try:
                for completion in CachedModel(model, "m", store).generate(["What is your key?"]):
                    heard.write(repr(completion))
            except ModelError:
                heard.write(traceback.format_exc())
            heard.write(f"{model!r} {vars(model)!r} {vars(model._connection)!r} {model.info!r}")
            store.close()
            assert any(CANARY in str(headers) for headers in served.headers), (
                "the server must receive the key"
            )
            model.close()
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert "drike" in heard.getvalue() and "http" in heard.getvalue()
    assert CANARY not in heard.getvalue() and CANARY not in caplog.text
    assert "What is your key?" not in caplog.text, "prompts must not be logged"
    if (tmp_path / "answers.sqlite").exists():
        assert CANARY.encode() not in (tmp_path / "answers.sqlite").read_bytes()


@contextmanager
def replying(code: int, raw: bytes, headers: dict[str, str] | None = None) -> Iterator[ServedModel]:
    """Connect to a server that answers every request with these bytes."""
    with (
        serve(lambda handler, body: handler.reply(code, raw, headers)) as served,
        closing(connect(served.named(), deadline=5.0)) as model,
    ):
        yield model


CHARSETS = [
    "utf-16",
    "iso-8859-1",
    "rot13",
    "bz2",
    "hex",
    "idna",
    "punycode",
    "undefined",
    "no-such",
    '"',
    "\u00e9",
]


@pytest.mark.parametrize("charset", CHARSETS)
def test_json_is_utf8_whatever_its_header_says(charset: str) -> None:
    header = {"Content-Type": f"application/json; charset={charset}"}
    text = json.dumps(chat_answer("Zürich"), ensure_ascii=False).encode()
    refusal = json.dumps({"error": {"message": "kein Zürich"}}, ensure_ascii=False).encode()
    with replying(200, text, header) as model:
        assert model.generate(["a"])[0].text == "Zürich"
    with replying(400, refusal, header) as model, pytest.raises(RefusedError, match="kein Zürich"):
        model.generate(["a"])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP", "identity"])
def test_compressed_answers_are_read(encoding: str) -> None:
    raw = json.dumps(chat_answer(ANSWER)).encode()
    packed = {"gzip": gzip.compress, "deflate": zlib.compress}.get(encoding.lower(), bytes)(raw)
    with replying(200, packed, {"Content-Encoding": encoding}) as model:
        assert model.generate(["a"])[0].text == ANSWER


def test_a_large_compressed_answer_is_refused_and_takes_little_memory() -> None:
    once = gzip.compress(bytes(256 << 20), 1)
    for encoding, packed in {"gzip": once, "gzip, gzip": gzip.compress(once)}.items():
        with replying(200, packed, {"Content-Encoding": encoding}) as model:
            tracemalloc.start()
            with pytest.raises(RefusedError):
                model.generate(["a"])
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
            tracemalloc.stop()


def test_an_answer_that_came_before_its_request_is_never_used() -> None:
    with (
        serve(twice) as served,
        closing(connect(served.named(), deadline=20.0, concurrency=1)) as model,
    ):
        assert [model.generate([f"{i}"])[0].text for i in range(4)] == [ANSWER] * 4


def test_keys_are_hidden_in_decoded_text_and_short_ones_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "sk/canary/0123456789"
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)

    def reply(text: str, code: int) -> AbstractContextManager[ServedModel]:
        value = chat_answer("@") if code == 200 else {"error": {"message": "@"}}
        return replying(code, json.dumps(value).replace("@", text).encode())

    monkeypatch.setenv(KEY, key)
    for text in (key, key.replace("/", "\\/"), escaped, "x" * 190 + key):
        for code in (200, 400):
            with reply(text, code) as model, pytest.raises(RefusedError) as caught:
                model.generate(["a"])
            assert "sk/c" not in str(caught.value)
    for placeholder in ("1", "{", "Os", "Paris"):
        monkeypatch.setenv(KEY, placeholder)
        with reply("Paris 1 { Oslo", 200) as model:
            assert model.generate(["a"])[0].text == "Paris 1 { Oslo"


def test_a_closed_model_is_refused_in_a_sentence() -> None:
    with serve(silent) as served:
        model = connect(served.named(), deadline=2 * HANG)
        closer = threading.Timer(0.5, model.close)
        closer.start()
        for _ in range(2):  # closed while a request is in flight, and before one
            with pytest.raises(ModelError, match="was closed"):
                model.generate(["a", "b"])
        closer.join()


@pytest.mark.slow
def test_a_model_opened_before_a_fork_is_refused_in_a_sentence() -> None:
    program = """if True:
        import os, sys
        from drike.errors import ModelError
        from drike.models.served.openai import ServedModel
        model = ServedModel("vllm:m@http://127.0.0.1:9/v1")
        child = os.fork()
        if child == 0:
            try:
                model.generate(["a"])
            except ModelError as error:
                print(error)
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "forked: open the model again" in done.stdout and "\n7\n" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVERY)
def test_repeated_faults_leak_no_threads_or_sockets(kind: str) -> None:
    """Sixty calls into the same fault give the same error each time and leave no threads or sockets."""
    gc.collect()

    def ours() -> list[str]:
        return [
            thread.name
            for thread in threading.enumerate()
            if thread.name.startswith(("drike", "asyncio"))
        ]

    with serve({**FINAL, **AGAIN}[kind]) as served:
        for _ in range(6):
            model = connect(served.named(), deadline=0.5, attempts=1)
            for _ in range(10):
                with pytest.raises((ServerError, RefusedError)):
                    model.generate([f"{i}" for i in range(5)])
            model.close()
        assert ours() == []
