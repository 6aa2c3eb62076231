"""Verify edits along the path of users' requests: ask about them, and judge the answers."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass

from drike.answers.statements import Stated
from drike.edits.record import EditVersion, StoreError
from drike.gateway.options import Mode
from drike.gateway.proving.chats import ChatAnswer, Client, EditCall
from drike.gateway.proving.questions import EditQuestion
from drike.models.served import estimated_tokens
from drike.stores.verifications import VerifiedQuestion

Message = Mapping[str, str]


@dataclass(frozen=True)
class EditVerdict:
    """An answer to a question, what it states, and what is wrong with it."""

    question: EditQuestion
    answer: str
    stated: Stated
    edits: tuple[str, ...]  # as "ID@VERSION", those that the path applied
    scope: str  # why none
    sent: str | None = None  # the messages as the model got them; None where a gateway wrote them
    unedited: str | None = None  # the answer without edits, if asked for
    tokens: int | None = None  # that editing added to the request, if known
    seconds: float = 0.0  # until the answer was there

    @property
    def matched(self) -> bool:
        """Whether the edit was applied."""
        return named(self.question.edit) in self.edits

    @property
    def problem(self) -> str:
        """What is wrong.

        "" if the edit took or, where it is not concerned, left the answer alone.
        """
        return self._untaken if self.question.kind.concerns else self._leak

    @property
    def _untaken(self) -> str:
        """Why the answer shows that the edit did not take; "" if it took."""
        record = self.question.edit.record
        if self.stated is Stated.NEW:
            return ""
        if not self.matched:
            reason = "" if self.scope == "abstained" else f" ({self.scope})"
            return f"the edit does not match{reason}"
        old = f" {record.target_true!r}" if record.target_true else ""
        problems = {
            Stated.OLD: f"states the old object{old}",
            Stated.BOTH: "states both objects",
            Stated.PARTLY: f"states {record.target_new!r} only partly",
            Stated.REFUSED: "refuses",
        }
        return problems.get(self.stated, f"does not state {record.target_new!r}")

    @property
    def _leak(self) -> str:
        """Why the edit changed an answer that it does not concern; "" if it did not."""
        record = self.question.edit.record
        if self.matched:
            return "the edit matches"
        if not self.stated.includes_new:
            return ""
        question = self.question.asked
        if self.unedited is not None and record.states(self.unedited, question).includes_new:
            return ""  # as the model says without edits
        return f"states {record.target_new!r}"

    @property
    def kept(self) -> VerifiedQuestion:
        """What a store keeps of it."""
        question = self.question
        return VerifiedQuestion(
            edit=question.edit.id,
            version=question.edit.version,
            kind=question.kind,
            question=question.text,
            stated=self.stated,
            matched=self.matched,
            holds=not self.problem,
        )


def by_concern(verdicts: Sequence[EditVerdict]) -> tuple[list[EditVerdict], list[EditVerdict]]:
    """Those on questions that concern their edit, and the others."""
    concerned = [verdict for verdict in verdicts if verdict.question.kind.concerns]
    others = [verdict for verdict in verdicts if not verdict.question.kind.concerns]
    return concerned, others


@dataclass(frozen=True)
class DeployedPath:
    """The way of a request, edited by `edit` or by the gateway that is asked.

    unedited: asks the model past it.
    """

    client: Client
    edit: EditCall | None
    unedited: Client | None

    async def verdict(self, question: EditQuestion, sample: int) -> EditVerdict:
        """Ask a question. Raises ModelError, StoreError."""
        messages = await self._messages(question, sample)
        answer, edited = await self.client.ask(messages, sample, self.edit)
        sent: str | None = None
        tokens: int | None = None
        if edited:
            edits = tuple(map(named, edited.edits))
            scope = edited.scope
            sent = _text_of(json.loads(edited.body)["messages"])
            tokens = estimated_tokens(sent[len(_text_of(messages)) :])
        else:
            edits, scope = _decided(answer, question.edit, self.client.upstream.name)

        unedited: str | None = None
        if self.unedited and question.first is None:
            without_edits, _ = await self.unedited.ask(messages)
            unedited = without_edits.text
            if answer.prompt_tokens and without_edits.prompt_tokens:
                tokens = answer.prompt_tokens - without_edits.prompt_tokens
        return EditVerdict(
            question,
            answer.text,
            question.edit.record.states(answer.text, question.asked),
            edits,
            scope,
            sent,
            unedited,
            tokens,
            answer.seconds,
        )

    async def _messages(self, question: EditQuestion, sample: int) -> list[Message]:
        """A question with the turns before it."""
        turn = {"role": "user", "content": question.text}
        if question.first is None:
            return [turn]
        first = {"role": "user", "content": question.first}
        answer, _ = await self.client.ask([first], sample, self.edit)
        return [first, {"role": "assistant", "content": answer.text}, turn]


def _text_of(messages: Sequence[Message]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


async def verify(
    path: DeployedPath, questions: Sequence[EditQuestion], *, samples: int = 1, at_once: int = 8
) -> AsyncGenerator[tuple[int, EditVerdict]]:
    """Yield the verdicts as they come, each with the place of its question.

    Raises ModelError, StoreError.
    """
    slots = asyncio.Semaphore(at_once)

    async def ask(place: int, sample: int) -> tuple[int, EditVerdict]:
        async with slots:
            return place, await path.verdict(questions[place], sample)

    tasks = [
        asyncio.create_task(ask(place, sample))
        for place in range(len(questions))
        for sample in range(samples)
    ]
    try:
        for verdict in asyncio.as_completed(tasks):
            yield await verdict
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def named(edit: EditVersion) -> str:
    """A version of an edit as the gateway's headers name it."""
    return f"{edit.id}@{edit.version}"


def _decided(answer: ChatAnswer, edit: EditVersion, name: str) -> tuple[tuple[str, ...], str]:
    """The edits that a gateway applied, and its scope.

    Raises StoreError where it proves nothing about an edit.
    """
    headers = answer.decided
    if "x-drike-scope" not in headers:
        raise StoreError(
            f"{name} is no gateway of drike's (it sends no x-drike-scope): "
            "give the address of one's API"
        )
    mode = headers.get("x-drike-mode")
    if mode != Mode.ON:
        raise StoreError(f"{name} applies no edits, as its mode is {mode}: start it with --mode on")
    edits = tuple(filter(None, headers.get("x-drike-edits", "").split(",")))
    for applied in edits:
        if applied.startswith(f"{edit.id}@") and applied != named(edit):
            raise StoreError(
                f"{name} applies edit {applied}, and here is {named(edit)}: "
                "give the gateway's own --store"
            )
    return edits, headers["x-drike-scope"]
