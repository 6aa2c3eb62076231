"""To which requests an edit applies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.edits.conditions import apart, applies, condition
from drike.edits.conflicts import ConflictError
from drike.edits.record import EditRecord, RecordError
from drike.edits.record_checks import checked
from drike.stores.edit_store import EditStore


def test_conditions_on_one_name_are_alternatives_and_those_on_several_all_hold() -> None:
    only = ("model=gpt-*", "model=o3", "x-region=eu")
    assert applies(only, {"model": "GPT-5", "x-region": "EU"}) and applies(
        only, {"model": "o3", "x-region": "eu"}
    )
    assert not applies(only, {"model": "o3-mini", "x-region": "eu"}) and not applies(
        only, {"model": "o3"}
    )
    assert applies(["x-region=*"], {"x-region": ""}) and not applies(
        ["x-region=*"], {"model": "o3"}
    )
    assert applies((), {}) and not applies(("x-region=?*",), {})


@pytest.mark.parametrize("text", ["", "model", "model=", "=eu", "x region=eu", "x:region=eu"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no condition: write model=gpt-"):
        condition(text)
    with pytest.raises(RecordError, match="only "):
        checked(EditRecord("Peru", "The capital of Peru is", "Oslo", only=(text,)))


_VALUES = st.sampled_from(["eu", "eu-1", "us", "gpt-5", "gpt-5-mini"])
_PATTERNS = st.sampled_from(["eu", "eu*", "eu-?", "*", "us", "gpt-*", "gpt-5", "[eu]*"])
_ONLY = st.lists(
    st.tuples(st.sampled_from(["model", "x-region"]), _PATTERNS).map("=".join), max_size=3
)


@given(_ONLY, _ONLY, _VALUES, _VALUES)
def test_edits_that_are_apart_never_apply_to_one_request(
    first: list[str], second: list[str], model: str, region: str
) -> None:
    values = {"model": model, "x-region": region}
    if apart(first, second):
        assert not (applies(first, values) and applies(second, values))


def test_edits_for_different_requests_do_not_contradict_each_other(store: EditStore) -> None:
    store.put(EditRecord("Peru", "The capital of Peru is", "Oslo", only=("x-region=eu",)))
    store.put(EditRecord("Peru", "The capital of Peru is", "Rome", only=("x-region=us*",)))
    with pytest.raises(ConflictError, match="contradicts edit 1"):
        store.put(EditRecord("Peru", "The capital of Peru is", "Bern", only=("x-region=e*",)))
    with pytest.raises(ConflictError, match=r"contradicts edit 1 .* and edit 2"):
        store.put(EditRecord("Peru", "The capital of Peru is", "Bern", only=("model=gpt-5",)))
