"""One thread a process: the models of the tests are tiny, and waiting threads cost more than they do.

Tests run in several processes at once: each has a cache of its own, and nothing depends on the terminal or on how busy
the machine is.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import settings

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ["COLUMNS"] = "80"

# A shell that starts us in the background has Ctrl-C ignored, and then the tests of Ctrl-C would wait for nothing.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("drike", deadline=None)
settings.load_profile("drike")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder for this process; only encoded texts, which take long and never change, are the user's."""
    from drike import encoders

    cache = tmp_path_factory.mktemp("cache")
    (cache / "drike").mkdir()
    with suppress(OSError):  # without them the texts are encoded again
        encoders.features_folder().mkdir(parents=True, exist_ok=True)
        (cache / "drike" / "features").symlink_to(encoders.features_folder())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield
