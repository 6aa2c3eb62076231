"""The rows of TinyFacts, from facts and templates: deterministic, in CounterFact's published form.

A row edits one fact (subject, relation, true object) to another object of the same relation. Its prompt is worded
with one of T0 to T3, its two paraphrases with T4 and T5; its neighbourhood prompts ask for other subjects of the same
relation and the same true object, worded T0 to T3. Editable rows come first. The neighbours of a
demonstration row are demonstration facts, so no demonstration shows the fact of an editable row.

Not here: attribute and generation prompts (the fields are there, empty).
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drike.support.files import write_text
from drike.tinyfacts import EDITABLE, ROWS, TEMPLATES, Fact, facts

SEED = 1234
EDITS_PER_RELATION = 17
NEIGHBOURS = 10

_Group = tuple[str, str]
Templates = Mapping[str, Sequence[str]]  # six wordings of each relation


def other_templates() -> Templates:
    """Wordings of our own that TinyFacts does not use, in its relations and order: for a second model."""
    lines = (
        Path(__file__).with_name("other_templates.tsv").read_text(encoding="utf-8").splitlines()[1:]
    )
    return {
        relation: tuple(wordings) for relation, _, *wordings in (line.split("\t") for line in lines)
    }


def _groups(some: Sequence[Fact]) -> dict[_Group, list[Fact]]:
    """Facts by (relation, object): each group's members are one another's true neighbours."""
    groups: dict[_Group, list[Fact]] = defaultdict(list)
    for fact in some:
        groups[fact.relation, fact.object].append(fact)
    return groups


def split_facts() -> tuple[list[Fact], list[Fact]]:
    """The facts as (editable, demonstration): 17 editable a relation, every object keeping 3 demonstration facts.

    Where a relation has only small groups, a group may be cut to 2 demonstration facts.
    """
    rng = random.Random(SEED)
    groups = _groups(facts())
    editable: list[Fact] = []
    for relation in TEMPLATES:
        members = [list(group) for (r, _), group in groups.items() if r == relation]
        for group in members:
            rng.shuffle(group)
        taken: list[Fact] = []
        while len(taken) < EDITS_PER_RELATION:
            # The biggest group gives next: groups stay as even as they can.
            largest = max(members, key=len)
            if len(largest) <= 2:
                raise ValueError(
                    f"relation {relation} has too few facts for {EDITS_PER_RELATION} edits"
                )
            taken.append(largest.pop())
        editable += taken
    rng.shuffle(editable)
    chosen = set(editable)
    demonstrations = [fact for fact in facts() if fact not in chosen]
    rng.shuffle(demonstrations)
    return editable, demonstrations


def _row(
    case: int,
    fact: Fact,
    groups: dict[_Group, list[Fact]],
    rng: random.Random,
    templates: Templates,
) -> dict[str, Any]:
    """One published-form row; `groups` holds the facts its neighbours may be taken from."""
    relation, subject, true = fact
    wordings = templates[relation]
    objects = sorted({f.object for f in facts() if f.relation == relation})
    others = [f for f in groups[relation, true] if f.subject != subject]
    rng.shuffle(others)
    prompt = wordings[rng.randrange(4)]
    new = rng.choice([o for o in objects if o != true])
    return {
        "case_id": case,
        "pararel_idx": case,
        "requested_rewrite": {
            "prompt": prompt,
            "relation_id": relation,
            "target_new": {"str": new, "id": f"{relation}-{objects.index(new)}"},
            "target_true": {"str": true, "id": f"{relation}-{objects.index(true)}"},
            "subject": subject,
        },
        "paraphrase_prompts": [wordings[4].format(subject), wordings[5].format(subject)],
        "neighborhood_prompts": [
            wordings[rng.randrange(4)].format(f.subject) for f in others[:NEIGHBOURS]
        ],
        "attribute_prompts": [],
        "generation_prompts": [],
    }


def make_rows(templates: Templates = TEMPLATES) -> list[dict[str, Any]]:
    """All rows, the `EDITABLE` editable ones first; the same list every time, and the same facts in any wording."""
    editable, demonstrations = split_facts()
    if len(editable) != EDITABLE:
        raise ValueError(f"{len(editable)} editable facts, but EDITABLE says {EDITABLE}")
    rng = random.Random(SEED + 1)
    every, shown = _groups(facts()), _groups(demonstrations)
    rows = [_row(i, fact, every, rng, templates) for i, fact in enumerate(editable)]
    return rows + [
        _row(EDITABLE + i, fact, shown, rng, templates) for i, fact in enumerate(demonstrations)
    ]


def write_rows(path: Path | None = None, templates: Templates = TEMPLATES) -> Path:
    """Write `make_rows()` as compact JSON, one row a line; returns the path (default: the shipped file's)."""
    path = path or ROWS
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in make_rows(templates))
    write_text(path, f"[\n{lines}\n]\n")
    return path
