"""The chart of a report as inline SVG, as wide as its place: x is in percent, y and text in pixels.

The same input gives the same bytes; colours are the page's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import NamedTuple

from drike.report.groups import Group

_NAME_HEIGHT, _NAME_LETTERS = 18, 26  # of an editor's name in the chart: pixels, and where it is cut short


class Figure(NamedTuple):
    """A drawing for a page: its SVG element, its caption, and its message for readers who cannot see it."""

    svg: str
    caption: str
    alt: str


class _Point(NamedTuple):
    size: float  # of an editor's prompts
    value: float
    low: float
    high: float
    editor: str


@dataclass(frozen=True)
class _Area:
    """The area between the axes: from 0 to `right`, and from `low` to 1."""

    height: int
    right: float
    low: float

    def x(self, value: float) -> str:
        return f"{100 * value / self.right:.2f}%"

    def y(self, value: float) -> float:
        return round(self.height * (1 - (max(value, self.low) - self.low) / (1 - self.low)), 1)

    def line(self, kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
        return f'<line class="{kind}" x1="{self.x(x1)}" y1="{self.y(y1)}" x2="{self.x(x2)}" y2="{self.y(y2)}"/>'


def pareto(group: Group) -> Figure | None:
    """The headline metric against prompt tokens (retains where tokens are not counted), each editor with its name.

    The best editor is marked; a dashed line is the best value up to each length. None if nothing was measured.
    """
    ranked, metric = group.ranked, group.headline
    if not ranked:
        return None
    counted = all(summary.prompt_tokens is not None for summary in ranked)
    unit = "prompt tokens" if counted else "retains per prompt"
    points = []
    for summary in ranked:
        of, size = summary.metric(metric), summary.prompt_tokens if counted else summary.shots
        points.append(_Point(size or 0.0, of.value or 0.0, of.low or 0.0, of.high or 0.0, summary.editor))
    points.sort(key=lambda point: (point.size, -point.value, point.editor))
    front = [point for i, point in enumerate(points) if all(point.value > shorter.value for shorter in points[:i])]
    longest = 1.08 * points[-1].size or 1.0
    low = min(0.9, math.floor(10 * min(point.value for point in points)) / 10)
    area = _Area(max(260, round(1.2 * _NAME_HEIGHT * len(points))), longest, low)
    drawn = [*_axes(area, unit)]
    for point, following in pairwise([*front, front[-1]._replace(size=longest)]):
        drawn.append(area.line("front", point.size, point.value, following.size, point.value))
        drawn.append(area.line("front", following.size, point.value, following.size, following.value))
    for i, point in enumerate(sorted(points, key=lambda point: (point.value, -point.size))):
        kind = "best" if point.editor == ranked[0].editor else "other"
        drawn += _named(area, point, kind, low + (i + 0.5) * (1 - low) / len(points))
    places = "; ".join(f"{point.editor} {point.value:.2f} at {point.size:,.4g} {unit}" for point in points)
    alt = f"{metric} against {unit}: {places}. Best for their length: {', '.join(point.editor for point in front)}."
    caption = f"{metric} against {unit}; lines through the points: 95 % intervals; dashed: best {metric} for the length"
    return Figure(f'<svg class="pareto" height="{area.height}">{"".join(drawn)}</svg>', caption, alt)


def _axes(area: _Area, unit: str) -> Iterator[str]:
    for value in _ticks(area.low, 1):
        yield area.line("grid", 0, value, area.right, value)
        yield _text(f"{value:,.6g}", "-8", area.y(value) + 4, anchor="end")
    for value in _ticks(0, area.right):
        yield _text(f"{value:,.6g}", area.x(value), area.height + 18)
    yield _text(unit, "50%", area.height + 36)


def _named(area: _Area, point: _Point, kind: str, label: float) -> Iterator[str]:
    """A point with its interval, and its editor's name to the right at this height."""
    yield area.line(f"leader {kind}", point.size, point.value, area.right, label)
    yield area.line(f"interval {kind}", point.size, point.low, point.size, point.high)
    radius = 6 if kind == "best" else 4.5
    yield f'<circle class="{kind}" cx="{area.x(point.size)}" cy="{area.y(point.value)}" r="{radius}"/>'
    name = point.editor
    name = f"{name[: _NAME_LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}" if len(name) > _NAME_LETTERS else name
    text = _text(name, "6", round(area.y(label) + 4, 1), kind=kind, anchor="start")
    yield f'<svg x="100%" overflow="visible">{text}</svg>'


def _ticks(low: float, high: float) -> list[float]:
    """Two to six round numbers from low to high."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return [round(step * i, 10) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _text(content: str, x: str, y: float, *, kind: str = "tick", anchor: str = "middle") -> str:
    """A text without unprintable characters: names come from files and may hold anything."""
    plain = "".join(c if c.isprintable() else "?" for c in content)
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(plain)}</text>'
