"""Outcomes as the paper's tables and figures, and runs as one self-contained page.

`tables` makes rows of strings, `latex` writes them for a paper, `paper` holds what was published, `reading` reads runs'
folders, `groups` says which runs can share a table, `training` and `variants` summarise training runs and variants of
editors, `figures` draws, `document` puts a report together, `page` writes it as HTML and `cases` fills its case viewer.
Only `figures` loads matplotlib and only `page` jinja2.
"""

from drike.report.paper import PAPER_TABLE1, Published
from drike.report.tables import costs, differences, published, table1, work
from drike.table import Table, as_markdown

__all__ = ["PAPER_TABLE1", "Published", "Table", "as_markdown", "costs", "differences", "published", "table1", "work"]
