"""Kill processes that write to a store of edits, or fill their disk, and check what the store holds afterwards.

    python -m tests.stores.killed_writers kill --times 1000
    python -m tests.stores.killed_writers full --times 200
    python -m tests.stores.killed_writers share --times 20
    python -m tests.stores.killed_writers move --times 20
    python -m tests.stores.killed_writers kill --times 1000 --postgres

Every writer is a fork of this process. It adds edits, supersedes and retires them, also several in
one transaction, proposes and approves changes, and reports each change once the store has
acknowledged it. *kill*: a third is killed at any time, the others while a journal exists, so in the
middle of a change. *full*: a limit on file size (RLIMIT_FSIZE) ends the writer. *share*: two
writers at once, which also try to add the same facts. Afterwards every acknowledged change must be
there, no transaction may be there in part, and SQLite must find the file intact. --postgres: stores
in a PostgreSQL server, which is started for the series; a transaction in progress takes the place
of the journal. *move*: two writers propose, approve, reject, change, review and retire each other's
edits, where two approvals are required; nothing may be in use without them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from drike.edits.conflicts import ConflictError
from drike.edits.record import EditRecord, Status, StoreError
from drike.stores.edit_store import EditStore, require_approvals
from drike.stores.moves import approve, change, retire
from drike.stores.opening import open_store
from drike.stores.snapshots import Snapshot, snapshot
from tests.fakes.postgres_servers import Database, database
from tests.fakes.random_moves import check_approved, moved

WRITERS_PER_FILE = 50  # so that files, and the time to check them, stay small
SHARED = 8  # facts that both writers of a shared store try to add


@dataclass
class Series:
    """Results of a series; `wrong` should be empty."""

    how: str
    times: int = 0
    acknowledged: int = 0  # changes
    in_a_change: int = (
        0  # writers killed in a transaction: with a journal left, or one in progress in PostgreSQL
    )
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def write(store: EditStore, name: str, tell: Callable[[object], None]) -> None:
    """Run transactions; tell each, as [its mark, number of changes], when it is acknowledged."""
    rng = random.Random(name)
    for n in range(10_000):
        mark, made, parts = f"{name} {n}", 0, rng.choice((1, 1, 5))
        with store.transaction():
            for part in range(parts):
                subject = (
                    f"Town {name} {n} {part}" if rng.random() < 0.6 else f"Town {rng.randrange(5)}"
                )
                target, source = f"{rng.randrange(10**9)}", "x" * rng.randrange(2000) or None
                entry = EditRecord(
                    subject,
                    f"The river of {subject} is",
                    target,
                    source=source,
                    reason=f"part of {parts}",
                    author=mark,
                )
                changes = [*store.put(entry, supersede=True)]
                if rng.random() < 0.3:
                    id, later = changes[-1].id, {"target_new": f"{rng.randrange(10**9)}"}
                    changes += change(store, id, later, author=mark, reason="later", propose=True)
                    if rng.random() < 0.5:
                        changes += approve(store, id, author=mark)
                if rng.random() < 0.2:
                    changes += retire(store, changes[-1].id, author=mark)
                made += len(changes)
        tell([mark, made])


def share(store: EditStore, name: str, tell: Callable[[object], None]) -> None:
    """Add some facts of one's own, and try to add those that the other writer adds, too."""
    for n in range(SHARED):
        for subject in (f"Town {name.removesuffix('b')} {n}", f"Own town {name} {n}"):
            mark = f"{name} {subject}"
            try:
                tell(
                    [
                        mark,
                        len(
                            store.put(
                                EditRecord(subject, f"The river of {subject} is", name, author=mark)
                            )
                        ),
                    ]
                )
            except ConflictError:
                continue


def move(store: EditStore, name: str, tell: Callable[[object], None]) -> None:
    """Make random moves, where two approvals are required."""
    require_approvals(store, 2)
    tell([name, len(moved(store, random.Random(name), 60))])


def check_moves(
    address: str, before: Snapshot, acknowledged: dict[str, int]
) -> tuple[Snapshot, list[str]]:
    """What is wrong with a store after random moves."""
    store = open_store(address)
    try:
        now, made = snapshot(store), sum(acknowledged.values())
        check_approved(store, 2)
        found = now.revision - before.revision
        return now, [] if found == made else [f"{found} changes instead of {made}"]
    except AssertionError as problem:
        return snapshot(store), [f"not approved: {problem}"]
    finally:
        store.close()


