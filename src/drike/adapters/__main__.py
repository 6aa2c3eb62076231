"""`python -m drike.adapters langchain edits.db`: whether edits reach a model through a framework, where its users are.

It asks the query of the first edit in force, of a fake model, and exits with 0 if that was given the fact.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime

from drike.conversations.corrections import Corrections
from drike.conversations.rendering import clean
from drike.errors import DrikeError
from drike.stores.log import snapshot
from drike.stores.opening import open_store
from drike.support.escape import visible


def run(arguments: Sequence[str]) -> int:
    """Try a framework, by its name and the address of a store. Returns the exit code."""
    if len(arguments) != 2 or arguments[0] not in _FRAMEWORKS:
        return _say(2, f"give a framework ({', '.join(_FRAMEWORKS)}) and a store: langchain edits.db")
    (framework, given), address = _FRAMEWORKS[arguments[0]], arguments[1]
    try:
        with closing(open_store(address, create=False)) as store:
            edits = snapshot(store).in_force(datetime.now(UTC))
        if not edits:
            return _say(1, f"{address} has no edit in force: add one (drike edits add)")
        record = edits[0].record
        texts = list(_texts(given(address, record.query)))
    except DrikeError as problem:
        return _say(1, str(problem))
    except ImportError as problem:
        return _say(1, f"{framework} cannot be tried here ({problem}): install it beside drike")
    fact = f"- {clean(record.edit.fact)}\n"
    reached = any(fact in text for text in texts)
    sentence = f"edit {edits[0].id} ({record.fact}) {'reached' if reached else 'did not reach'} the model"
    return _say(0 if reached else 1, f"{sentence} through {framework}")


def _say(code: int, sentence: str) -> int:
    sys.stdout.write(f"{visible(sentence)}\n")
    return code


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _langchain(store: str, question: str) -> object:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import ParrotFakeChatModel

    from drike.adapters.langchain import EditsMiddleware

    with closing(Corrections(store)) as corrections:
        agent = create_agent(ParrotFakeChatModel(), middleware=[EditsMiddleware(corrections)])
        return agent.invoke({"messages": [{"role": "user", "content": question}]})["messages"][-1].content


def _openai_agents(store: str, question: str) -> object:
    from agents import Agent, RunConfig, Runner
    from agents.testing import ScriptedModel, assistant_message

    from drike.adapters.openai_agents import stating

    with closing(Corrections(store)) as corrections:
        model = ScriptedModel([[assistant_message("Thank you.")]])
        settings = RunConfig(call_model_input_filter=stating(corrections), tracing_disabled=True)
        Runner.run_sync(Agent(name="drike", model=model), question, run_config=settings)
        return model.calls[0].input


def _open_webui(store: str, question: str) -> object:
    """What Open WebUI gets from the filter; it is not started itself."""
    from drike.adapters.open_webui import Filter

    inlet = Filter()
    inlet.valves = Filter.Valves(store=store)
    return asyncio.run(inlet.inlet({"messages": [{"role": "user", "content": question}]}))["messages"]


_FRAMEWORKS: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "langchain": ("LangChain", _langchain),
    "openai_agents": ("OpenAI's Agents SDK", _openai_agents),
    "open_webui": ("the filter for Open WebUI", _open_webui),
}

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
