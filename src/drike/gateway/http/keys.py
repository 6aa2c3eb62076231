"""Keys of the gateway: who may use it, edit, and administer it.

They are in a file beside the store, or in its database.

A key is `drike-ID-SECRET`, of which only the SHA-256 is kept. The tenant, and so the store, follows
from the key alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from filelock import FileLock, Timeout

from drike.edits.record import StoreError
from drike.edits.times import stamp
from drike.errors import DrikeError
from drike.stores.addresses import is_postgres
from drike.stores.approvals import claimed_author
from drike.stores.edit_store import EditStore
from drike.stores.opening import TENANT, open_store
from drike.support.files import write_text
from drike.support.records import ADDED, parse, read

KEY = re.compile(r"drike-([0-9a-f]{8})-[\w-]{32}")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_PERSON = re.compile(r"\w[\w .@-]{0,61}\w|\w")
_SETTING = "keys"  # of a store that has keys in its database
_FILE_SETTING = "keys file"  # of a store: where the file of its keys was
# Of a PostgreSQL store, in the working directory, before its database had the keys.
_OLD_FILE = Path("edits.keys.json")
_SECONDS_TO_LOCK = 10.0
_CLOCK_TICK = 1_000_000_000  # nanoseconds between two times that a file may have


class KeysError(DrikeError):
    """A file of keys, or a key in it, cannot be used."""


class KeyRole(StrEnum):
    """What a key is for; each includes those before it."""

    REPORT = "report"  # report wrong answers
    USE = "use"  # ask the model
    PROPOSE = "propose"  # see the tenant's edits, and propose new ones and changes
    APPROVE = "approve"  # approve, reject and retire them, and switch the mode
    ADMIN = "admin"  # see metrics, and what is kept at the upstream

    @classmethod
    def _missing_(cls, value: object) -> KeyRole | None:
        return cls.APPROVE if value == "edit" else None  # its name in earlier files

    def includes(self, other: KeyRole) -> bool:
        """Whether a key with this role may do what the other is for."""
        return [*KeyRole].index(self) >= [*KeyRole].index(other)


@dataclass(frozen=True)
class Principal:
    """Who sent a request: the tenant whose edits it sees, and its role.

    key, name: the id of its key, and the name in it; "" where it has none.
    """

    tenant: str = TENANT
    role: KeyRole = KeyRole.ADMIN
    key: str = ""
    name: str = ""

    @property
    def author(self) -> str:
        """What the history of edits calls the sender."""
        unnamed = f"key {self.key}" if self.key else f"admin port, {self.tenant}"
        return f"{self.name} ({self.role})" if self.name else unnamed


@dataclass(frozen=True)
class AccessKey:
    """A key as the file has it. sha256: of the whole key.

    name: the person's, of one who may have several.
    """

    id: str
    tenant: str
    role: KeyRole
    sha256: str
    created_at: str
    name: str = field(default="", metadata=ADDED)


@dataclass(frozen=True)
class _File:
    keys: tuple[AccessKey, ...]


class Keys:
    """The keys in a file, or those that a store keeps in its database.

    `refresh`, called again and again, reads them where others have changed them. Raises KeysError
    for a bad file.
    """

    def __init__(self, place: Path | EditStore) -> None:
        self._store: EditStore | None = None if isinstance(place, Path) else place
        self.path = place if isinstance(place, Path) else Path(place.name)
        self._version: object = None  # of what was read
        self.known = False  # whether there were keys, if only revoked ones
        self.keys: tuple[AccessKey, ...] = ()
        self.tenants: frozenset[str] = frozenset()
        self.refresh()

    @property
    def in_file(self) -> bool:
        """Whether they are in a file, at `path`."""
        return self._store is None

    def refresh(self) -> None:
        """Read the keys if they have changed. Raises KeysError."""
        try:
            version = self._latest_version()
            if version is None:
                if self.known:  # fail closed: without its file every key is unknown
                    raise KeysError(f"{self.path} is gone: restore it, or stop the gateway")
                return
            if version != self._version:
                content = version if isinstance(version, str) else self.path.read_bytes()
                self.keys = read(_File, parse(content)).keys
                self.tenants = frozenset(key.tenant for key in self.keys)
                self._version = version
                self.known = True
        except (OSError, ValueError) as problem:
            raise KeysError(
                f"{self.path} is not a file of keys ({problem}): restore it from a copy"
            ) from None

    def principal(self, secret: str) -> Principal | None:
        """The holder of a key; None if it is none of these."""
        form = KEY.fullmatch(secret)
        if form is None:
            return None
        key = self._key(form[1])
        if key is None or not hmac.compare_digest(key.sha256, _sha256(secret)):
            return None
        return Principal(key.tenant, key.role, key.id, key.name)

    def add(self, tenant: str, role: KeyRole, name: str = "") -> str:
        """Make a key, and return it; only its hash is kept.

        Raises KeysError for an unusable tenant or name.
        """
        require_tenant_name(tenant)
        if name and not _can_name_person(name):
            raise KeysError(
                f"{name!r} cannot name a person: use letters, digits, spaces, . - _ and @, up to 63"
            )
        key_id = secrets.token_hex(4)
        secret = f"drike-{key_id}-{secrets.token_urlsafe(24)}"
        with self._held():
            created_at = stamp(datetime.now(UTC))
            key = AccessKey(key_id, tenant, role, _sha256(secret), created_at, name)
            self._write([*self.keys, key])
        return secret

    def revoke(self, id: str) -> AccessKey:
        """Remove a key. Raises KeysError if there is none with this id."""
        with self._held():
            revoked = self._key(id)
            if revoked is None:
                raise KeysError(
                    f"there is no key {id!r}: choose one that is listed (drike keys list)"
                )
            self._write([key for key in self.keys if key.id != id])
        return revoked

    def close(self) -> None:
        """Let go of the store."""
        if self._store is not None:
            self._store.close()

    def _key(self, key_id: str) -> AccessKey | None:
        return next((key for key in self.keys if key.id == key_id), None)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep others from changing the keys, which are read anew. Raises KeysError."""
        lock: AbstractContextManager[object]
        if self._store is not None:
            lock = self._store.transaction()
        else:
            lock_file = self.path.with_name(f".{self.path.name}.lock")
            lock = FileLock(lock_file, _SECONDS_TO_LOCK, mode=0o600)
        try:
            with lock:
                self._version = None
                self.refresh()
                yield
        except Timeout:
            raise KeysError(f"{self.path} is being changed by another process: try again") from None
        self._version = None
        self.refresh()

    def _latest_version(self) -> object:
        """What changes whenever the keys do: the text of those in a store; None if there are none.

        Raises OSError.
        """
        if self._store is not None:
            return self._store.settings.get(_SETTING)
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return None
        # A file may change twice within a tick of its clock: while it is new, it is read at each
        # look.
        now = time.time_ns()
        is_new = abs(now - status.st_mtime_ns) < _CLOCK_TICK
        return status.st_mtime_ns, status.st_ino, status.st_size, now if is_new else 0

    def _write(self, keys: Sequence[AccessKey]) -> None:
        text = json.dumps({"keys": [asdict(key) for key in keys]}, indent=1)
        if self._store is not None:
            self._store.settings.save(_SETTING, text)
        else:
            write_text(self.path, text, private=True)


