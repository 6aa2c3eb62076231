"""FactPrompt, and EditCoT in one call, and the published pipeline in four or five."""

from benchmarks.lib.editcot import EditCoTFull
from drike.research.editors.editcot import ANSWER_CUE, EditCoT
from drike.research.editors.factprompt import FactPrompt
from drike.research.evaluation.judge import Judge, Question
from tests.fakes.capitals import CAPITALS
from tests.fakes.models import ScriptedModel

CASE = CAPITALS[3]
QUERIES = [probe.query for probe in CASE.probes]


def test_editcot_reads_the_answer_after_its_last_cue() -> None:
    def thinks(prompt: str) -> str:
        if prompt.endswith(f"but the fact changed.\n{ANSWER_CUE}"):
            return "New3."
        return (
            f"It might be {ANSWER_CUE} Old3, but the fact changed.\n{ANSWER_CUE} New3.\n"
            if "think" in prompt
            else "?"
        )

    for model in (ScriptedModel(thinks, scores=False), ScriptedModel(thinks)):
        [verdict] = Judge(model).ask(
            [Question(EditCoT().prompts([CASE.edit], QUERIES[:1])[0], "New3", "Old3")]
        )
        assert verdict.correct
        assert verdict.text is not None and verdict.text.strip().startswith("New3")


def test_editcot_output_without_a_cue_has_no_answer() -> None:
    [verdict] = Judge(ScriptedModel(lambda prompt: "New3 New3", scores=False)).ask(
        [Question(EditCoT().prompts([CASE.edit], QUERIES[:1])[0], "New3")]
    )
    assert not verdict.correct


def test_editcot_full_rewrites_only_thoughts_that_contradict_the_edit() -> None:
    def reasons(prompt: str) -> str:
        if "Relation of the new knowledge" in prompt:
            return (
                "Contradict"
                if "The capital of Land3" in prompt.split("Thoughts:", maxsplit=1)[0]
                else "Unrelated"
            )
        if "New thoughts:" in prompt:
            return "Land3 was moved to New3."
        return "Old3 as ever" if "Thoughts:" in prompt else "Old3"

    model = ScriptedModel(reasons, scores=False)
    asked, other = EditCoTFull(model).prompts(
        [CASE.edit], ["The capital of Land3 is", "The capital of Land9 is"]
    )
    assert (asked.calls, other.calls) == (5, 4)
    assert "Land3 was moved to New3." in asked.text and "Old3 as ever" in other.text
    assert len(model.prompts) == 4 + 3


def test_factprompt_adds_one_imagine_line() -> None:
    [prompt] = FactPrompt().prompts([CAPITALS[3].edit], ["Land3 has the capital"])
    assert prompt.text == "Imagine that The capital of Land3 is New3.\nLand3 has the capital"
