"""`drike edits verify`: prove on a model that stored edits take, along the path of users' requests."""

from __future__ import annotations

import asyncio
import json as as_json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from xml.etree import ElementTree

from drike.answers.statements import Stated
from drike.cli.console import NOTHING, complain, draw, note, progress, say
from drike.cli.dry_run import bound, token_counter, usage_sentence
from drike.cli.edits import in_force, store_at
from drike.cli.options import FILE, VALUES_OF_MODEL, GateOptions, command
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
from drike.stores.verifications import Verification, Verifications, VerifiedQuestion, compare_runs
from drike.support.files import write_text
from drike.support.rows import shown
from drike.support.table import Cell, Estimate, Number, Table, as_text, counted, visible

if TYPE_CHECKING:  # these take long to import, and neither help nor --compare needs them
    from drike.gateway.calls import Upstream
    from drike.gateway.proving.chats import Settings
    from drike.gateway.proving.verification import EditOutcome, EditQuestion
    from drike.gateway.start import Deployed

_KEY = "DRIKE_KEY"  # the variable with a key of the gateway
_DEADLINE_MS = 5000.0  # to decide, where nobody waits
_MOST_AT_ONCE = 100  # so that none waits too long for a decision
_NAMED = 5  # of what a model does not know
_MAX_ROWS, _MAX_FAILURES = (
    60,
    20,
)  # edits of a table, and failures; of more edits only those that failed are shown
_BEGINNING, _END = 200, 120  # characters of a long text that is shown
_SUBJECT = 24  # characters of one in a table
_STATES = (Stated.NEW, Stated.OLD, Stated.BOTH, Stated.NEITHER, Stated.REFUSED)


@command(VALUES_OF_MODEL)
def verify(
    edits: list[int] | None = None, *, store: str = FILE, run: Path | None = None, gateway: str | None = None,
    upstream: str | None = None, model: str | None = None, header: list[str] | None = None, device: str | None = None,
    demonstrations: int | None = None, gating: GateOptions, ask: bool = False, samples: int = 1, at_least: float = 0.95,
    junit: Path | None = None, json: Path | None = None, compare: bool = False, api: ApiOptions, dry_run: bool = False,
    editor: str | None = None, template: str | None = None, prompt_tokens: int | None = None,
) -> None:  # fmt: skip
    """Prove on a model that edits take and do not leak: requests go the way of drike serve, and answers are judged."""
    if (
        gone := "--editor" * bool(editor)
        or "--template" * bool(template)
        or "--prompt-tokens" * bool(prompt_tokens)
    ):
        raise UsageError(
            f"{gone} is gone, as requests are edited as by drike serve: give --run or --demonstrations"
        )
    if gateway and (run or ask or demonstrations is not None or gating != GateOptions()):
        raise UsageError(
            "a gateway decides by its own options: leave out those of gate and demonstrations"
        )
    with store_at(store) as opened:
        if compare:
            return _compare_runs(opened, edits or [])
        chosen, tried = _chosen(opened, edits)
        if gateway and tried:
            raise UsageError(
                f"edit {tried[0].id} is in force at no gateway: leave --gateway out, and give --upstream"
            )
        if model and is_served(model):
            if upstream:
                raise UsageError(f"--upstream and {model} are two addresses: give one of them")
            parsed = parse_address(model, allow_http=api.allow_http)
            upstream, model = parsed.url.rstrip("/"), parsed.model
        address = upstream or gateway
        if address is None and samples > 1:
            raise UsageError(
                "a model that runs here answers greedily: leave --samples out, or give --upstream"
            )
        options = GatewayOptions(
            upstream=address, allow_http=urlsplit(address).hostname if address and api.allow_http else None,
            model=None if address else model, mode=Mode.ON, timeout=api.deadline, deadline_ms=_DEADLINE_MS,
            device=device, run=str(run) if run else None, demonstrations=demonstrations, ask=ask, **vars(gating),
        )  # fmt: skip
        name = model or (None if address else EMBEDDED)
        plan = VerifyPlan(
            api, options, gateway, name, samples, dry_run, _headers(header or ()), chosen, tried
        )
        outcomes, made = _carried_out(plan, opened)
        if dry_run:
            return
        shares, number = _show(outcomes, made.model), Verifications(opened.database).save(made)
        if json:
            values = {"number": number, **asdict(made), "questions": list(map(_values, outcomes))}
            write_text(json, as_json.dumps(values, ensure_ascii=False, indent=1) + "\n")
        if junit:
            write_text(junit, _junit(outcomes))
        kept = f"Verification {number} is kept in {opened.name}"
        if number > 1:
            broken, mended = map(
                len, compare_runs(Verifications(opened.database).load(number - 1), made)
            )
            kept += f"; since {number - 1}: {broken:,} broken, {mended:,} mended (drike edits verify --compare)"
        say(kept)
    if low := [f"{share:.3f} {what}" for what, share in shares.items() if share < at_least]:
        raise StoreError(
            f"{', '.join(low)}, less than {at_least:g}: see the failures, or give another --at-least"
        )


