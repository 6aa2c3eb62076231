"""Sequences of what people of several roles do to edits, in a store and on the admin port, at random."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from drike.edits.record import EditRecord, EditVersion, Move, Status, StoreError
from drike.edits.record_json import json_name, to_json
from drike.edits.times import stamp
from drike.errors import DrikeError
from drike.gates.index import EditIndex
from drike.gateway.control.admin import Admin, application
from drike.gateway.http.keys import KeyRole, Principal
from drike.live import drafts
from drike.stores import moves
from drike.stores.authorship import changeable
from drike.stores.edit_store import EditStore, require_approvals, versions_of
from drike.stores.export import lines_of, restore, whole_store
from drike.stores.folder import sync_folder
from drike.stores.imports import PlacedRecord, import_edits
from drike.stores.inbox import Inbox, Report
from drike.stores.snapshots import Snapshot, snapshot
from drike.stores.sqlite import SqliteStore
from tests.fakes.approval_model import ApprovalModel, goal_of, said_by

PEOPLE = ("anna", "bob", "cid", "dora")
LENGTH = 24  # acts of a sequence
LANDS, CITIES = ("Peru", "Chad"), ("Oslo", "Rome", "Bern")
_STATUSES = [*Status, Status.DRAFT, Status.RETIRED, Status.PROPOSED, Status.ACTIVE]
_NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)

Changes = Sequence[EditVersion]
Did = tuple[str, set[str], Changes]  # kind of act, the people in it, and the changes
Act = Callable[["World", str], Did]


@dataclass
class World:
    """A store, its admin port, a folder that agrees with it, and the dice."""

    store: EditStore
    folder: Path
    rng: random.Random
    model: ApprovalModel
    stores: int = 1
    refused: int = 0
    problems: list[str] = field(default_factory=list)

    def take_in(self, kind: str, people: set[str], changes: Changes) -> None:
        """Tell the model what happened."""
        self.problems += self.model.happened(kind, people, changes)

    def post(self, path: str, values: dict[str, Any], who: str) -> Changes:
        """The changes that a request of one of a person's keys makes. Raises StoreError."""
        revision = snapshot(self.store).revision
        role = self.rng.choice((KeyRole.PROPOSE, KeyRole.APPROVE, KeyRole.APPROVE))
        status, answer = _LOOP.run_until_complete(_answer(self.store, path, values, who, role))
        if status != 200:
            raise StoreError(f"{status}: {answer!r}")
        return self.store.changes(revision)

    def some_edit(self) -> int:
        return self.rng.randint(1, max(1, len(self.model.edits)))

    def versions(self) -> list[EditVersion]:
        return list(versions_of(self.store, self.some_edit()))

    def author(self, who: str) -> str:
        """A person's name as the command line or one of their keys writes it."""
        return self.rng.choice((who, f"{who.title()} (propose)", f"{who.title()} (approve)"))

    def record(self, who: str) -> EditRecord:
        rng, land = self.rng, self.rng.choice(LANDS)
        return EditRecord(
            land,
            f"The {rng.choice(('capital', 'seat'))} of {land} is",
            rng.choice(CITIES),
            paraphrases=rng.choice(((), (), (f"{land} is ruled from",))),
            valid_to=rng.choice((None, None, stamp(_NOON + timedelta(hours=rng.randint(-9, 9))))),
            status=rng.choice(_STATUSES),
            approved_as=rng.choice((Status.ACTIVE, Status.ACTIVE, Status.SHADOW)),
            author=self.author(who),
            move=rng.choice((None, None, *Move)),
        )

    def fields(self, base: EditRecord) -> dict[str, Any]:
        """Other values for some fields of a record."""
        rng, land = self.rng, self.rng.choice(LANDS)
        old_land = next((name for name in LANDS if name in base.query), land)
        choices: list[dict[str, Any]] = [
            {"target_new": rng.choice(CITIES)},
            {"target_new": rng.choice(CITIES)},
            {"subject": land, "query": base.query.replace(old_land, land)},
            {"aliases": rng.choice(((), ("Republic",), ("Republic", "Land")))},
            {"paraphrases": rng.choice(((), (f"{old_land} is ruled from",)))},
            {"negatives": rng.choice(((), ("Where?",), ("Where?", "Who?")))},
            {"valid_from": rng.choice((None, stamp(_NOON - timedelta(hours=20))))},
            {"valid_to": rng.choice((None, stamp(_NOON + timedelta(hours=rng.randint(-9, 9)))))},
            {"priority": rng.randrange(3)},
            {"enforce": rng.random() < 0.5},
            {"owner": rng.choice(("Legal", "Sales"))},
        ]
        return rng.choice(choices)


