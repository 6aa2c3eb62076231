"""TinyFacts: rows, tokens and documents match their docstrings; training and check run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from drike.models.reader import NEIGHBOUR, BayesianReader
from drike.research.datasets import load
from drike.tinyfacts import EDITABLE, MODEL, ROWS, TEMPLATES, facts
from tools.tinyfacts.build import build, kit, save
from tools.tinyfacts.check import demonstrations_for, held_out, measure
from tools.tinyfacts.documents import Kit, draw, imagined, label, statements
from tools.tinyfacts.llama import CONTEXT, forward, logits_at, new_model
from tools.tinyfacts.muon import orthogonalise
from tools.tinyfacts.neighbours import NEAREST, load_neighbours, nearest_rows
from tools.tinyfacts.train import Stage
from tools.tinyfacts.world import make_rows, other_templates

SHARED = Path(__file__).parents[3] / "shared" / "datasets"


@cache
def world() -> tuple[Kit, Tokenizer]:
    return kit()


@cache
def rows() -> list[dict]:
    return json.loads(ROWS.read_text("utf-8"))


def true_facts() -> dict[tuple[str, str], str]:
    return {(f.relation, f.subject): f.object for f in facts()}


def test_each_subject_has_one_object_per_relation_and_each_object_three_subjects() -> None:
    assert len(true_facts()) == len(facts())
    assert min(Counter((f.relation, f.object) for f in facts()).values()) >= 3
    assert {f.relation for f in facts()} == set(TEMPLATES)
    assert all(
        f.subject.isascii() and len(f.subject.split()) <= 4 and " " not in f.object for f in facts()
    )


def test_wordings_are_distinct_and_end_just_before_the_object() -> None:
    both = TEMPLATES, other_templates()
    every = [template for templates in both for group in templates.values() for template in group]
    assert len(set(every)) == len(every) == 2 * 6 * len(TEMPLATES)
    assert all(template.count("{}") == 1 and template == template.strip() for template in every)
    said = [
        t.format(f.subject) for templates in both for f in facts() for t in templates[f.relation]
    ]
    assert len(set(said)) == len(said)


@pytest.mark.skipif(not SHARED.exists(), reason="the published data sets are not on this machine")
def test_no_wording_comes_from_counterfact() -> None:
    published = set()
    for name in ("edit", "train"):
        for row in json.loads((SHARED / f"counterfact_flat_{name}.json").read_text("utf-8")):
            published.add(row["prompt"].replace(row["subject"], "{}", 1))
    ours = TEMPLATES, other_templates()
    assert not published & {
        template for templates in ours for group in templates.values() for template in group
    }


def test_the_stored_rows_equal_the_generated_ones() -> None:
    assert rows() == make_rows()


def test_all_rows_load_in_order() -> None:
    data = load(ROWS)
    assert [case.case_id for case in data.cases] == [str(i) for i in range(len(facts()))]
    assert data.dropped == ()
    raw = load(ROWS, cleaning=False)
    assert data.cases == raw.cases, "nothing needs cleaning"


def test_probes_ask_about_the_facts_of_their_rows() -> None:
    true = true_facts()
    asked = {t.format(f.subject): f for f in facts() for t in TEMPLATES[f.relation]}
    for case in load(ROWS, cleaning=False).cases:
        edit = case.edit
        assert true[edit.relation or "", edit.subject or ""] == edit.target_true != edit.target_new
        assert edit.target_new in {f.object for f in facts() if f.relation == edit.relation}
        assert {asked[probe.query].subject for probe in case.paraphrases} == {edit.subject}
        assert len(case.neighborhood) >= 2
        for probe in case.neighborhood:
            fact = asked[probe.query]
            assert fact.subject != edit.subject
            assert (fact.relation, fact.object) == (edit.relation, edit.target_true)


def test_no_demonstration_row_shows_an_editable_fact() -> None:
    cases = load(ROWS, cleaning=False).cases
    asked = {t.format(f.subject): f for f in facts() for t in TEMPLATES[f.relation]}
    editable = {asked[case.edit.query] for case in cases[:EDITABLE]}
    shown = {asked[probe.query] for case in cases[EDITABLE:] for probe in case.probes}
    assert len(editable) == EDITABLE
    assert not editable & shown


def test_nearest_rows_are_demonstration_rows_about_something_else() -> None:
    index = load_neighbours()
    assert index.shape == (len(rows()), NEAREST)
    assert index.min() >= EDITABLE
    keys = [
        (r["requested_rewrite"]["subject"], r["requested_rewrite"]["relation_id"]) for r in rows()
    ]
    for i, near in enumerate(index.tolist()):
        assert len(set(near)) == NEAREST
        assert keys[i] not in {keys[j] for j in near}


@pytest.mark.slow
def test_nearest_rows_follow_the_encoder() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((len(rows()), 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = nearest_rows(lambda texts: vectors)
    similarity = np.take_along_axis(vectors @ vectors.T, index.astype(np.int64), axis=1)
    assert (np.diff(similarity, axis=1) <= 0).all()


@pytest.mark.slow
def test_objects_are_one_token_and_encoding_is_piecewise() -> None:
    _, tokenizer = world()
    assert all(len(tokenizer.encode(f" {f.object}").ids) == 1 for f in facts())
    rng = np.random.default_rng(0)
    for n in (0, 3, 20):
        ids = label(world()[0], rng, draw(world()[0], rng, n)).ids.tolist()
        assert tokenizer.encode(tokenizer.decode(ids)).ids == ids
    for text in ("Zürich – ok?\n", "New Fact: x\n\nPrompt: 12'3"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.slow
def test_training_documents_contain_no_editable_fact_and_no_held_out_wording() -> None:
    world_kit, tokenizer = world()
    rng = np.random.default_rng(1)
    hidden = [
        t.format(f.subject)
        for f in world_kit.wordings.facts[:EDITABLE]
        for t in TEMPLATES[f.relation]
    ]
    texts = [
        tokenizer.decode(label(world_kit, rng, draw(world_kit, rng, 20)).ids.tolist())
        for _ in range(50)
    ]
    texts += [
        tokenizer.decode(imagined(world_kit, rng, thought)[0])
        for thought in (False, True)
        for _ in range(50)
    ]
    together = "\n".join(texts)
    assert not [sentence for sentence in hidden if sentence in together]
    plain = "".join(tokenizer.decode(statements(world_kit, rng, 500)[0]) for _ in range(10))
    for fact in world_kit.wordings.facts[:EDITABLE]:
        assert TEMPLATES[fact.relation][5].format(fact.subject) not in plain


@pytest.mark.slow
def test_document_labels_point_at_the_stated_objects() -> None:
    world_kit, _ = world()
    rng = np.random.default_rng(2)
    for n in (0, 5, 32):
        d = label(world_kit, rng, draw(world_kit, rng, n))
        assert (d.ids[d.answer] == np.where(d.adopted, d.new, d.true)).all()
        assert (d.ids[d.fact_object] == d.new).all()
        same = d.ids[d.fact_subject] == d.ids[d.asked_subject]
        assert same[d.kind != NEIGHBOUR].all()
        assert np.allclose(d.attention.sum(1), 1)
        assert (np.triu(d.attention[:, :-1]) == 0).all(), "later positions must have no weight"


def test_the_builders_forward_equals_transformers_llama() -> None:
    model = new_model(0).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
        ids = torch.randint(1, model.config.vocab_size, (2, 40))
        ours = logits_at(model, forward(model, ids).hidden[-1].flatten(0, 1))
        theirs = model(ids).logits.flatten(0, 1)
    assert (ours - theirs).abs().max() < 0.02 * theirs.abs().max()


def test_muon_orthogonalises_its_steps() -> None:
    values = torch.linalg.svdvals(orthogonalise(torch.randn(2, 30, 50)))
    assert 0.5 < values.min() < values.max() < 1.3


@pytest.mark.slow
def test_a_short_build_is_deterministic_and_loads(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    stages = (Stage(1, 2), Stage(1, 3, 2, 256, (128,)))
    losses = []
    for name in ("a", "b"):
        steps = list(build(tmp_path / name, threads=1, curriculum=stages))
        losses.append([(step.parts, step.plain) for step in steps])
    assert losses[0] == losses[1]
    assert [step.step for step in steps] == [1, 2]
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b"}
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "a")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "a")
    assert model.config.max_position_embeddings == CONTEXT == tokenizer.model_max_length
    assert tokenizer("New Fact: x").input_ids == world()[1].encode("New Fact: x").ids


@pytest.mark.slow
def test_the_other_model_is_narrower_and_its_rows_state_the_same_edits_in_other_words(
    tmp_path: Path,
) -> None:
    out = tmp_path / "other"
    list(build(out, seed=1, threads=1, curriculum=(Stage(1, 2),), other=True))
    assert (
        json.loads((out / "config.json").read_text("utf-8"))["hidden_size"]
        < new_model(0).config.hidden_size
    )
    usual, other = load(ROWS, cleaning=False).cases, load(out / "rows.json", cleaning=False).cases
    assert [replace(c.edit, query="") for c in other] == [replace(c.edit, query="") for c in usual]
    said = {t.format(f.subject) for f in facts() for t in other_templates()[f.relation]}
    assert {probe.query for case in other for probe in case.probes} <= said


@pytest.mark.skipif(not MODEL.exists(), reason="the embedded model is not built yet")
def test_saving_replaces_the_whole_folder(tmp_path: Path) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "old").touch()
    save(new_model(0), Tokenizer.from_file(str(MODEL / "tokenizer.json")), out, {})
    assert not (out / "old").exists()
    assert (out / "model.safetensors").exists()


@pytest.mark.slow
def test_the_reader_meets_every_requirement() -> None:
    measures = list(measure(BayesianReader(facts(), TEMPLATES), held_out()[::2]))
    assert [m.name for m in measures if not m.ok] == []
    values = {m.name: m.value for m in measures}
    assert values["random 3 retains: edits mixed on rewrite or paraphrase"] >= 0.25
    assert values["random 3 retains: best of 12 minus mean, PC"] >= 0.10


def test_demonstrations_are_chosen_without_an_encoder() -> None:
    cases = load(ROWS, cleaning=False).cases
    dealt = demonstrations_for(cases, 0)
    assert dealt == demonstrations_for(cases, 0)
    assert (len(dealt.fixed), len(dealt.retains)) == (16, 16)


@pytest.mark.skipif(not MODEL.exists(), reason="the embedded model is not built yet")
def test_the_embedded_model_knows_its_facts_and_takes_an_edit() -> None:
    from drike.models.local.huggingface import load as load_model
    from drike.prompts import Prompt, PromptStyle
    from drike.research.evaluation.judge import Judge, Question

    model = load_model(str(MODEL))
    cases = load(ROWS, cleaning=False).cases[:50]
    known = Judge(model).ask(
        [Question(Prompt(c.edit.query), c.edit.target_true or "") for c in cases]
    )
    assert sum(verdict.correct for verdict in known) >= 47
    every = load(ROWS).cases
    edited = [
        Question(
            PromptStyle().show(demonstrations_for(every, i), (), [case.edit.query])[0],
            case.edit.target_new,
        )
        for i, case in enumerate(cases[:10])
    ]
    assert sum(verdict.correct for verdict in Judge(model).ask(edited)) >= 9
