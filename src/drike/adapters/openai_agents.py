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
        model_of_agent = getattr(call.agent.model, "model", call.agent.model)
        items = call.model_data.input
        request: dict[str, Any] = {
            "model": model or model_of_agent,
            "input": items,
            "instructions": call.model_data.instructions,
        }
        corrected = (await asyncio.to_thread(corrections.apply, request, api="responses")).request
        # Items change in place: the SDK made them for this call, and knows by them what it has
        # sent.
        for item, corrected_item in zip(items, corrected["input"], strict=True):
            if corrected_item is not item:
                item.update(corrected_item)
        return ModelInputData(input=items, instructions=corrected["instructions"])

    return state
