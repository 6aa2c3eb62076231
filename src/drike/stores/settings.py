"""Texts that a store keeps by name, such as how many people must approve an edit."""

import json
from collections.abc import Mapping
from typing import Any

from drike.stores import clock
from drike.stores.database import Database, select
from drike.stores.failures import damaged

_LONGEST_HISTORY = 100  # entries


class StoreSettings:
    """The settings in a database. Every method raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, name: str) -> str | None:
        """The value that was saved last under a name; None if there is none."""
        rows = select(self._database, "SELECT value FROM drike_settings WHERE name = %s", [name])
        return str(rows[0][0]) if rows else None

    def save(self, name: str, value: str) -> None:
        """Save a value under a name, in place of an earlier one."""
        with self._database.transaction():
            self._database.execute(
                "INSERT INTO drike_settings VALUES (%s, %s) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                [name, value],
            )

    def history(self, name: str) -> list[dict[str, Any]]:
        """What was last added to a list under a name, the latest last."""
        try:
            entries = json.loads(self.get(name) or "[]")
            return [dict(entry) for entry in entries]
        except (ValueError, TypeError) as problem:
            raise damaged(self._database.name, f"its {name}: {problem}") from None

    def add_to_history(self, name: str, entry: Mapping[str, object]) -> None:
        """Add an entry, with the time as `at`, to a list of which the last entries are kept."""
        with self._database.transaction():
            entries = [*self.history(name), {**entry, "at": clock.now()}]
            self.save(name, json.dumps(entries[-_LONGEST_HISTORY:]))
