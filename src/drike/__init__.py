"""drike: in-context knowledge editing for language models whose weights you cannot touch.

The public names are listed in `__init__.pyi`. A name is imported from its module when it is first used: importing drike
loads neither torch nor transformers.
"""

import ast as _ast
from functools import cache as _cache
from importlib import import_module as _import
from pathlib import Path as _Path
from typing import Any


@_cache
def _homes() -> dict[str, tuple[str, str]]:
    """For each public name of the stub its module and its name there."""
    imported: dict[str, tuple[str, str]] = {}
    public: dict[str, tuple[str, str]] = {}
    for node in _ast.parse(_Path(__file__).with_suffix(".pyi").read_text("utf-8")).body:
        match node:
            case _ast.ImportFrom(module=str(module), names=[_ast.alias(name=name, asname=str(alias))]):
                (imported if alias.startswith("_") else public)[alias] = module, name
            case _ast.Assign(targets=[_ast.Name(id=alias)], value=_ast.Attribute(value=_ast.Name(id=home), attr=name)):
                public[alias] = ".".join(imported[home]), name
    return public


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name == "__all__":
        return sorted(_homes())
    if name not in _homes():
        raise AttributeError(f"module 'drike' has no attribute {name!r}")
    module, attribute = _homes()[name]
    return getattr(_import(module), attribute)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(_homes())
