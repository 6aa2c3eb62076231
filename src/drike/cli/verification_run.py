"""Ask a model about edits along the path of users' requests, as `drike edits verify` plans it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from drike.cli.console import complain, draw, note, progress, say
from drike.cli.dry_run import bound, token_counter, usage_sentence
from drike.conversations.turns import Api
from drike.edits.record import EditVersion
from drike.edits.times import stamp
from drike.errors import DrikeError, UsageError
from drike.gateway.options import GatewayOptions
from drike.live.store_gate import needs_recalibration
from drike.models import EMBEDDED, READER
from drike.models.served import ApiOptions, Meter, key_in
from drike.models.served.cache import AnswerCache
from drike.models.served.quirks import for_newer_models
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.verifications import Verification, Verifications
from drike.support.table import counted

if TYPE_CHECKING:  # these take long to import, and neither help nor --compare needs them
    from drike.gateway import calls
    from drike.gateway.assembly import Deployed
    from drike.gateway.proving.chats import Client, Settings
    from drike.gateway.proving.questions import EditQuestion
    from drike.gateway.proving.verification import DeployedPath, EditVerdict

    Around = Callable[[calls.Upstream], calls.Upstream]

_KEY = "DRIKE_KEY"  # the variable with a key of the gateway
_MOST_AT_ONCE = 100  # so that none waits too long for a decision
_NAMED = 5  # of what a model does not know


@dataclass(frozen=True)
class ChosenEdits:
    """The edits to ask about. tried: those among them that are in force for this run alone."""

    versions: Sequence[EditVersion]
    tried: Sequence[EditVersion]


@dataclass(frozen=True)
class VerificationPlan:
    """What to ask, and how.

    model: its name in requests; None for the only one that there is. judge: the model that judges
    what rules leave undecided, if any.
    """

    api: ApiOptions
    options: GatewayOptions
    gateway: str | None
    model: str | None
    samples: int
    judge: str | None
    dry_run: bool
    headers: Mapping[str, str]
    edits: ChosenEdits


def carried_out(
    plan: VerificationPlan, store: EditStore
) -> tuple[Sequence[EditVerdict], Verification]:
    """Ask, and say what was left out and what it took. Raises DrikeError."""
    from drike.cli.gateway_parts import gateway_parts
    from drike.gateway.assembly import deployed
    from drike.gateway.proving.chats import DryUpstream, MeteredUpstream

    api = plan.api
    count = token_counter(api.tokenizer, "plain")
    meter = Meter(replace(api, max_calls=None, max_cost=None) if plan.dry_run else api)

    def around(upstream: calls.Upstream) -> calls.Upstream:
        inner = DryUpstream(upstream.name, count) if plan.dry_run else upstream
        return MeteredUpstream(inner, meter)

    gateway = deployed(plan.options, store, gateway_parts(), around=around)
    for sentence in gateway.notes:
        note(sentence)
    if plan.edits.tried:
        gateway = replace(gateway, feed=gateway.feed.trying(plan.edits.tried))
        note(f"{counted(len(plan.edits.tried), 'edit')} in force for this run alone")
    if needs_recalibration(gateway.feed.gate, len(gateway.feed.index.edits)):
        note(
            f"{store.name} has grown by a fifth since its gate was calibrated: "
            "run drike edits calibrate again"
        )
    try:
        model, verdicts = asyncio.run(_ask(plan, around, gateway, _kept_for(plan, store)))
    except (KeyboardInterrupt, DrikeError):
        answered = meter.usage.calls
        if answered and not (api.no_cache or plan.gateway):
            complain(
                f"{counted(answered, 'answer')} kept for a day: "
                "the same command goes on from there",
                "yellow",
            )
        raise
    finally:
        if plan.options.upstream and not plan.dry_run:
            say(f"Used: {usage_sentence(meter.usage)}")
    if plan.dry_run:
        used = meter.usage
        draw(bound(used.calls, used.prompt_tokens, used.completion_tokens, api))
        questions = counted(len(verdicts), "question")
        say(f"{questions} about {counted(len(plan.edits.versions), 'edit')}")
        if plan.judge:
            note("what --judge would read is not known yet, so that its calls are not counted")
    elif plan.judge:
        verdicts = _settled(verdicts, plan.judge, api)
        model = f"{model}, policies judged by {plan.judge}"
    return verdicts, _verification(plan, model, gateway, verdicts)


def _settled(verdicts: Sequence[EditVerdict], judge: str, api: ApiOptions) -> list[EditVerdict]:
    """The verdicts, where rules leave them undecided by what a model says. Raises ModelError."""
    from drike.cli import models
    from drike.cli.options import ModelOptions
    from drike.live.answer_judge import JudgedAnswer, settled

    answers = [
        JudgedAnswer(
            verdict.question.edit.record, verdict.question.asked, verdict.answer, verdict.stated
        )
        for verdict in verdicts
    ]
    undecided = sum(answer.is_undecided for answer in answers)
    if not undecided:
        note(f"the rules leave no answer about a policy undecided, so that {judge} judges none")
        return list(verdicts)

    opened = models.open_model(ModelOptions(judge), api, models.DEFAULTS)
    with models.metered(opened.model):
        stated = settled(answers, opened.model)
    changed = sum(says != verdict.stated for says, verdict in zip(stated, verdicts, strict=True))
    note(
        f"{judge} judged {counted(undecided, 'answer')} that the rules leave undecided, "
        f"{changed:,} otherwise: look at these, as models err"
    )
    return [replace(verdict, stated=says) for says, verdict in zip(stated, verdicts, strict=True)]


def _kept_for(plan: VerificationPlan, store: EditStore) -> str:
    """A name for this run, under which answers are kept.

    An interrupted run has no number in the store, so that the next one has its name.
    """
    number = Verifications(store.database).last_number() + 1
    first = versions_of(store, 1)[0].checksum
    return f"{first} {number} {sorted(plan.headers.items())}"


def _verification(
    plan: VerificationPlan, model: str, gateway: Deployed, verdicts: Sequence[EditVerdict]
) -> Verification:
    """What the store keeps of a run."""
    if plan.gateway:
        gate_name = "its own"
        threshold = None
        placement_name = "its own"
    else:
        gate = gateway.feed.gate
        placement = gateway.editor.placements[Api.CHAT]
        demonstrations = getattr(getattr(placement, "editor", None), "name", "facts alone")
        gate_name = type(gate).__name__
        threshold = getattr(gate, "threshold", None)
        placement_name = f"{type(placement).__name__}, {demonstrations}"
    return Verification(
        at=stamp(datetime.now(UTC)),
        model=model,
        gate=gate_name,
        threshold=threshold,
        placement=placement_name,
        drike=version("drike"),
        questions=tuple(verdict.kept for verdict in verdicts),
    )


@dataclass(frozen=True)
class Clients:
    """Who asks: the client of users' requests, and one that asks the model past the gateway."""

    user: Client
    unedited: Client


