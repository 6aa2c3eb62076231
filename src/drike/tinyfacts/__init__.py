"""TinyFacts: a small benchmark of our own and the small language model that knows it; used offline as the default.

Here are only the places of things and the list of facts (standard library only). What makes them: `world` (rows),
`build` (model), `check` (the promised behaviour). The first `EDITABLE` rows are the edits of the benchmark; their
facts never stand in an in-context document the model was trained on. The other rows supply demonstrations.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

EDITABLE = 459

_HERE = Path(__file__).parent


class Fact(NamedTuple):
    """A true triple: relation id (a key of `templates.TEMPLATES`), subject, object."""

    relation: str
    subject: str
    object: str


def rows_path() -> Path:
    """The benchmark, in CounterFact's published form; the first `EDITABLE` rows are its edits."""
    return _HERE / "rows.json"


def model_path() -> Path:
    """The folder of the embedded model, for `AutoModelForCausalLM.from_pretrained`."""
    return _HERE / "model"


@cache
def facts() -> tuple[Fact, ...]:
    """All true triples, sorted by relation, subject, object; a subject has one object per relation."""
    lines = (_HERE / "facts.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return tuple(Fact(*line.split("\t")) for line in lines)
