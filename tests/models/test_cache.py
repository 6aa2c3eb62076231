"""The answer cache: nothing is paid for twice, lost or wrong, and only the owner can read it."""

from __future__ import annotations

import hashlib
import resource
import signal
import sqlite3
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drike.errors import ModelError
from drike.models.protocols import Completion, CustomModel, Request, Score
from drike.models.served.cache import AnswerCache, CachedModel
from tests.fakes.models import ScriptedModel, Streamed, cached, kept_answers

WORDS = st.sampled_from(["a", "b", "c", "d", "e"])
CALLS = st.lists(st.lists(WORDS, max_size=6), max_size=5)


def stored(text: str) -> bytes:
    """Encode a value as the file stores it, with its checksum."""
    return hashlib.sha256(text.encode()).digest()[:8] + text.encode()


class OneByOne(Streamed):
    """A model that returns answers one by one and fails at the third."""

    def __init__(self) -> None:
        super().__init__(CustomModel("failing", lambda prompts, max_tokens, stop: []))
        self.asked: list[str] = []

    def completions(
        self, prompts: Sequence[str], max_tokens: int = 16, stop: str | None = "\n"
    ) -> Iterator[tuple[int, Completion]]:
        for i, prompt in reversed(list(enumerate(prompts))):
            self.asked.append(prompt)
            if len(self.asked) == 3:
                raise ModelError("the server is gone: start it")
            yield i, Completion(f" {prompt}", 1, 1)


@given(CALLS)
def test_each_distinct_prompt_is_sent_once_per_run_and_every_request_is_answered(
    calls: list[list[str]],
) -> None:
    inner = ScriptedModel(str.upper, scores=False)
    direct = ScriptedModel(str.upper, scores=False)
    store = AnswerCache(Path("/dev/null/nowhere"))  # an impossible folder, so only memory is left
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CachedModel(Streamed(inner), "m", store)
        for prompts in calls:
            assert model.generate(prompts) == direct.generate(prompts)
    assert not [prompt for prompt, times in Counter(inner.prompts).items() if times > 1]
    assert model.usage.cached == sum(map(len, calls)) - len(inner.prompts)


def test_cached_answers_are_reused_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    first = ScriptedModel(str.upper)
    second = ScriptedModel(str.upper)
    requests = [Request("a", " A"), Request("a", " B"), Request("a", " A"), Request("a A", "")][:3]
    one = cached(first, path)
    two = cached(second, path)
    assert one.generate(["a", "b"]) == two.generate(["a", "b"])
    assert one.score(requests) == two.score(requests) == ScriptedModel(str.upper).score(requests)
    assert (len(first.prompts), second.prompts) == (4, [])


def test_a_cached_model_scores_only_if_the_wrapped_model_does(tmp_path: Path) -> None:
    assert cached(ScriptedModel(str, scores=False), tmp_path / "a").score is None
    assert cached(ScriptedModel(str), tmp_path / "a").score is not None


