"""Keys of the gateway: who may use it, edit, and administer it, in a file beside the store.

A key is `drike-ID-SECRET`, of which the file holds the SHA-256 only. The tenant, and so the store, follows from the key
alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from drike.errors import DrikeError
from drike.stores.opening import TENANT
from drike.stores.records import POSTGRES, stamp
from drike.support.files import write_text
from drike.support.records import parse, read

_KEY = re.compile(r"drike-([0-9a-f]{8})-[\w-]{32}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class KeysError(DrikeError):
    """A file of keys, or a key in it, cannot be used."""


class KeyRole(StrEnum):
    """What a key is for; each includes those before it."""

    USE = "use"  # ask the model
    EDIT = "edit"  # see and change the tenant's edits
    ADMIN = "admin"  # see metrics, and what is kept at the upstream

    def includes(self, other: KeyRole) -> bool:
        """Whether a key with this role may do what the other is for."""
        return [*KeyRole].index(self) >= [*KeyRole].index(other)


@dataclass(frozen=True)
class Principal:
    """Who sent a request: the tenant whose edits it sees, and its role. key: its id; "" where none is needed."""

    tenant: str = TENANT
    role: KeyRole = KeyRole.ADMIN
    key: str = ""


@dataclass(frozen=True)
class AccessKey:
    """A key as the file has it. sha256: of the whole key."""

    id: str
    tenant: str
    role: KeyRole
    sha256: str
    created_at: str


@dataclass(frozen=True)
class _File:
    keys: tuple[AccessKey, ...]


class Keys:
    """The keys in a file, read again whenever it has changed. Without a file there are none.

    Raises KeysError for a file that cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[int, int] | None = None  # which version of the file
        self.keys: tuple[AccessKey, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Read the file if it has changed."""
        try:
            status = self.path.stat()
            version = status.st_mtime_ns, status.st_ino
            if version != self._read:
                self.keys = read(_File, parse(self.path.read_bytes())).keys
                self._read = version
        except FileNotFoundError:
            if self._read:  # fail closed: without its file every key is unknown
                raise KeysError(f"{self.path} is gone: restore it, or stop the gateway") from None
        except (OSError, ValueError) as problem:
            raise KeysError(f"{self.path} is not a file of keys ({problem}): restore it from a copy") from None

    def principal(self, secret: str) -> Principal | None:
        """The holder of a key; None if it is none of these."""
        match = _KEY.fullmatch(secret)
        digest = hashlib.sha256(secret.encode()).hexdigest()
        key = next((key for key in self.keys if match and key.id == match[1]), None)
        if key is None or not hmac.compare_digest(key.sha256, digest):
            return None
        return Principal(key.tenant, key.role, key.id)

    def add(self, tenant: str, role: KeyRole) -> str:
        """Make a key, and return it; only its hash is kept. Raises KeysError for an unusable tenant."""
        if not _NAME.fullmatch(tenant):
            raise KeysError(f"{tenant!r} cannot name a tenant: use small letters, digits and hyphens, up to 63")
        secret = f"drike-{secrets.token_hex(4)}-{secrets.token_urlsafe(24)}"
        digest = hashlib.sha256(secret.encode()).hexdigest()
        self._write([*self.keys, AccessKey(secret.split("-")[1], tenant, role, digest, stamp(datetime.now(UTC)))])
        return secret

    def revoke(self, id: str) -> AccessKey:
        """Remove a key. Raises KeysError if there is none with this id."""
        found = next((key for key in self.keys if key.id == id), None)
        if found is None:
            raise KeysError(f"there is no key {id!r}: choose one that is listed (drike keys list)")
        self._write([key for key in self.keys if key.id != id])
        return found

    def _write(self, keys: Sequence[AccessKey]) -> None:
        write_text(self.path, json.dumps({"keys": [asdict(key) for key in keys]}, indent=1))
        self.refresh()


def keys_path(store: str) -> Path:
    """The file of keys beside a store; of one in a database, in the working directory. Raises KeysError."""
    path = Path("edits" if store.startswith(POSTGRES) else store)
    if not path.name or path.is_dir():
        raise KeysError(f"{store} is a folder: give the file of a store as --store")
    return path.with_suffix(".keys.json")
