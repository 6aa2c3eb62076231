from dataclasses import dataclass, replace

import pytest

from drike.demonstrations import Role
from drike.editors import catalog
from drike.editors.budgets import Fraction, Threshold
from drike.editors.editcot import ANSWER_CUE, EditCoT, EditCoTFull
from drike.editors.editor import Editor
from drike.editors.factprompt import FactPrompt
from drike.editors.in_context import InContextEditor, ranks_retains
from drike.editors.pool import Pool
from drike.editors.query_policy import QueryPolicy
from drike.editors.rankers import Similarity
from drike.editors.retriever import Retriever
from drike.editors.role_counts import mixes_of
from drike.editors.selectors import RankAndCut
from drike.editors.unedited import Unedited
from drike.encoders import HashingEncoder
from drike.errors import UsageError
from drike.evaluation.judge import Judge, Question
from drike.prompts import PromptStyle
from tests.worlds.scripted import ScriptedModel
from tests.worlds.small import CAPITALS

CASE = CAPITALS[3]
QUERIES = [probe.query for probe in CASE.probes]
ENCODER = HashingEncoder()
POOL = Pool(CAPITALS, ENCODER)
IKE_ALL = InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike"))
DR_IKE = InContextEditor("DR-IKE", POOL, RankAndCut(Retriever(ENCODER), Threshold(0.05)))

EDITORS: list[Editor] = [
    Unedited(),
    FactPrompt(),
    EditCoT(),
    EditCoTFull(ScriptedModel(str.upper, scores=False)),
    IKE_ALL,
    DR_IKE,
]


@pytest.mark.parametrize("editor", EDITORS, ids=lambda editor: editor.name)
def test_prompts_end_in_their_query_and_are_reproducible(editor: Editor) -> None:
    prompts = editor.prompts([CASE.edit], QUERIES)
    assert prompts == editor.prompts([CASE.edit], QUERIES)
    assert len(prompts) == len(QUERIES)
    for prompt, query in zip(prompts, QUERIES, strict=True):
        assert query in prompt.text
        assert prompt.cue is not None or prompt.text.endswith(query)
        assert (CASE.edit.target_new in prompt.text) == (editor.name not in ("Unedited", "EditCoT (full)"))


@dataclass(frozen=True)
class Trained:
    """The parts of a checkpoint that `make` needs."""

    retriever: Retriever
    budget: Threshold
    style: PromptStyle
    per_query: QueryPolicy | None = None


STYLE = PromptStyle(retain="bare")
TRAINED_WITH = Trained(Retriever(ENCODER, seed=2), Threshold(0.0625), STYLE, QueryPolicy(ENCODER, mixes_of(POOL.roles)))


@pytest.mark.parametrize("name", [*catalog.NAMES[:-1], "nearest@4"])
def test_make_builds_every_listed_editor_and_names_missing_arguments(name: str) -> None:
    made = catalog.make(name, pool=POOL, model=ScriptedModel(str, scores=False), trained=TRAINED_WITH)
    assert len(made.prompts([CASE.edit], QUERIES)) == len(QUERIES)
    if ranks_retains(made):
        assert made.style == (PromptStyle("ike") if name == "ike" else STYLE), "as in training"
    if name == "dr-ike-q":
        with pytest.raises(UsageError, match="train with --objective balanced"):
            catalog.make(name, pool=POOL, trained=replace(TRAINED_WITH, per_query=None))
    if name in (*catalog.TRAINED, "dr-ike-q", "nearest-same-k"):
        with pytest.raises(UsageError, match=f"{name} needs a trained retriever"):
            catalog.make(name, pool=POOL)
    if name == "editcot-full":
        with pytest.raises(UsageError, match="give it the model"):
            catalog.make(name, pool=POOL)


@pytest.mark.parametrize("name", ["dr_ike", "nearest", "nearest@", "nearest@0", "nearest@k", "4", ""])
def test_make_refuses_unknown_names_and_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match=r"choose from unedited, .*nearest@K"):
        catalog.make(name, pool=POOL, trained=TRAINED_WITH)


def test_the_controls_show_the_nearest_retains() -> None:
    dr_ike, same_k, nearest_4 = (
        catalog.make(name, pool=POOL, trained=TRAINED_WITH) for name in ("dr-ike", "nearest-same-k", "nearest@4")
    )
    assert ranks_retains(dr_ike) and ranks_retains(same_k) and ranks_retains(nearest_4)
    counts = set()
    for case in CAPITALS[:10]:
        ours, control = dr_ike.select([case.edit], ["?"])[0], same_k.select([case.edit], ["?"])[0]
        assert control.k == ours.k
        assert control.kept == control.candidates.retains[: ours.k]
        assert nearest_4.select([case.edit], ["?"])[0].kept == control.candidates.retains[:4]
        counts.add(ours.k)
    assert len(counts) > 1, "the test needs edits with different k"
    assert (same_k.name, nearest_4.name) == ("Nearest (k of DR-IKE)", "Nearest, k=4")


