"""Figures as inline SVG: small panels that a page can stack on a phone, in the colours of the page's style.

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
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from drike.report.groups import UNEDITED, Group
from drike.report.paper import RETAIN_BUDGETS
from drike.report.tables import SCORES
from drike.report.training import Epoch
from drike.report.variants import distribution_of

_INK, _MUTED, _LINE = "#0a0b01", "#0a0b02", "#0a0b03"
_SERIES = tuple(f"#0a0b1{i}" for i in range(8))
_VARIABLES = {_INK: "ink", _MUTED: "muted", _LINE: "line"} | {colour: f"c{i}" for i, colour in enumerate(_SERIES)}
_MARKERS = "osD^vPX*"
_DPI = 72  # of SVG
_ROW = 0.18  # inches that a line of small text takes
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


def intervals(groups: Sequence[Group], metric: str) -> Figure | None:
    """A metric of every editor with its interval, groups side by side; None if nothing was measured."""
    points = [
        (i, editor, one)
        for i, group in enumerate(groups)
        for editor, summary in group.summaries.items()
        if (one := summary.metric(metric)).value is not None
    ]
    if not points:
        return None
    editors = list(dict.fromkeys(editor for group in groups for editor in group.summaries))

    def draw(axes: Axes) -> None:
        for i, editor, one in points:
            y = editors.index(editor) + (i - (len(groups) - 1) / 2) * 0.6 / len(groups)
            ends, colour = [one.low or 0.0, one.high or 0.0], _SERIES[i % 8]
            axes.plot(ends, [y, y], color=colour, linewidth=2.2, solid_capstyle="round")
            axes.plot(one.value or 0.0, y, _MARKERS[i % 8], color=colour, markersize=6)
        axes.set_yticks(range(len(editors)), [_plain(editor) for editor in editors])
        axes.set_ylim(len(editors) - 0.5, -0.5)
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="y", visible=False)
        _legend(axes, groups)

    values = "; ".join(
        f"{_prefix(groups[i], groups)}{editor} {one.value:.2f} from {one.low:.2f} to {one.high:.2f}"
        for i, editor, one in points
    )
    height = 0.55 + 0.27 * len(editors) * max(1, 0.5 * len(groups))
    caption = SCORES[metric][0].upper() + SCORES[metric][1:]
    return Figure(_svg(draw, metric, (2.6, height)), caption, f"{metric} by editor, with 95 % intervals: {values}.")


def pareto(group: Group) -> Figure | None:
    """S against prompt tokens, each editor with its name; a dashed line shows the best S up to each length.

    None for fewer than two editors.
    """
    points = sorted(
        (one.prompt_tokens, -one.s.value, editor)
        for editor, one in group.summaries.items()
        if editor != UNEDITED and one.prompt_tokens is not None and one.s.value is not None
    )
    if len(points) < 2:
        return None
    front = [point for i, point in enumerate(points) if all(point[1] < minus_s for _, minus_s, _ in points[:i])]
    families = list(dict.fromkeys(_family(editor) for *_, editor in points))
    longest, low = 1.05 * points[-1][0], min(0.9, math.floor(-10 * max(minus_s for _, minus_s, _ in points)) / 10)
    height = max(2.6, len(points) * _ROW / 0.77)  # of the drawing; the plot's share of it is .77

    def draw(axes: Axes) -> None:
        xs, ys = [*(x for x, *_ in front), longest], [*(-y for _, y, _ in front), -front[-1][1]]
        axes.step(xs, ys, where="post", color=_MUTED, linestyle="--", linewidth=1.2)
        rising = sorted(points, key=lambda point: (-point[1], -point[0]))
        places = _apart([(-minus_s - low) / (1 - low) for _, minus_s, _ in rising], _ROW / (0.77 * height))
        for (tokens, minus_s, editor), place in zip(rising, places, strict=True):
            s, i = group.summaries[editor].s, families.index(_family(editor)) % 8
            axes.vlines(tokens, s.low or 0.0, s.high or 0.0, color=_SERIES[i], linewidth=1.4, alpha=0.5)
            axes.plot(tokens, -minus_s, _MARKERS[i], color=_SERIES[i], markersize=6)
            axes.annotate(
                _plain(editor), (tokens, -minus_s), (1.07, place), textcoords="axes fraction", va="center", fontsize=9,
                color=_INK if (tokens, minus_s, editor) in front else _MUTED,
                arrowprops={"arrowstyle": "-", "color": _SERIES[i], "linewidth": 0.7, "alpha": 0.6, "relpos": (0, 0.5),
                            "shrinkA": 1, "shrinkB": 4}, zorder=1,
            )  # fmt: skip
        axes.set_xlim(0, longest)
        axes.set_ylim(low, 1)
        axes.set_xlabel("prompt tokens")
        axes.set_ylabel("S")

    values = "; ".join(f"{editor} {-minus_s:.2f} at {tokens:.0f} tokens" for tokens, minus_s, editor in points)
    unbeaten = ", ".join(editor for *_, editor in front)
    alt = f"S against mean prompt tokens: {values}. Not beaten in both: {unbeaten}."
    caption = f"S against prompt tokens, {group.label}; dashed: best S for the length"
    return Figure(_svg(draw, group.label, (2.8, height)), caption, alt)


def _family(editor: str) -> str:
    """What variants of an editor share, such as "DR-IKE (sigma 0.05)", and with it colour and marker."""
    return re.split(r" \(|,", editor)[0]


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
