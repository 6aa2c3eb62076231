"""Samples of answers with their texts, which a gateway keeps only if it is asked to (`--keep-samples`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from drike.stores.records import EditVersion
from drike.stores.reports import LONGEST, Report, ReportState

_HIDDEN = {  # what names a person or opens a door, by its form; names in plain words are not found
    "address": r"\bhttps?://\S+",
    "e-mail": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "IP": r"\b\d{1,3}(?:\.\d{1,3}){3}\b",
    "key": r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}",
    "number": r"\+?\b\d(?:[\s().\-/]{0,2}\d){6,}\b",  # of a phone, a card, an account
}
_PATTERN = re.compile("|".join(f"(?P<h{i}>{pattern})" for i, pattern in enumerate(_HIDDEN.values())))


@dataclass(frozen=True)
class Sampling:
    """Which answers are kept: of each version of an edit, mode and outcome the newest `most`.

    redact: hide what may be private.
    """

    most: int = 0
    redact: bool = True

    def sample(self, question: str, answer: str, edit: EditVersion, *, mode: str, outcome: str, model: str) -> Report:
        """An answer to a question that concerns an edit."""
        asked, said = (redacted(text) if self.redact else text for text in (question[:LONGEST], answer[:LONGEST]))
        about = f"edit {edit.id}@{edit.version}, {mode}: {outcome}"
        return Report(asked, said, comment=about, model=model, state=ReportState.SAMPLE, edit=edit.id)


NO_SAMPLES = Sampling()


def redacted(text: str) -> str:
    """A text with [e-mail] in place of an e-mail address, and likewise for links, IP addresses, keys, long numbers."""
    return _PATTERN.sub(lambda found: f"[{list(_HIDDEN)[int(found.lastgroup[1:])]}]", text)  # type: ignore[index]
