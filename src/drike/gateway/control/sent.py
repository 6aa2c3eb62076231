"""What a gateway has told its webhook of a store."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from drike.support.records import ADDED


@dataclass(frozen=True)
class Sent:
    """What was sent of a store, as its settings keep it.

    change: the number of the last change. due: by edit, the review that was due. slipping: by edit,
    with " fell" for a rate that fell, the version that slipped. reports: by number, the state that
    was told. reports_from: the first report that is told of; 0 where nobody has looked.
    """

    change: int = 0
    due: Mapping[str, str] = field(default_factory=dict)
    slipping: Mapping[str, int] = field(default_factory=dict)
    reports: Mapping[str, str] = field(default_factory=dict, metadata=ADDED)
    reports_from: int = field(default=0, metadata=ADDED)