test = verify  # its name in earlier versions


@dataclass(frozen=True)
class VerifyPlan:
    """What to ask, and how. model: its name in requests. tried: chosen edits that are in force for this run alone."""

    api: ApiOptions
    options: GatewayOptions
    gateway: str | None
    model: str | None
    samples: int
    dry_run: bool
    headers: Mapping[str, str]
    chosen: Sequence[EditVersion]
    tried: Sequence[EditVersion]


def _headers(given: Iterable[str]) -> dict[str, str]:
    """Headers by lower-case name. Raises UsageError."""
    pairs = [text.partition("=")[::2] for text in given]
    if wrong := next((name for name, value in pairs if not (name.strip() and value.strip())), None):
        raise UsageError(f"--header {wrong} is no header: write it as x-region=eu")
    return {name.strip().lower(): value.strip() for name, value in pairs}


def _chosen(
    store: EditStore, edits: Sequence[int] | None
) -> tuple[list[EditVersion], list[EditVersion]]:
    """The edits to ask about, by default all in force, and those among them that wait to be. Raises StoreError."""
    tried, by_id = list[EditVersion](), {version.id: version for version in in_force(store)}
    for id in dict.fromkeys(edits or ()):
        latest = versions_of(store, id)[-1]
        if (status := latest.record.status) in (Status.DRAFT, Status.PROPOSED):
            by_id[id] = replace(latest, record=replace(latest.record, status=Status.ACTIVE))
            tried.append(by_id[id])
        elif id not in by_id:
            raise StoreError(
                f"edit {id} is not in force ({status}): name one that drike edits list shows"
            )
    if not by_id:
        raise StoreError(f"no edit is in force in {store.name}: add one (drike edits add)")
    return [by_id[id] for id in dict.fromkeys(edits or by_id)], tried


