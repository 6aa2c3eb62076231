"""Verify edits along the path of users' requests: what is asked about an edit, and what is wrong with an answer."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from drike.answers.matching import normalise
from drike.answers.statements import Stated
from drike.edits.record import EditRecord, EditVersion, Status, StoreError
from drike.gates.index import EditIndex
from drike.gates.parsed_query import ParsedQuery
from drike.gateway.options import Mode
from drike.gateway.proving.chats import ChatAnswer, Client, EditCall
from drike.models.served import estimated_tokens
from drike.stores.verifications import QuestionKind, VerifiedQuestion
from drike.text.short_forms import NameMatch, short_forms
from drike.text.words import Words
from drike.tinyfacts import TEMPLATES, facts

CHALLENGE, FOLLOW_UP = "Are you sure?", "What is it again, in one word?"
_MOST_SHORT, _MOST_SIBLINGS, _MOST_NEAR = 2, 3, 2  # questions of an edit


@dataclass(frozen=True)
class EditQuestion:
    """What is asked about an edit. first: the question before it, where it is a second turn."""

    edit: EditVersion
    kind: QuestionKind
    text: str
    first: str | None = None


@dataclass(frozen=True)
class EditOutcome:
    """An answer to a question."""

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
        """What is wrong; "" if the edit took or, where it is not concerned, left the answer alone."""
        record, new = self.question.edit.record, (Stated.NEW, Stated.BOTH)
        if not self.question.kind.concerns:
            if self.matched:
                return "the edit matches"
            without = self.unedited is not None and record.states(self.unedited) in new
            return f"states {record.target_new!r}" if self.stated in new and not without else ""
        if self.stated is Stated.NEW:
            return ""
        if not self.matched:
            return "the edit does not match" + (
                f" ({self.scope})" if self.scope != "abstained" else ""
            )
        old = "states the old object" + (f" {record.target_true!r}" if record.target_true else "")
        said = {Stated.OLD: old, Stated.BOTH: "states both objects", Stated.REFUSED: "refuses"}
        return said.get(self.stated, f"does not state {record.target_new!r}")

    @property
    def kept(self) -> VerifiedQuestion:
        """What a store keeps of it."""
        edit, kind, text = self.question.edit, self.question.kind, self.question.text
        return VerifiedQuestion(
            edit.id, edit.version, kind, text, self.stated, self.matched, not self.problem
        )


@dataclass(frozen=True)
class DeployedPath:
    """The way of a request, edited by `edit` or by the gateway that is asked. unedited: asks the model past it."""

    client: Client
    edit: EditCall | None
    unedited: Client | None

    async def outcome(self, question: EditQuestion, sample: int) -> EditOutcome:
        """Ask a question. Raises ModelError, StoreError."""
        messages = [{"role": "user", "content": question.text}]
        if question.first is not None:
            before = {"role": "user", "content": question.first}
            earlier, _ = await self.client.ask([before], sample, self.edit)
            messages[:0] = [before, {"role": "assistant", "content": earlier.text}]
        answer, edited = await self.client.ask(messages, sample, self.edit)
        sent = tokens = unedited = None
        if edited:
            edits, scope = tuple(map(named, edited.edits)), edited.scope
            sent = "\n".join(
                str(message["content"]) for message in json.loads(edited.body)["messages"]
            )
            tokens = estimated_tokens(
                sent[len("\n".join(message["content"] for message in messages)) :]
            )
        else:
            edits, scope = _decided(answer, question.edit, self.client.upstream.name)
        if self.unedited and question.first is None:
            bare, _ = await self.unedited.ask(messages)
            unedited = bare.text
            if answer.prompt_tokens and bare.prompt_tokens:
                tokens = answer.prompt_tokens - bare.prompt_tokens
        said = question.edit.record.states(answer.text)
        return EditOutcome(
            question, answer.text, said, edits, scope, sent, unedited, tokens, answer.seconds
        )


def by_concern(outcomes: Sequence[EditOutcome]) -> tuple[list[EditOutcome], list[EditOutcome]]:
    """Those on questions that concern their edit, and the others."""
    concerned = [outcome for outcome in outcomes if outcome.question.kind.concerns]
    return concerned, [outcome for outcome in outcomes if not outcome.question.kind.concerns]


async def verify(
    path: DeployedPath, questions: Sequence[EditQuestion], *, samples: int = 1, at_once: int = 8
) -> AsyncGenerator[tuple[int, EditOutcome]]:
    """Yield the outcomes as they come, each with the place of its question. Raises ModelError, StoreError."""
    slots = asyncio.Semaphore(at_once)

    async def ask(place: int, sample: int) -> tuple[int, EditOutcome]:
        async with slots:
            return place, await path.outcome(questions[place], sample)

    asked = [
        asyncio.create_task(ask(place, sample))
        for place in range(len(questions))
        for sample in range(samples)
    ]
    try:
        for outcome in asyncio.as_completed(asked):
            yield await outcome
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)


def questions_about(
    edits: Sequence[EditVersion], index: EditIndex, *, follow_up: bool = True
) -> Iterator[EditQuestion]:
    """The questions about edits in force, without repeats. index: of all edits. follow_up: for models that hold a chat.

    Of siblings, edits of the same subject, that are not among these, the query is asked for their own answer, too.
    """
    active = {id: edit for id, edit in index.edits.items() if edit.record.status is Status.ACTIVE}
    of_name = defaultdict(set)
    for edit in active.values():
        for name in edit.record.names:
            of_name[normalise(name)].add(edit.id)
    vectors = iter(index.embed([edit.record.query for edit in edits]) if index.encoder else ())
    others: dict[int, EditVersion] = {}
    for edit in edits:
        ids = set[int]().union(*(of_name[normalise(name)] for name in edit.record.names)) - {
            edit.id
        }
        nearest = index.nearest(next(vectors)) if index.encoder else ()
        siblings = [active[id] for id in sorted(ids)[:_MOST_SIBLINGS]]
        near = [active[id] for id in nearest if id in active and id not in ids and id != edit.id]
        others |= {sibling.id: sibling for sibling in siblings}
        kinds: dict[str, QuestionKind] = {}
        for kind, texts in _texts(edit, index, siblings, near[:_MOST_NEAR], follow_up).items():
            for text in texts:
                kinds.setdefault(text, kind)
        for text, kind in kinds.items():
            yield EditQuestion(
                edit, kind, text, edit.record.query if text in (CHALLENGE, FOLLOW_UP) else None
            )
    asked = {edit.id for edit in edits}
    yield from (
        EditQuestion(o, QuestionKind.QUERY, o.record.query)
        for o in others.values()
        if o.id not in asked
    )


def _texts(
    edit: EditVersion,
    index: EditIndex,
    siblings: Iterable[EditVersion],
    near: Iterable[EditVersion],
    follow_up: bool,
) -> Mapping[QuestionKind, Sequence[str]]:
    """What is asked about an edit. Of others, only what has another answer, which else would seem a leak."""
    record, new = edit.record, _new_objects(edit)
    of_siblings = [other.record.query for other in siblings if new.isdisjoint(_new_objects(other))]
    of_near = [other.record.query for other in near if new.isdisjoint(_new_objects(other))]
    return {
        QuestionKind.QUERY: [record.query], QuestionKind.WORDING: record.paraphrases,
        QuestionKind.ALIAS: [record.query_with(alias) for alias in record.aliases],
        QuestionKind.SHORT: _shortened(edit, index)[:_MOST_SHORT], QuestionKind.CHALLENGE: [CHALLENGE],
        QuestionKind.FOLLOW_UP: [FOLLOW_UP] if follow_up else [], QuestionKind.NEGATIVE: record.negatives,
        QuestionKind.SIBLING: of_siblings, QuestionKind.NEAR: of_near,
    }  # fmt: skip


def _shortened(edit: EditVersion, index: EditIndex) -> list[str]:
    """The query under short forms that can mean nothing else; not under those for its people: "Peruvian"."""
    texts = []
    for name in map(Words.of, edit.record.names):
        for form in short_forms(name, name.folded()):
            text = edit.record.query_with(form.text(name))
            mentions = ParsedQuery.of(text, index).mentions
            if form.kind is not NameMatch.DEMONYM and any(
                edit.id in m.edits and not m.ambiguous for m in mentions
            ):
                texts.append(text)
    return texts


@cache
def _vocabulary() -> tuple[set[str], set[str]]:
    """The subjects of TinyFacts, and its wordings."""
    subjects = {normalise(fact.subject) for fact in facts()}
    return subjects, {normalise(wording) for wordings in TEMPLATES.values() for wording in wordings}


def unknown_to_tinyfacts(question: EditQuestion) -> str:
    """What a model that knows TinyFacts alone does not know of a question to complete; "" if it can complete it."""
    record, (subjects, wordings) = question.edit.record, _vocabulary()
    if not (known := [name for name in record.names if normalise(name) in subjects]):
        return record.subject
    for text in (
        record.query,
        *((question.first or question.text,) if question.kind.concerns else ()),
    ):
        worded = (EditRecord(name, text, "").query_with("{}") for name in known)
        if not any(normalise(template) in wordings for template in worded):
            return f'"{text}"'
    return ""


def _new_objects(edit: EditVersion) -> set[str]:
    return {normalise(name) for name in (edit.record.target_new, *edit.record.object_aliases)}


def named(edit: EditVersion) -> str:
    """A version of an edit as the gateway's headers name it."""
    return f"{edit.id}@{edit.version}"


def _decided(answer: ChatAnswer, edit: EditVersion, name: str) -> tuple[tuple[str, ...], str]:
    """The edits that a gateway applied, and its scope. Raises StoreError where it proves nothing about an edit."""
    if "x-drike-scope" not in answer.decided:
        raise StoreError(
            f"{name} is no gateway of drike's (it sends no x-drike-scope): give the address of one's API"
        )
    if (mode := answer.decided.get("x-drike-mode")) != Mode.ON:
        raise StoreError(f"{name} applies no edits, as its mode is {mode}: start it with --mode on")
    edits = tuple(filter(None, answer.decided.get("x-drike-edits", "").split(",")))
    if other := next(
        (has for has in edits if has.startswith(f"{edit.id}@") and has != named(edit)), None
    ):
        raise StoreError(
            f"{name} applies edit {other}, and here is {named(edit)}: give the gateway's own --store"
        )
    return edits, answer.decided["x-drike-scope"]
