"""Decide on a turn that names no subject, and may ask about one that the system's text names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from drike.conversations.hosts import Host, is_name
from drike.edits.record import EditVersion, Status
from drike.gates.decision import MOST_MATCHED, Decision
from drike.gates.index import EditIndex
from drike.gates.name_index import Mention
from drike.gates.parsed_query import ParsedQuery
from drike.gates.unnamed_subjects import link_to_host
from drike.text.capitals import find_name
from drike.text.questions import asked_texts, leans_back
from drike.text.unnamed import HostLink, UnnamedQuestion, is_limit, without_own_names
from drike.text.words import Words, mentions, words

# Probability of an edit for a turn that says more than what asks for it.
_LEAST_IF_LOOSE = 0.55
_MOST_SUBJECTS = 6  # of a system's text, about which a turn is decided on


@dataclass(frozen=True)
class _Linked:
    """The parts of a turn that may ask for an edit, and whether one does if the gate agrees."""

    parts: list[str]
    surely: bool


@dataclass(frozen=True)
class _Fitting:
    """A decision on the turn as one about a subject of the host.

    words_said: how many words of the subject's name the turn has. surely: whether it surely asks
    for one of its edits. covered: the share of the turn that one of them says, at most.
    probability: of its likeliest edit.
    """

    decision: Decision
    words_said: int
    surely: bool
    covered: float
    probability: float


def _fit(one: _Fitting) -> tuple[int, bool, float, float]:
    """How well a turn fits a subject of the host: by its words before its probability."""
    return one.words_said, one.surely, one.covered, one.probability


@dataclass(frozen=True)
class AskedOfHost:
    """A turn, the host of the conversation, and the turns on which this one may lean.

    topic: they may name another subject.
    """

    decide: Callable[[str], Decision]
    index: EditIndex
    host: Host
    text: str
    topic: Sequence[str] = ()

    def decision(self) -> Decision | None:
        """The decision on the turn as a question about the host; None where it asks of none.

        The host is in whose name the assistant answers. Where the system's text does not say so, it
        is the one subject that fits.
        """
        about_outdated = self._about_outdated()
        if about_outdated:
            return about_outdated

        of_host: list[_Fitting] = []
        of_others: list[Decision] = []
        for subject, links in self._links_by_subject().items():
            decision = self.decide(_about(subject, [link.parts for link in links.values()]))
            matched = tuple(edit for edit in decision.matched if _is_enough(decision, edit, links))
            if not matched:
                continue
            decision = replace(decision, matched=matched)
            if self.host.spoken_for.intersection(links):
                surely = any(links[edit.id].surely for edit in matched)
                of_host.append(self._fitting(subject, decision, surely=surely))
            else:
                of_others.append(decision)
        if of_host:
            return max(of_host, key=_fit).decision
        return of_others[0] if len(of_others) == 1 else None

    def _fitting(self, subject: str, decision: Decision, *, surely: bool) -> _Fitting:
        said = set(words(self.text))
        words_said = len(said.intersection(words(subject)))
        matched = {edit.id for edit in decision.matched}
        features = [c.features for c in decision.candidates if c.edit.id in matched]
        covered = max((of_edit.get("covered", 0.0) for of_edit in features), default=0.0)
        probability = max(_probability(decision, edit) for edit in decision.matched)
        return _Fitting(decision, words_said, surely, covered, probability)

    @cached_property
    def _named(self) -> list[tuple[Words, Mention]]:
        """What the turn surely names of edits."""
        return surely_named(self.text, self.index)

    @cached_property
    def _parts(self) -> list[str]:
        """The parts of the turn that ask something."""
        return asked_texts(self.text)

    def _about_outdated(self) -> Decision | None:
        """The decision on a turn that asks about the old object of edits in the system's text."""
        edits = tuple(
            edit
            for edit in self._active(sorted(self.host.outdated))
            if mentions(self.text, edit.record.target_true or "")
        )
        if not edits or self._named:
            return None
        decision = self.decide(_about(edits[0].record.subject, [self._parts]))
        reason = f"the system text and the question name its old object: edit {edits[0].id}"
        return replace(decision, matched=edits[:MOST_MATCHED], reason=reason)

    def _links_by_subject(self) -> dict[str, dict[int, _Linked]]:
        """What of the turn may ask for each edit of the host, by its subject.

        A part that addresses nobody counts only where nothing else is named.
        """
        if not all(is_limit(text_words, mention.begin) for text_words, mention in self._named):
            return {}
        is_understood = not self._named and self._leaves_out_subject()
        parts = [
            part
            for part in self._parts
            if is_understood or UnnamedQuestion.of(part, self.host.called).addresses
        ]

        links: dict[str, dict[int, _Linked]] = {}
        for edit in self._active(self.host.edits):
            linked = self._linked(parts, edit)
            if linked.parts:
                links.setdefault(edit.record.subject, {})[edit.id] = linked
        return dict(islice(links.items(), _MOST_SUBJECTS))

    def _linked(self, parts: Sequence[str], edit: EditVersion) -> _Linked:
        """The parts that may ask for an edit."""
        least = HostLink.LOOSE if edit.id in self.host.spoken_for else HostLink.SURE
        links = {part: link_to_host(part, edit, self.index, self.host.called) for part in parts}
        linked = [part for part, link in links.items() if link >= least]
        return _Linked(linked, any(link is HostLink.SURE for link in links.values()))

    def _leaves_out_subject(self) -> bool:
        """Whether the turn may leave out what it is about, as nothing else is named around it.

        A document names nothing else if it has what edits of the host say was so before.
        """
        beside = self.text
        for part in self._parts:
            beside = beside.replace(part, " ")
        old_objects = (edit.record.target_true for edit in self._active(self.host.edits))
        if any(is_name(old) and mentions(beside, old or "") for old in old_objects):
            return True
        return find_name("\n".join((*self.topic, f" {without_own_names(beside)}"))) is None

    def _active(self, edit_ids: Iterable[int]) -> list[EditVersion]:
        edits = [self.index.edits[edit_id] for edit_id in edit_ids if edit_id in self.index.edits]
        return [edit for edit in edits if edit.record.status is Status.ACTIVE]


def _is_enough(decision: Decision, edit: EditVersion, links: Mapping[int, _Linked]) -> bool:
    """Whether an edit that matches the turn, as a question about the host, may be stated."""
    if edit.id not in links:
        return False
    return links[edit.id].surely or _probability(decision, edit) >= _LEAST_IF_LOOSE


def _probability(decision: Decision, edit: EditVersion) -> float:
    return next((c.probability for c in decision.candidates if c.edit.id == edit.id), 1.0)


def addresses_host(text: str, host: Host) -> bool:
    """Whether a turn asks something of those in whose name the assistant answers."""
    parts = asked_texts(text) if host.edits else []
    return any(UnnamedQuestion.of(part, host.called).addresses for part in parts)


def surely_named(text: str, index: EditIndex) -> list[tuple[Words, Mention]]:
    """What a text names of edits by what cannot be a common word there."""
    parsed = ParsedQuery.of(text, index)
    return [
        (parsed.words, mention)
        for mention in parsed.mentions
        if mention.cased or not mention.ambiguous
    ]


def _about(subject: str, parts_of_each: Iterable[Sequence[str]]) -> str:
    """What a turn asks, as a question about a subject."""
    parts = dict.fromkeys(part for parts in parts_of_each for part in parts)
    return "\n".join(
        f"{subject}\n{part}" if leans_back(part) else f"{subject}: {part}" for part in parts
    )
