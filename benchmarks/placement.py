"""Compare ways of placing an edit in a request: as the editor's prompt, or as a block before a chat's text.

    python benchmarks/placement.py [--edits 60] [--seed 0]

The embedded model answers the queries and paraphrases of TinyFacts' test edits under each placement of
`drike.conversations.rendering`; an answer is right if it begins with the new object. The model was trained on the
prompts' layout and has no chat template, so its figures for the block say nothing about models that follow
instructions.
"""

from __future__ import annotations

import argparse
import sys

from drike.conversations.rendering import AsBlock, AsPrompt, Facts
from drike.edits.record import as_stored
from drike.encoders import load_encoder
from drike.models import EMBEDDED
from drike.models import load as load_model
from drike.research.datasets import TINYFACTS, load
from drike.research.editors.catalog import make
from drike.research.editors.pool import Pool
from lib import pages

TITLE = "Where an edit stands in a request"


def main() -> None:
    """Ask every probe under every placement."""
    parser = pages.parser(__doc__)
    parser.add_argument("--edits", type=int, default=60, help="test edits")
    parser.add_argument("--seed", type=int, default=0, help="of the split")
    args = parser.parse_args()
    with pages.measured(args, TITLE, __doc__):
        measure(args)


def measure(args: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    split = load(TINYFACTS).split(seed=args.seed, train=0, test=args.edits)
    model = load_model(EMBEDDED)
    pool = Pool(split.demonstrations, load_encoder("hashing"), seed=args.seed)
    placements = {
        "prompt, nearest copies and updates (drike serve)": AsPrompt(make("no-retains", pool=pool)),
        "prompt, IKE": AsPrompt(make("ike", pool=pool)),
        "block, nearest copies and updates": AsBlock(make("no-retains", pool=pool)),
        "block, facts alone": AsBlock(),
    }
    rows = []
    for name, placement in placements.items():
        right: dict[bool, list[bool]] = {True: [], False: []}
        tokens: list[int] = []
        for case in split.test:
            queries = [case.edit.query, *(probe.query for probe in case.paraphrases)]
            edits = as_stored([case.edit])
            texts = [
                placement.around(Facts(edits, query), query, "").before + query for query in queries
            ]
            tokens += model.count_tokens(texts) if model.count_tokens else []
            for query, done in zip(queries, model.generate(texts), strict=True):
                right[query == case.edit.query].append(
                    done.text.strip().startswith(case.edit.target_new)
                )
        shares = [sum(right[own]) / len(right[own]) for own in (True, False)]
        rows.append(
            (name, *(f"{share:.2f}" for share in shares), f"{sum(tokens) / len(tokens):.0f}")
        )
        print(*rows[-1], file=sys.stderr, flush=True)
    header = ("placement", "own queries", "paraphrases", "tokens")
    pages.draw(
        f"Share of right answers, {args.edits} test edits of TinyFacts, embedded model",
        header,
        rows,
    )


if __name__ == "__main__":
    main()
