import re
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from drike.edits.edit import Edit
from drike.edits.record import EditRecord, Status
from drike.encoders import HashingEncoder
from drike.gates.by_name import EveryQuery, Named
from drike.prompts import Prompt
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.budgets import Budget, Fraction, Threshold
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.stores.moves import retire
from drike.stores.sqlite import SqliteStore
from tests.fakes.capitals import CAPITALS, follows_the_fact, old_object
from tests.fakes.models import ScriptedModel

ENCODER = HashingEncoder()
EDITOR = InContextEditor(
    "DR-IKE", Pool(CAPITALS[10:], ENCODER), RankAndCut(Retriever(ENCODER), Threshold(0.062))
)
MODEL = ScriptedModel(follows_the_fact)
ONE, TWO = CAPITALS[1].edit, CAPITALS[2].edit


def applied(edited: EditedModel, query: str) -> list[Edit]:
    """The edits that a query is put under."""
    return list(edited.decide(query).edits)


def test_a_query_that_concerns_no_edit_reaches_the_model_byte_for_byte() -> None:
    asked = ScriptedModel(lambda prompt: "unchanged")
    edited = EditedModel(asked, EDITOR, [ONE, TWO], gate=Named())
    for query in (
        "The capital of Land5 is",
        "Hello, how are you?",
        "  \n",
        "",
        "Land10 and Land21",
    ):
        assert edited.prompt(query) == Prompt(query)
        edited.ask(query)
        assert asked.prompts[-1] == query
        assert edited.explain(query).decision.applied == () and asked.prompts[-1] == query


def test_edits_apply_only_to_queries_about_them() -> None:
    edited = EditedModel(MODEL, EDITOR, [ONE, TWO], gate=Named())
    assert edited.ask("The capital of Land1 is") == "New1"
    assert edited.ask("Land2 has the capital") == "New2"
    assert edited.ask("The capital of Land5 is") == old_object("Land5")


def test_of_several_edits_of_a_subject_the_nearest_applies() -> None:
    other = Edit("The river through Land1 is", "Rhine", "Elbe", "Land1", "river")
    edited = EditedModel(MODEL, FactPrompt(), [ONE, TWO, other], gate=Named())
    assert applied(edited, "LAND2 and its people") == [TWO]
    assert applied(edited, "Which river flows in Land1?") == [other]
    assert applied(edited, "The capital of Land1 is") == [ONE]
    assert applied(edited, "Some river flows") == []


def test_two_edits_that_a_question_names_both_reach_the_prompt() -> None:
    edited = EditedModel(MODEL, FactPrompt(), [ONE, TWO], gate=Named())
    prompt = edited.prompt("Which cities govern Land2 and Land1?").text
    assert ONE.fact in prompt and TWO.fact in prompt
    by_ike = EditedModel(MODEL, EDITOR, [ONE, TWO], gate=Named()).explain(
        "Which cities govern Land2 and Land1?"
    )
    assert (
        f"New Fact: {ONE.fact}" in by_ike.side.prompt.text
        and f"New Fact: {TWO.fact}" in by_ike.side.prompt.text
    )


def test_every_query_is_put_under_an_edit_where_that_is_asked_for() -> None:
    other = Edit("The river through Land1 is", "Rhine", "Elbe", "Land1", "river")
    edited = EditedModel(MODEL, EDITOR, [ONE, TWO, other], gate=EveryQuery())
    assert applied(edited, "Some river flows") == [other]
    assert applied(edited, "The capital of Land2 is") == [TWO]
    green = Edit("The sky is", "green")
    unnamed = EditedModel(MODEL, EDITOR, green, gate=EveryQuery())
    assert applied(unnamed, "Hello") == [green]
    with pytest.raises(ValueError, match="has no subject that a query could name"):
        EditedModel(MODEL, EDITOR, green, gate=Named())


def test_a_subject_matches_whole_words_only() -> None:
    edited = EditedModel(
        MODEL, FactPrompt(), Edit("The capital of Iran is", "Oslo", subject="Iran"), gate=Named()
    )
    assert applied(edited, "The capital of Albania, Tirana, is") == []
    assert applied(edited, "iran's capital is") != []


def test_a_later_edit_of_the_same_query_replaces_the_earlier() -> None:
    newest = Edit(ONE.query, "Newest", subject="Land1")
    assert applied(EditedModel(MODEL, FactPrompt(), [ONE, newest], gate=Named()), ONE.query) == [
        newest
    ]


def test_an_empty_list_of_edits_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one edit"):
        EditedModel(MODEL, EDITOR, [], gate=Named())


def test_changes_of_a_store_take_effect_at_the_next_query(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "edits.db")
    edited = EditedModel(MODEL, EDITOR, store, gate=Named())
    assert edited.prompt(ONE.query) == Prompt(ONE.query)
    [stored] = store.put(
        EditRecord("Land1", ONE.query, "New1", "Old1", "capital", aliases=("Landfirst",))
    )
    assert edited.ask(ONE.query) == "New1"
    assert edited.explain("The capital of Landfirst is").decision.applied == (stored,)
    retire(store, stored.id)
    assert edited.prompt(ONE.query) == Prompt(ONE.query)
    with closing(store):
        store.put(EditRecord("Land1", ONE.query, "New1", status=Status.SHADOW))
        assert edited.prompt(ONE.query) == Prompt(ONE.query)


