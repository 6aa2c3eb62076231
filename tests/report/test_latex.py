"""Tables in LaTeX: every text is escaped, and numbers are set as numbers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.report.document import document, latex
from drike.report.groups import grouped
from drike.report.latex import as_latex, escaped
from drike.report.reading import read_runs
from drike.support.table import Estimate, Table
from tests.worlds.reports import HOSTILE

LATEX = {
    r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~", r"\textless{}": "<",
    r"\textgreater{}": ">", r"\textbar{}": "|", r"\textquotedbl{}": '"', r"\textasciigrave{}": "`",
    r"\{": "{", r"\}": "}", r"\$": "$", r"\&": "&", r"\#": "#", r"\%": "%", r"\_": "_", "{[}": "[", "{*}": "*",
}  # fmt: skip


TOKEN = re.compile("|".join(map(re.escape, sorted(LATEX, key=len, reverse=True))))


@given(st.text(max_size=40))
def test_latex_prints_the_text_of_a_cell_unchanged(text: str) -> None:
    shown = escaped(text)
    left = TOKEN.sub("", shown)
    assert not set(left) & set('\\{}$&#%_^~<>|[*`"'), "every special character is one of the known commands"
    printable = "".join(c if c.isprintable() else " " for c in text)
    assert TOKEN.sub(lambda m: LATEX[m[0]], shown) == " ".join(printable.split())


def test_hostile_tables_keep_their_shape_in_latex() -> None:
    table = Table(HOSTILE, ("a", "b"), ((HOSTILE,), (HOSTILE, Estimate(0.5, 0.4, 0.6)), ("[x", "*y")), (HOSTILE,))
    text = as_latex(table, "tab:x")
    rows = text.split("\\midrule\n", 1)[1].split("\\bottomrule")[0].splitlines()
    assert len(rows) == 3 and all(row.endswith(r" \\") for row in rows)
    assert all(len(re.findall(r"(?<!\\)&", row)) == 1 for row in rows[1:])
    assert "\\scriptsize {[}.40,.60]" in rows[1]
    assert not re.search(r"\\\\\s*[\[*]", text), "no bracket or star follows a line break"


def test_latex_has_minus_signs_in_numbers_and_hyphens_in_names() -> None:
    row = as_latex(
        Table("x", ("a", "b"), (("DR-IKE-2", Estimate(-0.119, -0.25, -0.01)), ("x", "2026-11-20 [-1]"))), "tab:x"
    )
    assert r"DR-IKE-2 & $-$0.119 {\scriptsize {[}$-$.25,$-$.01]} \\" in row
    assert "x & 2026-11-20 {[}-1]" in row


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(demo: Path, tmp_path: Path) -> None:
    hostile = Table(HOSTILE, ("a", "b"), ((HOSTILE,), (HOSTILE, Estimate(-0.5, 0.4, 0.6)), ("[x", "*y")), (HOSTILE,))
    (tmp_path / "tables.tex").write_text(latex(document(grouped(read_runs([demo])))) + as_latex(hostile, "x"), "utf-8")
    packages = r"\usepackage[T1]{fontenc}\usepackage{booktabs}"
    page = rf"\documentclass{{article}}{packages}\begin{{document}}\input{{tables.tex}}\end{{document}}"
    (tmp_path / "page.tex").write_text(page, "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, errors="replace", check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
