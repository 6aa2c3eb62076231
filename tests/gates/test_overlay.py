"""Laws of a dictionary with changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from drike.gates.overlay import OverlayDict


@given(
    st.lists(
        st.dictionaries(st.integers(0, 40), st.none() | st.integers(0, 9), max_size=5), max_size=20
    )
)
def test_a_layered_dictionary_equals_one_with_the_same_changes(
    changes: list[dict[int, int | None]],
) -> None:
    expected: dict[int, int] = dict.fromkeys(range(30), 5)
    found = OverlayDict(expected)
    for some in changes:
        before, found = found, found.changed(some)
        assert before == expected
        expected = {key: value for key, value in {**expected, **some}.items() if value is not None}
        assert (found, len(found)) == (expected, len(expected))
        assert [found.get(key, -1) for key in range(41)] == [
            expected.get(key, -1) for key in range(41)
        ]
        assert [key in found for key in range(41)] == [key in expected for key in range(41)]