async def _ask(
    plan: VerificationPlan, around: Around, gateway: Deployed, kept_for: str
) -> tuple[str, Sequence[EditVerdict]]:
    """Ask about edits. Return the model's name, and verdicts in the order of their questions."""
    from drike.gateway.proving.verification import DeployedPath

    options = plan.options
    async with _clients(plan, around, gateway.upstream, kept_for) as clients:
        model = clients.user.model
        questions = _questions(plan, gateway, model)
        edit = partial(gateway.editor.edit, Api.CHAT, feed=gateway.feed, request_id="verify")
        edits_here = plan.dry_run or not plan.gateway
        knows_the_upstream = not plan.gateway or options.upstream != plan.gateway
        path = DeployedPath(
            clients.user,
            edit=edit if edits_here else None,
            unedited=clients.unedited if knows_the_upstream else None,
        )
        verdicts = await _verified(plan, path, questions)
    if clients.user.reused:
        note(
            f"{counted(clients.user.reused, 'answer')} of a run that was interrupted used again: "
            "--no-cache asks anew"
        )
    name = f"{model} at {plan.gateway or options.upstream}" if options.upstream else model
    return name, verdicts


@asynccontextmanager
async def _clients(
    plan: VerificationPlan, around: Around, upstream: calls.Upstream, kept_for: str
) -> AsyncIterator[Clients]:
    """Clients of the gateway, if one is to be asked, and of the upstream; closed at the end."""
    from drike.gateway.proving.chats import Client, GatewayUpstream

    api = plan.api
    asked = upstream
    asks_a_gateway = plan.gateway is not None and not plan.dry_run
    async with AsyncExitStack() as stack:
        cache = None
        if not (api.no_cache or plan.dry_run):
            cache = AnswerCache()
            stack.callback(cache.close)
        if plan.gateway and asks_a_gateway:
            host = urlsplit(plan.gateway).hostname if api.allow_http else None
            asked = around(GatewayUpstream(plan.gateway, allow_http=host, timeout=api.deadline))
        for each in {asked, upstream}:
            stack.push_async_callback(each.close)
            await each.open()
        client_of = partial(
            Client, settings=_settings(plan), deadline=api.deadline, kept_for=kept_for
        )
        user = client_of(
            asked,
            plan.model or "",
            headers=_sent_headers(plan, with_key=asks_a_gateway),
            cache=None if asks_a_gateway else cache,
        )
        user.model = plan.model or await user.only_model()
        unedited = user if asked is upstream else client_of(upstream, user.model, cache=cache)
        yield Clients(user, unedited)


