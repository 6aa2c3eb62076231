"""What is kept of the turns of conversations: with what a turn is read, and what was decided on it.

`Memory` saves time only: every turn is decided on alike, whether it is remembered or not. `Earlier`
holds what cannot be computed again: turns that an upstream keeps, so that a request does not repeat
them.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from drike.conversations.hosts import Host
from drike.conversations.rendering import Around
from drike.conversations.turns import Turn
from drike.edits.record import EditVersion
from drike.gates.decision import Decision
from drike.gates.index import EditIndex

_MOST_TURNS = 20_000  # that are remembered
_MOST_CHARACTERS = 16 << 20  # of their texts
_MOST_CONVERSATIONS = 10_000  # of those that upstreams keep
_MOST_OF_TOPIC = 64  # edits whose subjects a kept conversation's topic names
_LONGEST_ID = 1_000  # characters of an upstream's id
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Standing:
    """What a turn is read with, of the turns before it.

    topic: the user's last turn that stood alone, and those since that lean on it. edits: those that
    concern the last question. stated: the last ones that were stated, of all questions. host: whom
    the system's text names. of_topic: ids of edits whose subjects the topic's first turn names.
    """

    topic: tuple[str, ...] = ()
    edits: tuple[EditVersion, ...] = ()
    stated: tuple[EditVersion, ...] = ()
    host: Host = field(default_factory=Host)
    of_topic: tuple[int, ...] = ()

    @property
    def edit_ids(self) -> frozenset[int]:
        """The ids of all edits about which a further turn may ask without naming them."""
        return frozenset((*(edit.id for edit in self.edits), *self.host.edits, *self.of_topic))


@dataclass(frozen=True)
class TurnFacts:
    """What is written around the texts of a turn, and what follows for the next one.

    standing: what the next turn is read with. around: pairs of a text's place in the turn and what
    is written around it. contradicted: ids of edits whose old object a tool or document states.
    """

    standing: Standing
    around: tuple[tuple[int, Around], ...] = ()
    edits: tuple[EditVersion, ...] = ()
    decision: Decision | None = None
    contradicted: tuple[int, ...] = ()


@dataclass(frozen=True)
class SourceFacts:
    """The active edits that a source names, and the ids of those whose old object it states."""

    named: tuple[EditVersion, ...]
    contradicted: frozenset[int]


class Memory:
    """The facts of turns and sources, under one state of the edits and one way to decide on them.

    Threads may share it. The key of a turn is the `digest` of all turns up to it.
    """

    def __init__(self) -> None:
        self._facts_by_digest = OrderedDict[bytes, TurnFacts]()  # the last used at the end
        self._characters = 0
        self._sources = OrderedDict[bytes, SourceFacts]()  # the last read at the end
        self._lock = threading.Lock()

    def source(self, key: bytes) -> SourceFacts | None:
        """The facts of a source, wherever it stood, if they are remembered."""
        with self._lock:
            return self._sources.get(key)

    def put_source(self, key: bytes, facts: SourceFacts) -> None:
        """Remember the facts of a source, and forget the oldest ones."""
        with self._lock:
            self._sources[key] = facts
            while len(self._sources) > _MOST_TURNS:
                self._sources.popitem(last=False)

    def get(self, digest: bytes) -> TurnFacts | None:
        """The facts of a turn, if they are remembered."""
        with self._lock:
            if digest in self._facts_by_digest:
                self._facts_by_digest.move_to_end(digest)
            return self._facts_by_digest.get(digest)

    def put(self, digest: bytes, facts: TurnFacts) -> None:
        """Remember the facts of a turn, and forget those not used for the longest time."""
        with self._lock:
            if digest not in self._facts_by_digest:
                self._facts_by_digest[digest] = facts
                self._characters += _characters(facts)
            while self._is_full():
                _, forgotten = self._facts_by_digest.popitem(last=False)
                self._characters -= _characters(forgotten)

    def _is_full(self) -> bool:
        return len(self._facts_by_digest) > _MOST_TURNS or self._characters > _MOST_CHARACTERS


def _characters(facts: TurnFacts) -> int:
    """About how many characters a turn takes in memory, except for what it shares with others."""
    last_of_topic = sum(map(len, facts.standing.topic[-1:]))
    query = len(facts.decision.query) if facts.decision else 0
    written = sum(len(around.before) + len(around.behind) for _, around in facts.around)
    return last_of_topic + query + written


def digest(before: bytes, turn: Turn) -> bytes:
    """A hash of all turns up to this one. before: the hash of all turns before it."""
    parts = [before, turn.speaker.encode()]
    for _, text in turn.texts:
        encoded = text.encode("utf-8", "surrogatepass")
        parts.append(b"%d %b" % (len(encoded), encoded))
    return hashlib.blake2b(b"".join(parts), digest_size=20).digest()


@dataclass(frozen=True)
class _KeptConversation:
    """What is kept of a conversation.

    edit_ids: of its last question. host, of_topic: as in `Standing`. is_read: whether all its
    turns were read, and by rules by which nothing can hide in them.
    """

    at: datetime
    edit_ids: tuple[int, ...]
    host: Host
    of_topic: tuple[int, ...]
    is_read: bool


class Earlier:
    """What was decided on turns that an upstream stores under an id; it is kept for a day.

    Threads may share it.
    """

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._conversations = OrderedDict[str, _KeptConversation]()
        self._clock = clock
        self._lock = threading.Lock()

    def keep(self, *upstream_ids: str, standing: Standing, is_read: bool = False) -> None:
        """Keep what a further turn is read with, under each of some ids.

        is_read: whether no question can hide in the turns up to here, so that they are kept even
        without edits.
        """
        kept = _KeptConversation(
            self._clock(),
            tuple(edit.id for edit in standing.edits),
            standing.host,
            standing.of_topic[:_MOST_OF_TOPIC],
            is_read,
        )
        with self._lock:
            for upstream_id in upstream_ids:
                self._conversations.pop(upstream_id, None)
                if (kept.edit_ids or is_read) and len(upstream_id) <= _LONGEST_ID:
                    self._conversations[upstream_id] = kept
            while len(self._conversations) > _MOST_CONVERSATIONS:
                self._conversations.popitem(last=False)

    def standing(self, upstream_id: str | None, index: EditIndex) -> Standing | None:
        """What a turn after those under an id is read with; None where nothing is kept of them."""
        conversation = self._kept(upstream_id)
        if conversation is None:
            return None
        edits = tuple(
            index.edits[edit_id] for edit_id in conversation.edit_ids if edit_id in index.edits
        )
        return Standing(
            edits=edits,
            stated=edits,
            host=conversation.host,
            of_topic=conversation.of_topic,
        )

    def has_read(self, upstream_id: str) -> bool:
        """Whether it is known of all turns under an id that no question hides in them."""
        conversation = self._kept(upstream_id)
        return conversation is not None and conversation.is_read

    def _kept(self, upstream_id: str | None) -> _KeptConversation | None:
        """What is kept of a conversation, for a day."""
        if not upstream_id:
            return None
        with self._lock:
            conversation = self._conversations.get(upstream_id)
        if conversation is None or self._clock() - conversation.at > _DAY:
            return None
        return conversation
