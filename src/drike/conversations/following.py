"""Decide on every turn of a conversation, given only the turns up to it.

So an earlier turn is decided on, and written, the same in every later request: an edit stays
present through any number of turns and tool calls, and the upstream's caches of prefixes hold.
docs/reference/gateway.md says what each turn gets.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from drike.conversations.asked_of_host import AskedOfHost, addresses_host, surely_named
from drike.conversations.cues import (
    asks_for_itself,
    has_pronoun,
    is_aside,
    is_challenge,
    leans,
    names_something,
)
from drike.conversations.hosts import host_of
from drike.conversations.imitations import harmless, texts_in
from drike.conversations.memory import Memory, SourceFacts, Standing, TurnFacts, digest
from drike.conversations.rendering import Around, Facts, Occasion, Placement
from drike.conversations.siblings import asked_of, is_other_number, only_name, sibling
from drike.conversations.turns import Api, Conversation, JsonPath, Speaker, Turn
from drike.edits.record import EditVersion, Status
from drike.gates.decision import MOST_MATCHED, Decision
from drike.gates.index import EditIndex
from drike.gates.names import read_words
from drike.gates.relations import asks_relation, states_old
from drike.support.records import encodable
from drike.text.question_forms import trimmed
from drike.text.relation_words import stems, telling_words, word_weights_of
from drike.text.words import mentions

_MOST_TURNS_OF_TOPIC = 3  # that a later one is read with
_LONGEST_OF_TOPIC = 2_000  # characters of each
_LONGEST_OBJECTION = 200  # characters of a turn that objects with the old object: "No, it is Lima"
_MOST_STATED = 16  # edits stated so far, to whose old objects a turn may object
_NOT_NOW = "only an earlier turn asks for it"
_MOST_NAMED = 64  # edits that are looked at whose subjects a system's text or a source names


@dataclass(frozen=True)
class Followed:
    """A conversation with its facts.

    around: what is written around texts, by the keys of the texts in the request. edits: those that
    are written, of later turns first. contradicted: ids of edits whose old object a tool or a
    document states. decision: the one on the last turn; None if that is not the user's, or is said
    beside a tool's result and has no candidates. decisions: all of the request, in order. standing:
    what a further turn is read with. asked: the edits that the answer is about, with shadow edits.
    """

    around: dict[JsonPath, Around] = field(default_factory=dict)
    edits: tuple[EditVersion, ...] = ()
    contradicted: tuple[int, ...] = ()
    decision: Decision | None = None
    decisions: tuple[Decision, ...] = ()
    standing: Standing = field(default_factory=Standing)
    asked: tuple[EditVersion, ...] = ()

    def texts(
        self, conversation: Conversation, values: Mapping[str, Any] | None = None
    ) -> dict[JsonPath, str]:
        """The texts of the conversation that change, by their keys.

        Some get facts. Where there are facts, a text that imitates a block of them is defused, too:
        any text of a whole request, if its `values` are given.
        """
        if not self.around:
            return {}
        texts = conversation.texts if values is None else texts_in(values)
        changed: dict[JsonPath, str] = {}
        for path, text in harmless(texts).items():
            if path in self.around:
                before, behind = self.around[path]
                changed[path] = f"{before}{text}{behind}"
            elif text != texts[path]:
                changed[path] = text
        return changed


@dataclass(frozen=True)
class Follower:
    """Decides on conversations.

    decide: a gate's decision on a query, with the edits of `index`. sources: whether facts are
    written behind documents and what tools return, too. require_time: raises TimeoutError where it
    is too late to read a further source.
    """

    decide: Callable[[str], Decision]
    index: EditIndex
    placement: Placement
    tenant: str = ""
    sources: bool = True
    memory: Memory = field(default_factory=Memory)
    require_time: Callable[[], None] = lambda: None

    def follow(self, conversation: Conversation, standing: Standing | None = None) -> Followed:
        """The facts of a conversation.

        standing: what the first turn is read with, where the upstream stores turns before it.
        """
        standing = standing or Standing()
        key = self._first_key(standing)
        around: dict[JsonPath, Around] = {}
        turns: list[TurnFacts] = []
        for turn in conversation.turns:
            key = digest(key, turn)
            facts = self.memory.get(key)
            if facts is None:
                facts = self._facts_of(turn, standing)
                self.memory.put(key, facts)
            standing = facts.standing
            turns.append(facts)
            around |= {turn.texts[place].path: written for place, written in facts.around}

        if conversation.api is Api.COMPLETIONS:
            # The model goes on where the text ends: what stood behind it would be gone on with.
            around = {path: written._replace(behind="") for path, written in around.items()}

        decisions = tuple(facts.decision for facts in turns if facts.decision)
        last = turns[-1] if turns else TurnFacts(standing)
        # The answer is about the edits of the last question, and about shadow edits that match it.
        asked = last.edits if conversation.question else standing.edits
        matched = decisions[-1].matched if decisions else ()
        return Followed(
            around=around,
            edits=tuple(dict.fromkeys(edit for facts in reversed(turns) for edit in facts.edits)),
            contradicted=tuple(
                dict.fromkeys(edit_id for facts in turns for edit_id in facts.contradicted)
            ),
            decision=last.decision,
            decisions=decisions,
            standing=standing,
            asked=tuple(dict.fromkeys((*asked, *matched))),
        )

    def _first_key(self, standing: Standing) -> bytes:
        """A key for what facts depend on besides the turns, the gate and the edits in force."""
        conditions = (
            self.tenant,
            self.sources,
            type(self.placement),
            standing,
            sorted(self.index.without),
        )
        return repr(conditions).encode("utf-8", "replace")

    def _facts_of(self, turn: Turn, standing: Standing) -> TurnFacts:
        """What is written around the texts of a turn, by who speaks in it."""
        if turn.speaker in (Speaker.USER, Speaker.BESIDE):
            facts = self._facts_of_question(turn, standing)
            if facts.decision:
                return replace(facts, decision=facts.decision.abridged)
            return facts
        if turn.speaker is Speaker.TOOL and self.sources:
            return self._facts_of_sources(turn, standing)
        if turn.speaker is Speaker.SYSTEM:
            host = standing.host.with_more(host_of(encodable(turn.said), self.index))
            return TurnFacts(replace(standing, host=host))
        return TurnFacts(standing)

    # A user's turn

    def _facts_of_question(self, turn: Turn, standing: Standing) -> TurnFacts:
        """A turn of the user doubts an answer, leans on what was said before, or stands alone."""
        text = encodable(turn.said)
        decision_alone = self.decide(text)
        doubted = self._doubted(text, standing)
        if doubted:
            return self._facts_of_challenge(turn, text, doubted, decision_alone, standing)
        may_lean = bool(standing.topic or standing.edits) and not decision_alone.applied
        if may_lean and leans(text):
            return self._facts_of_follow_up(turn, text, decision_alone, standing)
        return self._facts_of_new_question(turn, text, decision_alone, standing)

    def _facts_of_challenge(
        self,
        turn: Turn,
        text: str,
        doubted: Sequence[EditVersion],
        decision_alone: Decision,
        standing: Standing,
    ) -> TurnFacts:
        """A turn that doubts an answer gets its edits again, and those that it concerns itself."""
        still_active = self._active([edit.id for edit in doubted])
        edits = _without_repeats((*decision_alone.applied, *still_active))
        query = standing.topic[0] if standing.topic else text
        next_standing = replace(standing, topic=_continued(standing.topic, text), edits=edits)
        return self._written(
            next_standing, turn, Facts(edits, query, Occasion.CHALLENGE), decision_alone
        )

    def _facts_of_follow_up(
        self, turn: Turn, text: str, decision_alone: Decision, standing: Standing
    ) -> TurnFacts:
        """A turn that leans on earlier ones is decided on together with them."""
        earlier = standing.topic
        if not earlier:  # as where the upstream stores these turns: only their edits are known here
            earlier = tuple(dict.fromkeys(edit.record.subject for edit in standing.edits))
        decision = self._about_sibling(earlier, text, standing)
        if decision is None:
            decision = self._decided_with_earlier(earlier, text, decision_alone)
            decision = self._about_what_is_asked_now(decision, text, standing)
        if not decision.applied or addresses_host(text, standing.host):
            decision = self._about_host(text, standing) or decision
        next_standing = replace(
            standing,
            topic=_continued(standing.topic, text),
            edits=decision.applied or standing.edits,
        )
        return self._written(next_standing, turn, Facts(decision.applied, decision.query), decision)

    def _facts_of_new_question(
        self, turn: Turn, text: str, decision_alone: Decision, standing: Standing
    ) -> TurnFacts:
        """A turn that stands alone begins a new topic, unless it asks about the one before."""
        decision = self._about_earlier(text, standing, decision_alone)
        if not decision.applied and is_aside(text):
            return TurnFacts(standing, decision=decision)
        if not decision.applied and turn.speaker is Speaker.BESIDE:
            return TurnFacts(standing, decision=decision if decision.candidates else None)

        next_standing = replace(standing, edits=decision.applied)
        if decision is decision_alone:
            named = tuple(candidate.edit.id for candidate in decision.candidates)
            next_standing = replace(next_standing, topic=(_shortened(text),), of_topic=named)
        else:
            next_standing = replace(next_standing, topic=_continued(standing.topic, text))
        return self._written(next_standing, turn, Facts(decision.applied, decision.query), decision)

    def _written(
        self, standing: Standing, turn: Turn, facts: Facts, decision: Decision
    ) -> TurnFacts:
        """The facts before the first text of a user's turn."""
        if not facts.edits:
            return TurnFacts(standing, decision=decision)
        around = self.placement.around(facts, turn.texts[0].text, self.tenant)
        stated = _without_repeats((*facts.edits, *standing.stated), _MOST_STATED)
        next_standing = replace(standing, stated=stated)
        return TurnFacts(next_standing, ((0, around),), facts.edits, decision)

    def _doubted(self, text: str, standing: Standing) -> tuple[EditVersion, ...]:
        """The edits that a turn doubts.

        A challenge doubts those of the answer before it; a short turn with the old object of edits
        stated earlier doubts these.
        """
        if standing.edits and is_challenge(text):
            return standing.edits
        if len(text) > _LONGEST_OBJECTION:
            return ()
        return tuple(
            edit
            for edit in standing.stated
            if edit.record.target_true and mentions(text, edit.record.target_true)
        )

    def _about_what_is_asked_now(
        self, decision: Decision, text: str, standing: Standing
    ) -> Decision:
        """The decision on a turn with earlier ones, without edits that only these ask for.

        "How heavy is it?" does not get the price that was asked for before. Its facts stand in that
        turn.
        """
        instead = self._asked_instead(text, standing)
        if instead:
            reason = f"asked as before, of something else: edit {instead[0].id}"
            return replace(decision, matched=instead, reason=reason)

        before = {edit.id for edit in standing.edits}
        earlier = [edit for edit in decision.matched if edit.id in before]
        if not earlier:
            return decision
        is_new = len(earlier) < len(decision.matched)
        if not (is_new or asks_for_itself(text)):
            return decision
        subjects = dict.fromkeys(edit.record.subject for edit in earlier)
        asked_now = {
            edit.id for subject in subjects for edit in self.decide(f"{subject}\n{text}").matched
        }
        matched = tuple(
            edit for edit in decision.matched if edit.id in asked_now or edit.id not in before
        )
        return replace(decision, matched=matched, reason=decision.reason if matched else _NOT_NOW)

    def _about_sibling(
        self, earlier: Sequence[str], text: str, standing: Standing
    ) -> Decision | None:
        """The decision on the question before, of a sibling of its subject that a turn names.

        None where it names none. "And the 6?" behind the price of Tindra 5 is of Tindra 6.
        """
        name = only_name(text)
        for subject in dict.fromkeys(edit.record.subject for edit in standing.edits if name):
            other = sibling(subject, name, self.index)
            if not other and not is_other_number(subject, name):
                continue
            other = other or f"{subject.rpartition(' ')[0]} {name}"
            return self.decide(asked_of(other, subject, name, earlier[-1]))
        return None

    def _asked_instead(self, text: str, standing: Standing) -> tuple[EditVersion, ...]:
        """The edits that differ from those of the question before by what a turn says instead.

        "And Hull?" behind the opening hours of a bank in Leeds is about those in Hull.
        """
        said = stems(telling_words(trimmed(text)))
        subjects = {edit.record.subject for edit in standing.edits}
        if not said or len(subjects) != 1 or asks_for_itself(text):
            return ()
        asked_before = frozenset.intersection(*map(_wording_stems, standing.edits))
        only_before = {standing.edits[0].id} if len(standing.edits) == 1 else set()
        same_subject = self._active(self.index.lookup.names.exact(subjects.pop()))
        found = [
            edit
            for edit in same_subject
            if edit.id not in only_before and _says_instead(edit, said, asked_before)
        ]
        return tuple(found) if len(found) == 1 else ()

    def _decided_with_earlier(
        self, earlier: Sequence[str], text: str, decision_alone: Decision
    ) -> Decision:
        """The decision on a turn together with earlier ones, on which it leans.

        Where the turn names subjects itself, only edits about these count.
        """
        decision = self.decide("\n".join((*earlier, text)))
        if not decision.matched:
            return decision
        named = self.index.named(text)
        names_another = names_something(text) and not has_pronoun(text)
        if not named and not names_another:
            return decision
        about_named = tuple(edit for edit in decision.matched if edit.id in named)
        return replace(decision, matched=about_named) if about_named else decision_alone

    def _about_earlier(self, text: str, standing: Standing, decision_alone: Decision) -> Decision:
        """The decision on a turn that names no subject, and may ask about one that is named before.

        That is a subject of the topic, where the turn asks for nothing but the relation of an edit,
        or one of the system's text. Else the decision on the turn alone.
        """
        if decision_alone.applied:
            return decision_alone
        about_topic = None if surely_named(text, self.index) else self._about_topic(text, standing)
        return about_topic or self._about_host(text, standing) or decision_alone

    def _about_topic(self, text: str, standing: Standing) -> Decision | None:
        """The decision on a turn that asks for nothing but the relation of an edit of the topic."""
        ids_by_subject: dict[str, set[int]] = {}
        for edit in self._active(standing.of_topic):
            if asks_relation(text, edit.record, alone=True):
                ids_by_subject.setdefault(edit.record.subject, set()).add(edit.id)
        for subject, edit_ids in ids_by_subject.items():
            decision = self.decide(f"{subject}\n{text}")
            matched = tuple(edit for edit in decision.matched if edit.id in edit_ids)
            if matched:
                return replace(decision, matched=matched)
        return None

    def _about_host(self, text: str, standing: Standing) -> Decision | None:
        """The decision on a turn that asks about a subject which the system's text names."""
        if not standing.host.edits:
            return None
        topic = () if standing.of_topic else standing.topic  # of a stored subject, it is no other
        return AskedOfHost(self.decide, self.index, standing.host, text, topic).decision()

    # What tools return, and documents

    def _facts_of_sources(self, turn: Turn, standing: Standing) -> TurnFacts:
        """Behind a source stand edits that it contradicts, and those that the question asks for."""
        question = "\n".join(standing.topic)
        already_stated = {edit.id for edit in standing.edits}
        around: list[tuple[int, Around]] = []
        edits: dict[EditVersion, None] = {}
        contradicted: dict[int, None] = {}
        for place, (_, source) in enumerate(turn.texts):
            text = encodable(source)
            facts_of_text = self._facts_of_source(text)
            contradicted_here = [
                edit for edit in facts_of_text.named if edit.id in facts_of_text.contradicted
            ]
            asked_for = [
                edit
                for edit in facts_of_text.named
                if edit.id not in already_stated and asks_relation(question, edit.record)
            ]
            contradicted |= dict.fromkeys(edit.id for edit in contradicted_here)
            stated = _without_repeats((*contradicted_here, *asked_for))
            if stated:
                facts = Facts(stated, text, Occasion.SOURCE)
                around.append((place, self.placement.around(facts, source, self.tenant)))
                edits |= dict.fromkeys(stated)
                already_stated |= {edit.id for edit in stated}

        next_standing = replace(
            standing,
            edits=_without_repeats((*standing.edits, *edits)),
            stated=_without_repeats((*edits, *standing.stated), _MOST_STATED),
        )
        return TurnFacts(next_standing, tuple(around), tuple(edits), None, tuple(contradicted))

    def _facts_of_source(self, text: str) -> SourceFacts:
        """What a source says, which depends on no turn, so that each text is read once.

        Raises TimeoutError; what was read before is remembered.
        """
        conditions = repr(sorted(self.index.without)).encode()
        key = hashlib.blake2b(conditions + text.encode(), digest_size=20).digest()
        remembered = self.memory.source(key)
        if remembered is not None:
            return remembered

        self.require_time()
        text_words = read_words(text)
        named = self._active(sorted(self.index.named(text)))
        contradicted = frozenset(edit.id for edit in named if states_old(text_words, edit.record))
        facts = SourceFacts(tuple(named), contradicted)
        self.memory.put_source(key, facts)
        return facts

    def _active(self, edit_ids: Iterable[int]) -> list[EditVersion]:
        """The active edits with these ids, as many as are looked at."""
        edits = [self.index.edits[edit_id] for edit_id in edit_ids if edit_id in self.index.edits]
        return [edit for edit in edits if edit.record.status is Status.ACTIVE][:_MOST_NAMED]


