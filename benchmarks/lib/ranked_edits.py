"""The edits that a multi-hop question may need, in an order: a look-up to measure chains by."""

from __future__ import annotations

from itertools import islice
from math import inf

from drike.edits.record import EditVersion
from drike.gates.chains import Evidence, Link, walk
from drike.gates.index import EditIndex
from drike.gates.parsed_query import ParsedQuery


def ranked(query: str, index: EditIndex, count: int) -> list[EditVersion]:
    """The edits that a question may need, the most likely first: those it names with their chains, then the nearest.

    Raises ValueError for an index without vectors.
    """
    parsed = ParsedQuery.of(query, index)
    named = [
        index.edits[id]
        for id in sorted({id for mention in parsed.mentions for id in mention.edits})
    ]
    asked = Evidence(parsed, (), index)
    starts = [
        Link(edit, (), evidence)
        for edit, evidence in zip(named, asked.evidence((), named), strict=True)
    ]
    found = {link.edit.id: link.edit for link in islice(walk(asked, starts, -inf), count)}
    if len(found) < count:
        [vector] = index.embed([parsed.wholes(())[-1]])
        found |= {id: index.edits[id] for id in index.nearest(vector) if id not in found}
    return list(found.values())[:count]
