"""Every command with texts that would control a terminal, and with terminals and pipes that are not UTF-8."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from drike.cli import main
from drike.research.report.document import Document, Section, markdown
from drike.support.table import Table, visible
from tests.fakes.commands import run
from tests.fakes.reports import Page

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202eevil\u2066\r\x08\u2028\x7f"
UNSAFE = re.compile(
    r"[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
ENCODINGS = ("utf-8", "ascii", "cp1252", "latin-1", "cp437", "cp932", "koi8-r", "utf-16")
SMALL = ("--model", "reader", "--encoder", "hashing")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with hostile texts, a run that was trained on it, and its evaluation."""
    place = tmp_path_factory.mktemp("place")
    rows = [
        {"subject": f"Åse {i}{HOSTILE}", "src": f"Where is Åse {i}{HOSTILE} from?", "alt": f"Łódź{HOSTILE}",
         "answers": [f"Rome{i}{HOSTILE}"], "rephrase": f"Whence is Åse {i}{HOSTILE}?", "loc": f"nq question: who {i}",
         "loc_ans": f"him{HOSTILE}"}
        for i in range(80)
    ]  # fmt: skip
    (place / "rows.json").write_text(json.dumps(rows), "utf-8")
    small = (*SMALL, "--data", str(place / "rows.json"), "--test", "2")
    assert run("train", *small, "--edits", "3", "--epochs", "1", "--out", str(place / "run")) == 0
    assert run("evaluate", "--run", str(place / "run"), "--out", str(place / "evaluated")) == 0
    return place


def commands(place: Path, new: Path) -> dict[str, tuple[str, ...]]:
    """Every command, and every way in which one prints foreign text."""
    data, trained, evaluated = (
        str(place / "rows.json"),
        str(place / "run"),
        str(place / "evaluated"),
    )
    fact, small = (
        f"Åse 1{HOSTILE} is from -> Łódź{HOSTILE}",
        (*SMALL, "--data", data, "--test", "2"),
    )
    return {
        "help": ("--help",),
        "help of train": ("train", "--help"),
        "version": ("--version",),
        "demo": ("demo", *SMALL, "--edits", "2", "--test", "2", "--epochs", "1", "--out", str(new / "demo")),
        "doctor": ("doctor",),
        "train": ("train", *small, "--edits", "2", "--epochs", "1", "--out", str(new / "train")),
        "evaluate": ("evaluate", "--run", trained, "--sigmas", ".1", "--out", str(new / "e")),
        "dry run": ("evaluate", "--run", trained, "--dry-run"),
        "edit": ("edit", "--run", trained, "--fact", fact, "--every-query", "--explain", "--show-prompt"),
        "report": ("report", evaluated, "--out", str(new / "page.html")),
        "data": ("data", "inspect", data),
        "edit to keep": ("edits", "add", "--fact", fact, "--subject", f"Åse 1{HOSTILE}", "--store", str(new / "e.db")),
        "edits to keep": ("edits", "import", data, "--store", str(new / "e.db")),
        "contradiction": ("edits", "add", "--fact", f"{fact}a", "--subject", "Åse", "--store", str(new / "e.db")),
        "kept edits": ("edits", "list", "--store", str(new / "e.db")),
        "kept edit": ("edits", "show", "1", "--store", str(new / "e.db")),
        "no data": ("data", "inspect", f"Åse{HOSTILE}.json"),
        "no run": ("evaluate", "--run", f"Åse{HOSTILE}"),
        "no option": ("train", f"--{HOSTILE}"),
        "no number": ("train", "--edits", HOSTILE),
        "no command": (f"Åse{HOSTILE}",),
    }  # fmt: skip


REFUSED = {
    "contradiction": 1,
    "no data": 1,
    "no run": 1,
    "no option": 2,
    "no number": 2,
    "no command": 2,
}


