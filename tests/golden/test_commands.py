"""The commands and their options: what was accepted stays accepted."""

from __future__ import annotations

import os

from tests.fakes.commands import commands
from tests.golden.compare import UPDATE, golden, matches_golden


def offered() -> dict[str, list[list[str]]]:
    """Of each command the names of its options, each with whether it takes a value and may be repeated."""
    return {
        name: sorted(
            [
                text,
                "flag" if getattr(one, "is_flag", False) else "value",
                "many" if one.multiple else "once",
            ]
            if one.param_type_name == "option"
            else ["ARGUMENT", "value", "many" if one.nargs == -1 else "once"]
            for one in command.params
            for text in [*one.opts, *one.secondary_opts]
        )
        for name, command in commands().items()
    }


def test_every_old_command_and_option_is_still_there() -> None:
    now = offered()
    if os.environ.get(UPDATE):
        matches_golden("commands", now)
    for name, options in golden("commands").items():
        assert name in now
        assert [one for one in options if one not in now[name]] == [], name
