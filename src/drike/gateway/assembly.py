"""The parts of a gateway that `drike edits verify` goes through as well."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from drike.conversations.rendering import AsBlock, AsPrompt, Placement
from drike.errors import UsageError
from drike.gates.decision import Gate
from drike.gateway.calls import Upstream
from drike.gateway.editing import RequestEditor
from drike.gateway.feed import EditFeed
from drike.gateway.http.upstream import HttpUpstream
from drike.gateway.local import LocalUpstream
from drike.gateway.metrics import Metrics
from drike.gateway.options import GatewayOptions, Switch
from drike.gateway.parts import GatewayParts, OpenedEditor
from drike.gateway.proving.tuning import ChosenPlacement, stored_choice
from drike.live.store_gate import encoder_of, has_calibrated_gate, open_gate
from drike.models import EMBEDDED, local_default
from drike.models import load as load_model
from drike.models.served import checked_address, is_served, key_in, key_variable_at
from drike.prompts import Contrast
from drike.stores.edit_store import EditStore

_DEADLINE_OF_TRIALS = 60_000.0  # milliseconds


@dataclass(frozen=True)
class Deployed:
    """What a request meets: what answers it, what edits it, and the edits.

    chats: whether the model reads all turns. notes: for the operator.
    """

    upstream: Upstream
    editor: RequestEditor
    feed: EditFeed
    chats: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placements:
    """How edits are written into chats, and into texts to complete."""

    chat: Placement
    completion: Placement


@dataclass(frozen=True)
class OpenedUpstream:
    """What answers, and notes for the operator.

    chat: how edits change its chats, unless the store says otherwise.
    """

    upstream: Upstream
    chat: Placement
    notes: tuple[str, ...] = ()


def deployed(
    options: GatewayOptions,
    store: EditStore,
    parts: GatewayParts,
    *,
    around: Callable[[Upstream], Upstream] = lambda upstream: upstream,
) -> Deployed:
    """The path of a gateway of these options, without the gateway.

    around: is put around the upstream. Nobody waits for an answer here, so that a busy machine
    makes no request pass unedited, unless the options have a deadline. Raises DrikeError.
    """
    options = with_model(options)
    options = replace(options, deadline_ms=options.deadline_ms or _DEADLINE_OF_TRIALS)
    opened_editor = parts.open_editor(options.run, options.most_demonstrations)
    opened = open_upstream(options, opened_editor, keyless=True)
    upstream = around(opened.upstream)

    choice = stored_choice(store, parts.placements)
    usual = Placements(opened.chat, AsPrompt(opened_editor.editor))
    placements = chosen_placements(choice, options, usual, parts.placements, notes=[])
    editor = RequestEditor(
        chat=placements.chat,
        completion=placements.completion,
        options=options,
        metrics=Metrics(),
    )

    encoder = partial(encoder_of, relations=options.relations)
    feed = EditFeed(store, gate_for(options, store, opened_editor.gate), encoder=encoder)
    feed.switch = Switch()  # edits are tried before someone switches them on
    overruled = note_on_policy(options, store, opened_editor.gate)
    return Deployed(
        upstream,
        editor,
        feed,
        chats=getattr(opened.upstream, "chats", True),
        notes=(overruled,) if overruled else (),
    )


def gate_for(
    options: GatewayOptions, store: EditStore, policy_gate: Gate | None = None
) -> Gate | None:
    """The gate of the options, or the policy's where the store has none; None for the store's."""
    if options.gate is not None or options.gate_threshold is not None:
        return open_gate(store, options.gate, options.gate_threshold)
    return None if has_calibrated_gate(store) else policy_gate


def note_on_policy(
    options: GatewayOptions, store: EditStore, policy_gate: Gate | None
) -> str | None:
    """That another gate than the policy of `options.run` decides, if it does."""
    if policy_gate is None:
        return None
    if options.gate is not None or options.gate_threshold is not None:
        return (
            "the gate of --gate or --gate-threshold decides which edits match, not the policy of "
            f"{options.run}"
        )
    if not has_calibrated_gate(store):
        return None
    return (
        "the gate that was calibrated for the store decides which edits match, not the policy of "
        f"{options.run}: drike edits calibrate --remove lets the policy decide"
    )


def check_options(options: GatewayOptions) -> None:
    """Refuse options that contradict each other. Raises UsageError."""
    if options.upstream and options.model:
        raise UsageError("--upstream and --model are two models: give one of them")
    if options.port == options.admin_port and options.port:
        raise UsageError(f"port {options.port} is given twice: give --admin-port another one")
    if options.run and options.demonstrations is not None:
        raise UsageError(
            "a training run says how many demonstrations are shown: leave out --run or "
            "--demonstrations"
        )

    if options.contrast:
        _check_contrast(options)
    if options.upstream:
        checked_address(options.upstream, options.allow_http)
    elif options.model and is_served(options.model):
        raise UsageError(f"{options.model} is behind an API: give its address as --upstream")


def _check_contrast(options: GatewayOptions) -> None:
    """Raises UsageError."""
    if options.upstream:
        raise UsageError(
            f"{options.upstream} is an API and gives no probabilities of all tokens, which "
            "--contrast needs: serve a local model (--model), or leave it out"
        )
    try:
        Contrast(options.contrast)
    except ValueError as problem:
        raise UsageError(f"--contrast: {problem}") from None


def with_model(options: GatewayOptions) -> GatewayOptions:
    """The options with the model that answers here, where they name none.

    Raises UsageError for options that contradict each other.
    """
    check_options(options)
    if options.upstream or options.model:
        return options
    return replace(options, model=local_default())


def open_upstream(
    options: GatewayOptions, opened_editor: OpenedEditor, *, keyless: bool
) -> OpenedUpstream:
    """What answers: the upstream of the options, or a model of this process.

    keyless: clients need no key here.
    """
    # The made-up facts of demonstrations confuse real chat models, small ones above all.
    shows_demonstrations = options.run is not None or bool(options.demonstrations)
    chat = AsBlock(opened_editor.editor if shows_demonstrations else None)
    if options.upstream:
        return _http_upstream(options, options.upstream, chat, keyless=keyless)

    name = options.model or EMBEDDED
    model = load_model(name, template="plain", device=options.device)
    contrast = Contrast(options.contrast)
    if contrast.alpha and not model.info.contrasts:
        raise UsageError(
            f"{name} gives no probabilities of all tokens, which --contrast needs: serve a model "
            "of a folder, or leave it out"
        )
    if getattr(model, "chats", False):
        upstream = LocalUpstream(
            model,
            model.reply,  # type: ignore[attr-defined]
            contrast,
            getattr(model, "replies", None),
        )
        return OpenedUpstream(upstream, chat)
    note = f"{name} only completes: it continues the last message of a chat"
    upstream = LocalUpstream(model, contrast=contrast)
    return OpenedUpstream(upstream, AsPrompt(opened_editor.editor), (note,))


def _http_upstream(
    options: GatewayOptions, address: str, chat: Placement, *, keyless: bool
) -> OpenedUpstream:
    """A server as the upstream, with its key from the environment, if there is one."""
    variable = key_variable_at(address)
    key = key_in(variable)
    upstream = HttpUpstream(
        address,
        key,
        keep_credentials=keyless,
        timeout=options.timeout,
        allow_http=options.allow_http,
    )
    if key:
        note = f"${variable} is sent to the upstream"
    elif keyless:
        note = f"${variable} is not set: the clients' keys are passed on"
    else:
        note = f"${variable} is not set: no key is sent to the upstream"
    return OpenedUpstream(upstream, chat, (note,))


def chosen_placements(
    choice: ChosenPlacement | None,
    options: GatewayOptions,
    usual: Placements,
    placements: Callable[[bool], Mapping[str, Placement]],
    notes: list[str],
) -> Placements:
    """The store's choice for this model, unless options say otherwise.

    notes: gets a sentence about it.
    """
    if choice is None or options.run or options.demonstrations is not None:
        return usual

    answering = options.upstream or options.model or EMBEDDED
    chosen_for = choice.server or choice.model
    about = f"{choice.placement} for {choice.model}, by drike edits tune on {choice.chosen_at[:10]}"
    if answering.rstrip("/") != chosen_for.rstrip("/"):
        notes.append(
            "the store's placement of facts is not used, as it was chosen for another "
            f"model: {about}"
        )
        return usual

    notes.append(f"facts are placed as chosen: {about}")
    placement = placements(choice.chat)[choice.placement]
    if choice.chat:
        return replace(usual, chat=placement)
    if options.upstream:
        return replace(usual, completion=placement)
    return Placements(placement, placement)  # here, a model that only completes continues chats
