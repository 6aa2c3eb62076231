"""TinyFacts: a small benchmark of our own and the embedded language model that knows it.

It is the default where there is no network. Its files, facts and wordings are read here, by the
standard library alone; `tools/tinyfacts` builds and checks them. The first `EDITABLE` rows are the
edits of the benchmark: their facts occur in no in-context document that the model was trained on.
The other rows supply demonstrations.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

EDITABLE = 459

_FOLDER = Path(__file__).parent
ROWS = _FOLDER / "rows.json"  # the benchmark, in CounterFact's published form
MODEL = _FOLDER / "model"  # the embedded model, for `AutoModelForCausalLM.from_pretrained`


class Fact(NamedTuple):
    """A true triple: relation id (a key of `TEMPLATES`), subject, object."""

    relation: str
    subject: str
    object: str


@cache
def facts() -> tuple[Fact, ...]:
    """All true triples, sorted by relation, subject, object.

    A subject has one object per relation.
    """
    return tuple(Fact(*row) for row in _rows("facts.tsv"))


def _rows(name: str) -> list[list[str]]:
    """The rows of a table in the folder, without its header."""
    lines = (_FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines[1:]]


_RELATIONS = _rows("templates.tsv")
# Six wordings of each relation, each ending right before the object. T0 to T3 word edits and
# neighbourhood prompts, T4 and T5 the two paraphrases. The sentences are our own; the relation ids
# are Wikidata's, as in CounterFact.
TEMPLATES = {relation: tuple(wordings) for relation, _, _, *wordings in _RELATIONS}
KINDS = {relation: kind for relation, _, kind, *_ in _RELATIONS}  # of what can be asked for it
