"""`drike edits verify`: prove on a model that stored edits take, as users ask for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from drike.cli.commands import METHOD, MODEL, OUTPUT, command, flag, option
from drike.cli.console import complain, draw, note, progress, say
from drike.cli.dry_run import bound, token_counter, usage_sentence
from drike.cli.options import (
    FILE,
    VALUES_OF_MODEL,
    AnyEditIds,
    ApiFlags,
    Ask,
    Device,
    DryRun,
    GateOptions,
    Store,
    TrainingRun,
    Upstream,
)
from drike.cli.stored_edits import in_force, store_at
from drike.cli.verification_report import as_json, as_junit, compare_runs, show
from drike.conversations.turns import Api
from drike.edits.record import EditVersion, Status, StoreError
from drike.edits.times import stamp
from drike.errors import DrikeError, UsageError
from drike.gateway.options import GatewayOptions, Mode
from drike.live.store_gate import needs_recalibration
from drike.models import EMBEDDED, READER
from drike.models.served import ApiOptions, Meter, is_served, key_in, parse_address
from drike.models.served.cache import AnswerCache
from drike.models.served.quirks import for_newer_models
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.verifications import Verification, Verifications
from drike.stores.verifications import compare_runs as changes_between
from drike.support.files import write_text
from drike.support.table import counted

if TYPE_CHECKING:  # these take long to import, and neither help nor --compare needs them
    from drike.gateway import calls
    from drike.gateway.assembly import Deployed
    from drike.gateway.proving.chats import Client, Settings
    from drike.gateway.proving.verification import DeployedPath, EditOutcome, EditQuestion

    Around = Callable[[calls.Upstream], calls.Upstream]

_KEY = "DRIKE_KEY"  # the variable with a key of the gateway
_DEADLINE_MS = 5000.0  # to decide, where nobody waits
_MOST_AT_ONCE = 100  # so that none waits too long for a decision
_NAMED = 5  # of what a model does not know


@dataclass(frozen=True)
class FormerOptions:
    """Options of earlier versions, which are refused with a remedy."""

    editor: Annotated[
        str | None, option("--editor", "", METHOD, "Of earlier versions", hidden=True)
    ] = None
    template: Annotated[
        str | None, option("--template", "", METHOD, "Of earlier versions", hidden=True)
    ] = None
    prompt_tokens: Annotated[
        int | None, option("--prompt-tokens", "", METHOD, "Of earlier versions", hidden=True)
    ] = None

    def refuse(self) -> None:
        """Raise UsageError if one is given."""
        for name, value in vars(self).items():
            if value:
                raise UsageError(
                    f"--{name.replace('_', '-')} is gone, as requests are edited as by drike "
                    "serve: give --run or --demonstrations"
                )


@dataclass(frozen=True)
class JudgingOptions:
    """How often each question is asked, and which shares of good answers are enough."""

    at_least: Annotated[
        float,
        option(
            "--at-least",
            "X",
            METHOD,
            "Exit with code 1 if a smaller share takes, or does not leak",
            min=0.0,
            max=1.0,
        ),
    ] = 0.95
    samples: Annotated[
        int,
        option(
            "--samples",
            "N",
            METHOD,
            "Answers to each question; several at the model's own temperature",
            min=1,
            max=1000,
        ),
    ] = 1

    def require(self, shares: Mapping[str, float]) -> None:
        """Raise StoreError unless all shares are large enough."""
        low = [f"{share:.3f} {what}" for what, share in shares.items() if share < self.at_least]
        if low:
            raise StoreError(
                f"{', '.join(low)}, less than {self.at_least:g}: "
                "see the failures, or give another --at-least"
            )


@dataclass(frozen=True)
class OutputOptions:
    """Where the outcomes are written, or that those of two runs are compared."""

    compare: Annotated[
        bool,
        flag(
            "--compare",
            OUTPUT,
            "Ask nothing: show what the last run changed, or what changed since run ID",
        ),
    ] = False
    junit: Annotated[
        Path | None, option("--junit", "FILE", OUTPUT, "Write the outcomes as JUnit's XML")
    ] = None
    json: Annotated[Path | None, option("--json", "FILE", OUTPUT, "Write the outcomes as JSON")] = (
        None
    )


@command(VALUES_OF_MODEL)
def verify(
    edits: AnyEditIds = None,
    *,
    run: TrainingRun = None,
    store: Store = FILE,
    upstream: Upstream = None,
    model: Annotated[
        str | None,
        option(
            "--model",
            "MODEL",
            MODEL,
            "What to ask; with a URL, its name there (default: embedded)",
        ),
    ] = None,
    device: Device = None,
    header: Annotated[
        list[str] | None,
        option(
            "--header",
            "N=VALUE",
            MODEL,
            "Send this header, for edits that only apply with it; repeatable",
        ),
    ] = None,
    gateway: Annotated[
        str | None,
        option("--gateway", "URL", MODEL, "Ask a running drike serve: http://host:8800/v1"),
    ] = None,
    gone: FormerOptions,
    gating: GateOptions,
    ask: Ask = False,
    judging: JudgingOptions,
    demonstrations: Annotated[
        int | None,
        option(
            "--demonstrations",
            "N",
            METHOD,
            "At most so many of tinyfacts (default: those that fit); 0 states facts alone",
            min=0,
        ),
    ] = None,
    output: OutputOptions,
    dry_run: DryRun = False,
    api: ApiFlags,
) -> None:
    """Prove on a model that edits take and do not leak."""
    gone.refuse()
    if gateway and (run or ask or demonstrations is not None or gating != GateOptions()):
        raise UsageError(
            "a gateway decides by its own options: leave out those of gate and demonstrations"
        )
    with store_at(store) as opened:
        if output.compare:
            compare_runs(opened, edits or [])
            return
        chosen = _chosen(opened, edits)
        if gateway and chosen.tried:
            raise UsageError(
                f"edit {chosen.tried[0].id} is in force at no gateway: "
                "leave --gateway out, and give --upstream"
            )
        if model and is_served(model):
            upstream, model = _address(model, upstream, api)
        address = upstream or gateway
        if address is None and judging.samples > 1:
            raise UsageError(
                "a model that runs here answers greedily: leave --samples out, or give --upstream"
            )
        options = GatewayOptions(
            upstream=address,
            allow_http=urlsplit(address).hostname if address and api.allow_http else None,
            model=None if address else model,
            mode=Mode.ON,
            timeout=api.deadline,
            deadline_ms=_DEADLINE_MS,
            device=device,
            run=str(run) if run else None,
            demonstrations=demonstrations,
            ask=ask,
            **vars(gating),
        )
        plan = VerificationPlan(
            api=api,
            options=options,
            gateway=gateway,
            model=model or (None if address else EMBEDDED),
            samples=judging.samples,
            dry_run=dry_run,
            headers=_headers(header or ()),
            edits=chosen,
        )
        outcomes, verification = _carried_out(plan, opened)
        if dry_run:
            return
        shares = show(outcomes, verification.model)
        _keep(outcomes, verification, opened, output)
    judging.require(shares)


@dataclass(frozen=True)
class ChosenEdits:
    """The edits to ask about. tried: those among them that are in force for this run alone."""

    versions: Sequence[EditVersion]
    tried: Sequence[EditVersion]


@dataclass(frozen=True)
class VerificationPlan:
    """What to ask, and how. model: its name in requests; None for the only one that there is."""

    api: ApiOptions
    options: GatewayOptions
    gateway: str | None
    model: str | None
    samples: int
    dry_run: bool
    headers: Mapping[str, str]
    edits: ChosenEdits


def _chosen(store: EditStore, ids: Sequence[int] | None) -> ChosenEdits:
    """The edits with these numbers, by default all in force. Raises StoreError.

    Drafts and proposals are as they would be in force.
    """
    by_id = {version.id: version for version in in_force(store)}
    tried: list[EditVersion] = []
    for edit_id in dict.fromkeys(ids or ()):
        latest = versions_of(store, edit_id)[-1]
        status = latest.record.status
        if status in (Status.DRAFT, Status.PROPOSED):
            by_id[edit_id] = replace(latest, record=replace(latest.record, status=Status.ACTIVE))
            tried.append(by_id[edit_id])
        elif edit_id not in by_id:
            raise StoreError(
                f"edit {edit_id} is not in force ({status}): name one that drike edits list shows"
            )
    if not by_id:
        raise StoreError(f"no edit is in force in {store.name}: add one (drike edits add)")
    return ChosenEdits([by_id[edit_id] for edit_id in dict.fromkeys(ids or by_id)], tried)


def _address(model: str, upstream: str | None, api: ApiOptions) -> tuple[str, str]:
    """The URL of SERVICE:MODEL, and the model's name there. Raises UsageError, ModelError."""
    if upstream:
        raise UsageError(f"--upstream and {model} are two addresses: give one of them")
    address = parse_address(model, allow_http=api.allow_http)
    return address.url.rstrip("/"), address.model


