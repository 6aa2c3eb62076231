"""Draw which package of drike imports which, as an SVG: `python -m tools.draw_imports > docs/architecture.svg`.

Every box is a module or a folder of `src/drike`, and stands one row above the highest box it
imports. An arrow points from importer to imported; one that a chain of other arrows already implies
is left out. Imports inside functions count, imports for type checking only do not. The drawing
needs nothing but the source, so a test can tell when it is stale.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "drike"
LEFT_OUT = {"__init__", "__main__"}  # public names and the entry point: they import everything
BOX, GAP, ROW, MARGIN = 116, 18, 74, 16

Graph = Mapping[str, frozenset[str]]


def imports_of(path: Path) -> Iterator[str]:
    """Top-level names below `drike` that a file imports."""
    stack: list[ast.AST] = [ast.parse(path.read_text("utf-8"))]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (
                alias.name.split(".")[1] for alias in node.names if alias.name.startswith("drike.")
            )
        elif isinstance(node, ast.ImportFrom) and node.module == "drike":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("drike."):
            yield node.module.split(".")[1]
        stack.extend(ast.iter_child_nodes(node))


def import_graph(source: Path = SOURCE) -> dict[str, frozenset[str]]:
    """Each package or module directly below `source`, with those it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).with_suffix("").parts[0]
        if name not in LEFT_OUT:
            found.setdefault(name, set()).update(set(imports_of(path)) - {name})
    return {name: frozenset(imported & found.keys()) for name, imported in found.items()}


def levels(graph: Graph) -> dict[str, int]:
    """The row of every box, 0 at the bottom. Raises graphlib.CycleError for a circle of imports."""
    at: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        at[name] = max((1 + at[imported] for imported in graph[name]), default=0)
    return at


def reduced(graph: Graph) -> dict[str, frozenset[str]]:
    """The graph without the arrows that a longer chain of arrows implies (transitive reduction)."""

    @cache
    def reachable(name: str) -> frozenset[str]:
        return graph[name].union(*map(reachable, graph[name]))

    return {
        name: frozenset(
            i for i in imported if not any(i in reachable(other) for other in imported - {i})
        )
        for name, imported in graph.items()
    }


def draw(graph: Graph) -> str:
    """The graph as an SVG, top row first."""
    at = levels(graph)
    rows = [
        sorted(name for name in graph if at[name] == row) for row in range(max(at.values()) + 1)
    ]
    width = 2 * MARGIN + max(len(row) for row in rows) * (BOX + GAP) - GAP
    height = 2 * MARGIN + len(rows) * ROW - (ROW - 34)
    place: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(reversed(rows)):
        left = (width - len(row) * (BOX + GAP) + GAP) / 2
        place |= {
            name: (left + i * (BOX + GAP), MARGIN + number * ROW) for i, name in enumerate(row)
        }
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-family="Helvetica, Arial, '
        'sans-serif" font-size="13" role="img" aria-label="Which package of drike imports which">',
        '<defs><marker id="a" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L10 5L0 10z" fill="#8a97a5"/></marker></defs>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
    ]
    for name, imported in sorted(reduced(graph).items()):
        x, y = place[name]
        for below in sorted(imported):
            u, v = place[below]
            lines.append(
                f'<path d="M{x + BOX / 2:g} {y + 34:g}C{x + BOX / 2:g} {y + 58:g} {u + BOX / 2:g} {v - 24:g} '
                f'{u + BOX / 2:g} {v:g}" fill="none" stroke="#8a97a5" marker-end="url(#a)"/>'
            )
    for name, (x, y) in place.items():
        folder = (SOURCE / name).is_dir()
        lines.append(
            f'<rect x="{x:g}" y="{y:g}" width="{BOX}" height="34" rx="6" fill="{"#e8f1f6" if folder else "#fff7e6"}" '
            f'stroke="#8a97a5"/><text x="{x + BOX / 2:g}" y="{y + 22:g}" text-anchor="middle">'
            f"{escape(name)}{'/' if folder else ''}</text>"
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(draw(import_graph()))
