"""A report as one HTML file that asks nothing of a network: style, script, figures and data are all inside.

Every text is escaped by jinja2 or by `cases.as_script`; on top of that the page's own policy lets no script run but
the viewer, which it names by hash, and loads nothing from anywhere.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drike.report.cases import as_script, packed
from drike.report.document import Document

if TYPE_CHECKING:
    from drike.casestudy import CaseStudy

_HERE = Path(__file__).parent


def html(document: Document, studies: Sequence[CaseStudy] = ()) -> str:
    """The page of a report, with case studies if there are any; the same input gives the same text."""
    from drike.report import studies as shown

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script = (_HERE / "viewer.js").read_text("utf-8")
    page = environment.get_template("page.html").render(
        document=document,
        studies=[
            {"title": shown.title(one), "tables": list(shown.tables(one)),
             "prompts": [(side.editor, shown.prompt_blocks(side.prompt)) for side in one.sides]}
            for one in studies
        ],
        style=(_HERE / "style.css").read_text("utf-8"),
        script=script,
        script_hash="sha256-" + b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=as_script(packed(document.groups)),
        split=split_interval,
    )  # fmt: skip
    return page.encode("utf-8", "backslashreplace").decode()  # a lone surrogate has no UTF-8


def split_interval(cell: str) -> tuple[str, str]:
    """A cell's value and its interval, "" if it has none."""
    value, bracket, interval = cell.partition(" [")
    return (value, f"[{interval}") if bracket and interval.endswith("]") else (cell, "")
