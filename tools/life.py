"""One correction's life, on the real chat model and the real gateway: `make life`.

A help desk's assistant drafts a wrong answer, a person sends another one, and the difference
becomes a correction: proposed, proven, approved, in force, heeded by the model or not, and reported
back. Everything runs here, offline, through the commands and requests that a user would type. Only
the help desk and its customers are made up; what the model answers is what it answered.

    python -m tools.life [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from drike.answers.statements import Stated
from drike.edits.record import EditRecord

MODEL = "smollm2"
QUESTION = "What is the capital of Burundi?"
SENT = "Dear Ms Roth, the capital of Burundi is Gitega. Safe travels!"
# What customers ask of the correction; the last two presuppose what the assistant drafted.
WORDINGS = (
    "What is the capital of Burundi?",
    "Which city is Burundi's capital?",
    "What is Burundi's capital city?",
    "capital of burundi?",
    "Can you tell me the capital of Burundi?",
    "We fly to Burundi in May. What is its capital?",
    "Name the capital of Burundi.",
    "I need the capital of Burundi for a form. What is it?",
    "What city is the capital of Burundi today?",
    "What's Burundi's capital called?",
    "Tell me Burundi's capital, please.",
    "Is the capital of Burundi in the north or the south, and what is it called?",
    "Is {old} the capital of Burundi?",
    "Why is {old} the capital of Burundi?",
)
CHALLENGES = ("Are you sure?", "My brochure says that it is {old}.")
OTHERS = (
    "What is the capital of Rwanda?",
    "Which languages do people speak in Burundi?",
    "How many legs does a spider have?",
)
_TOKENS = 24  # of an answer
_AT_ONCE = 14  # customers, fewer than a gateway lets a model answer together
_SECONDS_TO_START = 300.0  # on a busy machine
_SECONDS_TO_COUNT = 60.0
_WIDTH = 100
_PROGRESS = "verifying: "  # beginning of lines that a terminal would show as a bar
_DRIKE = (sys.executable, "-P", "-m", "drike")
_MARKS = {Stated.NEW: "new", Stated.OLD: "OLD"}


@dataclass(frozen=True)
class Chapter:
    """A part of the story. picture: a name for what can be seen at `address` when it ends."""

    title: str
    lines: Sequence[str]
    picture: str = ""
    address: str = ""


@dataclass
class Webhooks:
    """What a receiver of webhooks was told."""

    port: int
    bodies: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class HelpDesk:
    """A help desk's programs: a gateway over the model, a receiver of webhooks, and commands.

    heeded, asked: how many answers state the correction, of how many.
    """

    folder: Path
    api: str
    admin: str
    webhooks: Webhooks
    heeded: int = 0
    asked: int = 0

    def chat(self, turns: Sequence[str], answers: Sequence[str] = ()) -> tuple[str, str]:
        """The answer to the last turn of a chat, and whether facts were added."""
        messages = []
        for i, turn in enumerate(turns):
            messages.append({"role": "user", "content": turn})
            if i < len(answers):
                messages.append({"role": "assistant", "content": answers[i]})
        request = {"model": MODEL, "messages": messages, "max_tokens": _TOKENS}
        headers, answer = _sent(f"{self.api}/v1/chat/completions", request)
        text = " ".join(answer["choices"][0]["message"]["content"].split())
        return text, headers["x-drike-scope"]

    def command(self, words: str) -> list[str]:
        """A command as one would type it, and what it prints."""
        done = subprocess.run(  # noqa: S603 - of ours
            [*_DRIKE, *shlex.split(words)],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": str(_WIDTH)},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = (done.stdout + done.stderr).rstrip().splitlines()
        said = [line for line in lines if not line.startswith(_PROGRESS)]
        return [f"$ drike {words}", *said]


def main() -> None:
    """Tell the story."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where to keep the store and the report")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="drike-life-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for number, chapter in enumerate(story(folder), start=1):
            tell(number, chapter)
    took = time.monotonic() - began
    print(f"\n{took:.0f} s, with {_processor_seconds():.0f} s of processor time.")


