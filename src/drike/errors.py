"""Errors that a user can put right, each in one sentence with the remedy.

Others are ValueError or TypeError.
"""

from collections.abc import Iterable

_LONGEST_REASON = 200  # characters


class DrikeError(Exception):
    """The base class of all of drike's errors."""


class UsageError(DrikeError):
    """Options or arguments are unknown, missing or incompatible."""


class DataError(DrikeError):
    """A data file or a split cannot be used; the message names the file, the row and the field."""


class PoolError(DrikeError):
    """Too few records to draw demonstrations from."""


class EncoderError(DrikeError):
    """A text encoder cannot be loaded or used."""


class ModelError(DrikeError):
    """A language model cannot be loaded, or could not answer."""


class ServerError(ModelError):
    """A server is unreachable, failed, or gave no usable answer.

    Trying again later may help.
    """


class RefusedError(ModelError):
    """A server declines a request because of its key, quota, model or prompt.

    `status`: the HTTP status, if any.
    """

    def __init__(self, sentence: str, status: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status


class SpendingLimitError(ModelError):
    """The user's limit on calls or money is reached; nothing more is sent."""


class GuaranteeError(DrikeError):
    """The answers do not certify a guarantee."""


class CheckpointError(DrikeError):
    """A checkpoint cannot be read or used."""


class RunError(DrikeError):
    """A run's folder cannot be used."""


class ReplayError(RunError):
    """Recorded episodes do not belong to this training."""


class ReportError(DrikeError):
    """Runs cannot be reported together."""


def require_unicode(texts: Iterable[str]) -> None:
    """Raise UsageError for a text with half a character.

    No tokenizer reads such a text, and no file takes it.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            around = text[max(0, problem.start - 20) : problem.end + 20]
            raise UsageError(
                f"the text {around!a} holds half a character (a lone surrogate): "
                "remove it, or read its source as UTF-8"
            ) from None


def reason(error: BaseException) -> str:
    """The first sentence of an error from another library, on one line.

    The error's type if it has no text.
    """
    one_line = " ".join(str(error).split())
    sentence = one_line.partition(". ")[0].rstrip(".")
    return sentence[:_LONGEST_REASON] or type(error).__name__
