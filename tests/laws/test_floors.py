"""The tree: a module imports only from floors below it, in no circle, and torch only where tensors live."""

from __future__ import annotations

import ast
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
    "models.local.huggingface", "models.local.completing", "models.local.checkpoints",
    "models.local.architecture", "models.local.attention", "models.local.plans", "models.local.memory",
    "models.local.prefix_cache", "models.local.scoring", "models.local.self_check", "models.local.scorer",
    "encoders.frozen", "support.huggingface", "research.editors.retriever",
    "research.training.algorithm1", "research.training.s_objective",
    "research.training.policy_tensors", "research.runs.checkpoint",
}  # fmt: skip

COMMANDS = {
    "tools/tinyfacts/__main__.py"
}  # command lines of their own, which print tables as drike does
MODULES = {
    ".".join(p.relative_to(SOURCE).with_suffix("").parts): p for p in sorted(SOURCE.rglob("*.py"))
}


def floor_of(module: str) -> float:
    module = module.removesuffix(".__init__")
    return OWN.get(module, FLOORS.get(module.split(".")[0], -1))


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """(module, whether it is imported when the file is) of every import in the file, TYPE_CHECKING blocks left out."""
    found: list[tuple[str, bool]] = []

    def visit(node: ast.AST, top: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, top) for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module:
                inner = [f"{child.module}.{alias.name}" for alias in child.names]
                found.extend(
                    (name if name.removeprefix("drike.") in MODULES else child.module, top)
                    for name in inner
                )
            visit(
                child,
                top and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda),
            )

    visit(ast.parse(path.read_text("utf-8")), True)
    return found


def edges() -> dict[str, set[str]]:
    """For every module the modules of drike that it imports, at once or later."""
    known = {name.removesuffix(".__init__"): name for name in MODULES}
    found: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        targets = {
            name.removeprefix("drike.") for name, _ in imports(path) if name.startswith("drike.")
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
        used = [name for name, _ in imports(path) if name.startswith("drike.cli")]
        assert not used, f"{path} imports {used}: move what it needs into the library"


def test_every_module_has_a_floor() -> None:
    assert [module for module in MODULES if module != "__init__" and floor_of(module) < 0] == []


def test_modules_import_only_from_lower_floors() -> None:
    upwards = [
        f"{module} (floor {floor_of(module)}) imports {name} (floor {floor_of(name.removeprefix('drike.'))})"
        for module, path in MODULES.items()
        for name, _ in imports(path)
        if module != "__init__" and name.startswith("drike.")
        if name.split(".")[1] != module.split(".", maxsplit=1)[0]
        if floor_of(name.removeprefix("drike.")) >= floor_of(module)
    ]
    assert upwards == []


def test_torch_is_imported_only_in_tensor_modules() -> None:
    heavy = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        for name, _ in imports(path)
        if name.split(".")[0] in ("torch", "transformers")
        and module not in TORCH
        and not module.startswith("cli")
    ]
    assert heavy == []


def test_importing_drike_stays_light() -> None:
    import subprocess
    import sys

    code = "import sys, drike; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'numpy', 'rich')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
