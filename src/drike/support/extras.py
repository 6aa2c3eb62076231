"""What is here: extras, whose packages an install may lack, versions of packages, and signals that end a process."""

import platform
import signal
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

EXTRAS = {  # with the packages that each brings
    "encoder": ("onnx", "onnxruntime", "tokenizers"), "api": ("openai",),
    "local": ("torch", "transformers", "sentence_transformers", "safetensors", "huggingface_hub", "jinja2"),
    "postgres": ("psycopg",), "ray": ("ray",),
}  # fmt: skip
_OF_RESULTS = (
    "drike",
    "torch",
    "transformers",
    "openai",
    "sentence-transformers",
    "safetensors",
    "numpy",
    "ray",
)


def installed(extra: str) -> bool:
    """Whether all packages of an extra are here."""
    return all(map(find_spec, EXTRAS[extra]))


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a result depends on."""
    here = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _OF_RESULTS:
        here[package] = "not installed"
        with suppress(PackageNotFoundError):
            here[package] = version(package)
    return here


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


def ending_signals() -> tuple[int, ...]:
    """SIGTERM, and where there is one SIGHUP, which a closed terminal sends; not if it is ignored, as under nohup."""
    hangup: list[int] = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
    return signal.SIGTERM, *(
        number for number in hangup if signal.getsignal(number) is not signal.SIG_IGN
    )
