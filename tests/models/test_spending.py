"""What a run costs: at most the limit and the estimate, and reported as the server counts it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike import tinyfacts
from drike.cli.dry_run import token_counter, usage_sentence
from drike.cli.models import live_usage
from drike.errors import ModelError, SpendingLimitError
from drike.models.protocols import Usage
from drike.models.reader import BayesianReader
from drike.models.served import ApiOptions, Meter, TokenCounts, estimated_tokens
from drike.models.served.cache import AnswerCache, CachedModel
from drike.research.runs.files import read_outcomes
from drike.research.runs.usage import total_usage
from drike.tinyfacts import TEMPLATES
from tests.fakes.commands import run
from tests.fakes.models import ScriptedModel
from tests.fakes.servers import Handler, Served, chat_answer, connect, serve, serving, status

READER = BayesianReader(tinyfacts.facts(), TEMPLATES)
SMALL = ("--encoder", "hashing", "--edits", "4", "--test", "2")
GREEN = ("--encoder", "hashing", "--fact", "Somewhere is -> green", "--every-query")


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compute text features once for all tests of this file."""
    return tmp_path_factory.mktemp("features")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, features: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an empty answer cache for each test."""
    (tmp_path / "cache" / "drike").mkdir(parents=True)
    (tmp_path / "cache" / "drike" / "features").symlink_to(features)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def served() -> Iterator[Served]:
    with serve(serving(READER)) as server:
        yield server


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 100)), max_size=20),
    st.floats(0.001, 0.01),
)
def test_spending_never_exceeds_its_limit_if_the_estimate_holds(
    calls: list[tuple[int, int]], most: float
) -> None:
    meter = Meter(ApiOptions(price_in=1.0, price_out=2.0, max_cost=most))
    refused = False
    for read, written in calls:
        text = "x" * (3 * read)
        try:
            with meter.reserved(text, written):
                meter.answered(text, TokenCounts(read, written), written)
        except SpendingLimitError:
            refused = True
    assert (meter.usage.money or 0.0) <= most + 1e-12
    assert refused == (meter.usage.calls < len(calls))


def test_requests_in_flight_count_against_the_limit() -> None:
    meter = Meter(ApiOptions(price_in=1.0, price_out=1.0, max_cost=150 / 1e6))
    with (
        meter.reserved("x" * 300, 0),
        pytest.raises(SpendingLimitError),
        meter.reserved("x" * 300, 0),
    ):
        pass
    with meter.reserved("x" * 300, 0):  # the reservation was released
        pass


def test_a_spending_limit_requires_a_price() -> None:
    with pytest.raises(ModelError, match="`price_in`"):
        Meter(ApiOptions(max_cost=1.0))


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_request_limit_is_never_exceeded_and_retries_count(concurrency: int) -> None:
    with serve(serving(ScriptedModel(lambda prompt: "x", scores=False))) as server:
        with (
            closing(connect(server.named(), max_calls=5, concurrency=concurrency)) as model,
            pytest.raises(SpendingLimitError, match="5 requests that"),
        ):
            model.generate([str(i) for i in range(12)])
        assert server.requests == model.usage.requests == 5
    with serve(status(500)) as server:
        with (
            closing(connect(server.named(), max_calls=2, attempts=4)) as model,
            pytest.raises(SpendingLimitError),
        ):
            model.generate(["a"])
        assert server.requests == 2 and model.usage.calls == 0


def test_token_counts_come_from_the_server_or_an_estimate() -> None:
    reply = chat_answer("x")
    reply["usage"] = {
        "prompt_tokens": 1000,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 900},
    }

    def sometimes(handler: Handler, body: dict) -> None:
        silent = "silent" in body["messages"][0]["content"]
        handler.reply_json({**reply, "usage": None} if silent else reply)

    with (
        serve(sometimes) as server,
        closing(connect(server.named(), price_in=1.0, price_out=2.0)) as model,
    ):
        model.generate(["a", "b"])
        two = Usage(
            calls=2,
            prompts=2,
            requests=2,
            prompt_tokens=2000,
            completion_tokens=14,
            tokens_computed=214,
        )
        assert model.usage == replace(two, money=pytest.approx(2028e-6))
        model.generate(["silent"])
        text = server.bodies[-1]["messages"][0]["content"]
        read = estimated_tokens(text)
        one = Usage(
            calls=1,
            prompts=1,
            requests=1,
            prompt_tokens=read,
            completion_tokens=16,
            tokens_computed=read + 16,
            estimated=1,
        )
        assert replace(model.usage, money=None) == two + one


def test_usage_is_shown_live_and_at_the_end(tmp_path: Path) -> None:
    assert live_usage(ScriptedModel(str, scores=False)) == ""
    with (
        serve(serving(ScriptedModel(lambda prompt: "two words", scores=False))) as server,
        closing(connect(server.named(), price_in=1e6, price_out=1e6)) as inner,
    ):
        model = CachedModel(inner, "m", AnswerCache(tmp_path / "a.sqlite"))
        assert live_usage(model) == "calls 0 cached 0 tokens 0k 0.000"
        model.generate(["one", "one", "other one"])
        assert (
            live_usage(model) == "calls 2 cached 1 tokens 0k 7.000"
        )  # three words read, four generated
        assert usage_sentence(model.usage) == (
            "2 calls in 2 requests, 1 answers from the cache; 3 prompt tokens, 4 generated; cost 7.0000"
        )


def bound(shown: str, what: str) -> int:
    found = re.search(rf"{what} +([\d,]+)", shown)
    assert found is not None, shown
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("template", ["chat", pytest.param("plain", marks=pytest.mark.slow)])
def test_a_dry_run_sends_nothing_and_its_bounds_hold(
    template: str, served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = tmp_path / "t"
    tested = tmp_path / "e"
    options = ("--model", served.named(), "--template", template, *SMALL, "--epochs", "2")
    assert run("train", *options, "--dry-run", "--price-in", "1", "--out", str(trained)) == 0
    shown = capsys.readouterr().out
    assert served.requests == 0 and not trained.exists()
    assert run("train", *options, "--no-cache", "--out", str(trained)) == 0
    probes = 4 if template == "plain" else 0
    assert 0 < served.requests - probes <= bound(shown, "calls") == 4 * 16 * 2
    spent = total_usage(trained)
    assert spent.prompt_tokens <= bound(shown, "prompt tokens") + 50 * probes
    assert spent.requests == served.requests
    assert spent.completion_tokens <= bound(shown, "generated tokens")
    before = served.requests
    editors = ("--editors", "unedited,editcot,ike,dr-ike")
    assert run("evaluate", "--run", str(trained), *editors, "--dry-run", "--out", str(tested)) == 0
    shown = capsys.readouterr().out
    assert served.requests == before and not tested.exists()
    assert run("evaluate", "--run", str(trained), *editors, "--out", str(tested)) == 0
    assert 0 < served.requests - before - probes <= bound(shown, "calls")
    spent = total_usage(tested)
    assert spent.requests == served.requests - before
    assert spent.prompt_tokens <= bound(shown, "prompt tokens") + 50 * probes
    assert "calls in" in capsys.readouterr().out


def tokens_sent(served: Served, since: int) -> list[int]:
    """Count the tokens of the sent prompts with the embedded model's tokenizer."""
    count = token_counter(str(tinyfacts.MODEL), "plain")
    return [count(body["messages"][0]["content"]) for body in served.bodies[since:]]


