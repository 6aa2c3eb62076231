from importlib.util import find_spec

import drike


def test_every_public_name_is_there_and_has_a_home() -> None:
    assert set(drike.__all__) == set(drike._HOME)
    for name in drike.__all__:
        assert getattr(drike, name).__doc__, name
        assert getattr(drike, name) is getattr(drike, name)
        assert find_spec(f"drike.{name}") is None, "a module would hide the name once it is imported"


def test_the_readme_calls_only_public_names() -> None:
    import re
    from pathlib import Path

    readme = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    called = set(re.findall(r"\bdrike\.([A-Za-z_]+)\(", readme))
    assert called, "the README shows the Python API"
    assert called <= set(drike.__all__)
