"""The Hugging Face libraries without their notices, and hub names with a revision."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any


def pinned(name: str) -> tuple[str, str | None]:
    """A hub name, and the revision after its "@"; None without one.

    The path of a folder stays as it is.
    """
    repository, _, revision = name.partition("@")
    if revision and not Path(name).exists():
        return repository, revision
    return name, None


def commit_of(name: str) -> str | None:
    """The commit of a model in the local cache of the hub; None for any other name."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    repository, revision = pinned(name)
    try:
        config = try_to_load_from_cache(repository, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(config).parent.name if isinstance(config, str) else None


def like(name: str) -> str:
    """A hint at the most similar model in the local cache, or folder beside `name`.

    "" if there is none.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    available = [
        folder.name.removeprefix("models--").replace("--", "/")
        for folder in Path(HF_HUB_CACHE).glob("models--*")
    ]
    with suppress(OSError, ValueError):  # of names that no path can have
        available += [str(path) for path in Path(name).parent.iterdir() if path.is_dir()]
    similar = get_close_matches(str(Path(name)), available, n=1, cutoff=0.8)
    return f" (did you mean {similar[0]}?)" if similar else ""


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the notices and progress bars of transformers and the hub client during the block."""
    import huggingface_hub.utils
    import transformers.utils

    hub: Any = huggingface_hub.utils
    transformers_utils: Any = transformers.utils
    with ExitStack() as restored:
        if not hub.are_progress_bars_disabled():
            restored.callback(hub.enable_progress_bars)
        if transformers_utils.logging.is_progress_bar_enabled():
            restored.callback(transformers_utils.logging.enable_progress_bar)
        transformers_utils.logging.disable_progress_bar()  # this also switches the hub's bars
        hub.disable_progress_bars()
        for logging in (transformers_utils.logging, hub.logging):
            restored.callback(logging.set_verbosity, logging.get_verbosity())
            logging.set_verbosity_error()
        yield
