"""Figures as inline SVG, in the colours of the page's style: a chart as wide as its place, and panels by matplotlib.

Matplotlib draws in placeholder colours; `_svg` turns them into CSS variables, so one drawing serves light mode, dark
mode and print. Text stays text. The same input gives the same bytes. Every figure has its message as alternative text.
"""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import pairwise
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from drike.report.groups import Group
from drike.report.paper import RETAIN_BUDGETS
from drike.report.training import Epoch
from drike.report.variants import distribution_of

_INK, _MUTED, _LINE = "#0a0b01", "#0a0b02", "#0a0b03"
_SERIES = tuple(f"#0a0b1{i}" for i in range(8))
_VARIABLES = {_INK: "ink", _MUTED: "muted", _LINE: "line"} | {colour: f"c{i}" for i, colour in enumerate(_SERIES)}
_MARKERS = "osD^vPX*"
_DPI = 72  # of SVG
_LABEL, _LETTERS = 18, 25  # of the chart's names: height in pixels, most letters
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "font.size": 10, "axes.edgecolor": _LINE, "axes.labelcolor": _INK, "text.color": _INK,
    "xtick.color": _MUTED, "ytick.color": _MUTED, "xtick.labelcolor": _INK, "ytick.labelcolor": _INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": _LINE, "grid.linewidth": 0.6,
    "axes.axisbelow": True, "legend.frameon": False, "legend.fontsize": 9, "axes.titlesize": 11,
    "axes.titlelocation": "left", "lines.linewidth": 1.6, "font.family": "DejaVu Sans", "axes.unicode_minus": False,
    "text.parse_math": False,
}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A drawing for a page: its SVG element, its caption, and its message for readers who cannot see it."""

    svg: str
    caption: str
    alt: str


def pareto(group: Group) -> Figure | None:
    """The headline metric against prompt tokens (retains where tokens are not counted), each editor with its name.

    The best editor is marked; a dashed line is the best value up to each length. The drawing takes the width it is
    given, beside margins for its text. None if nothing was measured.
    """
    ranked, metric = group.ranked, group.headline
    if not ranked:
        return None
    tokens = [one.prompt_tokens for one in ranked if one.prompt_tokens is not None]
    sizes, unit = (tokens, "prompt tokens") if len(tokens) == len(ranked) else (
        [one.shots for one in ranked], "retains per prompt")  # fmt: skip
    found = [(size, one.metric(metric), one.editor) for size, one in zip(sizes, ranked, strict=True)]
    points = sorted((size, -(value.value or 0.0), editor) for size, value, editor in found)
    front = [point for i, point in enumerate(points) if all(point[1] < minus_s for _, minus_s, _ in points[:i])]
    longest, low = 1.08 * max(sizes) or 1.0, min(0.9, math.floor(-10 * max(minus_s for _, minus_s, _ in points)) / 10)
    height = max(260, round(1.2 * _LABEL * len(points)))
    parts = []

    def x(size: float) -> str:
        return f"{100 * size / longest:.2f}%"

    def y(value: float) -> float:
        return round(height * (1 - (max(value, low) - low) / (1 - low)), 1)

    def line(kind: str, x1: str, y1: float, x2: str, y2: float) -> None:
        parts.append(f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')

    def text(content: str, place: str, *, kind: str = "tick") -> str:
        return f'<text class="{kind}" {place}>{escape(_plain(content))}</text>'

    for value in (value for value in MaxNLocator(5).tick_values(low, 1) if low <= value < 1.001):
        line("grid", "0", y(value), "100%", y(value))
        parts.append(text(f"{value:.2f}", f'x="-8" y="{y(value) + 4}" text-anchor="end"'))
    for size in (size for size in MaxNLocator(4).tick_values(0, longest) if 0 <= size <= longest):
        parts.append(text(f"{size:,.6g}", f'x="{x(size)}" y="{height + 18}" text-anchor="middle"'))
    parts.append(text(unit, f'x="50%" y="{height + 36}" text-anchor="middle"'))
    for (size, minus_s, _), (following, lower, _) in pairwise([*front, (longest, front[-1][1], "")]):
        line("front", x(size), y(-minus_s), x(following), y(-minus_s))
        line("front", x(following), y(-minus_s), x(following), y(-lower))
    rising = sorted(found, key=lambda one: (one[1].value or 0.0, -one[0]))
    places = _apart([1 - y(value.value or 0.0) / height for _, value, _ in rising], _LABEL / height)
    for (size, one, editor), place in zip(rising, places, strict=True):
        kind, at = "best" if editor == ranked[0].editor else "other", y(one.value or 0.0)
        beside = round(height * (1 - place), 1)
        line(f"leader {kind}", x(size), at, "100%", beside)
        line(f"interval {kind}", x(size), y(one.low or 0.0), x(size), y(one.high or 0.0))
        parts.append(f'<circle class="{kind}" cx="{x(size)}" cy="{at}" r="{6 if kind == "best" else 4.5}"/>')
        name = editor if len(editor) <= _LETTERS else f"{editor[: _LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
        label = text(name, f'x="6" y="{beside + 4}"', kind=kind)
        parts.append(f'<svg x="100%" overflow="visible">{label}</svg>')
    values = "; ".join(f"{editor} {-minus_s:.2f} at {size:,.4g} {unit}" for size, minus_s, editor in points)
    unbeaten = ", ".join(editor for *_, editor in front)
    return Figure(
        f'<svg class="pareto" height="{height}">{"".join(parts)}</svg>',
        f"{metric} against {unit}; lines through the points: 95 % intervals; dashed: best {metric} for the length",
        f"{metric} against {unit}: {values}. Best for their length: {unbeaten}.",
    )


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """Rising places in 0 to 1, moved as little as one pass up and one down need to keep this gap between them."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + gap) if found else place)
    return [min(place, 1 - i * gap) for i, place in zip(reversed(range(len(found))), found, strict=True)]


