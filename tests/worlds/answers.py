"""The file of answers from models behind an API, as it is on disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def kept_answers(path: Path) -> int:
    """How many answers a file keeps; 0 if there is none."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as file:
        [[count]] = file.execute("SELECT count(*) FROM entries")
    return int(count)
