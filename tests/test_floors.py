"""The house: a module imports only from floors below it, and torch only where tensors live."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "drike"

FLOORS = {
    "edits": 0, "answers": 0, "files": 0, "paper": 0, "parallel": 0,
    "demonstrations": 1, "metrics": 1,
    "prompts": 2, "budget": 2, "order": 2, "feedback": 2, "fitting": 2.5,
    "datasets": 3, "models": 3, "encoder": 3, "tinyfacts": 3,
    "pool": 4, "retriever": 4, "controllers": 4,
    "editors": 5,
    "reinforce": 6, "evaluate": 6, "edited": 6, "casestudy": 6, "checkpoint": 6, "report": 6, "runs": 6, "studies": 6,
    "cli": 7,
}  # fmt: skip
# runs keeps the records of its floor, studies count them; reports read runs and show case studies
HIGHER = {
    "datasets.inspect": 4, "runs": 6.5, "studies": 6.5, "report.reading": 6.6, "report.studies": 6.6, "__init__": 8,
    "__main__": 8,
}  # fmt: skip
TORCH = {
    "models.huggingface", "models.attention", "models.scoring", "models.sharing",
    "models.decoding", "models.loading", "models.memory", "models.trunks", "encoder.frozen",
    "encoder.sources", "retriever", "controllers", "reinforce", "checkpoint",
}  # fmt: skip

MODULES = {".".join(p.relative_to(SOURCE).with_suffix("").parts): p for p in sorted(SOURCE.rglob("*.py"))}


def floor_of(module: str) -> float:
    module = module.removesuffix(".__init__")
    if module.startswith("tinyfacts."):
        return 6  # what makes and checks TinyFacts evaluates; its rows and paths stand on floor 3
    return HIGHER.get(module, FLOORS.get(module.split(".")[0], -1))


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
                found.extend((name if name.removeprefix("drike.") in MODULES else child.module, top) for name in inner)
            visit(child, top and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    visit(ast.parse(path.read_text("utf-8")), True)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down(module: str) -> None:
    if module == "__init__":
        return
    here, package = floor_of(module), module.split(".", maxsplit=1)[0]
    assert here >= 0, f"{module} has no floor: give it one here and in docs/method.md"
    for name, _ in imports(MODULES[module]):
        if not name.startswith("drike."):
            continue
        target = name.removeprefix("drike.")
        sibling = target.split(".")[0] == package
        assert sibling or floor_of(target) < here, f"{module} (floor {here}) imports {name} (floor {floor_of(target)})"


@pytest.mark.parametrize("module", MODULES)
def test_torch_is_imported_only_where_tensors_live(module: str) -> None:
    if module.startswith("tinyfacts.") or module in TORCH:
        return
    heavy = [name for name, _ in imports(MODULES[module]) if name.split(".")[0] in ("torch", "transformers")]
    assert not heavy or module.startswith("cli"), f"{module} imports {heavy}"


def test_importing_drike_stays_light() -> None:
    import subprocess
    import sys

    code = "import sys, drike; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'numpy', 'rich')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
