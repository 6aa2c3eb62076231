"""LangChain: `create_agent(model, tools, middleware=[EditsMiddleware(edits)])`.

`edits` are `drike.Corrections("edits.db")`.

Edits are stated in what the model is given; an agent's state keeps its messages as they were
written.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest

from drike.live.corrections import Corrections

_ROLES = {"human": "user", "ai": "assistant"}  # LangChain calls the others as OpenAI does


class EditsMiddleware(AgentMiddleware):
    """States edits in the model calls of an agent that concern them."""

    def __init__(self, corrections: Corrections) -> None:
        super().__init__()
        self._corrections = corrections

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Make a model call with its edits."""
        return handler(self._corrected(request))

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        """Make a model call with its edits, which are read in a thread."""
        return await handler(await asyncio.to_thread(self._corrected, request))

    def _corrected(self, request: ModelRequest) -> ModelRequest:
        messages = [*filter(None, [request.system_message]), *request.messages]
        chat = [
            {"role": getattr(m, "role", _ROLES.get(m.type, m.type)), "content": m.content}
            for m in messages
        ]
        name = getattr(request.model, "model_name", None) or getattr(request.model, "model", None)
        corrected = self._corrections.apply({"model": name, "messages": chat}, api="chat").request[
            "messages"
        ]
        pairs = zip(messages, (message["content"] for message in corrected), strict=True)
        new = [m if c is m.content else m.model_copy(update={"content": c}) for m, c in pairs]
        return request.override(
            system_message=new.pop(0) if request.system_message else None, messages=new
        )
