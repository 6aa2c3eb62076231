"""The reader: parses prompts in training's layout and weighs evidence as its docstring says."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from drike.edits.edit import Edit
from drike.models.protocols import Request
from drike.models.reader import BayesianReader, Observer, firmness_of
from drike.prompts import PromptStyle
from drike.research.editors.editcot import EditCoT
from drike.research.editors.factprompt import FactPrompt
from drike.tinyfacts import TEMPLATES, facts
from tools.tinyfacts import build
from tools.tinyfacts.documents import Kit, draw, label

FACTS = [
    ("P19", "Ada", "London"), ("P19", "Ben", "London"), ("P19", "Cy", "Paris"), ("P19", "Dot", "Rome"),
    ("P103", "Ada", "English"), ("P103", "Eve", "French"), ("P103", "Fay", "French"),
]  # fmt: skip
WORDS = {
    "P19": ["{} was born in", "The birthplace of {} is", "{} comes from the town of"],
    "P103": ["{} grew up speaking", "The first language of {} is", "At home {} spoke"],
}
READER = BayesianReader(FACTS, WORDS)
EDIT = "New Fact: Ada was born in Paris\nPrompt: "
QUERIES = {
    "copy": "Ada was born in",
    "paraphrase": "The birthplace of Ada is",
    "neighbour": "Ben was born in",
}
KEPT_OWN = "New Fact: Ben was born in Rome\nPrompt: Ben was born in London\n\n"
KEPT_SAME = "New Fact: Cy was born in Rome\nPrompt: Cy was born in Paris\n\n"
KEPT_OTHER = "New Fact: Eve grew up speaking English\nPrompt: Fay grew up speaking French\n\n"
ADOPTED = "New Fact: Dot was born in Paris\nPrompt: The birthplace of Dot is Paris\n\n"
BLOCKS = [KEPT_OWN, KEPT_SAME, KEPT_OTHER, ADOPTED]


@cache
def world() -> tuple[Kit, Tokenizer]:
    return build.kit()


@cache
def tiny() -> BayesianReader:
    return BayesianReader(facts(), TEMPLATES)


def probability_new(reader: BayesianReader, prompt: str) -> float:
    parsed = reader.read(prompt)
    assert parsed is not None, "not a TinyFacts prompt"
    return parsed.probability


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def p(*blocks: str, query: str = "copy") -> float:
    return probability_new(READER, "".join(blocks) + EDIT + QUERIES[query])


def test_the_reader_is_a_scoring_model() -> None:
    assert READER.score is not None


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("block", BLOCKS[:3])
def test_retains_lower_and_updates_raise_the_probability_of_the_new_object(
    query: str, block: str
) -> None:
    assert (
        p(ADOPTED, block, query=query) < p(ADOPTED, query=query) < p(ADOPTED, ADOPTED, query=query)
    )


@pytest.mark.parametrize("query", QUERIES)
def test_retains_of_the_same_object_weigh_most_and_of_another_relation_least(query: str) -> None:
    own, same, other = (
        p(ADOPTED, block, query=query) for block in (KEPT_OWN, KEPT_SAME, KEPT_OTHER)
    )
    assert own < same < other


def test_copies_keep_the_edit_best_then_paraphrases_then_neighbours() -> None:
    for blocks in itertools.product(BLOCKS, repeat=2):
        assert (
            p(*blocks, query="copy")
            > p(*blocks, query="paraphrase")
            > p(*blocks, query="neighbour")
        )


@given(st.permutations([*BLOCKS, *BLOCKS]), st.sampled_from(sorted(QUERIES)))
def test_the_order_of_demonstrations_does_not_matter_to_the_reader(
    blocks: list[str], query: str
) -> None:
    assert math.isclose(p(*blocks, query=query), p(*BLOCKS, *BLOCKS, query=query), rel_tol=1e-9)


def test_the_readers_probability_equals_the_formula() -> None:
    observer = Observer()
    weights = observer.own
    firmness = firmness_of(["P19", "P103"])["P19"]
    credence_of_copy = observer.credence["in-context"][0]
    mu = sigmoid(credence_of_copy - observer.firmness * firmness)
    k0 = observer.anchor[0]
    adopted = k0 * mu + weights.adopted_same
    total = k0 + weights.adopted_same + weights.kept_object + weights.kept_other
    share = adopted / total
    logit = math.log(share / (1 - share))
    expected = sigmoid(observer.sharpness * logit)
    assert math.isclose(p(ADOPTED, KEPT_OWN, KEPT_OTHER), expected)


def test_the_unedited_reader_knows_every_fact_in_every_wording() -> None:
    asked = [
        (template.format(f.subject), f.object)
        for f in facts()
        for template in TEMPLATES[f.relation]
    ]
    written = tiny().generate([query for query, _ in asked])
    assert [c.text for c in written] == [f" {answer}" for _, answer in asked]


@pytest.mark.parametrize(
    "frame", ["Imagine that {f} Paris.\n{q}", "New Fact: {f} Paris\nPrompt: {q}"]
)
def test_the_readers_two_probabilities_sum_to_1_and_it_writes_the_greedier(frame: str) -> None:
    for query in QUERIES.values():
        prompt = frame.format(f=QUERIES["copy"], q=query)
        new, true, odd = READER.score(
            [Request(prompt, f" {o}") for o in ("Paris", "London", "Rome")]
        )
        assert math.isclose(math.exp(new.logprob) + math.exp(true.logprob), 1)
        assert new.greedy != true.greedy
        assert not odd.greedy
        assert math.isclose(new.logit_gap, -true.logit_gap)
        assert READER.generate([prompt])[0].text == (" Paris" if new.greedy else " London")


def test_a_chain_of_thought_ends_in_the_same_answer_as_its_cue() -> None:
    prompt = EditCoT().prompts([Edit(QUERIES["copy"], "Paris")], [QUERIES["paraphrase"]])[0].text
    answer = READER.generate([f"{prompt}\nAnswer:"])[0].text
    assert READER.generate([prompt])[0].text == f"\nAnswer:{answer}"


def test_the_reader_answers_nothing_to_unknown_prompts() -> None:
    assert READER.read("The capital of Peru is") is None
    assert READER.generate(["The capital of Peru is"])[0].text == ""
    assert not READER.score([Request("The capital of Peru is", " Lima")])[0].greedy


def test_firmness_values_are_evenly_spaced() -> None:
    values = sorted(firmness_of(sorted(TEMPLATES)).values())
    assert np.allclose(np.diff(values), 2 / (len(TEMPLATES) - 1))
    assert (values[0], values[-1]) == (-1, 1)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 30))
def test_the_reader_agrees_with_the_label_of_every_training_document(seed: int, n: int) -> None:
    kit, tokenizer = world()
    rng = np.random.default_rng(seed)
    document = label(kit, rng, draw(kit, rng, n))
    for last, want in zip(document.last.tolist(), document.p.tolist(), strict=True):
        text = tokenizer.decode(document.ids[: last + 1].tolist())
        assert math.isclose(probability_new(tiny(), text), want, rel_tol=1e-9)


def test_of_several_facts_the_reader_takes_the_one_that_is_asked_for() -> None:
    edits = [
        Edit("Ben was born in", "Rome"),
        Edit("Ada was born in", "Paris"),
        Edit("Eve grew up speaking", "English"),
    ]
    for prompts in (
        FactPrompt().prompts,
        EditCoT().prompts,
        lambda edits, queries: PromptStyle(own_copy=False).write(edits, (), queries),
    ):
        [together], [alone] = (
            prompts(edits, [QUERIES["paraphrase"]]),
            prompts(edits[1:2], [QUERIES["paraphrase"]]),
        )
        parsed = READER.read(together.text)
        assert parsed is not None and parsed.new == "Paris"
        assert parsed == READER.read(alone.text)