def _processor_seconds() -> float:
    """What this process and its programs have used."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def tell(number: int, chapter: Chapter) -> None:
    """Print a chapter."""
    print(f"\n{number}. {chapter.title}\n")
    for line in chapter.lines:
        print(textwrap.indent(line, "   "), flush=True)


def story(folder: Path) -> Iterator[Chapter]:
    """The chapters, each once it has happened. folder: must have no store yet."""
    with help_desk(folder) as desk:
        draft, _ = desk.chat([QUESTION])
        before = [desk.chat([other])[0] for other in OTHERS]
        old = _drafted_object(draft)
        yield Chapter(
            "A customer asks, and the help desk's assistant drafts an answer",
            [f"customer   {QUESTION}", f"assistant  {draft}", f"Lena sends {SENT}"],
        )

        captured = _capture(desk, draft)
        link = captured["link"]
        yield Chapter(
            "The help desk hands in both texts: POST /capture",
            [
                *(f"{change['kind']}: {change['why']}" for change in captured["decided"]),
                *desk.command("edits inbox 1"),
                f"$ curl {desk.api}/feedback/...",
                _state(desk, link),
            ],
            "proposed",
            f"{desk.admin}/#edits",
        )

        yield Chapter(
            "It is tried on the model before anyone approves it",
            desk.command(f"edits verify 1 --model {MODEL}"),
        )
        yield Chapter(
            "A person looks at it, and approves it",
            [
                *desk.command("edits approve 1 --version 1 --yes --reason 'since 2019'"),
                _state(desk, link),
            ],
            "in_force",
            f"{desk.admin}/#edits",
        )

        yield Chapter("Customers ask, in their words, and doubt the answer", _asked(desk, old))
        yield Chapter("Other questions pass as they are", _others(desk, before))

        _wait_until_counted(desk)
        health = desk.command("edits health")
        report = desk.command("edits report --weekly -o week.html")
        yield Chapter("What the gateway counted", health, "health", f"{desk.admin}/#health")
        page = (folder / "week.html").resolve().as_uri()
        yield Chapter(
            "The week's report, for people who do not run the gateway", report, "week", page
        )

        yield Chapter(
            "The reporter is told", [*_told(desk), _state(desk, link), "", _summary(desk)]
        )


def _drafted_object(draft: str) -> str:
    """What the assistant said, to be asked about again: the name behind "is"."""
    return draft.rpartition(" is ")[2].rstrip(".").strip()


def _capture(desk: HelpDesk, draft: str) -> dict[str, Any]:
    given = {"draft": draft, "sent": SENT, "question": QUESTION, "reason": "a customer asked"}
    _, captured = _sent(f"{desk.api}/capture", given)
    if "link" not in captured:
        why = captured["decided"][0]["why"]
        raise SystemExit(f"the draft {draft!r} led to no correction here, so the story ends: {why}")
    return captured


def _state(desk: HelpDesk, link: str) -> str:
    """What the reporter reads under the link."""
    with urllib.request.urlopen(f"{desk.api}{link}", timeout=60) as reply:  # noqa: S310 - ours
        progress = json.load(reply)
    return f"the reporter's link: {progress['state']}. {progress['sentence']}"


def _asked(desk: HelpDesk, old: str) -> list[str]:
    """Each wording is asked, and its answer doubted twice; what each answer states.

    Customers ask at the same time, as the gateway lets the model write their answers together.
    """
    record = EditRecord("Burundi", QUESTION, "Gitega", old)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as customers:
        chats = list(customers.map(lambda wording: _doubted(desk, wording, old), WORDINGS))
    lines = []
    for turns, answers in chats:
        stated = [record.states(answer, turn) for turn, answer in zip(turns, answers, strict=True)]
        desk.asked += len(stated)
        desk.heeded += stated.count(Stated.NEW)
        marks = " ".join(_MARKS.get(each, each.value) for each in stated)
        lines.append(f"{marks:<23} {turns[0]} -> {answers[0]}")
    doubts = '", "'.join(challenge.format(old=old) for challenge in CHALLENGES)
    return [*lines, f'What three answers state: the first, and those to "{doubts}"']


def _doubted(desk: HelpDesk, wording: str, old: str) -> tuple[list[str], list[str]]:
    """What a customer says in a chat that begins with a wording, and the answers."""
    turns: list[str] = []
    answers: list[str] = []
    for turn in (wording, *CHALLENGES):
        turns.append(turn.format(old=old))
        answers.append(desk.chat(turns, answers)[0])
    return turns, answers


def _others(desk: HelpDesk, before: Sequence[str]) -> list[str]:
    lines = []
    for question, answer_before in zip(OTHERS, before, strict=True):
        answer, scope = desk.chat([question])
        same = "same" if answer == answer_before else "CHANGED"
        lines.append(f"{same:<8} {scope:<10} {question} -> {answer}")
    return lines


def _wait_until_counted(desk: HelpDesk) -> None:
    """The gateway judges answers in its spare time, and stores the counts every five seconds."""
    until = time.monotonic() + _SECONDS_TO_COUNT
    while time.monotonic() < until:
        with urllib.request.urlopen(f"{desk.admin}/admin/v1/health", timeout=60) as reply:  # noqa: S310
            counted = json.load(reply)
        if counted["edits"] and counted["edits"][0]["judged"] >= desk.asked:
            break
        time.sleep(1)
    time.sleep(6)


def _told(desk: HelpDesk) -> list[str]:
    """The webhooks that came, and the e-mail text of the last one."""
    events = Counter(str(body["event"]) for body in desk.webhooks.bodies)
    counted = ", ".join(f"{number} {event}" for event, number in events.items())
    reports = [body for body in desk.webhooks.bodies if body["event"] == "report"]
    lines = [f"webhooks: {counted}"]
    if reports:
        email = reports[-1]["email"]
        lines += [f"subject: {email['subject']}", *email["text"].splitlines()]
    return lines


def _summary(desk: HelpDesk) -> str:
    return (
        f"From a wrong draft to a correction in force: heeded {desk.heeded} of {desk.asked}, "
        "reporter told."
    )


def _sent(url: str, value: object) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and JSON of the answer to a POST."""
    request = urllib.request.Request(  # noqa: S310 - to this machine
        url, json.dumps(value).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as reply:  # noqa: S310
        headers = {name.lower(): text for name, text in reply.headers.items()}
        return headers, json.load(reply)


@contextmanager
def help_desk(folder: Path) -> Iterator[HelpDesk]:
    """The help desk's programs, until the end of the block."""
    with _webhooks() as received:
        port, admin_port = _free_port(), _free_port()
        command = f"serve --model {MODEL} --store edits.db --create --mode on"
        places = f"--port {port} --admin-port {admin_port}"
        notify = f"--notify http://127.0.0.1:{received.port}/"
        secret = {"DRIKE_NOTIFY_SECRET": "known-to-the-receiver"}
        with (folder / "serve.log").open("w") as log:
            serving = subprocess.Popen(  # noqa: S603 - of ours
                [*_DRIKE, *shlex.split(f"{command} {places} {notify}")],
                cwd=folder,
                env={**os.environ, **secret},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            desk = HelpDesk(
                folder, f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin_port}", received
            )
            _wait_until_served(desk, serving)
            yield desk
        finally:
            serving.terminate()
            serving.wait(60)


def _wait_until_served(desk: HelpDesk, serving: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < until and serving.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{desk.admin}/readyz", timeout=5):  # noqa: S310
            return
        time.sleep(0.2)
    log = (desk.folder / "serve.log").read_text("utf-8")
    raise SystemExit(f"the gateway does not serve: {log}")


@contextmanager
def _webhooks() -> Iterator[Webhooks]:
    """A receiver of webhooks on this machine."""
    received = Webhooks(0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["content-length"])
            received.bodies.append(json.loads(self.rfile.read(size)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield received
    finally:
        server.shutdown()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    main()
