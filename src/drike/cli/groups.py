"""Groups of commands whose modules are imported when one of their commands runs, not for help."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup

from drike.cli.console import SafeHelp


class LazyCommand(TyperCommand):
    """What help lists of a command, and says first in the command's own help.

    location: "MODULE:NAME" of the command itself.
    """

    def __init__(
        self,
        name: str,
        location: str,
        summary: str,
        *,
        panel: str | None = None,
        hidden: bool = False,
    ) -> None:
        # In help, what stands in brackets is a mark of style, unless they are escaped.
        help_text = summary.replace("[", r"\[")
        super().__init__(name, help=help_text, rich_help_panel=panel, hidden=hidden)
        self.location = location

    def load(self) -> TyperCommand:
        """The command itself."""
        module, _, name = self.location.partition(":")
        command: TyperCommand = getattr(import_module(module), name)
        command.help = self.help
        return command


class CommandGroup(SafeHelp, TyperGroup):
    """A group of commands, each of which is loaded when it is to run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that arguments name, and the arguments behind its name."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, LazyCommand):
            command = command.load()
        return name, command, rest


def group(name: str, summary: str, commands: Sequence[LazyCommand], *, panel: str) -> CommandGroup:
    """A group of commands below the main one, as `drike edits`."""
    return CommandGroup(
        name=name, help=summary, rich_help_panel=panel, no_args_is_help=True, commands=commands
    )
