"""What is recorded of the model's work, however it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from drike.errors import ModelError, RunError
from drike.models.protocols import Usage
from drike.research.editors.factprompt import FactPrompt
from drike.research.evaluation.judge import GREEDY
from drike.research.runs.evaluation_run import Judging, evaluate_rest
from drike.research.runs.usage import add_usage, read_usage
from tests.fakes.capitals import CAPITALS
from tests.fakes.models import ScriptedModel


def test_a_usage_file_damaged_meanwhile_does_not_hide_why_a_run_ended(tmp_path: Path) -> None:
    add_usage(tmp_path, "probe", Usage(requests=2))

    def fail(prompt: str) -> str:
        (tmp_path / "usage.json").write_text("{", "utf-8")
        raise ModelError("the server is gone")

    with pytest.raises(ModelError, match="the server is gone"):
        list(
            evaluate_rest(
                tmp_path,
                FactPrompt(),
                ScriptedModel(fail),
                CAPITALS[:2],
                [],
                judging=Judging(GREEDY),
            )
        )
    assert read_usage(tmp_path)["probe"] == Usage(requests=2)
    (tmp_path / "usage.json").write_text("{", "utf-8")
    with pytest.raises(RunError, match=r"usage\.json is damaged"):
        list(
            evaluate_rest(
                tmp_path,
                FactPrompt(),
                ScriptedModel(str),
                CAPITALS[:2],
                [],
                judging=Judging(GREEDY),
            )
        )
