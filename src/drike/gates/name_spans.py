"""Where names stand in a text, as arrays, so that a long text is read at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drike.text.words import Places

# If there are more, only the first and the last of each name count, and of `_NAMES` names.
MOST_MENTIONS = 128
_NAMES = 64  # those nearest to the beginning or the end of the text


@dataclass(frozen=True, eq=False)
class NameSpans:
    """Names in a text: the words at which they begin and end (excluded).

    names: their places in `NameIndex.known`.
    """

    begins: Places
    ends: Places
    names: Places

    @classmethod
    def concatenated(cls, several: Sequence[NameSpans]) -> NameSpans:
        """All the names, in this order."""
        return cls(
            np.concatenate([spans.begins for spans in several]),
            np.concatenate([spans.ends for spans in several]),
            np.concatenate([spans.names for spans in several]),
        )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, which: NDArray[Any]) -> NameSpans:
        return NameSpans(self.begins[which], self.ends[which], self.names[which])

    def first_and_last(self) -> NameSpans:
        """Of very many, each name where it stands for the first time and for the last."""
        if len(self) <= MOST_MENTIONS:
            return self
        first, last = self._first_and_last_places()
        places = np.arange(len(self))
        return self[(first == places) | (last == places)]

    def outermost(self, size: int) -> NameSpans:
        """Of very many in a text of `size` words, the names nearest to its beginning or its end.

        Each is where it stands for the first time and for the last.
        """
        if len(self) <= MOST_MENTIONS:
            return self
        first, last = self._first_and_last_places()
        firsts = np.flatnonzero(first == np.arange(len(self)))
        words_before = self.begins[firsts]
        words_behind = size - self.ends[last[firsts]]
        by_distance = np.argsort(np.minimum(words_before, words_behind), kind="stable")
        outer = firsts[by_distance[:_NAMES]]
        return self[np.union1d(outer, last[outer])]

    def _first_and_last_places(self) -> tuple[Places, Places]:
        """For each span, the places of the first and the last span with the same name."""
        places = np.arange(len(self))
        first_of_name = np.empty(self.names.max() + 1, np.int64)
        last_of_name = np.empty_like(first_of_name)
        first_of_name[self.names[::-1]] = places[::-1]
        last_of_name[self.names] = places
        return first_of_name[self.names], last_of_name[self.names]
