"""A report as one HTML file that needs no network: style, script, chart and all cases are inside.

`templates` and `case_data` escape every text. In addition, the page's content security policy
allows no script but the viewer, which it names by hash, and loads nothing.
"""

import hashlib
from base64 import b64encode
from pathlib import Path

from drike.research.report import sentences
from drike.research.report.case_data import as_script, packed
from drike.research.report.document import Document, example, scores
from drike.research.report.page_tables import blocks
from drike.research.report.pareto_chart import pareto
from drike.research.report.tables import SCORES, STARRED
from drike.research.report.templates import rendered
from drike.support.table import as_text

_VIEWER = Path(__file__).with_name("viewer.js")
# The page marks differences by shapes instead of stars.
_MARKS = f"{STARRED.replace('*', '▲ above 0, ▼ below 0').removesuffix('.')}; ○: it includes 0."


def html(document: Document) -> str:
    """Write the page of a report; the same input gives the same text."""
    script = _VIEWER.read_text("utf-8")
    digest = hashlib.sha256(script.encode()).digest()
    page = rendered(
        "page.html",
        document=document,
        groups=document.groups,
        sentences=sentences,
        example_of=example,
        scores_of=scores,
        pareto=pareto,
        metrics=SCORES,
        blocks=blocks,
        as_text=as_text,
        starred=STARRED,
        marks=_MARKS,
        data=as_script(packed(document.groups)),
        script=script,
        script_hash="sha256-" + b64encode(digest).decode(),
    )
    return page.encode("utf-8", "backslashreplace").decode()  # a lone surrogate has no UTF-8
