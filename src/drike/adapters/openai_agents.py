"""OpenAI's Agents SDK: `RunConfig(call_model_input_filter=stating(edits))`.

Give it to `Runner.run(agent, question, run_config=...)`.

Here `edits = drike.Corrections("edits.db")`. Results and sessions keep their items as they were
written.
"""

import asyncio
from typing import Any

from agents.run import CallModelData, CallModelInputFilter, ModelInputData

from drike.live.corrections import Corrections


def stating(corrections: Corrections, model: str | None = None) -> CallModelInputFilter:
    """State edits in the model calls of a run that concern them, in a thread.

    model: the run's, if not its agents'.
    """

    async def state(call: CallModelData[Any]) -> ModelInputData:
        given, of_agent = call.model_data, getattr(call.agent.model, "model", call.agent.model)
        request: dict[str, Any] = {
            "model": model or of_agent,
            "input": given.input,
            "instructions": given.instructions,
        }
        corrected = (await asyncio.to_thread(corrections.apply, request, api="responses")).request
        for item, new in zip(given.input, corrected["input"], strict=True):
            if (
                new is not item
            ):  # in place: the SDK made the items for this call, and knows by them what it has sent
                item.update(new)
        return ModelInputData(input=given.input, instructions=corrected["instructions"])

    return state
