"""The options of all commands: `command` makes them of a function's parameters, with what options.toml says of each.

A parameter that is a frozen dataclass, such as `DataOptions`, stands for its fields; a Literal type names the choices.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

from drike.cli.console import SafeHelp
from drike.errors import UsageError
from drike.models import SERVICES, Template
from drike.research.datasets import PUBLISHED, Paraphrases, Target

_TABLES = tomllib.loads(Path(__file__).with_name("options.toml").read_text("utf-8"))
OPTIONS: Mapping[str, Any] = {
    name: {"metavar": "", "rich_help_panel": panel, **settings}
    for panel, options in _TABLES.items()
    for name, settings in options.items()
}
ARGUMENTS, *PANELS = _TABLES
FILE = "edits.db"  # the store of edits, unless --store names another

VALUES_OF_DATA = (
    f"DATA is tinyfacts (in the package), one of {', '.join(PUBLISHED)} (downloaded), or a file or address of a data "
    "set in its published form, or of own facts (CSV or JSON with prompt and target_new). Repeat it to join several."
)
VALUES_OF_MODEL = (
    "MODEL is embedded (a small model in the package), reader (an exact model of TinyFacts, for dry runs in seconds), "
    "a folder or hub name of a Hugging Face causal model, or SERVICE:MODEL, SERVICE:MODEL@URL for a model behind an "
    f"API. SERVICE is one of {', '.join(SERVICES)}."
)
VALUES = f"{VALUES_OF_DATA}\n\n{VALUES_OF_MODEL}"
RUN_DECIDES = "With --run, the run's values replace the defaults."


def _checked(choices: Sequence[str], minimum: float | None, maximum: float | None) -> Any:
    """A callback of typer that refuses a value out of range, or that is none of the choices. It raises UsageError."""
    limits = f"at least {minimum}" if maximum is None else f"between {minimum} and {maximum}"

    def check(value: Any, param: typer.CallbackParam) -> Any:
        if value is not None and choices and value not in choices:
            raise UsageError(f"{param.opts[0]} must be {' or '.join(choices)}, not {value}")
        if (
            value is not None
            and minimum is not None
            and not minimum <= value <= (maximum or float("inf"))
        ):  # or nan
            raise UsageError(f"{param.opts[0]} must be {limits}, not {value}")
        return value

    return check


def as_flags(sentence: str) -> str:
    """A sentence of an error, which names arguments of Python as `price_in`, with the options of the command line."""
    name_of = lambda match: f"--{match[1].replace('_', '-')}" if match[1] in OPTIONS else match[0]  # noqa: E731
    return re.sub(r"`([a-z_]+)`", name_of, sentence)


def page_name(out: Path) -> Path:
    """The file of a page. Raises UsageError unless its name ends in .html."""
    if out.suffix != ".html":
        raise UsageError(f"--out names the page: let {out} end in .html")
    return out


@dataclass(frozen=True)
class DataOptions:
    """Options of the data; None is the run's value, or the default."""

    data: list[str] | None = None
    pool: list[str] | None = None
    test: int | None = None
    seed: int | None = None
    editable: int | None = None
    subset: str | None = None
    zsre_target: Target | None = None
    paraphrases: Paraphrases | None = None


@dataclass(frozen=True)
class ModelOptions:
    """Options of the model and its prompts; None is the run's value, or the default."""

    model: str | None = None
    device: str | None = None
    prompt_tokens: int | None = None
    template: Template | None = None


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that is recorded in a folder."""

    replicas: int = 1
    out: Path | None = None
    resume: Path | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class GateOptions:
    """Options of the gate; None is the store's own, or the default."""

    gate: str | None = None
    gate_threshold: float | None = None
    relations: list[Path] | None = None


class Command(SafeHelp, TyperCommand):
    """A command whose help lists its own options only: --help would get a panel to itself, above all others."""

    def get_help_option(self, ctx: Any) -> Any:
        """--help, which works and is not listed."""
        if (help_option := super().get_help_option(ctx)) is not None:
            help_option.hidden = True
        return help_option


def command(
    epilog: str = "", kind: type[Command] = Command
) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command, with an option for each parameter. epilog: what its help ends with."""

    def made(function: Callable[..., None]) -> Command:
        own = signature(function, eval_str=True).parameters.values()
        groups: dict[str, Any] = {
            of.name: of.annotation for of in own if is_dataclass(of.annotation)
        }

        @wraps(function)
        def with_groups(**values: Any) -> None:
            for name, group in groups.items():
                values[name] = group(
                    **{field.name: values.pop(field.name) for field in fields(group)}
                )
            function(**values)

        by_key: dict[str, Parameter] = {}
        for parameter in own:
            of_group = groups.get(parameter.name)
            for of in (
                signature(of_group, eval_str=True).parameters.values() if of_group else [parameter]
            ):
                special = f"{function.__name__.strip('_')} {of.name}"
                by_key[special if special in OPTIONS else of.name] = of
        options = [_option(by_key[key], OPTIONS[key]) for key in OPTIONS if key in by_key]
        with_groups.__signature__ = Signature(options)  # type: ignore[attr-defined]
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(cls=kind, epilog=epilog)(with_groups)
        return typer.main.get_command(app)  # type: ignore[return-value]

    return made


def _option(parameter: Parameter, settings: Mapping[str, Any]) -> Parameter:
    """A parameter that typer reads as an option, or as an argument, which help does not list."""
    kind, default, shown = parameter.annotation, parameter.default, dict(settings)
    choices, limits = shown.pop("choices", ()), (shown.pop("min", None), shown.pop("max", None))
    if (
        literal := next(
            (part for part in (kind, *get_args(kind)) if get_origin(part) is Literal), None
        )
    ) is not None:
        choices, kind = get_args(literal), str if kind is literal else str | None
    if (
        default not in (None, Parameter.empty)
        and not isinstance(default, bool)
        and "default" not in shown["help"]
    ):
        shown["help"] += f" (default: {default})"
    if shown["rich_help_panel"] == ARGUMENTS:
        del shown["rich_help_panel"]
        info = typer.Argument(**shown, min=limits[0], max=limits[1], hidden=True)
    else:
        names = shown.pop("names", [f"--{parameter.name.strip('_').replace('_', '-')}"])
        info = typer.Option(
            *names, **shown, callback=_checked(choices, *limits), show_default=False
        )
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])
