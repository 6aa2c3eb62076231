"""drike: in-context knowledge editing for language models whose weights you cannot touch.

A public name (`__init__.pyi` lists them) is imported at its first use: `import drike` loads no
torch.
"""

import re as _re
from functools import cache as _cache
from importlib import import_module as _import_module
from pathlib import Path as _Path
from typing import Any

# In the stub: "from drike.edits.edit import Edit as Edit", and "load = _models.load".
_IMPORT = _re.compile(
    r"^from (?P<module>\S+) import (?P<name>\w+) as (?P<alias>\w+)$", _re.MULTILINE
)
_MEMBER = _re.compile(r"^(?P<alias>\w+) = (?P<module>\w+)\.(?P<name>\w+)$", _re.MULTILINE)


@_cache
def _homes() -> dict[str, tuple[str, str]]:
    """For each public name of the stub its module and its name there."""
    stub = _Path(__file__).with_suffix(".pyi").read_text("utf-8")
    homes: dict[str, tuple[str, str]] = {}
    for match in _IMPORT.finditer(stub):
        homes[match["alias"]] = match["module"], match["name"]
    for match in _MEMBER.finditer(stub):
        module = ".".join(homes[match["module"]])
        homes[match["alias"]] = module, match["name"]
    return {alias: home for alias, home in homes.items() if not alias.startswith("_")}


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    homes = _homes()
    if name == "__all__":
        return sorted(homes)
    if name not in homes:
        raise AttributeError(f"module 'drike' has no attribute {name!r}")
    module, name_there = homes[name]
    return getattr(_import_module(module), name_there)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(_homes())
