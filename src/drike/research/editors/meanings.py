"""What the editors do whose names do not say it: controls, ablations and the policy per query."""

import re

_MEANINGS = {
    "Rank-All": "all retains, in the order of the trained retriever",
    "Rank-50%": "the better half of the retains by the trained retriever",
    "DR-IKE-Q": "a trained policy decides for each query whether and which demonstrations it sees",
    "Switch by name": (
        "copies and updates where a query names the edit's subject, elsewhere only retains"
    ),
    "By name, else left alone": (
        "copies and updates where a query names the edit's subject, elsewhere the bare query"
    ),
    "Copies and updates": "these demonstrations for every query, no retains",
    "Nearest (k of DR-IKE)": (
        "as many retains as DR-IKE shows for the edit, but those nearest to it, untrained"
    ),
    "Nearest (size of DR-IKE-Q)": (
        "as many demonstrations as DR-IKE-Q shows for the query, but the nearest, untrained"
    ),
}
_NEAREST = re.compile(r"Nearest, k=(\d+)")


def meaning(editor: str) -> str | None:
    """What an editor of this name does; None where it is a published one."""
    if nearest := _NEAREST.fullmatch(editor):
        return f"the {nearest[1]} retains nearest to the edit, untrained"
    return _MEANINGS.get(editor)


def meanings(editors: list[str]) -> str:
    """A sentence each on those of some editors whose names do not say what they do; "" for none."""
    known = {editor: meaning(editor) for editor in editors}
    return " ".join(f"{editor}: {what}." for editor, what in known.items() if what)
