"""Decide on every turn of a conversation, given only the turns up to it (docs/reference/gateway.md: what each gets).

So an earlier turn is decided on, and written, the same in every later request: an edit stays
present through any number of turns and tool calls, and the upstream's caches of prefixes hold.
`Memory` only saves time.
"""

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from drike.conversations.rendering import Around, Facts, Occasion, Placement, defused
from drike.conversations.turns import Conversation, JsonPath, Speaker, Turn
from drike.edits.record import EditVersion, Status
from drike.gates.decision import MOST_MATCHED, Decision
from drike.gates.index import EditIndex, ParsedQuery
from drike.gates.relations import asks_relation, states_old
from drike.support.records import encodable
from drike.text.glossary import SPACELESS, begins, held, own_name
from drike.text.questions import parts_of
from drike.text.words import Words, mentions, words

_TOPIC, _TOPIC_LENGTH = 3, 2_000  # turns that a later one is read with, and characters of each
_OBJECTION = 200  # characters of a turn that objects by stating the old object: "No, it is Lima"
_STATED = 16  # edits of a conversation that are looked at when a turn has an old object
_MOST_NAMED = 64  # edits on subjects of a system's text or a source that are looked at
_REMEMBERED, _MOST_CHARACTERS = 20_000, 16 << 20  # turns, and of their texts what is kept
_KEPT, _LONGEST_ID, _DAY = 10_000, 1_000, timedelta(days=1)  # conversations that an upstream keeps
# Whether a turn leans on others, or doubts, is told by rules: they take microseconds, and can be
# read.
_SHORT, _FRAGMENT = (
    60,
    3,
)  # words: a turn that may lean or doubt, and a question that is no sentence of its own
_FIRST = 240  # characters in which a turn says what it is
_VERBS = frozenset(
    ("is", "are", "was", "were", "do", "does", "did", "ist", "sind", "est", "es", "è", "são", "é")
)
_TO_MODEL = frozenset(
    ("you", "your", "i", "my", "me", "we", "du", "sie", "tu", "vous", "ich", "je", "yo", "usted")
)


@dataclass(frozen=True)
class Standing:
    """What a turn is read with."""

    topic: tuple[str, ...] = ()  # the last turn of the user that stood alone, and those after it
    edits: tuple[EditVersion, ...] = ()  # of the last question
    stated: tuple[EditVersion, ...] = ()  # of all questions, the last ones
    of_system: tuple[int, ...] = ()  # ids of those that the system names
    of_topic: tuple[int, ...] = ()  # of those whose subjects the turn that stood alone names


@dataclass(frozen=True)
class TurnFacts:
    """What is written around the texts of a turn."""

    standing: Standing  # what the next turn is read with
    around: tuple[tuple[int, Around], ...] = ()  # by the place of the text in the turn
    edits: tuple[EditVersion, ...] = ()
    decision: Decision | None = None
    contradicted: tuple[int, ...] = ()  # ids of edits whose old object a source states


