"""Vectors kept on disk between runs: one SQLite file per model, keyed by the text's hash, float32 as it is.

A damaged entry is a miss, a damaged file is set aside and started anew; a folder that cannot be written to costs time,
not the run. Several processes may share a folder (rollback journal, a connection per call). No pickle.
"""

from __future__ import annotations

import hashlib
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drike.encoders.base import FloatArray

_AT_ONCE = 500  # keys in one SELECT; SQLite's limit was 999 once
_PATIENCE = 30.0  # seconds to wait for another process's write
_SUM = 8  # bytes of checksum behind a vector


@dataclass(frozen=True)
class FeatureStore:
    """The features of one model: `model` is a hash of everything that decides a vector."""

    folder: Path
    model: str

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return self.folder / f"{self.model[:32]}.sqlite"

    def read(self, texts: Iterable[str]) -> dict[str, FloatArray]:
        """The vectors known for `texts`, without those that are not."""
        by_key = {_key(text): text for text in texts}
        keys = list(by_key)
        found: dict[str, FloatArray] = {}

        def select(connection: sqlite3.Connection) -> None:
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(part))
                query = f"SELECT key, vector FROM features WHERE key IN ({marks})"  # noqa: S608 - only question marks
                for key, packed in connection.execute(query, part):
                    vector = _unpack(packed)
                    if vector is not None:
                        found[by_key[key]] = vector

        if self.path.is_file():
            self._use(select)
        return found

    def write(self, vectors: Mapping[str, FloatArray]) -> None:
        """Keep vectors [d] by text; what is there already is replaced."""
        rows = [(_key(text), _pack(vector)) for text, vector in vectors.items()]

        def insert(connection: sqlite3.Connection) -> None:
            with connection:
                connection.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", rows)

        self._use(insert)

    def _use(self, act: Callable[[sqlite3.Connection], None]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, vector BLOB NOT NULL)")
                act(connection)
        except sqlite3.OperationalError as problem:
            _warn(self.path, problem)
        except sqlite3.DatabaseError:
            # No database any more. Nothing in it is worth an error: set aside, computed again.
            self.path.replace(self.path.with_suffix(".damaged"))
        except OSError as problem:
            _warn(self.path, problem)


def clear(folder: Path) -> int:
    """Delete all features kept in `folder`; returns the bytes freed."""
    files = [file for file in folder.glob("*") if file.suffix in (".sqlite", ".damaged")]
    freed = sum(file.stat().st_size for file in files)
    for file in files:
        file.unlink(missing_ok=True)
    return freed


def _warn(path: Path, problem: Exception) -> None:
    warnings.warn(f"features cannot be kept in {path} ({problem}); set XDG_CACHE_HOME", RuntimeWarning, stacklevel=4)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _pack(vector: FloatArray) -> bytes:
    content = np.ascontiguousarray(vector, dtype="<f4").tobytes()
    return content + hashlib.sha256(content).digest()[:_SUM]


def _unpack(packed: object) -> FloatArray | None:
    if not isinstance(packed, bytes) or len(packed) <= _SUM:
        return None
    content, checksum = packed[:-_SUM], packed[-_SUM:]
    if len(content) % 4 or hashlib.sha256(content).digest()[:_SUM] != checksum:
        return None
    return np.frombuffer(content, dtype="<f4").astype(np.float32)
