"""Silence the Hugging Face libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the notices and progress bars of transformers and the hub client; restore their settings afterwards."""
    import huggingface_hub.utils
    import transformers.utils

    hub: Any = huggingface_hub.utils
    own: Any = transformers.utils
    levels = [(logging, logging.get_verbosity()) for logging in (own.logging, hub.logging)]
    shown, hub_shown = own.logging.is_progress_bar_enabled(), not hub.are_progress_bars_disabled()
    for logging, _ in levels:
        logging.set_verbosity_error()
    own.logging.disable_progress_bar()  # this also switches the hub's bars
    hub.disable_progress_bars()
    try:
        yield
    finally:
        for logging, level in levels:
            logging.set_verbosity(level)
        if shown:
            own.logging.enable_progress_bar()
        if hub_shown:
            hub.enable_progress_bars()
