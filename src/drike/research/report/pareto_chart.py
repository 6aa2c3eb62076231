"""The chart of a group: the headline metric of each editor against the length of its prompts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from drike.research.evaluation.metrics import Summary
from drike.research.report.groups import Group
from drike.research.report.templates import rendered

_NAME_HEIGHT = 18  # of an editor's name, in pixels
_LEAST_HEIGHT = 260  # of the chart, in pixels


@dataclass(frozen=True)
class Chart:
    """A chart as inline SVG, its caption, and what it says in words."""

    svg: str
    caption: str
    alt: str


@dataclass(frozen=True)
class _Point:
    """An editor. size: of its prompts. value: its metric, with an interval from low to high."""

    size: float
    value: float
    low: float
    high: float
    editor: str


@dataclass(frozen=True)
class _Axes:
    """The area between the axes: from 0 to right, and from low to 1. height: in pixels."""

    right: float
    low: float
    height: int

    def x(self, size: float) -> str:
        """A place from the left, in percent of the width."""
        return f"{100 * size / self.right:.2f}%"

    def y(self, value: float) -> float:
        """A place from the top, in pixels."""
        above_low = max(value, self.low) - self.low
        return round(self.height * (1 - above_low / (1 - self.low)), 1)


def pareto(group: Group) -> Chart | None:
    """The headline metric against prompt tokens, or retains where tokens are not counted.

    None if no editor was measured. The same input gives the same bytes.
    """
    ranked = group.ranked
    if not ranked:
        return None
    metric = group.headline
    in_tokens = all(summary.prompt_tokens is not None for summary in ranked)
    unit = "prompt tokens" if in_tokens else "retains per prompt"
    points = [_point(summary, metric, in_tokens=in_tokens) for summary in ranked]
    points.sort(key=lambda point: (point.size, -point.value, point.editor))
    front = _front(points)

    axes = _axes(points)
    end_of_front = replace(front[-1], size=axes.right)
    svg = rendered(
        "pareto.svg",
        right=axes.right,
        low=axes.low,
        height=axes.height,
        unit=unit,
        best=ranked[0].editor,
        ticks=_ticks,
        points=sorted(points, key=lambda point: (point.value, -point.size)),
        steps=pairwise([*front, end_of_front]),
        x=axes.x,
        y=axes.y,
        printable=_printable,
    )

    places = "; ".join(
        f"{point.editor} {point.value:.2f} at {point.size:,.4g} {unit}" for point in points
    )
    best = ", ".join(point.editor for point in front)
    return Chart(
        svg=svg.replace("\n", ""),
        caption=(
            f"{metric} against {unit}; lines through the points: 95 % intervals; "
            f"dashed: best {metric} for the length"
        ),
        alt=f"{metric} against {unit}: {places}. Best for their length: {best}.",
    )


def _point(summary: Summary, metric: str, *, in_tokens: bool) -> _Point:
    estimate = summary.metric(metric)
    size = summary.prompt_tokens if in_tokens else summary.shots
    return _Point(
        size=size or 0.0,
        value=estimate.value or 0.0,
        low=estimate.low or 0.0,
        high=estimate.high or 0.0,
        editor=summary.editor,
    )


def _front(points: Sequence[_Point]) -> list[_Point]:
    """The points that are better than all with shorter prompts. points: shortest first."""
    front: list[_Point] = []
    for point in points:
        if not front or point.value > front[-1].value:
            front.append(point)
    return front


def _axes(points: Sequence[_Point]) -> _Axes:
    """Axes with room for all points and their names. points: shortest prompts first."""
    lowest_end = min(point.low for point in points)
    return _Axes(
        right=1.08 * points[-1].size or 1.0,
        low=min(0.9, math.floor(10 * lowest_end) / 10),
        height=max(_LEAST_HEIGHT, round(1.2 * _NAME_HEIGHT * len(points))),
    )


def _ticks(low: float, high: float) -> list[float]:
    """Two to six round numbers from low to high."""
    rough_step = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough_step))
    steps = [power * factor for factor in (1, 2, 5, 10)]
    step = next(step for step in steps if step >= rough_step * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(step * number, 10) for number in range(first, last + 1)]


def _printable(name: str) -> str:
    """A name that may come from a file and hold anything, without control characters."""
    return "".join(character if character.isprintable() else "?" for character in name)
