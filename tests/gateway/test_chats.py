"""Laws of asking an upstream as a client: what it sends, asks again, keeps, counts and refuses."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from drike.errors import DrikeError, RefusedError, ServerError, SpendingLimitError, UsageError
from drike.gateway.http.upstream import HttpUpstream
from drike.gateway.proving import chats as asking
from drike.gateway.proving.chats import ChatAnswer, Client, MeteredUpstream
from drike.models.served import ApiOptions, Meter
from drike.models.served.cache import AnswerCache
from tests.fakes.servers import FAILURES_WITH_200, ONLY_THOUGHTS, nobody
from tests.fakes.upstreams import (
    RawHandler,
    Received,
    Recorded,
    answering,
    completed,
    obeys,
    upstream,
)

HELLO = [{"role": "user", "content": "Hello"}]


def ask(
    url: str, times: int = 1, *, meter: Meter | None = None, **options: Any
) -> list[ChatAnswer]:
    """The answers to so many equal chats, asked at once by one client."""

    async def answers() -> list[ChatAnswer]:
        above = MeteredUpstream(HttpUpstream(url), meter or Meter(ApiOptions()))
        await above.open()
        try:
            client = Client(above, options.pop("model", "tiny"), **options)
            return [
                answer
                for answer, _ in await asyncio.gather(*(client.ask(HELLO) for _ in range(times)))
            ]
        finally:
            await above.close()

    return asyncio.run(answers())


def refusing(names: Sequence[str], status: int = 400) -> Any:
    """Refuses requests with a field of these names."""

    def respond(handler: RawHandler, call: Received) -> None:
        if set(names) & set(json.loads(call.body)):
            return handler.reply(
                status, json.dumps({"error": {"message": "no such field"}}).encode()
            )
        return handler.reply(200, json.dumps(completed("Lima")).encode())

    return respond


def failing(times: int, status: int = 503) -> Any:
    left = iter(range(times))

    def respond(handler: RawHandler, call: Received) -> None:
        if next(left, None) is not None:
            return handler.reply(status, b'{"error": {"message": "busy"}}')
        return handler.reply(200, json.dumps(completed("Lima")).encode())

    return respond


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(asking, "_FIRST_PAUSE", 0.01)


def test_a_pause_that_an_upstream_asks_for_is_waited_for_or_stated() -> None:
    def busy(pause: str) -> Any:
        def respond(handler: RawHandler, call: Received) -> None:
            if len(handler.recorded.calls) == 1:
                return handler.reply(503, b'{"error": {"message": "busy"}}', Retry_After=pause)
            return handler.reply(200, json.dumps(completed("Lima")).encode())

        return respond

    with upstream(busy("0.2")) as above:
        began = time.monotonic()
        assert ask(above.url)[0].text == "Lima" and time.monotonic() - began >= 0.2
    with upstream(busy("3600")) as above:
        with pytest.raises(
            ServerError, match=r"busy; it asks to wait 3,600 seconds \(about 60 min"
        ):
            ask(above.url)
        assert len(above.calls) == 1


def test_equal_requests_of_a_run_are_sent_once() -> None:
    with upstream(answering(obeys)) as above:
        assert {answer.text for answer in ask(above.url, 5)} == {"It is Lima."}
        assert len(above.calls) == 1 and json.loads(above.body) == {
            "model": "tiny",
            "messages": HELLO,
        }


def test_answers_are_kept_for_what_they_are_for_and_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with upstream(answering(obeys)) as above:
        for kept_for in ("one", "one", "another"):
            cache = AnswerCache(tmp_path / "answers.sqlite")
            ask(above.url, cache=cache, kept_for=kept_for)
            cache.close()
        assert len(above.calls) == 2
        monkeypatch.setattr(asking, "_KEPT_SECONDS", 0.0)
        ask(above.url, cache=AnswerCache(tmp_path / "answers.sqlite"), kept_for="one")
        assert len(above.calls) == 3


def test_a_field_that_a_model_refuses_is_left_out_from_then_on() -> None:
    settings: list[Any] = [{"max_tokens": 9, "temperature": 0}, {"max_completion_tokens": 9}, {}]
    for refused, sent in (
        (["temperature"], 2),
        (["max_tokens"], 2),
        (["max_tokens", "max_completion_tokens"], 3),
    ):
        with upstream(refusing(refused)) as above:
            [answer] = ask(above.url, settings=settings)
            assert answer.text == "Lima" and len(above.calls) == sent
    with (
        upstream(refusing(["model"])) as above,
        pytest.raises(RefusedError, match=r"\(400: no such field\): correct"),
    ):
        ask(above.url, settings=settings)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_fails_for_a_while_is_asked_again(status: int) -> None:
    with upstream(failing(2, status)) as above:
        assert ask(above.url)[0].text == "Lima" and len(above.calls) == 3
    with upstream(failing(99, status)) as above:
        with pytest.raises(
            ServerError, match=rf"failed \({status}: busy\): start or correct it, and give the same"
        ):
            ask(above.url)
        assert len(above.calls) == 4


def test_what_is_refused_or_silent_is_explained_in_a_sentence() -> None:
    with upstream(failing(99, 401)) as above:
        with pytest.raises(
            RefusedError, match=r"refuses the request \(401: busy\): correct the address, the key"
        ):
            ask(above.url)
        assert len(above.calls) == 1
    with (
        nobody() as dead,
        pytest.raises(ServerError, match=r"failed \(the upstream failed \(Connection refused\)\)"),
    ):
        ask(dead.url)

    def empty(handler: RawHandler, call: Received) -> None:
        handler.reply(200, b'{"choices": []}')

    with (
        upstream(empty) as above,
        pytest.raises(ServerError, match="failed \\(it gives no choice\\): try again"),
    ):
        ask(above.url)

    def endless(handler: RawHandler, call: Received) -> None:
        handler.begin_stream()
        for _ in range(17):
            handler.chunk(b" " * (1 << 20))
        handler.chunk(b"")

    with upstream(endless) as above, pytest.raises(ServerError, match="answer has more than 16 MB"):
        ask(above.url)


def test_an_answer_in_parts_is_read_as_its_text() -> None:
    def parts(handler: RawHandler, call: Received) -> None:
        message = {
            "content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "Oslo."}]
        }
        handler.reply(200, json.dumps({"choices": [{"message": message}]}).encode())

    with upstream(parts) as above:
        assert [answer.text for answer in ask(above.url)] == ["It is Oslo."]


@pytest.mark.parametrize("kind", [*FAILURES_WITH_200, *ONLY_THOUGHTS])
def test_what_is_no_answer_is_refused_and_not_kept(kind: str, tmp_path: Path) -> None:
    what = {**FAILURES_WITH_200, **ONLY_THOUGHTS}[kind]
    replies = iter([what, completed("Oslo")])

    def respond(handler: RawHandler, call: Received) -> None:
        handler.reply(200, json.dumps(next(replies)).encode())

    cache = AnswerCache(tmp_path / "answers.sqlite")
    with upstream(respond) as above:
        with pytest.raises(
            ServerError, match=r"the server broke|finish_reason|text|thinking_tokens"
        ):
            ask(above.url, cache=cache)
        assert [answer.text for answer in ask(above.url, cache=cache)] == ["Oslo"]


def test_limits_on_calls_and_money_are_kept() -> None:
    for meter in (
        Meter(ApiOptions(max_calls=0)),
        Meter(ApiOptions(price_in=1e6, price_out=1e6, max_cost=1.0)),
    ):
        with upstream(answering(obeys)) as above, pytest.raises(SpendingLimitError):
            ask(above.url, meter=meter)
        assert above.calls == []


def test_usage_counts_what_the_server_reports() -> None:
    meter = Meter(ApiOptions(price_in=1.0, price_out=2.0))
    with upstream(answering(obeys)) as above:
        [answer] = ask(above.url, meter=meter)
    used = meter.usage
    assert (used.calls, used.requests, used.prompt_tokens, used.completion_tokens) == (1, 1, 5, 1)
    assert answer.prompt_tokens == 5 and used.money == pytest.approx(7e-6)


@pytest.mark.parametrize(
    ("models", "problem"),
    [((), r"lists 0 models: name one as --model$"), (("a", "b"), r"2 models: .*, such as a$")],
)
def test_a_model_is_named_unless_there_is_one_only(models: tuple[str, ...], problem: str) -> None:
    async def only(above: Recorded) -> str:
        opened = HttpUpstream(above.url)
        await opened.open()
        try:
            return await Client(opened, "").only_model()
        finally:
            await opened.close()

    with upstream(answering(obeys)) as above:
        assert asyncio.run(only(above)) == "tiny"
    with (
        upstream(answering(obeys, models=models)) as above,
        pytest.raises(UsageError, match=problem) as error,
    ):
        asyncio.run(only(above))
    assert isinstance(error.value, DrikeError)
