"""The Dockerfile, the compose file and the systemd unit use extras, files and options that there are."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from drike.cli import app

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
COMPOSE = (ROOT / "docs" / "compose.yaml").read_text("utf-8")
SERVICE = (ROOT / "docs" / "drike.service").read_text("utf-8")
MEGABYTES = 275  # of the environment; python:3.12-slim has some 125 more, and the image is to have 400 at most


def extras(text: str) -> set[str]:
    return {
        extra
        for named in re.findall(r'DRIKE_EXTRAS[=:]\s*"?([a-z,]+)', text)
        for extra in named.split(",")
    }


def test_extras_and_copied_files_exist() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    assert extras(DOCKERFILE) == {"encoder", "postgres"} and extras(COMPOSE) <= extras(
        DOCKERFILE
    ) <= set(declared)
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    allowed = (ROOT / ".dockerignore").read_text("utf-8").split()
    for name in " ".join(copied).split():
        assert (ROOT / name).exists() and f"!{name}" in allowed, name


@pytest.mark.parametrize(
    "text", [DOCKERFILE, COMPOSE, SERVICE], ids=["Dockerfile", "compose", "systemd"]
)
def test_options_of_serve_exist(text: str) -> None:
    serve = app.commands["serve"].load()  # type: ignore[attr-defined]
    known = {flag for option in serve.params for flag in (*option.opts, *option.secondary_opts)}
    joined = re.sub(r"\s*\n\s+--", " --", text)
    lines = re.findall(r"(?:drike |^\s*)serve (--.*)$", joined, re.MULTILINE)
    flags = {word for line in lines for word in shlex.split(line) if word.startswith("--")}
    assert flags <= known and (flags or text == DOCKERFILE)


def test_a_container_has_no_rights_that_it_does_not_need() -> None:
    assert re.search(r"^USER drike$", DOCKERFILE, re.MULTILINE) and "HEALTHCHECK" in DOCKERFILE
    assert "/healthz" in DOCKERFILE and "DynamicUser=yes" in SERVICE


@pytest.mark.slow
def test_the_steps_of_the_dockerfile_build_a_small_environment(tmp_path: Path) -> None:
    """In a folder, as there may be no containers: the files that it copies, its commands, and what it starts."""
    source, built = tmp_path / "source", tmp_path / "opt"
    copied = " ".join(re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE)).split()
    source.mkdir()
    subprocess.run(["cp", "-r", *(ROOT / name for name in copied), source], check=True)
    [steps] = re.findall(r"^RUN (python -m venv.*?)\n\n", DOCKERFILE, re.MULTILINE | re.DOTALL)
    script = (
        steps.replace("/opt/drike", str(built))
        .replace("/source", str(source))
        .replace("$DRIKE_EXTRAS", "encoder")
    )
    script = script.replace("python -m venv", f"{sys.executable} -m venv").replace(
        " pip --", f" {sys.executable} -m pip --"
    )
    subprocess.run(["sh", "-ec", script], check=True, capture_output=True)
    size = sum(file.lstat().st_size for file in built.rglob("*") if file.is_file()) / 1e6
    assert size <= MEGABYTES
    started = subprocess.run(
        [built / "bin" / "drike", "--version"], capture_output=True, text=True, check=True
    )
    assert "extras: encoder" in started.stdout
