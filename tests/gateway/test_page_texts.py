"""What the admin page shows has no commands, flags or headers, whatever the gateway says."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from tests.fakes.browsers import NODE

SOURCE = Path(__file__).parents[2] / "src/drike"
PARTS = ("answers", "edits", "gates", "gateway", "live", "stores", "text")
PAGE = files("drike.gateway.control") / "page"
OF_TERMINALS = re.compile(r"--[a-z]|\bdrike (?:edits|serve|keys)\b|Bearer|Authorization")


def texts_of(expression: ast.AST) -> Iterator[str]:
    """The texts in an expression, with a word for each value that is put into them."""
    for node in ast.walk(expression):
        if isinstance(node, ast.JoinedStr):
            parts = (
                part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values
            )
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def messages() -> list[str]:
    """All texts of what the page's gateway runs that speak of commands, flags or headers."""
    found: set[str] = set()
    for part in PARTS:
        for path in (SOURCE / part).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            documented = {
                ast.get_docstring(node, clean=False)
                for node in ast.walk(tree)
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            }
            found.update(text for text in texts_of(tree) if text not in documented)
    return sorted(text for text in found if OF_TERMINALS.search(text) and len(text.split()) > 2)


@pytest.mark.skipif(not NODE, reason="node is not installed")
def test_whatever_the_gateway_says_reads_as_for_the_page() -> None:
    script = (PAGE / "page.js").read_text("utf-8")
    plain = script[script.index("const AS_HERE") : script.index("async function api(")]
    shows = "console.log(JSON.stringify(JSON.parse(process.argv[1]).map(plain)))"
    said = messages()
    assert len(said) > 40
    command = ["node", "-e", plain + shows, json.dumps(said)]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    left = [text for text in shown if OF_TERMINALS.search(text)]
    assert not left, "\n".join(left)


def test_the_page_itself_names_no_command_flag_or_header() -> None:
    for name in ("index.html", "page.js", "edit.js", "inbox.js"):
        text = (PAGE / name).read_text("utf-8")
        text = re.sub(r"const AS_HERE.*?async function api", "", text, flags=re.DOTALL)
        shown = re.findall(r"'((?:[^'\\\n]|\\.)*)'|>([^<>]+)<", text)
        spoken = [" ".join(parts) for parts in shown if " " in " ".join(parts).strip()]
        assert not [one for one in spoken if OF_TERMINALS.search(one)], name
