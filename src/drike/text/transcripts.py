"""Conversations that stand in one text: transcripts, and what hands a user on to another agent."""

from __future__ import annotations

import re

from drike.text.sentences import Span

_LONGEST = 40_000  # characters of a text that is read so
_USERS = "|".join(
    (
        "user|human|customer|client|caller|guest|visitor|passenger|patient|citizen|resident|member",
        "student|applicant|employee|buyer|shopper|traveller|subscriber|tenant|end[- ]user",
        "kund(?:e|in)|nutzer(?:in)?|gast|anrufer(?:in)?|patient(?:in)?|mitarbeiter(?:in)?",
        "usuari[oa]|clienta?|cliente|huésped|paciente|utilisat(?:eur|rice)|client|patiente?",
        "用户|用戶|客户|客戶|顾客|访客",
    )
)
_OTHERS = "|".join(
    (
        "assistant|agent|bot|chatbot|ai|system|tool|support|operator|advisor|representative|model",
        r"function(?:_call(?:_output)?)?|reasoning|handoff|human agent|assistent(?:in)?|agente",
        "asistente|conseill(?:er|ère)|助手|客服|系统",
    )
)
_TURN = re.compile(
    r"^[ \t]*(?:[\[(]?\d{1,2}:\d\d(?::\d\d)?(?:[ ]?[ap]m)?[\])]?[ \t]*[-–]?[ \t]*)?"
    rf"(?:\d+[.)][ \t]*|[-*•][ \t]*|#+[ \t]*)?[*_\[<]*(?:(?P<user>{_USERS})|{_OTHERS})[\]*_>]*"
    r"[ \t]*(?:\([^()\n]{0,60}\))?[ \t]*[:：][*_]*[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
# Marks that end a transcript, and blank lines behind it.
_CLOSING = re.compile(r"^[ \t]*(?:</|-{3,}|={3,}|\[/|```)|\n[ \t]*\n", re.MULTILINE)

# What an agent says that hands a user on to another one.
_HANDS_ON = re.compile(
    r"\b(?:hand(?:ed|ing)?[ -]?(?:off|over)|conversation (?:so far|history|summary)|chat history"
    r"|transcript|previous (?:agent|assistant)|transferr?(?:ed|ing)? (?:from|to|the)"
    r"|bisheriger? (?:verlauf|unterhaltung|gespräch)|übergabe|gesprächsverlauf"
    r"|historial de la conversación|traspaso|historique de la conversation)\b"
    r"|<conversation|对话记录|对话历史|转接",
    re.IGNORECASE,
)
_FIRST_CHARACTERS = 400  # in which such a text says what it is
_REPORTED = re.compile(
    rf"\b(?:{_USERS})\b[^.\n\"“„«]{{0,80}}?[\"“„«]\s*(?P<said>[^\"“”„«»]{{3,2000}})[\"”“»]",
    re.IGNORECASE,
)


def hands_on(text: str) -> bool:
    """Whether an agent's text hands on what a user said, to be answered by the next agent."""
    if _HANDS_ON.search(text, 0, _FIRST_CHARACTERS) is None:
        return False
    return bool(last_said_by_user(text))


def last_said_by_user(text: str) -> list[Span]:
    """Where a text has what a user said last in a transcript, or in what another reports.

    That may be several turns in a row.
    """
    if len(text) > _LONGEST:
        return []
    turns = list(_TURN.finditer(text))
    has_both = any(turn["user"] for turn in turns) and any(not turn["user"] for turn in turns)
    is_history = _HANDS_ON.search(text, 0, _FIRST_CHARACTERS) is not None
    if has_both or (turns and is_history):
        return _last_of_user(text, turns)
    if not is_history:
        return []
    reported = list(_REPORTED.finditer(text))
    return [match.span("said") for match in reported[-1:]]


def _last_of_user(text: str, turns: list[re.Match[str]]) -> list[Span]:
    """The last turns of the user in a row, without their labels."""
    ends = [turn.start() for turn in turns[1:]] + [len(text)]
    said: list[Span] = []
    for turn, end in reversed(list(zip(turns, ends, strict=True))):
        if turn["user"]:
            closing = _CLOSING.search(text, turn.end() + 1, end)
            said.append((turn.end(), closing.start() if closing else end))
        elif said:
            break
    return said[::-1]
