"""The placement that works on a model is found by the model's own answers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.conversations.rendering import (
    AsBlock,
    AsPlainFacts,
    AsPrompt,
    Facts,
    Occasion,
    Placement,
)
from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.edits.record import EditRecord, EditVersion, StoreError, as_stored
from drike.gateway.proving.questions import EditQuestion
from drike.gateway.proving.tuning import (
    ChosenPlacement,
    Round,
    Tuning,
    gain,
    questions_of,
    save_choice,
    stored_choice,
    trial_of,
    tune,
)
from drike.research.editors.placements import PAIRS, placements, placements_before
from drike.stores.sqlite import SqliteStore
from drike.stores.verifications import QuestionKind
from tests.fakes.capitals import old_object
from tests.fakes.models import ScriptedModel

FACT = re.compile(r"^- (?:Q: )?.*?(Land\d+).*? (New\d)$", re.MULTILINE)
BLOCK = re.compile(r"<corrected-facts .*?</corrected-facts [^>]*>", re.DOTALL)


@cache
def chat_placements() -> Mapping[str, Placement]:
    """Those in blocks, which the scripted models know facts by."""
    served = ScriptedModel(str)
    served.info = replace(served.info, identity={"server": "http://127.0.0.1"})
    return placements_before(served, chat=True)


def record(i: int) -> EditRecord:
    return EditRecord(
        f"Land{i}", f"The capital of Land{i} is", f"New{i % 5}", f"Old{i % 7}", "capital",
        paraphrases=(f"Land{i} has the capital", f"The seat of Land{i} is"), negatives=(f"Land{i} borders",),
    )  # fmt: skip


EDITS = [EditVersion(i, i, 1, "", record(i)) for i in range(1, 61)]


def model(
    obeys: Callable[[str], bool], leaks: Callable[[str], bool] = lambda prompt: False
) -> ScriptedModel:
    """Gives the new object to the fact's subject where it obeys, and to every question where the fact leaks."""

    def rule(prompt: str) -> str:
        question = BLOCK.sub("", prompt).strip().splitlines()[-1].removeprefix("Prompt: ")
        for land, new in FACT.findall(prompt):
            asked = land in question.split() and "borders" not in question
            if (asked and obeys(prompt)) or leaks(prompt):
                return str(new)
        return "Some" if "borders" in question else old_object(question)

    return ScriptedModel(rule, scores=False)


def always(prompt: str) -> bool:
    return True


def tuning(asked: ScriptedModel, **changes: object) -> Tuning:
    own = Tuning(
        asked, chat_placements(), questions_of(EDITS, 64), chat=True, price=0.05, tolerance=0.02
    )
    return replace(own, **changes)  # type: ignore[arg-type]


def last(given_: Tuning) -> Round:
    *_, final = tune(given_)
    return final


@pytest.mark.parametrize(
    ("scripted", "best"),
    [
        (model(lambda prompt: prompt.count("Prompt: ") >= 4), "demonstrations-4"),
        (model(lambda prompt: prompt.count("<corrected-facts ") > 1), "restated"),
        (model(always, leaks=lambda prompt: "- Q: " not in prompt), "question-answer"),
    ],
)
def test_each_model_gets_the_placement_that_it_obeys_with_fewer_calls_than_the_grid(
    scripted: ScriptedModel, best: str
) -> None:
    own = tuning(scripted)
    final = last(own)
    chosen = final.trials[0]
    assert chosen.placement == best and chosen.s == 1
    assert len(scripted.prompts) == final.calls < 0.6 * own.grid
    assert all(trial.gain == 0 and trial.s < 1 for trial in final.trials[final.left :])


def test_among_placements_that_do_equally_well_the_cheapest_is_chosen() -> None:
    final = last(tuning(model(always), price=0.0, tolerance=0.1))
    count = len(chat_placements())
    assert [trial.s for trial in final.trials] == [1.0] * count and final.left == count
    assert final.trials[0].tokens == min(trial.tokens for trial in final.trials)
    assert 0 < final.better <= 0.1 and final.calls < 0.6 * tuning(model(always)).grid, (
        "a tie needs no more questions"
    )


def test_a_question_for_which_the_gate_does_not_find_its_edit_is_asked_as_it_is() -> None:
    """A placement that leaks into all that it stands before is no worse behind a gate."""

    def is_found(question: EditQuestion) -> bool:
        return question.kind.concerns

    leaking = model(
        lambda prompt: "- Q: " not in prompt, leaks=lambda prompt: "- Q: " not in prompt
    )
    assert last(tuning(leaking)).trials[0].s < 1
    final = last(tuning(leaking, is_found=is_found))
    chosen = final.trials[0]
    assert chosen.placement != "question-answer" and chosen.rates == (1, 1, 1)
    others = [prompt for prompt in leaking.prompts[-final.calls :] if prompt.endswith("borders")]
    assert others and not any(map(BLOCK.search, others))


def test_a_price_decides_between_what_works_always_and_what_mostly_does() -> None:
    scripted = model(
        lambda prompt: prompt.count("Prompt: ") >= 2 or not re.search(r"Land\d?[037]\b", prompt)
    )
    dear, cheap = (last(tuning(scripted, price=price)).trials[0] for price in (0.0, 20.0))
    assert (dear.placement, dear.s) == ("demonstrations-2", 1)
    assert cheap.placement == "block" and 0.5 < cheap.s < 1


