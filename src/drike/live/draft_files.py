"""Drafts and what was sent instead, from files that other programs export."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from drike.live.capturing import FIELDS, GivenDraft, draft_of, is_kept, marks_of_kept
from drike.stores.columns import says_nothing
from drike.stores.inbox import Report
from drike.stores.report_files import KEPT, is_of_langfuse, langfuse_fields
from drike.support.rows import read_rows, value_at

DRAFTS_LOOKED_FOR = (
    "give rows with draft and sent, and question, context or reason if you have them; help desks' "
    "names of these columns, such as suggested_reply and final_reply; or traces or observations of "
    "Langfuse with a score that is a correction"
)
# Under which names help desks export each field, in small letters with underscores; the first that
# a row has counts.
_NAMES = {
    "draft": (
        *("draft", "ai_draft", "draft_reply", "suggestion", "suggested_reply", "suggested_answer"),
        *("suggested_response", "ai_suggestion", "ai_response", "ai_answer", "bot_answer"),
        *("bot_reply", "copilot_draft", "macro_text", "generated_reply", "original"),
    ),
    "sent": (
        *("sent", "sent_reply", "sent_text", "final", "final_reply", "final_answer", "final_text"),
        *("final_response", "agent_reply", "agent_response", "edited", "edited_reply"),
        *("public_reply", "corrected", "reply", "response_sent"),
    ),
    "question": (
        *("question", "customer_message", "customer_question", "query", "user_message", "inquiry"),
        *("request", "ticket_description", "description", "message", "ticket_subject", "subject"),
    ),
    "context": ("context", "product", "brand", "topic", "category", "group", "team"),
    "reason": ("reason", "edit_reason", "feedback", "comment", "note", "agent_note"),
}


def read_drafts(path: Path, kept: Iterable[Report] = ()) -> tuple[list[GivenDraft], list[str]]:
    """The new drafts in a file, and a sentence on each row that has none or is in `kept`.

    Raises DataError for a file that cannot be read.
    """
    marks = marks_of_kept(kept)
    rows, _ = read_rows(path, str(path))
    found: list[GivenDraft] = []
    refused: list[str] = []
    for row in rows:
        try:
            given = draft_of(_fields_of(row.values))
            if is_kept(given, marks):
                raise ValueError(KEPT)
            found.append(given)
        except ValueError as problem:
            refused.append(f"{row.place}: {problem}")
    return found, refused


def _fields_of(values: Mapping[str, Any]) -> Mapping[str, object]:
    """The fields of a draft, by the program that wrote the row."""
    if is_of_langfuse(values):
        report = langfuse_fields(values)
        if not report["correction"]:
            raise ValueError("no score of it is a correction, so nothing was sent instead")
        return {
            "draft": report["answer"],
            "sent": report["correction"],
            "question": report["question"],
            "reason": report["comment"],
        }
    by_name = {_plain(name): value for name, value in _flat(values).items()}
    fields: dict[str, object] = {}
    for field in FIELDS:
        for name in _NAMES[field]:
            value = by_name.get(name)
            if value not in (None, "") and not says_nothing(value):
                fields[field] = str(value)
                break
    return fields


def _flat(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with the fields of its ticket, if it holds one as an object."""
    ticket = value_at(values, "ticket")
    return {**ticket, **values} if isinstance(ticket, Mapping) else values


def _plain(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")
