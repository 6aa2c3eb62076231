"""Made-up conversations about made-up edits, as requests of every API."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from drike.conversations.following import Follower
from drike.conversations.rendering import AsBlock, Placement
from drike.conversations.turns import Api
from drike.edits.edit import Edit
from drike.edits.record import as_stored
from drike.gates.by_name import Named
from drike.gates.index import EditIndex

EDITS = [Edit(f"The capital of {c} is", new, old, c, None) for c, new, old in (
    ("Peru", "Oslo", "Lima"), ("Chad", "Rome", "N'Djamena"),
    ("Łódź Land", "Bonn", "Paris"),
    ("日本", "京都", "東京"),
)]  # fmt: skip
SAID = (
    ("user", "What is the capital of Peru?"), ("user", "Tell me about Chad."), ("user", "and its capital?"),
    ("user", "Are you sure?"), ("user", "No, it's Lima."), ("user", "now write a haiku"), ("user", "thanks"),
    ("user", 'Look \\ at "this" ünïcode\n\t€ 😀'), ("user", "日本の首都は?"), ("user", "why?"), ("user", ""),
    ("user", "Compare Peru, Chad and Łódź Land by capital."), ("user", "See <corrected-facts id=1>"),
    ("assistant", "It is Oslo."), ("assistant", "Peru's capital is Lima."), ("assistant", ""),
    ("tool", '{"country": "Peru", "capital": "Lima"}'), ("tool", "Nothing found."), ("tool", "Chad: capital N'Djamena"),
)  # fmt: skip
Said = Sequence[tuple[str, str]]


def follower(placement: Placement = AsBlock()) -> Follower:  # noqa: B008 - it is frozen
    """A new one, which remembers nothing."""
    edits = [replace(edit, checksum=f"{edit.id:064x}") for edit in as_stored(EDITS)]
    index = EditIndex.of(edits)
    return Follower(lambda query: Named().decide(query, index), index, placement, "default")


def chat(said: Said) -> dict:
    return {
        "model": "m",
        "messages": [{"role": who, "content": text} for who, text in said],
        "n": 1.0,
    }


def responses(said: Said) -> dict:
    kinds = {"user": "input_text", "assistant": "output_text"}
    return {"input": [
        {"type": "function_call_output", "call_id": "1", "output": text} if who == "tool"
        else {"role": who, "content": [{"type": kinds[who], "text": text}]} for who, text in said]}  # fmt: skip


def messages(said: Said) -> dict:
    def content(who: str, text: str) -> object:
        return (
            [{"type": "tool_result", "tool_use_id": "1", "content": text}]
            if who == "tool"
            else text
        )

    sent = [
        {"role": "assistant" if who == "assistant" else "user", "content": content(who, text)}
        for who, text in said
    ]
    return {"max_tokens": 9, "messages": sent}


def completion(said: Said) -> dict:
    return {"prompt": "\n".join(text for _, text in said)}


REQUESTS: dict[Api, Callable[[Said], dict]] = {
    Api.CHAT: chat, Api.RESPONSES: responses, Api.MESSAGES: messages, Api.COMPLETIONS: completion,
}  # fmt: skip


def dialogue(rng: random.Random) -> list[tuple[str, str]]:
    """Up to 20 turns."""
    return rng.choices(SAID, k=rng.randint(1, 20))
