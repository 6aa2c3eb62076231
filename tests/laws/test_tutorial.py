"""The first half of the tutorial, from installation to a corrected model, does what it shows, as typed.

Only the ports are others, and nothing is installed. (Its second half: test_docs.)
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.commands import run
from tests.fakes.gateways import is_up
from tests.fakes.ports import free_ports
from tests.fakes.waiting import wait_until

ROOT = Path(__file__).parents[2]
CORRECTED = (ROOT / "docs" / "tutorial.md").read_text("utf-8").split("## ")[1]
SECONDS = 60  # until the gateway listens, on a machine that is busy
SHOWN = re.compile(
    r"^(?:x-drike-\S+: .+|1 edit: took on .+?,|.*\"content\": \"\w+\")", re.MULTILINE
)


def steps() -> Iterator[tuple[str, list[str]]]:
    """Each command, and what of its output the page shows."""
    for block in re.findall(r"^```console\n(.*?)^```", CORRECTED, re.MULTILINE | re.DOTALL):
        command, _, output = block.removeprefix("$ ").partition("\n")
        yield command, [line.removeprefix("... ") for line in SHOWN.findall(output)]


def curl(words: list[str]) -> str:
    return subprocess.run(["curl", *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.slow
def test_the_way_to_a_corrected_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    port, admin = (str(port) for port in free_ports(2))
    asked, checked = list[list[str]](), 0
    serving: subprocess.Popen[bytes] | None = None
    try:
        for command, shown in steps():
            program, *words = shlex.split(command.replace("8800", port))
            if command.startswith("drike serve"):
                serve = [
                    sys.executable,
                    "-m",
                    "drike",
                    *words,
                    "--port",
                    port,
                    "--admin-port",
                    admin,
                ]
                serving = subprocess.Popen(
                    serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                end = time.monotonic() + SECONDS
                while not is_up(f"http://127.0.0.1:{admin}/healthz"):
                    assert serving.poll() is None and time.monotonic() < end
                    time.sleep(0.1)
                continue
            if program == "curl":
                asked.append(words)
                output = curl(words)
            elif program == "drike":
                assert run(*words) == 0
                output = capsys.readouterr().out
            else:
                assert program == "pip"
                continue
            assert [line for line in shown if line not in output] == [], output
            checked += len(shown)
        # The gateway notices what another process has changed within a second.
        wait_until(lambda: '"content": "ESPN"' in curl(asked[0]))
    finally:
        if serving:
            serving.terminate()
            serving.wait(20)
    assert checked >= 6
