"""Tables for a paper: LaTeX with booktabs; every cell is escaped to plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from drike.support.table import Cell, Table, parts

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "*": "{*}", "`": r"\textasciigrave{}",
}  # fmt: skip
_MINUS = re.compile(r"(?<![\w.)\]-])-(?=[.\d])")
_NARROW = 6  # columns; a wider table is set in a smaller font, to fit the page
HEAD = "% Needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}.\n"


def as_latex(table: Table, label: str) -> str:
    r"""Write a table environment; `label` is for \ref: letters, digits, colons and hyphens."""
    width = len(table.header)
    columns = "l" + ("l" if table.wide else "r") * (width - 1)
    lines: list[str] = []
    for row in table.rows:
        if len(row) == 1:
            lines += [r"\midrule"] if lines else []
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textit{{{_set(row[0])}}}}} \\")
        else:
            lines.append(_line(map(_set, row)))
    body = "\n".join(lines)
    small, narrow = ("\\footnotesize\n", "\\setlength{\\tabcolsep}{3pt}\n") if width > _NARROW else ("", "")
    caption = escaped(" ".join((f"{table.title.removesuffix('.')}.", *table.notes)))
    return rf"""\begin{{table}}
\centering
{small}\caption{{{caption}}}
\label{{{label}}}
{narrow}\begin{{tabular}}{{{columns}}}
\toprule
{_line(map(escaped, table.header))}
\midrule
{body}
\bottomrule
\end{{tabular}}
\end{{table}}
"""


def escaped(text: str) -> str:
    """Escape text for LaTeX, on one line; brackets and stars cannot become arguments of a line break."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return "".join(_SPECIAL.get(c, c) for c in " ".join(printable.split()))


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _set(cell: Cell) -> str:
    """A cell with its interval and note in small type; numbers have a minus sign, not a hyphen."""
    if isinstance(cell, str):
        return escaped(cell)
    value, small = (_MINUS.sub("$-$", escaped(text)) for text in parts(cell))
    return f"{value} {{\\scriptsize {small}}}" if small else value
