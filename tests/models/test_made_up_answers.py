"""Any answer of a server is read or refused in one sentence, never with a traceback.

`make test` tries 100 answers, `make reliability` 10,000.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from drike.errors import ModelError
from drike.models.protocols import Request
from tests.fakes.damaged_json import mutate, replaced
from tests.fakes.models import ScriptedModel
from tests.fakes.servers import Handler, connect, echoed, serve, serving, usage
from tests.fakes.tally import Tally

FEW, MANY = 100, 10_000


HEADERS = [
    {"Content-Type": "application/json; charset=utf-16"}, {"Content-Type": "text/html"}, {"Content-Encoding": "gzip"},
    {"Content-Encoding": "gzip, br"}, {"Retry-After": "soon"}, {"Location": "http://127.0.0.2:1"}, {"X-A": "\u00e9"},
]  # fmt: skip


def check_answers(number: int, seed: int) -> Counter[str]:
    """Send mutated answers to completions, chats and scores: each is refused in a sentence, or can be saved."""
    rng, hostile, results = random.Random(seed), [False], Counter[str]()
    good = serving(ScriptedModel(str), scores=True)

    def respond(handler: Handler, body: dict[str, Any]) -> None:
        if not hostile[0]:
            return good(handler, body)
        if body.get("echo"):
            right = echoed(ScriptedModel(str), body["prompt"])
        else:
            text = (
                {"text": "Oslo"}
                if "prompt" in body
                else {"message": {"role": "assistant", "content": "Oslo"}}
            )
            right = {"choices": [{**text, "finish_reason": "stop"}], "usage": usage("a", "Oslo")}
        rows: list[object] = [right]
        for _ in range(rng.choice([1, 1, 2])):
            mutate(rows, rng)
        code, header = rng.choice([200] * 8 + [400, 429, 500]), rng.choice([*HEADERS, *[{}] * 20])
        handler.reply(code, replaced(json.dumps(rows[0] if rows else None)).encode(), header)

    with serve(respond) as served:
        chat = connect(served.named(), deadline=5.0, attempts=1)
        plain = connect(served.named(), template="plain", deadline=5.0, attempts=1)
        assert plain.score is not None
        hostile[0] = True
        for i in range(number):
            try:
                match i % 3:
                    case 0:
                        [answer] = chat.generate(["Where?"])
                    case 1:
                        [answer] = plain.generate(["Where?"])
                    case _:
                        [answer] = plain.score([Request("Where? In", " Oslo")])
                json.dumps(asdict(answer), ensure_ascii=False, allow_nan=False).encode()
                results["read"] += 1
            except ModelError as problem:
                assert len(str(problem)) < 400 and "\n" not in str(problem).encode().decode()
                results["refused"] += 1
        json.dumps(asdict(chat.usage + plain.usage), allow_nan=False)
        chat.close()
        plain.close()
    return results


def test_any_answer_of_a_server_is_read_or_refused_in_one_sentence() -> None:
    assert check_answers(FEW, 0).keys() == {"read", "refused"}


@pytest.mark.reliability
def test_ten_thousand_answers_of_a_server_are_read_or_refused(tally: Tally) -> None:
    tally("made-up answers of a server", MANY)
    print("answers:", dict(check_answers(MANY, 1)))