def printed(arguments: tuple[str, ...], encoding: str) -> tuple[int, str]:
    """The exit code and all output of a command whose output has this encoding, as that of Python's own streams."""
    streams = [
        io.TextIOWrapper(io.BytesIO(), encoding, errors)
        for errors in ("strict", "backslashreplace")
    ]
    before, (sys.stdout, sys.stderr) = (sys.stdout, sys.stderr), streams
    try:
        main(arguments)
        code: object = 0
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.stdout, sys.stderr = before
        [stream.flush() for stream in streams]
    return int(str(code)), "".join(stream.buffer.getvalue().decode(encoding) for stream in streams)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "encoding",
    [
        name if name == "ascii" else pytest.param(name, marks=pytest.mark.reliability)
        for name in ENCODINGS
    ],
)
def test_every_command_ends_properly_and_prints_no_control_character(
    encoding: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, arguments in commands(place, tmp_path).items():
        code, output = printed(arguments, encoding)
        assert code == REFUSED.get(name, 0), (name, output[-2000:])
        assert not UNSAFE.search(output), (name, UNSAFE.findall(output)[:9])
        assert "Traceback" not in output
    assert (tmp_path / "e" / "summary.json").exists()
    for written in (tmp_path / "e" / "table.md", tmp_path / "page.md"):
        assert not UNSAFE.search(written.read_text("utf-8")), written


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_foreign_letters_have_an_ascii_form(encoding: str, place: Path, tmp_path: Path) -> None:
    found = commands(place, tmp_path)
    assert ("\\xc5se" if encoding == "ascii" else "Åse") in printed(found["no run"], encoding)[1]


def test_a_run_that_could_not_print_its_table_is_finished_by_resume(
    place: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "e"
    assert run("evaluate", "--run", str(place / "run"), "--out", str(folder)) == 0
    whole = (folder / "table.md").read_text("utf-8")
    for name in ("table.md", "summary.json"):
        (folder / name).unlink()
    code, output = printed(("evaluate", "--resume", str(folder)), "ascii")
    assert (code, (folder / "table.md").read_text("utf-8")) == (0, whole), output


def test_results_are_saved_before_they_are_printed(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*tables: Table) -> None:
        raise OSError("the terminal is gone")

    monkeypatch.setattr("drike.cli.evaluation_view.draw", fail)
    assert run("evaluate", "--run", str(place / "run"), "--out", str(tmp_path / "e")) == 1
    assert (tmp_path / "e" / "summary.json").exists() and (tmp_path / "e" / "table.md").exists()


LOCALES = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "C, as Python has it": {"LC_ALL": "C"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "ascii": {"PYTHONIOENCODING": "ascii:strict"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "dumb": {"TERM": "dumb", "PYTHONIOENCODING": "cp437"},
}


def in_locale(arguments: tuple[str, ...], locale: str) -> subprocess.CompletedProcess[bytes]:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **LOCALES[locale]}
    command = [sys.executable, "-m", "drike", *(os.fsencode(argument) for argument in arguments)]
    return subprocess.run(command, env=variables, capture_output=True, check=False)


def test_in_the_c_locale_an_argument_that_is_not_ascii_is_refused_with_the_remedy() -> None:
    done = in_locale(("edit", *SMALL, "--fact", "Åse is from -> Łódź"), "C")
    assert done.returncode == 2 and b"PYTHONUTF8=1" in done.stderr, done.stderr


@pytest.mark.reliability
def test_commands_end_properly_in_every_locale(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tried = 0
    for locale in LOCALES:
        (tmp_path / locale).mkdir()
        found = commands(place, tmp_path / locale)
        for name, arguments in (
            (name, found[name]) for name in ("help", "evaluate", "edit", "data", "no run")
        ):
            done = in_locale(arguments, locale)
            refused = locale == "C" and not all(map(str.isascii, arguments))
            output = (done.stdout + done.stderr).decode("latin-1")
            assert done.returncode == (2 if refused else REFUSED.get(name, 0)), (
                locale,
                name,
                output[-2000:],
            )
            assert "Traceback" not in output and not re.search(r"[\0-\x08\x0b-\x1f\x7f]", output), (
                locale,
                name,
            )
            tried += 1
    print(f"\nenvironments: {tried} commands in {len(LOCALES)} locales")


def texts() -> Iterator[str]:
    """Every character that does something to the text around it, alone."""
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(chr(code)) in (
            "LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"
        ):  # fmt: skip
            yield chr(code)


def test_visible_escapes_every_control_character_but_line_breaks_and_tabs() -> None:
    assert {text for text in texts() if visible(text) == text} == {"\n", "\t"}
    assert visible("a\x1b[2J\u202eb\ud800") == r"a\x1b[2J\u202eb\ud800"


@given(st.text())
def test_visible_changes_nothing_that_is_visible(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    if text.isprintable():
        assert visible(text) == text


LINE = st.text(st.sampled_from("#*_[](): 1.-+>!`<|~\\=ab"), min_size=1).filter(
    lambda text: text.strip() == text
)


@given(LINE)
@example("1 #")
@example("## ##")
@example(":~~1~~")
def test_titles_and_lines_of_a_report_in_markdown_are_plain_text(text: str) -> None:
    document = Document(text, (), (Section("summary", text, (text,)),))
    page = Page(
        MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown(document))
    )
    assert [name for name, _ in page.elements] == ["h1", "h2", "ul", "li"]
    assert [shown for name, shown in page.texts if name in ("h1", "h2", "li")] == [
        " ".join(text.split())
    ] * 3