class Memory:
    """What followed from turns, under one state of the edits and one way to decide on them; threads may share it."""

    def __init__(self) -> None:
        self._known = OrderedDict[
            bytes, TurnFacts
        ]()  # by a hash of all turns up to each, the last used at the end
        self._characters = 0
        self._lock = threading.Lock()

    def get(self, key: bytes) -> TurnFacts | None:
        """What followed, if it is known."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: bytes, facts: TurnFacts) -> None:
        """Remember what followed."""
        with self._lock:
            if key not in self._known:
                self._known[key] = facts
                self._characters += _characters(facts)
            while len(self._known) > _REMEMBERED or self._characters > _MOST_CHARACTERS:
                self._characters -= _characters(self._known.popitem(last=False)[1])


def _characters(facts: TurnFacts) -> int:
    """About how many characters a turn takes in memory, but for what it shares with others."""
    query = len(facts.decision.query) if facts.decision else 0
    written = sum(len(before) + len(behind) for _, (before, behind) in facts.around)
    return len("".join(facts.standing.topic[-1:])) + query + written


@dataclass(frozen=True)
class Followed:
    """A conversation with its facts."""

    around: dict[JsonPath, Around] = field(
        default_factory=dict
    )  # what is written around texts, by their keys
    edits: tuple[EditVersion, ...] = ()  # those written, of later turns first
    contradicted: tuple[int, ...] = ()
    decision: Decision | None = (
        None  # on the last turn, if it is a user's, or beside a tool's and not an aside
    )
    decisions: tuple[Decision, ...] = ()
    standing: Standing = Standing()  # what a further turn is read with
    asked: tuple[EditVersion, ...] = ()  # that the answer is about, with shadow edits

    def texts(self, conversation: Conversation) -> dict[JsonPath, str]:
        """The texts of the conversation that change, by their keys: with facts, or with imitations of these defused."""
        if not self.around:
            return {}
        sent = conversation.texts
        calm = {path: defused(text) for path, text in sent.items()}
        changed = {path: text for path, text in calm.items() if text != sent[path]}
        return changed | {
            path: f"{before}{calm[path]}{behind}" for path, (before, behind) in self.around.items()
        }


@dataclass(frozen=True)
class Follower:
    """Decides on conversations. decide: on a query, with the edits of `index`. sources: write behind these, too."""

    decide: Callable[[str], Decision]
    index: EditIndex
    placement: Placement
    tenant: str = ""
    sources: bool = True
    memory: Memory = field(default_factory=Memory)
    model: str = ""  # that is asked about uncertain edits, where one is

    def follow(self, conversation: Conversation, standing: Standing | None = None) -> Followed:
        """The facts of a conversation. standing: what was decided on turns that the request does not hold."""
        standing = standing or Standing()
        begun = (
            self.tenant,
            self.model,
            self.sources,
            type(self.placement),
            standing,
            sorted(self.index.without),
        )
        key = repr(begun).encode("utf-8", "replace")
        around: dict[JsonPath, Around] = {}
        written: list[TurnFacts] = []
        for turn in conversation.turns:
            key = _digest(key, turn)
            if (facts := self.memory.get(key)) is None:
                facts = self._turn(turn, standing)
                facts = replace(facts, decision=facts.decision and facts.decision.abridged)
                self.memory.put(key, facts)
            standing = facts.standing
            written.append(facts)
            around |= {turn.texts[i].path: parts for i, parts in facts.around}
        edits = dict.fromkeys(edit for facts in reversed(written) for edit in facts.edits)
        contradicted = dict.fromkeys(id for facts in written for id in facts.contradicted)
        decisions = tuple(facts.decision for facts in written if facts.decision)
        last = written[-1].decision if written else None
        of_answer = written[-1].edits if conversation.question else standing.edits
        asked = dict.fromkeys(
            (*of_answer, *(edit for decision in decisions[-1:] for edit in decision.matched))
        )
        return Followed(
            around, tuple(edits), tuple(contradicted), last, decisions, standing, tuple(asked)
        )

    def _turn(self, turn: Turn, standing: Standing) -> TurnFacts:
        if turn.speaker in (Speaker.USER, Speaker.BESIDE):
            return self._question(turn, standing)
        if turn.speaker is Speaker.TOOL and self.sources:
            return self._sources(turn, standing)
        if turn.speaker is Speaker.SYSTEM:
            named = self._active(sorted(self.index.named(encodable(turn.said))))
            ids = dict.fromkeys((*standing.of_system, *(edit.id for edit in named)))
            return TurnFacts(replace(standing, of_system=tuple(ids)[:_MOST_NAMED]))
        return TurnFacts(standing)

    def _question(self, turn: Turn, standing: Standing) -> TurnFacts:
        text = encodable(turn.said)
        topic, decision, half = standing.topic, self.decide(text), _TOPIC_LENGTH // 2
        short = text if len(text) <= _TOPIC_LENGTH else f"{text[:half]}\n{text[-half:]}"
        # What a topic began with stays, as that has the subject; the last turns say what of it.
        continued = (*topic[:1], *(*topic[1:], short)[1 - _TOPIC :])
        if doubted := self._doubted(text, standing):
            edits = _first((*decision.applied, *self._active([edit.id for edit in doubted])))
            facts = Facts(edits, topic[0] if topic else text, Occasion.CHALLENGE)
            return self._written(
                replace(standing, topic=continued, edits=edits), turn, facts, decision
            )
        if not decision.applied and (topic or standing.edits) and leans(text):
            before = topic or tuple(dict.fromkeys(edit.record.subject for edit in standing.edits))
            decision = self._with(before, text, decision)
            if standing.of_system and own_name("\n".join(before)) is None:
                decision = self._about_earlier(text, standing, decision)
            after = replace(standing, topic=continued, edits=decision.applied or standing.edits)
        else:
            alone, decision = decision, self._about_earlier(text, standing, decision)
            if not decision.applied and (turn.speaker is Speaker.BESIDE or is_aside(text)):
                return TurnFacts(
                    standing, decision=decision if decision.candidates or is_aside(text) else None
                )
            new = {
                "topic": (short,),
                "of_topic": tuple(candidate.edit.id for candidate in decision.candidates),
            }
            after = replace(
                standing,
                edits=decision.applied,
                **new if decision is alone else {"topic": continued},
            )
        return self._written(after, turn, Facts(decision.applied, decision.query), decision)

    def _written(
        self, standing: Standing, turn: Turn, facts: Facts, decision: Decision
    ) -> TurnFacts:
        """The facts before the first text of a user's turn."""
        if not facts.edits:
            return TurnFacts(standing, decision=decision)
        around = self.placement.around(facts, turn.texts[0].text, self.tenant)
        standing = replace(standing, stated=_first((*facts.edits, *standing.stated), _STATED))
        return TurnFacts(standing, ((0, around),), facts.edits, decision)

    def _doubted(self, text: str, standing: Standing) -> tuple[EditVersion, ...]:
        """The edits that a turn doubts: of the answer before it, or those stated earlier whose old object it has."""
        if standing.edits and is_challenge(text):
            return standing.edits
        if len(text) > _OBJECTION:
            return ()
        olds = ((edit, edit.record.target_true) for edit in standing.stated)
        return tuple(edit for edit, old in olds if old and mentions(text, old))

    def _with(self, before: Sequence[str], text: str, alone: Decision) -> Decision:
        """The decision on a turn that leans on others; where it names subjects itself, only on edits about these."""
        decision, named = self.decide("\n".join((*before, text))), self.index.named(text)
        own = named or (
            own_name(text[: 8 * _FIRST]) is not None and held(_plain(text), "pronoun") is None
        )
        kept = tuple(edit for edit in decision.matched if not own or edit.id in named)
        return alone if decision.matched and not kept else replace(decision, matched=kept)

    def _about_earlier(self, text: str, standing: Standing, alone: Decision) -> Decision:
        """The decision on a turn without a subject that asks about one of the system's or, only that, of the topic."""
        if alone.applied or any(
            m.cased or not m.ambiguous for m in ParsedQuery.of(text, self.index).mentions
        ):
            return alone
        asked = [
            edit
            for edit in self._active(standing.of_topic)
            if asks_relation(text, edit.record, alone=True)
        ]
        asked += [
            edit for edit in self._active(standing.of_system) if asks_relation(text, edit.record)
        ]
        for subject in dict.fromkeys(edit.record.subject for edit in asked):
            ids = {edit.id for edit in asked if edit.record.subject == subject}
            decision = self.decide(f"{subject}\n{text}")
            if kept := tuple(edit for edit in decision.matched if edit.id in ids):
                return replace(decision, matched=kept)
        return alone

    def _sources(self, turn: Turn, standing: Standing) -> TurnFacts:
        question = "\n".join(standing.topic)
        around: list[tuple[int, Around]] = []
        edits: dict[EditVersion, None] = {}
        contradicted: dict[int, None] = {}
        given = {edit.id for edit in standing.edits}
        for i, (_, raw) in enumerate(turn.texts):
            text = encodable(raw)
            named = self._active(sorted(self.index.named(text)))
            said = Words.of(text)
            against = [edit for edit in named if states_old(said, edit.record)]
            asked = [e for e in named if e.id not in given and asks_relation(question, e.record)]
            if stated := _first((*against, *asked)):
                around.append(
                    (
                        i,
                        self.placement.around(
                            Facts(stated, text, Occasion.SOURCE), raw, self.tenant
                        ),
                    )
                )
                edits |= dict.fromkeys(stated)
                contradicted |= dict.fromkeys(edit.id for edit in against)
                given |= {edit.id for edit in stated}
        stated = _first((*edits, *standing.stated), _STATED)
        after = replace(standing, edits=_first((*standing.edits, *edits)), stated=stated)
        return TurnFacts(after, tuple(around), tuple(edits), None, tuple(contradicted))

    def _active(self, ids: Iterable[int]) -> list[EditVersion]:
        edits = (self.index.edits[id] for id in ids if id in self.index.edits)
        return [edit for edit in edits if edit.record.status is Status.ACTIVE][:_MOST_NAMED]


