"""Every editor by its name, and what all of their prompts have in common."""

import subprocess
import sys
from dataclasses import replace

import pytest

from drike.encoders import HashingEncoder
from drike.errors import UsageError
from drike.prompts import PromptStyle, Role
from drike.research.editors import catalog
from drike.research.editors.budgets import Threshold
from drike.research.editors.dr_ike import Trained
from drike.research.editors.in_context import ranks_retains
from drike.research.editors.meanings import meaning
from drike.research.editors.pool import Pool
from drike.research.editors.query_policy import QueryPolicy
from drike.research.editors.retriever import Retriever
from tests.fakes.capitals import CAPITALS

CASE = CAPITALS[3]
QUERIES = [probe.query for probe in CASE.probes]
ENCODER = HashingEncoder()
POOL = Pool(CAPITALS, ENCODER)


STYLE = PromptStyle(retain="bare")
POLICY = QueryPolicy.untrained(ENCODER, POOL.roles)
TRAINED_WITH = Trained(Retriever(ENCODER, seed=2), Threshold(0.0625), STYLE, per_query=POLICY)
NAMES = [*catalog.NAMES[:-1], "nearest@4"]


@pytest.mark.parametrize("name", NAMES)
def test_prompts_end_in_their_query_and_are_reproducible(name: str) -> None:
    editor = catalog.make(name, pool=POOL, trained=TRAINED_WITH)
    prompts = editor.prompts([CASE.edit], QUERIES)
    assert prompts == editor.prompts([CASE.edit], QUERIES)
    assert len(prompts) == len(QUERIES)
    for prompt, query in zip(prompts, QUERIES, strict=True):
        assert query in prompt.text
        assert prompt.cue is not None or prompt.text.endswith(query)
        left_alone = (
            name in ("by-name-or-alone", "dr-ike-q", "nearest-same-size") and prompt.text == query
        )
        assert (CASE.edit.target_new in prompt.text) == (name != "unedited" and not left_alone)


@pytest.mark.parametrize("name", NAMES)
def test_make_builds_every_listed_editor_and_names_missing_arguments(name: str) -> None:
    made = catalog.make(name, pool=POOL, trained=TRAINED_WITH)
    assert len(made.prompts([CASE.edit], QUERIES)) == len(QUERIES)
    if ranks_retains(made):
        assert made.style == (PromptStyle("ike") if name == "ike" else STYLE), "as in training"
    if name == "dr-ike-q":
        with pytest.raises(UsageError, match="train with `objective` s"):
            catalog.make(name, pool=POOL, trained=replace(TRAINED_WITH, per_query=None))
    if name in (*catalog.TRAINED, "dr-ike-q", "nearest-same-k"):
        with pytest.raises(UsageError, match=f"{name} needs a trained retriever"):
            catalog.make(name, pool=POOL)


def test_every_editor_is_published_or_explained() -> None:
    published = {"Unedited", "FactPrompt", "EditCoT", "IKE", "DR-IKE"}
    made = {catalog.make(name, pool=POOL, trained=TRAINED_WITH).name for name in NAMES}
    assert {name for name in made if meaning(name) is None} == published


@pytest.mark.parametrize(
    "name", ["dr_ike", "nearest", "nearest@", "nearest@0", "nearest@k", "4", ""]
)
def test_make_refuses_unknown_names_and_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match=r"choose from unedited, .*nearest@K"):
        catalog.make(name, pool=POOL, trained=TRAINED_WITH)


def test_the_controls_show_the_nearest_retains() -> None:
    dr_ike, same_k, nearest_4 = (
        catalog.make(name, pool=POOL, trained=TRAINED_WITH)
        for name in ("dr-ike", "nearest-same-k", "nearest@4")
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
    [ike, *_] = catalog.make("ike", pool=POOL).prompts([CASE.edit], QUERIES)
    assert set(prompt.demonstrations) == {
        shown for shown in ike.demonstrations if shown.role is not Role.RETAIN
    }
    assert prompt.shots == 0


def test_editors_without_a_learned_part_need_no_torch() -> None:
    code = (
        "import sys; from drike.research.datasets import load; from drike.research.editors import catalog;"
        "from drike.research.editors.pool import Pool; from drike.encoders import load_encoder;"
        "pool = Pool(load('tinyfacts').split(seed=0, train=0, test=0).demonstrations, load_encoder('hashing'));"
        "made = [catalog.make(name, pool=pool) for name in (*catalog.UNTRAINED, 'by-name', 'no-retains', 'nearest@4')];"
        "edit = __import__('drike').Edit('The capital of Peru is', 'Oslo');"
        "[editor.prompts([edit], ['Who?']) for editor in made];"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
