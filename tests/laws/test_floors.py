"""The tree: a module imports only from floors below it, in no circle, and torch only where tensors live."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "drike"

FLOORS = {
    "errors": 0,
    "support": 1, "tinyfacts": 1,
    "encoders": 2,
    "text": 3,
    "answers": 4,
    "edits": 5,
    "prompts": 6,
    "models": 7, "stores": 7,
    "gates": 8,
    "conversations": 9,
    "live": 10,
    "gateway": 11, "research": 11,
    "adapters": 12,
    "cli": 13,
}  # fmt: skip
OWN = {"__init__": 14, "__main__": 14}
TORCH = {
    "models.local.huggingface", "models.local.completer", "models.local.checkpoints",
    "models.local.architecture", "models.local.attention", "models.local.plans", "models.local.preparation", "models.local.memory",
    "models.local.gguf_models", "models.local.prefix_cache", "models.local.scoring", "models.local.self_check",
    "models.local.scorer", "models.local.contrast", "models.local.reach", "models.local.sharing",
    "encoders.torch_pass", "support.huggingface", "research.editors.retriever",
    "research.training.algorithm1", "research.training.s_objective",
    "research.training.policy_tensors", "research.runs.checkpoint",
}  # fmt: skip

# Command lines of their own, which print tables as drike does; and the measure of what commands enter.
COMMANDS = {"tools/tinyfacts/__main__.py", "tools/walk.py"}
MODULES = {
    ".".join(p.relative_to(SOURCE).with_suffix("").parts): p for p in sorted(SOURCE.rglob("*.py"))
}


def floor_of(module: str) -> float:
    module = module.removesuffix(".__init__")
    return OWN.get(module, FLOORS.get(module.split(".")[0], -1))


@dataclass(frozen=True)
class Import:
    """A module that a file imports. at_once: when the file is. for_types: under TYPE_CHECKING, so never."""

    name: str
    at_once: bool
    for_types: bool


@cache
def imports(path: Path) -> list[Import]:
    """Every import in a file, also those for types alone: these are read together with the file, too."""
    found: list[Import] = []

    def visit(node: ast.AST, at_once: bool, for_types: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend(Import(alias.name, at_once, for_types) for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                for alias in child.names:
                    name = f"{child.module}.{alias.name}"
                    is_module = name.removeprefix("drike.") in MODULES
                    found.append(Import(name if is_module else child.module, at_once, for_types))
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            is_for_types = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            visit(child, at_once and not is_function, for_types or is_for_types)

    visit(ast.parse(path.read_text("utf-8")), at_once=True, for_types=False)
    return found


def edges() -> dict[str, set[str]]:
    """For every module the modules of drike that it imports, at once or later."""
    known = {name.removesuffix(".__init__"): name for name in MODULES}
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        targets = {
            imported.name.removeprefix("drike.")
            for imported in imports(path)
            if imported.name.startswith("drike.")
        }
        found[module] = {known[target] for target in targets if target in known} - {module}
    return found


def test_there_are_no_import_cycles() -> None:
    try:
        TopologicalSorter(edges()).prepare()
    except CycleError as circle:
        raise AssertionError(f"imports in a circle: {' <- '.join(circle.args[1])}") from None


def test_only_the_command_line_imports_the_command_line() -> None:
    root = SOURCE.parents[1]
    files = [
        path for name, path in MODULES.items() if not name.startswith("cli") and name != "__main__"
    ]
    for path in [*files, *root.glob("benchmarks/**/*.py"), *root.glob("tools/**/*.py")]:
        if path.relative_to(root).as_posix() in COMMANDS:
            continue
        used = [found.name for found in imports(path) if found.name.startswith("drike.cli")]
        assert not used, f"{path} imports {used}: move what it needs into the library"


def test_every_module_has_a_floor() -> None:
    assert [module for module in MODULES if module != "__init__" and floor_of(module) < 0] == []


def test_modules_import_only_from_lower_floors() -> None:
    upwards = []
    for module, path in MODULES.items():
        for imported in imports(path):
            if module == "__init__" or not imported.name.startswith("drike."):
                continue
            target = imported.name.removeprefix("drike.")
            same_package = target.split(".")[0] == module.split(".", maxsplit=1)[0]
            if not same_package and floor_of(target) >= floor_of(module):
                upwards.append(
                    f"{module} (floor {floor_of(module)}) imports {target} (floor {floor_of(target)})"
                )
    assert upwards == []


def test_torch_is_imported_only_in_tensor_modules() -> None:
    heavy = [
        f"{module} imports {imported.name}"
        for module, path in MODULES.items()
        for imported in imports(path)
        if imported.name.split(".")[0] in ("torch", "transformers")
        if not imported.for_types
        if module not in TORCH and not module.startswith("cli")
    ]
    assert heavy == []


def test_importing_drike_stays_light() -> None:
    import subprocess
    import sys

    code = "import sys, drike; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'numpy', 'rich')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
