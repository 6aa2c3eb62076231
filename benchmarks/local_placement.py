"""How a fact must be put for a small chat model to heed it: through the path of `drike serve`, on real answers.

    python benchmarks/local_placement.py --data FOLDER [--edits 40] [--model smollm2] [--challenges 10]

FOLDER holds HalluEditBench's CSV files, whose edits are questions with their answers. All drawn edits are in force at
once behind the default gate. Each is asked its own question and a rewording, in chats of their own, then challenged
in the first one ("after all" of them); a question about something else of its subject is asked with and without the
edits. An answer heeds an edit if `EditRecord.states` finds the new object in it. The first row of each file is left
out: the placements were chosen on these.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

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
SHOWN = ("question", "rewording", "after 1", "after all", "still right after all", "same subject")


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
        cells = [as_text(Estimate.share(sum(heeded[kind]), len(heeded[kind]))) for kind in SHOWN]
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
    """Ask all rows through a gateway. count: of challenges."""
    client = Client(gateway.upstream, model, settings=({"max_tokens": TOKENS},))
    edit = partial(gateway.editor.edit, Api.CHAT, feed=gateway.feed, request_id="benchmark")
    heeded: dict[str, list[bool]] = defaultdict(list)

    async def said(*messages: Mapping[str, str], edited: bool = True) -> str:
        answer, _ = await client.ask(messages, edit=edit if edited else None)
        return answer.text

    for number, row in enumerate(rows):
        record = EditRecord(row["subject"], row["question"], row["object"])
        chat = [{"role": "user", "content": row["question"]}]
        answers = [await said(*chat)]
        for challenge in challenges(count):
            chat += [
                {"role": "assistant", "content": answers[-1]},
                {"role": "user", "content": challenge},
            ]
            answers.append(await said(*chat))
        states = [record.states(answer, row["question"]) is Stated.NEW for answer in answers]
        heeded["question"].append(states[0])
        heeded["after 1"].append(states[1])
        heeded["after all"].append(states[-1])
        if states[0]:
            heeded["still right after all"].append(states[-1])
        reworded = row["paraphrased_question"]
        answer = await said({"role": "user", "content": reworded})
        heeded["rewording"].append(record.states(answer, reworded) is Stated.NEW)
        other = {"role": "user", "content": row["locality_question"]}
        heeded["same subject"].append(await said(other) == await said(other, edited=False))
        print(f"{number + 1}/{len(rows)}", end="\r", file=sys.stderr, flush=True)
    return heeded


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
