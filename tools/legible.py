"""Report how legible the code is: `python -m tools.legible [PATH ...] [--worst N] [--above X]`.

Without paths there is a row for each package of src/drike, where "." stands for the modules beside
the packages; with paths there is a row for each file or folder. The last row is about all of them.

How it counts:

* Nodes per line are the nodes of a function's syntax tree, as `ast.walk` finds them, over its
  lines from `def` on. Blank lines, docstrings and the function's decorators are left out,
  comments are not. A function inside another one counts by itself, and in the other one, too.
* Only functions of ten such lines and more are reported; shorter ones say little about density.
* Wide lines and tuple assignments are set against all lines that are not blank. Docstrings count
  here, since the limit on columns holds for them, too.
* A tuple assignment is `a, b = x, y`: a tuple on both sides.
* A module's length is that of its file, blank lines included.
* The public members of a class are its methods and properties; the fields of a dataclass are data.

It reports and enforces nothing: the exit code is 0, whatever the figures are.
"""

from __future__ import annotations

import argparse
import ast
import io
import math
import re
import statistics
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SOURCE = Path("src/drike")
SHORTEST_FUNCTION = 10  # lines
WIDEST_LINE = 100  # columns
LONGEST_MODULE = 500  # lines
MOST_MEMBERS = 12

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
FORMATTER_OFF = re.compile(r"# fmt: ?(skip|off)")


@dataclass(frozen=True)
class MeasuredFunction:
    """How large a function is, without docstrings."""

    path: Path
    line: int
    name: str
    lines: int
    nodes: int

    @property
    def density(self) -> float:
        """Nodes per line."""
        return self.nodes / self.lines


@dataclass(frozen=True)
class MeasuredFile:
    """What is counted in one file.

    functions: those long enough to be reported. length: its lines, with blank ones; filled:
    without them. wide: lines of 100 columns and more; too_wide: of more than 100.
    crowded_classes: a phrase about each. unformatted: comments that switch the formatter off.
    """

    path: Path
    functions: list[MeasuredFunction]
    length: int
    filled: int
    wide: int
    too_wide: int
    tuple_assignments: int
    crowded_classes: list[str]
    unformatted: int


Files = Sequence[MeasuredFile]


def measure(path: Path) -> MeasuredFile:
    """Measure a Python file. Raises OSError, SyntaxError."""
    source = path.read_text("utf-8")
    tree = ast.parse(source, str(path))
    lines = source.removesuffix("\n").split("\n")
    widths = [len(line) for line in lines if line.strip()]
    return MeasuredFile(
        path=path,
        functions=long_functions(path, tree, lines),
        length=len(lines),
        filled=len(widths),
        wide=sum(width >= WIDEST_LINE for width in widths),
        too_wide=sum(width > WIDEST_LINE for width in widths),
        tuple_assignments=count_tuple_assignments(tree),
        crowded_classes=crowded_classes(tree),
        unformatted=count_unformatted(source),
    )


def long_functions(path: Path, tree: ast.Module, lines: Sequence[str]) -> list[MeasuredFunction]:
    """The functions and methods of a file that are long enough to be reported."""
    functions = []
    for node in ast.walk(tree):
        if isinstance(node, Function):
            length = count_lines(node, lines)
            nodes = count_nodes(node)
            functions.append(MeasuredFunction(path, node.lineno, node.name, length, nodes))
    return [function for function in functions if function.lines >= SHORTEST_FUNCTION]


def count_lines(function: Function, lines: Sequence[str]) -> int:
    """The lines of a function, from `def` on, without docstrings and blank lines."""
    numbers = line_numbers(function)
    for docstring in docstrings_in(function):
        numbers -= line_numbers(docstring)
    return sum(bool(lines[number - 1].strip()) for number in numbers)


def line_numbers(node: ast.stmt) -> set[int]:
    """The numbers of a statement's lines."""
    last = node.end_lineno or node.lineno
    return set(range(node.lineno, last + 1))


def count_nodes(function: Function) -> int:
    """The nodes of a function's syntax tree, without those of docstrings and its decorators."""
    left_out = [*docstrings_in(function), *function.decorator_list]
    return size(function) - sum(map(size, left_out))


def size(node: ast.AST) -> int:
    """The nodes of a syntax tree."""
    return sum(1 for _ in ast.walk(node))


def docstrings_in(function: Function) -> Iterator[ast.stmt]:
    """The docstrings of a function, and of the functions and classes inside it."""
    for node in ast.walk(function):
        if not isinstance(node, Definition):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            yield node.body[0]


