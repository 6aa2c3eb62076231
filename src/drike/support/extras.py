"""What is installed, and which signals end a process."""

import platform
import signal
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

EXTRAS = {  # with the packages that each brings
    "encoder": ("onnx", "onnxruntime", "tokenizers"),
    "api": ("openai",),
    "local": (
        "torch",
        "transformers",
        "sentence_transformers",
        "safetensors",
        "huggingface_hub",
        "jinja2",
        "gguf",
        "accelerate",
    ),
    "postgres": ("psycopg",),
    "ray": ("ray",),
    "traces": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
}
_RESULTS_DEPEND_ON = (
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
    """Whether all packages of an extra are installed."""
    return all(map(_is_there, EXTRAS[extra]))


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # what it is a part of is not there
        return False


def versions() -> dict[str, str]:
    """Versions of Python and of the packages a result depends on."""
    by_name = {"python": platform.python_version(), "machine": platform.machine()}
    for package in _RESULTS_DEPEND_ON:
        by_name[package] = "not installed"
        with suppress(PackageNotFoundError):
            by_name[package] = version(package)
    return by_name


def version_and_extras() -> str:
    """The version of drike, and the extras that are installed."""
    extras = ", ".join(extra for extra in EXTRAS if installed(extra))
    return f"drike {version('drike')}\nextras: {extras or 'none'}"


def missing_extra(problem: ModuleNotFoundError) -> str:
    """A sentence on the extra that brings a package which is not installed.

    Raises the problem if no extra does.
    """
    package = (problem.name or "").partition(".")[0]
    for extra, packages in EXTRAS.items():
        if package in [name.partition(".")[0] for name in packages]:
            return f"this needs {package}: pip install 'drike[{extra}]'"
    raise problem


def ending_signals() -> tuple[int, ...]:
    """SIGTERM, and where there is one SIGHUP, which a closed terminal sends.

    SIGHUP is left out if it is ignored, as under nohup.
    """
    if not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGTERM,)
    return signal.SIGTERM, signal.SIGHUP
