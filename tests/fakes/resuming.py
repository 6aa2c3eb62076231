"""`make real`, stopped or failed, goes on where it was: what passed with the same sources is not run again."""

from __future__ import annotations

import hashlib
import subprocess
from typing import Any

import pytest

_KEPT = "drike/real"  # in pytest's cache: {"sources": ..., "seconds": {test: seconds}}


class Resuming:
    """A plugin of pytest. It also says how long each test takes, once it has ended."""

    def __init__(self, cache: Any, sources: str) -> None:
        self._cache = cache
        self._sources = sources
        kept = cache.get(_KEPT, {})
        self._seconds: dict[str, float] = kept["seconds"] if kept.get("sources") == sources else {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what has passed."""
        for item in items:
            if item.nodeid in self._seconds and item.get_closest_marker("real"):
                why = f"passed before, in {self._seconds[item.nodeid]:.0f} s, with the same sources"
                item.add_marker(pytest.mark.skip(reason=why))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember what passes."""
        if report.when != "call":
            return
        print(f"\n{report.nodeid}: {report.outcome} in {report.duration:.0f} s")
        if report.passed and self._sources:
            self._seconds[report.nodeid] = report.duration
            self._cache.set(_KEPT, {"sources": self._sources, "seconds": self._seconds})


def sources_now() -> str:
    """What changes whenever a tracked file does; "" where git cannot say."""
    try:
        parts = [
            subprocess.run(["git", *command], capture_output=True, check=True).stdout
            for command in (("rev-parse", "HEAD^{tree}"), ("diff", "HEAD"))
        ]
    except (OSError, subprocess.CalledProcessError):
        return ""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
