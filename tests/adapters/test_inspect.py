"""inspect_ai asks a model about the edits of a store, and its log shows drike's judgement of each answer."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from drike.edits.record import EditRecord
from drike.errors import UsageError
from drike.stores.opening import open_store

inspect_ai = pytest.importorskip("inspect_ai")
pytestmark = pytest.mark.clients

PERU = EditRecord(
    "Peru",
    "The capital of Peru is",
    "Oslo",
    "Lima",
    paraphrases=("Which city is Peru's capital?",),
)
UNKNOWN = "Hello."
QUITO = EditRecord("Peru", "The currency of Peru is", "the peso", "the sol")


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = tmp_path / "edits.db"
    with closing(open_store(path)) as opened:
        opened.put(PERU)
        opened.put(QUITO)
    return str(path)


def evaluated(store: str, tmp_path: Path, answer: Any, **options: Any) -> Any:
    """The log of an evaluation of a model that answers by a function of a message.

    It is the last one that tells it something, as the facts of a follow-up stand before it.
    """
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    from drike.adapters.inspect_edits import edits

    def output(messages: Any, *_more: Any) -> Any:
        answers = [answer(message.text) for message in reversed(messages)]
        known = next((each for each in answers if each != UNKNOWN), UNKNOWN)
        said = ModelOutput.from_content("mockllm/model", known)
        said.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return said

    model = get_model("mockllm/model", custom_outputs=output)
    task = edits(store, **options)
    [log] = inspect_ai.eval(task, model=model, log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success", log.error
    return log


def follows(text: str) -> str:
    """What a model answers that believes what it is shown, and else knows nothing."""
    return "It is Oslo." if "Oslo" in text else "It is the peso." if "peso" in text else UNKNOWN


def rates(log: Any) -> dict[str, float]:
    return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}


def test_a_model_that_follows_the_facts_takes_every_edit(store: str, tmp_path: Path) -> None:
    log = evaluated(store, tmp_path, follows)
    found = rates(log)
    assert found["takes"] == found["others unchanged"] == found["all"] == 1
    kinds = {sample.metadata["kind"] for sample in log.samples}
    assert {"query", "wording", "challenge", "common"} <= kinds
    [own] = [sample for sample in log.samples if sample.id == "001 query"]
    score = own.scores["judged"]
    assert score.metadata["edits applied"] == ["1@1"] and score.metadata["states"] == "new"
    assert score.metadata["without edits"] == "Hello."
    assert "Oslo" in own.messages[0].text  # the log shows the request as the model got it


def test_a_model_that_insists_takes_none(store: str, tmp_path: Path) -> None:
    log = evaluated(store, tmp_path, lambda _text: "It is Lima.", edits="1", unrelated=1)
    assert rates(log)["takes"] == 0
    [own] = [sample for sample in log.samples if sample.id == "001 query"]
    assert "old object" in own.scores["judged"].explanation
    assert {sample.metadata["edit"] for sample in log.samples} <= {"1@1", "2@1"}


def test_without_the_edits_the_same_questions_are_asked(store: str, tmp_path: Path) -> None:
    log = evaluated(store, tmp_path, follows, in_force=False)
    assert rates(log)["takes"] < 1
    assert all("corrected" not in sample.messages[0].text for sample in log.samples)


@pytest.mark.parametrize("chosen", ["7", "1,7"])
def test_an_edit_that_is_not_in_force_is_refused(store: str, chosen: str) -> None:
    from drike.adapters.inspect_edits import edits

    with pytest.raises(UsageError, match="7"):
        edits(store, edits=chosen)


def test_inspect_finds_the_task_by_its_name(store: str, tmp_path: Path) -> None:
    from importlib.metadata import entry_points

    assert "drike" in {point.name for point in entry_points(group="inspect_ai")}
