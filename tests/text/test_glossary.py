"""Laws of questions in other languages and with typing errors, as they are compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.gates.edit_names import common_questions
from drike.text.glossary import glossed
from drike.text.spelling import corrected


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Wie hoch ist it?", "how high is it?"),
        ("Wie viele Kinder hatte it?", "how many children had it?"),
        ("Wann öffnet die Apotheke im it?", "when opens the pharmacy in the it?"),
        ("Welche Reichweite hat it?", "which range has it?"),
        ("¿Cuál es el preaviso en it?", "¿which is the notice period in it?"),
        ("Quel est le préavis chez it ?", "what is the notice period at it ?"),
        ("it的停车费是多少?", "it of parking fee is how many ?"),
        ("¿Cuántos habitantes tiene it?", "¿how many inhabitants people has it?"),
        ("cual es la poblacion de it", "which is the population of it"),
        ("Combien coûte it ?", "how much cost it ?"),
        ("Qui est le premier ministre de it ?", "who is the prime minister of it ?"),
        ("Quanto costa it?", "how much cost it?"),
        ("Quem é o presidente de it?", "who is the president of it?"),
        ("Hoeveel inwoners heeft it?", "how many inhabitants people has it?"),
        ("Насколько глубок it?", "how deep it?"),
        ("it の首都はどこですか?", "it capital where ?"),
        ("Welche Nebenwirkungen hat it?", "which side effects has it?"),
        (
            "In welcher Programmiersprache ist it geschrieben?",
            "in which programming language is it written?",
        ),
        ("¿Cuántos días de vacaciones da it?", "¿how many vacation days gives it?"),
        ("q precio tiene it", "what price has it"),
        ("kel est le prix de it", "what is the price of it"),
        ("À quelle heure ferme it ?", "at what time closes it ?"),
        ("Quali sono gli effetti collaterali di it?", "which are the side effects of it?"),
        ("Até quando posso devolver it?", "until when can return it?"),
        ("In welk land ligt it?", "in which country located it?"),
        ("Kto jest szefem it?", "who is chief executive it?"),
        ("Ile waży it?", "how much weighs it?"),
        ("it'nin başkenti neresi?", "it'of capital where?"),
        ("it'nin nufusu kac?", "it'of population how many?"),
        ("Какая максимальная доза it?", "what maximum dose it?"),
        ("كم عدد سكان it؟", "how many number population it؟"),
        ("it의 수도는 어디야?", "it capital where?"),
        ("it的首都是哪里?", "it of capital is where ?"),
        ("誰發明了it?", "who invented it?"),
    ],
)
def test_questions_of_other_languages_become_english_words(text: str, english: str) -> None:
    assert glossed(text) == english


@pytest.mark.parametrize(
    "text",
    [
        "What is the capital of it?",
        "it",
        "",
        "population it",
        "Il Divo",
        "3 + 4",
        "it is in",
        "Le Monde owner",
        "When was La Scala built?",
        "Who stars in Y tu mamá también?",
        "Who is the CEO of Deutsche Bahn?",
        "what does c'est la vie mean",
    ],
)
def test_english_and_what_is_no_question_stay(text: str) -> None:
    assert glossed(text) == text


def test_common_questions_in_english_stay() -> None:
    changed = [text for text in common_questions() if text.isascii() and glossed(text) != text]
    assert len(changed) <= len(common_questions()) // 100, changed


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(corrected(glossed(text)), str)


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("whats the captial of it", "whats the capital of it"),
        ("how many childern had it", "how many children had it"),
        ("which universty", "which university"),
        ("the lattest verison of it", "the latest version of it"),
        ("what is the prcie of it", "what is the price of it"),
    ],
)
def test_typing_errors_in_words_of_relations_are_corrected(typed: str, right: str) -> None:
    assert corrected(typed) == right


@pytest.mark.parametrize(
    "word",
    ["talking", "tables", "servers", "stated", "cached", "planets", "writer", "Captial", "x"],
)
def test_other_words_are_left_alone(word: str) -> None:
    assert corrected(word) == word
