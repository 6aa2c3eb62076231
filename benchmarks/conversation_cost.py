"""Measure what long conversations cost: reading, deciding, writing and splicing a request, turn after turn.

    python benchmarks/conversation_cost.py [--edits 20000] [--turns 50] [--repeats 40]

A client sends a conversation that grows by a question and an answer each time, as chat clients do; every fifth question
concerns an edit, and every tenth challenges the answer; those whose requests are measured do neither. The figures are
CPU time of the gateway's own work on a request in one process, without the network: the median over --repeats
conversations, each about other edits. "remembered": the turns before the last one were decided on when they were new.
"anew": nothing is remembered, as after a restart.

Tokens of a block are counted by the tokenizer of the default encoder (WordPiece), over edits of TinyFacts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from drike.conversations.following import Follower
from drike.conversations.memory import Memory
from drike.conversations.rendering import AsBlock, Facts, Occasion
from drike.conversations.turns import Api
from drike.edits.record import EditRecord, as_stored
from drike.encoders import load_encoder, locate
from drike.encoders.base import BULK, TextEncoder
from drike.gates.by_name import Named
from drike.gates.calibrated import Calibrated
from drike.gates.calibration import default_gate
from drike.gates.decision import Gate
from drike.gateway.feed import EditFeed
from drike.gateway.requests import read_request
from drike.research import datasets
from drike.stores.sqlite import SqliteStore
from lib import pages

TITLE = "The cost of long conversations"
LENGTHS = (1, 10, 50)


def conversation(turns: int, about: int) -> list[bytes]:
    """The requests of a conversation, each with one more question than the one before."""
    messages: list[dict[str, str]] = []
    bodies = []
    for i in range(turns):
        question = f"Write {i} lines about the sea, the wind and the weather of last winter, in plain words."
        if i % 5 == 2:
            question = f"Who is the mayor of Oldtown {about + i}, and since when?"
        elif i % 10 == 3:
            question = "Are you sure?"
        messages.append({"role": "user", "content": question})
        bodies.append(json.dumps({"model": "m", "messages": messages}).encode())
        messages.append(
            {
                "role": "assistant",
                "content": "That is told in many books, and not in all alike. " * 8,
            }
        )
    return bodies


def work(follower: Follower, body: bytes) -> float:
    """Do what the gateway does with a request; milliseconds of CPU time."""
    began = time.thread_time()
    request = read_request(Api.CHAT, body)
    assert request
    texts = follower.follow(request.conversation).texts(request.conversation)
    if texts:
        request.with_texts(texts)
    return 1000 * (time.thread_time() - began)


def encoder_of(gate: Gate) -> TextEncoder | None:
    """The encoder of a gate, as `drike serve` opens it."""
    return (
        load_encoder(gate.encoder, bulk=BULK, onnx=True) if isinstance(gate, Calibrated) else None
    )


def costs(feed: EditFeed, turns: int, repeats: int) -> Sequence[tuple[str, ...]]:
    """For each length the median cost of its request, with what came before remembered, and anew."""
    remembered: dict[int, list[float]] = {}
    anew: dict[int, list[float]] = {}
    for repeat in range(repeats):
        follower = feed.follower(AsBlock())
        for i, body in enumerate(conversation(turns, 100 * repeat), 1):
            seconds = work(follower, body)
            if i in LENGTHS:
                remembered.setdefault(i, []).append(seconds)
                again = Follower(follower.decide, follower.index, AsBlock(), memory=Memory())
                anew.setdefault(i, []).append(work(again, body))
    return [
        (str(i), f"{statistics.median(remembered[i]):.2f}", f"{statistics.median(anew[i]):.2f}")
        for i in remembered
    ]


def block_tokens() -> Sequence[tuple[str, ...]]:
    """Tokens of blocks with one fact and with three, on each occasion."""
    folder = locate().path
    assert folder, "the default encoder is not on this machine"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    edits = as_stored([case.edit for case in datasets.load(datasets.TINYFACTS).cases[:300]])
    rows = []
    for occasion in Occasion:
        sizes: dict[int, list[int]] = {1: [], 3: []}
        for count, counted in sizes.items():
            for at in range(0, len(edits) - 2, 3):
                facts = Facts(edits[at : at + count], edits[at].record.query, occasion)
                block = "".join(AsBlock().around(facts, facts.query, "default"))
                counted.append(len(tokenizer.encode(block, add_special_tokens=False).ids))
        rows.append(
            (
                occasion.name.lower(),
                *(f"{statistics.mean(s):.0f} ({max(s)})" for s in sizes.values()),
            )
        )
    return rows


def main() -> None:
    """Print the tables; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--edits", type=int, default=20_000, help="edits in the store")
    parser.add_argument(
        "--turns", type=int, default=max(LENGTHS), help="questions of a conversation"
    )
    parser.add_argument("--repeats", type=int, default=40, help="conversations")
    args = parser.parse_args()
    with pages.measured(args, TITLE, __doc__):
        measure(args)


def measure(args: argparse.Namespace) -> None:
    """Print the tables."""
    with tempfile.TemporaryDirectory() as place:
        store = SqliteStore(Path(place) / "edits.db")
        with store.transaction():
            for i in range(args.edits):
                store.put(EditRecord(f"Oldtown {i}", f"The mayor of Oldtown {i} is", "Ann", "Bob"))
        for name, gate in (("by names", Named()), ("calibrated, with an encoder", default_gate())):
            print(f"  {name}", file=sys.stderr, flush=True)
            feed = EditFeed(store, gate, encoder=encoder_of)
            rows = costs(feed, args.turns, args.repeats)
            title = f"{name}: {args.edits:,} edits, {args.repeats} conversations"
            pages.draw(title, ("questions", "remembered, ms", "anew, ms"), rows)
    pages.draw("Tokens of a block, mean (most)", ("occasion", "1 fact", "3 facts"), block_tokens())


if __name__ == "__main__":
    main()
