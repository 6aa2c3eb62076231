"""Outcomes as the paper's tables and figures, and runs as one page that needs nothing else.

`tables` makes rows of strings, `paper` holds what was published, `latex` writes tables for a paper, `measured` says
which runs may stand in one table, `reading` fetches them from their folders, `figures` draws, `document` puts a report
together and `page` writes it as HTML. Only `figures` loads matplotlib and only `page` jinja2.
"""

from drike.report.paper import PAPER_TABLE1, Published
from drike.report.tables import Table, as_markdown, costs, differences, published, table1, work

__all__ = ["PAPER_TABLE1", "Published", "Table", "as_markdown", "costs", "differences", "published", "table1", "work"]