def count_tuple_assignments(tree: ast.Module) -> int:
    """How many assignments are like `a, b = x, y`."""
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return sum(is_tuple_assignment(assignment) for assignment in assignments)


def is_tuple_assignment(assignment: ast.Assign) -> bool:
    """Whether an assignment has a tuple on both sides."""
    tuple_targets = [target for target in assignment.targets if isinstance(target, ast.Tuple)]
    return bool(tuple_targets) and isinstance(assignment.value, ast.Tuple)


def crowded_classes(tree: ast.Module) -> list[str]:
    """The classes with more public members than they should have, and with how many."""
    crowded = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            members = public_members(node)
            if len(members) > MOST_MEMBERS:
                crowded.append(f"{node.name} has {len(members)} public members")
    return crowded


def public_members(class_: ast.ClassDef) -> set[str]:
    """The names of a class's public methods and properties; a setter is no further one."""
    methods = [node for node in class_.body if isinstance(node, Function)]
    names = {method.name for method in methods}
    return {name for name in names if not name.startswith("_")}


def count_unformatted(source: str) -> int:
    """The comments that keep the formatter from a part of the source."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return sum(bool(FORMATTER_OFF.search(comment)) for comment in comments)


def files_in(path: Path) -> list[Path]:
    """A file itself, or all Python files of a folder."""
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def packages_of(source: Path) -> dict[str, list[Path]]:
    """The files of every package directly below `source`, and of the modules beside them."""
    packages: dict[str, list[Path]] = {}
    for file in files_in(source):
        parts = file.relative_to(source).parts
        package = parts[0] if len(parts) > 1 else "."
        packages.setdefault(package, []).append(file)
    return packages


def filled_lines(files: Files) -> int:
    """How many lines are not blank."""
    return sum(file.filled for file in files)


def densities(files: Files) -> list[float]:
    """The nodes per line of every function."""
    return [function.density for file in files for function in file.functions]


def number_of_functions(files: Files) -> int:
    """How many functions are long enough to be reported."""
    return len(densities(files))


def median_density(files: Files) -> float:
    """The median of the functions' nodes per line; 0 without functions."""
    return statistics.median(densities(files) or [0.0])


def ninetieth_density(files: Files) -> float:
    """The nodes per line that a tenth of the functions exceed."""
    values = densities(files)
    if len(values) < 2:
        return highest_density(files)
    deciles = statistics.quantiles(values, n=10, method="inclusive")
    return deciles[-1]


def highest_density(files: Files) -> float:
    """The nodes per line of the densest function."""
    return max(densities(files), default=0.0)


def percentage_of_wide_lines(files: Files) -> float:
    """How many of 100 lines are wide."""
    wide = sum(file.wide for file in files)
    return 100 * share(wide, filled_lines(files))


def lines_too_wide(files: Files) -> int:
    """How many lines are beyond the limit on columns."""
    return sum(file.too_wide for file in files)


def tuple_assignments(files: Files) -> float:
    """How many tuple assignments there are in 1,000 lines."""
    assignments = sum(file.tuple_assignments for file in files)
    return 1000 * share(assignments, filled_lines(files))


def long_modules(files: Files) -> int:
    """How many modules are too long."""
    return sum(file.length > LONGEST_MODULE for file in files)


def classes_too_crowded(files: Files) -> int:
    """How many classes have too many public members."""
    return sum(len(file.crowded_classes) for file in files)


def unformatted(files: Files) -> int:
    """How many comments keep the formatter away."""
    return sum(file.unformatted for file in files)


def share(part: int, whole: int) -> float:
    """A part of a whole, where nothing of nothing is 0."""
    return part / whole if whole else 0.0


class Column(NamedTuple):
    """A column of the table: its heading, what that means, and the figure of some files."""

    heading: str
    meaning: str
    figure: Callable[[Files], float]


COLUMNS = (
    Column("lines", "lines that are not blank", filled_lines),
    Column("functions", "functions of 10 lines and more", number_of_functions),
    Column("median", "nodes per line of these, their median", median_density),
    Column("p90", "the same, 90th percentile", ninetieth_density),
    Column("max", "the same, highest", highest_density),
    Column("wide %", "of all lines, those of 100 columns and more", percentage_of_wide_lines),
    Column(">100", "lines of more than 100 columns", lines_too_wide),
    Column("tuples", "assignments like a, b = x, y in 1,000 lines", tuple_assignments),
    Column("modules", "modules of more than 500 lines", long_modules),
    Column("classes", "classes with more than 12 public members", classes_too_crowded),
    Column("fmt", "comments that switch the formatter off", unformatted),
)


