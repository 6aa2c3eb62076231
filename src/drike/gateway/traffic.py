"""How edits fare: by what is counted of requests and answers, gathered here and kept in the store, and by logs.

A request only leaves a note. A thread judges the answer, forgets its text unless it is to be a sample, and adds the
numbers to the store from time to time; a kill loses those since then.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING

from drike.answers.statements import Stated
from drike.conversations.following import Follower
from drike.conversations.turns import Conversation
from drike.edits.record import EditVersion, Status
from drike.gates.decision import Candidate, Decision
from drike.gateway.options import Mode
from drike.gateway.requests import EditedRequest, logged
from drike.stores.edit_store import EditStore
from drike.stores.inbox import LONGEST, Inbox, Report, ReportState
from drike.stores.snapshots import Snapshot
from drike.stores.traffic import OTHER, Counted, Counts, TrafficCounts
from drike.support.records import encodable
from drike.support.table import Z95, Estimate, counted

if TYPE_CHECKING:  # edits are replayed without what a gateway needs
    from drike.gateway.http.relay import PassingAnswer
    from drike.gateway.http.routes import Metrics

AT_LEAST = 0.95
_LOG = logging.getLogger(__name__)
_MODEL, _NAME_LENGTH = (
    re.compile(r"[\w./:@+,=-]+"),
    100,
)  # names of models; other texts may be a user's
_MOST_NUMBERS = 100_000  # after which models are not told apart, until a store takes them
_FAILED = ("degraded", "unread")  # scopes of requests whose edits are not known
_MOST_HELD, _MOST_NOTED = 8 << 20, 20_000  # bytes of answers, and requests, that wait to be judged
_AT_A_TIME = 0.0005  # seconds of judging before the event loop may go on
_HIDDEN = {  # what names a person or opens a door, by its form; names in plain words are not found
    "address": r"\b(?i:https?)://\S+",
    "e-mail": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "IP": r"\b\d{1,3}(?:\.\d{1,3}){3}\b|(?<![\w:])(?=[\da-fA-F:]*::|(?:\w+:){4})[\da-fA-F:]{3,39}\b",
    "key": r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}|\b(?:sk|pk|ghp|xox[a-z])[-_][\w-]{16,}",
    "number": r"\+?\b\d(?:[\s().\-/]{0,2}\d){6,}\b",  # of a phone, a card, an account
}
_PATTERN = re.compile(
    "|".join(f"(?P<h{i}>{pattern})" for i, pattern in enumerate(_HIDDEN.values()))
)
_AROUND_CUT = (
    LONGEST - 300,
    LONGEST + 300,
)  # where an address may be cut in two; links and keys are told by less
_MOST_NAMED = 10  # edits in a sentence


@dataclass(frozen=True)
class Sampling:
    """Answers to keep: the newest `most` of an edit's version, mode and outcome. redact: hide what may be private."""

    most: int = 0
    redact: bool = True

    def sample(
        self, question: str, answer: str, edit: EditVersion, *, mode: str, outcome: str, model: str
    ) -> Report:
        """An answer to a question that concerns an edit."""
        kept = ((redacted(text) if self.redact else text)[:LONGEST] for text in (question, answer))
        asked, said = map(encodable, kept)  # a limit may have cut a sign in two
        about = f"edit {edit.id}@{edit.version}, {mode}: {outcome}"
        return Report(
            asked, said, comment=about, model=model, state=ReportState.SAMPLE, edit=edit.id
        )


NO_SAMPLES = Sampling()


def redacted(text: str) -> str:
    """A text, at most what is kept of it, with [e-mail] for an e-mail address, and likewise for all `_HIDDEN`."""
    last = (
        f.start() for f in _PATTERN.finditer(text, *_AROUND_CUT) if f.start() < LONGEST < f.end()
    )
    kept = text[
        : next(last, LONGEST)
    ]  # without what would be cut in two, and not be known any more
    return _PATTERN.sub(lambda found: f"[{list(_HIDDEN)[int(found.lastgroup[1:])]}]", kept)  # type: ignore[index]


