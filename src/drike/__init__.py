"""drike: in-context knowledge editing for language models whose weights you cannot touch.

A public name (`__init__.pyi` lists them) is imported at its first use: `import drike` loads no torch.
"""

import re as _re
from functools import cache as _cache
from importlib import import_module as _import
from pathlib import Path as _Path
from typing import Any


@_cache
def _homes() -> dict[str, tuple[str, str]]:
    """For each public name of the stub its module and its name there."""
    stub = _Path(__file__).with_suffix(".pyi").read_text("utf-8")
    imports = _re.findall(r"^from (\S+) import (\w+) as (\w+)$", stub, _re.MULTILINE)
    homes = {alias: (module, name) for module, name, alias in imports}
    for alias, module, name in _re.findall(r"^(\w+) = (\w+)\.(\w+)$", stub, _re.MULTILINE):
        homes[alias] = ".".join(homes[module]), name
    return {alias: home for alias, home in homes.items() if not alias.startswith("_")}


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
