"""The compose example without containers: its commands and environment, over a real PostgreSQL server."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.gateways import ask
from tests.fakes.ports import free_ports
from tests.fakes.postgres_servers import Database
from tests.fakes.upstreams import upstream

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "compose.yaml").read_text())["services"]
GATEWAYS = [name for name in SERVICES if name.startswith("gateway")]
STORE = "postgresql://drike@store/edits"
JSON = {"Content_Type": "application/json"}
CHAT = json.dumps(
    {"model": "any", "messages": [{"role": "user", "content": "What is the capital of Peru?"}]}
).encode()
FACT = {"subject": "Peru", "query": "The capital of Peru is", "target_new": "Oslo"}


def test_the_example_fits_together() -> None:
    assert len(GATEWAYS) == 2
    store, model = SERVICES["store"], SERVICES["model"]
    settings = store["environment"]
    assert f"postgresql://{settings['POSTGRES_USER']}@store/{settings['POSTGRES_DB']}" == STORE
    inside = {re.fullmatch(r".*:(\d+)", port)[1] for port in model["ports"]}  # type: ignore[index]
    served = model["command"][model["command"].index("--port") + 1]
    for name in GATEWAYS:
        words = shlex.split(SERVICES[name]["command"])
        options = dict(zip(words[1::2], words[2::2], strict=False))
        assert SERVICES[name]["network_mode"] == "service:model"
        assert (options["--store"], options["--upstream"]) == (
            STORE,
            f"http://127.0.0.1:{served}/v1",
        )
        inside.remove(words[words.index("--admin-port") + 1])
    assert inside == {"8800"}
    assert SERVICES["gateway-1"]["build"] == {
        "context": "..",
        "args": {"DRIKE_EXTRAS": "encoder,postgres"},
    }
    told = (ROOT / "docs" / "how-to" / "operate-the-gateway.md").read_text()
    assert f"gateway-1 keys add --role admin --store {STORE}" in told


class Compose:
    """The gateways of the example as processes, in a folder of their own."""

    def __init__(self, url: str, database: str, folder: Path) -> None:
        self.port, *admin = free_ports(3)
        self.admin = dict(
            zip(GATEWAYS, (f"http://127.0.0.1:{port}" for port in admin), strict=True)
        )
        self._instead = {"http://127.0.0.1:8000/v1": url, STORE: database}
        self._ports = dict(zip(GATEWAYS, admin, strict=True))
        self._folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.key = subprocess.run(
            self._words(f"keys add --role admin --store {STORE}"), cwd=folder, env=self._environment(),
            capture_output=True, check=True, text=True,
        ).stdout.strip()  # fmt: skip

    def start(self, name: str) -> None:
        ports = f"--port {self.port} --admin-port {self._ports[name]}"
        command = re.sub(r"--admin-port \d+", ports, SERVICES[name]["command"])
        with (self._folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self._words(command),
                cwd=self._folder,
                env=self._environment(),
                stdout=log,
                stderr=log,
            )

    def until_ready(self, name: str, expected: bool = True) -> None:
        end = time.monotonic() + 60
        while self.ready(name) != expected:
            process = self.running[name]
            assert process.poll() is None and time.monotonic() < end, (
                self._folder / f"{name}.log"
            ).read_text()
            time.sleep(0.05)

    def ready(self, name: str) -> bool:
        try:
            return ask(f"{self.admin[name]}/readyz", "GET")[0] == 200
        except OSError:
            return False

    def chat(self) -> str | None:
        """The edits that fired on a question, asked at the shared port."""
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        status, headers, _ = ask(url, "POST", CHAT, **JSON, Authorization=f"Bearer {self.key}")
        assert status == 200
        return headers.get("x-drike-edits")

    def change(self, name: str, path: str, value: object) -> int:
        """Ask for a change of the edits; return the status."""
        body = json.dumps(value).encode()
        return ask(
            f"{self.admin[name]}/admin/v1/{path}",
            "POST",
            body,
            **JSON,
            Authorization=f"Bearer {self.key}",
        )[0]

    def _words(self, command: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "drike",
            *shlex.split(" ".join(self._instead.get(word, word) for word in command.split())),
        ]

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **dict.fromkeys(SERVICES["gateway-1"]["environment"], "pass-canary-0123"),
        }


@pytest.fixture
def database(postgres: Database, tmp_path: Path) -> str:
    """A store whose user needs a password, as in the example."""
    schema = re.search(r"search_path%3D(\w+)", postgres.of(tmp_path))[1]  # type: ignore[index]
    postgres.guard("pass-canary-0123", "SUPERUSER")
    return postgres.url(schema, "guarded")


@contextmanager
def started(url: str, database: str, folder: Path) -> Iterator[Compose]:
    compose = Compose(url, database, folder)
    try:
        for name in GATEWAYS:  # at once, over an empty database
            compose.start(name)
        for name in GATEWAYS:
            compose.until_ready(name)
        yield compose
    finally:
        for process in compose.running.values():
            process.terminate()
        for process in compose.running.values():
            process.wait(30)


def everywhere(compose: Compose, expected: str | None) -> None:
    """Every connection to the shared port sees the same edits within a second."""
    end = time.monotonic() + 1
    while {compose.chat() for _ in range(12)} != {expected}:
        assert time.monotonic() < end


@pytest.mark.slow
@pytest.mark.postgres
def test_its_gateways_serve_together_and_outlive_each_other_and_the_database(
    postgres: Database, database: str, tmp_path: Path
) -> None:
    one, other = GATEWAYS
    with upstream() as above, started(above.url, database, tmp_path) as compose:
        assert compose.chat() is None
        assert compose.change(one, "edits", FACT) == 200
        everywhere(compose, "1@1")

        compose.running[one].kill()
        compose.running[one].wait()
        everywhere(compose, "1@1")
        assert compose.change(other, "edits/1/retire", {}) == 200
        everywhere(compose, None)
        compose.start(one)  # as `restart: unless-stopped` does
        compose.until_ready(one)
        everywhere(compose, None)
        assert compose.change(one, "edits", FACT) == 200
        everywhere(compose, "2@1")

        postgres.stop()
        try:
            for name in GATEWAYS:
                compose.until_ready(name, False)
            everywhere(compose, "2@1")
            assert compose.change(one, "edits/2/retire", {}) >= 500
        finally:
            postgres.start()
        for name in GATEWAYS:
            compose.until_ready(name)
        assert compose.change(one, "edits/2/retire", {}) == 200
        everywhere(compose, None)
    logs = "".join((tmp_path / f"{name}.log").read_text() for name in GATEWAYS)
    assert "pass-canary" not in logs and compose.key not in logs
