"""Laws of records: what a store keeps of an edit, and what it refuses."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drike.edits.conflicts import ConflictError
from drike.edits.record import EditRecord, RecordError, Status, as_stored
from drike.edits.record_checks import checked
from drike.edits.record_json import record_of, to_json, to_values
from drike.gates.by_name import Named
from drike.gates.index import EditIndex
from drike.stores.edit_store import EditStore, versions_of
from drike.stores.moves import retire
from tests.fakes.stores import PERU, Opener


def test_an_edit_comes_back_as_it_was_given(
    store: EditStore, opener: Opener, tmp_path: Path
) -> None:
    given = EditRecord(
        "Peru", "The capital of Peru is", "Oslo", target_true="Lima", relation="P36", aliases=("Republic of Peru",),
        paraphrases=("Peru is governed from",), negatives=("Peru borders",), status=Status.SHADOW,
        valid_from="2026-11-01T00:00:00Z", valid_to="2027-01-01T00:00:00Z", priority=2, source="a\nlist",
        author="Łucja", reason="why",
    )  # fmt: skip
    [stored] = store.put(given)
    assert (stored.number, stored.id, stored.version, stored.created_at) == (
        1,
        1,
        1,
        "2026-11-22T12:00:00Z",
    )
    assert stored.record == given
    assert opener(tmp_path / "edits.db").changes() == [stored]


def test_paraphrases_are_called_wordings_in_json_and_read_under_both_names() -> None:
    record = replace(PERU, paraphrases=("Peru is governed from",))
    assert json.loads(to_json(record))["wordings"] == list(record.paraphrases)
    assert (
        "paraphrases" not in to_values(record)
        and to_values(record)["wordings"] == record.paraphrases
    )
    for name in ("wordings", "paraphrases"):
        assert record_of({**json.loads(to_json(PERU)), name: ["Peru is governed from"]}) == record


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"subject": " "}, "subject is blank"),
        ({"query": ""}, "query is blank"),
        ({"aliases": ("",)}, "aliases is blank"),
        ({"aliases": "Peru"}, "aliases: 'Peru' is not a list"),
        ({"subject": "Chile"}, "subject 'Chile' is not in the query: copy it"),
        ({"target_true": "oslo"}, "target_new is the old object already"),
        ({"negatives": (PERU.query,)}, "negatives hold the edit's own query"),
        ({"valid_from": "soon"}, "valid_from 'soon' is no time: write 2026-12-31"),
        ({"valid_from": "0001-01-01T00:00+14:00"}, "is no time"),
        ({"valid_from": "2027-01-01", "valid_to": "2026-01-01"}, "must be later than valid_from"),
        ({"priority": -1}, "priority: -1 is not a whole number"),
        ({"status": "on"}, "status: 'on' is not a valid Status"),
        ({"paraphrases": ("x" * 10_001,)}, "wordings has 10,001 characters"),
        (
            {"subject": "Peru " * 13},
            "subject 'Peru .* has 13 words: shorten it to 12 words and 200 characters",
        ),
        ({"aliases": ("x" * 201,)}, "aliases 'x.* has 201 characters"),
        ({"aliases": ("京" * 49,)}, "aliases '京.* has 13 words"),
        (
            {"target_new": "x" * 490},
            "query and target_new have 513 characters: shorten them to 512 at most",
        ),
        ({"reason": "\ud800"}, "reason holds half a character"),
        ({"reason": "\\u0041 \ud800"}, "reason holds half a character"),
        ({"priority": float("nan")}, "priority: nan is not a whole number"),
    ],
)
def test_an_unusable_entry_is_refused_with_its_field(
    store: EditStore, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecordError, match=message):
        store.put(replace(PERU, **changed))
    assert store.changes() == []


def test_names_and_facts_may_have_as_many_characters_as_are_read(store: EditStore) -> None:
    given = replace(PERU, target_new="x" * 489, aliases=("京" * 48, "Peru " * 11 + "Peru"))
    assert store.put(given)[-1].record == given


def test_an_edit_of_an_older_store_can_be_retired_though_its_names_are_too_long() -> None:
    given = replace(
        PERU, aliases=("Peru " * 1_900 + "!",), target_new="x" * 9_000, status=Status.RETIRED
    )
    assert checked(given) == given
    with pytest.raises(RecordError):
        checked(replace(given, status=Status.SHADOW))


def test_texts_are_stripped_repeats_removed_and_times_in_utc(store: EditStore) -> None:
    [stored] = store.put(
        replace(
            PERU,
            subject=" Peru ",
            aliases=("Perú", "Peru", "Perú "),
            valid_from="2026-01-01T01:00+01:00",
        )
    )
    assert (stored.record.subject, stored.record.aliases) == ("Peru", ("Perú",))
    assert stored.record.valid_from == "2026-01-01T00:00:00Z"


def test_long_texts_and_control_characters_are_kept(store: EditStore) -> None:
    given = replace(PERU, paraphrases=("y.\0", "\U0001f30d z " * 2_000, "x" * 10_000), reason="\0")
    [stored] = store.put(given)
    assert store.changes() == [stored]
    assert stored.record == replace(given, paraphrases=tuple(map(str.strip, given.paraphrases)))
    for wording in given.paraphrases:
        with pytest.raises(ConflictError):
            store.put(
                EditRecord("Chile", "The capital of Chile is", "Rome", paraphrases=(wording,))
            )


@pytest.mark.parametrize(
    "texts",
    [tuple(f"Question {n}?" for n in range(201)), tuple(f"{n} {'x' * 8_000}" for n in range(9))],
)
def test_a_record_of_too_many_texts_is_refused_and_an_old_one_can_be_retired(
    store: EditStore, texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every version holds all texts: 150 negatives of 8 kB, added one by one, took 91 MB."""
    with pytest.raises(
        RecordError,
        match=r"are \d+ texts of .* characters: leave 200 texts of 65,536 characters at most",
    ):
        store.put(replace(PERU, negatives=texts))
    with monkeypatch.context() as earlier:
        earlier.setattr("drike.edits.record_checks._MAX_TEXTS", 10_000)
        earlier.setattr("drike.edits.record_checks._MAX_TOTAL", 10**9)
        [old] = store.put(replace(PERU, negatives=texts))
    assert versions_of(store, old.id)[-1].record.negatives == texts
    with pytest.raises(RecordError, match="leave 200 texts"):
        store.put(replace(old.record, negatives=(*texts, "One more?")), replaces=old)
    assert retire(store, old.id)[-1].record.negatives == texts