def test_copies_and_updates_are_what_ike_shows_without_its_retains() -> None:
    [prompt, *_] = catalog.make("no-retains", pool=POOL).prompts([CASE.edit], QUERIES)
    [ike, *_] = IKE_ALL.prompts([CASE.edit], QUERIES)
    assert set(prompt.demonstrations) == {one for one in ike.demonstrations if one.role is not Role.RETAIN}
    assert prompt.shots == 0


def test_factprompt_adds_one_imagine_line() -> None:
    [prompt] = FactPrompt().prompts([CASE.edit], ["Land3 has the capital"])
    assert prompt.text == "Imagine that The capital of Land3 is New3.\nLand3 has the capital"


def test_all_queries_of_an_edit_share_their_demonstrations() -> None:
    for editor in (IKE_ALL, DR_IKE):
        prompts = editor.prompts([CASE.edit], QUERIES)
        assert len({prompt.demonstrations for prompt in prompts}) == 1
        shared = prompts[0].text.removesuffix(QUERIES[0])
        assert all(prompt.text.startswith(shared) for prompt in prompts)


def test_ike_shows_all_32_demonstrations_with_the_nearest_last() -> None:
    selection = IKE_ALL.select([CASE.edit], ["?"])[0]
    [prompt, *_] = IKE_ALL.prompts([CASE.edit], QUERIES)
    assert prompt.demonstrations == tuple(reversed(selection.candidates.demonstrations))
    assert [sum(d.role is role for d in prompt.demonstrations) for role in Role] == [4, 12, 16]


def test_the_append_layout_shows_copies_updates_then_the_best_retains() -> None:
    selection = DR_IKE.select([CASE.edit], ["?"])[0]
    [prompt, *_] = DR_IKE.prompts([CASE.edit], QUERIES)
    roles = [d.role for d in prompt.demonstrations]
    assert roles == [Role.COPY] * 4 + [Role.UPDATE] * 12 + [Role.RETAIN] * selection.k
    assert prompt.demonstrations[16:] == selection.ranking.retains[: selection.k]
    assert prompt.shots == selection.k == DR_IKE.selector.budget.keep(selection.ranking.probs)


def test_rankings_are_permutations_by_descending_probability() -> None:
    for editor in (IKE_ALL, DR_IKE):
        ranking = editor.select([CASE.edit], ["?"])[0].ranking
        assert sorted(ranking.order) == list(range(16))
        assert list(ranking.probs) == sorted(ranking.probs, reverse=True)
        assert sum(ranking.probs) == pytest.approx(1)
    assert IKE_ALL.select([CASE.edit], ["?"])[0].ranking.order == tuple(range(16))


def test_bare_retains_lose_only_their_header() -> None:
    bare = InContextEditor("bare", POOL, RankAndCut(Similarity(), Fraction(0.5)), PromptStyle(retain="bare"))
    [prompt] = bare.prompts([CASE.edit], QUERIES[:1])
    assert prompt.text.count("New Fact: ") == 4 + 12 + 2
    assert prompt.text.count("Prompt: ") == 4 + 12 + 8 + 2


def test_the_edit_is_stated_once_without_its_own_copy() -> None:
    plain = InContextEditor("plain", POOL, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle(own_copy=False))
    [prompt] = plain.prompts([CASE.edit], ["Land3 has the capital"])
    assert prompt.text.count("The capital of Land3 is New3") == 1


def test_editcot_reads_the_answer_after_its_last_cue() -> None:
    def thinks(prompt: str) -> str:
        if prompt.endswith(f"but the fact changed.\n{ANSWER_CUE}"):
            return "New3."
        return (
            f"It might be {ANSWER_CUE} Old3, but the fact changed.\n{ANSWER_CUE} New3.\n" if "think" in prompt else "?"
        )

    for model in (ScriptedModel(thinks, scores=False), ScriptedModel(thinks)):
        [verdict] = Judge(model).ask([Question(EditCoT().prompts([CASE.edit], QUERIES[:1])[0], "New3", "Old3")])
        assert verdict.correct
        assert verdict.text is not None and verdict.text.strip().startswith("New3")


def test_editcot_output_without_a_cue_has_no_answer() -> None:
    [verdict] = Judge(ScriptedModel(lambda p: "New3 New3", scores=False)).ask(
        [Question(EditCoT().prompts([CASE.edit], QUERIES[:1])[0], "New3")]
    )
    assert not verdict.correct


def test_editcot_full_rewrites_only_thoughts_that_contradict_the_edit() -> None:
    def reasons(prompt: str) -> str:
        if "Relation of the new knowledge" in prompt:
            return "Contradict" if "The capital of Land3" in prompt.split("Thoughts:", maxsplit=1)[0] else "Unrelated"
        if "New thoughts:" in prompt:
            return "Land3 was moved to New3."
        return "Old3 as ever" if "Thoughts:" in prompt else "Old3"

    model = ScriptedModel(reasons, scores=False)
    asked, other = EditCoTFull(model).prompts([CASE.edit], ["The capital of Land3 is", "The capital of Land9 is"])
    assert (asked.calls, other.calls) == (5, 4)
    assert "Land3 was moved to New3." in asked.text and "Old3 as ever" in other.text
    assert len(model.prompts) == 4 + 3
