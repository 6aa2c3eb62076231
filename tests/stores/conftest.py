"""A store of each backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drike.stores.log import EditStore
from drike.stores.sqlite import SqliteStore
from tests.worlds.stores import NOON, Opener


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opener(request: pytest.FixtureRequest) -> Opener:
    """Opens a store of each backend."""
    if request.param == "sqlite":
        return lambda path: SqliteStore(path, clock=lambda: NOON)
    server = request.getfixturevalue("postgres")

    def open_postgres(path: Path) -> EditStore:
        from drike.stores.postgres import PostgresStore

        return PostgresStore(server.of(path), clock=lambda: NOON)

    return open_postgres


@pytest.fixture
def store(opener: Opener, tmp_path: Path) -> Iterator[EditStore]:
    opened = opener(tmp_path / "edits.db")
    yield opened
    opened.close()
