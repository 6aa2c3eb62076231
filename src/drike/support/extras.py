"""The extras of drike, whose packages an install may lack."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

EXTRAS = {
    "encoder": ("onnx", "onnxruntime", "tokenizers"),
    "api": ("openai",),
    "local": ("torch", "transformers", "sentence_transformers", "safetensors", "huggingface_hub", "jinja2"),
    "postgres": ("psycopg",),
    "ray": ("ray",),
}  # with the packages that each brings


def installed(extra: str) -> bool:
    """Whether all packages of an extra are here."""
    return all(map(find_spec, EXTRAS[extra]))


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
