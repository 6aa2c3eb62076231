"""What answers say about themselves, beside their texts: ids, models, tokens, why they end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_NAMES_OF_INPUT = ("input_tokens", "prompt_tokens")
_NAMES_OF_OUTPUT = ("output_tokens", "completion_tokens")
_LONGEST = 200  # characters of an id, a model's name or a reason


@dataclass
class AnswerDetails:
    """Gathered from an answer, or from the events of one."""

    id: str | None = None
    model: str | None = None
    finish_reasons: list[str] = field(default_factory=list)
    input_tokens: int | None = None
    output_tokens: int | None = None

    def take(self, values: object) -> None:
        """Look at an answer, or at an event of one."""
        if not isinstance(values, Mapping):
            return
        for name in ("response", "message"):  # in events of responses and messages
            self._take_object(values.get(name))
        self._take_object(values)

    def _take_object(self, values: object) -> None:
        if not isinstance(values, Mapping):
            return
        self.id = self.id or _short_text(values.get("id"))
        self.model = self.model or _short_text(values.get("model"))
        self._take_reasons(values)
        usage = values.get("usage")
        if isinstance(usage, Mapping):
            self.input_tokens = _number(usage, _NAMES_OF_INPUT, self.input_tokens)
            self.output_tokens = _number(usage, _NAMES_OF_OUTPUT, self.output_tokens)

    def _take_reasons(self, values: Mapping[str, Any]) -> None:
        choices = values.get("choices")
        delta = values.get("delta")
        reasons = [values.get("stop_reason")]
        if isinstance(choices, list):
            reasons += [
                choice.get("finish_reason") for choice in choices if isinstance(choice, Mapping)
            ]
        if isinstance(delta, Mapping):
            reasons.append(delta.get("stop_reason"))
        self.finish_reasons += [reason for reason in map(_short_text, reasons) if reason]


def _short_text(value: object) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= _LONGEST else None


def _number(usage: Mapping[str, Any], names: tuple[str, ...], otherwise: int | None) -> int | None:
    for name in names:
        number = usage.get(name)
        if isinstance(number, int) and not isinstance(number, bool):
            return number
    return otherwise