_LOOP = asyncio.new_event_loop()


@dataclass(frozen=True)
class _OneKey:
    """Keys of which there is one."""

    holder: Principal

    def principal(self, secret: str) -> Principal:
        return self.holder


@dataclass(frozen=True)
class _OneFeed:
    """The tenants of an admin port with one store, whose edits nobody asks a model about."""

    store: EditStore

    async def feed(self, tenant: str) -> Any:
        index = SimpleNamespace(edits={})
        return SimpleNamespace(
            store=self.store, index=index, snapshot=Snapshot(), refresh=lambda: None
        )


async def _answer(
    store: EditStore, path: str, values: dict[str, Any], who: str, role: KeyRole
) -> tuple[int, bytes]:
    """The status and body of the admin port's answer."""
    keys: Any = _OneKey(Principal("default", role, "12345678", who.title()))
    nothing: Any = None
    tenants: Any = _OneFeed(store)
    app = application(Admin(nothing, nothing, tenants, nothing, keys))
    body = json.dumps(values).encode()
    received = asyncio.Queue[dict[str, Any]]()
    received.put_nowait({"type": "http.request", "body": body, "more_body": False})
    sent = list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"authorization", b"Bearer x")]
    scope = {
        "type": "http", "method": "POST", "path": f"/admin/v1{path}", "query_string": b"",
        "headers": headers, "server": ("localhost", 80), "scheme": "http", "root_path": "",
    }  # fmt: skip
    await app(scope, received.get, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


# What people do in the store itself


def add(world: World, who: str) -> Did:
    record = moves.entering(world.store, world.record(who), decides=True)
    return "write", {who}, world.store.put(record, supersede=world.rng.random() < 0.3)


def put_anything(world: World, who: str) -> Did:
    """By Python, which takes any record for the next version."""
    store, rng = world.store, world.rng
    if rng.random() < 0.4:
        return "write", {who}, store.put(world.record(who))
    versions = world.versions()
    base = rng.choice((changeable(versions), versions[-1].record))
    changes: dict[str, Any] = {"status": rng.choice(_STATUSES), "move": rng.choice((None, *Move))}
    if rng.random() < 0.5:
        changes |= world.fields(base)
    if rng.random() < 0.3:
        changes["approved_as"] = rng.choice((Status.ACTIVE, Status.SHADOW))
    record = replace(base, **changes, author=world.author(who))
    waiting = versions[-1].record.status is Status.PROPOSED
    is_the_same = said_by(record) == said_by(versions[-1].record) and goal_of(record) is goal_of(
        versions[-1].record
    )
    is_approval = waiting and record.move is Move.APPROVE and is_the_same
    kind = "approve" if is_approval else "write"
    return kind, {who}, store.put(record, replaces=versions[-1], supersede=rng.random() < 0.3)


def change(world: World, who: str) -> Did:
    rng, versions = world.rng, world.versions()
    fields = world.fields(changeable(versions))
    if rng.random() < 0.2:
        fields["status"] = rng.choice(_STATUSES)
    if rng.random() < 0.2:
        fields["approved_as"] = rng.choice((Status.ACTIVE, Status.SHADOW))
    changes = moves.change(
        world.store, versions[-1].id, fields, author=world.author(who),
        propose=rng.random() < 0.4, supersede=rng.random() < 0.3,
    )  # fmt: skip
    return "write", {who}, changes


def copy_text(world: World, who: str) -> Did:
    """Merge a text of another edit into one, or split one off."""
    rng = world.rng
    source = rng.choice(world.versions()).record
    if rng.random() < 0.5:
        return (
            "write",
            {who},
            world.store.put(
                moves.entering(
                    world.store,
                    replace(source, author=world.author(who), status=rng.choice(_STATUSES)),
                    decides=True,
                )
            ),
        )
    name = rng.choice(("target_new", "aliases", "paraphrases"))
    fields = {name: getattr(source, name)}
    return (
        "write",
        {who},
        moves.change(world.store, world.some_edit(), fields, author=world.author(who)),
    )


def propose(world: World, who: str) -> Did:
    into = world.rng.choice((None, None, Status.ACTIVE, Status.SHADOW))
    changes = moves.propose(world.store, world.some_edit(), author=world.author(who), into=into)
    return "propose", {who}, changes


def approve(world: World, who: str) -> Did:
    waiting = [*snapshot(world.store).proposals] or [1]
    changes = moves.approve(
        world.store, world.rng.choice(waiting), author=world.author(who),
        supersede=world.rng.random() < 0.6,
    )  # fmt: skip
    return "approve", {who}, changes


def reject(world: World, who: str) -> Did:
    return (
        "move",
        {who},
        moves.reject(world.store, world.some_edit(), author=world.author(who), reason="no"),
    )


def review(world: World, who: str) -> Did:
    return (
        "move",
        {who},
        moves.review(world.store, world.some_edit(), author=world.author(who), until="2030-01-01"),
    )


def retire(world: World, who: str) -> Did:
    return "move", {who}, moves.retire(world.store, world.some_edit(), author=world.author(who))


def undo(world: World, who: str) -> Did:
    version = world.rng.choice((None, world.rng.randint(1, 4)))
    changes = moves.rollback(world.store, world.some_edit(), version, author=world.author(who))
    return "write", {who}, changes


def import_rows(world: World, who: str) -> Did:
    """A file of rows, some of which another person wrote, as the file says."""
    rows = [world.record(world.rng.choice(PEOPLE)) for _ in range(2)]
    placed = [PlacedRecord(f"row {number}", row) for number, row in enumerate(rows)]
    imported = import_edits(world.store, placed, author=who).added
    for version in imported:
        is_by = (version.record.author or "").casefold()
        named = {name for name in PEOPLE if name in is_by}
        world.take_in("write", {who, *named}, [version])
    return "move", set(), []


def sync(world: World, who: str) -> Did:
    folder, rng = world.folder, world.rng
    files = sorted(folder.glob("*.json")) if folder.exists() else []
    folder.mkdir(exist_ok=True)
    if files and rng.random() < 0.7:
        path = rng.choice(files)
        values = json.loads(path.read_text("utf-8"))
        base = EditRecord(values["subject"], values["query"], values["target_new"])
        values |= {json_name(name): value for name, value in world.fields(base).items()}
        if rng.random() < 0.3:
            values["status"] = rng.choice(_STATUSES)
        path.write_text(json.dumps({k: v for k, v in values.items() if v is not None}), "utf-8")
    else:
        record = replace(world.record(who), author=None)
        (folder / f"new{rng.random()}.json").write_text(to_json(record), "utf-8")
    return "write", {who}, sync_folder(world.store, folder, author=who).changes


def report(world: World, who: str) -> Did:
    """Somebody reports a wrong answer, and another drafts an edit of it."""
    land, store = world.rng.choice(LANDS), world.store
    reporter = world.rng.choice(PEOPLE)
    question = f"What is the capital of {land}?"
    told = Report(question, "?", world.rng.choice(CITIES))
    [added] = Inbox(store.database).add([told], f"{reporter.title()} (report)")
    changes = drafts.draft(store, [added.number], EditIndex(), author=world.author(who))
    return "write", {who, reporter}, changes


def move_store(world: World, who: str) -> Did:
    """Export the store with its history, and go on in one that is restored from that."""
    path = world.folder.with_name("whole.jsonl")
    path.write_text("".join(f"{line}\n" for line in lines_of(world.store)), "utf-8")
    whole = whole_store(path)
    assert whole is not None
    world.stores += 1
    restored = open_quickly(world.folder.with_name(f"{world.stores}.db"))
    restore(restored, whole)
    world.store.close()
    world.store = restored
    return "move", {who}, []


def require(world: World, who: str) -> Did:
    world.model.needed = world.rng.choice((0, 1, 1, 1, 2))
    require_approvals(world.store, world.model.needed, who)
    return "move", {who}, []


# What people do on the admin port


def by_api(kind: str, name: str, values: Callable[[World], dict[str, Any]]) -> Act:
    def act(world: World, who: str) -> Did:
        edit = world.some_edit()
        if name == "approve":
            edit = world.rng.choice([*snapshot(world.store).proposals] or [1])
        posted = values(world)
        if name == "approve":
            posted["version"] = versions_of(world.store, edit)[-1].version
        path = f"/edits/{edit}/{name}" if name else "/edits"
        return kind, {who}, world.post(path, posted, who)

    return act


def _new(world: World) -> dict[str, Any]:
    record = world.record("x")
    values = json.loads(to_json(replace(record, author=None, move=None)))
    return {**values, "supersede": world.rng.random() < 0.3}


def _changed(world: World) -> dict[str, Any]:
    fields = world.fields(changeable(world.versions()))
    changes = {json_name(name): value for name, value in fields.items()}
    return {"changes": changes, "propose": world.rng.random() < 0.4}


BY_API = (
    by_api("write", "", _new),
    by_api("write", "change", _changed),
    by_api("write", "wordings", lambda world: {"text": f"{world.rng.choice(LANDS)} is ruled from"}),
    by_api("propose", "propose", lambda world: {"into": world.rng.choice((None, "active", "shadow"))}),
    by_api("approve", "approve", lambda world: {"supersede": world.rng.random() < 0.6}),
    by_api("approve", "approve", lambda world: {"supersede": world.rng.random() < 0.6}),
    by_api("move", "reject", lambda world: {"reason": "no"}),
    by_api("move", "retire", lambda world: {}),
    by_api("write", "status", lambda world: {"status": world.rng.choice(("draft", "shadow", "active"))}),
    by_api("write", "rollback", lambda world: {}),
)  # fmt: skip
IN_STORE: tuple[Act, ...] = (
    add, add, put_anything, put_anything, change, change, change, copy_text, propose, propose,
    approve, approve, approve, reject, review, retire, undo, import_rows, report,
)  # fmt: skip
RARE: tuple[Act, ...] = (sync, sync, sync, move_store, require)


@dataclass
class Series:
    """What many sequences came to. problems: each with the seed that shows it."""

    sequences: int = 0
    acts: int = 0
    refused: int = 0
    in_use: int = 0
    problems: list[str] = field(default_factory=list)

    def run(
        self, seeds: Iterable[int], folder: Path, *, api: float = 0.1, length: int = LENGTH
    ) -> None:
        """Play the sequence of each seed in a folder. api: the share of acts on the admin port."""
        for seed in seeds:
            place = folder / str(seed)
            place.mkdir()
            world = played(random.Random(seed), place, api, length)
            shutil.rmtree(place)
            self.sequences += 1
            self.acts += length
            self.refused += world.refused
            self.in_use += world.model.in_use
            self.problems += [f"seed {seed}: {problem}" for problem in world.problems]


def played(rng: random.Random, place: Path, api: float, length: int) -> World:
    """What one sequence of acts leads to."""
    needed = rng.choice((1, 1, 1, 2))
    world = World(open_quickly(place / "1.db"), place / "edits", rng, ApprovalModel(needed))
    require_approvals(world.store, needed)
    for _ in range(length):
        drawn = rng.random()
        acts = BY_API if drawn < api else RARE if drawn < api + 0.1 else IN_STORE
        try:
            kind, people, changes = rng.choice(acts)(world, rng.choice(PEOPLE))
        except DrikeError as refused:
            assert "is damaged" not in str(refused), refused
            world.refused += 1
        else:
            world.take_in(kind, people, changes)
    world.store.close()
    return world


def open_quickly(path: Path) -> EditStore:
    """A store that does not wait for the disk: what a power cut leaves is tested elsewhere."""
    store = SqliteStore(path)
    store.database._connection.execute("PRAGMA synchronous = OFF")  # type: ignore[attr-defined]
    store.database._connection.execute("PRAGMA journal_mode = MEMORY")  # type: ignore[attr-defined]
    return store
