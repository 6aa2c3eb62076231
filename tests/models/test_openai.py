"""Models behind an API: the served model's results over real sockets, in the cheapest order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given as draw
from hypothesis import settings
from hypothesis import strategies as st

from drike import tinyfacts
from drike.encoders import HashingEncoder
from drike.errors import ModelError, ServerError
from drike.gates.by_name import Named
from drike.models.protocols import CustomModel, LanguageModel, Request
from drike.models.reader import BayesianReader
from drike.models.served import KEY
from drike.models.served.client import SHARED, families
from drike.models.served.openai import ServedModel
from drike.prompts import CHAT_INSTRUCTION, Prompt, PromptStyle
from drike.research.datasets import load
from drike.research.datasets.dataset import Split
from drike.research.deployment.edited_model import EditedModel
from drike.research.editors.budgets import Fraction, Threshold
from drike.research.editors.editcot import EditCoT
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import Judge, Question
from drike.research.evaluation.metrics import Outcome
from drike.research.training.algorithm1 import Episode, rewrite_reward, train
from drike.tinyfacts import TEMPLATES
from tests.fakes.models import ScriptedModel
from tests.fakes.servers import (
    ANSWER,
    FAILURES_WITH_200,
    ONLY_THOUGHTS,
    SUCCESSES_WITH_200,
    Handler,
    Respond,
    Served,
    always,
    chat_answer,
    connect,
    echoed,
    serve,
    serving,
    usage,
)
from tests.fakes.waiting import HANG

READER = BayesianReader(tinyfacts.facts(), TEMPLATES)


@cache
def parts() -> Split:
    return load("tinyfacts").split(train=4, test=3, seed=1)


@cache
def pool() -> Pool:
    return Pool(parts().demonstrations, HashingEncoder())


def without_scores(model: LanguageModel) -> CustomModel:
    """Hide the scores of a model, as a chat service does."""
    return CustomModel(model.info.name, model.generate)


@contextmanager
def connected(served: Served, **options) -> Iterator[ServedModel]:  # type: ignore[no-untyped-def]
    model = connect(served.named(), **{"deadline": 10.0, "attempts": 2, **options})
    try:
        yield model
    finally:
        model.close()


def episodes_with(model: LanguageModel) -> list[Episode]:
    retriever = Retriever(HashingEncoder(), seed=0)
    editor = InContextEditor("DR-IKE", pool(), RankAndCut(retriever, Threshold()))
    episodes = train(editor, rewrite_reward(model), parts().train, epochs=2, learning_rate=1e-3)
    return [replace(episode, seconds=0.0, prompt_tokens=None) for episode in episodes]


def outcomes_with(model: LanguageModel) -> list[Outcome]:
    editors = [
        InContextEditor("IKE", pool(), RankAndCut(Similarity(), Fraction(1.0)), PromptStyle("ike")),
        FactPrompt(),
        EditCoT(),
    ]
    outcomes = [outcome for editor in editors for outcome in evaluate(editor, model, parts().test)]
    return [replace(outcome, seconds=0.0, prompt_tokens=None) for outcome in outcomes]


@pytest.mark.parametrize("template", ["chat", "plain"])
def test_training_and_evaluation_through_an_api_equal_the_served_model(template: str) -> None:
    with serve(serving(READER)) as served, connected(served, template=template) as model:
        assert model.score is None
        assert episodes_with(model) == episodes_with(without_scores(READER))
        assert outcomes_with(model) == outcomes_with(without_scores(READER))
        assert {body.keys() >= {"messages"} for body in served.bodies} == (
            {True} if template == "chat" else {False}
        )


def test_scores_through_an_api_equal_the_served_models() -> None:
    with (
        serve(serving(READER, scores=True)) as served,
        connected(served, template="plain") as model,
    ):
        assert model.score is not None
        assert episodes_with(model) == episodes_with(READER)
        for got, wanted in zip(outcomes_with(model), outcomes_with(READER), strict=True):
            close = {
                name: pytest.approx(getattr(wanted, name))
                for name in ("prob_margin", "logprob_margin", "logit_gap")
            }
            assert got == replace(wanted, **close)


def test_the_edit_command_works_through_an_api() -> None:
    case = parts().test[0]
    editor = InContextEditor("IKE", pool(), RankAndCut(Similarity(), Fraction(1.0)))
    queries = [probe.query for probe in case.probes]
    with serve(serving(READER)) as served, connected(served) as model:
        edited = EditedModel(model, editor, case.edit, gate=Named())
        direct = EditedModel(without_scores(READER), editor, case.edit, gate=Named())
        assert [edited.ask(query) for query in queries] == [direct.ask(query) for query in queries]


@settings(max_examples=10, deadline=None)
@draw(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=12))
def test_answers_keep_the_order_of_any_prompts(prompts: list[str]) -> None:
    def late(handler: Handler, body: dict) -> None:
        text = body["messages"][0]["content"].removeprefix(f"{CHAT_INSTRUCTION}\n\n")
        time.sleep(hash(text) % 5 / 1000)
        handler.reply_json(chat_answer(f"<{text}>"))

    with serve(late) as served, connected(served, concurrency=4) as model:
        assert [c.text for c in model.generate(prompts, stop=None)] == [
            f"<{prompt}>" for prompt in prompts
        ]


def test_answers_through_an_api_stop_at_the_end_of_the_line() -> None:
    with (
        serve(
            serving(ScriptedModel(lambda prompt: "\n Oslo\nPrompt: more", scores=False))
        ) as served,
        connected(served) as model,
    ):
        assert model.generate(["x"])[0].text.strip() == "Oslo"
        assert "more" in model.generate(["x"], stop=None)[0].text


def test_lone_surrogates_are_neither_sent_nor_cached() -> None:
    with (
        serve(lambda handler, body: handler.reply_json(chat_answer("x\ud800y"))) as served,
        connected(served) as model,
    ):
        assert model.generate(["a\ud800b"])[0].text == "x?y"
        assert served.bodies[0]["messages"][0]["content"].endswith("a?b")


# Order and number of requests


def nested(beginning: str, sizes: list[int]) -> list[str]:
    return [beginning * (SHARED // len(beginning) + 1) + " more" * size + " ?" for size in sizes]


def test_the_longest_prompt_of_a_shared_prefix_group_is_sent_first_and_alone() -> None:
    log: list[tuple[str, str]] = []
    lock = threading.Lock()
    others_are_here = threading.Barrier(3, timeout=HANG)

    def slow(handler: Handler, body: dict) -> None:
        text = body["prompt"]
        with lock:
            log.append(("began", text))
        if text != longest:
            others_are_here.wait()
        with lock:
            log.append(("ended", text))
        handler.reply_json(
            {"choices": [{"text": " x", "finish_reason": "stop"}], "usage": usage(text, "x")}
        )

    prompts = nested("a", [1, 4, 2, 3])
    longest = max(prompts, key=len)
    with serve(slow) as served, connected(served, template="plain", text_only=True) as model:
        model.generate(prompts)
        assert log[:2] == [("began", longest), ("ended", longest)]
        assert {what for what, _ in log[2:5]} == {"began"}, "the other prompts are sent together"


@draw(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=12))
def test_prefix_groups_partition_the_prompts_longest_first(kinds: list[tuple[str, int]]) -> None:
    texts = [nested(letter, [size])[0] if size else letter for letter, size in kinds]
    found = families(texts)
    assert sorted(i for family in found for i in family) == list(range(len(texts)))
    for family in found:
        assert len({texts[i][:SHARED] for i in family}) == 1
        assert len(texts[family[0]]) == max(len(texts[i]) for i in family)
    shared = [texts[family[0]][:SHARED] for family in found if len(texts[family[0]]) >= SHARED]
    assert len(shared) == len(set(shared))


def test_concurrent_requests_never_exceed_the_limit() -> None:
    now = [0]
    most = [0]
    lock = threading.Lock()
    three_at_once = threading.Barrier(3, timeout=HANG)

    def counting(handler: Handler, body: dict) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        three_at_once.wait()
        with lock:
            now[0] -= 1
        handler.reply_json(chat_answer("x"))

    with serve(counting) as served, connected(served, concurrency=3) as model:
        model.generate([str(i) for i in range(12)])
    assert most == [3]


def test_refused_parameters_are_replaced_and_not_sent_again() -> None:
    def picky(handler: Handler, body: dict) -> None:
        for name in ("max_tokens", "temperature"):
            if name in body:
                error = {
                    "message": f"{name} is not supported",
                    "param": name,
                    "code": "unsupported_parameter",
                }
                return handler.reply_json({"error": error}, 400)
        assert body["max_completion_tokens"] == 16
        return handler.reply_json(chat_answer("x"))

    with serve(picky) as served, connected(served) as model:
        assert [c.text for c in model.generate(["a"])] == ["x"]
        before = served.requests
        model.generate(["b", "c"])
        assert served.requests == before + 2


def test_reasoning_models_get_more_tokens_and_an_effort_setting() -> None:
    with (
        serve(serving(ScriptedModel(lambda prompt: "x", scores=False))) as served,
        connected(served, thinking_tokens=100, reasoning_effort="low") as model,
    ):
        model.generate(["a"])
        assert (served.bodies[0]["max_tokens"], served.bodies[0]["reasoning_effort"]) == (
            116,
            "low",
        )


def test_a_filtered_answer_counts_as_an_empty_answer() -> None:
    silence = chat_answer(None, finish_reason="content_filter")
    with (
        serve(lambda handler, body: handler.reply_json(silence)) as served,
        connected(served) as model,
    ):
        assert model.generate(["a"])[0].text == ""


@pytest.mark.parametrize("kind", FAILURES_WITH_200)
def test_a_failure_with_status_200_is_shown_in_the_servers_words(kind: str) -> None:
    what = FAILURES_WITH_200[kind]
    said = (
        "the server broke" if "the server broke" in str(what) else "finish_reason is|no text|text:"
    )
    with (
        serve(lambda handler, body: handler.reply_json(what)) as served,
        connected(served) as model,
        pytest.raises(ServerError, match=said),
    ):
        model.generate(["a"])


@pytest.mark.parametrize("gives_back", [True, False])
def test_a_prompt_that_a_server_gives_back_is_no_part_of_the_answer(gives_back: bool) -> None:
    def respond(handler: Handler, body: dict) -> None:
        text = (body["prompt"] if gives_back else "") + " Oslo"
        handler.reply_json({"choices": [{"text": text, "finish_reason": "stop"}]})

    prompt = "The capital of Chad is Rome\nThe capital of Peru is"
    with (
        serve(respond) as served,
        connected(served, template="plain", text_only=True) as model,
    ):
        assert model.generate([prompt])[0].text == " Oslo"


@pytest.mark.parametrize("kind", SUCCESSES_WITH_200)
def test_no_answer_is_taken_for_a_failure(kind: str) -> None:
    with serve(always(SUCCESSES_WITH_200[kind])) as served, connected(served) as model:
        assert model.generate(["a"])[0].text == ANSWER


@pytest.mark.parametrize("finish", ["SAFETY", "content_filter", "sensitive", "refusal"])
def test_what_a_filter_keeps_back_is_an_empty_answer(finish: str) -> None:
    silence = chat_answer("", finish_reason=finish)
    with serve(always(silence)) as served, connected(served) as model:
        assert model.generate(["a"])[0].text == ""


@pytest.mark.parametrize("kind", ONLY_THOUGHTS)
def test_thoughts_without_an_answer_are_refused_with_the_option_that_gives_more_room(
    kind: str,
) -> None:
    with (
        serve(lambda handler, body: handler.reply_json(ONLY_THOUGHTS[kind])) as served,
        connected(served) as model,
        pytest.raises(ServerError, match=r"max tokens with `thinking_tokens`"),
    ):
        model.generate(["a"])


PARTS = [{"type": "thinking", "thinking": "Rome?"}, {"type": "text", "text": "Par"}, {"text": "is"}]


@pytest.mark.parametrize(
    "content",
    [
        "Paris",
        PARTS,
        "<think>Rome?\n\nNo.</think>\n\nParis",
        "<think>\n\n</think>\n\nParis\nRome",
        "<thinking a='b'>Rome</thinking>Paris",
        "<reasoning>Rome</reasoning> <answer>Paris</answer>",
        "Rome?\nNo.</thought>\nParis",
        "[THINK]Rome[/THINK]Paris",
        "<|channel|>analysis<|message|>Rome<|end|><|start|>assistant<|channel|>final<|message|>Paris",
    ],
)
def test_a_right_answer_is_right_behind_any_thoughts_and_in_parts(content: object) -> None:
    answer = chat_answer("", message={"role": "assistant", "content": content})
    with (
        serve(lambda handler, body: handler.reply_json(answer)) as served,
        connected(served, thinking_tokens=100) as model,
    ):
        [verdict] = Judge(model).ask([Question(Prompt("The capital of France is"), "Paris")])
    assert verdict.correct and verdict.exact and verdict.text.strip() == "Paris"


# Keys


def test_another_services_key_is_never_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-of-the-admin")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-openai")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv(KEY, raising=False)
    with serve(serving(ScriptedModel(lambda prompt: "x", scores=False))) as served:
        with connected(served) as model:
            model.generate(["a"])
        monkeypatch.setenv(KEY, "sk-mine")
        with connected(served) as model:
            model.generate(["a"])
    assert "Authorization" not in served.headers[0]
    assert served.headers[1]["Authorization"] == "Bearer sk-mine"
    assert "of-openai" not in str(served.headers) and "of-the-admin" not in str(served.headers)


def test_a_key_with_a_line_break_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-1\r\nX-Other: 2")
    with pytest.raises(ModelError, match="no key has") as refused:
        connect("vllm:m")
    assert "sk-1" not in str(refused.value)


# Servers that return log-probabilities of given texts, and servers that only seem to


SCRIPT = ScriptedModel(lambda prompt: "Oslo now" if prompt.startswith("Edit") else "Lima")


def only_written(body: dict) -> dict:
    """As llama.cpp does: return log-probabilities, but of generated tokens only."""
    logprobs = {
        "tokens": [" blue"],
        "token_logprobs": [-0.1],
        "top_logprobs": [{" blue": -0.1, " red": -3.0}],
    }
    return {
        "choices": [{"text": " blue", "logprobs": logprobs}],
        "usage": usage(body["prompt"], "blue"),
    }


def constant(body: dict) -> dict:
    reply = echoed(SCRIPT, body["prompt"])
    rated = reply["choices"][0]["logprobs"]  # type: ignore[index]
    rated["token_logprobs"] = [None, *[0.0] * (len(rated["tokens"]) - 1)]
    return reply


def without_rivals(body: dict) -> dict:
    reply = echoed(SCRIPT, body["prompt"])
    rated = reply["choices"][0]["logprobs"]  # type: ignore[index]
    rated["top_logprobs"] = [None] * len(rated["tokens"])
    return reply


def prompt_again(body: dict) -> dict:
    """Return log-probabilities of the prompt without the continuation."""
    return echoed(SCRIPT, body["prompt"].rpartition(" ")[0])


def nothing(body: dict) -> dict:
    return {"choices": [{"text": body["prompt"] + " x", "logprobs": None}]}


def answering(reply) -> Respond:  # type: ignore[no-untyped-def]
    def respond(handler: Handler, body: dict) -> None:
        if handler.path.endswith("/generate"):
            return handler.reply_json({"detail": "Not Found"}, 404)
        return handler.reply_json(reply(body))

    return respond


@pytest.mark.parametrize(
    "pretends", [only_written, constant, without_rivals, prompt_again, nothing]
)
@pytest.mark.parametrize("service", ["llamacpp", "sglang"])
def test_a_server_whose_logprobs_are_unusable_has_no_scores(pretends, service: str) -> None:  # type: ignore[no-untyped-def]
    with serve(answering(pretends)) as served:
        model = connect(served.named(service), template="plain", deadline=5.0)
        assert model.score is None
        assert "completions with echo" in model.info.scoring
        model.close()


def test_a_server_that_refuses_logprobs_is_used_for_generation() -> None:
    def refuse(handler: Handler, body: dict) -> None:
        if body.get("echo") or "prompt_logprobs" in body:
            return handler.reply_json({"error": {"message": "echo is not allowed"}}, 400)
        return handler.reply_json({"choices": [{"text": " x"}]})

    with serve(refuse) as served, connected(served, template="plain") as model:
        assert model.score is None and model.generate(["a"])[0].text == " x"


def test_a_failed_probe_does_not_mean_that_scores_are_unsupported() -> None:
    def failing(handler: Handler, body: dict) -> None:
        rated = body.get("echo") or "prompt_logprobs" in body
        handler.reply_json({"choices": [{"text": " x"}]}, 503 if rated else 200)

    with (
        serve(failing) as served,
        pytest.raises(ServerError),
        connected(served, template="plain", attempts=1),
    ):
        pass


def by_prompt_logprobs(handler: Handler, body: dict) -> None:
    """The form of vLLM: one object per token, keyed by token id, the prompt's token first."""
    reply = echoed(SCRIPT, body["prompt"])
    rated = reply["choices"][0]["logprobs"]  # type: ignore[index]
    places: list[object] = [None]
    for token, logprob, best in list(
        zip(*(rated[name] for name in ("tokens", "token_logprobs", "top_logprobs")), strict=True)
    )[1:-1]:
        others = [value for text, value in best.items() if text != token]
        entry = {"0": {"logprob": logprob, "rank": 1, "decoded_token": token}}
        places.append(
            entry
            | {
                str(i + 1): {"logprob": v, "rank": 2, "decoded_token": "?"}
                for i, v in enumerate(others)
            }
        )
    choice = {
        "text": rated["tokens"][-1],
        "prompt_logprobs": places if "prompt_logprobs" in body else None,
    }
    handler.reply_json({"choices": [choice], "usage": usage(body["prompt"], "x")})