class Watch:
    """Counts what passes for one store. problem: why it did not take the numbers the last time."""

    def __init__(self, clock: Callable[[], datetime], sampling: Sampling = NO_SAMPLES) -> None:
        self.problem: str | None = None
        self.sampling = sampling
        self._samples: dict[str | None, deque[Report]] = {}
        self._clock = clock
        self._noted: deque[tuple[EditedRequest, PassingAnswer | None, Metrics]] = deque()
        self._held = 0  # about how many bytes of answers
        self._counts: Counts = Counter()
        self._judging = threading.RLock()  # one thread at a time takes what is noted, and stores it
        self._counting = threading.Lock()

    def note(self, edited: EditedRequest, answer: PassingAnswer | None, metrics: Metrics) -> None:
        """Take a request whose answer has passed, or failed; None where it passes elsewhere."""
        if len(self._noted) >= _MOST_NOTED:  # judging is far behind: it is counted now, unread
            if answer:
                answer.drop()
            self._count(edited, answer, metrics)
            return
        if answer and edited.asked:
            if not answer.complete or self._held + answer.held > _MOST_HELD:
                answer.drop()
            self._held += answer.held
        self._noted.append((edited, answer, metrics))

    def judge(self) -> None:
        """Count what has passed up to now."""
        with self._judging:
            paused = time.monotonic()
            for _ in range(len(self._noted)):  # more may be noted meanwhile
                self._count(*self._noted.popleft())
                if time.monotonic() - paused > _AT_A_TIME:
                    time.sleep(0)  # the event loop goes first
                    paused = time.monotonic()
            self._held = sum(
                answer.held for edited, answer, _ in list(self._noted) if answer and edited.asked
            )

    def flush(self, store: EditStore) -> None:
        """Add what was counted to a store; what it does not take now is kept for the next time."""
        with self._judging:
            self.judge()
            with self._counting:
                numbers, self._counts = self._counts, Counter()
            if not numbers:
                return
            try:
                TrafficCounts(store.database).add(numbers)
                numbers = Counter()
                if samples := [sample for alike in self._samples.values() for sample in alike]:
                    Inbox(store.database).keep_samples(samples, self.sampling.most)
                    self._samples = {}
                self.problem = None
            except Exception as problem:  # of any kind, as nothing may end the counting
                with self._counting:
                    self._counts.update(numbers)
                if self.problem is None:
                    _LOG.warning("counts cannot be kept: %s", problem)
                self.problem = str(problem)

    def _count(self, edited: EditedRequest, answer: PassingAnswer | None, metrics: Metrics) -> None:
        try:
            with self._counting:
                self._add(edited, answer, metrics)
        except Exception as error:  # whatever an answer holds, the others are counted
            _LOG.error("an answer was not counted: %s", type(error).__name__)

    def _add(self, edited: EditedRequest, answer: PassingAnswer | None, metrics: Metrics) -> None:
        day, model = self._clock().date().isoformat(), OTHER
        if (
            isinstance(edited.model, str)
            and answer
            and answer.ok
            and len(self._counts) < _MOST_NUMBERS
        ):
            model = (
                edited.model[:_NAME_LENGTH] if _MODEL.fullmatch(edited.model) else OTHER
            )  # an upstream knows it

        def count(what: str, edit: EditVersion | None = None, number: int = 1) -> None:
            id, version, mode = (
                (edit.id, edit.version, mode_of(edit, edited.mode)) if edit else (0, 0, edited.mode)
            )
            self._counts[Counted(day, id, version, model, mode, what)] += number

        of_request = {
            "matched": edited.asked,
            "doubted": edited.doubted,
            edited.scope: edited.scope in _FAILED,
        }
        for what in ("requests", *(what for what, happened in of_request.items() if happened)):
            count(what)
        for edit in edited.doubted:
            count("doubted", edit)
        for i, edit in enumerate(edited.edits):  # each its share
            count(
                "tokens",
                edit,
                edited.tokens // len(edited.edits) + (i < edited.tokens % len(edited.edits)),
            )
        text = answer.text() if answer and edited.asked else None
        for edit in edited.asked:
            unread = "unread" if answer is None or answer.ok else "failed"
            outcome = unread if text is None else edit.record.states(text)
            for what in (
                "matched",
                outcome,
                *(["slips"] if answer and edit.id in answer.slipped else []),
            ):
                count(what, edit)
            mode = mode_of(edit, edited.mode)
            metrics.answers.labels(outcome, mode).inc()
            if edited.question and text is not None:
                sample = self.sampling.sample(
                    edited.question, text, edit, mode=mode, outcome=outcome, model=model
                )
                self._samples.setdefault(sample.comment, deque(maxlen=self.sampling.most)).append(
                    sample
                )


