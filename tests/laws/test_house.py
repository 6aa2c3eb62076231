"""How the code is cut: lengths of functions and modules, parameters, and one name for one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "drike"
# The most that is allowed of each.
LINES = 500
FUNCTION = 60
PARAMETERS = 8
LOOPS = 20  # fewer than
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in SOURCE.rglob("*.py")
    }


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(function: Function) -> int:
    """In lines, without the docstring, which may hold a program."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    docstring = function.body[0]
    if ast.get_docstring(function) is None:
        return lines
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def parameters(function: Function) -> int:
    """Without `self` and `cls`."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in arguments)


def test_modules_are_short() -> None:
    lengths = {
        module: len((SOURCE / module).read_text("utf-8").splitlines()) for module in modules()
    }
    assert {module: length for module, length in lengths.items() if length > LINES} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{module}: {f.name}": length(f)
        for module, tree in modules().items()
        for f in functions(tree)
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION} == {}


def test_a_function_with_many_parameters_wants_a_noun() -> None:
    library = {module: tree for module, tree in modules().items() if not module.startswith("cli/")}
    wide = {
        f"{module}: {f.name}": parameters(f)
        for module, tree in library.items()
        for f in functions(tree)
    }
    assert {name: number for name, number in wide.items() if number > PARAMETERS} == {}


def test_loop_variables_are_named_after_what_they_run_over() -> None:
    loops = [
        f"{module}:{target.lineno}"
        for module, tree in modules().items()
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension)
        for target in ast.walk(loop.target)
        if isinstance(target, ast.Name) and target.id == "one"
    ]
    assert len(loops) < LOOPS, loops


def test_one_class_has_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
