"""How fast a local chat model answers behind drike, beside transformers' own generation with the same weights.

    python benchmarks/local_serving.py [--model smollm2] [--repeats 6]

Each answer is a stream along the path of `drike serve`, without an edit. The system text is another one in each
repetition; with the question, a prompt has some 130 tokens. The *first question* is the first with its system text; the
*second* shares the system text, which drike has kept, or has dropped (*forgotten*). `transformers`: the model's
`generate` with a streamer. `llama.cpp` is asked, too, with the same GGUF file (`--gguf`), if llama_cpp is installed.
They take turns in one process, after one answer each that is not counted.

*First text*: until the first text of the answer is there; drike sends whole words, the others tokens. *Tokens a
second*: of the answer, with the reading of the prompt. Both are medians, with the least and the most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers

from drike.gateway.calls import UpstreamCall
from drike.gateway.local import LocalUpstream
from drike.gateway.requests import CHAT
from drike.models.local import huggingface, sources
from lib import pages

TITLE = "Serving a local model"
TOKENS = 48  # of an answer
FIRST, SECOND = "first question", "second question"
RULES = (
    "Answer in a friendly tone and in plain words. ",
    "Say so where you do not know something. ",
    "Never mention a competitor, and never promise a date of delivery. ",
    "Refer questions about invoices to the accounts department. ",
    "Keep answers short unless you are asked for details. ",
    "Do not answer in another language than the one of the question. ",
    "If somebody is angry, apologise once and offer to call back. ",
    "Prices are in euros and include the tax. ",
)
QUESTIONS = {
    FIRST: "Please write a few sentences about how rain is made.",
    SECOND: "Please write a few sentences about how bread is made.",
}

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Timing:
    """An answer. first: seconds until its first text; seconds: until its end; tokens: of it."""

    first: float
    seconds: float
    tokens: int


Ask = Callable[[Messages], Timing]


def main() -> None:
    """Print the table."""
    parser = pages.parser(__doc__)
    parser.add_argument("--model", default="smollm2", help="a local chat model")
    parser.add_argument("--repeats", type=int, default=6, help="system texts")
    parser.add_argument("--gguf", type=Path, help="the model's file, for llama.cpp")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Let all answer the same questions, in turn."""
    model = huggingface.load(options.model, device="cpu")
    ways: dict[tuple[str, str], Ask] = {}
    drike = through_drike(model)
    plain = through_transformers(sources.source_of(options.model))
    for question in QUESTIONS:
        ways["drike", question] = drike
        ways["transformers", question] = plain
    ways["drike, forgotten", SECOND] = forgetting(drike, model)
    if options.gguf and find_spec("llama_cpp"):
        native = through_llama_cpp(options.gguf)
        for question in QUESTIONS:
            ways["llama.cpp", question] = native

    timings: dict[tuple[str, str], list[Timing]] = {way: [] for way in ways}
    for repeat in range(options.repeats + 1):
        for (name, question), ask in ways.items():
            timing = ask(messages(repeat, question))
            if repeat:
                timings[name, question].append(timing)
        print(f"{repeat} of {options.repeats}", file=sys.stderr, flush=True)

    length = model.count_tokens([messages(1, FIRST)[0]["content"] + QUESTIONS[FIRST]])[0]
    header = ("answers", "question", "first text, ms", "tokens a second", "tokens")
    rows = [row(*way, timed) for way, timed in sorted(timings.items(), key=lambda item: item[0][1])]
    note = f"{torch.get_num_threads()} threads; the texts of a prompt have {length} tokens."
    pages.draw(f"{options.model}, {options.repeats} system texts", header, rows, note)


def messages(repeat: int, question: str) -> Messages:
    """A chat whose system text is another one in each repetition, from its first words on."""
    firm = f"{1000 + 37 * repeat} Harbour Street Hardware"
    turned = RULES[repeat % len(RULES) :] + RULES[: repeat % len(RULES)]
    system = f"{firm} is where you work as an assistant. {''.join(turned)}"
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": QUESTIONS[question]},
    ]


def through_drike(model: huggingface.HuggingFaceModel) -> Ask:
    """The path of `drike serve`, streamed."""
    upstream = LocalUpstream(model, model.reply, replies=model.replies)

    async def answered(chat: Messages) -> Timing:
        wanted = {
            "messages": chat,
            "max_tokens": TOKENS,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        call = UpstreamCall("POST", CHAT, [], json.dumps(wanted).encode())
        began = time.perf_counter()
        first, tokens = 0.0, 0
        async with upstream.exchange(call) as reply:
            async for chunk in reply.chunks:
                first = first or time.perf_counter() - began
                event = chunk.decode().removeprefix("data: ").strip()
                if event != "[DONE]":
                    usage = json.loads(event).get("usage")
                    tokens = usage["completion_tokens"] if usage else tokens
        return Timing(first, time.perf_counter() - began, tokens)

    return lambda chat: asyncio.run(answered(chat))


def forgetting(ask: Ask, model: huggingface.HuggingFaceModel) -> Ask:
    """The same after all kept beginnings are dropped."""

    def answered(chat: Messages) -> Timing:
        model.forget()
        return ask(chat)

    return answered


class _Clock:
    """A streamer that notes when it is given the prompt and each token."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, tokens: object) -> None:
        """A token was written; the first call brings the prompt."""
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """All are written."""


def through_transformers(source: str) -> Ask:
    """The model's own `generate`."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    opened: Any = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)

    def answered(chat: Messages) -> Timing:
        began = time.perf_counter()
        encoded = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        clock = _Clock()
        with torch.inference_mode():
            opened.generate(**encoded, max_new_tokens=TOKENS, do_sample=False, streamer=clock)
        _, first, *others = clock.times
        return Timing(first - began, time.perf_counter() - began, 1 + len(others))

    return answered


def through_llama_cpp(file: Path) -> Ask:
    """llama.cpp on the model's own file, with as many threads."""
    import llama_cpp

    opened: Any = llama_cpp.Llama(
        str(file), n_ctx=2048, n_threads=torch.get_num_threads(), verbose=False
    )

    def answered(chat: Messages) -> Timing:
        began = time.perf_counter()
        first, tokens = 0.0, 0
        for chunk in opened.create_chat_completion(
            chat, max_tokens=TOKENS, temperature=0.0, stream=True
        ):
            if chunk["choices"][0]["delta"].get("content"):
                first = first or time.perf_counter() - began
                tokens += 1
        return Timing(first, time.perf_counter() - began, tokens)

    return answered


def row(name: str, question: str, timings: Sequence[Timing]) -> Sequence[str]:
    """A row of the table."""
    firsts = [1000 * timing.first for timing in timings]
    rates = [timing.tokens / timing.seconds for timing in timings]
    tokens = statistics.mean(timing.tokens for timing in timings)
    return name, question, spread(firsts, 0), spread(rates, 1), f"{tokens:.0f}"


def spread(values: Sequence[float], digits: int) -> str:
    """The median, with the least and the most."""
    middle, least, most = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} [{least:.{digits}f}, {most:.{digits}f}]"


if __name__ == "__main__":
    main()
