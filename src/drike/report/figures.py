"""Figures as inline SVG: small panels that a page can stack on a phone, in colours that the page's style decides.

Matplotlib draws with stand-in colours; `_svg` turns them into CSS variables, so that one drawing serves light, dark and
print. Text stays text. The same input gives the same bytes. Every figure carries its message as alternative text.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from drike.metrics import Estimate, Summary
from drike.report.measured import UNEDITED, Epoch, Group
from drike.report.paper import RETAIN_BUDGETS
from drike.report.variants import distribution_of

_INK, _MUTED, _LINE = "#0a0b01", "#0a0b02", "#0a0b03"
_SERIES = tuple(f"#0a0b1{i}" for i in range(8))
_VARIABLES = {_INK: "ink", _MUTED: "muted", _LINE: "line"} | {colour: f"c{i}" for i, colour in enumerate(_SERIES)}
_MARKERS = "osD^vPX*"
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
    """A drawing for a page: the SVG element, what it is, and what it says to someone who cannot see it."""

    svg: str
    caption: str
    alt: str


def intervals(groups: Sequence[Group], metric: str) -> Figure:
    """A metric of every editor with its interval; groups side by side."""
    editors = _editors(groups)
    told = []

    def draw(axes: Axes) -> None:
        for i, group in enumerate(groups):
            for editor, summary in group.summaries.items():
                one = _estimate(summary, metric)
                if one.value is None or one.low is None or one.high is None:
                    continue
                y = editors.index(editor) + (i - (len(groups) - 1) / 2) * 0.6 / len(groups)
                axes.plot([one.low, one.high], [y, y], color=_SERIES[i % 8], linewidth=2.2, solid_capstyle="round")
                label = _plain(group.label) if editor == next(iter(group.summaries)) else None
                axes.plot(one.value, y, _MARKERS[i % 8], color=_SERIES[i % 8], markersize=6, label=label)
                told.append(f"{_named(group, groups)}{editor} {one.value:.2f} from {one.low:.2f} to {one.high:.2f}")
        axes.set_yticks(range(len(editors)), [_plain(editor) for editor in editors])
        axes.set_ylim(len(editors) - 0.5, -0.5)
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="y", visible=False)
        _legend(axes, groups)

    height = 0.55 + 0.27 * len(editors) * max(1, 0.5 * len(groups))
    svg = _svg(draw, metric, (2.6, height))
    return Figure(svg, f"{metric} with 95 % intervals", f"{metric} by editor, with 95 % intervals: {'; '.join(told)}.")


def pareto(group: Group) -> Figure:
    """S against prompt tokens: up and left is better. The line joins what nothing beats in both."""
    points = [
        (one.prompt_tokens, one.s, editor)
        for editor, one in group.summaries.items()
        if editor != UNEDITED and one.prompt_tokens is not None and one.s.value is not None
    ]
    points.sort(key=lambda point: (point[0], -(point[1].value or 0)))
    best, front = -1.0, []
    for tokens, s, editor in points:
        if s.value is not None and s.value > best:
            best = s.value
            front.append((tokens, s.value, editor))

    names = [editor for *_, editor in points]
    families = list(dict.fromkeys(_family(name) for name in names))

    def draw(axes: Axes) -> None:
        axes.plot([x for x, _, _ in front], [y for _, y, _ in front], color=_MUTED, linestyle="--", linewidth=1.2)
        widest = 1.08 * max((x for x, _, _ in points), default=1.0)
        bars = [(x / widest - 0.015, s.low or 0.0, x / widest + 0.015, s.high or 0.0) for x, s, _ in points]
        places = _places([(x / widest, s.value or 0.0, _label(name, names)) for x, s, name in points], bars)
        for (tokens, s, name), (at, y) in zip(points, places, strict=True):
            i = families.index(_family(name)) % 8
            axes.plot([tokens, tokens], [s.low or 0.0, s.high or 0.0], color=_SERIES[i], linewidth=1.6)
            axes.plot(tokens, s.value or 0.0, _MARKERS[i], color=_SERIES[i], markersize=7)
            axes.text(at * widest, y, _plain(_label(name, names)), va="center", fontsize=9, color=_SERIES[i])
        for i, family in enumerate(families):
            swept = [(x, s.value or 0.0) for x, s, name in points if _family(name) == family]
            axes.plot(*zip(*swept, strict=True), color=_SERIES[i % 8], linewidth=0.8)
        axes.set_xlim(0, widest)
        axes.set_ylim(0, 1)
        axes.set_xlabel("prompt tokens")
        axes.set_ylabel("S")

    told = "; ".join(f"{editor} {s.value:.2f} at {tokens:.0f} tokens" for tokens, s, editor in points)
    unbeaten = ", ".join(editor for *_, editor in front)
    alt = f"S against mean prompt tokens: {told}. Not beaten in both: {unbeaten}."
    return Figure(_svg(draw, group.label, (5.2, 3.5)), f"S against prompt tokens, {group.label}", alt)


def _family(editor: str) -> str:
    """Editors of one family ("DR-IKE sigma 0.05") share a colour and are joined."""
    return editor.partition(" ")[0]


def _label(editor: str, editors: Sequence[str]) -> str:
    """What tells an editor from its family; its whole name where it stands for the family or alone."""
    family, _, rest = editor.partition(" ")
    return rest if rest and any(_family(other) == family for other in editors if other != editor) else editor


_Box = tuple[float, float, float, float]


def _places(points: Sequence[tuple[float, float, str]], bars: Sequence[_Box]) -> list[tuple[float, float]]:
    """Where labels begin, in shares of the axes: beside their point, where they cover no bar and no other label."""
    taken, places = list(bars), []
    for x, y, label in points:
        width, height = 0.0175 * len(label), 0.06
        tries = [
            (at, y + step * height)
            for step in (0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5, -6, 6, -7, 7)
            for at in (x + 0.025, x - 0.025 - width, x - width / 2)
        ]
        boxes = [(at, up - height / 2, at + width, up + height / 2) for at, up in tries]
        inside = [box for box in boxes if min(box) >= 0 and max(box) <= 1.02]
        free = [box for box in inside if not any(_overlap(box, other) for other in taken)]
        box = (free or boxes)[0]
        taken.append(box)
        places.append((box[0], (box[1] + box[3]) / 2))
    return places


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


CURVES: dict[str, tuple[str, Callable[[Epoch], float | None]]] = {
    "ESR": ("share of training edits right under the prompt the budget gives", lambda epoch: epoch.esr),
    "reward": ("mean over all prefixes tried", lambda epoch: epoch.reward),
    "k": ("mean retains kept per edit", lambda epoch: epoch.k),
    "sigma": ("threshold at the end of the epoch; the mean where every edit has its own", lambda epoch: epoch.sigma),
    "calls": ("prompts the model was asked", lambda epoch: epoch.calls),
    "prompt tokens": ("read by the model, as if nothing were shared", lambda epoch: epoch.prompt_tokens),
    "seconds": ("wall time", lambda epoch: epoch.seconds),
}


def training(groups: Sequence[Group], curve: str) -> Figure | None:
    """One quantity over epochs, a line a run; None where no run measured it."""
    what, value = CURVES[curve]
    lines = [
        (i, run.seed, [(epoch.number, y) for epoch in run.epochs if (y := value(epoch)) is not None])
        for i, group in enumerate(groups)
        for run in group.runs
    ]
    lines = [line for line in lines if line[2]]
    if not lines:
        return None

    def draw(axes: Axes) -> None:
        seen: set[int] = set()
        for i, _, points in lines:
            label = None if i in seen else _plain(groups[i].label)
            seen.add(i)
            axes.plot(*zip(*points, strict=True), f"{_MARKERS[i % 8]}-", color=_SERIES[i % 8], markersize=4,
                      label=label)  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        ys = [y for *_, points in lines for _, y in points]
        low, high = min(0.0, *ys) * 1.05, max(*ys, 0.0) * 1.05 or 1.0
        axes.set_ylim(low, 1.03 if curve == "ESR" else high)
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.6g}")
        _legend(axes, groups)

    told = "; ".join(
        f"{_named(groups[i], groups)}seed {seed}: {', '.join(f'{y:.3g}' for _, y in points)}"
        for i, seed, points in lines
    )
    title = f"{curve} by epoch"
    return Figure(_svg(draw, title, (3.2, 2.2)), what.capitalize(), f"{title}: {what}. {told}.")


def budget(group: Group, editor: str) -> Figure:
    """How many retains an editor kept per test edit, with the published means as lines."""
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

    told = ", ".join(f"{k} at {edits} edits" for k, edits in found.counts.items())
    alt = f"Retains kept by {editor}: {told}; mean {found.mean:.2f}, standard deviation {found.std:.2f}."
    return Figure(_svg(draw, f"{editor}, {group.label}", (4.0, 2.7)),
                  f"Retains kept by {editor}, {group.label}; dotted: published means", alt)  # fmt: skip


def _editors(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(editor for group in groups for editor in group.summaries))


def _estimate(summary: Summary, metric: str) -> Estimate:
    found: Estimate = getattr(summary, metric.casefold())
    return found


def _named(group: Group, groups: Sequence[Group]) -> str:
    return f"{group.label}, " if len(groups) > 1 else ""


def _legend(axes: Axes, groups: Sequence[Group]) -> None:
    if len(groups) > 1:
        axes.figure.legend(loc="upper left", bbox_to_anchor=(0.05, 0.0))


def _svg(draw: Callable[[Axes], None], title: str, size: tuple[float, float]) -> str:
    """An SVG element of what `draw` draws, `size` in inches; its ids are unlike those of other figures on the page."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # letters are the page's to draw, not matplotlib's
        mpl.rcdefaults()  # a user's own style would change the bytes
        mpl.rcParams.update({**_STYLE, "svg.hashsalt": _plain(title)})
        canvas = Canvas(figsize=size, facecolor="none")
        axes = canvas.add_subplot(facecolor="none")
        draw(axes)
        axes.set_title(_plain(title))
        stream = StringIO()
        canvas.savefig(stream, format="svg", bbox_inches="tight", pad_inches=0.04, metadata={"Date": None})
    return _themed(stream.getvalue())


def _plain(text: str) -> str:
    """Text that a drawing can hold: names come from files, and may hold anything."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _themed(svg: str) -> str:
    """The bare element, sized by the page, its ids its own, its colours CSS variables, its letters the page's."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    prefix = f"f{hashlib.sha256(svg.encode()).hexdigest()[:8]}-"
    svg = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\1{prefix}", svg)
    svg = re.sub(r'<svg\b[^>]*?(viewBox="[\d.]+ [\d.]+ ([\d.]+) [^"]*")[^>]*>', _sized, svg, count=1)
    svg = re.sub(r"<style.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", svg)
    for colour, name in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg.replace("xlink:href", "href").strip()


def _sized(root: re.Match[str]) -> str:
    """The root element in the size it was drawn for, a little larger since screens are not print."""
    return f'<svg {root[1]} width="{float(root[2]) * 1.25:.0f}">'
