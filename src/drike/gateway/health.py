"""How edits fare, by what was counted of requests and answers (`watch`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from drike.answers.statements import Stated
from drike.edits.record import EditVersion
from drike.gateway.options import Mode
from drike.stores.snapshots import Snapshot
from drike.stores.traffic import Counts
from drike.support.table import Z95, Estimate, counted

AT_LEAST = 0.95
_MOST_NAMED = 10  # edits in a sentence


@dataclass(frozen=True)
class EditHealth:
    """How an edit fared in one mode, under its latest version and earlier ones that say the same.

    by_day: how often what was counted, on each day with requests. numbers: on all of them. judged:
    answers. took: the share of these that state the new object and not the old one. verdict: below
    or holds what is asked for, or open; words: the same in words, with the reason. tokens_a_day:
    that it added, about.
    """

    edit: EditVersion
    by_day: Mapping[str, Counter[str]]
    numbers: Counter[str]
    judged: int
    took: Estimate
    verdict: str
    words: str
    tokens_a_day: float

    @property
    def values(self) -> dict[str, object]:
        """All figures, for JSON."""
        figures = {name: value for name, value in vars(self).items() if name != "edit"}
        return summary(self.edit) | figures | {"took": vars(self.took)}


@dataclass(frozen=True)
class _Verdict:
    """Whether an edit takes as often as it should, for programs and in words."""

    verdict: str
    words: str


def summary(edit: EditVersion) -> dict[str, object]:
    """What an edit says, in short, for JSON."""
    record = edit.record
    return {
        "id": edit.id,
        "version": edit.version,
        "query": record.query,
        "target_new": record.target_new,
    }


def health_of_edits(
    edits: Snapshot, counts: Counts, at_least: float = AT_LEAST, mode: Mode = Mode.ON
) -> list[EditHealth]:
    """How each active or shadow edit fared in a mode.

    Those below `at_least` come first, then they are ordered by the interval's low end.
    """
    days = sorted({key.day for key in counts})
    numbers_by_edit: dict[EditVersion, dict[str, Counter[str]]] = {}
    for key, number in counts.items():
        edit = edits.edits.get(key.edit)
        if edit is None or not edit.record.status.in_use or key.mode != mode:
            continue
        first_alike = edits.unchanged.get(key.edit, key.version)
        if first_alike <= key.version <= edit.version:
            if edit not in numbers_by_edit:
                numbers_by_edit[edit] = {day: Counter() for day in days}
            numbers_by_edit[edit][key.day][key.what] += number

    lines = [_health(edit, by_day, at_least) for edit, by_day in numbers_by_edit.items()]
    return sorted(
        lines, key=lambda line: (line.verdict != "below", line.took.low is None, line.took.low)
    )


def _health(edit: EditVersion, by_day: Mapping[str, Counter[str]], at_least: float) -> EditHealth:
    numbers = sum(by_day.values(), Counter[str]())
    judged = sum(numbers[outcome] for outcome in Stated)
    took = Estimate.share(numbers[Stated.NEW], judged)
    verdict = _verdict(took, judged, at_least)
    return EditHealth(
        edit=edit,
        by_day=by_day,
        numbers=numbers,
        judged=judged,
        took=took,
        verdict=verdict.verdict,
        words=verdict.words,
        tokens_a_day=round(numbers["tokens"] / len(by_day), 1),
    )


def _verdict(took: Estimate, judged: int, at_least: float) -> _Verdict:
    if took.high is not None and took.high < at_least:
        return _Verdict("below", f"below {at_least:.0%}")
    if took.low is not None and took.low >= at_least:
        return _Verdict("holds", "as it should be")
    enough = ceil(at_least / (1 - at_least) * Z95**2)  # answers, if all take it
    if judged < enough:
        words = f"too little traffic: {judged:,} of at least {enough:,} answers"
        return _Verdict("open", words)
    return _Verdict("open", f"around {at_least:.0%}")


def shadow_report(
    edits: Snapshot, counts: Counts, price_in: float | None = None
) -> tuple[list[str], list[EditHealth]]:
    """What came and what switching on would do, in sentences; and the shadow edits.

    The most asked come first. price_in: of a million tokens.
    """
    requests = Counter[str]()
    doubted_by_edit = Counter[int]()
    for key, number in counts.items():
        if not key.edit:
            requests[key.what] += number
        elif key.what == "doubted":
            doubted_by_edit[key.edit] += number

    lines = health_of_edits(edits, counts, mode=Mode.SHADOW)
    lines = sorted(lines, key=lambda line: -line.numbers["matched"])
    if not requests["requests"]:
        sentence = "No request was counted in these days: send some through the gateway."
        return [sentence], lines

    number_of_days = len({key.day for key in counts})
    sentences = [
        _sentence_on_requests(requests, number_of_days),
        *_sentences_on_objects(lines),
        *_sentences_on_tokens(lines, price_in),
    ]
    if requests["doubted"]:
        ids = ", ".join(str(edit_id) for edit_id, _ in doubted_by_edit.most_common(_MOST_NAMED))
        in_doubt = counted(requests["doubted"], "decision")
        sentences.append(
            f"{in_doubt} in doubt, most of them about edits {ids}: counted alone, as no questions "
            "are kept but the last ones, among the near misses of a running gateway's page."
        )
    undecided = requests["unread"] + requests["degraded"]
    if undecided:
        sentences.append(
            f"{counted(undecided, 'request')} could not be read, or not be decided on in time."
        )
    return sentences, lines


def _sentence_on_requests(requests: Counter[str], number_of_days: int) -> str:
    came = counted(requests["requests"], "request")
    days = counted(number_of_days, "day")
    share = _percent(requests["matched"] / requests["requests"], 1)
    return f"Of {came} in {days}, {requests['matched']:,} ({share}) concern an edit."


def _sentences_on_objects(lines: Sequence[EditHealth]) -> list[str]:
    """What answers state without the edits."""
    judged = sum(line.judged for line in lines)
    if not judged:
        return []
    old = _percent(sum(line.numbers[Stated.OLD] for line in lines) / judged)
    new = _percent(sum(line.numbers[Stated.NEW] for line in lines) / judged)
    answers = counted(judged, "answer")
    return [
        f"Without the edit the model states the old object in {old} of {answers}, and the "
        f"new one in {new}."
    ]


def _sentences_on_tokens(lines: Sequence[EditHealth], price_in: float | None) -> list[str]:
    """What switching on costs."""
    tokens = sum(line.tokens_a_day for line in lines)
    if not tokens:
        return []
    cost = ""
    if price_in is not None:
        cost = f" ({tokens * price_in / 1e6:,.2f} a day at {price_in:g} a million)"
    return [f"Switching on adds about {tokens:,.0f} tokens a day{cost}."]


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"
