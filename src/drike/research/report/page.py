"""A report as one HTML file that needs no network: style, script, the chart and the data of single cases are inside.

jinja2 or `as_script` escapes every text. In addition, the page's content security policy allows no script but the
viewer, which it names by hash, and loads nothing.
"""

import hashlib
import json
import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drike.edits.edit import Aspect
from drike.prompts import Role
from drike.research.evaluation.metrics import Outcome
from drike.research.report import document as texts
from drike.research.report.groups import UNEDITED, Group, ReportedRun
from drike.research.report.tables import COLUMNS, SCORES, STARRED
from drike.research.runs.run import CasePrompts
from drike.support.table import Cell, Difference, Noted, Number, Table, as_text, parts

_HERE = Path(__file__).parent
# The columns whose best value is bold, and the first columns of tables that have such.
_SHARES = {*COLUMNS, *(f"deployed {name}" for name in SCORES), "RR known", *Aspect}
_OF_SHARES = ("Editor", "Retains", "Model", "Setting")
_NAME_HEIGHT = 18  # of an editor's name in the chart, in pixels
_ASPECTS = tuple(aspect.value for aspect in Aspect)
_ROLES = (*(role.value for role in Role), "edit")
_ANSWER = 7  # values of an editor's answers to a case
_SHAPES = {"up": "▲", "down": "▼", "level": "○"}
_MARKS = f"{STARRED.replace('*', '▲ above 0, ▼ below 0').removesuffix('.')}; ○: it includes 0."


@dataclass(frozen=True)
class PageCell:
    """A cell of a table on the page."""

    column: str
    value: str
    small: str  # its interval and note
    kind: str = ""  # best: of its column; up, down, level: a difference, by what its interval says
    rank: float | None = (
        None  # by which it is compared with the others of its column; None where it is not
    )


Row = tuple[str, list[PageCell]]
Block = tuple[str, list[Row]]


def html(document: texts.Document) -> str:
    """Write the page of a report; the same input gives the same text."""
    script = (_HERE / "viewer.js").read_text("utf-8")
    page = rendered(
        "page.html", document=document, groups=document.groups, shown=texts, pareto=pareto, metrics=SCORES,
        blocks=blocks, as_text=as_text, starred=STARRED, marks=_MARKS, data=as_script(packed(document.groups)),
        script=script, script_hash="sha256-" + b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )  # fmt: skip
    return page.encode("utf-8", "backslashreplace").decode()  # a lone surrogate has no UTF-8


def rendered(template: str, **values: object) -> str:
    """A template of this folder with its values, which it escapes, and the style of all pages."""
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        style=(_HERE / "style.css").read_text("utf-8"), **values
    )


def blocks(table: Table) -> list[Block]:
    """A table's rows under their headings, "" above the first, with the best values and the differences marked."""
    of_table: list[Block] = []
    ranked = table.header[0] in _OF_SHARES
    for first, *others in table.rows:
        name = as_text(first)
        if not others or not of_table:
            of_table.append(("" if others else name, []))
        if others:
            named = zip(table.header[1:], others, strict=True)
            cells = [
                _cell(column, cell, ranked=ranked and name != UNEDITED) for column, cell in named
            ]
            of_table[-1][1].append((name, cells))
    return [(heading, _with_best(rows)) for heading, rows in of_table]


def _cell(column: str, cell: Cell, *, ranked: bool) -> PageCell:
    """A cell as the page has it; ranked: whether its column may mark its best value."""
    if isinstance(cell, Difference):
        value, small = parts(cell.estimate, signed=True)
        kind = "level" if not cell.significant else "up" if (cell.estimate.low or 0) > 0 else "down"
        return (
            PageCell(column, f"{_SHAPES[kind]} {value}", small, kind)
            if small
            else PageCell(column, value, small)
        )
    value, small = parts(cell)
    number = (
        cell.value
        if isinstance(cell, Number) or (small and not isinstance(cell, str | Noted))
        else None
    )
    ranked = ranked and column in _SHARES and number is not None
    return PageCell(column, value, small, rank=round(number or 0, 3) if ranked else None)


def _with_best(rows: list[Row]) -> list[Row]:
    """The rows with the best value of each column marked, where it has several; values shown as equal are all best."""
    columns = zip(*(cells for _, cells in rows), strict=True)
    ranks = [[cell.rank for cell in column if cell.rank is not None] for column in columns]
    tops = [max(column) if len(column) > 1 else math.nan for column in ranks]
    pairs = ((name, zip(cells, tops, strict=True)) for name, cells in rows)
    return [
        (name, [replace(one, kind="best") if one.rank == top else one for one, top in row])
        for name, row in pairs
    ]


class _Point(NamedTuple):
    size: float  # of an editor's prompts
    value: float
    low: float
    high: float
    editor: str


