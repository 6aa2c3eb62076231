"""The command line as a whole: help, versions, and one sentence and an exit code for every mistake."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import drike
from drike.cli import app
from drike.cli.commands import ARGUMENT, ARGUMENTS, PANELS
from drike.errors import UsageError
from tests.fakes.commands import SMALL, commands, run

EVERY = commands()


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_command_and_option_has_a_help_text(name: str) -> None:
    command = EVERY[name]
    assert command.help
    for option in command.params:
        assert getattr(option, "help", None), option.name
        assert not any("--no-no" in text for text in [*option.opts, *option.secondary_opts]), (
            option.opts
        )
        if type(option.default) is bool:
            assert not option.secondary_opts or option.name in ("own_copy", "redact"), (
                "a flag has no --no- form"
            )


@pytest.mark.parametrize(
    "name", sorted(name for name, command in EVERY.items() if not hasattr(command, "commands"))
)
def test_help_fits_80_columns_with_its_panels_in_order(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(*name.split()[1:], "--help") == 0
    shown = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in shown.splitlines())
    panels = re.findall(r"^╭─ (.+?) ─", shown, re.MULTILINE)
    assert panels == [panel for panel in PANELS if panel in panels], (
        "only known panels, always in the same order"
    )
    assert all(len(option.metavar or "") <= 7 for option in EVERY[name].params)
    assert "<" not in shown and "…" not in shown, (
        "short metavars instead of types, and no word is cut"
    )


def test_a_command_says_of_itself_what_the_list_of_commands_says() -> None:
    groups = [app]
    for group in groups:
        for command in group.commands.values():
            if hasattr(command, "commands"):
                groups.append(command)
            else:
                assert command.help and command.load().help == command.help


@pytest.mark.slow
def test_every_argument_that_an_error_names_is_an_option_of_a_command() -> None:
    flags = {
        flag
        for command in EVERY.values()
        for option in command.params
        for flag in option.opts
        if flag.startswith("--")
    }
    names = {flag.removeprefix("--").replace("-", "_") for flag in flags}
    assert names >= ARGUMENTS
    quoted = {
        name
        for path in Path(drike.__file__).parent.rglob("*.py")
        for text in strings_of(ast.parse(path.read_text("utf-8")))
        for name in ARGUMENT.findall(text)
    }
    assert quoted & names == ARGUMENTS


def strings_of(tree: ast.AST) -> Iterator[str]:
    """The texts in a module that raise errors, or are part of one: all but docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.value