def table(groups: Mapping[str, Files]) -> Iterator[str]:
    """The lines of a table with a row for each group of files."""
    headings = [column.heading for column in COLUMNS]
    rows = [["", *headings]]
    for name, files in groups.items():
        rows.append([name, *figures(files)])
    name_width = max(len(row[0]) for row in rows)
    for name, *cells in rows:
        yield f"{name:{name_width}}" + "".join(f"{cell:>11}" for cell in cells)


def figures(files: Files) -> list[str]:
    """The figures of a row, one for each column."""
    return [written(column.figure(files)) for column in COLUMNS]


def written(figure: float) -> str:
    """A count as it is, a measure with one decimal."""
    return str(figure) if isinstance(figure, int) else f"{figure:.1f}"


def legend() -> Iterator[str]:
    """What the headings mean."""
    for column in COLUMNS:
        yield f"{column.heading}: {column.meaning}"


def outliers(files: Files) -> Iterator[str]:
    """The modules that are too long, and the classes with too many public members."""
    for file in files:
        if file.length > LONGEST_MODULE:
            yield f"{file.path}: {file.length} lines"
        for crowded_class in file.crowded_classes:
            yield f"{file.path}: {crowded_class}"


def described(functions: Iterable[MeasuredFunction]) -> Iterator[str]:
    """Where each function is, and how large and dense."""
    for function in functions:
        place = f"{function.path}:{function.line}"
        size = f"{function.lines} lines, {function.density:.1f} nodes per line"
        yield f"{place} {function.name}: {size}"


def report(groups: Mapping[str, Files]) -> Iterator[str]:
    """The table, what its columns are, and the modules and classes that are too large."""
    files = distinct_files(groups)
    yield from table({**groups, "all": files})
    yield from section("The columns:", legend())
    yield from section("Too long or too crowded:", outliers(files))


def lists(groups: Mapping[str, Files], worst: int, above: float) -> Iterator[str]:
    """The `worst` densest functions, and those of more nodes per line than `above`."""
    functions = densest_first(distinct_files(groups))
    yield from section("The densest functions:", described(functions[:worst]))
    dense = [function for function in functions if function.density > above]
    title = f"Functions of more than {above:g} nodes per line ({len(dense)}):"
    yield from section(title, described(dense))


def section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """Lines under a title; nothing where there are no lines."""
    found = list(lines)
    if found:
        yield from ["", title, *found]


def distinct_files(groups: Mapping[str, Files]) -> list[MeasuredFile]:
    """The files of all groups, each once."""
    by_path = {}
    for files in groups.values():
        for file in files:
            by_path[file.path] = file
    return list(by_path.values())


def densest_first(files: Files) -> list[MeasuredFunction]:
    """The functions of all files, the one with the most nodes per line first."""
    functions = [function for file in files for function in file.functions]
    return sorted(functions, key=lambda function: function.density, reverse=True)


PATHS = "a row for each file or folder (default: for each package of src/drike)"
WORST = "list the N densest functions"
ABOVE = "list the functions of more than X nodes per line"


def command_line() -> argparse.ArgumentParser:
    """The arguments that the report takes."""
    summary = "Report how legible the code is."
    parser = argparse.ArgumentParser(prog="python -m tools.legible", description=summary)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help=PATHS)
    parser.add_argument("--worst", type=int, default=0, metavar="N", help=WORST)
    parser.add_argument("--above", type=float, default=math.inf, metavar="X", help=ABOVE)
    return parser


def groups_of(paths: Sequence[Path]) -> dict[str, list[MeasuredFile]]:
    """The measured files of each path or, without paths, of each package."""
    files_by_name = {str(path): files_in(path) for path in paths}
    if not paths:
        files_by_name = packages_of(SOURCE)
    return {name: list(map(measure, files)) for name, files in files_by_name.items()}


def main() -> None:
    """Print the report."""
    parser = command_line()
    asked = parser.parse_args()
    for path in asked.paths:
        if not path.exists():
            parser.error(f"there is no {path}")
    groups = groups_of(asked.paths)
    listed = lists(groups, asked.worst, asked.above)
    print(*report(groups), *listed, sep="\n")


if __name__ == "__main__":
    main()
