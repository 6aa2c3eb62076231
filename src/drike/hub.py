"""Silence the Hugging Face libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the notices and progress bars of transformers and the hub client; restore their settings afterwards."""
    import huggingface_hub.utils
    import transformers.utils

    hub: Any = huggingface_hub.utils
    own: Any = transformers.utils
    with ExitStack() as restored:
        if not hub.are_progress_bars_disabled():
            restored.callback(hub.enable_progress_bars)
        if own.logging.is_progress_bar_enabled():
            restored.callback(own.logging.enable_progress_bar)
        own.logging.disable_progress_bar()  # this also switches the hub's bars
        hub.disable_progress_bars()
        for logging in (own.logging, hub.logging):
            restored.callback(logging.set_verbosity, logging.get_verbosity())
            logging.set_verbosity_error()
        yield
