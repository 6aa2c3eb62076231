"""Case studies: one model call, with effects equal to those of scoring both prompts separately."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from drike.cli import main
from drike.editors.budgets import Fraction, Threshold, TokenLimit
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool
from drike.editors.rankers import Similarity
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.edits import Aspect
from drike.encoders import HashingEncoder
from drike.evaluation.case_study import CaseStudy, study_case
from drike.evaluation.judge import Judge, Question
from drike.models.protocols import LanguageModel
from drike.prompts import ORDERS, Layout, OrderName, PromptStyle, demonstration_block
from tests.worlds.scripted import ScriptedModel
from tests.worlds.small import CAPITALS, follows_the_fact, old_object

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[10:], ENCODER)
EDITORS = (
    InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike")),
    InContextEditor("DR-IKE", POOL, RankAndCut(Retriever(ENCODER), Threshold(0.0625))),
)
CASE = CAPITALS[3]


def confused_by_many(prompt: str) -> str:
    """Follows the fact unless the prompt holds an even number of lines that keep an old object."""
    kept = sum(line.rpartition(" ")[2].startswith("Old") for line in prompt.splitlines())
    return follows_the_fact(prompt) if kept % 2 else old_object(prompt.splitlines()[-1])


@pytest.fixture(scope="module")
def made() -> CaseStudy:
    return study_case(ScriptedModel(confused_by_many), CASE, EDITORS)


def test_a_case_study_makes_one_model_call() -> None:
    model = ScriptedModel(confused_by_many)
    study_case(model, CASE, EDITORS)
    assert model.calls == 2, "one call to score, one to generate answers to the unchanged prompts"
    writer = ScriptedModel(confused_by_many, scores=False)
    study_case(writer, CASE, EDITORS)
    assert writer.calls == 1
    versions = 1 + sum(1 + len(editor.select([CASE.edit], ["?"])[0].ranking.retains) for editor in EDITORS)
    assert len(writer.prompts) == versions * len(CASE.probes)


@pytest.mark.parametrize("at", [0, 1])
def test_an_effect_equals_the_difference_between_two_prompts_scored_separately(made: CaseStudy, at: int) -> None:
    editor, column = EDITORS[at], made.columns[at]
    selection = editor.select([CASE.edit], ["?"])[0]
    ranked = selection.ranking.retains
    assert [one.demonstration for one in column.retains] == list(ranked)
    for j, one in enumerate(column.retains):
        having = [r for i, r in enumerate(ranked) if i < selection.k or i == j]
        verdicts = []
        for kept in (having, [r for r in having if r != ranked[j]]):
            prompts = editor.style.show(selection.candidates, kept, [probe.query for probe in CASE.probes])
            questions = [Question(p, probe.target) for p, probe in zip(prompts, CASE.probes, strict=True)]
            verdicts.append(Judge(ScriptedModel(confused_by_many)).ask(questions))
        for n, (yes, no) in enumerate(zip(*verdicts, strict=True)):
            assert yes.score is not None and no.score is not None
            assert one.effect.nats[n] == yes.score.logprob - no.score.logprob
            assert (one.effect.gained[n], one.effect.lost[n]) == (
                yes.correct and not no.correct,
                no.correct and not yes.correct,
            )
    assert any(any(one.effect.gained) or any(one.effect.lost) for one in column.retains)


@pytest.mark.parametrize("layout", ["append", "ike"])
@pytest.mark.parametrize("order", [None, *ORDERS])
def test_prompts_with_and_without_a_retain_differ_only_in_that_retain(layout: Layout, order: OrderName | None) -> None:
    editor = replace(EDITORS[1], style=PromptStyle(layout, order=order, order_seed=2))
    writer = ScriptedModel(confused_by_many, scores=False)
    [column] = study_case(writer, CASE, [editor]).columns
    n = len(CASE.probes)
    _, base, *versions = [writer.prompts[i : i + n] for i in range(0, len(writer.prompts), n)]
    assert base == [prompt.text for prompt in editor.prompts([CASE.edit], [probe.query for probe in CASE.probes])]
    for one, version in zip(column.retains, versions, strict=True):
        block = demonstration_block(one.demonstration)
        for has_it, lacks_it in zip(*((base, version) if one.kept else (version, base)), strict=True):
            assert has_it.count(block) == 1
            assert has_it.replace(block, "") == lacks_it


def test_a_retain_is_kept_only_if_its_probability_exceeds_sigma(made: CaseStudy) -> None:
    column = made.columns[1]
    assert column.sigma == 0.0625 and 0 < sum(one.kept for one in column.retains) < len(column.retains)
    assert all(one.kept == (one.probability > column.sigma) for one in column.retains)
    assert sorted(one.nearness for one in column.retains) == sorted(one.rank for one in column.retains)
    assert column.prompt.shots == sum(one.kept for one in column.retains)


def test_without_scores_a_case_study_shows_only_right_or_wrong() -> None:
    found = study_case(ScriptedModel(confused_by_many, scores=False), CASE, EDITORS)
    scored = study_case(ScriptedModel(confused_by_many), CASE, EDITORS)
    for mine, other in zip(found.columns, scored.columns, strict=True):
        assert [answer.correct for answer in mine.answers] == [answer.correct for answer in other.answers]
        assert [answer.text for answer in mine.answers] == [answer.text for answer in other.answers]
        assert all(answer.logprob is None for answer in mine.answers)
        assert [one.effect.gained for one in mine.retains] == [one.effect.gained for one in other.retains]
    rows = list(found.tables())[-1].rows
    assert all(row[5:-1] == ("n/a",) * len(row[5:-1]) for row in rows)


@pytest.mark.parametrize(
    "model", [ScriptedModel(follows_the_fact), ScriptedModel(follows_the_fact, scores=False)], ids=["scores", "text"]
)
def test_a_model_that_ignores_retains_shows_no_effect(model: LanguageModel) -> None:
    found = study_case(model, CASE, EDITORS)
    for column in found.columns:
        assert not any(any(one.effect.gained) or any(one.effect.lost) for one in column.retains)
        rewrite = found.aspects.index(Aspect.REWRITE)
        assert all(one.effect.nats[rewrite] in (None, 0.0) for one in column.retains)
    assert [answer.text for answer in found.before] == [old_object(probe.query) for probe in CASE.probes]


def test_prompt_blocks_add_up_to_the_prompt_and_carry_their_roles(made: CaseStudy) -> None:
    for column in made.columns:
        blocks = column.prompt.blocks
        assert "\n\n".join(text for _, text in blocks) == column.prompt.text
        roles = [demonstration.role.value for demonstration in column.prompt.demonstrations]
        assert [role for role, _ in blocks] == [*roles, "edit", "edit"]


def test_the_case_command_prints_the_study_and_the_report_embeds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "demo")
    small = ("--model", "reader", "--encoder", "hashing", "--edits", "5", "--test", "3", "--epochs", "1")

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert not stop.value.code
        return " ".join(capsys.readouterr().out.split())

    run("demo", *small, "--out", folder)
    output = run("case", "--run", folder, "--case", "62", "--show-prompt")
    assert "IKE: 16 of 16 retains" in output and "kept where p > sigma" in output and "New Fact: " in output
    run("report", folder, "--case", "62")
    page = (tmp_path / "demo" / "report.html").read_text("utf-8")
    assert '<section id="studies"' in page and "Prompts side by side" in page and '<pre class="update">' in page


def test_pruned_retains_are_neither_shown_nor_sent_to_the_model() -> None:
    limit = TokenLimit(330, lambda prompts: [len(prompt.split()) for prompt in prompts])
    editor = InContextEditor("IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), limit=limit)
    writer = ScriptedModel(confused_by_many, scores=False)
    [column] = study_case(writer, CASE, [editor]).columns
    kept = sum(one.kept for one in column.retains)
    assert 0 < kept < len(column.retains) == kept + column.prompt.pruned
    assert all((one.effect is not None) == one.kept for one in column.retains), "one more retain does not fit"
    assert max(len(prompt.split()) for prompt in writer.prompts) <= 330
    [table] = [t for t in study_case(writer, CASE, [editor]).tables() if t.title.startswith("IKE")]
    assert [row[1] for row in table.rows] == ["kept"] * kept + ["pruned"] * column.prompt.pruned
