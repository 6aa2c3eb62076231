"""Public data sets by name: address, revision, and the SHA-256 of the file where it is known.

A recorded SHA-256 was computed from a copy of that very file. None means that the host names no revision, or that our
copy is of another one; only the content of a download is checked then.
"""

from __future__ import annotations

from dataclasses import dataclass

_ROME = "https://rome.baulab.info/data/dsets"
_KNOWEDIT = "https://huggingface.co/datasets/zjunlp/KnowEdit/resolve/c3a6bccb5fc37a59dea3197ac36526d44606acd0/benchmark"
_IKE = "https://raw.githubusercontent.com/Zce1112zslx/IKE/9bbda6d75623aeb4fe6e270717206a6ad2fd283e"


@dataclass(frozen=True)
class Published:
    """A public file: its address, pinned where the host allows it, and its SHA-256 or None."""

    address: str
    sha256: str | None
    what: str


PUBLISHED = {
    "counterfact": Published(f"{_ROME}/counterfact.json", None, "CounterFact, 21,919 rows"),
    "zsre": Published(f"{_ROME}/zsre_mend_eval.json", None, "zsRE, MEND's evaluation rows"),
    "zsre-knowedit": Published(f"{_KNOWEDIT}/ZsRE/ZsRE-test-all.json", None, "zsRE in KnowEdit's form"),
    "wiki-counterfact": Published(
        f"{_KNOWEDIT}/wiki_counterfact/train_cf.json", None, "WikiData-counterfact, training rows"
    ),
    "temporal": Published(
        f"{_IKE}/time_editing.json",
        "dc9fa0ece6536d3dc835830b1c706eb9a5c8a96891e4e5cf8616d824cdfa4cf2",
        "IKE's temporal edits, 928 groups",
    ),
}
