"""The options of `drike serve`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal


class Mode(StrEnum):
    """What a gateway does with edits."""

    SHADOW = "shadow"  # decide and count, change nothing
    ON = "on"
    OFF = "off"  # pass everything on


@dataclass(frozen=True)
class GatewayOptions:
    """The options of a gateway, each named as its flag (docs/serving.md); None is the default.

    upstream, model: one of the two, or neither for the embedded model. demonstrations: at most, without a run; None is
    none before an upstream, all over a local model. gate: "named", "calibrated", "careful", "eager" or a file; the
    store's own if it has one, else "calibrated", or "named" where no encoder is installed. ask: the upstream, yes or
    no, where the gate is uncertain; no answer in time is a no. mode: a `Mode`; "on" over a local model, else "shadow".
    deadline_ms: to decide on and edit a request; 50, 250 where the gate asks an encoder, 2000 where the upstream is
    asked, 5000 over a local model. retry_slips: ask again where an answer states an old object. notify: the address of
    webhooks about edits. keep_samples: so many questions and answers with their texts, of each edit and outcome, with
    what may be private hidden unless redact is off. timeout: in seconds.
    """

    upstream: str | None = None
    allow_http: str | None = None
    model: str | None = None
    device: str | None = None
    store: str | None = None
    create: bool = False
    keys: str | None = None
    require_keys: bool = False
    run: str | None = None
    demonstrations: int | None = None
    tool_results: Literal["on", "off"] = "on"
    gate: str | None = None
    gate_threshold: float | None = None
    relations: list[Path] | None = None
    ask: bool = False
    retry_slips: bool = False
    notify: str | None = None
    keep_samples: int = 0
    redact: bool = True
    mode: str | None = None
    deadline_ms: float | None = None
    host: str = "127.0.0.1"
    port: int = 8800
    admin_host: str = "127.0.0.1"
    admin_port: int = 8801
    timeout: float = 600.0
    reuse_port: bool = False
