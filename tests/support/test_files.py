"""A file of keys and values: who may read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drike.support.key_value_file import KeyValueFile


@pytest.mark.parametrize("linked", [True, False])
def test_only_a_cache_of_its_own_is_made_private(linked: bool, tmp_path: Path) -> None:
    target, path = tmp_path / "target", tmp_path / "answers.sqlite"
    target.touch(0o644)
    if linked:
        path.symlink_to(target)
    file = KeyValueFile(path, "answers", "make room")
    assert file.put({"a": b"b"}) and file.get(["a"]) == {"a": b"b"}
    file.close()
    assert target.stat().st_mode & 0o777 == 0o644
    assert linked or path.stat().st_mode & 0o777 == 0o600