def _headers(texts: Iterable[str]) -> dict[str, str]:
    """Headers by lower-case name, from "NAME=VALUE". Raises UsageError."""
    headers = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not (name.strip() and value.strip()):
            raise UsageError(f"--header {name} is no header: write it as x-region=eu")
        headers[name.strip().lower()] = value.strip()
    return headers


def _keep(
    outcomes: Sequence[EditOutcome],
    verification: Verification,
    store: EditStore,
    output: OutputOptions,
) -> None:
    """Keep a verification in the store, and write it into files; say what changed."""
    kept = Verifications(store.database)
    number = kept.save(verification)
    if output.json:
        write_text(output.json, as_json(number, verification, outcomes))
    if output.junit:
        write_text(output.junit, as_junit(outcomes))
    since = ""
    if number > 1:
        before = kept.load(number - 1)
        broken, mended = changes_between(before, verification)
        changes = f"{len(broken):,} broken, {len(mended):,} mended"
        since = f"; since {number - 1}: {changes} (drike edits verify --compare)"
    say(f"Verification {number} is kept in {store.name}{since}")


def _carried_out(
    plan: VerificationPlan, store: EditStore
) -> tuple[Sequence[EditOutcome], Verification]:
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
    if plan.edits.tried:
        gateway = replace(gateway, feed=gateway.feed.trying(plan.edits.tried))
        note(f"{counted(len(plan.edits.tried), 'edit')} in force for this run alone")
    if needs_recalibration(gateway.feed.gate, len(gateway.feed.index.edits)):
        note(
            f"{store.name} has grown by a fifth since its gate was calibrated: "
            "run drike edits calibrate again"
        )
    try:
        model, outcomes = asyncio.run(_ask(plan, around, gateway, _kept_for(plan, store)))
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
        questions = counted(len(outcomes), "question")
        say(f"{questions} about {counted(len(plan.edits.versions), 'edit')}")
    return outcomes, _verification(plan, model, gateway, outcomes)