def test_cache_keys_include_model_token_limit_stop_and_prompt_boundary(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    model = ScriptedModel(lambda prompt: f"{prompt} one two\nthree")
    cached(model, path).generate(["a"])
    cached(model, path).score([Request("ab", "c")])
    for ask in (
        lambda: cached(model, path, "other").generate(["a"]),
        lambda: cached(model, path).generate(["a"], max_tokens=1),
        lambda: cached(model, path).generate(["a"], stop=None),
        lambda: cached(model, path).score([Request("a", "bc")]),
    ):
        before = len(model.prompts)
        ask()
        assert len(model.prompts) == before + 1


@settings(max_examples=25, deadline=None)
@given(
    st.builds(
        Score,
        st.lists(st.floats(-50, 0), min_size=1, max_size=4).map(tuple),
        st.booleans(),
        st.floats(-50, 50),
        st.none() | st.text(),
        st.none() | st.integers(0, 10**6),
    ),
    st.builds(
        Completion, st.text(), st.none() | st.integers(0, 10**6), st.none() | st.integers(0, 10**6)
    ),
)
def test_cached_answers_are_returned_unchanged(score: Score, completion: Completion) -> None:
    fixed = CustomModel(
        "fixed",
        lambda prompts, max_tokens, stop: [completion] * len(prompts),
        lambda requests: [score] * len(requests),
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.sqlite"
        for _ in range(2):
            model = cached(fixed, path)
            assert model.generate(["x"]) == [completion]
            assert model.score([Request("x", " y")]) == [score]
            model.store.close()
        assert model.usage.cached == 2


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "null",
        '{"text": 3, "prompt_tokens": 1, "completion_tokens": 1}',
        '{"text": "x"}',
        "[" * 100_000,
    ],
)
def test_a_damaged_cache_row_is_a_miss_and_is_replaced(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    inner = ScriptedModel(str.upper, scores=False)
    cached(inner, path).generate(["a"])
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE entries SET value = ?", (stored(damage),))
        file.commit()
    for times in (2, 2):
        assert cached(inner, path).generate(["a"])[0].text == " A"
        assert inner.prompts.count("a") == times


def test_a_cache_value_of_the_wrong_type_is_a_miss(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    inner = ScriptedModel(str.upper, scores=False)
    cached(inner, path).generate(["a"])
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE entries SET value = 'text'")
        file.commit()
    assert cached(inner, path).generate(["a"])[0].text == " A"


def test_a_cache_file_that_is_not_a_database_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_bytes(b"something else entirely" * 100)
    inner = ScriptedModel(str.upper, scores=False)
    for _ in range(2):
        assert cached(inner, path).generate(["a", "b"])[0].text == " A"
    assert kept_answers(path) == 2 and inner.prompts == ["a", "b"]
    assert path.with_suffix(".damaged").read_bytes() == b"something else entirely" * 100


def test_the_cache_is_readable_by_its_owner_only_and_stores_no_prompts(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.touch(0o644)
    cached(ScriptedModel(lambda prompt: "an answer", scores=False), path).generate(
        ["a very private prompt"]
    )
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"private" not in path.read_bytes() and b"an answer" in path.read_bytes()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_answers_received_before_a_failure_are_cached(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    inner = OneByOne()
    with pytest.raises(ModelError):
        CachedModel(inner, "m", AnswerCache(path)).generate(["a", "b", "c", "d"])
    assert kept_answers(path) == 2
    again = CachedModel(inner, "m", AnswerCache(path))
    assert [c.text for c in again.generate(["a", "b", "c", "d"])] == [" a", " b", " c", " d"]
    assert sorted(inner.asked) == ["a", "b", "b", "c", "d"]


def test_a_full_disk_warns_and_loses_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    inner = ScriptedModel(lambda prompt: "x" * 3000, scores=False)
    model = cached(inner, path)
    model.generate(["first"])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    prompts = [str(i) for i in range(20)]
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, limits[1]))
        with pytest.warns(RuntimeWarning, match="make room"):
            answers = model.generate(prompts)
        assert [len(a.text) for a in answers] == [3001] * 20
        assert model.generate(prompts) == answers and len(inner.prompts) == 21
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    model.store.close()  # the disk has room again
    assert kept_answers(path) == 21


def test_an_unwritable_cache_folder_only_warns(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inner = ScriptedModel(str.upper, scores=False)
    model = cached(inner, tmp_path / "file" / "answers.sqlite")
    with pytest.warns(RuntimeWarning, match="stay in memory"):
        model.generate(["a"])
    model.generate(["a"])
    assert inner.prompts == ["a"]


ROOT = Path(__file__).parents[2]
RUN = """
import sys
from pathlib import Path
from drike.models.protocols import CustomModel
from tests.fakes.models import cached
upper = CustomModel("upper", lambda prompts, max_tokens, stop: [" " + prompt.upper() for prompt in prompts])
model = cached(upper, Path(sys.argv[1]))
for i in range(60):
    assert model.generate([f"p{i}", f"{sys.argv[2]}{i}"])[0].text == f" P{i}"
"""


def test_two_processes_can_share_a_cache_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", RUN, str(path), name],
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        for name in ("x", "y")
    ]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()
    assert kept_answers(path) == 180
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert all(
            value == stored(value[8:].decode())
            for (value,) in file.execute("SELECT value FROM entries")
        )


def test_a_damaged_byte_in_a_cache_row_is_a_miss(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    inner = ScriptedModel(str.upper, scores=False)
    cached(inner, path).generate(["a1"])
    with closing(sqlite3.connect(path)) as file:
        [[row]] = file.execute("SELECT value FROM entries").fetchall()
    expected = cached(inner, path).generate(["a1"])
    for i, byte in list(enumerate(row))[::3]:
        damaged = row[:i] + bytes([byte ^ 1]) + row[i + 1 :]
        with closing(sqlite3.connect(path)) as file:
            file.execute("UPDATE entries SET value = ?", (damaged,))
            file.commit()
        asked = len(inner.prompts)
        again = cached(inner, path)
        assert again.generate(["a1"]) == expected
        again.store.close()
        assert len(inner.prompts) == asked + 1
