"""Questions prepared on one machine are asked on another, and a run that was cut short goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.lib.prepared import (
    PLAIN,
    PreparedCase,
    PreparedQuestion,
    answer_rest,
    load_answers,
    load_cases,
    save_cases,
)
from drike.prompts import Contrast
from tests.fakes.tiny_models import llama, wrap

QUERY = "Karl Orff comes from"
FACT = "New Fact: Karl Orff was born in Kyoto\nPrompt: "
CONTRASTS = {PLAIN: Contrast(0.0, 0.0), "1": Contrast(1.0)}


def case_of(case_id: str) -> PreparedCase:
    rewrite = PreparedQuestion("fact", "rewrite", QUERY, FACT + QUERY, "Kyoto", "Rome")
    another = PreparedQuestion("fact", "another", QUERY, FACT + QUERY, "Rome", None, own=True)
    return PreparedCase(case_id, "test", (rewrite, another))


def test_cases_are_read_as_they_were_written(tmp_path: Path) -> None:
    cases = [case_of("1"), case_of("2")]
    save_cases(tmp_path / "cases.gz", cases)
    assert load_cases(tmp_path / "cases.gz") == cases


def test_a_run_goes_on_where_a_line_was_cut_off(tmp_path: Path) -> None:
    model = wrap(llama)
    cases = [case_of("1"), case_of("2"), case_of("3")]
    path = tmp_path / "answers.jsonl"
    answer_rest(model, cases, CONTRASTS, path, minutes=1, together=2)
    whole = path.read_text("utf-8")
    assert [case.case_id for case in load_answers(path)] == ["1", "2", "3"]

    path.write_text(whole[:-30], "utf-8")
    answer_rest(model, cases, CONTRASTS, path, minutes=1, together=2)
    assert path.read_text("utf-8") == whole


def test_plain_decoding_answers_as_alpha_0(tmp_path: Path) -> None:
    model = wrap(llama)
    with_contrasts, without = tmp_path / "a", tmp_path / "b"
    answer_rest(model, [case_of("1")], CONTRASTS, with_contrasts, minutes=1, together=1)
    answer_rest(model, [case_of("1")], {}, without, minutes=1, together=1)
    [first], [second] = load_answers(with_contrasts), load_answers(without)
    for a, b in zip(first.answers, second.answers, strict=True):
        assert (a.strict[PLAIN], a.prefers[PLAIN]) == (b.strict[PLAIN], b.prefers[PLAIN])


def test_no_case_is_begun_after_the_minutes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answers"
    answer_rest(wrap(llama), [case_of("1")], {}, path, minutes=-1, together=1)
    assert load_answers(path) == []
    assert "run it again" in capsys.readouterr().err
