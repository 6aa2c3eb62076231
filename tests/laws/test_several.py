"""Several edits in force for one question: what prompts state and show, and how long they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.lib.credit import every_probe
from benchmarks.lib.editcot import EditCoTFull
from drike.encoders import HashingEncoder
from drike.prompts import Demonstration, PromptStyle, Role, interleave
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.editcot import EditCoT
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut, RoleCounts, SubjectSwitch
from drike.research.evaluation.case_answers import answers_under
from drike.research.training.algorithm1 import rewrite_reward, train
from tests.fakes.capitals import CAPITALS
from tests.fakes.models import ScriptedModel

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS, ENCODER)
EDITS = [CAPITALS[i].edit for i in (3, 20, 41)]
QUERIES = ["Land3 has the capital", "The capital of Land50 is"]
ALL, NONE = RoleCounts(4, 12, 16), RoleCounts(0, 0, 0)

SHOWING: list[InContextEditor] = [
    InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike")),
    InContextEditor("DR-IKE", POOL, RankAndCut(Retriever(ENCODER), Threshold(0.0625))),
    InContextEditor("by name", POOL, SubjectSwitch(RoleCounts(4, 12, 0), RoleCounts(0, 0, 16))),
    InContextEditor("named only", POOL, SubjectSwitch(ALL, NONE)),
]
STATING: list[Editor] = [FactPrompt(), EditCoT(), *SHOWING]


@pytest.mark.parametrize("editor", STATING, ids=lambda editor: editor.name)
def test_every_prompt_states_all_facts_and_no_edits_are_refused(editor: Editor) -> None:
    for prompt, query in zip(editor.prompts(EDITS, QUERIES), QUERIES, strict=True):
        assert all(edit.fact in prompt.text for edit in EDITS)
        assert query in prompt.text.rsplit("New Fact: ", 1)[-1]
    with pytest.raises(ValueError, match="needs at least one edit"):
        editor.prompts([], QUERIES)


def test_the_wording_for_several_facts() -> None:
    first, second, _ = EDITS
    [imagined] = FactPrompt().prompts([first, second], ["Who?"])
    assert imagined.text == (
        "Imagine that The capital of Land3 is New3.\nImagine that The capital of Land20 is New0.\nWho?"
    )
    [reasoned] = EditCoT().prompts([first, second], ["Who?"])
    assert reasoned.text.startswith(
        "A fact has changed: The capital of Land3 is New3.\nA fact has changed: The capital of Land20 is New0.\n"
        "Everything that does not depend on these facts is as it was.\n"
    )
    [bare] = PromptStyle().write([first, second], (), ["Who?"])
    facts = "New Fact: The capital of Land3 is New3\nNew Fact: The capital of Land20 is New0\nPrompt: Who?"
    assert bare.text == (
        "New Fact: The capital of Land3 is New3\nPrompt: The capital of Land3 is New3\n\n"
        f"New Fact: The capital of Land20 is New0\nPrompt: The capital of Land20 is New0\n\n{facts}"
    )
    assert PromptStyle(own_copy=False).write([first, second], (), ["Who?"])[0].text == facts


def test_editcot_full_weighs_its_thoughts_against_all_facts() -> None:
    model = ScriptedModel(lambda prompt: "Contradict", scores=False)
    EditCoTFull(model).prompts(EDITS[:2], QUERIES[:1])
    knowledge = "New knowledge: The capital of Land3 is New3. The capital of Land20 is New0.\n"
    assert sum(knowledge in prompt for prompt in model.prompts) == 2
    with pytest.raises(ValueError, match="needs at least one edit"):
        EditCoTFull(model).prompts([], QUERIES)


@pytest.mark.parametrize("editor", SHOWING, ids=lambda editor: editor.name)
def test_edits_share_the_demonstrations_of_one(editor: InContextEditor) -> None:
    """As many of each role as one edit shows, from each of them, and none about any of their subjects."""
    alone = [editor.prompts([edit], QUERIES) for edit in EDITS]
    pools = [{d.case_id for d in pool.demonstrations} for pool in POOL.together(EDITS)]
    for i, prompt in enumerate(editor.prompts(EDITS, QUERIES)):
        shown = prompt.demonstrations
        assert len({*shown}) == len(shown)
        for role in Role:
            of_each = [sum(d.role is role for d in prompts[i].demonstrations) for prompts in alone]
            # Beside the others an edit loses the records that state them, so what it shows alone may differ by one.
            assert min(of_each) - 1 <= sum(d.role is role for d in shown) <= max(of_each) + 1
        for d in shown:
            assert not {edit.subject for edit in EDITS} & {*d.query.split(), *d.fact.split()}
        if len(shown) >= len(EDITS):
            assert all(any(d.case_id in pool for d in shown) for pool in pools)


@pytest.mark.parametrize("editor", SHOWING[:2], ids=lambda editor: editor.name)
def test_each_edit_gives_its_best_retains(editor: InContextEditor[RankAndCut]) -> None:
    [selection] = editor.select(EDITS, ["?"])
    assert selection.candidates.edits == tuple(EDITS)
    similarities = selection.candidates.similarities
    assert list(similarities) == sorted(similarities, reverse=True)
    retains = selection.candidates.retains
    assert [retains[i] for i in selection.ranking.order] == [*selection.ranking.retains]
    rewritten = [d.fact for d in selection.candidates.fixed]
    for pool in POOL.together(EDITS):
        ranked = editor.selector.ranker.rank(pool).retains
        usable = (
            d for d in ranked if not any(fact.startswith(f"{d.query} ") for fact in rewritten)
        )
        assert next(usable) in selection.ranking.retains[: len(EDITS)]


@pytest.mark.parametrize("tokens", [1, 150, 300])
def test_a_token_limit_holds_for_several_edits(tokens: int) -> None:
    limit = TokenLimit(tokens, lambda texts: [len(text.split()) for text in texts])
    for editor in (
        InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), limit=limit),
        InContextEditor("all", POOL, SubjectSwitch(ALL, ALL), limit=limit),
    ):
        prompts = editor.prompts(EDITS, QUERIES)
        words = max(len(prompt.text.split()) for prompt in prompts)
        assert words <= tokens or all(prompt.shots <= 1 for prompt in prompts)
        assert all(prompt.pruned for prompt in prompts) or words <= tokens


def test_records_that_state_any_of_the_edits_do_not_demonstrate() -> None:
    alone, beside = POOL.candidates([EDITS[0]])[0], POOL.together(EDITS)[0]
    assert (alone.edits, beside.edits) == ((EDITS[0],), tuple(EDITS))
    assert {"20", "41"} & {d.case_id for d in alone.demonstrations}, (
        "the test needs a record that states another edit"
    )
    assert not {"3", "20", "41"} & {d.case_id for d in beside.demonstrations}
    assert POOL.together(EDITS[:1]) == [alone]


def test_retains_do_not_contradict_what_the_copies_and_updates_of_another_edit_state() -> None:
    def shown(role: Role, number: int, about: int) -> Demonstration:
        fact = f"The capital of Land{number} is New"
        return Demonstration(role, fact, f"The capital of Land{about} is", "x", str(number))

    one = [shown(Role.COPY, 1, 1), shown(Role.RETAIN, 2, 3), shown(Role.RETAIN, 2, 10)]
    other = [shown(Role.COPY, 3, 3), shown(Role.RETAIN, 4, 1), shown(Role.RETAIN, 4, 5)]
    assert [d.query for d in interleave([one, other])] == [
        "The capital of Land1 is", "The capital of Land3 is", "The capital of Land5 is",
    ]  # fmt: skip
    assert interleave([one]) == tuple(one)


def both_stated(prompt: str) -> bool:
    *_, last = prompt.split("\n\n")
    return all(f"New Fact: {edit.fact}\n" in last for edit in EDITS[:2])


def test_training_on_a_case_with_several_edits_states_them_all() -> None:
    case = replace(CAPITALS[3], other_edits=(EDITS[1],))
    assert case.edits == tuple(EDITS[:2])
    model = ScriptedModel(lambda prompt: "New3")
    retriever = Retriever(ENCODER)
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(retriever, Threshold(0.0625)))
    for reward in (rewrite_reward(model), every_probe(model)):
        assert len(list(train(editor, reward, [case, CAPITALS[3]], epochs=1))) == 2
    assert retriever.trained_on == {edit.key for edit in case.edits}
    stated = [both_stated(prompt) for prompt in model.prompts]
    assert any(stated) and not all(stated)
    model.prompts.clear()
    [answers] = answers_under([NONE, ALL], model, POOL, [case])
    assert len(answers.correct) == len(case.probes) and all(map(both_stated, model.prompts))
    shown = InContextEditor("all", POOL, SubjectSwitch(ALL, ALL)).prompts(
        case.edits, [case.probes[0].query]
    )[0]
    assert shown.text in model.prompts, "training asks what evaluation asks"
