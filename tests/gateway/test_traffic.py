"""How edits fare, from counts: intervals, verdicts, and what the report on shadow traffic says."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from drike.edits.record import EditRecord, EditVersion, Move, Status
from drike.gateway.health import health_of_edits, shadow_report
from drike.stores.snapshots import folded
from drike.stores.traffic import Counted, Counts
from drike.support.table import Estimate

PERU = EditRecord("Peru", "The capital of Peru is", "Oslo", "Lima")
EDITS = folded([
    EditVersion(1, 1, 1, "", PERU), EditVersion(2, 2, 1, "", replace(PERU, target_new="Rome")),
    EditVersion(3, 3, 1, "", PERU), EditVersion(4, 2, 2, "", PERU),
    EditVersion(5, 4, 1, "", EditRecord("Chad", "The capital of Chad is", "Rome", status=Status.RETIRED)),
])  # fmt: skip
DAY = datetime.now(UTC).date().isoformat()


def counts(*rows: tuple[int, int, str, str, int], day: str = DAY) -> Counts:
    return Counter(
        {
            Counted(day, edit, version, "m", mode, what): number
            for edit, version, mode, what, number in rows
        }
    )


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (9, 10, 0.5958, 0.9821),
        (73, 73, 0.95, 1.0),
        (500, 1000, 0.4691, 0.5309),
    ],
)
def test_wilson_intervals_are_those_of_the_textbooks(
    k: int, n: int, low: float, high: float
) -> None:
    made = Estimate.share(k, n)
    assert (made.value, made.low, made.high) == (
        k / n,
        pytest.approx(low, abs=1e-4),
        pytest.approx(high, abs=1e-4),
    )
    assert Estimate.share(0, 0).value is None


def test_edits_below_come_first_and_those_with_little_traffic_are_said_to_have_it() -> None:
    rows = [(1, 1, "on", "new", 600), (1, 1, "on", "old", 2), (2, 2, "on", "new", 50), (2, 2, "on", "both", 50),
            (3, 1, "on", "new", 9), (3, 1, "on", "unread", 5), (4, 1, "on", "new", 9)]  # fmt: skip
    lines = health_of_edits(EDITS, counts(*rows))
    assert [(line.edit.id, line.verdict) for line in lines] == [
        (2, "below"),
        (3, "open"),
        (1, "holds"),
    ]
    assert lines[0].numbers["both"] == 50 and lines[1].judged == 9
    assert lines[1].words == "too little traffic: 9 of at least 116 answers"
    assert lines[2].words == "as it should be" and lines[0].words == "below 95%"
    [line] = health_of_edits(EDITS, counts((1, 1, "on", "new", 186), (1, 1, "on", "old", 14)))
    assert line.words == "around 95%"


def test_only_what_an_edit_says_now_and_one_mode_count() -> None:
    rows = [(2, 1, "on", "old", 100), (2, 2, "on", "new", 3), (2, 2, "shadow", "old", 9)]
    assert [line.numbers for line in health_of_edits(EDITS, counts(*rows))] == [{"new": 3}]


def test_who_confirms_an_edit_or_rejects_a_change_of_it_does_not_hide_how_it_fares() -> None:
    moves = (
        {"move": Move.REVIEW},
        {"target_new": "Bern", "status": Status.PROPOSED},
        {"owner": "Legal"},
    )
    later = [EditVersion(n, 2, n - 3, "", replace(PERU, **said)) for n, said in enumerate(moves, 6)]
    rows = [
        (2, 1, "on", "new", 900),
        (2, 2, "on", "old", 300),
        (2, 2, "on", "new", 200),
        (2, 5, "on", "new", 1),
    ]
    [line] = health_of_edits(folded(later, EDITS), counts(*rows))
    assert (line.edit.version, line.numbers, line.verdict) == (5, {"old": 300, "new": 201}, "below")
    shadow = EditVersion(9, 2, 6, "", replace(PERU, status=Status.SHADOW))
    assert health_of_edits(folded([shadow], folded(later, EDITS)), counts(*rows)) == []


def test_tokens_are_those_of_a_day_with_requests() -> None:
    both = counts((1, 1, "on", "tokens", 300)) + counts(
        (0, 0, "on", "requests", 1), day="2026-01-01"
    )
    [line] = health_of_edits(EDITS, both)
    assert line.tokens_a_day == 150 and line.took.value is None and line.verdict == "open"


def test_the_report_says_what_switching_on_would_do() -> None:
    rows = [(0, 0, "shadow", "requests", 41_203), (0, 0, "shadow", "matched", 1_310), (0, 0, "shadow", "doubted", 12),
            (0, 0, "shadow", "unread", 3), (1, 1, "shadow", "old", 71), (1, 1, "shadow", "neither", 19),
            (1, 1, "shadow", "new", 10), (1, 1, "shadow", "tokens", 118_000), (2, 2, "shadow", "doubted", 5),
            (3, 1, "shadow", "doubted", 7)]  # fmt: skip
    sentences, lines = shadow_report(EDITS, counts(*rows), 0.15)
    assert [line.edit.id for line in lines] == [1, 2, 3] and sentences == [
        "Of 41,203 requests in 1 day, 1,310 (3.2 %) concern an edit.",
        "Without the edit the model states the old object in 71 % of 100 answers, and the new one in 10 %.",
        "Switching on adds about 118,000 tokens a day (0.02 a day at 0.15 a million).",
        "12 decisions in doubt, most of them about edits 3, 2: counted alone, as no questions are kept "
        "but the last ones, among the near misses of a running gateway's page.",
        "3 requests could not be read, or not be decided on in time.",
    ]
    assert "a million" not in " ".join(shadow_report(EDITS, counts(*rows))[0])
    assert shadow_report(EDITS, Counter())[0] == [
        "No request was counted in these days: send some through the gateway."
    ]


def test_figures_are_json_with_texts_of_the_edit_alone() -> None:
    [line] = health_of_edits(EDITS, counts((1, 1, "on", "new", 2)))
    values = json.loads(json.dumps(line.values))
    assert values["took"] == {"value": 1.0, "low": pytest.approx(0.1369, abs=1e-4), "high": 1.0}
    assert values["by_day"] == {DAY: {"new": 2}} and values["verdict"] == "open"


def days_of(*answers: tuple[str, int, int], model: str = "m") -> Counts:
    """So many answers under edit 1 that state the new object, and the old one, on some days."""
    made: Counts = Counter()
    for day, new, old in answers:
        made[Counted(day, 1, 1, model, "on", "matched")] += new + old
        made[Counted(day, 1, 1, model, "on", "new")] += new
        made[Counted(day, 1, 1, model, "on", "old")] += old
    return made


def test_each_model_has_its_counts_and_its_verdict_and_the_worst_is_the_edits() -> None:
    both = days_of((DAY, 300, 2), model="good") + days_of((DAY, 20, 30), model="bad")
    [line] = health_of_edits(EDITS, both, at_least=0.9)
    assert [(each.model, each.prompts, each.judged, each.recurred, each.verdict) for each in line.models] == [
        ("good", 302, 302, 2, "holds"), ("bad", 50, 50, 30, "below")]  # fmt: skip
    assert (line.verdict, line.words) == ("below", "below 90% (bad)")
    values = json.loads(json.dumps(line.values))
    assert values["models"][1]["recurred"] == 30 and values["models"][1]["fell"] is None


def test_a_rate_that_fell_is_an_alarm_with_its_day_although_it_is_above_what_is_asked_for() -> None:
    today = date.fromisoformat(DAY)
    falling = Counter[Counted]()
    for ago in range(60):
        new = 7 if ago < 6 else 10 - (ago % 10 == 0)
        falling += days_of(((today - timedelta(days=ago)).isoformat(), new, 10 - new))
    [line] = health_of_edits(EDITS, falling, at_least=0.6, first_day=today - timedelta(days=6))
    fell = line.models[0].fell
    assert fell is not None and fell.day == (today - timedelta(days=5)).isoformat()
    assert (
        line.words == f"fell from 99% to 70% (60 answers) since {fell.day}"
        and line.verdict == "fell"
    )
    assert (line.judged, line.numbers["new"], len(line.by_day)) == (600, 52, 7)


def test_sums_of_earlier_days_count_for_the_interval_and_are_not_shown() -> None:
    before = days_of(("", 600, 2))
    now = days_of((DAY, 3, 0))
    first_day = date.fromisoformat(DAY)
    [line] = health_of_edits(EDITS, before + now, first_day=first_day)
    assert (line.judged, line.verdict, line.numbers["new"]) == (605, "holds", 3)
    assert health_of_edits(EDITS, before, first_day=first_day) == []