def pareto(group: Group) -> tuple[str, str, str] | None:
    """The headline metric against prompt tokens (retains where tokens are not counted); None if none was measured.

    Returns the chart as inline SVG (the same input gives the same bytes), its caption, and what it says in words.
    """
    ranked, metric = group.ranked, group.headline
    if not ranked:
        return None
    counted = all(summary.prompt_tokens is not None for summary in ranked)
    unit = "prompt tokens" if counted else "retains per prompt"
    points = []
    for summary in ranked:
        of, size = summary.metric(metric), summary.prompt_tokens if counted else summary.shots
        points.append(
            _Point(size or 0.0, of.value or 0.0, of.low or 0.0, of.high or 0.0, summary.editor)
        )
    points.sort(key=lambda point: (point.size, -point.value, point.editor))
    front = [
        point
        for i, point in enumerate(points)
        if all(point.value > shorter.value for shorter in points[:i])
    ]
    # The area between the axes: from 0 to `right`, and from `low` to 1; x is in percent of its place, y in pixels.
    right, height = 1.08 * points[-1].size or 1.0, max(260, round(1.2 * _NAME_HEIGHT * len(points)))
    low = min(0.9, math.floor(10 * min(point.low for point in points)) / 10)
    drawn = rendered(
        "pareto.svg", right=right, low=low, height=height, unit=unit, best=ranked[0].editor, ticks=_ticks,
        points=sorted(points, key=lambda point: (point.value, -point.size)),
        steps=pairwise([*front, front[-1]._replace(size=right)]),
        x=lambda value: f"{100 * value / right:.2f}%",
        y=lambda value: round(height * (1 - (max(value, low) - low) / (1 - low)), 1),
        # Names come from files and may hold anything.
        printable=lambda name: "".join(character if character.isprintable() else "?" for character in name),
    )  # fmt: skip
    places = "; ".join(
        f"{point.editor} {point.value:.2f} at {point.size:,.4g} {unit}" for point in points
    )
    alt = f"{metric} against {unit}: {places}. Best for their length: {', '.join(point.editor for point in front)}."
    caption = f"{metric} against {unit}; lines through the points: 95 % intervals; dashed: best {metric} for the length"
    return drawn.replace("\n", ""), caption, alt


def _ticks(low: float, high: float) -> list[float]:
    """Two to six round numbers from low to high."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [
        round(step * i, 10)
        for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def packed(groups: Sequence[Group]) -> dict[str, object]:
    """All cases of all groups as `viewer.js` reads them.

    `strings` holds every text once; a case is [group, seed, id, probes, answers]; probes is a flat list of (aspect,
    query, target, distractor), answers a flat list of (editor, correct, logprob margins, texts, retains, tokens,
    prompts). correct has a character for each probe: 1 right, 0 wrong, - not judged. Margins, texts and prompts have an
    entry for each probe, or are 0 where there is none; retains are a number if all probes have as many. Texts are
    indices into `strings`, -1 for none; a prompt is its index in `prompts`: [demonstrations, last text], and
    demonstrations their index in `shown`: a flat list of (role, text). Cases with prompts come first.
    """
    packing = _Packing(list(dict.fromkeys(editor for group in groups for editor in group.outcomes)))
    cases = [
        case
        for i, group in enumerate(groups)
        for run in group.runs
        for case in packing.cases(i, run)
    ]
    return {
        "aspects": _ASPECTS, "roles": _ROLES, "editors": packing.editors, "groups": [group.label for group in groups],
        "strings": list(packing.strings), "shown": list(packing.shown), "prompts": list(packing.prompts),
        "cases": sorted(cases, key=lambda case: not any(case[4][_ANSWER - 1 :: _ANSWER])),
    }  # fmt: skip


def as_script(data: object) -> str:
    """Write JSON that is safe inside a script element: none of its characters can end the element or start another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(
        {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
    )


@dataclass(frozen=True)
class _Packing:
    """Packs the cases of runs; what cases share is collected in the three dicts."""

    editors: Sequence[str]
    strings: dict[str, int] = field(default_factory=dict)
    shown: dict[tuple[int, ...], int] = field(default_factory=dict)
    prompts: dict[tuple[int, int], int] = field(default_factory=dict)

    def cases(self, group: int, run: ReportedRun) -> Iterator[list[Any]]:
        """The run's cases, in the order they were tested."""
        by_case: dict[str, list[list[Outcome]]] = {}
        for editor in sorted(run.outcomes, key=self.editors.index):
            for case_id, of_case in groupby(
                run.outcomes[editor], key=lambda outcome: outcome.case_id
            ):
                by_case.setdefault(case_id, []).append(list(of_case))
        for case_id, by_editor in by_case.items():
            probes = [
                number for o in by_editor[0]
                for number in (_ASPECTS.index(o.aspect), self.at(o.query), self.at(o.target), self.at(o.distractor))
            ]  # fmt: skip
            answers = [value for of_editor in by_editor for value in self.answers(run, of_editor)]
            yield [group, run.seed, self.at(case_id), probes, answers]

    def at(self, text: str | None) -> int:
        """The index of a text, which is added if it is new."""
        return -1 if text is None else self.strings.setdefault(text, len(self.strings))

    def answers(self, run: ReportedRun, outcomes: Sequence[Outcome]) -> list[object]:
        name = outcomes[0].editor
        texts = [self.at(text) for text in run.written.get(name, {}).get(outcomes[0].case_id, ())]
        nats = [None if o.logprob_margin is None else round(o.logprob_margin, 2) for o in outcomes]
        tokens = [o.prompt_tokens for o in outcomes if o.prompt_tokens is not None]
        shots = [o.shots for o in outcomes]
        saved = run.prompts.get(name, {}).get(outcomes[0].case_id)
        return [
            self.editors.index(name),
            "".join("-" if o.correct is None else "01"[o.correct] for o in outcomes),
            nats if any(value is not None for value in nats) else 0, texts if any(text >= 0 for text in texts) else 0,
            shots if len({*shots}) > 1 else shots[0], round(sum(tokens) / len(tokens)) if tokens else None,
            [self.prompt(saved, o.query) for o in outcomes] if saved else 0,
        ]  # fmt: skip

    def prompt(self, saved: CasePrompts, query: str) -> int:
        """The index of a query's prompt; -1 if it was not saved."""
        if not (numbers := saved.prompts.get(query)):
            return -1
        *blocks, (_, last) = (saved.blocks[i] for i in numbers)
        flat = tuple(
            number for role, text in blocks for number in (_ROLES.index(role), self.at(text))
        )
        return self.prompts.setdefault(
            (self.shown.setdefault(flat, len(self.shown)), self.at(last)), len(self.prompts)
        )
