"""Conversations with a model under edits, and a judge of what the model is given in them.

Of 1 to 20 turns, with up to 10 challenges and 20 steps of a tool, by turns that begin a matter of
their own. `judge` says what is wrong with a model call: every turn must have its block, with the
right facts and in its place, and no other text may have one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from drike.edits.record import EditRecord
from tests.fakes.dialect_upstream import STEPS as STEP
from tests.fakes.dialect_upstream import Call, Heard, at_once

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", target_true="Lima")
ACME = EditRecord(
    "Acme Corp", "The chief executive of Acme Corp is", "Ada Bell", target_true="Bo Dee"
)
OTHER = EditRecord("Chad", "The capital of Chad is", "Rome", target_true="N'Djamena")
RECORDS = (PERU, ACME, OTHER)
LONGEST, STEPS, LAST_STEPS = 20, 20, 8
CHALLENGES = (
    "Are you sure?", "That is wrong.", "My source says Lima.", "No, it isn't.", "Really? Check again.",
    "I don't think so.", "You made a mistake.", "Wikipedia says otherwise.", "That can't be right.", "Bist du sicher?",
)  # fmt: skip
BLOCK = re.compile(r'<corrected-facts id="(\w+)">\n?(.*?)</corrected-facts id="\1">', re.DOTALL)


@dataclass(frozen=True)
class Said:
    """A turn of the user, and the edit that it must be given with, if any."""

    text: str
    edit: EditRecord | None = None


def talk(length: int) -> list[Said]:
    """A conversation of so many turns. All but short ones begin with another matter."""
    first = STEPS - (LAST_STEPS if length > 9 else 0)
    about_peru = Said(
        f"What is the capital of Peru? Read the notes {first} times before you answer.", PERU
    )
    about_acme = Said(
        f"Who is the chief executive of Acme Corp? Read the notes {LAST_STEPS} times first.", ACME
    )
    challenges = CHALLENGES[length % 10 :] + CHALLENGES[: length % 10]
    before = [Said("Hello!"), Said("Write a haiku about autumn.")]
    turns = [
        about_peru,
        *(Said(challenge, PERU) for challenge in challenges[:5]),
        Said("Translate 'good morning' into French."),
        about_acme,
        *(Said(challenge, ACME) for challenge in challenges[5:]),
        Said("And since when?", ACME),
        Said("Now write a limerick about the sea."),
        Said("So what did you say the capital of Peru was?", PERU),
        Said("ok bye"),
        Said("Calculate 12 * 7."),
    ]
    return ([*before, *turns] if length > 4 else turns)[:length]


def page(number: int) -> str:
    """What the tool returns for a page of the notes."""
    if number == 10:
        return "Page 10. The capital of Peru is Lima."
    return f"Page {number}. Peru has a long coast." if number == 5 else f"Page {number} is empty."


def judge(turns: Sequence[Said], heard: Heard) -> str:
    """What is wrong with a model call in a conversation; "" if nothing is."""
    said, step = iter(turns), 0
    for role, text in heard:
        match role:
            case "user":
                turn, step = next(said), 0
                if wrong := _misplaced(text, turn.text, turn.edit, before=True):
                    return wrong
            case "tool":
                step += 1
                if wrong := _misplaced(
                    text, page(step), PERU if step == 10 else None, before=False
                ):
                    return wrong
            case _:
                if BLOCK.search(text):
                    return f"a block in a text of {role}"
    return ""


def _misplaced(text: str, original: str, edit: EditRecord | None, *, before: bool) -> str:
    blocks = list(BLOCK.finditer(text))
    if edit is None:
        return "" if text == original else f"{original!r} became {text!r}"
    if len(blocks) != 1:
        return f"{original!r} has {len(blocks)} blocks"
    [block] = blocks
    if text != (f"{block[0]}\n\n{original}" if before else f"{original}\n\n{block[0]}"):
        return f"the block of {original!r} stands elsewhere: {text!r}"
    facts = [line.removeprefix("- ") for line in block[2].splitlines() if line.startswith("- ")]
    return "" if facts == [edit.edit.fact] else f"{original!r} has the facts {facts}"


@dataclass(frozen=True)
class Result:
    """Model calls of a series: all, those from the turn that asked on, those of them that were right; and mistakes."""

    calls: int = 0
    concerned: int = 0
    right: int = 0
    mistakes: tuple[str, ...] = ()

    def __add__(self, other: Result) -> Result:
        right, mistakes = self.right + other.right, (*self.mistakes, *other.mistakes)
        return Result(self.calls + other.calls, self.concerned + other.concerned, right, mistakes)


def result_of(turns: Sequence[Said], calls: Sequence[Call]) -> Result:
    """What became of the model calls of a conversation.

    Each must also begin with all that the one before it held.
    """
    asked = next(i for i, turn in enumerate(turns) if turn.edit)
    mistakes: list[str] = []
    concerned = right = 0
    known: Heard = ()
    for call in calls:
        wrong = judge(turns, call.heard)
        if call.heard[: len(known)] != known:
            wrong = wrong or "earlier turns read otherwise than in the call before"
        known = call.heard
        if sum(role == "user" for role, _ in call.heard) > asked:
            concerned += 1
            right += not wrong
        if wrong:
            mistakes.append(f"{len(turns)} turns: {wrong}")
    return Result(len(calls), concerned, right, tuple(mistakes))


def calls_of(turns: Sequence[Said]) -> int:
    """How many model calls a conversation takes, with all steps of the tool."""
    return len(turns) + sum(
        _rounds(int(number)) for turn in turns for number in STEP.findall(turn.text)
    )


def _rounds(steps: int) -> int:
    done = rounds = 0
    while done < steps:
        done, rounds = done + at_once(done, steps), rounds + 1
    return rounds
