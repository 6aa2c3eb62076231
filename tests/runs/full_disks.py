"""Fill the disk under every writer outside a run: each reports it in one sentence and leaves the old or the new file.

    python -m tests.runs.full_disks

Reports, `drike demo`, downloads, the builder of the embedded model and the feature store each run
as forks of this process (see `killed_runs`) under a series of limits on file size (RLIMIT_FSIZE).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tests.runs.killed_runs import Arguments, Series, arguments_for, filled, run, whole

LIMITS = (
    0, 10, 100, 300, 1_000, 3_000, 10_000, 20_000, 30_000, 60_000, 100_000, 200_000, 400_000, 1_000_000, 3_000_000,
)  # fmt: skip


def writers(place: Path) -> Series:
    """Run every writer under each limit on file size."""
    import drike.cli.data
    import drike.cli.demo
    import drike.cli.evaluate
    import drike.cli.pages
    import drike.cli.train
    import drike.research.report.document
    import drike.research.report.page  # noqa: F401 - so that forks need not import them
    from drike.encoders.frozen import FeatureStore
    from tools.tinyfacts import build

    sys.dont_write_bytecode = True  # Python itself would leave part of a compiled module
    result, began = Series("writers", "reader", "full"), time.monotonic()
    os.environ["XDG_CACHE_HOME"] = str(place / "cache")
    arguments = arguments_for("evaluate", "reader", place)
    run_folder, page, model = place / "evaluated", place / "page.html", place / "model"
    whole([*arguments, "--out", str(run_folder)])
    report = ["report", str(run_folder), "--out", str(page)]
    small = [
        "--data",
        str(place / "rows.json"),
        "--model",
        "reader",
        "--encoder",
        "hashing",
        "--editable",
        "40",
    ]
    small += ["--edits", "3", "--test", "3", "--epochs", "1"]

    def built() -> None:
        from tools.tinyfacts.__main__ import main

        sys.argv = ["tinyfacts", "build", "--out", str(model)]
        build.CURRICULUM, build.build.__kwdefaults__["curriculum"] = (), ()
        main()

    def fetched() -> None:
        from drike.cli import main

        main(["data", "inspect", address])

    def kept() -> None:
        FeatureStore(place / "features", "m" * 40).write(
            {f"text {i}": np.full(384, i, np.float32) for i in range(200)}
        )
        raise SystemExit(0)

    with _files(place) as root:
        address = f"{root}/rows.json"
        each: dict[str, tuple[Arguments, list[Path]]] = {
            "report": (report, [page, page.with_suffix(".md")]),
            "demo": (["demo", *small[2:6], *small[8:], "--out", "{new}"], []),
            "download": (fetched, []),
            "tinyfacts build": (built, [model / "model.safetensors", model / "config.json"]),
        }  # fmt: skip
        for name, (what, results) in each.items():
            for number, limit in enumerate(LIMITS):
                for path in results:
                    path.parent.mkdir(exist_ok=True)
                    path.write_text("the old one", "utf-8")
                shutil.rmtree(place / "cache", ignore_errors=True)
                new = str(place / f"{name}-{number}")
                now = what if callable(what) else [word.replace("{new}", new) for word in what]
                try:
                    stopped = filled(now, limit)
                except RuntimeError as problem:
                    result.failed.append(f"{name} with room for {limit}: {problem}")
                    continue
                result.times += stopped
                result.stopped[name] = result.stopped.get(name, 0) + stopped
                for path in results:
                    old = path.exists() and path.read_text("utf-8", "replace") == "the old one"
                    if not old and (not path.exists() or (stopped and path.stat().st_size > limit)):
                        result.differing.append(
                            f"{name} with room for {limit}: {path.name} is neither old nor new"
                        )
    for limit in LIMITS:
        end = run(kept, limit=limit)
        known = FeatureStore(place / "features", "m" * 40).read([f"text {i}" for i in range(200)])
        if end.code or any(
            (vector != int(text.split()[1])).any() for text, vector in known.items()
        ):
            result.differing.append(f"features with room for {limit}: {end.said}")
        result.stopped["features"] = result.stopped.get("features", 0) + (len(known) < 200)
        shutil.rmtree(place / "features", ignore_errors=True)
    result.seconds = time.monotonic() - began
    return result


@contextmanager
def _files(place: Path) -> Iterator[str]:
    """Serve the files of a folder from another process; yield the address."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            from http.server import HTTPServer, SimpleHTTPRequestHandler

            class Quiet(SimpleHTTPRequestHandler):
                def log_message(self, format: str, *args: object) -> None:
                    pass

            os.chdir(place)
            with HTTPServer(("127.0.0.1", 0), Quiet) as server:
                os.write(write, str(server.server_address[1]).encode())
                os.close(write)
                server.serve_forever()
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        port = stream.read()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        result = writers(Path(place))
    print(json.dumps(asdict(result), indent=1))
    sys.exit(bool(result.differing or result.failed))