def _settings(plan: VerificationPlan) -> Sequence[Settings]:
    """Fields of requests; where an upstream refuses some, it gets the next ones."""
    from drike.gateway.proving.chats import TOKENS

    if not plan.options.upstream:
        return [{}]
    api = plan.api
    most = TOKENS + api.thinking_tokens
    effort = {"reasoning_effort": api.reasoning_effort} if api.reasoning_effort else {}
    greedy = {"temperature": 0} if plan.samples == 1 else {}
    limited = {"max_tokens": most, **greedy, **effort}
    return [limited, for_newer_models(limited), effort]


def _sent_headers(plan: VerificationPlan, *, with_key: bool) -> list[tuple[bytes, bytes]]:
    headers = dict(plan.headers)
    key = key_in(_KEY) if with_key else None
    if key:
        headers["authorization"] = f"Bearer {key}"
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def _questions(plan: VerificationPlan, gateway: Deployed, model: str) -> list[EditQuestion]:
    """The questions about the edits that apply to these requests. Raises UsageError for none."""
    from drike.gateway.proving.questions import questions_about

    index = gateway.feed.index.applying({**plan.headers, "model": model})
    applying = [edit for edit in plan.edits.versions if edit.id not in index.without]
    others = [str(edit.id) for edit in plan.edits.versions if edit.id in index.without]
    named = ", ".join(others[:_NAMED])
    if not applying:
        raise UsageError(
            f"edits {named} are for other requests: give their --model, "
            "or a --header that they need"
        )
    if others:
        note(f"edits {named} are not asked about, as they are for other requests")
    knows_tinyfacts_alone = model in (EMBEDDED, READER)
    holds_a_chat = gateway.chats and not knows_tinyfacts_alone
    questions = list(questions_about(applying, index, follow_up=holds_a_chat))
    return _known_to_tinyfacts(model, questions) if knows_tinyfacts_alone else questions


def _known_to_tinyfacts(model: str, questions: Sequence[EditQuestion]) -> list[EditQuestion]:
    """The questions that a model can know which knows TinyFacts alone.

    Raises UsageError for none.
    """
    from drike.gateway.proving.questions import unknown_to_tinyfacts

    known = []
    unknown = []
    for question in questions:
        what = unknown_to_tinyfacts(question)
        if what:
            unknown.append(what)
        else:
            known.append(question)
    examples = ", ".join(list(dict.fromkeys(unknown))[:_NAMED])
    reason = f"{model} knows TinyFacts alone, so not {examples}"
    if not known:
        raise UsageError(f"nothing can be proven, as {reason}: give --model or --upstream")
    if unknown:
        left_out = counted(len(unknown), "question")
        note(f"{left_out} not asked, as {reason}: give --model or --upstream for these")
    return known


async def _verified(
    plan: VerificationPlan, path: DeployedPath, questions: Sequence[EditQuestion]
) -> list[EditVerdict]:
    """The verdicts in the order of their questions, with a bar while they come."""
    from drike.gateway.proving import verification

    at_once = min(plan.api.concurrency, _MOST_AT_ONCE) if plan.options.upstream else 1
    placed: list[tuple[int, EditVerdict]] = []
    with progress("verifying") as (bar, task):
        bar.update(task, total=plan.samples * len(questions))
        asking = verification.verify(path, questions, samples=plan.samples, at_once=at_once)
        async with aclosing(asking) as verdicts:
            async for place, verdict in verdicts:
                placed.append((place, verdict))
                bar.update(task, advance=1)
    return [verdict for _, verdict in sorted(placed, key=lambda pair: pair[0])]