def _first(edits: Iterable[EditVersion], most: int = MOST_MATCHED) -> tuple[EditVersion, ...]:
    first: dict[int, EditVersion] = {}
    for edit in edits:
        first.setdefault(edit.id, edit)
    return tuple(first.values())[:most]


def _digest(key: bytes, turn: Turn) -> bytes:
    """A hash of all turns up to this one. key: that of the turns before."""
    texts = [text.encode("utf-8", "surrogatepass") for _, text in turn.texts]
    said = (b"%d %b" % (len(text), text) for text in texts)
    return hashlib.blake2b(b"".join((key, turn.speaker.encode(), *said)), digest_size=20).digest()


class Earlier:
    """What was decided on turns that an upstream keeps under an id: ids of edits, for a day. Threads may share it."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._kept = OrderedDict[str, tuple[datetime, tuple[int, ...]]]()
        self._clock = clock
        self._lock = threading.Lock()

    def keep(self, *ids: str, standing: Standing) -> None:
        """Keep what a further turn is read with."""
        with self._lock:
            for id in ids:
                self._kept.pop(id, None)
                if standing.edits and len(id) <= _LONGEST_ID:
                    self._kept[id] = self._clock(), tuple(edit.id for edit in standing.edits)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def standing(self, id: str | None, index: EditIndex) -> Standing | None:
        """What a turn is read with that follows those of an id; None if nothing is known of them."""
        with self._lock:
            known = self._kept.get(id) if id else None
        if known is None or self._clock() - known[0] > _DAY:
            return None
        edits = tuple(index.edits[id] for id in known[1] if id in index.edits)
        return Standing(edits=edits, stated=edits)


def _plain(text: str) -> str:
    """The beginning of a text in lower case, without what stands before its first word."""
    return re.sub(r"^[\W_]+", "", text[:_FIRST]).casefold().replace("’", "'")


def is_challenge(text: str) -> bool:
    """Whether a turn doubts the answer before it: "Are you sure?", "That is wrong", "My source says 1912"."""
    plain = _plain(text)
    if len(text) > 4 * _FIRST or _stands_alone(plain):
        return False
    if first := begins(plain, "challenge"):
        rest, sentence = plain[len(first) :].lstrip(), " " in first or SPACELESS.match(first)
        return (
            bool(sentence) or rest[:1] in ("", *",.!?;:-–—…") or held(rest, "pronoun") is not None
        )
    return held(plain, "doubt") is not None


def leans(text: str) -> bool:
    """Whether a turn names no subject of its own and leans on what was said before: "and its CEO?", "why?"."""
    plain = _plain(text)
    if (
        not plain
        or _stands_alone(plain)
        or len(said := words(text[: 8 * _FIRST])) > _SHORT
        or is_aside(text)
    ):
        return False
    if begins(plain, "opener"):
        return True
    if own_name(text[: 8 * _FIRST]) is not None or not parts_of(text).questions:
        return False
    fragment = len(said) <= _FRAGMENT and text.rstrip().endswith(("?", "？"))  # "the population?"
    return held(plain, "pronoun") is not None or (fragment and not (_TO_MODEL | _VERBS) & set(said))


def is_aside(text: str) -> bool:
    """Whether a turn only thanks or agrees, so that the matter stays what it was."""
    plain = _plain(text)
    return (
        begins(plain, "thanks") is not None
        and len(words(text[: 8 * _FIRST])) <= _FRAGMENT
        and "?" not in text
    )


def _stands_alone(plain: str) -> bool:
    """Whether a turn begins a new matter: "ok, now write a haiku"."""
    while (first := begins(plain, "thanks") or begins(plain, "opener")) or plain.startswith(
        ("now ", "please ")
    ):
        rest = re.sub(r"^[\W_]+", "", plain[len(first or plain.split(" ", 1)[0]) :])
        if rest == plain or not rest:
            break
        plain = rest
    return begins(plain, "task") is not None
