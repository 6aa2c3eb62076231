"""The pictures of the documentation: they are those that the command makes, and the page is in order on them."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from tests.fakes.browsers import CHROMIUM, DRIVER, browser
from tests.fakes.pictures import NARROW, PICTURES, WIDE, scene, shown

DOCS = PICTURES.parent


def size(picture: Path) -> tuple[int, ...]:
    """The width and height that a PNG has in its header, in pixels."""
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n")
    return struct.unpack(">II", head[16:])


def test_every_picture_is_on_a_page() -> None:
    pages = "".join(page.read_text("utf-8") for page in DOCS.glob("**/*.md"))
    named = set(re.findall(r"!\[[^\]]+\]\((?:\.\./)?pictures/([\w-]+\.png)\)", pages))
    assert sorted(named) == sorted(picture.name for picture in PICTURES.glob("*.png"))
    assert {size(PICTURES / name)[0] for name in named} == {WIDE}


@pytest.mark.browser
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_each_picture_fits_its_width_without_an_error_in_the_console(
    width: int, tmp_path: Path
) -> None:
    with scene(tmp_path) as gateway, browser(tmp_path / "profile", width, 800) as window:
        taken = []
        for name in shown(window, gateway):
            assert window.run("document.documentElement.scrollWidth") <= width, name
            dialog = "[...document.querySelectorAll('dialog[open]')]"
            assert window.run(f"{dialog}.every((d) => d.scrollWidth <= d.clientWidth)"), name
            taken.append(tmp_path / f"{name}.png")
            window.picture(taken[-1])
        assert {picture.name for picture in taken} == {
            picture.name for picture in PICTURES.glob("*.png")
        }
        assert {size(picture)[0] for picture in taken} == {width}
        assert [line for line in window.logs() if "favicon" not in line] == []


def test_every_picture_of_other_programs_is_on_a_page() -> None:
    pages = "".join(page.read_text("utf-8") for page in DOCS.glob("**/*.md"))
    kept = {picture.relative_to(DOCS).as_posix() for picture in PICTURES.glob("*/*.png")}
    assert kept == set(re.findall(r"!\[[^\]]+\]\(\.\./(pictures/[\w-]+/[\w-]+\.png)\)", pages))
    assert {size(DOCS / name)[0] for name in kept} == {WIDE}
