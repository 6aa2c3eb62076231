"""How commands are made of functions, whose parameters carry the names and the help of options.

    @command()
    def due(
        *, within: Annotated[str, option("--within", "90d", DATA, "Also ...")] = "0d", store: Store
    ) -> None: ...

A parameter that is a frozen dataclass, such as `DataOptions`, stands for its fields.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand

from drike.cli.console import SafeHelp
from drike.errors import UsageError

# The panels of help, in their order.
DATA, MODEL, METHOD, OUTPUT = "Data", "Model", "Method", "Output"
API, STUDIES = "API and cost", "Paper's switches and studies"
PANELS = (DATA, MODEL, METHOD, OUTPUT, API, STUDIES)

# Arguments of Python that the library's errors name, and whose options have the same names here.
ARGUMENTS = frozenset({
    "allow_http", "calibrate_on", "concurrency", "data", "deadline", "editable", "max_calls",
    "max_cost", "objective", "pool", "price_in", "price_out", "prompt_tokens", "reasoning_effort",
    "replicas", "retention", "run", "template", "test", "text_only", "thinking_tokens",
})  # fmt: skip
ARGUMENT = re.compile(r"`([a-z_]+)`")


def option(
    name: str,
    metavar: str,
    panel: str,
    help: str,
    *,
    also: str | None = None,
    min: float | None = None,
    max: float | None = None,
    choices: Sequence[str] = (),
    hidden: bool = False,
) -> Any:
    """An option that takes a value. also: another name for it. min, max, choices: what it accepts.

    Where the parameter's type is a Literal, its words are given as `choices`: they are checked
    here, so that a wrong one is refused in a sentence of ours.
    """
    names = [name] if also is None else [name, also]
    return typer.Option(
        *names,
        metavar=metavar,
        help=help,
        rich_help_panel=panel,
        hidden=hidden,
        show_default=False,
        parser=str if choices else None,
        callback=_check_of(choices, min, max),
    )


def flag(name: str, panel: str, help: str) -> Any:
    """An option that takes no value. name: "--x", or "--x/--no-x" for one that is on by default."""
    return typer.Option(name, metavar="", help=help, rich_help_panel=panel, show_default=False)


def argument(metavar: str, help: str, *, min: float | None = None, max: float | None = None) -> Any:
    """An argument, which the usage line shows and no panel of help lists."""
    return typer.Argument(metavar=metavar, help=help, min=min, max=max, hidden=True)


def _check_of(choices: Sequence[str], minimum: float | None, maximum: float | None) -> Any:
    """A callback of typer that raises UsageError for what is out of range or no choice."""

    def check(value: Any, param: typer.CallbackParam) -> Any:
        if value is None:
            return value
        name = param.opts[0]
        if choices and value not in choices:
            raise UsageError(f"{name} must be {' or '.join(choices)}, not {value}")
        if minimum is not None and maximum is None and not value >= minimum:
            raise UsageError(f"{name} must be at least {minimum}, not {value}")
        if minimum is not None and maximum is not None and not minimum <= value <= maximum:
            raise UsageError(f"{name} must be between {minimum} and {maximum}, not {value}")
        return value

    return check


def as_flags(sentence: str) -> str:
    """A sentence of an error, which names arguments of Python as `price_in`, with their options."""

    def flag_of(match: re.Match[str]) -> str:
        name = match[1]
        return f"--{name.replace('_', '-')}" if name in ARGUMENTS else match[0]

    return ARGUMENT.sub(flag_of, sentence)


def page_name(out: Path) -> Path:
    """The file of a page. Raises UsageError unless its name ends in .html."""
    if out.suffix != ".html":
        raise UsageError(f"--out names the page: let {out} end in .html")
    return out


class Command(SafeHelp, TyperCommand):
    """A command whose help lists its options by panel, with their defaults, and not --help.

    --help would get a panel to itself, above all others.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.sort(key=_place_in_help)
        for param in self.params:
            _say_default(param)

    def get_help_option(self, ctx: Any) -> Any:
        """--help, which works and is not listed."""
        help_option = super().get_help_option(ctx)
        if help_option is not None:
            help_option.hidden = True
        return help_option


def _place_in_help(param: Any) -> int:
    """Arguments first, then the panels in their order."""
    return -1 if isinstance(param, TyperArgument) else PANELS.index(param.rich_help_panel)


def _say_default(param: Any) -> None:
    """Let an option's help say its default, unless it says something about it."""
    says_nothing = param.default in (None, "", ()) or isinstance(param.default, bool)
    if not says_nothing and "default" not in param.help:
        param.help += f" (default: {param.default})"


def command(
    epilog: str = "", kind: type[Command] = Command
) -> Callable[[Callable[..., None]], Command]:
    """Make a function a command of its annotated parameters. epilog: what its help ends with."""

    def command_of(function: Callable[..., None]) -> Command:
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(cls=kind, epilog=epilog)(_with_fields_as_parameters(function))
        return typer.main.get_command(app)  # type: ignore[return-value]

    return command_of


def _with_fields_as_parameters(function: Callable[..., None]) -> Callable[..., None]:
    """The same function, which takes the fields of its parameters that are dataclasses instead."""
    parameters = signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in parameters.items()
        if is_dataclass(parameter.annotation)
    }

    @wraps(function)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            of_group = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**of_group)
        function(**values)

    flat: list[Parameter] = []
    for name, parameter in parameters.items():
        flat += _parameters_of(groups[name]) if name in groups else [parameter]
    named = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in flat]
    call.__signature__ = Signature(named)  # type: ignore[attr-defined]
    return call


def _parameters_of(group: type) -> list[Parameter]:
    """The fields of a dataclass, as parameters, in the order in which it annotates them."""
    parameters = signature(group, eval_str=True).parameters
    return [parameters[name] for name in group.__annotations__]
