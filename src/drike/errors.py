"""The errors that drike raises for things a user can put right: each message is one sentence that ends in the remedy.

Programming mistakes raise ValueError or TypeError as everywhere in Python.
"""

from __future__ import annotations


class DrikeError(Exception):
    """Root of the family; catch it to catch them all."""


class UsageError(DrikeError):
    """Options or arguments that do not go together."""


class DataError(DrikeError):
    """A data file or a split cannot be used; the message names the file, the row and the field."""


class PoolError(DrikeError):
    """There are too few records to draw demonstrations from."""


class EncoderError(DrikeError):
    """A text encoder cannot be loaded or used."""


class ModelError(DrikeError):
    """A language model cannot be loaded, or could not answer."""


class ServerError(ModelError):
    """A server is unreachable, failed, or gave no usable answer in time; a later attempt may succeed."""


class RefusedError(ModelError):
    """A server declines a request because of its key, quota, model or prompt. `status`: the HTTP status, if any."""

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class SpendingLimitError(ModelError):
    """The user's limit on calls or money is reached; nothing more is sent."""


class GuaranteeError(DrikeError):
    """A promise that the answers at hand do not certify."""


class CheckpointError(DrikeError):
    """A saved policy cannot be read."""


class RunError(DrikeError):
    """A run's folder cannot be used."""


class ReplayError(RunError):
    """Recorded episodes do not belong to this training."""


class ReportError(DrikeError):
    """Runs cannot be reported together."""


def reason(error: BaseException) -> str:
    """The first sentence of an error from another library, on one line; the error's type if it has no text."""
    return " ".join(str(error).split()).partition(". ")[0].rstrip(".")[:200] or type(error).__name__
