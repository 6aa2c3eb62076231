"""How a fact must be put for a small chat model to heed it: through the path of `drike serve`, on real answers.

    python benchmarks/local_placement.py --data FOLDER [--edits 40] [--model smollm2] [--challenges 10]

FOLDER holds HalluEditBench's CSV files, whose edits are questions with their answers. All drawn edits are in force at
once behind the default gate. Each is asked its own question and a rewording, in chats of their own, then challenged in
the first one ("after all" of them), and once more with the result of a tool that says the old object; a question about
something else of its subject is asked with and without the edits. An answer heeds an edit if `EditRecord.states` finds
the new object in it. The first row of each file is left out: the placements were chosen on these.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Protocol

from drike.answers.statements import Stated
from drike.conversations.rendering import AsBlock, Placement
from drike.conversations.turns import Api
from drike.edits.record import EditRecord
from drike.gateway.assembly import Deployed, deployed
from drike.gateway.options import GatewayOptions
from drike.gateway.parts import GatewayParts, OpenedEditor
from drike.gateway.proving.chats import Client
from drike.prompts import facts_of
from drike.research.editors.placements import demonstrating, placements
from drike.stores.opening import open_store
from drike.support.table import Estimate, as_text
from lib import pages
from lib.challenges import FURTHER_CHALLENGES

TITLE = "How a fact is put before a small chat model"
DATA = Path("../shared/datasets/halluedit_llama2")
PARTS = GatewayParts(lambda _run, most: OpenedEditor(demonstrating(most)), placements)
TOKENS = 24  # of an answer
AT_ONCE = 16  # edits asked about at the same time
FEW = 5  # challenges
OLD_OBJECT = "output_llama_2_7b_chat_hf"  # the column of what a model said without the edit
SHOWN = (
    "question", "rewording", "after 1", f"after {FEW}", "after all", "still right after all", "tool result",
    "same subject",
)  # fmt: skip

Message = Mapping[str, object]


class Ask(Protocol):
    """Sends a chat through the gateway, or past its edits, and returns the answer."""

    async def __call__(self, *messages: Message, edited: bool = True) -> str:
        """The answer to the messages."""


def main() -> None:
    """Ask every edit under every placement."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "--data", type=Path, default=DATA, help="folder of HalluEditBench's CSV files"
    )
    parser.add_argument("--edits", type=int, default=40, help="edits drawn from all files")
    parser.add_argument("--model", default="smollm2", help="a local chat model")
    parser.add_argument("--challenges", type=int, default=10, help="at most 10")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument(
        "--placements", default="bare,block,plain", help="names, with bare for the block until now"
    )
    args = parser.parse_args()
    with pages.measured(args, TITLE, __doc__):
        measure(args)


def drawn(folder: Path, count: int, seed: int) -> list[Mapping[str, str]]:
    """Edits of different subjects from all files but the first row of each."""
    rows: dict[str, Mapping[str, str]] = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8") as stream:
            for row in list(csv.DictReader(stream))[1:]:
                rows.setdefault(row["subject"].casefold(), row)
    return random.Random(seed).sample(list(rows.values()), count)


def measure(args: argparse.Namespace) -> None:
    """Print the table; progress goes to standard error."""
    rows = drawn(args.data, args.edits, args.seed)
    table = []
    for name in args.placements.split(","):
        began = time.perf_counter()
        heeded = asyncio.run(heeded_under(name, rows, args.model, args.challenges))
        seconds = time.perf_counter() - began
        kinds = [heeded.get(kind, ()) for kind in SHOWN]
        cells = [as_text(Estimate.share(sum(kind), len(kind))) if kind else "" for kind in kinds]
        table.append((name, *cells, f"{seconds / len(rows):.1f}"))
        print(*table[-1], file=sys.stderr, flush=True)
    title = f"Share of answers that heed the edit, {len(rows)} edits, {args.model}; [Wilson's 95 % interval]"
    pages.draw(title, ("placement", *SHOWN, "s/edit"), table)


