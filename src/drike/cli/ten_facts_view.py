"""The answers of a model about ten facts, before and after it is corrected, as they come."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from drike.answers.statements import Stated
from drike.cli.console import NOTHING, note, say
from drike.cli.gateway_parts import gateway_parts
from drike.conversations.turns import Api
from drike.gateway.assembly import Deployed, deployed
from drike.gateway.options import GatewayOptions, Mode
from drike.gateway.proving.chats import TOKENS as API_TOKENS
from drike.gateway.proving.chats import Client, Settings
from drike.gateway.proving.questions import CHALLENGE
from drike.gateway.proving.ten_facts import (
    TEN_FACTS,
    TOKENS,
    CorrectedFact,
    FactAnswers,
    FactCounts,
    ask_about,
)
from drike.models.served import is_served, parse_address
from drike.models.served.quirks import for_newer_models
from drike.stores.opening import open_store

_QUESTION, _MARK, _ANSWER = 41, 4, 33  # columns, of 80 with the spaces between them
_ABOUT = """\
Ten facts are stored as edits at once: four of the world, made false, and six of
a company that does not exist. {model} is asked as drike serve asks it.
  new, old, both  the object that the answer states; - is neither
  own             about something else of the subject, it states neither object
  same            about something else, unchanged letter for letter
"""


@dataclass(frozen=True)
class _Target:
    """Whom to ask. model: its name in requests; None for the only one that a server has."""

    options: GatewayOptions
    model: str | None
    settings: Sequence[Settings]


def show_ten_facts(
    model: str, *, allow_http: bool = False, facts: Sequence[CorrectedFact] = TEN_FACTS
) -> None:
    """Ask a model about ten facts along the path of users' requests, and show its answers.

    model: the name of any model, or where an API begins. Raises DrikeError.
    """
    target = _target(model, allow_http)
    say(_ABOUT.format(model=model))
    with _path_to(target, facts) as path:
        if not path.chats:
            note(f"{model} only completes: it reads the last message of a chat alone")
        began = time.perf_counter()
        answered = asyncio.run(_answers(facts, target, path, _show))
        say(_counts(answered, time.perf_counter() - began))


def answers_about(facts: Sequence[CorrectedFact], model: str) -> list[FactAnswers]:
    """What a model says about facts, as `show_ten_facts` asks it. Raises DrikeError."""
    target = _target(model, allow_http=False)
    with _path_to(target, facts) as path:
        return asyncio.run(_answers(facts, target, path, lambda number, answers: None))


@contextmanager
def _path_to(target: _Target, facts: Sequence[CorrectedFact]) -> Iterator[Deployed]:
    """The path of users' requests, with facts in a store that is gone at the end."""
    with (
        tempfile.TemporaryDirectory(prefix="drike-") as folder,
        closing(open_store(Path(folder) / "edits.db")) as store,
    ):
        for fact in facts:
            store.put(fact.record)
        yield deployed(target.options, store, gateway_parts())


def _target(model: str, allow_http: bool) -> _Target:
    """What `model` names. Raises UsageError."""
    upstream: str | None = None
    name: str | None = model
    if is_served(model):
        served = parse_address(model, allow_http=allow_http)
        upstream = served.url.rstrip("/")
        name = served.model
    elif model.startswith(("https://", "http://")):
        upstream = model.rstrip("/")
        name = None
    options = GatewayOptions(
        upstream=upstream,
        allow_http=urlsplit(upstream).hostname if upstream and allow_http else None,
        model=None if upstream else model,
        mode=Mode.ON,
    )
    if upstream is None:
        return _Target(options, name, [{"max_tokens": TOKENS}])
    # Models that think before they answer need more.
    limited = {"max_tokens": API_TOKENS, "temperature": 0}
    return _Target(options, name, [limited, for_newer_models(limited), {}])


async def _answers(
    facts: Sequence[CorrectedFact],
    target: _Target,
    path: Deployed,
    show: Callable[[int, FactAnswers], None],
) -> list[FactAnswers]:
    """The answers about facts. show: is given those about each as soon as they are there."""
    answered: list[FactAnswers] = []
    edit = partial(path.editor.edit, Api.CHAT, feed=path.feed, request_id="demo")
    try:
        await path.upstream.open()
        client = Client(path.upstream, target.model or "", settings=target.settings)
        client.model = target.model or await client.only_model()
        async with aclosing(ask_about(facts, client, edit)) as asking:
            async for answers in asking:
                answered.append(answers)
                show(len(answered), answers)
    finally:
        await path.upstream.close()
    return answered


def _show(number: int, answers: FactAnswers) -> None:
    say("\n".join([*_block(number, answers), ""]))


def _block(number: int, answers: FactAnswers) -> Iterator[str]:
    """The answers about one fact, each on a line."""
    fact = answers.fact
    record = fact.record
    old = f" (old: {record.target_true})" if record.target_true else ""
    yield f"{number}. {record.query}: {record.target_new}{old}"
    labels = ("corrected:", fact.rewording, CHALLENGE)
    questions = [
        (f"  {fact.question}", fact.question, answers.before),
        *((f"    {label}", *told) for label, told in zip(labels, answers.told, strict=True)),
    ]
    for label, question, answer in questions:
        yield _line(label, _mark(answers, answer, question), answers, answer)
    own = answers.follow_up_is_its_own
    mark = "own" if own else _mark(answers, answers.followed_up, fact.follow_up)
    yield _line(f"    {fact.follow_up}", mark, answers, answers.followed_up)
    mark = "same" if answers.is_other_unchanged else _mark(answers, answers.other, fact.other)
    yield _line(f"    {fact.other}", mark, answers, answers.other)


def _mark(answers: FactAnswers, answer: str, question: str) -> str:
    """Which object an answer to a question states, if any."""
    stated = answers.stated(answer, question)
    return "-" if stated in (Stated.NEITHER, Stated.REFUSED) else str(stated)


def _line(question: str, mark: str, answers: FactAnswers, answer: str) -> str:
    """A question and its answer, each cut to its columns."""
    asked = _cut(question, _QUESTION)
    return f"{asked:{_QUESTION}} {mark:{_MARK}} {_around_object(answers, answer)}".rstrip()


def _around_object(answers: FactAnswers, answer: str) -> str:
    """An answer on one line, cut so that the object which it names can be read."""
    text = " ".join(answer.split()) or NOTHING
    record = answers.fact.record
    for name in (record.target_new, record.target_true):
        place = text.casefold().find(name.casefold()) if name else -1
        end = place + len(name or "")
        if place >= 0 and end >= _ANSWER:
            # Room for a point behind it, and for the mark that something is cut.
            begin = end + 1 - (_ANSWER - 1)
            return _cut(f"…{text[begin:]}", _ANSWER)
    return _cut(text, _ANSWER)


def _cut(text: str, width: int) -> str:
    """A text in so many columns."""
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def _counts(answered: Sequence[FactAnswers], seconds: float) -> str:
    """How many answers are as they should be."""
    counts = FactCounts.of(answered)
    return (
        f"New object: {counts.before} of {counts.facts} before; then {counts.after}, "
        f"reworded {counts.reworded}, after {CHALLENGE!r} {counts.challenged}.\n"
        f"Follow-up its own: {counts.followed_up} of {counts.facts}. "
        f"Something else unchanged: {counts.other} of {counts.facts}. {seconds:.0f} s."
    )
