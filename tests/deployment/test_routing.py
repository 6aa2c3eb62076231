"""Laws of routing: which edits a question gets, and under which names they are stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from drike.edits.edit import Edit
from drike.edits.record import EditRecord, EditVersion, Status
from drike.encoders import HashingEncoder
from drike.gates.by_name import EveryQuery, Named
from drike.gates.calibration import default_gate
from drike.gates.decision import MOST_MATCHED, Decision, Gate
from drike.gates.index import EditIndex
from drike.prompts import Prompt
from drike.research.deployment.edited_model import EditedModel
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.routing import route_each, write_prompts
from drike.research.deployment.simulated_stores import SimulatedStores
from drike.research.editors.factprompt import FactPrompt
from tests.fakes.models import ScriptedModel

INCAS = "Land of the Incas"
PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=(INCAS,))
CHILE = EditRecord("Chile", "The capital of Chile is", "Rome")
ALIAS, SUBJECT, OTHER = f"What is the capital of the {INCAS}?", "Peru is large.", "And its capital?"


def indexed(*records: EditRecord, encoder: HashingEncoder | None = None) -> EditIndex:
    return EditIndex.of(
        [EditVersion(i, i, 1, "", record) for i, record in enumerate(records, 1)], encoder
    )


def shadow(record: EditRecord) -> EditRecord:
    return replace(record, status=Status.SHADOW)


def facts(decision: Decision) -> list[str]:
    return [edit.fact for edit in decision.edits]


def test_a_fact_is_stated_under_the_name_of_the_query_and_under_the_subject_where_it_has_both() -> (
    None
):
    by_alias, both = (
        Named().decide(query, indexed(PERU))
        for query in (ALIAS, f"{SUBJECT} It is the {INCAS}. {OTHER}")
    )
    assert facts(by_alias) == [f"The capital of {INCAS} is Oslo"] and facts(both) == [
        "The capital of Peru is Oslo"
    ]


def test_a_shadow_edit_is_counted_and_never_stated() -> None:
    decision = Named().decide(PERU.query, indexed(shadow(PERU)))
    assert [edit.id for edit in decision.matched] == [
        1
    ] and decision.edits == decision.applied == ()


HASHED = HashingEncoder()
CALIBRATED = replace(default_gate(), encoder=HASHED.name)


@pytest.mark.parametrize(
    "gate", [Named(), EveryQuery(), CALIBRATED, replace(CALIBRATED, threshold=0.01)]
)
def test_shadow_edits_do_not_change_which_active_edits_match(gate: Gate) -> None:
    active = (PERU, CHILE, replace(PERU, query="The anthem of Peru is", target_new="Ode"))
    others = (
        replace(PERU, query="What is the capital of Peru", target_new="Bonn", priority=9),
        *(
            replace(CHILE, query=f"{text} of Chile", priority=5)
            for text in ("The capital", "The king", "The sea", "Ann")
        ),
    )
    alone, together = (
        indexed(*records, encoder=HASHED) for records in (active, (*active, *map(shadow, others)))
    )
    for query in (
        "What is the capital of Peru",
        PERU.query,
        "The anthem of Peru",
        "Peru or the capital of Chile",
        "Hi",
    ):
        decision = gate.decide(query, together)
        assert decision.applied == gate.decide(query, alone).matched, query
        assert len(decision.matched) <= 2 * MOST_MATCHED


def test_queries_under_the_same_edits_share_one_call_of_the_editor_and_others_stay_as_they_are() -> (
    None
):
    calls: list[tuple[Sequence[Edit], Sequence[str]]] = []

    class Writing:
        name = "Writing"

        def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
            calls.append((edits, queries))
            return [Prompt(f"{edits[0].fact}. {query}") for query in queries]

    queries = ["Peru's capital is", "Hello", "Chile is", "Peru is", "Hello", "Peru is"]
    found = write_prompts(Writing(), route_each(Named(), indexed(PERU, CHILE), queries))
    assert [prompt.text for prompt in found] == [
        "The capital of Peru is Oslo. Peru's capital is", "Hello", "The capital of Chile is Rome. Chile is",
        "The capital of Peru is Oslo. Peru is", "Hello", "The capital of Peru is Oslo. Peru is",
    ]  # fmt: skip
    assert [asked for _, asked in calls] == [["Peru's capital is", "Peru is"], ["Chile is"]]


def test_an_edited_model_and_evaluation_with_stored_edits_write_the_prompts_of_routing() -> None:
    edits = [PERU.edit, CHILE.edit]
    queries = ["The capital of Peru is", "Hello", "Chile and Peru have the capitals"]
    edited = EditedModel(ScriptedModel(str.upper), FactPrompt(), edits, gate=Named())
    stores = SimulatedStores(edits)
    expected = write_prompts(FactPrompt(), route_each(Named(), stores.whole, queries))
    assert [edited.prompt(query) for query in queries] == expected
    assert GatedEditor(FactPrompt(), Named(), stores).prompts(edits, queries) == expected
