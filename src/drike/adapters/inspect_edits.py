"""inspect_ai: `inspect eval drike/edits -T store=edits.db --model MODEL` proves a store on a model.

Each sample is a question about an edit, or one that it must leave alone. The model is asked as
`drike serve` would ask it, and drike's own judge scores the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from anyio import to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    get_model,
)
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Score,
    Scorer,
    Target,
    accuracy,
    grouped,
    scorer,
    stderr,
)
from inspect_ai.solver import Generate, Solver, TaskState, solver

from drike.errors import UsageError
from drike.gates.edit_names import common_questions
from drike.gateway.proving.questions import EditQuestion, questions_about
from drike.gateway.proving.verification import EditVerdict, named
from drike.live.corrections import Corrections
from drike.live.live_edits import LiveEdits
from drike.stores.opening import open_store
from drike.stores.snapshots import snapshot
from drike.stores.verifications import QuestionKind

_OWN = "takes"  # names of groups in tables: of questions that concern their edit, and of others
_OTHERS = "others unchanged"


@task
def edits(
    store: str = "edits.db",
    edits: str | int | list[int] | None = None,
    unrelated: int = 3,
    in_force: bool = True,
) -> Task:
    """Whether a model heeds the edits of a store, and leaves all else as it is.

    store: a file or address. edits: ids of those to ask about (default: all in force). unrelated:
    how many questions are asked that concern no edit. in_force: False asks without the edits, to
    compare with.
    """
    with closing(open_store(store, create=False)) as opened:
        index = LiveEdits(opened).latest().view.index
    chosen = [index.edits[edit_id] for edit_id in _ids(edits, list(index.edits))]
    questions = list(questions_about(chosen, index))
    questions += [
        EditQuestion(chosen[0], QuestionKind.COMMON, text)
        for text in common_questions()[:unrelated]
    ]
    samples = [_sample(number, question) for number, question in enumerate(questions, start=1)]
    return Task(
        dataset=MemoryDataset(samples, name="edits"),
        solver=asked(store if in_force else None),
        scorer=judged(store),
    )


def _ids(given: str | int | list[int] | None, known: Sequence[int]) -> list[int]:
    """The ids that are given, or all. Raises UsageError for one that is not in force, or none."""
    if given is None:
        chosen = list(known)
    else:
        texts = given if isinstance(given, list) else str(given).split(",")
        chosen = [int(text) for text in texts]
    unknown = [str(edit_id) for edit_id in chosen if edit_id not in known]
    if unknown:
        raise UsageError(f"edits {', '.join(unknown)} are not in force here: give others")
    if not chosen:
        raise UsageError("no edit is in force in this store: add or approve one")
    return chosen


def _sample(number: int, question: EditQuestion) -> Sample:
    """A question with all that its answer is judged by."""
    record = question.edit.record
    concerns = question.kind.concerns
    unlike = f"not {record.target_new}"
    return Sample(
        id=f"{number:03} {question.kind}",
        input=question.first or question.text,
        target=record.target_new if concerns else unlike,
        metadata={
            "edit": named(question.edit),
            "fact": record.fact,
            "old": record.target_true or "",
            "kind": str(question.kind),
            "aspect": _OWN if concerns else _OTHERS,
            "question": question.text,
            "second_turn": question.first is not None,
        },
    )


@solver
def asked(store: str | None) -> Solver:
    """Ask as an application does behind `drike serve`. store: None for a model without edits."""
    corrections = Corrections(store) if store else None

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        turns: list[ChatMessage] = [ChatMessageUser(content=state.input_text)]
        if corrections is not None and not state.metadata["second_turn"]:
            without = await get_model().generate(turns)
            state.metadata["without edits"] = without.completion
        state = await _answered(state, turns, corrections, generate)
        if state.metadata["second_turn"]:
            turns.append(ChatMessageAssistant(content=state.output.completion))
            turns.append(ChatMessageUser(content=state.metadata["question"]))
            state = await _answered(state, turns, corrections, generate)
        return state

    return solve


async def _answered(
    state: TaskState,
    turns: list[ChatMessage],
    corrections: Corrections | None,
    generate: Generate,
) -> TaskState:
    """The state once the model has answered these turns, with their facts."""
    messages = [{"role": turn.role, "content": turn.text} for turn in turns]
    names: list[str] = []
    if corrections is not None:
        request: dict[str, Any] = {"model": str(state.model), "messages": messages}
        corrected = await to_thread.run_sync(corrections.apply, request)
        messages = list(corrected.request["messages"])
        names = [named(edit) for edit in corrected.edits]
    state.metadata["edits applied"] = names
    state.messages = [
        turn.model_copy(update={"content": message["content"]})
        for turn, message in zip(turns, messages, strict=True)
    ]
    return await generate(state)


@scorer(metrics=[grouped(accuracy(), "aspect"), grouped(accuracy(), "kind", all=False), stderr()])
def judged(store: str) -> Scorer:
    """Whether an edit of a store takes or, where it is not concerned, leaves the answer alone.

    An answer takes if it states the new object alone. An edit leaves others alone if it does not
    match, and its new object is not stated, unless the model says so without it, too.
    """
    with closing(open_store(store, create=False)) as opened:
        in_force = snapshot(opened).in_force(datetime.now(UTC))
    edit_by_name = {named(edit): edit for edit in in_force}

    async def score(state: TaskState, target: Target) -> Score:
        metadata = state.metadata
        edit = edit_by_name[metadata["edit"]]
        answer = state.output.completion
        kind = QuestionKind(metadata["kind"])
        verdict = EditVerdict(
            question=EditQuestion(edit, kind, metadata["question"]),
            answer=answer,
            stated=edit.record.states(answer),
            edits=tuple(metadata["edits applied"]),
            scope="abstained",
            unedited=metadata.get("without edits"),
        )
        problem = verdict.problem
        return Score(
            value=INCORRECT if problem else CORRECT,
            answer=answer,
            explanation=problem or f"states: {verdict.stated}",
            metadata={
                "states": str(verdict.stated),
                "edits applied": metadata["edits applied"],
                "without edits": metadata.get("without edits"),
            },
        )

    return score
