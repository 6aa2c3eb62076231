"""What an answer may state of an edit."""

from enum import StrEnum


class Stated(StrEnum):
    """Which object of an edit an answer states."""

    NEW = "new"
    OLD = "old"
    BOTH = "both"
    NEITHER = "neither"
    REFUSED = "refused"
    PARTLY = "partly"  # some items of the new object's list, or conditions of its policy

    @property
    def includes_new(self) -> bool:
        """Whether the new object is stated, with the old one or without it."""
        return self in (Stated.NEW, Stated.BOTH)
