"""Figures: what they draw, and from which values."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from drike.report.groups import grouped
from drike.report.page import pareto
from tests.worlds.reports import run_of


def test_the_chart_of_s_against_tokens_names_every_editor_and_its_names_do_not_overlap() -> None:
    many = ["IKE", *(f"DR-IKE (sigma .{i})" for i in range(10, 30))]
    for editors in (["IKE", "DR-IKE"], ["Nearest (size of DR-IKE-Q)", "Nearest (k of DR-IKE)", "DR-IKE"], many):
        drawn = pareto(grouped([run_of(0, editors=editors)])[0])
        assert drawn is not None and drawn.svg.count('class="best"') == 2, "a circle and its name"
        named = re.findall(r'<svg x="100%"[^>]*><text[^>]* y="([^"]+)"[^>]*>([^<]+)</text>', drawn.svg)
        lines = sorted(float(y) for y, _ in named)
        assert sorted(name for _, name in named) == sorted(editors) and all(b - a > 12 for a, b in pairwise(lines))
        assert all(-10 < y < 1.25 * 18 * max(15, len(editors)) for y in lines)
    [silent] = grouped([run_of(0, editors=["IKE", "DR-IKE"])])
    outcomes = {name: [replace(o, prompt_tokens=None) for o in of] for name, of in silent.outcomes.items()}
    drawn = pareto(replace(silent, runs=(replace(silent.runs[0], outcomes=outcomes),)))  # type: ignore[arg-type]
    assert drawn is not None and drawn.caption.startswith("S against retains per prompt")
    assert pareto(grouped([run_of(0, editors=["Unedited"])])[0]) is None