def test_questions_are_of_the_store_and_each_edit_is_asked_before_one_is_asked_again() -> None:
    questions = questions_of(EDITS, 60)
    by_aspect: Mapping[Aspect, list[EditQuestion]] = {
        aspect: [q for q in questions if q.aspect is aspect] for aspect in ASPECTS_OF_S
    }
    assert {aspect: len(found) for aspect, found in by_aspect.items()} == dict.fromkeys(
        ASPECTS_OF_S, 60
    )
    for of_kind in by_aspect.values():
        assert {question.edit.id for question in of_kind} == set(range(1, 61))
    assert all(q.text == q.edit.record.query for q in by_aspect[Aspect.REWRITE])
    assert all(q.text in q.edit.record.paraphrases for q in by_aspect[Aspect.PARAPHRASE])
    assert all(q.text in q.edit.record.negatives for q in by_aspect[Aspect.NEIGHBORHOOD])
    more = [q for q in questions_of(EDITS, 180) if q.aspect is Aspect.NEIGHBORHOOD]
    neighbours = [q for q in more if q.text.startswith("The capital of")]
    assert len(neighbours) == 60 and not any(
        q.edit.record.subject in q.text.split() for q in neighbours
    )
    assert questions == questions_of(EDITS, 60) != questions_of(EDITS, 60, seed=1)


def test_a_store_without_wordings_is_asked_what_there_is() -> None:
    bare = [replace(edit, record=replace(edit.record, paraphrases=())) for edit in EDITS]
    own = tuning(model(always), questions=questions_of(bare, 8))
    assert own.kinds == ("own query", "other question") and len(last(own).trials[0].rates) == 2


@pytest.mark.parametrize(("rate", "questions"), [(0.5, 16), (0.8, 32)])
@pytest.mark.slow
def test_the_best_placement_is_left_out_as_seldom_as_the_confidence_says(
    rate: float, questions: int
) -> None:
    draw = random.Random(0)
    lost, times = 0, 60
    for _ in range(times):
        lucky = ScriptedModel(
            lambda prompt: "New1" if draw.random() < rate else "Old1", scores=False
        )
        own = tuning(
            lucky,
            questions=[EditQuestion(EDITS[0], QuestionKind.QUERY, "The capital of Land1 is")]
            * questions,
            price=0.0,
        )
        lost += last(own).left < len(chat_placements())
    assert lost <= 0.2 * times, "all placements are as good as the best one"


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_no_gain_is_below_what_the_answers_show(pairs: list[tuple[bool, bool]]) -> None:
    kinds = [Aspect.REWRITE if i % 2 else Aspect.NEIGHBORHOOD for i in range(len(pairs))]
    tried = [[pair[i] for pair in pairs] for i in range(2)]
    s_of = {place: trial_of("", kinds, right, 0).s for place, right in enumerate(tried)}
    other, best = sorted(s_of, key=s_of.__getitem__)
    most = gain(kinds, tried[best], tried[other], level=0.99, dearer=0.0)
    assert s_of[best] - s_of[other] >= -most
    if tried[best] == tried[other]:
        assert most > 0


@pytest.mark.parametrize("chat", [True, False])
def test_every_placement_states_the_fact_and_ends_with_the_question(chat: bool) -> None:
    question, edit = "The seat of Land1 is", EDITS[0]
    for placement in placements(chat).values():
        around = placement.around(Facts((edit,), question), question, "default")
        text = f"{around.before}{question}{around.behind}"
        assert "New1" in around.before and BLOCK.sub("", text).strip().endswith(question)


def test_facts_as_pairs_stand_behind_sources_and_before_challenges_as_ever() -> None:
    for occasion in (Occasion.SOURCE, Occasion.CHALLENGE):
        facts = Facts((EDITS[0],), "The seat of Land1 is", occasion)
        both = chat_placements()["question-answer"], AsBlock()
        own, usual = (placement.around(facts, "Are you sure?", "default") for placement in both)
        assert bool(own.before) == bool(usual.before) and bool(own.behind) == bool(usual.behind)


def test_a_plain_list_is_for_models_that_nobody_else_asks() -> None:
    local = placements_before(ScriptedModel(str), chat=True)
    assert local.keys() - chat_placements().keys() == {"plain"}
    around = local["plain"].around(Facts((EDITS[0],), "What?"), "What?", "default")
    assert around.before == (
        "Facts:\n- The capital of Land1 is New1.\n\n"
        "Answer by these facts where they concern the question: "
    )
    assert not around.behind


def test_a_fact_that_is_stored_as_a_question_is_stated_as_a_sentence() -> None:
    question = EditRecord("Acme", "Who leads Acme?", "Marta", "Tomas")
    [edit] = as_stored([question.edit])
    for placement in (AsBlock(), AsPlainFacts()):
        around = placement.around(Facts((edit,), "Who runs Acme?"), "Who runs Acme?", "default")
        assert '- The answer to "Who leads Acme?" is Marta' in around.before


def test_pairs_are_lines_before_the_question() -> None:
    around = AsPrompt(PAIRS).around(Facts((EDITS[0],), "What?"), "What?", "default")
    assert around.before == "The capital of Land1 is New1\n" and not around.behind


def test_a_store_keeps_its_choice(tmp_path: Path) -> None:
    final = last(tuning(model(always), questions=questions_of(EDITS, 4)))
    choice = ChosenPlacement(
        "block",
        "m",
        None,
        True,
        "2026-11-23T00:00:00Z",
        4,
        ("own query", "wording", "other question"),
        final.trials,
        final.calls,
        99,
        0.95,
        0.5,
    )
    store = SqliteStore(tmp_path / "edits.db")
    assert stored_choice(store, placements) is None
    save_choice(store, choice)
    assert stored_choice(store, placements) == choice
    store.settings.save("placement", '{"placement": "block"}')
    with pytest.raises(StoreError, match="choose again"):
        stored_choice(store, placements)
    save_choice(store, replace(choice, placement="nowhere"))
    with pytest.raises(StoreError, match="nowhere is unknown"):
        stored_choice(store, placements)
    save_choice(store, None)
    assert stored_choice(store, placements) is None
    store.close()