CURVES: dict[str, tuple[str, Callable[[Epoch], float | None]]] = {
    "ESR": ("share of training edits right under the prompt the budget gives", lambda epoch: epoch.esr),
    "reward": ("mean over all evaluated prefixes", lambda epoch: epoch.reward),
    "k": ("mean retains kept per edit", lambda epoch: epoch.mean_k),
    "sigma": ("threshold at the end of the epoch; the mean if every edit has its own", lambda epoch: epoch.sigma),
    "calls": ("prompts sent to the model", lambda epoch: epoch.calls),
    "prompt tokens": ("as if every prompt were read by itself", lambda epoch: epoch.prompt_tokens),
    "seconds": ("wall time", lambda epoch: epoch.seconds),
}


def training(groups: Sequence[Group], curve: str) -> Figure | None:
    """One quantity over epochs, a line for each run; None where no run measured it."""
    what, value = CURVES[curve]
    lines = [
        (i, run.seed, points)
        for i, group in enumerate(groups)
        for run in group.runs
        if (points := [(epoch.epoch, y) for epoch in run.epochs if (y := value(epoch)) is not None])
    ]
    if not lines:
        return None

    def draw(axes: Axes) -> None:
        for i, _, points in lines:
            axes.plot(*zip(*points, strict=True), f"{_MARKERS[i % 8]}-", color=_SERIES[i % 8], markersize=4)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        ys = [y for *_, points in lines for _, y in points]
        low, high = min(0.0, *ys) * 1.05, max(*ys, 0.0) * 1.05 or 1.0
        axes.set_ylim(low, 1.03 if curve == "ESR" else high)
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.6g}")
        _legend(axes, groups)

    values = "; ".join(
        f"{_prefix(groups[i], groups)}seed {seed}: {', '.join(f'{y:.3g}' for _, y in points)}"
        for i, seed, points in lines
    )
    title = f"{curve} by epoch"
    return Figure(_svg(draw, title, (3.2, 2.2)), what.capitalize(), f"{title}: {what}. {values}.")


def budget(group: Group, editor: str) -> Figure:
    """Histogram of the retains that an editor kept per test edit, with the published means as lines."""
    found = distribution_of(group.outcomes[editor])
    most = max(16, *found.counts)

    def draw(axes: Axes) -> None:
        axes.bar(range(most + 1), [found.counts.get(k, 0) for k in range(most + 1)], color=_SERIES[0], width=0.8)
        for i, paper in enumerate(RETAIN_BUDGETS):
            axes.axvline(paper.mean, color=_MUTED, linestyle=":", linewidth=1.4)
            axes.text(0.99, 0.97 - 0.09 * i, f"{paper.model}: {paper.mean:.2f}", transform=axes.transAxes, fontsize=9,
                      ha="right", va="top")  # fmt: skip
        axes.set_xlim(0.3, most + 0.7)
        axes.set_xlabel("retains kept")
        axes.set_ylabel("test edits")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))

    counts = ", ".join(f"{k} at {edits} edits" for k, edits in found.counts.items())
    alt = f"Retains kept by {editor}: {counts}; mean {found.mean:.2f}, standard deviation {found.std:.2f}."
    return Figure(_svg(draw, f"{editor}, {group.label}", (4.0, 2.7)),
                  f"Retains kept by {editor}, {group.label}; dotted: published means", alt)  # fmt: skip


def _prefix(group: Group, groups: Sequence[Group]) -> str:
    return f"{group.label}, " if len(groups) > 1 else ""


def _legend(axes: Axes, groups: Sequence[Group]) -> None:
    if len(groups) > 1:
        entries = [
            Line2D([], [], color=_SERIES[i % 8], marker=_MARKERS[i % 8], label=_plain(group.label))
            for i, group in enumerate(groups)
        ]
        axes.figure.legend(handles=entries, loc="upper left", bbox_to_anchor=(0.05, 0.0))


def _svg(draw: Callable[[Axes], None], title: str, size: tuple[float, float]) -> str:
    """Draw into an SVG element of `size` inches, whose ids no other figure on the page has."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # the browser draws the text, not matplotlib
        mpl.rcdefaults()  # a user's own style would change the bytes
        mpl.rcParams.update({**_STYLE, "svg.hashsalt": _plain(title)})
        canvas = Canvas(figsize=size, facecolor="none", dpi=_DPI)
        axes = canvas.add_subplot(facecolor="none")
        draw(axes)
        axes.set_title(_plain(title))
        stream = StringIO()
        # `savefig` would draw everything twice
        FigureCanvasSVG(canvas).print_svg(stream, metadata={"Date": None})  # type: ignore[no-untyped-call]
        shown = canvas.get_tightbbox().padded(0.04)  # in inches from below
        x, y, width, height = (_DPI * n for n in (shown.x0, size[1] - shown.y1, shown.width, shown.height))
    # a little larger than drawn, because screens are not print
    root = f'<svg viewBox="{x:.2f} {y:.2f} {width:.2f} {height:.2f}" width="{width * 1.25:.0f}">'
    return _themed(root, stream.getvalue())


def _plain(text: str) -> str:
    """Replace unprintable characters: names come from files and may hold anything."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _themed(root: str, svg: str) -> str:
    """Reduce to the bare element, with unique ids, CSS variables as colours, and the page's fonts."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    prefix = f"f{hashlib.sha256(svg.encode()).hexdigest()[:8]}-"
    svg = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\1{prefix}", svg)
    svg = root + svg[svg.index(">") + 1 :]
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r"font-family: [^;\"]*; ", "", svg)
    for colour, name in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg.replace("xlink:href", "href").strip()
