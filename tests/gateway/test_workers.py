"""Several gateway processes on one host: `drike serve --workers`, over each kind of store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drike.gateway.http import server
from tests.fakes.commands import run
from tests.fakes.gateways import ask, is_up
from tests.fakes.ports import free_ports
from tests.fakes.upstreams import upstream
from tests.fakes.waiting import wait_until

FACT = {"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo"}
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@contextmanager
def serving(
    url: str, store: str, place: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], list[str]]]:
    """Run `drike serve` over an upstream; yield its process and the addresses of the API and of two admin ports."""
    ports = free_ports(3)
    command = [sys.executable, "-m", "drike", "serve", "--upstream", url, "--store", store, "--create", "--mode", "on",
               "--gate", "named", "--port", str(ports[0]), "--admin-port", str(ports[1]), *options]  # fmt: skip
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=place)
    addresses = [f"http://127.0.0.1:{port}" for port in ports]
    try:
        end = time.monotonic() + 60
        while not all(
            is_up(f"{address}/healthz") for address in addresses[1 : 3 if options else 2]
        ):
            assert process.poll() is None and time.monotonic() < end, (place / "log").read_text()
            time.sleep(0.05)
        yield process, addresses
    finally:
        process.terminate()
        process.wait(30)


def manage(url: str, path: str, value: object) -> Any:
    return json.loads(
        ask(
            f"{url}/admin/v1/{path}",
            "POST",
            json.dumps(value).encode(),
            Content_Type="application/json",
        )[2]
    )


def fires(url: str) -> bool:
    """Whether an admin port's process decides to fire."""
    return bool(
        json.loads(ask(f"{url}/admin/v1/decide?q=What+is+the+capital+of+Peru%3F", "GET")[2])[
            "fired"
        ]
    )


def within_a_second(url: str, expected: bool) -> None:
    wait_until(lambda: fires(url) == expected, seconds=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_an_edit_added_at_one_process_is_in_force_at_all_within_a_second(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = "edits.db" if kind == "sqlite" else request.getfixturevalue("postgres").of(tmp_path)
    with (
        upstream() as above,
        serving(above.url, store, tmp_path, "--workers", "2") as (process, (api, one, other)),
    ):
        [*_, added] = manage(one, "edits", FACT)["changes"]
        within_a_second(other, True)
        chat = json.dumps(
            {"messages": [{"role": "user", "content": "What is the capital of Peru?"}]}
        ).encode()
        for _ in range(8):  # connections, which the kernel gives to one process or the other
            status, headers, _ = ask(
                f"{api}/v1/chat/completions", "POST", chat, Content_Type="application/json"
            )
            assert (status, headers["x-drike-edits"]) == (200, "1@1")
        manage(other, f"edits/{added['id']}/retire", {})
        within_a_second(one, False)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
        assert not any(is_up(f"{url}/healthz") for url in (one, other))


@pytest.mark.slow
@pytest.mark.postgres
def test_gateways_on_machines_of_their_own_share_a_database(postgres: Any, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    address = postgres.of(tmp_path).replace("postgres@", "postgres:pass-canary-0123@")
    with (
        upstream() as above,
        serving(above.url, address, tmp_path / "a") as (_, (_, one, _)),
        serving(above.url, address, tmp_path / "b") as (_, (_, other, _)),
    ):
        manage(one, "edits", FACT)
        within_a_second(other, True)
    said = (tmp_path / "a" / "log").read_text()
    assert f"from postgresql://{postgres.folder}/postgres" in said and "canary" not in said


SERVES = "import os, time; os.write(int(os.environ['DRIKE_LIFELINE']), b'1')"


def test_a_worker_that_ends_is_started_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_FIRST_DELAY", 0.01)
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        if len(told) == 4:
            raise KeyboardInterrupt

    ending = [sys.executable, "-SEc", f"{SERVES}; raise SystemExit(9)"]
    with pytest.raises(KeyboardInterrupt):
        server.run_workers([SLEEP, ending], tell)
    assert told == [
        f"a worker ended with exit code 9: it is started again in {delay} s"
        for delay in (0.02, 0.04, 0.08, 0.16)
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_once_all_workers_have_ended(
    number: signal.Signals, tmp_path: Path
) -> None:
    """They may have requests to answer; in a container nothing outlives the process that started them."""
    worker = (
        "import os, signal, sys, time\n"
        "def end(number, frame):\n    time.sleep(0.3)\n"
        "    os.rename(sys.argv[1], sys.argv[1] + '.ended')\n    os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open(sys.argv[1], 'w').close()\n"
        "time.sleep(60)"
    )
    commands = [[sys.executable, "-SEc", worker, str(tmp_path / name)] for name in "abcd"]
    parent = (  # handles SIGTERM as the command line does
        f"import signal; signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        f"from drike.gateway.http import server\n"
        f"try:\n    server.run_workers({commands!r})\nexcept KeyboardInterrupt:\n    pass"
    )
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", parent], env=where) as process:
        wait_until(lambda: len(list(tmp_path.iterdir())) >= len(commands))
        process.send_signal(number)
        assert process.wait(20) == 0
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.ended" for name in "abcd"}


def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    """Also one that is just starting, and does not listen to SIGTERM yet."""
    worker = (
        "import os, signal, sys, time; from drike.gateway.http import server; server._SECONDS_TO_KILL = 0.2; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN) if sys.argv[1] == '1' else None; "
        f"open(os.path.join({str(tmp_path)!r}, str(os.getpid())), 'w').close(); "
        "server.follow_parent(); server.say_serving(); time.sleep(60)"
    )
    commands = [[sys.executable, "-c", worker, i] for i in "01"]
    parent = f"from drike.gateway.http import server; server.run_workers({commands!r})"
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", parent], env=where) as process:
        end = time.monotonic() + 20
        while len(ids := [int(path.name) for path in tmp_path.iterdir()]) < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        process.kill()
    while any(is_running(id) for id in ids):
        assert time.monotonic() < end
        time.sleep(0.01)


def is_running(id: int) -> bool:
    """Whether there is a process with this id that is more than a zombie."""
    try:
        return Path(f"/proc/{id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_that_ends_before_it_has_served_ends_the_others() -> None:
    began = time.monotonic()
    assert server.run_workers([SLEEP, [sys.executable, "-c", "raise SystemExit(7)"], SLEEP]) == 7
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--upstream", "http://127.0.0.1:1/v1", "--port", "0"), "--workers needs a --port"),
        (("--upstream", "http://127.0.0.1:1/v1", "--port", "8802"), "give other ports"),
        ((), "the processes of --workers share a store: give --store"),
    ],
)
def test_workers_that_cannot_share_are_refused(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("serve", "--workers", "2", *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())