def mode_of(edit: EditVersion, mode: Mode) -> Mode:
    """How an edit takes effect in a request of this mode: one in shadow changes none."""
    return Mode.SHADOW if edit.record.status is Status.SHADOW and mode is Mode.ON else mode


@dataclass(frozen=True)
class EditHealth:
    """How an edit fared in one mode, under its latest version and those before it that say the same."""

    edit: EditVersion
    by_day: Mapping[str, Counter[str]]  # how often what was counted, on each day with requests
    numbers: Counter[str]  # on all of them
    judged: int  # answers
    took: Estimate  # the share of these that state the new object and not the old one
    verdict: str  # below or holds what is asked for, or open
    words: str  # the same in words, with the reason
    tokens_a_day: float  # that it added, about

    @property
    def values(self) -> dict[str, object]:
        """All figures, for JSON."""
        figures = {name: value for name, value in vars(self).items() if name != "edit"}
        return summary(self.edit) | figures | {"took": vars(self.took)}


def summary(edit: EditVersion) -> dict[str, object]:
    """What an edit says, in short, for JSON."""
    record = edit.record
    return {
        "id": edit.id,
        "version": edit.version,
        "query": record.query,
        "target_new": record.target_new,
    }


def health(
    edits: Snapshot, counts: Counts, at_least: float = AT_LEAST, mode: Mode = Mode.ON
) -> list[EditHealth]:
    """How each active or shadow edit fared in a mode, those below `at_least` first, then by the interval's low end."""
    days, numbers = (
        sorted({key.day for key in counts}),
        dict[EditVersion, dict[str, Counter[str]]](),
    )
    for key, number in counts.items():
        edit, first = edits.edits.get(key.edit), edits.unchanged.get(key.edit, key.version)
        if (
            edit
            and edit.record.status.in_use
            and first <= key.version <= edit.version
            and key.mode == mode
        ):
            numbers.setdefault(edit, {day: Counter() for day in days})[key.day][key.what] += number
    all_ = (_health(edit, by_day, at_least) for edit, by_day in numbers.items())
    return sorted(
        all_, key=lambda line: (line.verdict != "below", line.took.low is None, line.took.low)
    )


def _health(edit: EditVersion, by_day: Mapping[str, Counter[str]], at_least: float) -> EditHealth:
    numbers = sum(by_day.values(), Counter[str]())
    judged = sum(numbers[outcome] for outcome in Stated)
    took = Estimate.share(numbers[Stated.NEW], judged)
    least = ceil(at_least / (1 - at_least) * Z95**2)  # if all take it
    verdict, words = "open", f"around {at_least:.0%}"
    if took.high is not None and took.high < at_least:
        verdict, words = "below", f"below {at_least:.0%}"
    elif took.low is not None and took.low >= at_least:
        verdict, words = "holds", "as it should be"
    elif judged < least:
        words = f"too little traffic: {judged:,} of at least {least:,} answers"
    return EditHealth(
        edit,
        by_day,
        numbers,
        judged,
        took,
        verdict,
        words,
        round(numbers["tokens"] / len(by_day), 1),
    )


