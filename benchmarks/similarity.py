"""The paper's "average similarity to k-nearest neighbors": how near editable edits are to the rows that demonstrate.

Of what the pool embeds, the edit's New Fact line and query: the mean cosine similarity of each editable edit to its k
nearest demonstration rows, to the nearest and the k-th alone, and to its k nearest of all other rows.

    python benchmarks/similarity.py [DATA ...] [--editable N] [--k 32] [--encoder NAME]
"""

from __future__ import annotations

import argparse

from drike.encoders import MINILM, TextEncoder, load_encoder
from drike.encoders.base import directions, nearest
from drike.errors import DataError
from drike.prompts import query_block
from drike.research.datasets import TINYFACTS, Dataset, load
from lib import pages

TITLE = "Similarity of demonstrations"


def main() -> None:
    """Print the table."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "data", nargs="*", default=[TINYFACTS], help="a name, address or file; several are joined"
    )
    parser.add_argument(
        "--editable", type=int, help="editable rows, first by case_id (default: the data set's)"
    )
    parser.add_argument(
        "--k", type=int, default=32, help="nearest rows of each edit (default: the paper's 32)"
    )
    parser.add_argument("--encoder", default=MINILM)
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the similarities of a data set."""
    dataset = load(*options.data)
    first = dataset.editable if options.editable is None else options.editable
    means = similarities(dataset, load_encoder(options.encoder), first, options.k)
    title = f"{dataset.name}: the first {first:,} of {len(dataset.cases):,} edits, k = {options.k}"
    pages.draw(
        title,
        ("to the k nearest", "cosine"),
        [(name, f"{mean:.3f}") for name, mean in means.items()],
    )


def similarities(dataset: Dataset, encoder: TextEncoder, first: int, k: int) -> dict[str, float]:
    """Mean cosine similarities of the first edits to other rows. Raises DataError if there are no such rows."""
    count = len(dataset.cases)
    if not 0 < first < count or k < 1:
        given = f"{first} of {dataset.name}'s {count} rows are editable and k is {k}"
        raise DataError(
            f"similarity needs editable rows, other rows and k >= 1, but {given}: change these numbers"
        )
    vectors = encoder.encode([query_block(case.edit, case.edit.query) for case in dataset.cases])
    records = directions(vectors)
    _, near = nearest(vectors[:first], records[first:], k)
    # Each edit's nearest row is itself or a copy of it, so the first of the k + 1 best is left out.
    _, everywhere = nearest(vectors[:first], records, min(k, count - 1) + 1)
    names = (
        "of the demonstration rows",
        "the nearest of them",
        "the k-th of them",
        "of all other rows",
    )
    measured = (near, near[:, 0], near[:, -1], everywhere[:, 1:])
    return {name: float(values.mean()) for name, values in zip(names, measured, strict=True)}


if __name__ == "__main__":
    main()
