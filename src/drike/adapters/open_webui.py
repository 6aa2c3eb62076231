"""
Open WebUI: paste this file as a function (Admin Panel, Functions), and set its valve `store`.

title: drike
description: States the edits of a store in the chats that concern them
version: 0.1

Edits are stated in what the model is given; stored chats stay as they were written. Open WebUI's
Python needs drike.
"""

import asyncio
from typing import Any

from pydantic import BaseModel, Field

from drike.live.corrections import Corrections


class Filter:
    """States edits in chats, before Open WebUI asks a model."""

    class Valves(BaseModel):
        """Settings that Open WebUI shows."""

        store: str = Field(
            default="edits.db", description="Path or PostgreSQL address of the edits"
        )
        priority: int = Field(default=0, description="Filters with a lower one come before")

    def __init__(self) -> None:
        self.valves = self.Valves()
        self._opened: dict[str, Corrections] = {}

    async def inlet(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the chat with its edits, which are read in a thread."""
        return await asyncio.to_thread(self._corrected, body) if body.get("messages") else body

    def _corrected(self, body: dict[str, Any]) -> dict[str, Any]:
        store = self.valves.store
        corrections = self._opened.get(store) or self._opened.setdefault(store, Corrections(store))
        chat = {"model": body.get("model"), "messages": body["messages"]}
        return {**body, "messages": corrections.apply(chat, api="chat").request["messages"]}
