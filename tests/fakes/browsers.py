"""A browser for tests: chromium through chromedriver's protocol, by the standard library."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.ports import free_port

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
NODE = shutil.which("node")
KEYS = {"tab": "\ue004", "enter": "\ue007", "space": " ", "down": "\ue015"}

ROWS = "document.querySelectorAll('#edits li').length"
SAID = "document.getElementById('said').textContent"


class Browser:
    """A browser window. `logs` and `requests` return what happened since the last call."""

    def __init__(self, base: str) -> None:
        self._base = base

    def call(self, method: str, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.loads(reply.read())["value"]

    def open(self, page: Path) -> None:
        self.call("POST", "/url", url=page.as_uri())

    def run(self, script: str) -> Any:
        return self.call("POST", "/execute/sync", script=f"return ({script})", args=[])

    def wait(self, condition: str, seconds: float = 30) -> float:
        """Wait until a script returns true; return the seconds."""
        began = time.monotonic()
        while not self.run(condition):
            assert time.monotonic() - began < seconds, f"never came true: {condition}"
            time.sleep(0.02)
        return time.monotonic() - began

    def press(self, *keys: str) -> None:
        """Send keys to the focused element."""
        strokes = [KEYS.get(key, key) for key in keys]
        actions = [{"type": kind, "value": key} for key in strokes for kind in ("keyDown", "keyUp")]
        self.call(
            "POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}]
        )

    def tab_to(self, label: str, most: int = 60) -> None:
        """Move the focus to what has this text, as someone without a mouse does."""
        for _ in range(most):
            self.press("tab")
            if self.run("document.activeElement.textContent.trim()") == label:
                return
        raise AssertionError(f"the keyboard does not reach {label!r}")

    def logs(self) -> list[str]:
        return [entry["message"] for entry in self.call("POST", "/se/log", type="browser")]

    def requests(self) -> list[str]:
        events = [
            json.loads(entry["message"])["message"]
            for entry in self.call("POST", "/se/log", type="performance")
        ]
        sent = [
            event["params"] for event in events if event["method"] == "Network.requestWillBeSent"
        ]
        return [one["request"]["url"] for one in sent if one["documentURL"].startswith("file:")]

    def resize(self, width: int, height: int) -> None:
        params = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call(
            "POST",
            "/chromium/send_command",
            cmd="Emulation.setDeviceMetricsOverride",
            params=params,
        )

    def picture(self, path: Path) -> None:
        import base64

        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))


@contextmanager
def browser(
    profile: Path, width: int = 1280, height: int = 900, *, dark: bool = False
) -> Iterator[Browser]:
    """Yield a headless window with a fresh profile; close everything afterwards."""
    port = free_port()
    driver = subprocess.Popen(
        [str(DRIVER), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    base = f"http://127.0.0.1:{port}/session"
    arguments = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={profile}",
        f"--window-size={width},{height}", "about:blank", *(["--force-dark-mode"] if dark else []),
    ]  # fmt: skip
    wanted = {
        "goog:chromeOptions": {"args": arguments, "binary": CHROMIUM},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    window = None
    try:
        for attempt in range(100):
            try:
                window = Browser(base).call("POST", "", capabilities={"alwaysMatch": wanted})
                break
            except urllib.error.URLError as problem:
                if isinstance(problem, urllib.error.HTTPError) or attempt == 99:
                    raise
                time.sleep(0.1)
        assert window is not None
        made = Browser(f"{base}/{window['sessionId']}")
        made.resize(width, height)
        yield made
    finally:
        if window is not None:
            Browser(f"{base}/{window['sessionId']}").call("DELETE", "")
        driver.terminate()
        driver.wait(10)


class Stub(Browser):
    """A gateway's admin page under node, in the document of page_stub.js: for what it does, not for how it looks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__("")
        self._process = process

    def run(self, script: str) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(script) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "problem" not in answer, answer["problem"]
        return answer["value"]


@contextmanager
def stub(admin: str, view: str = "edits") -> Iterator[Stub]:
    """The admin page at this address, which needs node."""
    command = ["node", str(Path(__file__).with_name("page_stub.js")), admin, f"#{view}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Stub(process)
        finally:
            process.kill()


def text(id: str) -> str:
    return f"document.getElementById('{id}').textContent"


def click(page: Browser, label: str, inside: str = "body") -> None:
    """Click the first visible button with this label."""
    found = f"[...document.querySelectorAll('{inside} button')].find((b) => b.offsetParent && b.textContent === '{label}')"
    page.wait(f"!!({found})")
    page.run(f"{found}.click()")


def enter(page: Browser, selector: str, value: str) -> None:
    page.run(
        f"((e) => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('input', {{bubbles: true}})); }})"
        f"(document.querySelector({json.dumps(selector)}))"
    )