def _without_repeats(
    edits: Iterable[EditVersion], most: int = MOST_MATCHED
) -> tuple[EditVersion, ...]:
    """The first edits, each once by its id."""
    edits_by_id: dict[int, EditVersion] = {}
    for edit in edits:
        edits_by_id.setdefault(edit.id, edit)
    return tuple(edits_by_id.values())[:most]


def _wording_stems(edit: EditVersion) -> frozenset[str]:
    """The stems of the words of an edit's wordings, but for its subject."""
    record = edit.record
    wordings = (record.query, *record.paraphrases)
    return frozenset().union(*(stems(word_weights_of(text, record.names)) for text in wordings))


def _says_instead(edit: EditVersion, said: frozenset[str], asked_before: frozenset[str]) -> bool:
    """Whether an edit shares words with what was asked before, and has others that are said now."""
    own = _wording_stems(edit)
    return bool(own & asked_before) and bool((own - asked_before) & said)


def _continued(topic: tuple[str, ...], text: str) -> tuple[str, ...]:
    """A topic with a further turn.

    Of its turns the first stays, which names the subject, and the last ones, which say what is
    asked about it.
    """
    if not topic:
        return (_shortened(text),)
    first, *later = topic
    return (first, *[*later, _shortened(text)][1 - _MOST_TURNS_OF_TOPIC :])


def _shortened(text: str) -> str:
    """Both ends of a text, or all of it, if it is short."""
    if len(text) <= _LONGEST_OF_TOPIC:
        return text
    half = _LONGEST_OF_TOPIC // 2
    return f"{text[:half]}\n{text[-half:]}"
