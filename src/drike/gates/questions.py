"""Common questions that users ask, which concern no edit."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def common_questions() -> tuple[str, ...]:
    """Questions and requests such as assistants get, in our own words."""
    return tuple(resources.files("drike.gates").joinpath("questions.txt").read_text("utf-8").splitlines())
