"""Laws of routing: which edits a question gets, and under which names they are stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from drike.deployment.edited_model import EditedModel, route, route_each, write_prompts
from drike.deployment.evaluation import GatedEditor, SimulatedStores
from drike.editors.catalog import FactPrompt
from drike.edits import Edit
from drike.encoders import HashingEncoder
from drike.gates.by_name import EveryQuery, Named
from drike.gates.calibration import default_gate
from drike.gates.decision import MOST_MATCHED, Decision, Gate, YesOrNo
from drike.gates.index import EditIndex
from drike.prompts import Prompt
from drike.stores.records import EditRecord, EditVersion, Status
from tests.worlds.gateways import Doubting
from tests.worlds.scripted import ScriptedModel

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", aliases=("Land of the Incas",))
CHILE = EditRecord("Chile", "The capital of Chile is", "Rome")
ALIAS, SUBJECT, OTHER = "What is the capital of the Land of the Incas?", "Peru is large.", "And its capital?"


def indexed(*records: EditRecord, encoder: HashingEncoder | None = None) -> EditIndex:
    return EditIndex.of([EditVersion(i, i, 1, "", record) for i, record in enumerate(records, 1)], encoder)


def shadow(record: EditRecord) -> EditRecord:
    return replace(record, status=Status.SHADOW)


def turns(before: str, last: str) -> tuple[str, str]:
    """The queries of a chat with two turns of the user, as the gateway has them."""
    return last, f"{before}\n{last}"


@dataclass
class Recorded:
    """A gate that keeps the queries on which it decides."""

    gate: Gate
    queries: list[str] = field(default_factory=list)

    def decide(self, query: str, index: EditIndex) -> Decision:
        self.queries.append(query)
        return self.gate.decide(query, index)


def facts(decision: Decision) -> list[str]:
    return [edit.fact for edit in decision.edits]


def test_the_first_query_that_concerns_an_edit_decides_and_later_ones_are_not_looked_at() -> None:
    gate = Recorded(Named())
    decision = route(gate, indexed(PERU, CHILE), turns(SUBJECT, "What is the capital of Chile?"))
    assert decision.query == "What is the capital of Chile?" and facts(decision) == ["The capital of Chile is Rome"]
    assert gate.queries == [decision.query]


def test_a_turn_before_decides_where_the_last_one_concerns_no_edit() -> None:
    decision = route(Named(), indexed(PERU), turns(SUBJECT, OTHER))
    assert decision.query == f"{SUBJECT}\n{OTHER}" and facts(decision) == ["The capital of Peru is Oslo"]


def test_an_alias_in_the_last_turn_states_the_fact_also_where_the_turn_before_names_the_subject() -> None:
    decision = route(Named(), indexed(PERU), turns(SUBJECT, ALIAS))
    assert facts(decision) == ["The capital of Land of the Incas is Oslo"]
    assert facts(route(Named(), indexed(PERU), [ALIAS])) == facts(decision)


def test_a_fact_is_stated_under_the_subject_where_the_deciding_query_has_subject_and_alias() -> None:
    decision = route(Named(), indexed(PERU), turns(f"{SUBJECT} It is the Land of the Incas.", OTHER))
    assert facts(decision) == ["The capital of Peru is Oslo"]


def test_the_first_query_is_the_decision_where_none_concerns_an_edit() -> None:
    decision = route(Named(), indexed(PERU), turns("Hello.", "How are you?"))
    assert decision == Named().decide("How are you?", indexed(PERU)) and decision.edits == ()


def test_a_shadow_edit_is_counted_and_never_stated() -> None:
    decision = route(Named(), indexed(shadow(PERU)), [PERU.query])
    assert [edit.id for edit in decision.matched] == [1] and decision.edits == decision.applied == ()
    assert route(Named(), indexed(shadow(PERU)), turns(PERU.query, "Hello")).matched == decision.matched


def test_a_shadow_edit_in_the_last_turn_keeps_no_turn_before_from_deciding() -> None:
    decision = route(Named(), indexed(PERU, shadow(CHILE)), turns(PERU.query, "And what of Chile?"))
    assert facts(decision) == ["The capital of Peru is Oslo"]
    assert {edit.id for edit in decision.matched} == {1, 2}


HASHED = HashingEncoder()
CALIBRATED = replace(default_gate(), encoder=HASHED.name)


@pytest.mark.parametrize("gate", [Named(), EveryQuery(), CALIBRATED, replace(CALIBRATED, threshold=0.01)])
def test_shadow_edits_do_not_change_which_active_edits_match(gate: Gate) -> None:
    active = (PERU, CHILE, replace(PERU, query="The anthem of Peru is", target_new="Ode"))
    others = (
        replace(PERU, query="What is the capital of Peru", target_new="Bonn", priority=9),
        *(
            replace(CHILE, query=f"{text} of Chile", priority=5)
            for text in ("The capital", "The king", "The sea", "Ann")
        ),
    )
    alone, together = (indexed(*records, encoder=HASHED) for records in (active, (*active, *map(shadow, others))))
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
        said = [YesOrNo.YES] * len(decision.uncertain)
        expected = gate.decide(query, alone)
        expected = expected.resolved([YesOrNo.YES] * len(expected.uncertain))
        assert decision.resolved(said).applied == expected.matched


def test_an_uncertain_query_decides_only_where_a_model_will_be_asked() -> None:
    queries = turns(CHILE.query, PERU.query)
    gate = Recorded(Doubting())
    assert route(gate, indexed(PERU, CHILE), queries).query == PERU.query and gate.queries == [*queries]
    gate.queries.clear()
    decision = route(gate, indexed(PERU, CHILE), queries, verifying=True)
    assert decision.query == PERU.query and gate.queries == [PERU.query] and decision.edits == ()
    assert facts(decision.resolved([YesOrNo.YES])) == ["The capital of Peru is Oslo"]


def test_a_question_of_which_a_model_denies_the_edit_gets_none_from_a_turn_before() -> None:
    class FirstUncertain:
        def decide(self, query: str, index: EditIndex) -> Decision:
            return (Named() if "\n" in query else Doubting()).decide(query, index)

    queries = turns(CHILE.query, "Is Peru large?")
    assert len(route(FirstUncertain(), indexed(PERU, CHILE), queries).edits) == 2
    decision = route(FirstUncertain(), indexed(PERU, CHILE), queries, verifying=True)
    assert decision.query == "Is Peru large?" and decision.resolved([YesOrNo.NO]).edits == ()


def test_an_uncertain_shadow_edit_keeps_no_turn_before_from_deciding() -> None:
    queries = turns(PERU.query, "Is Chile large?")
    decision = route(Doubting(), indexed(PERU, shadow(CHILE)), queries, verifying=True)
    assert decision.query == queries[1] and {candidate.edit.id for candidate in decision.uncertain} == {1, 2}
    decision = decision.resolved([YesOrNo.YES] * 2)
    assert facts(decision) == ["The capital of Peru is Oslo"] and len(decision.matched) == 2


def test_a_model_is_asked_once_about_all_questions() -> None:
    model = ScriptedModel(lambda prompt: " Yes" if 'Text: "What of Peru' in prompt else " No")
    decisions = route_each(Doubting(), indexed(PERU, CHILE), ["What of Peru?", "Hello", "What of Chile?"], model)
    assert [facts(decision) for decision in decisions] == [["The capital of Peru is Oslo"], [], []]
    assert model.calls == 1


def test_queries_under_the_same_edits_share_one_call_of_the_editor_and_others_stay_as_they_are() -> None:
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