def test_whatever_name_is_accepted_its_own_query_is_matched_by_it() -> None:
    # Signs of every kind, those of scripts without spaces and those that are no letters among them.
    signs = [
        *"a7!$\u0640\u064b\u06e5\ufc5e\ufe70\u0301\u200d\u2764\ufe0f\u2167\u00b2\u0e01\u0e34\u4e2d\u30fc\u3005"
    ]
    signs += "\U0001f1f5\U0001f1ea\U0001f642\u1780\u17d2\u1000\u1039\u0ec8\uac00\U0001d400\u202e "
    chance = random.Random(53)
    for _ in range(150):
        name = "".join(chance.choices(signs, k=chance.randint(1, 3)))
        try:
            record = checked(EditRecord(name, f"The home of {name.strip()} is", "Oslo"))
        except RecordError as refusal:
            assert "has no word" in str(refusal) or "is blank" in str(refusal)
            continue
        index = EditIndex.of(as_stored([record.edit]))
        assert Named().decide(record.query, index).matched, ascii(name)


@pytest.mark.parametrize("field", ["subject", "aliases", "paraphrases", "negatives"])
@pytest.mark.parametrize("text", ["!!!", "$", "\u0640", "\ufe70", "\U0001f642", "?"])
def test_a_text_in_which_a_gate_reads_no_word_is_refused(field: str, text: str) -> None:
    record = EditRecord("Peru", f"The capital of Peru {text} is", "Oslo")
    value = text if field == "subject" else (text,)
    with pytest.raises(RecordError, match=r"no word"):
        checked(replace(record, **{field: value}))
