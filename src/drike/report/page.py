"""A report as one HTML file that needs no network: style, script, figures and data are all inside.

jinja2 or `cases.as_script` escapes every text. In addition, the page's content security policy allows no script but the
viewer, which it names by hash, and loads nothing.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drike.casestudy import CaseStudy
from drike.report.cases import as_script, packed, prompt_blocks
from drike.report.document import Document

_HERE = Path(__file__).parent


def html(document: Document, studies: Sequence[CaseStudy] = ()) -> str:
    """Write the page of a report with its case studies; the same input gives the same text."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script = (_HERE / "viewer.js").read_text("utf-8")
    page = environment.get_template("page.html").render(
        document=document,
        studies=[
            {"title": one.title, "tables": list(one.tables()),
             "prompts": [(side.editor, prompt_blocks(side.prompt)) for side in one.sides]}
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
    """Split a cell into its value and its interval, which is "" if there is none."""
    value, bracket, interval = cell.partition(" [")
    return (value, f"[{interval}") if bracket and interval.endswith("]") else (cell, "")
