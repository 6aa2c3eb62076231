"""`drike edits verify`: prove on a model that stored edits take, as users ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from drike.cli.commands import METHOD, MODEL, OUTPUT, command, flag, option
from drike.cli.console import say
from drike.cli.options import (
    FILE,
    VALUES_OF_MODEL,
    AnyEditIds,
    ApiFlags,
    Device,
    DryRun,
    GateOptions,
    Store,
    TrainingRun,
    Upstream,
)
from drike.cli.stored_edits import in_force, store_at
from drike.cli.verification_report import as_json, as_junit, show, show_changes
from drike.cli.verification_run import ChosenEdits, VerificationPlan, carried_out
from drike.edits.record import EditVersion, Status, StoreError
from drike.errors import UsageError
from drike.gateway.options import GatewayOptions, Mode
from drike.models import local_default
from drike.models.served import ApiOptions, is_served, parse_address
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.verifications import Verification, Verifications, compare_runs
from drike.support.files import write_text

if TYPE_CHECKING:  # it takes long to import, and neither help nor --compare needs it
    from drike.gateway.proving.verification import EditVerdict

_DEADLINE_MS = 5000.0  # to decide, where nobody waits


@dataclass(frozen=True)
class TargetOptions:
    """What is asked: an upstream, a model that runs here, or a gateway."""

    upstream: Upstream = None
    model: Annotated[
        str | None,
        option(
            "--model",
            "MODEL",
            MODEL,
            "What to ask; with a URL, its name there (default: smollm2 if installed, else "
            "embedded)",
        ),
    ] = None
    device: Device = None
    header: Annotated[
        list[str] | None,
        option(
            "--header",
            "N=VALUE",
            MODEL,
            "Send this header, for edits that only apply with it; repeatable",
        ),
    ] = None
    gateway: Annotated[
        str | None,
        option("--gateway", "URL", MODEL, "Ask a running drike serve: http://host:8800/v1"),
    ] = None


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
    judge: Annotated[
        str | None,
        option(
            "--judge",
            "MODEL",
            METHOD,
            "Let this model judge answers about policies that the rules leave undecided; small "
            "models err often (default: rules alone)",
        ),
    ] = None

    def require(self, shares: Mapping[str, float]) -> None:
        """Raise StoreError unless all shares are large enough."""
        low = [f"{share:.3f} {what}" for what, share in shares.items() if share < self.at_least]
        if low:
            raise StoreError(
                f"{', '.join(low)}, less than {self.at_least:g}: "
                "see the failures, or give another --at-least"
            )


@dataclass(frozen=True)
class ReportOptions:
    """Where the verdicts are written, or that those of two runs are compared."""

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
    target: TargetOptions,
    gone: FormerOptions,
    gating: GateOptions,
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
    output: ReportOptions,
    dry_run: DryRun = False,
    api: ApiFlags,
) -> None:
    """Prove on a model that edits take and do not leak."""
    gone.refuse()
    gateway = target.gateway
    if gateway and (run or demonstrations is not None or gating != GateOptions()):
        raise UsageError(
            "a gateway decides by its own options: leave out those of gate and demonstrations"
        )
    editing = Editing(run, gating, demonstrations)
    with store_at(store) as opened:
        if output.compare:
            show_changes(opened, edits or [])
            return
        chosen = _chosen(opened, edits)
        plan = _plan(chosen, target, editing, judging, dry_run=dry_run, api=api)
        verdicts, verification = carried_out(plan, opened)
        if dry_run:
            return
        shares = show(verdicts, verification.model)
        _keep(verdicts, verification, opened, output)
    judging.require(shares)


@dataclass(frozen=True)
class Editing:
    """The options by which requests are edited, as those of drike serve."""

    run: Path | None
    gating: GateOptions
    demonstrations: int | None


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


def _plan(
    chosen: ChosenEdits,
    target: TargetOptions,
    editing: Editing,
    judging: JudgingOptions,
    *,
    dry_run: bool,
    api: ApiOptions,
) -> VerificationPlan:
    """What is to be asked of whom. Raises UsageError for options that do not go together."""
    gateway = target.gateway
    samples = judging.samples
    if gateway and chosen.tried:
        raise UsageError(
            f"edit {chosen.tried[0].id} is in force at no gateway: "
            "leave --gateway out, and give --upstream"
        )
    model = target.model
    upstream = target.upstream
    if model and is_served(model):
        if upstream:
            raise UsageError(f"--upstream and {model} are two addresses: give one of them")
        served = parse_address(model, allow_http=api.allow_http)
        upstream = served.url.rstrip("/")
        model = served.model
    address = upstream or gateway
    if address is None and samples > 1:
        raise UsageError(
            "a model that runs here answers greedily: leave --samples out, or give --upstream"
        )
    if address is None:
        model = model or local_default()
    options = GatewayOptions(
        upstream=address,
        allow_http=urlsplit(address).hostname if address and api.allow_http else None,
        model=None if address else model,
        mode=Mode.ON,
        timeout=api.deadline,
        deadline_ms=_DEADLINE_MS,
        device=target.device,
        run=str(editing.run) if editing.run else None,
        demonstrations=editing.demonstrations,
        **vars(editing.gating),
    )
    return VerificationPlan(
        api=api,
        options=options,
        gateway=gateway,
        model=model,
        samples=samples,
        judge=judging.judge,
        dry_run=dry_run,
        headers=_headers(target.header or ()),
        edits=chosen,
    )


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
    verdicts: Sequence[EditVerdict],
    verification: Verification,
    store: EditStore,
    output: ReportOptions,
) -> None:
    """Keep a verification in the store, and write it into files; say what changed."""
    kept = Verifications(store.database)
    number = kept.save(verification)
    if output.json:
        write_text(output.json, as_json(number, verification, verdicts))
    if output.junit:
        write_text(output.junit, as_junit(verdicts))
    since = ""
    if number > 1:
        before = kept.load(number - 1)
        broken, mended = compare_runs(before, verification)
        changes = f"{len(broken):,} broken, {len(mended):,} mended"
        since = f"; since {number - 1}: {changes} (drike edits verify --compare)"
    say(f"Verification {number} is kept in {store.name}{since}")
