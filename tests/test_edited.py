import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from drike.edited import EditedModel
from drike.editors.factprompt import FactPrompt
from drike.editors.ike import IKE
from drike.edits import Edit
from drike.encoders import HashingEncoder
from drike.retrieval.budget import Budget, Fraction, Threshold
from drike.retrieval.learned_budget import untrained
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Retriever
from scripted import ScriptedModel
from worlds import CAPITALS, follows_the_fact, old_object

ENCODER = HashingEncoder()
EDITOR = IKE("DR-IKE", Pool(CAPITALS[10:], ENCODER), Retriever(ENCODER), Threshold(0.062))
MODEL = ScriptedModel(follows_the_fact)
ONE, TWO = CAPITALS[1].edit, CAPITALS[2].edit


def test_edits_apply_only_to_queries_about_them() -> None:
    edited = EditedModel(MODEL, EDITOR, [ONE, TWO])
    assert edited.ask("The capital of Land1 is") == "New1"
    assert edited.ask("Land2 has the capital") == "New2"
    assert edited.ask("The capital of Land5 is") == old_object("Land5")


def test_a_query_uses_the_edit_whose_subject_it_names_or_else_the_most_similar() -> None:
    other = Edit("The river through Land1 is", "Rhine", "Elbe", "Land1", "river")
    edited = EditedModel(MODEL, FactPrompt(), [ONE, TWO, other])
    assert edited.edit_for("LAND2 and its people") == TWO
    assert edited.edit_for("Which river flows in Land1?") == other
    assert edited.edit_for("The capital of Land1 is") == ONE
    assert edited.edit_for("Some river flows") == other


def test_a_gate_passes_unrelated_queries_to_the_unedited_model() -> None:
    edited = EditedModel(MODEL, EDITOR, ONE, gate=True)
    assert edited.prompt("The capital of Land7 is").text == "The capital of Land7 is"
    assert edited.explain("The capital of Land7 is").edit is None
    with pytest.raises(ValueError, match="subject"):
        EditedModel(MODEL, EDITOR, Edit("The sky is", "green"), gate=True)


def test_a_subject_matches_whole_words_only() -> None:
    edited = EditedModel(MODEL, FactPrompt(), Edit("The capital of Iran is", "Oslo", subject="Iran"), gate=True)
    assert edited.edit_for("The capital of Albania, Tirana, is") is None
    assert edited.edit_for("iran's capital is") is not None
    assert edited.edit_for("") is None


def test_a_later_edit_of_the_same_query_replaces_the_earlier() -> None:
    edited = EditedModel(MODEL, FactPrompt(), [ONE, Edit(ONE.query, "Newest", subject="Land1")])
    assert [edit.target_new for edit in edited.edits] == ["Newest"]


def test_an_empty_list_of_edits_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one edit"):
        EditedModel(MODEL, EDITOR, [])


def test_an_explanation_agrees_with_the_prompt_and_the_budget() -> None:
    edited = EditedModel(MODEL, EDITOR, ONE)
    explained = edited.explain("Land1 has the capital")
    prompt = edited.prompt("Land1 has the capital")
    assert explained.prompt == prompt.text and explained.answer == "New1"
    assert sum(choice.kept for choice in explained.choices) == prompt.shots
    assert [choice.rank for choice in explained.choices] == list(range(1, 17))
    assert sorted(choice.nearness for choice in explained.choices) == list(range(1, 17))
    kept = [choice.probability > 0.062 for choice in explained.choices]
    assert [choice.kept for choice in explained.choices] == kept or prompt.shots == 1


def test_an_explanation_states_the_cut_of_each_budget() -> None:
    def page(budget: Budget) -> str:
        explained = EditedModel(MODEL, replace(EDITOR, budget=budget), ONE).explain(ONE.query)
        return explained._repr_html_()

    assert "8 of 16 retains, a fixed share of 50%" in page(Fraction(0.5))
    assert "p &gt; sigma = 0.0100 (at most 4)" in page(Threshold(0.01, 4))
    assert "(none exceeds it, so the best one is kept)" in page(Threshold(0.9))
    assert "p &gt; sigma = 0.0312" in page(untrained("scores", ENCODER))  # half of 1 / 16


def test_an_explanation_renders_in_a_terminal_a_notebook_and_a_log() -> None:
    hostile = Edit("The capital of Land1 is", "<b>New</b>", "Old1", "Land1", "capital")
    explained = EditedModel(MODEL, EDITOR, hostile).explain("The capital of Land1 is")
    page = explained._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;" in page
    shown = StringIO()
    Console(width=100, file=shown).print(explained)
    assert all(text in shown.getvalue() for text in ("sigma = 0.0620", "kept", "cut"))
    assert len(re.findall(r"^The .* (kept|cut) +\d+ ", str(explained), re.MULTILINE)) == 16
