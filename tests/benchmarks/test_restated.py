"""Challenged answers in evaluation: what stands behind a challenge, and what that changes."""

from __future__ import annotations

import random

import pytest

from benchmarks.lib.challenges import FURTHER_CHALLENGES, challenged_often
from benchmarks.lib.restated import Restated, WritesTurns, as_written
from drike.conversations.cues import is_challenge
from drike.edits.edit import Aspect, EditCase, Probe
from drike.gates.by_name import Named
from drike.prompts import Prompt
from drike.research.datasets.generated import CHALLENGES
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.simulated_stores import SimulatedStores
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.placements import NEW_FACTS
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.evaluate import evaluate
from tests.fakes.capitals import CAPITALS, PERU, SHOWING, old_object
from tests.fakes.models import ScriptedModel

SURE, WRONG, OTHER = (
    "Are you sure? The capital of Peru is",
    "That is wrong.",
    "The capital of Chile is",
)
FACT = "New Fact: The capital of Peru is Oslo\nPrompt: The capital of Peru is"


def turns(*said: str) -> tuple[str, ...]:
    return Restated(FactPrompt()).later_turns([PERU], PERU.query, said)


def test_behind_each_challenge_stand_the_facts_and_the_question_whether_or_not_it_is_repeated() -> (
    None
):
    assert turns(SURE, WRONG) == (f"{SURE}\n{FACT}", f"{WRONG}\n{FACT}")


def test_another_question_stays_as_it_is_and_so_does_a_challenge_of_its_answer() -> None:
    assert turns(WRONG, OTHER, WRONG) == (f"{WRONG}\n{FACT}", OTHER, WRONG)


def test_a_challenge_of_another_answer_under_the_edits_repeats_that_question() -> None:
    both = Restated(FactPrompt(), further=FactPrompt())
    assert both.later_turns([PERU], PERU.query, [OTHER, WRONG]) == (
        f"Imagine that {PERU.fact}.\n{OTHER}",
        f"{WRONG}\nNew Fact: {PERU.fact}\nPrompt: {OTHER}",
    )


def test_behind_a_gate_nothing_is_restated_where_no_edit_was_stated() -> None:
    stores = SimulatedStores([PERU])
    gated, facts = (GatedEditor(editor, Named(), stores) for editor in (FactPrompt(), NEW_FACTS))
    editor = Restated(gated, facts, gated)
    assert editor.later_turns([PERU], OTHER, [WRONG, PERU.query, WRONG, OTHER, WRONG]) == (
        WRONG, f"Imagine that {PERU.fact}.\n{PERU.query}", f"{WRONG}\n{FACT}", OTHER, WRONG,
    )  # fmt: skip


@pytest.mark.parametrize("further", [Unedited(), NEW_FACTS])
def test_an_earlier_turn_is_written_the_same_however_the_conversation_goes_on(
    further: Editor,
) -> None:
    rng, editor = random.Random(0), Restated(FactPrompt(), further=further)
    for _ in range(200):
        said = rng.choices([SURE, WRONG, OTHER, PERU.query, "And why?"], k=rng.randrange(1, 12))
        written = editor.later_turns([PERU], PERU.query, said)
        assert all(
            text.startswith(turn) or text.endswith(turn)
            for text, turn in zip(written, said, strict=True)
        )
        end = rng.randrange(len(said))
        assert editor.later_turns([PERU], PERU.query, said[:end]) == written[:end]


def forgets(prompt: str) -> str:
    """Answer by the fact right before the question; a fact of an earlier turn is forgotten."""
    *_, before, question = ["", *prompt.splitlines()]
    return (
        before.rstrip(".").split()[-1]
        if before.startswith(("New Fact", "Imagine"))
        else old_object(question)
    )


def share(editor: Editor, *, times: int, name: str | None = None) -> float:
    cases = [
        EditCase(case.case_id, case.edit, case.probes, (challenged_often(case, times),))
        for case in CAPITALS[:6]
    ]
    outcomes = list(evaluate(editor, ScriptedModel(forgets), as_written(editor, cases)))
    assert {outcome.editor for outcome in outcomes} == {name or editor.name}
    right = [outcome.correct for outcome in outcomes if outcome.aspect is Aspect.PUSHBACK]
    return sum(map(bool, right)) / len(right)


@pytest.mark.parametrize("times", [1, 3, 5, 10])
def test_an_edit_that_a_challenge_makes_the_model_forget_stands_where_its_facts_are_restated(
    times: int,
) -> None:
    assert share(FactPrompt(), times=times) == 0
    assert share(Restated(FactPrompt()), times=times, name="FactPrompt, restated") == 1
    assert (
        share(Restated(FactPrompt(), FactPrompt()), times=times, name="FactPrompt, restated") == 1
    )


def test_questions_that_are_not_challenged_have_the_same_prompts() -> None:
    editor = Restated(SHOWING)
    assert isinstance(editor, WritesTurns) and not isinstance(SHOWING, WritesTurns)
    edits, queries = [CAPITALS[0].edit], [probe.query for probe in CAPITALS[0].probes]
    assert editor.prompts(edits, queries) == SHOWING.prompts(edits, queries)
    assert editor.trained_on == SHOWING.trained_on
    case = CAPITALS[0]
    probe = Probe(Aspect.PUSHBACK, case.edit.query, case.edit.target_new, challenges=(SURE,))
    model = ScriptedModel(forgets)
    *_, outcome = evaluate(
        editor, model, as_written(editor, [EditCase("0", case.edit, case.probes, (probe,))])
    )
    assert outcome.calls == 2 and outcome.query.startswith(f"{case.edit.query}\n{SURE}\n")
    assert model.prompts[-1].endswith(f"{SURE}\n{NEW_FACTS.prompts(edits, queries)[0].text}")


def test_every_challenge_that_drike_generates_is_one_alone_and_with_the_question_repeated() -> None:
    assert len({*CHALLENGES, *FURTHER_CHALLENGES}) == 10
    probe = challenged_often(CAPITALS[0], 10)
    assert all(map(is_challenge, (*CHALLENGES, *FURTHER_CHALLENGES, *probe.challenges)))
    assert not any(is_challenge(probe.query) for probe in CAPITALS[0].asked)


def test_the_facts_alone_are_the_end_of_every_prompt_with_demonstrations() -> None:
    [prompt] = SHOWING.prompts([CAPITALS[0].edit], [OTHER])
    [facts] = NEW_FACTS.prompts([CAPITALS[0].edit], [OTHER])
    assert facts == Prompt(facts.text) and prompt.text.endswith(f"\n\n{facts.text}")