def test_a_fact_is_stated_under_the_name_by_which_it_is_asked(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(
            EditRecord(
                "Peru", "The capital of Peru is", "Oslo", aliases=("Land of the Incas", "PE")
            )
        )
        edited = EditedModel(MODEL, FactPrompt(), store, gate=Named())
        for query, name in (
            ("Peru's capital is", "Peru"),
            ("The capital of the land of the incas is", "Land of the Incas"),
            ("The capital of PE, or Peru, is", "Peru"),
        ):
            assert (
                edited.prompt(query).text == f"Imagine that The capital of {name} is Oslo.\n{query}"
            )


def test_another_name_takes_the_place_of_the_name_in_the_query_and_of_no_part_of_a_word() -> None:
    entry = EditRecord(
        "Peru", "The Peruvian poet laureate of Peru is", "Ann", aliases=("PE", r"\1")
    )
    assert (
        entry.edit_in("Who is PE's poet laureate?").query == "The Peruvian poet laureate of PE is"
    )
    assert entry.query_with(r"\1") == r"The Peruvian poet laureate of \1 is"
    entry = EditRecord("United States", "The head of the USA is", "Ann", aliases=("USA", "America"))
    assert entry.edit_in("Who leads America?").query == "The head of the America is"
    entry = EditRecord(
        "United States",
        "The head of the United States of America is",
        "Ann",
        aliases=("USA", "United States of America"),
    )
    assert entry.edit_in("Who leads the USA?").query == "The head of the USA is"


def test_an_edit_holds_from_its_beginning_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqliteStore(tmp_path / "edits.db")) as store:
        store.put(
            EditRecord("Land1", ONE.query, "New1", valid_from="2026-12-01", valid_to="2026-12-03")
        )
        edited = EditedModel(MODEL, FactPrompt(), store, gate=Named())
        fires = []
        for day in range(1, 5):
            now = datetime(2026, 12, day, tzinfo=UTC) - timedelta(seconds=1)
            monkeypatch.setattr(
                "drike.live.live_edits.datetime",
                SimpleNamespace(now=lambda zone, now=now: now),
            )
            fires.append(bool(edited.decide(ONE.query).matched))
    assert fires == [False, True, True, False]


def test_an_explanation_names_the_reason() -> None:
    edited = EditedModel(MODEL, EDITOR, [ONE, TWO], gate=Named())
    matched, left = (
        edited.explain("The capital of Land1 is"),
        edited.explain("Nothing of the kind is"),
    )
    assert '"land1" is named: edit 1' in matched.decision.reason and matched.decision.reason in str(
        matched
    )
    assert "No edit applies (no subject is named)" in str(left) and left.answer == "?"
    assert "Edits considered" in str(matched) and "fires" in str(matched)


def test_an_explanation_agrees_with_the_prompt_and_the_budget() -> None:
    edited = EditedModel(MODEL, EDITOR, ONE, gate=Named())
    explained = edited.explain("Land1 has the capital")
    prompt = edited.prompt("Land1 has the capital")
    retains = explained.side.retains
    kept = [retain.kept for retain in retains]
    above_sigma = [retain.probability > 0.062 for retain in retains]
    assert explained.side.prompt == prompt
    assert explained.answer == "New1"
    assert sum(kept) == prompt.shots
    assert [retain.rank for retain in retains] == list(range(1, 17))
    assert sorted(retain.nearness for retain in retains) == list(range(1, 17))
    assert kept == above_sigma or prompt.shots == 1


def test_an_explanation_states_the_cut_of_each_budget() -> None:
    def page(budget: Budget) -> str:
        explained = EditedModel(
            MODEL,
            replace(EDITOR, selector=replace(EDITOR.selector, budget=budget)),
            ONE,
            gate=Named(),
        ).explain(ONE.query)
        return explained._repr_markdown_()

    assert "8 of 16 retains, a fixed share of 50%" in page(Fraction(0.5))
    assert "p > sigma = 0.0100 (at most 4)" in page(Threshold(0.01, 4))
    assert "(none exceeds it, so the best one is kept)" in page(Threshold(0.9))


def test_an_explanation_renders_in_a_terminal_a_notebook_and_a_log() -> None:
    hostile = Edit("The capital of Land1 is", "<b>New</b>", "Old1", "Land1", "capital")
    explained = EditedModel(MODEL, EDITOR, hostile, gate=Named()).explain("The capital of Land1 is")
    page = explained._repr_markdown_()
    assert "<b>" not in page and "&lt;b>" in page
    shown = StringIO()
    Console(width=100, file=shown).print(explained)
    assert all(text in shown.getvalue() for text in ("sigma = 0.0620", "kept", "cut"))
    assert len(re.findall(r"^The .* (kept|cut) +\d+ ", str(explained), re.MULTILINE)) == 16
