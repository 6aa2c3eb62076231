"""How the code is cut: lengths of functions and modules, parameters, and one name for one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "drike"
MODULES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}
LINES, FUNCTION, PARAMETERS, LOOPS = 400, 60, 8, 20  # the most that is allowed of each; LOOPS: fewer than
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def parameters(function: Function) -> int:
    """Without `self` and `cls`."""
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in arguments)


@pytest.mark.parametrize("module", MODULES)
def test_modules_and_functions_are_short(module: str) -> None:
    assert len((SOURCE / module).read_text("utf-8").splitlines()) <= LINES
    lengths = {f.name: (f.end_lineno or f.lineno) - f.lineno + 1 for f in functions(MODULES[module])}
    assert {name: length for name, length in lengths.items() if length > FUNCTION} == {}


@pytest.mark.parametrize("module", [module for module in MODULES if not module.startswith("cli/")])
def test_a_function_with_many_parameters_wants_a_noun(module: str) -> None:
    wide = {f.name: parameters(f) for f in functions(MODULES[module]) if parameters(f) > PARAMETERS}
    assert wide == {}


def test_loop_variables_are_named_after_what_they_run_over() -> None:
    loops = [
        f"{module}:{target.lineno}"
        for module, tree in MODULES.items()
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For | ast.AsyncFor | ast.comprehension)
        for target in ast.walk(loop.target)
        if isinstance(target, ast.Name) and target.id == "one"
    ]
    assert len(loops) < LOOPS, loops


def test_one_class_has_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
