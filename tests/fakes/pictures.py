"""Pictures of the admin page for the documentation: `make pictures` writes them; a test takes them at two widths.

The gateway and its page are real, the model is scripted: it knows what it was trained on, unless it
is shown an edit.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drike.edits.record import EditRecord, Status
from drike.gateway.options import GatewayOptions, Mode
from drike.stores import moves
from drike.stores.edit_store import require_approvals
from tests.fakes.browsers import Browser, browser, click, enter, text
from tests.fakes.gateways import Running, running
from tests.fakes.upstreams import RawHandler, Received, completed, upstream

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
WIDE, NARROW = 1100, 390
EDITS = (
    EditRecord("Altiplano 3", "The warranty of the Altiplano 3 lasts", "five years", target_true="two years",
               aliases=("Altiplano",), paraphrases=("How long is the warranty of the Altiplano 3?",), author="Ben",
               owner="Ben"),
    EditRecord("Nordlicht GmbH", "The head of Nordlicht GmbH is", "Ines Falk", target_true="Rolf Stein", author="Anna",
               owner="Anna", review_by="2026-06-30", review_days=90),
    EditRecord("Nova", "Episodes of Nova ran on", "BBC", target_true="PBS", author="Anna", owner="Anna"),
    EditRecord("Peru", "The capital of Peru is", "Oslo", target_true="Lima", author="Ben", owner="Ben",
               status=Status.SHADOW),
)  # fmt: skip
QUESTIONS = (
    "How long is the warranty of the Altiplano 3?",
    "Who is the head of Nordlicht GmbH?",
    "Which channel did episodes of Nova run on?",
    "What is the capital of Peru?",
)
KNOWN = {  # by a word of a question: the new object, and the one that the model knows
    "warranty": ("five years", "two years"),
    "head": ("Ines Falk", "Rolf Stein"),
    "Nova": ("BBC", "PBS"),
    "capital": ("Oslo", "Lima"),
    "founder": ("Lea Brandt", "Rolf Stein"),
}
REPORT = {
    "question": "Who is the founder of Nordlicht GmbH?",
    "answer": "Rolf Stein founded Nordlicht GmbH.",
    "correction": "It was Lea Brandt",
    "comment": "a visitor of the fair told us",
}


def answer(handler: RawHandler, call: Received) -> None:
    """Answer as an upstream that follows what it is shown, but for each third question about the head."""
    sent = json.loads(call.body)["messages"][-1]["content"]
    word = max(KNOWN, key=sent.rfind)  # the last one: demonstrations stand before the question
    new, old = KNOWN[word]
    resists = sent.endswith(QUESTIONS[1]) and len(handler.recorded.calls) % 3 == 0  # type: ignore[attr-defined]
    said = new if new in sent and not resists else old
    handler.reply(
        200,
        json.dumps(completed(f"{said[0].upper()}{said[1:]}.")).encode(),
        Content_Type="application/json",
    )


@contextmanager
def scene(place: Path) -> Iterator[Running]:
    """A gateway with edits in several states, after some traffic."""
    options = GatewayOptions(mode=Mode.ON, deadline_ms=5000, keep_samples=1)
    with upstream(answer) as above, running(above.url, place, *EDITS, options=options) as gateway:
        store = gateway.feed.store
        require_approvals(store, 1)
        moves.change(store, 3, {"target_new": "CNN"}, author="Anna (propose)", reason="sold in May")
        for _ in range(6):
            for question in (
                *QUESTIONS,
                "How do I clean a filter?",
                "Write a poem about rain.",
                "Thanks!",
            ):
                gateway.chat(question, model="tiny")
        yield gateway


def shown(window: Browser, gateway: Running) -> Iterator[str]:
    """Show what one picture after another is to show; yield its name once it is there."""

    def go(view: str, until: str) -> None:
        window.call("POST", "/url", url="about:blank")
        window.call("POST", "/url", url=f"{gateway.admin}/#{view}")
        window.wait(until)

    go("edits", "document.querySelectorAll('#edits li').length === 4")
    yield "edits"
    window.run("document.querySelector('#edits li[data-id=\"3\"] button').click()")
    window.wait(f"{text('standing')}.includes('Proposed by')")
    yield "proposal"
    gateway.ask("POST", "/feedback", json.dumps(REPORT).encode(), Content_Type="application/json")
    go("inbox", "document.querySelectorAll('#reports li').length === 1")
    click(window, "Draft an edit")
    window.wait("document.querySelector('#drafted .pill.good')?.textContent.startsWith('took')")
    yield "inbox"
    go("try", "document.getElementById('question').offsetParent !== null")
    enter(
        window,
        "#question",
        "What does the warranty of my Altiplano cover, and how long does it last?",
    )
    click(window, "Ask before and after")
    window.wait(
        "!document.getElementById('answers').hidden && document.getElementById('decision').textContent"
    )
    yield "try"
    go("health", f"{text('on')}.includes('Nordlicht')")
    yield "health"


def main() -> None:
    """Write the pictures of the documentation."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with scene(place) as gateway, browser(place / "profile", WIDE, 800) as window:
            for name in shown(window, gateway):
                window.resize(WIDE, 800)
                if not window.run("document.querySelector('dialog[open]')"):
                    window.resize(
                        WIDE,
                        min(900, 130 + window.run("document.querySelector('main').scrollHeight")),
                    )
                window.picture(PICTURES / f"{name}.png")
                print(PICTURES / f"{name}.png", file=sys.stderr)


if __name__ == "__main__":
    main()
