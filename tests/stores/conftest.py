"""A store of each backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drike.edits.times import stamp
from drike.stores.edit_store import EditStore
from drike.stores.sqlite import SqliteStore
from tests.fakes.stores import NOON, Opener


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opener(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Opens a store of each backend, where it is noon."""
    monkeypatch.setattr("drike.stores.clock.now", lambda: stamp(NOON))
    if request.param == "sqlite":
        return SqliteStore
    server = request.getfixturevalue("postgres")

    def open_postgres(path: Path) -> EditStore:
        from drike.stores.postgres import PostgresStore

        return PostgresStore(server.of(path))

    return open_postgres


@pytest.fixture
def store(opener: Opener, tmp_path: Path) -> Iterator[EditStore]:
    opened = opener(tmp_path / "edits.db")
    yield opened
    opened.close()
