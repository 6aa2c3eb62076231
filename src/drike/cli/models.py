"""Open the model of a command, and say what it used."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from drike.cli.console import say
from drike.cli.dry_run import CountingModel, token_counter, usage_sentence
from drike.cli.options import ModelOptions, RunOptions
from drike.encoders import MINILM
from drike.errors import UsageError
from drike.models import EMBEDDED, ApiOptions, LanguageModel, Template, load, template_for
from drike.research.datasets import TINYFACTS
from drike.research.editors.in_context import TokenLimit
from drike.research.runs.run import RunSettings
from drike.research.runs.usage import add_usage, total_usage

# The values of options that neither the command line nor a run gives.
DEFAULTS = RunSettings(
    data=(TINYFACTS,), model=EMBEDDED, template=None, encoder=MINILM, seed=0, zsre_target="alt"
)


@dataclass(frozen=True)
class OpenedModel:
    """A model, and what the options and a run's settings say about its prompts and requests."""

    name: str
    model: LanguageModel
    template: Template
    api: ApiOptions
    limit: TokenLimit | None

    @property
    def described(self) -> dict[str, object]:
        """What a run's folder records of it: the name it was loaded by, and its identity."""
        return {"asked": self.name, "name": self.model.info.name, **self.model.info.identity}


def open_model(
    options: ModelOptions,
    api: ApiOptions,
    base: RunSettings,
    *,
    at: RunOptions | None = None,
    cache: bool = True,
) -> OpenedModel:
    """Open the model of the options, or else that of `base`; for a dry run a `CountingModel`.

    A resumed run's limits are reduced by what it spent. cache: as in `models.load`. Raises
    ModelError, UsageError.
    """
    at = at or RunOptions()
    name = options.model or base.model
    template = template_for(name, options.template or base.template)
    tokenizer = api.tokenizer or (base.tokenizer if name == base.model else None)
    api = replace(api, tokenizer=tokenizer)
    model: LanguageModel
    if at.dry_run:
        model = CountingModel(name, template, api)
    else:
        remaining = api.after(total_usage(at.resume)) if at.resume else api
        model = load(
            name,
            template=template,
            device=options.device,
            replicas=at.replicas,
            api=remaining,
            cache=cache,
        )
    tokens = options.prompt_tokens or base.prompt_tokens
    limit = _token_limit(tokens, model, template, api)
    return OpenedModel(name, model, template, api, limit)


def _token_limit(
    tokens: int | None, model: LanguageModel, template: Template, api: ApiOptions
) -> TokenLimit | None:
    """The limit of tokens in a prompt. Raises UsageError where nothing counts them."""
    if not tokens:
        return None
    if model.count_tokens is not None:
        return TokenLimit(tokens, model.count_tokens)
    if api.tokenizer is None:
        remedy = "give the folder or hub name of its tokenizer as --tokenizer"
        raise UsageError(
            f"{model.info.name} does not count tokens, as --prompt-tokens needs it: {remedy}"
        )
    count = token_counter(api.tokenizer, template)
    return TokenLimit(tokens, lambda prompts: [count(prompt) for prompt in prompts])


@contextmanager
def metered(model: LanguageModel, folder: Path | None = None) -> Iterator[None]:
    """Print what a served model used, however the block ends.

    folder: of a run, to record the calls that opened the model.
    """
    opening = model.usage
    if folder is not None and opening.requests:
        add_usage(folder, "probe", opening)
    try:
        yield
    finally:
        if model.info.served:
            say(f"\nUsed: {usage_sentence(model.usage)}")


def live_usage(model: LanguageModel) -> str:
    """What a progress bar shows while a served model works; "" for a model on this machine."""
    if not model.info.served:
        return ""
    used = model.usage
    cost = "" if used.money is None else f" {used.money:.3f}"
    return f"calls {used.calls:,} cached {used.cached:,} tokens {used.tokens / 1000:,.0f}k{cost}"
