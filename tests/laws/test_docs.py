"""What a reader of the documentation depends on: commands exist and run as typed, links lead somewhere, notes can be
written again by their benchmarks, lines wrap."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import drike
from drike.cli import app
from lib import pages
from tests.fakes.commands import commands, run

ROOT = Path(__file__).parents[2]
NOTES = sorted(ROOT.glob("benchmarks/notes/*.md"))
MEASURED = [page for page in NOTES if (ROOT / f"benchmarks/{page.stem}.py").exists()]
LOG = ROOT / "benchmarks/notes/log.md"  # it quotes commands and pages of earlier versions
EVERY = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("recipes/*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *NOTES,
]
PAGES = [page for page in EVERY if page not in (LOG, ROOT / "CHANGELOG.md")]
BLOCK = re.compile(r"^```.*?^```|(?:^ {4}.*\n?)+", re.DOTALL | re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
WIDTH = 120
SPAN = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
START = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/)?(drike|python3?|make|sh) +(\S.*)")


class AcceptedError(Exception):
    """Raised once the arguments of a script have been parsed without an error."""


def quoted(page: Path) -> Iterator[str]:
    """Yield the commands in a page's code, without prompts, environment variables, comments and notes."""
    text = page.read_text("utf-8")
    blocks = [block.replace("\\\n", " ") for block in BLOCK.findall(text)]
    lines = [line for block in blocks for line in block.splitlines()]
    for line in [*lines, *(" ".join(span.split()) for span in SPAN.findall(BLOCK.sub("", text)))]:
        found = START.fullmatch(line.strip())
        if found:
            yield f"{found[1]} {re.split(r' +#| {2,}[(]', found[2])[0].strip()}"


COMMANDS = sorted({(page.name, command) for page in PAGES for command in quoted(page)})


def check_app(command: Any, words: list[str]) -> None:
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    command = getattr(command, "load", lambda: command)()
    is_option = not words or words[0].startswith("-")
    assert is_option or not hasattr(command, "commands"), f"there is no command {words[0]}"
    known = {
        name for option in command.params for name in (*option.opts, *option.secondary_opts)
    } | {"--help"}
    unknown = {
        word.partition("=")[0] for word in words if word.startswith("-") and not word[1:2].isdigit()
    } - known
    assert not unknown