def shadow_report(
    edits: Snapshot, counts: Counts, price_in: float | None = None
) -> tuple[list[str], list[EditHealth]]:
    """What came and what switching on would do, at a price of a million tokens; the shadow edits, most asked first."""
    requests, doubted = Counter[str](), Counter[int]()
    for key, number in counts.items():
        if not key.edit:
            requests[key.what] += number
        elif key.what == "doubted":
            doubted[key.edit] += number
    lines = sorted(
        health(edits, counts, mode=Mode.SHADOW), key=lambda line: -line.numbers["matched"]
    )
    if not requests["requests"]:
        return ["No request was counted in these days: send some through drike serve."], lines
    days, share = (
        counted(len({key.day for key in counts}), "day"),
        requests["matched"] / requests["requests"],
    )
    asked = f"Of {counted(requests['requests'], 'request')} in {days}, {requests['matched']:,}"
    said = [f"{asked} ({_percent(share, 1)}) concern an edit."]
    if judged := sum(line.judged for line in lines):
        old, new = (
            sum(line.numbers[what] for line in lines) / judged for what in (Stated.OLD, Stated.NEW)
        )
        of = f"of {counted(judged, 'answer')}, and the new one in {_percent(new)}"
        said.append(f"Without the edit the model states the old object in {_percent(old)} {of}.")
    if tokens := sum(line.tokens_a_day for line in lines):
        cost = (
            ""
            if price_in is None
            else f" ({tokens * price_in / 1e6:,.2f} a day at {price_in:g} a million)"
        )
        said.append(f"Switching on adds about {tokens:,.0f} tokens a day{cost}.")
    if number := requests["doubted"]:
        where = ", ".join(str(edit) for edit, _ in doubted.most_common(_MOST_NAMED))
        said.append(
            f"{counted(number, 'decision')} in doubt: look at edits {where} (drike edits replay)."
        )
    if lost := requests["unread"] + requests["degraded"]:
        said.append(f"{counted(lost, 'request')} could not be read, or not be decided on in time.")
    return said, lines


@dataclass(frozen=True)
class ReplayedQuery:
    """A query with a candidate for it, and how many requests asked it."""

    query: str
    candidate: Candidate
    times: int


@dataclass(frozen=True)
class Replay:
    """Decisions on logged requests, of which `matched` get an edit. unread: how many lines were left out, by reason.

    matches: queries and their edits, the least probable first. misses: the best candidates, the most probable first.
    """

    requests: int
    matched: int
    matches: tuple[ReplayedQuery, ...]
    misses: tuple[ReplayedQuery, ...]
    unread: Mapping[str, int]


def replay(lines: Iterable[bytes], follower: Follower) -> Replay:
    """Decide on the requests of a log, whose lines are as `logged` reads them."""
    requests: Counter[Conversation] = Counter()
    unread: Counter[str] = Counter()
    for line in filter(bytes.strip, lines):
        try:
            if conversation := logged(line):
                requests[conversation] += 1
            else:
                unread["no text of a user at the end"] += 1
        except ValueError as problem:
            unread[str(problem)] += 1
    matched, matches, misses = 0, [], []
    for conversation, times in requests.items():
        decision = follower.follow(conversation).decision or Decision("")
        ids = {edit.id for edit in decision.matched}
        replayed = [
            ReplayedQuery(decision.query, candidate, times) for candidate in decision.candidates
        ]
        if ids:
            matched += times
            matches += [query for query in replayed if query.candidate.edit.id in ids]
        else:
            misses += replayed[:1]
    matches.sort(key=_certainty)
    misses.sort(key=_certainty, reverse=True)
    return Replay(requests.total(), matched, tuple(matches), tuple(misses), unread)


def _certainty(replayed: ReplayedQuery) -> tuple[float, float]:
    """By what replayed queries are ordered: the candidate's probability, then how near it is."""
    candidate = replayed.candidate
    return candidate.probability, candidate.features.get("nearness", 0.0)


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