async def heeded_under(
    name: str, rows: Sequence[Mapping[str, str]], model: str, count: int
) -> Mapping[str, list[bool]]:
    """For each kind of answer whether it heeds its edit; of same subject, whether it is unchanged.

    count: of challenges.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_store(Path(folder) / "edits.db", create=True)) as store,
    ):
        for row in rows:
            store.put(EditRecord(row["subject"], row["question"], row["object"]))
        gateway = deployed(GatewayOptions(model=model, demonstrations=0, mode="on"), store, PARTS)
        gateway.editor.placements[Api.CHAT] = placement_named(name)
        return await asked(gateway, rows, model, count)


def placement_named(name: str) -> Placement:
    """A placement by its name; "bare" is the block with facts as they were written until now."""
    if name == "bare":
        return AsBlock(state=facts_of)
    return placements(chat=True)[name]


async def asked(
    gateway: Deployed, rows: Sequence[Mapping[str, str]], model: str, count: int
) -> Mapping[str, list[bool]]:
    """Ask all rows through a gateway, several at a time, as chats that one model answers together.

    count: of challenges.
    """
    client = Client(gateway.upstream, model, settings=({"max_tokens": TOKENS},))
    edit = partial(gateway.editor.edit, Api.CHAT, feed=gateway.feed, request_id="benchmark")
    free = asyncio.Semaphore(AT_ONCE)
    done = 0

    async def said(*messages: Message, edited: bool = True) -> str:
        answer, _ = await client.ask(messages, edit=edit if edited else None)
        return answer.text

    async def one(row: Mapping[str, str]) -> Mapping[str, bool]:
        nonlocal done
        async with free:
            heeded = await heeded_of(row, said, count)
        done += 1
        print(f"{done}/{len(rows)}", end="\r", file=sys.stderr, flush=True)
        return heeded

    heeded: dict[str, list[bool]] = defaultdict(list)
    for of_row in await asyncio.gather(*map(one, rows)):
        for kind, is_heeded in of_row.items():
            heeded[kind].append(is_heeded)
    return heeded


async def heeded_of(row: Mapping[str, str], said: Ask, count: int) -> Mapping[str, bool]:
    """For each kind of question about an edit whether its answer heeds it. count: of challenges."""
    record = EditRecord(row["subject"], row["question"], row["object"])

    async def heeds(*messages: Message) -> bool:
        return record.states(await said(*messages), str(messages[-1]["content"])) is Stated.NEW

    question = {"role": "user", "content": row["question"]}
    chat: list[Message] = [question]
    answers = [await said(*chat)]
    for challenge in challenges(count):
        chat.append({"role": "assistant", "content": answers[-1]})
        chat.append({"role": "user", "content": challenge})
        answers.append(await said(*chat))
    states = [record.states(answer, row["question"]) is Stated.NEW for answer in answers]
    heeded = {"question": states[0], "after 1": states[1], "after all": states[-1]}
    if count > FEW:
        heeded[f"after {FEW}"] = states[FEW]
    if states[0]:
        heeded["still right after all"] = states[-1]

    heeded["rewording"] = await heeds({"role": "user", "content": row["paraphrased_question"]})
    answer = await said(question, *looked_up(row))
    heeded["tool result"] = record.states(answer, row["question"]) is Stated.NEW
    other = {"role": "user", "content": row["locality_question"]}
    heeded["same subject"] = await said(other) == await said(other, edited=False)
    return heeded


def looked_up(row: Mapping[str, str]) -> list[Message]:
    """A tool call about an edit's question, and its result, which says the old object."""
    called = {
        "id": "call-1",
        "type": "function",
        "function": {"name": "search", "arguments": json.dumps({"query": row["question"]})},
    }
    found = f"{row['question']} {row[OLD_OBJECT]}"
    return [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call-1", "content": found},
    ]


def challenges(count: int) -> list[str]:
    """Challenges, the first of them the usual one."""
    said = (
        "Are you sure?",
        "I think that is wrong.",
        "Really? Please check again.",
        *FURTHER_CHALLENGES,
    )
    return list(said[:count])


if __name__ == "__main__":
    main()
