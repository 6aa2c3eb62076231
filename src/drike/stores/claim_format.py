"""How a kind of database keeps claims (`claims`)."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

Key = str | bytes  # of a question, as the table has it


def hashed(key: str) -> bytes:
    """A conflict key as short bytes: PostgreSQL's text has no NUL, its index no long values."""
    return hashlib.sha256(key.encode()).digest()


def mark_of(key: Key, edit_id: int) -> int:
    """A number of 40 bits for the claim of an edit."""
    digest = hashed(key) if isinstance(key, str) else key
    return int.from_bytes(digest[:5]) ^ edit_id


@dataclass(frozen=True)
class ClaimFormat:
    """A conflict key in the table, and the sum of the marks of all claims.

    sum_query: a statement that lets the database sum them; without it, all claims are read.
    """

    key_of: Callable[[str], Key]
    sum_query: str | None = None
