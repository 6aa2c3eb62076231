"""What the header of a GGUF file says, read with its bounds checked: nothing in it can be trusted.

transformers reads these files, too, but takes half a minute until it notices what is wrong.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from drike.errors import ModelError

_VERSIONS = (2, 3)
_MOST_DIMENSIONS = 8
_STRING, _ARRAY = 8, 9
_FORMATS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_DEFAULT_ALIGNMENT = 32
# What values that cannot be raise.
_BAD_VALUES = (struct.error, ValueError, TypeError, KeyError, ArithmeticError, RecursionError)

_TOKENS = "tokenizer.ggml.tokens"
_END_KEYS = tuple(f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom"))
# Tokens that end a turn in the usual chat templates; many files say only which one ends a text.
_TURN_ENDS = frozenset(
    (
        "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "<|end_of_turn|>",
        "<turn|>",
    )
)  # fmt: skip


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says of itself.

    kind: "model", or "adapter" and the like. parts: files that the model was split into. numbers:
    of all tensors. end_tokens: those that end a text or a turn. tensors: their names.
    """

    architecture: str
    kind: str
    part: int
    parts: int
    numbers: int
    end_tokens: tuple[int, ...]
    tensors: frozenset[str]


def read_header(path: Path, name: str) -> GgufHeader:
    """Read a file's header, and check that all its tensors are there.

    name: of the file in messages. Raises ModelError if it is no whole GGUF file, OSError if it
    cannot be read.
    """
    with path.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise ModelError(f"{name} is not a GGUF file: give the file of a model, or its folder")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                return _parsed(content, name)
            except _BAD_VALUES as problem:
                raise _damaged(name) from problem


def _damaged(name: str) -> ModelError:
    return ModelError(f"{name} is damaged or cut short: download or copy it again")


def _parsed(content: mmap.mmap, name: str) -> GgufHeader:
    reader = _Reader(content)
    version, tensor_count, field_count = reader.unpack("IQQ")
    if version not in _VERSIONS:
        raise ModelError(
            f"{name} has version {version} of GGUF, and 2 and 3 can be read: download a newer file"
        )
    fields: dict[str, Any] = {}
    for _ in range(field_count):
        key = reader.text()
        (kind,) = reader.unpack("I")
        fields[key] = reader.value(kind)
    tensors = [reader.tensor() for _ in range(tensor_count)]

    alignment = fields.get("general.alignment", _DEFAULT_ALIGNMENT)
    data_begins = -(-reader.at // alignment) * alignment
    ends = (data_begins + tensor.offset + tensor.size for tensor in tensors)
    if max(ends, default=0) > len(content):
        raise _damaged(name)
    return GgufHeader(
        architecture=str(fields["general.architecture"]),
        kind=str(fields.get("general.type", "model")),
        part=int(fields.get("split.no", 0)) + 1,
        parts=int(fields.get("split.count", 1)),
        numbers=sum(tensor.numbers for tensor in tensors),
        end_tokens=tuple(_end_tokens(fields)),
        tensors=frozenset(tensor.name for tensor in tensors),
    )


def _end_tokens(fields: dict[str, Any]) -> Iterator[int]:
    """The ids of tokens that end a text or a turn, in order."""
    stated = {fields[key] for key in _END_KEYS if isinstance(fields.get(key), int)}
    tokens = fields.get(_TOKENS, [])
    named = {i for i, token in enumerate(tokens) if token in _TURN_ENDS}
    yield from sorted(i for i in stated | named if 0 <= i < len(tokens))


@dataclass(frozen=True)
class _Tensor:
    """A tensor's name, the count of its numbers, and where its bytes are, from the data's begin."""

    name: str
    numbers: int
    offset: int
    size: int


class _Reader:
    """Reads values one behind the other. Raises ValueError or struct.error beyond the end."""

    def __init__(self, content: mmap.mmap) -> None:
        self.at = 4
        self._content = content

    def unpack(self, form: str) -> tuple[Any, ...]:
        """The next numbers, in a format of `struct`."""
        values = struct.unpack_from(f"<{form}", self._content, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def text(self) -> str:
        """The next text."""
        (length,) = self.unpack("Q")
        if length > len(self._content) - self.at:
            raise ValueError("a text ends after the file")
        written = self._content[self.at : self.at + length]
        self.at += length
        return written.decode("utf-8", "replace")

    def value(self, kind: int) -> object:
        """The next value, of a kind as GGUF counts them."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.unpack(_FORMATS[kind])[0]
        element, count = self.unpack("IQ")
        if count > len(self._content) - self.at:
            raise ValueError("a list ends after the file")
        if element in _FORMATS:
            return list(self.unpack(f"{count}{_FORMATS[element]}"))
        return [self.value(element) for _ in range(count)]

    def tensor(self) -> _Tensor:
        """The next tensor of the table. Raises KeyError for numbers of an unknown type."""
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        name = self.text()
        (dimensions,) = self.unpack("I")
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError("a tensor has too many dimensions")
        numbers = prod(self.unpack(f"{dimensions}Q"))
        kind, offset = self.unpack("IQ")
        block, block_size = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
        return _Tensor(name, numbers, offset, numbers // block * block_size)
