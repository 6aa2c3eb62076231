"""The extras of drike, whose packages an install may lack, and the versions of those that are here."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

EXTRAS = {
    "encoder": ("onnx", "onnxruntime", "tokenizers"),
    "api": ("openai",),
    "local": ("torch", "transformers", "sentence_transformers", "safetensors", "huggingface_hub", "jinja2"),
    "postgres": ("psycopg",),
    "ray": ("ray",),
}  # with the packages that each brings
_OF_RESULTS = ("drike", "torch", "transformers", "openai", "sentence-transformers", "safetensors", "numpy", "ray")


def installed(extra: str) -> bool:
    """Whether all packages of an extra are here."""
    return all(map(find_spec, EXTRAS[extra]))


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a result depends on."""
    known = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _OF_RESULTS:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            known[package] = "not installed"
    return known


def version_and_extras() -> str:
    """The version of drike, and the extras that are installed."""
    return f"drike {version('drike')}\nextras: {', '.join(filter(installed, EXTRAS)) or 'none'}"


def missing_extra(problem: ModuleNotFoundError) -> str:
    """A sentence on the extra that brings a package which is not installed. Raises the problem if no extra does."""
    package = (problem.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in packages:
            return f"this needs {package}: pip install 'drike[{extra}]'"
    raise problem