def _carried_out(plan: VerifyPlan, store: EditStore) -> tuple[Sequence[EditOutcome], Verification]:
    """Ask, and say what was left out and what it took. Raises DrikeError."""
    from drike.cli.gateway_parts import gateway_parts
    from drike.gateway.proving.chats import DryUpstream, MeteredUpstream
    from drike.gateway.start import deployed

    api, count = plan.api, token_counter(plan.api.tokenizer, "plain")
    meter = Meter(replace(api, max_calls=None, max_cost=None) if plan.dry_run else api)

    def around(upstream: Upstream) -> Upstream:
        return MeteredUpstream(
            DryUpstream(upstream.name, count) if plan.dry_run else upstream, meter
        )

    gateway = deployed(plan.options, store, gateway_parts(), around=around)
    if plan.tried:
        gateway = replace(gateway, feed=gateway.feed.trying(plan.tried))
        note(f"{counted(len(plan.tried), 'edit')} in force for this run alone")
    if needs_recalibration(gateway.feed.gate, len(gateway.feed.index.edits)):
        note(
            f"{store.name} has grown by a fifth since its gate was calibrated: run drike edits calibrate again"
        )
    # A run that was interrupted is kept under no number, so that the next one has its number, and its answers.
    number, first = (
        Verifications(store.database).last_number() + 1,
        versions_of(store, 1)[0].checksum,
    )
    try:
        asked = _ask(
            plan, around, gateway, kept_for=f"{first} {number} {sorted(plan.headers.items())}"
        )
        model, outcomes = asyncio.run(asked)
    except (KeyboardInterrupt, DrikeError):
        if (answered := meter.usage.calls) and not (api.no_cache or plan.gateway):
            complain(
                f"{counted(answered, 'answer')} kept for a day: the same command goes on from there",
                "yellow",
            )
        raise
    finally:
        if plan.options.upstream and not plan.dry_run:
            say(f"Used: {usage_sentence(meter.usage)}")
    if plan.dry_run:
        draw(
            bound(meter.usage.calls, meter.usage.prompt_tokens, meter.usage.completion_tokens, api)
        )
        say(f"{counted(len(outcomes), 'question')} about {counted(len(plan.chosen), 'edit')}")
    gate, placement = gateway.feed.gate, gateway.editor.placements[Api.CHAT]
    shows = getattr(getattr(placement, "editor", None), "name", "facts alone")
    here = (
        type(gate).__name__,
        getattr(gate, "threshold", None),
        f"{type(placement).__name__}, {shows}",
    )
    decided, kept = (
        ("its own", None, "its own") if plan.gateway else here,
        tuple(o.kept for o in outcomes),
    )
    return outcomes, Verification(stamp(datetime.now(UTC)), model, *decided, version("drike"), kept)


async def _ask(
    plan: VerifyPlan, around: Callable[[Upstream], Upstream], gateway: Deployed, *, kept_for: str
) -> tuple[str, Sequence[EditOutcome]]:
    """Ask about edits. Return the model's name, and the outcomes in the order of their questions."""
    from drike.gateway.proving import verification as verifying
    from drike.gateway.proving.chats import TOKENS, Client, GatewayUpstream

    above, editor, feed = gateway.upstream, gateway.editor, gateway.feed
    options, api = plan.options, plan.api
    effort = {"reasoning_effort": api.reasoning_effort} if api.reasoning_effort else {}
    most, greedy = TOKENS + api.thinking_tokens, {"temperature": 0} if plan.samples == 1 else {}
    limited = {"max_tokens": most, **greedy, **effort}
    forms: Sequence[Settings] = (
        limited, for_newer_models(limited), effort,
    )  # fmt: skip
    cache = None if api.no_cache or plan.dry_run else AnswerCache()
    settings = forms if options.upstream else [{}]
    asking = partial(
        Client, settings=settings, deadline=api.deadline, cache=cache, kept_for=kept_for
    )
    running, asked = None if plan.dry_run else plan.gateway, above
    async with AsyncExitStack() as stack:
        if cache:
            stack.callback(cache.close)
        if running:
            host = urlsplit(running).hostname if api.allow_http else None
            asked = around(GatewayUpstream(running, allow_http=host, timeout=api.deadline))
        for upstream in {asked, above}:
            stack.push_async_callback(upstream.close)
            await upstream.open()
        key = key_in(_KEY) if running else None
        sent = {**plan.headers, **({"authorization": f"Bearer {key}"} if key else {})}
        headers = [(n.encode(), value.encode()) for n, value in sent.items()]
        client = asking(asked, plan.model or "", headers=headers, cache=None if running else cache)
        client.model = plan.model or await client.only_model()
        tiny = client.model in (EMBEDDED, READER)
        unedited = client if asked is above else asking(above, client.model)
        edit = partial(editor.edit, Api.CHAT, feed=feed, request_id="verify", ask=options.ask)
        past = not plan.gateway or options.upstream != plan.gateway
        path = verifying.DeployedPath(client, None if running else edit, unedited if past else None)
        index = feed.index.applying({**plan.headers, "model": client.model})
        others = ", ".join(
            [str(edit.id) for edit in plan.chosen if edit.id in index.without][:_NAMED]
        )
        if not (for_these := [edit for edit in plan.chosen if edit.id not in index.without]):
            raise UsageError(
                f"edits {others} are for other requests: give their --model, or a --header that they need"
            )
        if others:
            note(f"edits {others} are not asked about, as they are for other requests")
        questions = list(
            verifying.questions_about(for_these, index, follow_up=gateway.chats and not tiny)
        )
        if tiny:
            questions = _known_to_tinyfacts(client.model, questions)
        placed: list[tuple[int, EditOutcome]] = []
        at_once = min(api.concurrency, _MOST_AT_ONCE) if options.upstream else 1
        with progress("verifying") as (bar, task):
            bar.update(task, total=plan.samples * len(questions))
            async with aclosing(
                verifying.verify(path, questions, samples=plan.samples, at_once=at_once)
            ) as outcomes:
                async for outcome in outcomes:
                    placed.append(outcome)
                    bar.update(task, advance=1)
    if client.reused:
        note(
            f"{counted(client.reused, 'answer')} of a run that was interrupted used again: --no-cache asks anew"
        )
    name = (
        f"{client.model} at {plan.gateway or options.upstream}"
        if options.upstream
        else client.model
    )
    return name, [outcome for _, outcome in sorted(placed, key=lambda pair: pair[0])]