def require_tenant_name(tenant: str) -> None:
    """Refuse what cannot name a tenant. Raises KeysError."""
    if not _NAME.fullmatch(tenant):
        raise KeysError(
            f"{tenant!r} cannot name a tenant: use small letters, digits and hyphens, up to 63"
        )


def open_keys(store: str, path: Path | None = None, *, create: bool = False) -> Keys | None:
    """The keys of a gateway over a store; None if there never were any, unless `create`.

    They are in the file `path`, else in the database of a PostgreSQL store, else in a file beside
    the store, of which the store knows, so that one that is missing never opens a gateway. Raises
    KeysError for these, and StoreError.
    """
    if is_postgres(store) and path is None:
        return _open_in_database(store, create=create)
    if path is None and (not Path(store).name or Path(store).is_dir()):
        raise KeysError(f"{store} is a folder: give the file of a store as --store")

    file = path or Path(store).with_suffix(".keys.json")
    if file.exists():
        with suppress(StoreError):  # where there is no store yet, it need not know
            _remember(file, store)
        return Keys(file)
    if create:
        return Keys(file)
    if path is not None:
        raise KeysError(
            f"there is no file of keys at {path}: make one (drike keys add --keys {path})"
        )
    if Path(store).is_file():
        with closing(open_store(store)) as opened:
            _refuse_lost_file(opened)
    return None


def _open_in_database(address: str, *, create: bool) -> Keys | None:
    """The keys of a PostgreSQL store; None if there never were any.

    Raises KeysError, StoreError.
    """
    with ExitStack() as closing_store:
        store = closing_store.enter_context(closing(open_store(address)))
        keys = Keys(store)
        if keys.known or create:
            closing_store.pop_all()  # the keys need it
            return keys
        _refuse_lost_file(store)
        if _OLD_FILE.is_file():
            remedy = (
                f"give it as --keys {_OLD_FILE}, or make keys there (drike keys add) and remove it"
            )
            raise KeysError(
                f"the keys of a PostgreSQL store are in its database, not in {_OLD_FILE}: {remedy}"
            )
    return None


def _remember(file: Path, store: str) -> None:
    """Let a store know where its keys are. Raises StoreError."""
    with closing(open_store(store, create=False)) as opened:
        if opened.settings.get(_FILE_SETTING) is None:
            opened.settings.save(_FILE_SETTING, str(file.absolute()))


def _refuse_lost_file(store: EditStore) -> None:
    """Raises KeysError where a store had a file of keys."""
    path = store.settings.get(_FILE_SETTING)
    if path is not None:
        raise KeysError(
            f"the file of keys {path} is gone: restore it, or make new keys (drike keys add)"
        )


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _can_name_person(name: str) -> bool:
    """Whether a name is one, and cannot be taken for an author that it is not."""
    return bool(_PERSON.fullmatch(name)) and claimed_author(name, "") == f"{name} ()"
