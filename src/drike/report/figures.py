"""Figures as inline SVG that is as wide as its place: x is in percent, y and text in pixels, colours are the page's.

The same input gives the same bytes. Every figure has its message as alternative text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from itertools import pairwise

from drike.report.groups import Group
from drike.report.paper import RETAIN_BUDGETS
from drike.report.tables import distribution_of

_NAME_HEIGHT, _NAME_LETTERS = 18, 26  # of an editor's name in the chart: pixels, and where it is cut short


@dataclass(frozen=True)
class Figure:
    """A drawing for a page: its SVG element, its caption, and its message for readers who cannot see it."""

    svg: str
    caption: str
    alt: str


@dataclass(frozen=True)
class _Plot:
    """The area between two axes, which run from left to right and from low to high."""

    height: int
    left: float
    right: float
    low: float
    high: float
    parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> str:
        return f"{100 * (value - self.left) / (self.right - self.left):.2f}%"

    def y(self, value: float) -> float:
        return round(self.height * (1 - (max(value, self.low) - self.low) / (self.high - self.low)), 1)

    def line(self, kind: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        (x1, y1), (x2, y2) = start, end
        ends = f'x1="{self.x(x1)}" y1="{self.y(y1)}" x2="{self.x(x2)}" y2="{self.y(y2)}"'
        self.parts.append(f'<line class="{kind}" {ends}/>')

    def point(self, kind: str, x: float, y: float, radius: float) -> None:
        self.parts.append(f'<circle class="{kind}" cx="{self.x(x)}" cy="{self.y(y)}" r="{radius}"/>')

    def text(self, content: str, x: str, y: float, *, kind: str = "tick", anchor: str = "middle") -> None:
        place = f'class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}"'
        self.parts.append(f"<text {place}>{escape(_plain(content))}</text>")

    def svg(self, kind: str, xs: str, *, whole: bool = False) -> str:
        """The element, with ticks and the name of x; whole: ticks of x only at whole numbers."""
        drawn = tuple(self.parts)
        self.parts.clear()
        for value in _ticks(self.low, self.high):
            self.line("grid", (self.left, value), (self.right, value))
            self.text(f"{value:,.6g}", "-8", self.y(value) + 4, anchor="end")
        for value in _ticks(self.left, self.right, 1 if whole else 0):
            self.text(f"{value:,.6g}", self.x(value), self.height + 18)
        self.text(xs, "50%", self.height + 36)
        return f'<svg class="{kind}" height="{self.height}">{"".join((*self.parts, *drawn))}</svg>'


def pareto(group: Group) -> Figure | None:
    """The headline metric against prompt tokens (retains where tokens are not counted), each editor with its name.

    The best editor is marked; a dashed line is the best value up to each length. None if nothing was measured.
    """
    ranked, metric = group.ranked, group.headline
    if not ranked:
        return None
    tokens = [summary.prompt_tokens for summary in ranked if summary.prompt_tokens is not None]
    counted = len(tokens) == len(ranked)
    sizes = tokens if counted else [summary.shots for summary in ranked]
    unit = "prompt tokens" if counted else "retains per prompt"
    values = [(of.value or 0.0, of.low or 0.0, of.high or 0.0) for of in (summary.metric(metric) for summary in ranked)]
    points = [_Point(size, *of, summary.editor) for size, of, summary in zip(sizes, values, ranked, strict=True)]
    points.sort(key=lambda point: (point.size, -point.value, point.editor))
    front = [point for i, point in enumerate(points) if all(point.value > shorter.value for shorter in points[:i])]
    longest, low = 1.08 * max(sizes) or 1.0, min(0.9, math.floor(10 * min(point.value for point in points)) / 10)
    plot = _Plot(max(260, round(1.2 * _NAME_HEIGHT * len(points))), 0, longest, low, 1)
    for point, following in pairwise([*front, replace(front[-1], size=longest)]):
        plot.line("front", (point.size, point.value), (following.size, point.value))
        plot.line("front", (following.size, point.value), (following.size, following.value))
    _draw_named(plot, points, best=ranked[0].editor)
    places = "; ".join(f"{point.editor} {point.value:.2f} at {point.size:,.4g} {unit}" for point in points)
    alt = f"{metric} against {unit}: {places}. Best for their length: {', '.join(point.editor for point in front)}."
    caption = f"{metric} against {unit}; lines through the points: 95 % intervals; dashed: best {metric} for the length"
    return Figure(plot.svg("pareto", unit), caption, alt)


@dataclass(frozen=True)
class _Point:
    """An editor in the chart: the length of its prompts, and its metric with the interval."""

    size: float
    value: float
    low: float
    high: float
    editor: str


def _draw_named(plot: _Plot, points: Sequence[_Point], best: str) -> None:
    """Draw the points with their intervals, and the editors' names to the right, one below the other."""
    rising = sorted(points, key=lambda point: (point.value, -point.size))
    span = plot.high - plot.low
    heights = [(point.value - plot.low) / span for point in rising]
    for point, height in zip(rising, _apart(heights, _NAME_HEIGHT / plot.height), strict=True):
        kind, label = "best" if point.editor == best else "other", plot.low + height * span
        plot.line(f"leader {kind}", (point.size, point.value), (plot.right, label))
        plot.line(f"interval {kind}", (point.size, point.low), (point.size, point.high))
        plot.point(kind, point.size, point.value, 6 if kind == "best" else 4.5)
        plot.parts.append('<svg x="100%" overflow="visible">')
        long = len(point.editor) > _NAME_LETTERS
        name = f"{point.editor[: _NAME_LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}" if long else point.editor
        plot.text(name, "6", round(plot.y(label) + 4, 1), kind=kind, anchor="start")
        plot.parts.append("</svg>")


def _apart(heights: Sequence[float], gap: float) -> list[float]:
    """Rising heights in 0 to 1, moved as little as one pass up and one down need to keep this gap between them."""
    moved: list[float] = []
    for height in heights:
        moved.append(max(height, moved[-1] + gap) if moved else height)
    return [min(height, 1 - i * gap) for i, height in zip(reversed(range(len(moved))), moved, strict=True)]


def budget(group: Group, editor: str) -> Figure:
    """Histogram of the retains that an editor kept per test edit, with the published means as lines."""
    kept = distribution_of(group.outcomes[editor])
    plot = _Plot(130, 0.4, max(16, *kept.counts) + 0.6, 0, 1.15 * max(kept.counts.values()))
    for k, edits in kept.counts.items():
        plot.line("column", (k, 0), (k, edits))
    for i, (model, (mean, _)) in enumerate(RETAIN_BUDGETS.items()):
        plot.line("front", (mean, 0), (mean, plot.high))
        plot.text(f"{model}: {mean:.2f}", "100%", 12 + 16 * i, anchor="end")
    counts = ", ".join(f"{k} at {edits} edits" for k, edits in kept.counts.items())
    alt = f"Retains kept by {editor}: {counts}; mean {kept.mean:.2f}, standard deviation {kept.std:.2f}."
    caption = f"Test edits by retains kept, {editor}, {group.label}; dashed: published means"
    return Figure(plot.svg("curve", "retains kept", whole=True), caption, alt)


def _ticks(low: float, high: float, min_step: float = 0) -> Iterator[float]:
    """Two to six round numbers from low to high, at least `min_step` apart."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(min_step, next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999))
    first = math.ceil(low / step - 1e-9)
    yield from (round(step * i, 10) for i in range(first, math.floor(high / step + 1e-9) + 1))


def _plain(text: str) -> str:
    """Replace unprintable characters: names come from files and may hold anything."""
    return "".join(c if c.isprintable() else "?" for c in text)