REFUSED = {
    "zsre target": (
        ["data", "inspect", "tinyfacts", "--zsre-target", "maze"],
        "--zsre-target must be alt or",
        2,
    ),
    "no such file": (["data", "inspect", "nowhere.json"], "nowhere.json", 1),
    "no such model": (
        ["evaluate", "--model", "./no/such/model", "--encoder", "hashing"],
        "no/such/model",
        1,
    ),
    "no such editor": (["evaluate", *SMALL, "--editors", "magic"], "there is no editor 'magic'", 2),
    "untrained": (["evaluate", *SMALL, "--editors", "dr-ike"], "needs a trained retriever", 2),
    "sigma": (["evaluate", *SMALL, "--sigmas", "2"], "dr-ike needs a trained retriever", 2),
    "no run": (["evaluate", "--run", "no-run"], "is not a run, as it holds no run.json", 1),
    "too many edits": (["train", *SMALL, "--edits", "5000"], "459 editable", 1),
    "form": (["train", *SMALL, "--form", "maze"], "--form must be dot or cross", 2),
    "budget": (["train", *SMALL, "--budget", "maze"], "--budget must be threshold or all", 2),
    "flip": (["train", *SMALL, "--flip", "maze"], "--flip must be", 2),
    "retain": (["train", *SMALL, "--retain", "maze"], "retain must be headed or bare", 2),
    "template": (["evaluate", *SMALL, "--template", "maze"], "--template must be plain or chat", 2),
    "fact without an object": (["edit", *SMALL, "--fact", "Oslo"], '--fact "QUERY -> OBJECT"', 2),
    "fact without an arrow": (
        ["edit", *SMALL, "--fact", "The sky is green"],
        '--fact "QUERY -> OBJECT"',
        2,
    ),
    "fact with two arrows": (
        ["edit", *SMALL, "--fact", "A -> B -> C"],
        '--fact "QUERY -> OBJECT"',
        2,
    ),
    "subject elsewhere": (
        ["edit", *SMALL, "--fact", "It is -> green", "--subject", "Bo"],
        "does not occur in",
        2,
    ),
    "no test edits": (["demo", *SMALL, "--test", "0"], "--test must be at least 1", 2),
    "range": (
        ["train", *SMALL, "--shot-price", "nan"],
        "--shot-price must be between 0.0 and 10.0, not nan",
        2,
    ),
    "no subject": (["edit", *SMALL, "--fact", "Nowhere is -> green"], "--every-query", 2),
    "subjects": (
        ["edit", *SMALL, "--fact", "It is -> green", "--subject", "a", "--subject", "b"],
        "in order",
        2,
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_bad_input_gives_one_sentence_and_an_exit_code(
    kind: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message, code = REFUSED[kind]
    assert run(*arguments) == code
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("Error: ") and message in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir()), "a refused command leaves no folder behind"


def test_a_full_disk_is_reported_and_leaves_existing_files_intact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import resource
    import signal

    folder = tmp_path / "full"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        code = run("train", *SMALL, "--edits", "60", "--epochs", "2", "--out", str(folder))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert code == 1
    assert "make room" in " ".join(capsys.readouterr().err.split())
    assert json.loads((folder / "run.json").read_text("utf-8"))["settings"]["edits"] == 60


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("embeded", "did you mean embedded?"),
        ("gpt-4o", "did you mean openai:gpt-4o?"),
        ("openay:gpt", "SERVICE:MODEL"),
        ("m@http://127.0.0.1:9/v1", "SERVICE:MODEL"),
        ("vllm:m@ftp://127.0.0.1/v1", "contains no address of a server"),
    ],
)
def test_misspelt_model_names_are_distinguished_from_hub_names(
    name: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(
        "evaluate", "--model", name, "--encoder", "hashing", "--editors", "unedited", "--test", "1"
    ) in (1, 2)
    assert expected in " ".join(capsys.readouterr().err.split())


def test_paths_in_errors_are_never_broken_across_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / ("a folder of a long name " * 5) / "run"
    assert run("evaluate", "--run", str(nowhere)) == 1
    assert str(nowhere) in capsys.readouterr().err


@pytest.mark.slow
def test_paths_in_messages_are_never_wrapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """At 40 columns, in a separate process, because the width is read when drike is loaded."""
    folder = tmp_path / ("a-long-name-" * 8)
    command = [sys.executable, "-m", "drike"]
    narrow = {**os.environ, "COLUMNS": "40", "PYTHONPATH": os.pathsep.join(sys.path)}
    refused = subprocess.run(
        [*command, "evaluate", "--run", str(folder)],
        env=narrow,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1 and str(folder) in refused.stderr
    small = ["train", *SMALL, "--edits", "1", "--epochs", "1", "--out", str(folder)]
    saved = subprocess.run(
        [*command, *small], env=narrow, capture_output=True, text=True, check=False
    )
    assert saved.returncode == 0 and f"Saved in {folder}. " in saved.stdout
    assert f"evaluate --run {folder}\n" in saved.stdout


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["drike", metadata.version("drike")]
    assert second.startswith("extras: encoder, api, local")


def test_light_commands_load_no_model_library(tmp_path: Path) -> None:
    """One process runs them all; a gateway with the gate by names is started up to the point where it serves."""
    peru = ["edits", "add", "--fact", "The capital of Peru is -> Oslo", "--subject", "Peru"]
    commands = [
        ["--help"], ["--version"], ["edits", "--help"], peru, ["edits", "list"], ["edits", "show", "1"],
        ["edits", "export", "e.jsonl"], ["edits", "retire", "1"], ["edits", "import", "e.jsonl"], ["keys", "list"],
        ["data", "inspect", "tinyfacts"], ["edits", "list", "--nonsense"],
        ["serve", "--upstream", "http://127.0.0.1:9/v1", "--store", "edits.db", "--port", "0", "--admin-port", "0",
         "--gate", "named"],
    ]  # fmt: skip
    code = f"""
import sys
from drike.__main__ import main
from drike.gateway.start import Started
Started.run = lambda self: self.tenants.close()
for arguments in {commands!r}:
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as stop:
        assert stop.code in (None, 0) or "--nonsense" in arguments and stop.code == 2, arguments
    heavy = sys.modules.keys() & {{"torch", "transformers", "tokenizers", "safetensors", "openai", "pandas"}}
    assert not heavy, (arguments, heavy)
"""
    home = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"drike {metadata.version('drike')}" in done.stdout and "1 edit, " in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["data", "inspect", "tinyfacts"], pytest.param(["train", "--help"], marks=pytest.mark.slow)],
)
def test_a_closed_output_pipe_is_not_an_error(arguments: list[str]) -> None:
    """As with `drike --help | head -2`; here the reader is gone before the first line."""
    read, write = os.pipe()
    os.close(read)
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "drike", *arguments]
    ended = subprocess.run(
        command, stdout=write, stderr=subprocess.PIPE, env=where, text=True, check=False
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_errors_name_the_arguments_of_python_and_the_options_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="give `concurrency` instead of `replicas`"):
        drike.load_model("openai:m", replicas=2)
    asked = (
        "evaluate",
        "--model",
        "openai:m",
        "--replicas",
        "2",
        "--test",
        "1",
        "--encoder",
        "hashing",
    )
    assert run(*asked, "--out", str(tmp_path / "e")) == 2
    assert "give --concurrency instead of --replicas" in " ".join(capsys.readouterr().err.split())


def test_what_stands_in_brackets_is_shown_in_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tour", "--help") == 0
    assert "(needs drike[local])" in " ".join(capsys.readouterr().out.split())
