"""Made-up requests, tenants, kills and load on a gateway (`long_series.py`), and every fault of an upstream."""

from __future__ import annotations

import contextlib
import http.client
import json
from pathlib import Path

import pytest

from drike.gateway.http.upstream import HttpUpstream
from drike.gateway.options import GatewayOptions, Mode
from tests.fakes import servers
from tests.fakes.gateways import ENTRY, Running, ask, running
from tests.fakes.tally import Tally
from tests.gateway.long_series import series

SLOW = ("drip", "dripping headers", "silent", "huge")  # these would go on for seconds


@pytest.mark.parametrize(("how", "times"), [("requests", 100), ("tenants", 30), ("kills", 1)])
def test_a_short_series_finds_nothing_wrong(how: str, times: int, tmp_path: Path) -> None:
    found = series(how, times, 1, tmp_path)
    assert found.times == times and not found.wrong


@pytest.mark.reliability
@pytest.mark.parametrize(
    ("how", "times"), [("requests", 200_000), ("tenants", 10_000), ("kills", 1_000)]
)
def test_a_long_series_finds_nothing_wrong(
    how: str, times: int, tmp_path: Path, tally: Tally
) -> None:
    found = series(how, times, 0, tmp_path)
    tally(f"gateway: {how}", found.times, len(found.wrong))
    print(f"\n{how}: {found.times:,} in {found.seconds} s, {dict(found.found)}")
    assert not found.wrong


def answer(url: str, body: bytes) -> tuple[int, bytes] | str:
    """Status and body of an answer, or why there is none."""
    try:
        status, _, found = ask(url, "POST", body)
        return status, found
    except (http.client.HTTPException, OSError) as error:
        return type(error).__name__


@pytest.mark.reliability
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", [*servers.FINAL, *servers.AGAIN])
def test_faults_of_an_upstream_reach_the_client_as_they_are_or_as_one_error(
    kind: str, stream: bool, tmp_path: Path
) -> None:
    body = json.dumps(
        {"messages": [{"role": "user", "content": "The capital of Peru is"}], "stream": stream}
    ).encode()
    with servers.serve({**servers.FINAL, **servers.AGAIN}[kind]) as above:
        connected = HttpUpstream(above.url, timeout=0.5)
        with running(
            connected, tmp_path, ENTRY, options=GatewayOptions(mode=Mode.ON, deadline_ms=5000)
        ) as gateway:
            assert_same(kind, above.url, gateway, body)


def assert_same(kind: str, url: str, gateway: Running, body: bytes) -> None:
    if kind in SLOW:  # the client gives up first, or the gateway does; neither hangs
        host = gateway.url.removeprefix("http://").removesuffix("/v1")
        connection = http.client.HTTPConnection(host, timeout=2)
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/v1/chat/completions", body)
            assert connection.getresponse().status in (200, 502, 504)
        connection.close()
    else:
        direct, through = (answer(f"{one}/chat/completions", body) for one in (url, gateway.url))
        if kind == "redirect" or isinstance(direct, str):
            assert (
                isinstance(through, str)
                or json.loads(through[1])["error"]["code"] == "upstream_error"
            )
        else:
            assert through == direct
    assert gateway.manage("GET", "/healthz")[0] == 200
