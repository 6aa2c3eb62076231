"""Laws of the questions that are suggested when an edit is written, and of how strictly they are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drike.edits.record import EditRecord
from drike.edits.record_checks import checked
from drike.edits.record_json import from_json, to_json
from drike.live.suggestions import (
    Neighbourhood,
    Suggestion,
    author_of,
    fields_with,
    request,
    suggestions,
    written_suggestions,
)
from drike.prompts import REWRITE, chat_messages
from tests.fakes.models import ScriptedModel

PERU = EditRecord(
    "Peru",
    "The capital of Peru is",
    "Oslo",
    "Lima",
    aliases=("Perú",),
    negatives=("Is Peru large?",),
)
WRITTEN = """<think>one, two</think>
1. Which city is Peru's capital?
- "Where is Perú governed from?"
Where does Peru have its seat of government?
**What is the capital of Peru called?**
the capital of peru is
Oslo is the capital of Peru, isn't it?
Is Lima the capital of Peru?
Which capital has Peru? It is far away. Is it?
What is the capital of Chile?
Which capital did Francisco Pizarro give Peru?
Who rules Peru?
How do I bake bread?
Which city is the capital of Peru?
OTHER:
* Which river flows through Peru?
is peru large?
Who founded the city of Oslo in Peru?
Which is the capital city of Peru?
What do llamas eat?
SAME:
Where is Peru?

Text: The Rialto cinema opens at 6 pm
When does it open?"""


def read(
    written: str, record: EditRecord = PERU, others: tuple[EditRecord, ...] = ()
) -> dict[str, str]:
    neighbourhood = Neighbourhood.of((record, *others))
    return {
        one.text: one.problem for one in written_suggestions(written, record, 20, neighbourhood)
    }


def test_a_model_s_lists_are_read_strictly() -> None:
    found = written_suggestions(WRITTEN, PERU, 20)
    assert [(one.text, one.never) for one in found if not one.problem] == [
        ("Which city is Peru's capital?", False),
        ("Where is Perú governed from?", False),
        ("Where does Peru have its seat of government?", False),
        ("What is the capital of Peru called?", False),
        ("Which river flows through Peru?", True),
    ]
    assert {one.text: one.problem for one in found if one.problem} == {
        "Which city is the capital of Peru?": "repeats another one",
        "the capital of peru is": "is not a question",
        "Oslo is the capital of Peru, isn't it?": "gives the answer Oslo",
        "Is Lima the capital of Peru?": "gives the answer Lima",
        "Which capital has Peru? It is far away. Is it?": "is more than a question",
        "What is the capital of Chile?": "names something else",
        "Which capital did Francisco Pizarro give Peru?": "names something else",
        "Who rules Peru?": "asks for something else",
        "How do I bake bread?": "does not name Peru",
        "is peru large?": "is known already",
        "Who founded the city of Oslo in Peru?": "gives the answer Oslo",
        "Which is the capital city of Peru?": "is in both lists",
        "What do llamas eat?": "does not name Peru",
    }


def test_a_question_for_another_edit_of_the_store_is_left_to_it() -> None:
    plan = EditRecord("Tarn Team plan", "The Tarn Team plan costs", "79 dollars")
    firm = EditRecord("Tarn", "The chair of Tarn is", "Ann Lee")
    other = EditRecord("Tarn", "Tarn is led by", "Bo Lee", paraphrases=("Who leads Tarn?",))
    assert read("How dear is the Tarn Team plan?", firm, (plan,)) == {
        "How dear is the Tarn Team plan?": "names Tarn Team plan"
    }
    assert read("How dear is the Tarn Team plan?", plan, (firm,)) == {
        "How dear is the Tarn Team plan?": ""
    }
    assert read("Who leads Tarn?", firm, (other,)) == {
        "Who leads Tarn?": "asks what another edit answers"
    }


@pytest.mark.parametrize(
    ("query", "question"),
    [
        ("Die Garantie auf den Tarn 3 läuft", "Wie lange gilt die Garantie für den Tarn 3?"),
        ("The warranty on the Tarn 3 runs for", "Wie lang ist die Garantiezeit beim Tarn 3?"),
        ("The warranty on the Tarn 3 runs for", "Tarn 3 的保修期是多长？"),
    ],
)
def test_questions_in_other_languages_are_read_too(query: str, question: str) -> None:
    assert read(question, EditRecord("Tarn 3", query, "five years")) == {question: ""}


def test_without_the_name_a_question_has_to_say_what_is_asked() -> None:
    fee = EditRecord("Tarn Hotel", "The fee for parking at the Tarn Hotel is", "9 euros")
    assert read("What do I pay for parking?\nWhat is the weather like?", fee) == {
        "What do I pay for parking?": "",
        "What is the weather like?": "does not name Tarn Hotel",
    }


def test_a_model_is_asked_once_for_all_records_and_no_two_get_the_same() -> None:
    model = ScriptedModel(lambda prompt: WRITTEN if prompt.startswith(REWRITE) else "")
    other = replace(PERU, query="The main port of Peru is", negatives=())
    [first, second] = suggestions(model, [PERU, other], 2)
    assert model.calls == 1 and len(model.prompts) == 2
    assert [one.text for one in first if not one.problem and not one.never] == [
        "Which city is Peru's capital?",
        "Where is Perú governed from?",
    ]
    assert (
        Suggestion("Which city is Peru's capital?", problem="asks what another edit answers")
        in second
    )
    assert suggestions(model, [], 2) == [] and model.calls == 1
    [message] = chat_messages(model.prompts[0])
    assert message["content"] == model.prompts[0] == request(PERU, 2)


def test_a_model_s_own_language_is_asked_for() -> None:
    assert "in German and French" in request(PERU, 3, ("German", "French"))


def test_what_is_kept_has_its_author_until_it_is_gone() -> None:
    model = ScriptedModel(lambda prompt: WRITTEN)
    [found] = suggestions(model, [PERU], 20)
    first, *_, last = (one for one in found if not one.problem)
    kept = [first, last]
    record = checked(replace(PERU, **fields_with(PERU, kept, author_of(model))))
    assert record.written_by == {
        "Which city is Peru's capital?": "model scripted",
        "Which river flows through Peru?": "model scripted",
    }
    assert from_json(to_json(record)) == record
    assert record.own_paraphrases == () and record.negatives[0] == "Is Peru large?"
    without = checked(replace(record, paraphrases=(), negatives=("Is Peru large?",)))
    assert without.written_by is None
