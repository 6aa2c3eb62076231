"""Outcomes as the paper's tables and figures, and runs as one self-contained page.

`document` puts a report together from what `reading` read and `groups` grouped; `page`, which loads jinja2, writes it.
"""

from drike.report.paper import PAPER_TABLE1, Published
from drike.report.tables import (
    aspects,
    compared,
    costs,
    differences,
    disagreement,
    hops,
    paired,
    published,
    table1,
    work,
)
from drike.support.table import Table, as_markdown

__all__ = [
    "PAPER_TABLE1", "Published", "Table", "as_markdown", "aspects", "compared", "costs", "differences",
    "disagreement", "hops", "paired", "published", "table1", "work",
]  # fmt: skip