def _known_to_tinyfacts(model: str, questions: Sequence[EditQuestion]) -> list[EditQuestion]:
    """The questions that a model can know which knows TinyFacts alone. Raises UsageError for none."""
    from drike.gateway.proving.verification import unknown_to_tinyfacts

    unknown = {question: what for question in questions if (what := unknown_to_tinyfacts(question))}
    what = f"{model} knows TinyFacts alone, so not {', '.join(list(dict.fromkeys(unknown.values()))[:_NAMED])}"
    if len(unknown) == len(questions):
        raise UsageError(f"nothing can be proven, as {what}: give --model or --upstream")
    if unknown:
        note(
            f"{counted(len(unknown), 'question')} not asked, as {what}: give --model or --upstream for these"
        )
    return [question for question in questions if question not in unknown]


def _show(outcomes: Sequence[EditOutcome], model: str) -> dict[str, float]:
    """Draw what took of each edit, and what failed; return the shares that count."""
    from drike.gateway.proving.verification import by_concern

    by_edit: dict[int, list[EditOutcome]] = {}
    for outcome in outcomes:
        by_edit.setdefault(outcome.question.edit.id, []).append(outcome)
    failures = [outcome for outcome in outcomes if outcome.problem]
    failed = dict.fromkeys(outcome.question.edit.id for outcome in failures)
    many = len(by_edit) > _MAX_ROWS
    listed = [by_edit[id] for id in (list(failed)[:_MAX_ROWS] if many else by_edit)]
    header = ("edit", "asked", "took", *_STATES[1:], "leaked", "tokens added", "latency p50")
    if listed:
        draw(
            Table(
                f"Edits on {model}{', those that failed' * many}", header, tuple(map(_row, listed))
            )
        )
    for failure in failures[:_MAX_FAILURES]:
        question, edit = failure.question, failure.question.edit
        say(f'{edit.id}@{edit.version} {question.kind} "{_cut(question.text)}": {failure.problem}')
        say(f"    answer  {_cut(failure.answer) or NOTHING}")
        if failure.sent is not None:
            say(f"    sent    {_cut(failure.sent)}")
    if len(failures) > _MAX_FAILURES:
        say(
            f"{len(failures) - _MAX_FAILURES:,} more failures are not shown: --json FILE and --junit FILE have all"
        )
    concerned, others = by_concern(outcomes)
    took, leaked = (
        sum(o.stated is Stated.NEW for o in concerned),
        sum(bool(o.problem) for o in others),
    )
    leaks = (
        f", leaked to {leaked:,} of {len(others):,}, {as_text(Estimate.share(leaked, len(others)))}"
    )
    share = as_text(Estimate.share(took, len(concerned)))
    about = f"{counted(len(by_edit), 'edit')}: took on {took:,} of {counted(len(concerned), 'question')}, {share}"
    say(about + (leaks if others else "; nothing was asked that they do not concern"))
    return {"took": took / len(concerned), "did not leak": 1 - leaked / max(1, len(others))}


