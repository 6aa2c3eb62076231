"""Text from elsewhere, made safe to print."""

from __future__ import annotations

import re

# What moves a cursor, starts a terminal's command, reorders or breaks the text around it, or is half a character.
_CONTROL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Write control and bidirectional characters, but line breaks and tabs, as \x1b or \u202e."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