def work(
    make: Callable[..., None], address: str, name: str, limit: int, tell: Callable[[object], None]
) -> None:
    """What a writer does, with a limit on file size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    make(open_store(address), name, tell)


def fork(work: Callable[[Callable[[object], None]], None]) -> tuple[int, int]:
    """Start a process; return its id and a pipe of the JSON lines that it tells."""
    read, out = os.pipe()
    pid = os.fork()
    if pid:
        os.close(out)
        return pid, read
    code = 1
    try:
        os.close(read)
        work(lambda what: os.write(out, json.dumps(what).encode() + b"\n") and None)
        code = 0
    except StoreError as problem:
        os.write(out, json.dumps(str(problem)).encode() + b"\n")
        code = 3
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def told(pid: int, pipe: int) -> tuple[list[object], int]:
    """What a process has told, and how it ended: exit code, or minus the signal."""
    with os.fdopen(pipe, "rb") as stream:
        lines = stream.read().split(b"\n")[:-1]
    return [json.loads(line) for line in lines], os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def check(
    address: str, before: Snapshot, acknowledged: dict[str, int], *, more: int
) -> tuple[Snapshot, list[str]]:
    """What is wrong with a store, where at most `more` transactions may be there that were not acknowledged."""
    store = open_store(address)
    try:
        with store.transaction():  # begins when those of killed writers have ended
            changes = store.changes(before.revision)
        found = Counter(str(one.record.author) for one in changes)
        parts = Counter(
            (one.record.author, one.record.reason) for one in changes if one.version == 1
        )
        lost = [
            f"{mark}: {found[mark]} of {made} changes"
            for mark, made in acknowledged.items()
            if found[mark] != made
        ]
        lost += [
            f"{mark}: {count}, {why}"
            for (mark, why), count in parts.items()
            if why and why != f"part of {count}"
        ]
        extra = found.keys() - acknowledged.keys()
        now = snapshot(store, before)
        active: Counter[str] = Counter(
            e.record.query for e in now.edits.values() if e.record.status is Status.ACTIVE
        )
        lost += [
            f"{query} has {count} active edits" for query, count in active.items() if count > 1
        ]
        return now, lost + ([f"{sorted(extra)} were not acknowledged"] if len(extra) > more else [])
    finally:
        store.close()


def series(how: str, times: int, seed: int, place: Path, server: Database | None = None) -> Series:
    """Run a series of writers, on stores in files, or in a PostgreSQL server."""
    result, began, rng = Series(how), time.monotonic(), random.Random(seed)
    address, before = "", Snapshot()
    busy: Callable[[], bool] = lambda: Path(f"{address}-journal").exists()  # noqa: E731
    with server.monitor() if server else nullcontext(busy) as busy:
        while result.times < times:
            if result.times % WRITERS_PER_FILE == 0:
                path = place / f"{result.times}.db"
                address, before = server.of(path) if server else str(path), Snapshot()
                open_store(address).close()
            name = str(result.times)
            limit = (
                path.stat().st_size + rng.randrange(60_000)
                if how == "full"
                else resource.RLIM_INFINITY
            )
            names = (name, f"{name}b") if how in ("share", "move") else (name,)
            act = {"share": share, "move": move}.get(how, write)
            children = [fork(partial(work, act, address, one, limit)) for one in names]
            if how == "kill":
                time.sleep(rng.random() * 0.2)
                if rng.random() < 2 / 3:
                    until = time.monotonic() + 10
                    while (
                        not busy() and time.monotonic() < until
                    ):  # a writer may have ended by itself
                        time.sleep(0.0001)
                    time.sleep(rng.random() ** 4 * 0.005)
                result.in_a_change += bool(server) and busy()
                os.kill(children[0][0], signal.SIGKILL)
            ended = [told(*child) for child in children]
            result.in_a_change += not server and busy()
            acknowledged = {
                one[0]: one[1] for lines, _ in ended for one in lines if isinstance(one, list)
            }
            said = [one for lines, _ in ended for one in lines if isinstance(one, str)]
            expected = {"kill": -signal.SIGKILL, "full": 3, "share": 0, "move": 0}[how]
            wrong = [f"ended with {code}: {said}" for _, code in ended if code != expected]
            wrong += [one for one in said if how != "full" or "make room" not in one]
            if how == "move":
                before, lost = check_moves(address, before, acknowledged)
            else:
                before, lost = check(address, before, acknowledged, more=int(how == "kill"))
            if how == "share" and len(acknowledged) != 3 * SHARED:
                lost.append(f"{len(acknowledged)} facts instead of {3 * SHARED}")
            result.wrong += [f"{name}: {one}" for one in wrong + lost]
            result.acknowledged += sum(acknowledged.values())
            result.times += 1
            if not server and (result.times % WRITERS_PER_FILE == 0 or result.times == times):
                state = sqlite3.connect(address).execute("PRAGMA integrity_check").fetchone()[0]
                result.wrong += [f"{address}: {state}"] if state != "ok" else []
    result.seconds = round(time.monotonic() - began, 1)
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("how", choices=["kill", "full", "share", "move"])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as place,
        database() if asked.postgres else nullcontext() as server,
    ):
        outcome = series(asked.how, asked.times, asked.seed, Path(place), server)
    print(json.dumps(asdict(outcome)))
    sys.exit(bool(outcome.wrong))
