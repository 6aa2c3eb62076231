"""One thread per process: the models in the tests are tiny, and waiting threads cost more than they save.

Tests run in several processes at once: each process has its own cache, and nothing depends on the terminal or on the
load of the machine.
"""

import gc
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from drike.models import named
from tests.fakes import postgres_servers
from tests.fakes.resuming import Resuming, sources_now
from tests.fakes.tally import pytest_addoption, pytest_terminal_summary, tally

__all__ = ["pytest_addoption", "pytest_terminal_summary", "tally"]  # hooks and a fixture

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["COLUMNS"] = "80"

# Background processes of a shell ignore Ctrl-C, and the tests of Ctrl-C would then wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("drike", deadline=None, max_examples=25)
settings.load_profile("drike")


def pytest_configure(config: pytest.Config) -> None:
    """Let `make real` go on where it was stopped."""
    if config.option.markexpr == "real":
        config.pluginmanager.register(Resuming(config.cache, sources_now()))


gc.set_threshold(200_000, 20, 20)  # garbage is collected seldom, which takes a tenth of the time


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all but every n-th case of a test marked `sampled(n)` to `make slow`."""
    counted: Counter[str] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None:
            continue
        test = item.nodeid.split("[")[0]
        if counted[test] % sampled.args[0]:
            item.add_marker(pytest.mark.slow)
        counted[test] += 1


def pytest_collection_finish() -> None:
    """Leave what was imported out of later garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def tinyfacts_answers_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TinyFacts' model, whose answers are exact, answer where no model is named."""
    is_here = named.is_here
    monkeypatch.setattr(
        named, "is_here", lambda name: name not in ("smollm2", "gemma-270m") and is_here(name)
    )


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a separate cache folder, except for what is slow to make and never changes: encoded texts and converted models."""
    from drike.support.files import cache_folder

    cache = tmp_path_factory.mktemp("cache")
    (cache / "drike").mkdir()
    for name in ("features", "models"):
        with suppress(OSError):  # if this fails, they are made again
            kept = cache_folder() / name
            kept.mkdir(parents=True, exist_ok=True)
            (cache / "drike" / kept.name).symlink_to(kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Make a folder once for all processes of the tests; nobody may change what is in it."""
    own = tmp_path_factory.getbasetemp()
    root = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def made(name: str, make: Callable[[Path], None]) -> Path:
        folder, finished = root / name, root / f"{name}.finished"
        with FileLock(root / f"{name}.lock"):
            if not finished.exists():
                make(folder)
                finished.touch()
        return folder

    return made


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgres_servers.Database]:
    """A PostgreSQL server; skips where there is none."""
    if why := postgres_servers.why_missing():
        pytest.skip(why)
    with postgres_servers.database() as server:
        yield server