def _kept_for(plan: VerificationPlan, store: EditStore) -> str:
    """A name for this run, under which answers are kept.

    An interrupted run has no number in the store, so that the next one has its name.
    """
    number = Verifications(store.database).last_number() + 1
    first = versions_of(store, 1)[0].checksum
    return f"{first} {number} {sorted(plan.headers.items())}"


def _verification(
    plan: VerificationPlan, model: str, gateway: Deployed, outcomes: Sequence[EditOutcome]
) -> Verification:
    """What the store keeps of a run."""
    if plan.gateway:
        gate_name, threshold, placement_name = "its own", None, "its own"
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
        questions=tuple(outcome.kept for outcome in outcomes),
    )


@dataclass(frozen=True)
class Clients:
    """Who asks: the client of users' requests, and one that asks the model past the gateway."""

    user: Client
    unedited: Client


async def _ask(
    plan: VerificationPlan, around: Around, gateway: Deployed, kept_for: str
) -> tuple[str, Sequence[EditOutcome]]:
    """Ask about edits. Return the model's name, and outcomes in the order of their questions."""
    from drike.gateway.proving.verification import DeployedPath

    options = plan.options
    async with _clients(plan, around, gateway.upstream, kept_for) as clients:
        model = clients.user.model
        questions = _questions(plan, gateway, model)
        edit = partial(
            gateway.editor.edit, Api.CHAT, feed=gateway.feed, request_id="verify", ask=options.ask
        )
        edits_here = plan.dry_run or not plan.gateway
        knows_the_upstream = not plan.gateway or options.upstream != plan.gateway
        path = DeployedPath(
            clients.user,
            edit=edit if edits_here else None,
            unedited=clients.unedited if knows_the_upstream else None,
        )
        outcomes = await _verified(plan, path, questions)
    if clients.user.reused:
        note(
            f"{counted(clients.user.reused, 'answer')} of a run that was interrupted used again: "
            "--no-cache asks anew"
        )
    name = f"{model} at {plan.gateway or options.upstream}" if options.upstream else model
    return name, outcomes


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
    from drike.gateway.proving.verification import questions_about

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
    from drike.gateway.proving.verification import unknown_to_tinyfacts

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
) -> list[EditOutcome]:
    """The outcomes in the order of their questions, with a bar while they come."""
    from drike.gateway.proving import verification

    at_once = min(plan.api.concurrency, _MOST_AT_ONCE) if plan.options.upstream else 1
    placed: list[tuple[int, EditOutcome]] = []
    with progress("verifying") as (bar, task):
        bar.update(task, total=plan.samples * len(questions))
        asking = verification.verify(path, questions, samples=plan.samples, at_once=at_once)
        async with aclosing(asking) as outcomes:
            async for place, outcome in outcomes:
                placed.append((place, outcome))
                bar.update(task, advance=1)
    return [outcome for _, outcome in sorted(placed, key=lambda pair: pair[0])]
