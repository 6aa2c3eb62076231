"""Doubted questions, as text, in chats and by an API: the last answer is judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer

from drike.cli.dry_run import CountingModel
from drike.edits.edit import Aspect, EditCase, Probe
from drike.models.protocols import CustomModel, LanguageModel, Request
from drike.models.served import ApiOptions
from drike.models.served.cache import AnswerCache, CachedModel
from drike.prompts import CHAT_INSTRUCTION, Prompt
from drike.research.editors.editcot import ANSWER_CUE, EditCoT
from drike.research.editors.factprompt import FactPrompt
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import GENERATE, GREEDY, RULES, Judge, Question, Rule
from tests.fakes.capitals import CAPITALS
from tests.fakes.models import ScriptedModel, cached
from tests.fakes.servers import Handler, chat_answer, connect, serve
from tests.fakes.tiny_models import llama, tokenizer, wrap

CHALLENGES = (
    "Are you sure? The capital of Peru is",
    "Really? The capital of Peru is",
    "Well? The capital of Peru is",
)
ASKED = Question(Prompt("The capital of Peru is"), "Oslo", "Lima", challenges=CHALLENGES)


def steadfast(prompt: str) -> str:
    """Always answer Oslo."""
    return "Oslo"


def gives_in(prompt: str) -> str:
    """Answer Oslo until it is doubted."""
    return "Lima" if "sure?" in prompt else "Oslo"


def gives_in_late(prompt: str) -> str:
    """Answer Oslo until it is doubted three times."""
    return "Lima" if "Well?" in prompt else "Oslo"


@pytest.mark.parametrize("by", RULES.values())
@pytest.mark.parametrize(
    ("rule", "right"),
    [
        (steadfast, [True, True, True]),
        (gives_in, [True, False, False]),
        (gives_in_late, [True, True, False]),
    ],
)
def test_the_last_answer_is_judged_by_each_rule(by: Rule, rule: Any, right: list[bool]) -> None:
    questions = [
        Question(ASKED.prompt, "Oslo", "Lima", challenges=CHALLENGES[:turns]) for turns in (0, 1, 3)
    ]
    assert [one.correct for one in Judge(ScriptedModel(rule), by).ask(questions)] == right
    if by is GENERATE:
        assert [
            one.correct for one in Judge(ScriptedModel(rule, scores=False)).ask(questions)
        ] == right


def test_a_model_of_strings_gets_its_own_answers_and_the_challenges_as_text() -> None:
    seen: list[str] = []

    def generate(prompts: Sequence[str], max_tokens: int, stop: str | None) -> list[str]:
        seen.extend(prompts)
        return [f" Oslo{prompt.count('Oslo')}, I think\nmore" for prompt in prompts]

    Judge(CustomModel("mine", generate)).ask(
        [ASKED, Question(ASKED.prompt, "Oslo", challenges=CHALLENGES[:1])]
    )
    first, second, third = CHALLENGES
    assert seen == [
        "The capital of Peru is",
        f"The capital of Peru is Oslo0, I think\n{first}",
        f"The capital of Peru is Oslo0, I think\n{first} Oslo1, I think\n{second}",
        f"The capital of Peru is Oslo0, I think\n{first} Oslo1, I think\n{second} Oslo2, I think\n{third}",
    ], "each turn is asked once, though two questions share it"


def test_behind_an_api_and_in_its_cache_each_turn_is_a_message(tmp_path: Path) -> None:
    conversations: list[list[tuple[str, str]]] = []

    def respond(handler: Handler, body: dict) -> None:
        conversations.append([(one["role"], one["content"]) for one in body["messages"]])
        handler.reply_json(chat_answer("Lima" if len(body["messages"]) > 5 else "Oslo"))

    with serve(respond) as served:
        model = connect(served.named(), deadline=10.0)
        kept = CachedModel(model, "m", AnswerCache(tmp_path / "answers.sqlite"))
        questions = [
            Question(ASKED.prompt, "Oslo", challenges=CHALLENGES[:turns]) for turns in (0, 1, 3)
        ]
        for _ in range(2):
            assert [one.correct for one in Judge(kept).ask(questions)] == [True, True, False]
        model.close()
    first = ("user", f"{CHAT_INSTRUCTION}\n\nThe capital of Peru is")
    turns = [
        first,
        *(
            turn
            for challenge in CHALLENGES
            for turn in (("assistant", "Oslo"), ("user", challenge))
        ),
    ]
    assert sorted(conversations, key=len) == [turns[:1], turns[:3], turns[:5], turns], (
        "the second time all is cached"
    )


def test_the_cache_keeps_a_conversation_apart_from_its_text(tmp_path: Path) -> None:
    class Chat(ScriptedModel):
        def generate(self, prompts, max_tokens=16, stop="\n") -> list:  # type: ignore[no-untyped-def]
            return super().generate([repr(one) for one in prompts], max_tokens, stop)

    model = cached(Chat(str.upper, scores=False), tmp_path / "answers.sqlite")
    asked = ["a b\nc", ("a", "b", "c"), ("a", "b\nc"), ("a", "b", "d")]
    assert len({one.text for one in model.generate(asked)}) == model.inner.usage.prompts == 4
    assert model.generate(asked) and model.inner.usage.prompts == 4


def test_a_local_chat_model_reads_the_turns_of_its_template_and_scores_behind_the_last() -> None:
    words = tokenizer()
    chatty = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(words.backend_tokenizer.to_str()), eos_token="<|end|>"
    )
    chatty.chat_template = (
        "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    model: Any = wrap(llama, chatty, template="chat")
    read: list[str] = []
    forward = model._scorer.read
    model._scorer.read = lambda requests: (
        read.extend(chatty.decode(one.ids) for one in requests),
        forward(requests),
    )[1]
    [verdict] = Judge(model).ask(
        [Question(Prompt("Ada comes from"), "Rome", challenges=("Are you sure? Ada comes from",))]
    )
    reply = model.generate(["Ada comes from"])[0].text.strip().split("\n")[0].strip()
    assert read == [
        f"<user>{CHAT_INSTRUCTION}\n\nAda comes from\n<assistant>{reply}\n"
        "<user>Are you sure? Ada comes from\n<assistant> Rome"
    ]
    assert verdict.score is not None and verdict.correct is not None
    plain = Request("Are you sure? Ada comes from", " Rome")
    conversation = Request(plain.prompt, plain.continuation, earlier=("Ada comes from", reply))
    assert [one.logprob for one in model.score([plain, conversation])] != 2 * [
        model.score([plain])[0].logprob
    ]
    [written] = model.generate([(*conversation.earlier, conversation.prompt)], 2, None)
    assert written.prompt_tokens == verdict.prompt_tokens


def test_a_doubted_model_that_reasons_keeps_its_reasons_in_the_conversation() -> None:
    def reasons(prompt: str) -> str:
        return (
            "Oslo" if prompt.endswith(CHALLENGES[0]) else f"It changed.\n{ANSWER_CUE} Oslo.\nmore"
        )

    model = ScriptedModel(reasons)
    prompt = EditCoT().prompts([CAPITALS[0].edit], ["The capital of Peru is"])[0]
    [verdict] = Judge(model).ask([Question(prompt, "Oslo", "Lima", challenges=CHALLENGES[:1])])
    assert verdict.correct
    assert model.prompts[-1] == f"{prompt.text} It changed.\n{ANSWER_CUE} Oslo.\n{CHALLENGES[0]}"


def doubted(case: EditCase, turns: int) -> Probe:
    challenges = tuple(f"Are you sure? {case.edit.query}" for _ in range(turns))
    return Probe(
        Aspect.PUSHBACK,
        case.edit.query,
        case.edit.target_new,
        case.edit.target_true,
        challenges=challenges,
    )


@pytest.mark.parametrize("by", [GREEDY, GENERATE])
def test_outcomes_of_challenged_questions_say_what_was_asked_and_count_each_answer(
    by: Rule,
) -> None:
    case = CAPITALS[0]
    case = EditCase(case.case_id, case.edit, case.probes, (doubted(case, 1), doubted(case, 3)))
    outcomes = list(evaluate(FactPrompt(), ScriptedModel(lambda prompt: "New0"), [case], rule=by))
    paper = list(
        evaluate(
            FactPrompt(),
            ScriptedModel(lambda prompt: "New0"),
            [EditCase("0", case.edit, case.probes)],
        )
    )
    assert [(one.aspect, one.correct) for one in outcomes[:-2]] == [
        (one.aspect, one.correct) for one in paper
    ]
    once, thrice = outcomes[-2:]
    assert (once.calls, thrice.calls, once.correct) == (2, 4, True)
    assert once.query == f"{case.edit.query}\nAre you sure? {case.edit.query}"
    assert thrice.query.count("\n") == 3


def test_a_dry_run_counts_every_turn() -> None:
    for template, most in (("chat", 4), ("plain", 6)):
        model: LanguageModel = CountingModel("vllm:m@http://127.0.0.1:1/v1", template, ApiOptions())
        Judge(model, GENERATE).ask([ASKED])
        assert model.calls == most, "the last answer and its rival are also scored"  # type: ignore[attr-defined]


def test_a_conversation_is_text_with_each_reply_behind_its_turn() -> None:
    prompt = Prompt("a", cue="Answer:").followed("b", "c").followed("d", "e")
    assert (prompt.turns, prompt.conversation, prompt.cue, prompt.calls) == (
        ("a", "b", "c", "d", "e"),
        "a b\nc d\ne",
        None,
        3,
    )