def check_script(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if words[0] == "-m":
        module, *words = words[1:]
        if module == "pytest":
            assert all(
                (ROOT / word.partition("::")[0]).exists()
                for word in words
                if word.startswith("tests/")
            )
        elif (tool := ROOT / f"{module.replace('.', '/')}.py").exists():
            source = tool.read_text("utf-8")
            assert all(f'"{word}"' in source for word in words if word.startswith("-"))
        elif module.startswith("tools."):
            check_app(
                typer.main.get_command(importlib.import_module(f"{module}.__main__").app), words
            )
        return  # modules of other projects
    script = ROOT / words[0]
    assert script.exists()
    if script.parent.name != "benchmarks":  # importing other scripts would change this process
        source = script.read_text("utf-8")
        assert all(f'"{word}"' in source for word in words if word.startswith("-"))
        return

    parse = argparse.ArgumentParser.parse_args

    def only_parse(parser: argparse.ArgumentParser, *arguments: object) -> argparse.Namespace:
        parse(parser, *arguments)  # type: ignore[call-overload]
        raise AcceptedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    with pytest.raises(AcceptedError):
        importlib.import_module(f"benchmarks.{script.stem}").main()


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_every_command_quoted_in_the_docs_exists(
    page: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *words = shlex.split(command)
    if program == "drike":
        check_app(app, words)
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert {word for word in words if "=" not in word} <= set(targets)
    elif program == "sh":
        assert (ROOT / words[0]).exists()
    else:
        check_script(words, monkeypatch)


def test_commands_are_extracted_from_the_pages() -> None:
    programs = [command.split()[0] for _, command in COMMANDS]
    assert (
        programs.count("drike") > 20
        and programs.count("python") > 8
        and "make" in programs
        and "sh" in programs
    )


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.stem)
def test_a_page_of_notes_is_one_that_its_benchmark_writes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = path.read_text("utf-8")
    page, benchmark = pages.Page.parse(text), importlib.import_module(f"benchmarks.{path.stem}")
    assert str(page) == text
    assert page.findings, "say what was found, in two or three sentences below the title"
    assert page.head == pages.head(benchmark.TITLE, benchmark.__doc__)
    assert page.sections and all(
        f"python benchmarks/{path.name[:-3]}.py" in command for command in page.sections
    )
    check_script([f"benchmarks/{path.stem}.py", "--write"], monkeypatch)


def test_writing_a_section_keeps_the_others_and_the_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "page.md"
    page = pages.Page(
        pages.head("Speed", "How fast.\n\n    python benchmarks/speed.py\n"),
        {"python benchmarks/speed.py": "old"},
        "* why",
        "* fast",
    )
    target.write_text(str(page), "utf-8")
    for name in pages.THREADS:
        monkeypatch.delenv(name, raising=False)
    for arguments, printed in ((["--size", "2"], "2 ms"), ([], "1 ms\n\n" + "word " * 50)):
        monkeypatch.setattr(sys, "argv", ["benchmarks/speed.py", *arguments, "--out", str(target)])
        with pages.measured(argparse.Namespace(write=False, out=target), "Speed", "How fast."):
            print(printed)
    written = pages.Page.parse(target.read_text("utf-8"))
    assert list(written.sections) == [
        "python benchmarks/speed.py",
        "python benchmarks/speed.py --size 2",
    ]
    assert "1 ms" in written.sections["python benchmarks/speed.py"] and "old" not in str(written)
    assert (written.notes, written.findings) == (
        "* why",
        "* fast",
    ) and written.head == "# Speed\n\nHow fast."
    assert max(map(len, str(written).splitlines())) <= WIDTH


@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_wrap_at_120_characters(path: Path) -> None:
    """Except in tables, blocks of code, images, and headings that hold a command."""
    text = FENCED.sub("", path.read_text("utf-8"))
    long = [
        line
        for line in text.splitlines()
        if len(line) > WIDTH and not line.startswith(("|", "## `", "![", "    "))
    ]
    assert not long


def anchors(path: Path) -> set[str]:
    """The fragments that the headings of a page get on GitHub."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", [*PAGES, LOG], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", path.read_text("utf-8"))
    inner = [
        (path.parent / page if page else path, anchor)
        for page, anchor in links
        if "://" not in page
    ]
    assert [str(page) for page, _ in inner if not page.exists()] == []
    assert [
        (page.name, anchor) for page, anchor in inner if anchor and anchor not in anchors(page)
    ] == []


def test_options_named_in_the_docs_exist() -> None:
    options = [
        option for command in commands().values() for option in getattr(command, "params", ())
    ]
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)} | {
        "--help"
    }
    docs = [page for page in PAGES if page not in NOTES and page.name != "CONTRIBUTING.md"]
    named = {
        (page.name, name)
        for page in docs
        for name in re.findall(r"`(--[a-z-]+)", page.read_text("utf-8"))
    }
    assert len(named) > 50
    assert {(page, name) for page, name in named if name not in known} == set()


PROGRAMS = {
    page: re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for page in PAGES
}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if PROGRAMS[page]], ids=lambda path: path.stem
)
def test_python_in_the_docs_uses_names_that_exist(page: Path) -> None:
    """But for the adapters, whose modules need the frameworks."""
    for node in (node for program in PROGRAMS[page] for node in ast.walk(ast.parse(program))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "drike":
            if not str(node.module).startswith("drike.adapters."):
                module = importlib.import_module(str(node.module))
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "drike"
        ):
            assert node.attr in drike.__all__


# What makes a documented sequence tiny; the model and data are those that need no network.
TINY = {
    "train": (
        "--model",
        "reader",
        "--encoder",
        "hashing",
        "--edits",
        "4",
        "--test",
        "2",
        "--epochs",
        "1",
    ),
}


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorial.md",
        pytest.param("docs/how-to/use-a-model-behind-an-api.md", marks=pytest.mark.slow),
    ],
)
@pytest.mark.sampled(2)
def test_the_documented_way_from_training_to_a_report_works_as_typed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [block] = [
        block
        for block in BLOCK.findall((ROOT / page).read_text("utf-8"))
        if "drike train " in block
    ]
    typed = [line.removeprefix("$ ") for line in block.splitlines()]
    lines = [shlex.split(line, comments=True) for line in typed if line.startswith("drike ")]
    monkeypatch.chdir(tmp_path)
    for _, command, *words in lines:
        for option, replaced in (("--model", ["--model", "reader"]), ("--data", [])):
            if option in words:
                at = words.index(option)
                words[at : at + 2] = replaced
        assert run(command, *words, *TINY.get(command, ())) == 0, (
            command,
            words,
            capsys.readouterr(),
        )
    assert [words[1] for words in lines if words[1] == "evaluate"] == ["evaluate"]
    folder = Path(
        lines[-1][lines[-1].index("--run") + 1] if "--run" in lines[-1] else lines[-1][-1]
    )
    [outcomes] = folder.glob("evaluations/*/outcomes")
    assert len(list(outcomes.iterdir())) > 5
    if lines[-1][1] == "report":
        shown = (folder / "report.md").read_text("utf-8")
        assert "DR-IKE-Q" in shown
