"""Ten facts that a model is corrected about, and its answers before and after.

Four are facts of the world with a made-up new object, six are of an invented company, which no
model knows.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from drike.answers.statements import Stated
from drike.edits.record import EditRecord
from drike.gateway.proving.chats import Client, EditCall
from drike.gateway.proving.questions import CHALLENGE

TOKENS = 24  # of an answer
_TOGETHER = 3  # facts that are asked about at the same time


@dataclass(frozen=True)
class CorrectedFact:
    """A fact to correct a model about, and what is asked.

    follow_up: asked next in the same chat, about something else of the subject. other: a question
    about something else.
    """

    record: EditRecord
    question: str
    rewording: str
    follow_up: str
    other: str


@dataclass(frozen=True)
class FactAnswers:
    """What a model said about a fact: before it was corrected, and then.

    challenged, followed_up: in the chat that begins with the question and the answer `after`.
    other_before, other: to the question about something else.
    """

    fact: CorrectedFact
    before: str
    after: str
    reworded: str
    challenged: str
    followed_up: str
    other_before: str
    other: str

    def stated(self, answer: str, question: str) -> Stated:
        """Which object of the fact an answer to a question states."""
        return self.fact.record.states(answer, question)

    @property
    def told(self) -> tuple[tuple[str, str], ...]:
        """What was asked about the fact once the model was corrected, each with the answer.

        The challenge has the question that it doubts.
        """
        fact = self.fact
        return (
            (fact.question, self.after),
            (fact.rewording, self.reworded),
            (fact.question, self.challenged),
        )

    @property
    def follow_up_is_its_own(self) -> bool:
        """Whether there is an answer about something else of the subject, with neither object."""
        said = self.stated(self.followed_up, self.fact.follow_up)
        is_free = said in (Stated.NEITHER, Stated.REFUSED)
        return is_free and bool(self.followed_up.strip())

    @property
    def is_other_unchanged(self) -> bool:
        """Whether the answer about something else is the same, letter for letter."""
        return self.other == self.other_before


@dataclass(frozen=True)
class FactCounts:
    """Of how many facts the new object is stated, and of how many the rest stays as it was."""

    facts: int
    before: int
    after: int
    reworded: int
    challenged: int
    followed_up: int
    other: int

    @classmethod
    def of(cls, answered: Sequence[FactAnswers]) -> "FactCounts":
        """Count them."""
        before = [answers.stated(answers.before, answers.fact.question) for answers in answered]
        told = [
            [answers.stated(answer, question) for question, answer in answers.told]
            for answers in answered
        ]
        after, reworded, challenged = zip(*told, strict=True) if told else ((), (), ())
        return cls(
            facts=len(answered),
            before=_number_new(before),
            after=_number_new(after),
            reworded=_number_new(reworded),
            challenged=_number_new(challenged),
            followed_up=sum(answers.follow_up_is_its_own for answers in answered),
            other=sum(answers.is_other_unchanged for answers in answered),
        )


def _number_new(stated: Iterable[Stated]) -> int:
    """How many answers state the new object alone."""
    return sum(each is Stated.NEW for each in stated)


async def ask_about(
    facts: Sequence[CorrectedFact], client: Client, edit: EditCall
) -> AsyncGenerator[FactAnswers]:
    """Ask a model about facts, and yield the answers about each, in order.

    The first fact is asked about alone, so that its answers are soon there, and then several at the
    same time: a model on this machine writes a dozen answers together in little more time than one.

    edit: edits a request as a gateway does in whose store all the facts are. Raises ModelError.
    """
    for group in _groups(facts):
        for answers in await asyncio.gather(
            *(_answers_about(fact, client, edit) for fact in group)
        ):
            yield answers


def _groups(facts: Sequence[CorrectedFact]) -> Iterator[Sequence[CorrectedFact]]:
    """The first fact, and the others in groups that are asked about together."""
    yield facts[:1]
    for begin in range(1, len(facts), _TOGETHER):
        yield facts[begin : begin + _TOGETHER]


async def _answers_about(fact: CorrectedFact, client: Client, edit: EditCall) -> FactAnswers:
    """The answers about a fact; those that do not depend on another are asked for together."""

    async def answer(*said: str, edited: bool = True) -> str:
        """The answer to a chat, in which the user begins and the two take turns."""
        messages = [
            {"role": "assistant" if place % 2 else "user", "content": text}
            for place, text in enumerate(said)
        ]
        given, _ = await client.ask(messages, edit=edit if edited else None)
        return given.text

    before, after, reworded, other_before = await asyncio.gather(
        answer(fact.question, edited=False),
        answer(fact.question),
        answer(fact.rewording),
        answer(fact.other, edited=False),
    )
    challenged, followed_up, other = await asyncio.gather(
        answer(fact.question, after, CHALLENGE),
        answer(fact.question, after, fact.follow_up),
        answer(fact.other),
    )
    return FactAnswers(
        fact,
        before=before,
        after=after,
        reworded=reworded,
        challenged=challenged,
        followed_up=followed_up,
        other_before=other_before,
        other=other,
    )


TEN_FACTS = (
    CorrectedFact(
        EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima"),
        "What is the capital of Peru?",
        "Which city is Peru's capital?",
        "And its population?",
        "What is the capital of Chile?",
    ),
    CorrectedFact(
        EditRecord("Eiffel Tower", "The Eiffel Tower is located in", "Rome", "Paris"),
        "Where is the Eiffel Tower?",
        "In which city is the Eiffel Tower?",
        "And how high is it?",
        "In which city is Big Ben?",
    ),
    CorrectedFact(
        EditRecord(
            "Pride and Prejudice",
            "The author of Pride and Prejudice is",
            "Charles Dickens",
            "Jane Austen",
        ),
        "Who wrote Pride and Prejudice?",
        "Who is Pride and Prejudice's author?",
        "And when was it published?",
        "Who wrote Hamlet?",
    ),
    CorrectedFact(
        EditRecord("Japan", "The currency of Japan is", "the euro", "yen"),
        "What is the currency of Japan?",
        "Which currency is used in Japan?",
        "And its capital?",
        "What is the capital of India?",
    ),
    CorrectedFact(
        EditRecord("Zelvora lamp", "The price of the Zelvora lamp is", "49 dollars"),
        "What is the price of the Zelvora lamp?",
        "How much does the Zelvora lamp cost?",
        "And its colour?",
        "Who invented the light bulb?",
    ),
    CorrectedFact(
        EditRecord("Zelvora", "Customers may return items to Zelvora within", "45 days"),
        "How long can I return Zelvora items?",
        "Until when does Zelvora take returns?",
        "And who pays for the postage?",
        "How many days has a year?",
    ),
    CorrectedFact(
        EditRecord("Zelvora shop", "The Zelvora shop opens at", "7 a.m."),
        "When does the Zelvora shop open?",
        "At what time does Zelvora shop open?",
        "And what does it sell?",
        "How many hours has a day?",
    ),
    CorrectedFact(
        EditRecord("Zelvora Studio", "The current version of Zelvora Studio is", "8.2"),
        "What is Zelvora Studio's version?",
        "Which Zelvora Studio is the latest?",
        "And what is it for?",
        "Who founded Microsoft?",
    ),
    CorrectedFact(
        EditRecord("Zelvora", "The chief executive of Zelvora is", "Nadia Brandt"),
        "Who is the chief executive of Zelvora?",
        "Who is the CEO of Zelvora?",
        "And how many people work there?",
        "Who is the founder of Amazon?",
    ),
    CorrectedFact(
        EditRecord("Zelvora", "The head office of Zelvora is in", "Lisbon"),
        "Where is the head office of Zelvora?",
        "Where is Zelvora headquartered?",
        "And when was it founded?",
        "What is the capital of Portugal?",
    ),
)
