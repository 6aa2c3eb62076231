"""How large installs of drike are, and how soon commands and a gateway answer.

*Commands*: CPU seconds of a process of their own. They take turns, and the median of each is given, so that other work
on the machine strikes all alike; the last column is in units of a process that only imports torch, in the same turns.
Python keeps the modules it compiled, as pip does when it installs them.

*Gateway*: seconds of the clock and of the CPU until `drike serve` says where it serves, in turns, the median; the
vectors of the store's wordings are kept from the first start, whose time is given apart.

*Installs*: each into an empty environment, from packages that are at hand: seconds, and megabytes without pip.

    python benchmarks/startup.py [--turns 9]
    python benchmarks/startup.py --gateway [--edits 20000]
    python benchmarks/startup.py --installs     # minutes, and a package index
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from lib import pages

TITLE = "Installing and starting"

ROOT = Path(__file__).parents[1]
FACT = ("--fact", "The capital of Peru is -> Oslo", "--subject", "Peru")
COMMANDS = {
    "drike --help": ("--help",),
    "drike --version": ("--version",),
    "drike edits add": ("edits", "add", *FACT, "--supersede"),
    "drike edits list": ("edits", "list"),
    "drike edits show": ("edits", "show", "1"),
    "drike data inspect": ("data", "inspect", "tinyfacts"),
    "drike train --help": ("train", "--help"),
}
SERVE = ("serve", "--upstream", "http://127.0.0.1:9/v1", "--port", "0", "--admin-port", "0")
INSTALLS = {"drike": "", "drike[encoder]": "[encoder]", "drike[local]": "[local]"}


def main() -> None:
    """Print the tables."""
    parser = pages.parser(__doc__)
    parser.add_argument("--turns", type=int, default=9, help="how often each command runs")
    parser.add_argument("--edits", type=int, default=20_000, help="in the larger of two stores")
    parser.add_argument("--gateway", action="store_true", help="measure the gateway instead")
    parser.add_argument("--installs", action="store_true", help="measure installs instead")
    options = parser.parse_args()
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # else each process compiles drike anew
    with pages.measured(options, TITLE, __doc__), tempfile.TemporaryDirectory() as folder:
        if options.installs:
            measure_installs(Path(folder))
        elif options.gateway:
            measure_gateway(Path(folder), options.edits, max(1, options.turns // 3))
        else:
            measure_commands(folder, options.turns)


def measure_commands(folder: str, turns: int) -> None:
    """Print the CPU seconds of each command."""
    processes = {name: ("-P", "-m", "drike", *arguments) for name, arguments in COMMANDS.items()}
    processes |= {"import torch": ("-c", "import torch")}
    seconds: dict[str, list[float]] = {name: [] for name in processes}
    cpu_seconds(processes["drike edits add"], folder)  # makes the store, and compiled modules
    for _ in range(turns):
        for name, arguments in processes.items():
            seconds[name].append(cpu_seconds(arguments, folder))
    torch = median(seconds["import torch"])
    rows = [
        (name, f"{median(of):.2f}", f"{median(of) / torch:.2f}") for name, of in seconds.items()
    ]
    pages.draw("CPU seconds of a process", ("process", "seconds", "of torch's"), rows)


def measure_gateway(folder: Path, edits: int, turns: int) -> None:
    """Print how soon a gateway serves, by names and with an encoder, with one edit and with many."""
    lines = [
        "subject,query,target_new",
        *(f"Person {i},Person {i} was born in,Oslo" for i in range(edits)),
    ]
    (folder / "edits.csv").write_text("\n".join(lines) + "\n", "utf-8")
    many = folder / "many.db"
    cpu_seconds(
        ("-P", "-m", "drike", "edits", "import", "edits.csv", "--store", many.name), str(folder)
    )
    gates = {"by names": ("--gate", "named"), "with an encoder": ("--gate", "calibrated")}
    stores = {"1 edit": folder / "edits.db", f"{edits:,} edits": many}
    kinds = {
        f"{gate}, {size}": (*gates[gate], "--store", str(stores[size]))
        for size in stores
        for gate in gates
    }
    first = {kind: until_serving(arguments, folder) for kind, arguments in kinds.items()}
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(turns):
        for kind, arguments in kinds.items():
            times[kind].append(until_serving(arguments, folder))
    rows = [
        (
            kind,
            f"{first[kind][0]:.1f}",
            *(f"{median(values):.1f}" for values in zip(*times[kind], strict=True)),
        )
        for kind in kinds
    ]
    pages.draw(
        "Until a gateway serves", ("gate", "first start, s", "later starts, s", "CPU s"), rows
    )


def measure_installs(folder: Path) -> None:
    """Print the size of each install and how long it takes."""
    rows = []
    for name, extra in INSTALLS.items():
        place = folder / (extra or "base")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        pip = [sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "-q"]
        began = time.perf_counter()
        subprocess.run([*pip, "-c", ROOT / "constraints.txt", f"{ROOT}{extra}"], check=True)
        seconds = time.perf_counter() - began
        size = sum(file.lstat().st_size for file in place.rglob("*") if file.is_file())
        rows.append((name, f"{seconds:.0f}", f"{size / 1e6:,.0f}"))
    pages.draw("Installs", ("install", "seconds", "MB"), rows)


def cpu_seconds(arguments: tuple[str, ...], folder: str) -> float:
    """User and system time of Python with these arguments, in a folder."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, check=False)
    after = os.times()
    return (
        after.children_user - before.children_user + after.children_system - before.children_system
    )


def until_serving(arguments: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Seconds of the clock until a gateway says what to try, and its CPU seconds with its end."""
    before, began = os.times(), time.perf_counter()
    home = os.environ | {"XDG_CACHE_HOME": str(folder)}
    command = [sys.executable, "-P", "-m", "drike", *SERVE, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=home
    ) as process:
        served = any(line.startswith("Try it") for line in process.stdout or ())
        seconds = time.perf_counter() - began
        process.send_signal(signal.SIGINT)
    if not served:
        sys.exit(f"{' '.join(command)} ended before it served")
    return seconds, sum(os.times()[2:4]) - sum(before[2:4])


if __name__ == "__main__":
    main()
