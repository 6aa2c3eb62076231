"""Pictures of one correction's life for the documentation: `make pictures` writes them, with the story that they show.

Gateway, model, commands and pages are real (`tools.life`), unlike those of `tests.fakes.pictures`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.fakes.browsers import browser, text
from tests.fakes.pictures import PICTURES, WIDE
from tools.life import Chapter, story, tell

LIFE = PICTURES / "life"
# What is to be seen on the page of each picture, and the most pixels of its height.
UNTIL = {
    "proposed": "!!document.querySelector('dialog[open]')",
    "in_force": "document.querySelectorAll('#edits li').length === 1",
    "health": f"{text('on')}.includes('Burundi')",
    "week": "document.body.innerText.includes('Burundi')",
}
HIGHEST = 900


def main() -> None:
    """Tell the story, and write a picture where something can be seen."""
    LIFE.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        browser(Path(folder) / "profile", WIDE, 800) as window,
    ):

        def take(chapter: Chapter) -> None:
            window.resize(WIDE, 800)
            window.call("POST", "/url", url="about:blank")
            window.call("POST", "/url", url=chapter.address)
            if chapter.picture == "proposed":
                window.wait("document.querySelectorAll('#edits li').length === 1", 120)
                window.run("document.querySelector('#edits li button').click()")
            window.wait(UNTIL[chapter.picture], 120)
            if not window.run("document.querySelector('dialog[open]')"):
                height = window.run(
                    "(document.querySelector('main') || document.body).scrollHeight"
                )
                window.resize(WIDE, min(HIGHEST, 130 + height))
            window.picture(LIFE / f"{chapter.picture}.png")
            print(LIFE / f"{chapter.picture}.png", file=sys.stderr)

        place = Path(folder) / "desk"
        place.mkdir()
        for number, chapter in enumerate(story(place), start=1):
            tell(number, chapter)
            if chapter.picture:
                take(chapter)
    print(f"\n{time.monotonic() - began:.0f} s with the pictures.")


if __name__ == "__main__":
    main()
