"""No process of drike takes a module from the working folder, where anybody's files may be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.fakes.gateways import ask, is_up
from tests.fakes.ports import free_ports
from tests.fakes.upstreams import upstream

ROOT = Path(__file__).parents[2]


@cache
def every_module() -> set[str]:
    return {*sys.stdlib_module_names, *packages_distributions(), "drike"}


def poison(folder: Path, names: set[str]) -> Path:
    """Put modules of these names into a folder; each writes its name to the file that is returned."""
    found = folder / "executed"
    for name in names:
        (folder / f"{name}.py").write_text(f"open({str(found)!r}, 'a').write('{name} ')\n")
    return found


def test_every_python_that_is_started_is_told_so() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        commands = re.findall(r'sys\.executable\}?[",]* *"?(-\w)', path.read_text("utf-8"))
        assert set(commands) <= {"-P"}, path


@pytest.mark.parametrize("options", [(), ("-P",)])
def test_the_command_itself_takes_none(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Without -P Python itself looks for a few before drike can keep it from that."""
    executed = poison(
        tmp_path,
        every_module()
        if options
        else {"csv", "email", "typer", "rich", "multiprocessing", "zipfile"},
    )
    command = [sys.executable, *options, "-m", "drike", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("drike ") and not executed.exists(), done.stderr


def test_processes_that_it_starts_take_none(tmp_path: Path) -> None:
    executed = poison(tmp_path, {"multiprocessing"})
    code = (
        "import sys, drike.__main__ as m; sys.argv[1:] = ['--version']; m.main(); "
        "from multiprocessing import resource_tracker; resource_tracker.ensure_running(); "
        "import subprocess; subprocess.run([sys.executable, '-c', 'import multiprocessing'], check=True)"
    )
    subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL
    )
    assert not executed.exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_gateway_takes_none(tmp_path: Path, workers: tuple[str, ...]) -> None:
    executed, ports = poison(tmp_path, every_module()), free_ports(3)
    chat = json.dumps({"messages": [{"role": "user", "content": "Hello"}]}).encode()
    with upstream() as above, (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-P", "-m", "drike", "serve", "--upstream", above.url, "--store", "edits.db",
                   "--create", "--gate", "named",
                   "--port", str(ports[0]), "--admin-port", str(ports[1]), *workers]  # fmt: skip
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
        try:
            end = time.monotonic() + 120
            while not all(
                is_up(f"http://127.0.0.1:{port}/healthz") for port in ports[1 : 3 if workers else 2]
            ):
                assert process.poll() is None and time.monotonic() < end, (
                    tmp_path / "log"
                ).read_text()
                time.sleep(0.1)
            assert ask(f"http://127.0.0.1:{ports[0]}/v1/chat/completions", "POST", chat)[0] == 200
        finally:
            process.terminate()
            assert process.wait(30) in (0, 143)
    assert not executed.exists(), executed.read_text()
