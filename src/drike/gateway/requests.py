"""Requests as a gateway reads them: the endpoints with texts, and their bodies as conversations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drike.conversations.turns import Api, Conversation, JsonPath, Speaker, read
from drike.gateway.bodies import decoded, read_object
from drike.gateway.splicing import spliced

# Endpoints whose requests are read, below the address of an API.
CHAT = "/chat/completions"
COMPLETION = "/completions"
RESPONSES = "/responses"
MESSAGES = "/messages"
_COUNTS_OF_RESPONSES = f"{RESPONSES}/input_tokens"
_COUNTS_OF_MESSAGES = f"{MESSAGES}/count_tokens"

# The first parts of paths under which no model answers a text: what is sent is measured, kept,
# drawn, read aloud or written down.
_WITHOUT_ANSWERS = (
    *("models", "embeddings", "moderations", "rerank", "reranking", "score", "pooling"),
    *("classify", "similarity", "tokenize", "detokenize", "files", "uploads", "vector_stores"),
    *("images", "videos", "audio", "fine_tuning", "evals", "containers", "conversations"),
)
_ENDS_WITHOUT_ANSWER = ("/cancel", "/archive", "/embeddings", "/rerank", "/tokenize", "/detokenize")
_SENDS_NOTHING = ("GET", "HEAD", "OPTIONS", "DELETE")
COUNTS_TOKENS = (_COUNTS_OF_RESPONSES, _COUNTS_OF_MESSAGES)  # of a request that is not answered
APIS: Mapping[str, Api] = {
    CHAT: Api.CHAT,
    COMPLETION: Api.COMPLETIONS,
    RESPONSES: Api.RESPONSES,
    MESSAGES: Api.MESSAGES,
    _COUNTS_OF_RESPONSES: Api.RESPONSES,
    _COUNTS_OF_MESSAGES: Api.MESSAGES,
}


def may_ask(method: str, endpoint: str) -> bool:
    """Whether a model may answer a text in a request to an endpoint that is not read.

    So it is for all endpoints but those of which the contrary is known: /engines/MODEL/completions
    and the like of older servers and of other APIs, and batches of requests.
    """
    if method in _SENDS_NOTHING:
        return False
    first_part = endpoint.strip("/").partition("/")[0]
    is_call_of_model = ":" in endpoint  # /models/MODEL:generateContent
    is_known = first_part in _WITHOUT_ANSWERS or endpoint.endswith(_ENDS_WITHOUT_ANSWER)
    return is_call_of_model or not is_known


@dataclass(frozen=True)
class EditableRequest:
    """A request with texts.

    body: as it was sent. json: the body in UTF-8, without compression. values: those of `json`.
    """

    body: bytes
    json: bytes
    values: Mapping[str, Any]
    conversation: Conversation

    @property
    def asks_something(self) -> bool:
        """Whether it has a text of a user or a tool."""
        speakers = {turn.speaker for turn in self.conversation.turns}
        return not speakers <= {Speaker.SYSTEM, Speaker.ASSISTANT}

    def with_texts(self, texts: Mapping[JsonPath, str]) -> bytes:
        """The JSON with other texts at some paths.

        All other bytes stay as they are; so do those of a text that is only added to.
        """
        return spliced(self.json, self.values, texts)


def read_request(api: Api, body: bytes, content_encoding: str = "") -> EditableRequest:
    """The request in a body. Raises UnreadError, and ValueError for more than is read."""
    read_body = read_object(decoded(body, content_encoding))
    conversation = read(api, read_body.values)
    return EditableRequest(body, read_body.text, read_body.values, conversation)


def one_message(model: str, text: str, **more: object) -> EditableRequest:
    """A chat with a user's only message."""
    values = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    body = json.dumps(values).encode()
    return EditableRequest(body, body, values, read(Api.CHAT, values))