def by_generate(handler: Handler, body: dict) -> None:
    """The native form of SGLang, outside /v1."""
    if handler.path != "/generate":
        return handler.reply_json({"choices": [{"text": " x", "logprobs": None}]})
    assert body["logprob_start_len"] == 0
    reply = echoed(SCRIPT, body["text"])
    rated = reply["choices"][0]["logprobs"]  # type: ignore[index]
    tokens = rated["tokens"][:-1]
    best = rated["top_logprobs"][:-1]
    input_tokens = [
        [logprob, i, token]
        for i, (token, logprob) in enumerate(zip(tokens, rated["token_logprobs"], strict=False))
    ]
    top = [
        None if row is None else [[v, i if text == token else -1, text] for text, v in row.items()]
        for i, (row, token) in enumerate(zip(best, tokens, strict=True))
    ]
    meta = {
        "input_token_logprobs": input_tokens,
        "input_top_logprobs": top,
        "prompt_tokens": 7,
        "completion_tokens": 1,
    }
    return handler.reply_json({"text": rated["tokens"][-1], "meta_info": meta})


REQUESTS = [
    Request("Edit this", " Oslo"),
    Request("Edit this", " Rome"),
    Request("Some other", " Lima"),
]


@pytest.mark.parametrize(
    ("respond", "service", "way"),
    [
        (serving(SCRIPT, scores=True), "vllm", "completions with echo"),
        (by_prompt_logprobs, "vllm", "prompt_logprobs"),
        (by_generate, "sglang", "SGLang's /generate"),
    ],
)
def test_every_server_format_of_logprobs_gives_the_same_scores(
    respond: Respond, service: str, way: str
) -> None:
    with serve(respond) as served:
        model = connect(served.named(service), template="plain", deadline=5.0)
        assert model.info.scoring == way and model.score is not None
        for got, wanted in zip(model.score(REQUESTS), SCRIPT.score(REQUESTS), strict=True):
            assert (got.greedy, got.following) == (wanted.greedy, wanted.following or "")
            assert got.logprobs == pytest.approx(
                wanted.logprobs
            ) and got.logit_gap == pytest.approx(wanted.logit_gap)
        with pytest.raises(ModelError, match="empty"):
            model.score([Request("a", " ")])
        model.close()


def test_an_api_model_works_without_a_key_and_inside_an_event_loop() -> None:
    import asyncio

    async def in_a_notebook() -> str:
        with (
            serve(serving(ScriptedModel(lambda prompt: "x", scores=False))) as served,
            connected(served) as model,
        ):
            return model.generate(["a"])[0].text

    assert asyncio.run(in_a_notebook()).strip() == "x"
