"""What the holder of a key may do to an edit, as the admin port is asked: each change of a path makes a new version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drike.serving.keys import KeyRole, Principal
from drike.serving.modes import Switch
from drike.serving.relay import RequestError
from drike.stores import log, moves, records
from drike.stores.approvals import claimed_author
from drike.stores.log import EditStore
from drike.stores.records import EditRecord, EditVersion, Status
from drike.support.records import read

Json = Mapping[str, Any]
Make = Callable[[EditStore], Sequence[EditVersion]]

_TEXTS = {"negatives": "negatives", "wordings": "paraphrases"}  # changes that add a text, and where
# Who may propose may add texts and change fields, too: for them these are proposals.
_ROLES = {
    **dict.fromkeys(("propose", "change", *_TEXTS), KeyRole.PROPOSE),
    **dict.fromkeys(("approve", "reject", "review", "retire", "rollback", "status"), KeyRole.APPROVE),
}
_STATUSES = (Status.DRAFT, Status.SHADOW, Status.ACTIVE)


def addition(values: Json, principal: Principal) -> Make:
    """What adds an edit; as a proposal, where its author may not decide or the store requires approvals.

    Raises RequestError, ValueError for fields that no record has.
    """
    fields = dict(values)
    supersede = fields.pop("supersede", False) is True
    record = records.record_of(fields)
    claimed = None if principal.name else record.author
    author = principal.author if claimed is None else claimed_author(claimed, principal.author)
    record = replace(record, author=author, move=None)
    if not (record.status.in_use or record.status in (Status.DRAFT, Status.PROPOSED)):
        _require(principal, KeyRole.APPROVE)
    decides = principal.role.includes(KeyRole.APPROVE)
    return lambda store: store.put(moves.entering(store, record, decides=decides), supersede=supersede)


def change(id: int, name: str, values: Json, principal: Principal) -> Make:
    """What changes an edit. Raises RequestError for an unknown change, a role or values that do not suit it."""
    if name not in _ROLES:
        raise RequestError(404, "no_such_path", f"an edit has no {name}")
    _require(principal, _ROLES[name])
    why = {"author": principal.author, "reason": field(values, "reason", str)}
    version, until = field(values, "version", int), field(values, "until", str)
    into = None if values.get("into") is None else read(Status, values["into"])
    supersede = values.get("supersede") is True
    asked = values.get("propose") is True or not principal.role.includes(KeyRole.APPROVE)
    acts: Mapping[str, Make] = {
        "propose": lambda store: moves.propose(store, id, into=into, **why),
        "approve": lambda store: moves.approve(store, id, version=version, supersede=supersede, **why),
        "reject": lambda store: moves.reject(store, id, version=version, **why),
        "review": lambda store: moves.review(store, id, until=until, **why),
        "retire": lambda store: log.retire(store, id, **why),
        "rollback": lambda store: log.rollback(store, id, version, **why),
    }
    if name in acts:
        return acts[name]
    changed = _changed(name, values)

    def make(store: EditStore) -> Sequence[EditVersion]:
        changes = changed(moves.changeable(log.versions(store, id)))
        return moves.change(store, id, changes, propose=asked, version=version, supersede=supersede, **why)

    return make


def _changed(name: str, values: Json) -> Callable[[EditRecord], Json]:
    """The fields of a record that a change gives other values."""
    if name == "change":
        fields = records.fields_of(values.get("changes"))
        return lambda record: fields
    if name == "status":
        status = read(Status, values.get("status", ""))
        if status not in _STATUSES:
            raise ValueError(f"status is {', '.join(_STATUSES)}; for {status} there are other moves")
        return lambda record: {"status": status}
    text, texts = field(values, "text", str), _TEXTS[name]
    if text is None:
        raise ValueError("text is missing")
    return lambda record: {texts: (*getattr(record, texts), text)}


def required(values: Json, principal: Principal) -> int:
    """The number of approvals that an administrator sets. Raises RequestError, ValueError."""
    _require(principal, KeyRole.ADMIN)
    needed = field(values, "needed", int)
    if needed is None or not 0 <= needed <= moves.MOST_APPROVALS:
        raise ValueError(f"needed must be a number from 0 to {moves.MOST_APPROVALS}")
    return int(needed)


def switched(values: Json, principal: Principal) -> Switch:
    """The mode that somebody switches to. Raises RequestError, ValueError."""
    _require(principal, KeyRole.APPROVE)
    given = {"mode": values.get("mode"), "share": values.get("share", 1.0), "reason": values.get("reason")}
    new = read(Switch, given | {"author": principal.author, "at": ""})
    if not 0 <= new.share <= 1:
        raise ValueError("share must be between 0 and 1")
    return new


def field(values: Json, name: str, kind: type) -> Any:
    """A field of what was posted; None if it is missing. Raises ValueError for another type."""
    value = values.get(name)
    if type(value) not in (kind, type(None)):
        raise ValueError(f"{name} must be a {'text' if kind is str else 'number'}")
    return value


def _require(principal: Principal, role: KeyRole) -> None:
    if not principal.role.includes(role):
        raise RequestError(403, "forbidden", f"this needs a key for {role}: ask somebody who has one")
