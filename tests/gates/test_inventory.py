"""The inventory of relations: its files, its prototypes, and what questions agree with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drike.encoders import HashingEncoder, TextEncoder
from drike.encoders.base import salient, unit
from drike.encoders.salience import content
from drike.errors import UsageError
from drike.gates import inventory as inventories
from drike.gates.inventory import (
    WithRelations,
    inventory,
    probabilities,
)
from drike.text.relation_wordings import built_in, read_relations, relations_in
from tests.fakes.indexes import default_encoder
from tools import count_words

OWN = """relation: mascot
answer: thing
The mascot of {} is
Which animal stands for {}?
de: Das Maskottchen von {} ist
"""


def test_a_file_of_relations_is_read_by_groups() -> None:
    [relation] = relations_in(f"# ours\n\n{OWN}", "own.txt")
    assert relation.name == "mascot"
    assert relation.groups == (
        ("The mascot of it is",),
        ("Which animal stands for it?",),
        ("Das Maskottchen von it ist",),
    )


@pytest.mark.parametrize(
    "text, said",
    [
        ("The mascot of {} is\n", "own.txt, line 1"),
        (f"{OWN}The mascot is\n", "own.txt, line 6"),
        (f"{OWN}{{}} and {{}} have\n", "own.txt, line 6"),
        ("relation: mascot\n", "without wordings"),
        ("", "without wordings"),
    ],
)
def test_a_line_that_is_no_wording_is_named_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        relations_in(text, "own.txt")


def test_a_file_that_cannot_be_read_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give a text file"):
        read_relations([tmp_path / "missing.txt"])


def test_the_relations_that_come_with_drike_have_enough_wordings_and_hardly_two_the_same() -> None:
    relations = built_in()
    wordings = [text for relation in relations for group in relation.groups for text in group]
    assert len(relations) >= 150
    assert all(sum(map(len, relation.groups)) >= 14 for relation in relations)
    assert len({*wordings}) > 0.98 * len(wordings)


def test_the_list_of_common_words_is_that_of_the_wordings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    count_words.main()
    kept = Path(inventories.__file__).parents[1] / "encoders" / "common_words.txt"
    assert capsys.readouterr().out == kept.read_text("utf-8")
    assert content("it is in") < 0.3 < 0.6 < content("it is the capital of")


def test_an_encoder_without_salient_vectors_has_no_inventory() -> None:
    encoder = HashingEncoder()
    assert salient(encoder) is encoder and not inventory(encoder).names


@pytest.fixture
def minilm() -> TextEncoder:
    return default_encoder()


def test_the_prototypes_are_those_of_the_relations(minilm: TextEncoder) -> None:
    with np.load(str(inventories._PROTOTYPES)) as stored:
        assert str(stored["key"]) == inventories._key(built_in(), minilm), (
            "run python -m tools.prototypes"
        )


@pytest.mark.slow
def test_questions_in_other_words_agree_and_those_about_other_things_do_not(
    minilm: TextEncoder, tmp_path: Path
) -> None:
    encoder = minilm
    asked = ["Where was it founded?", "Who runs it?", "Which animal stands for it?"]
    stored = ["The chief executive of it is", "The mascot of it is"]
    (tmp_path / "own.txt").write_text(OWN, "utf-8")
    known = inventory(WithRelations(encoder, read_relations([tmp_path / "own.txt"])))
    vectors = unit(salient(encoder).encode([*asked, *stored]))
    near = probabilities(known.nearness(vectors))
    assert np.allclose(near.sum(axis=1), 1, atol=1e-5)
    assert np.sqrt(near[1] * near[3]).sum() > 0.7 > 0.2 > np.sqrt(near[0] * near[3]).sum()
    assert known.names[int(near[2].argmax())] == known.names[int(near[4].argmax())] == "mascot"