def _row(outcomes: Sequence[EditOutcome]) -> tuple[Cell, ...]:
    from drike.gateway.proving.verification import by_concern

    edit, (concerned, others) = outcomes[0].question.edit, by_concern(outcomes)
    stated = Counter(outcome.stated for outcome in concerned)
    leaked = sum(bool(outcome.problem) for outcome in others) / len(others) if others else None
    tokens = [outcome.tokens for outcome in concerned if outcome.tokens is not None]
    shares = (*(stated[state] / len(concerned) for state in _STATES), leaked)
    added = Number(median(tokens) if tokens else None, "+,.0f")
    name = f"{edit.id}@{edit.version} {edit.record.subject:.{_SUBJECT}}"
    seconds = f"{median(outcome.seconds for outcome in outcomes):.2f} s"
    return name, Number(len(outcomes)), *(Number(share, ".2f") for share in shares), added, seconds


def _cut(text: str) -> str:
    """A text on one line, without the middle of a long one."""
    line = " ".join(text.split())
    return line if len(line) <= _BEGINNING + _END else f"{line[:_BEGINNING]} [...] {line[-_END:]}"


def _values(outcome: EditOutcome) -> dict[str, object]:
    more = {
        "problem": outcome.problem,
        "first_turn": outcome.question.first,
        "before": outcome.unedited,
    }
    kept = {
        name: getattr(outcome, name)
        for name in ("answer", "sent", "edits", "scope", "tokens", "seconds")
    }
    return {**asdict(outcome.kept), **more, **kept}


def _junit(outcomes: Sequence[EditOutcome]) -> str:
    failures = str(sum(bool(outcome.problem) for outcome in outcomes))
    suite = ElementTree.Element(
        "testsuite", name="drike edits verify", tests=str(len(outcomes)), failures=failures
    )
    for outcome in outcomes:
        kept, seconds = outcome.kept, f"{outcome.seconds:.3f}"
        name, edit = _in_xml(f"{kept.kind}: {kept.question}"), f"edit {kept.edit}@{kept.version}"
        case = ElementTree.SubElement(suite, "testcase", classname=edit, name=name, time=seconds)
        if outcome.problem:
            failure = ElementTree.SubElement(case, "failure", message=_in_xml(outcome.problem))
            failure.text = _in_xml(
                f"answer: {outcome.answer}\nsent: {outcome.sent or '(by the gateway)'}"
            )
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _in_xml(text: str) -> str:
    return re.sub("[\ufffe\uffff]", "?", visible(text))


def _compare_runs(store: EditStore, numbers: Sequence[int]) -> None:
    """Show what changed between the last run and the one before, or another. Raises StoreError if something broke."""

    def said(answer: VerifiedQuestion) -> str:
        return f"{answer.stated}{', matched' if answer.matched else ''}"

    last = Verifications(store.database).last_number()
    if len(numbers) > 1:
        raise UsageError("--compare takes the number of one run: leave the others out")
    if last < 2 and not numbers:
        raise StoreError("there are no two verifications to compare: verify once more")
    first = numbers[0] if numbers else last - 1
    before, after = (Verifications(store.database).load(number) for number in (first, last))
    for name in ("model", "gate", "threshold", "placement", "drike"):
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            say(f"{name}: {was} -> {now}")
    broken, mended = compare_runs(before, after)
    header = ("edit", "kind", "question", f"run {first}", f"run {last}")
    for title, changes in (("Broken", broken), ("Mended", mended)):
        if rows := tuple(
            (f"{a.edit}@{a.version}", a.kind, shown(a.question), said(b), said(a))
            for b, a in changes
        ):
            draw(Table(f"{title} since run {first} ({before.at})", header, rows, wide=True))
    say(f"Run {first} to run {last}: {len(broken):,} broken, {len(mended):,} mended")
    if broken:
        raise StoreError(
            f"{counted(len(broken), 'question')} no longer answered as they should be: see above"
        )
