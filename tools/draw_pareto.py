"""Draw the figure of README with Chromium: `python -m tools.draw_pareto RUN... docs/pareto.png`.

README's runs are `make demo`, and an evaluation of it with `--editors by-name,nearest-same-size,no-retains`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from drike.report.figures import pareto
from drike.report.groups import grouped
from drike.report.reading import read_runs

WIDTH, HEIGHT = 860, 400


def main() -> None:
    """Read the runs, and photograph their chart."""
    *runs, picture = map(Path, sys.argv[1:])
    figure = pareto(grouped(read_runs(runs))[0])
    if figure is None:
        sys.exit("these runs have nothing to draw: give runs that were evaluated with editors")
    style = resources.files("drike.report").joinpath("style.css").read_text("utf-8")
    body = f"<figure class='chart'>{figure.svg}<figcaption>{figure.caption}.</figcaption></figure>"
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style><body>{body}</body>", "utf-8")
        chromium = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}",
            "--force-device-scale-factor=2", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture.resolve()}",
        ]  # fmt: skip
        subprocess.run([*chromium, page.as_uri()], check=True, capture_output=True)  # noqa: S603 - of our own words


if __name__ == "__main__":
    main()