@pytest.mark.slow
def test_prompts_to_a_server_fit_the_limit_in_its_tokenizers_tokens(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--model", served.named(), *SMALL, "--epochs", "1", "--prompt-tokens", "600")
    for more in ((), ("--dry-run",)):
        assert run("train", *options, *more, "--out", str(tmp_path / "no")) == 2
        assert "--tokenizer" in " ".join(capsys.readouterr().err.split()) and served.requests == 0
    counted = ("--tokenizer", str(tinyfacts.MODEL))
    assert run("train", *options, *counted, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert run("train", *options, *counted, "--out", str(tmp_path / "t")) == 0
    sent = tokens_sent(served, 0)
    assert max(sent) <= 600 and 4 < len(sent) <= bound(shown, "calls") < 4 * 16
    assert sum(sent) <= bound(shown, "prompt tokens")
    before = served.requests
    evaluation = (
        "evaluate",
        "--run",
        str(tmp_path / "t"),
        "--editors",
        "ike,dr-ike",
    )  # with the limit and tokenizer of the run
    capsys.readouterr()
    assert run(*evaluation, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert run(*evaluation, "--out", str(tmp_path / "e")) == 0
    sent = tokens_sent(served, before)
    assert (
        max(sent) <= 600
        and len(sent) == bound(shown, "calls")
        and sum(sent) == bound(shown, "prompt tokens")
    )
    outcomes = read_outcomes(tmp_path / "e" / "outcomes" / "ike.jsonl")
    assert {outcome.pruned > 0 for outcome in outcomes} == {True} and {
        outcome.shots for outcome in outcomes
    } != {1}


def test_a_tokenizer_counts_what_a_chat_template_adds(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    opened = AutoTokenizer.from_pretrained(tinyfacts.MODEL)
    opened.chat_template = (
        "{% for m in messages %}user says: {{ m['content'] }}{% endfor %} you say:"
    )
    opened.save_pretrained(tmp_path)
    plain = token_counter(str(tinyfacts.MODEL), "plain")("The text is in")
    without = token_counter(str(tinyfacts.MODEL), "chat")("The text is in")
    with_template = token_counter(str(tmp_path), "chat")("The text is in")
    assert plain < without < with_template
    assert token_counter(str(tmp_path), "plain")("The text is in") == plain


def test_the_cost_of_an_edit_is_estimated_beforehand(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (
        "edit",
        "--model",
        served.named(),
        *GREEN,
        "--ask",
        "Somewhere is",
        "--ask",
        "Elsewhere is",
    )
    assert run(*options, "--dry-run", "--price-in", "1") == 0
    shown = capsys.readouterr().out
    assert served.requests == 0 and bound(shown, "calls") == 4 and "money" in shown
    assert run(*options) == 0
    assert served.requests == 4


def test_a_reached_limit_exits_with_code_3_and_paid_answers_are_reused(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (
        "--model",
        served.named(),
        "--encoder",
        "hashing",
        "--test",
        "3",
        "--editors",
        "factprompt",
    )
    assert (
        run(
            "evaluate",
            *options,
            "--max-calls",
            "60",
            "--concurrency",
            "1",
            "--out",
            str(tmp_path / "a"),
        )
        == 3
    )
    said = " ".join(capsys.readouterr().err.split())
    assert "60 requests that --max-calls leaves are used up" in said and "Traceback" not in said
    assert served.requests == 60
    done = {
        outcome.case_id
        for outcome in read_outcomes(tmp_path / "a" / "outcomes" / "factprompt.jsonl")
    }
    assert 1 <= len(done) < 3
    assert run("evaluate", *options, "--out", str(tmp_path / "b")) == 0
    asked = [json.dumps(body) for body in served.bodies]
    assert len(asked) == len(set(asked))
    before = served.requests
    assert run("evaluate", *options, "--out", str(tmp_path / "c")) == 0
    assert served.requests == before
    b, c = (read_outcomes(tmp_path / name / "outcomes" / "factprompt.jsonl") for name in "bc")
    assert [(o.query, o.answer) for o in b] == [(o.query, o.answer) for o in c]


def test_training_stopped_by_a_limit_keeps_its_episodes_and_policy(
    served: Served, tmp_path: Path
) -> None:
    options = ("--model", served.named(), *SMALL, "--epochs", "2", "--max-calls", "20")
    assert run("train", *options, "--out", str(tmp_path / "a")) == 3
    episodes = (tmp_path / "a" / "episodes.jsonl").read_text("utf-8").splitlines()
    assert 1 <= len(episodes) < 8 and (tmp_path / "a" / "checkpoint.safetensors").is_file()


def test_no_cache_pays_again_and_stores_nothing(served: Served, tmp_path: Path) -> None:
    options = ("edit", "--model", served.named(), *GREEN, "--no-cache")
    assert run(*options) == run(*options) == 0
    assert served.requests == 4 and not list((tmp_path / "cache").rglob("answers*"))


def test_a_failing_server_ends_a_command_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = {
        "train": ("train", *SMALL),
        "evaluate": ("evaluate", "--encoder", "hashing", "--test", "2"),
        "edit": ("edit", *GREEN),
    }
    with serve(status(401)) as server:
        for name, command in commands.items():
            out = () if name == "edit" else ("--out", str(tmp_path / name))
            assert run(*command, "--model", server.named(), *out) == 1
            said = " ".join(capsys.readouterr().err.split())
            assert "refuses the key" in said and "Traceback" not in said
            assert not list((tmp_path / name).rglob("outcomes/*.jsonl"))


@pytest.mark.parametrize(
    ("scores", "shown"), [(True, "completions with echo"), (False, "ESM and GSM are n/a")]
)
def test_doctor_reports_what_the_probe_found(
    scores: bool, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIKE_API_KEY", "sk-canary")
    monkeypatch.setenv("COLUMNS", "200")
    with serve(serving(READER, scores=scores)) as server:
        run("doctor", "--model", server.named(), "--template", "plain")
    said = " ".join(capsys.readouterr().out.split())
    assert shown in said and "DRIKE_API_KEY is set" in said and "sk-canary" not in said


@pytest.mark.parametrize(("price", "limit"), [(1.0, float("nan")), (float("nan"), 1.0)])
def test_nan_limits_and_prices_are_refused(price: float, limit: float) -> None:
    with pytest.raises(ModelError, match="not nan"):
        Meter(ApiOptions(price_in=price, price_out=1.0, max_cost=limit))


def test_limits_carry_over_to_a_resumed_run(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "e"
    options = (
        "--model",
        served.named(),
        "--encoder",
        "hashing",
        "--test",
        "3",
        "--editors",
        "factprompt",
    )
    assert run("evaluate", *options, "--max-calls", "15", "--out", str(folder)) == 3
    assert run("evaluate", "--resume", str(folder)) == 3
    assert served.requests == 15, "the first limit was exceeded"
    assert run("evaluate", "--resume", str(folder), "--max-calls", "20") == 3
    assert served.requests == 20
    capsys.readouterr()
    (folder / "usage.json").write_text('{"evaluation": {"calls": 1}}', "utf-8")
    assert run("evaluate", "--resume", str(folder), "--max-calls", "1000") == 1
    assert "usage.json is damaged" in " ".join(capsys.readouterr().err.split())
    (folder / "usage.json").unlink()
    assert run("evaluate", "--resume", str(folder), "--max-calls", "1000") == 0
    assert (folder / "table.md").exists()


def test_timings_that_include_cached_answers_are_noted(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (
        "--model",
        served.named(),
        "--encoder",
        "hashing",
        "--test",
        "2",
        "--editors",
        "factprompt",
    )
    for name, noted in (("a", False), ("b", True)):
        assert run("evaluate", *options, "--out", str(tmp_path / name)) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert ("some answers of FactPrompt came from the cache" in shown) == noted


def test_a_service_that_needs_a_key_is_not_called_without_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    asked = (
        "evaluate",
        "--encoder",
        "hashing",
        "--editors",
        "factprompt",
        "--test",
        "1",
        "--out",
        str(tmp_path / "e"),
    )
    assert run(*asked, "--model", "openai:gpt-4o-mini") == 1
    assert "set $OPENAI_API_KEY" in " ".join(capsys.readouterr().err.split())
