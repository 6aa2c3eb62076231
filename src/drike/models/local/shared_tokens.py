"""Tokenising texts that begin alike, each beginning once.

An evaluated edit has some 30 texts of 4,000 characters, which differ in the last 100. Where words
are found by a pattern that looks at most at the next character, and each is then split into tokens
by itself, the tokens up to the beginning of a word do not depend on what comes after it, nor those
behind it on what comes before. `can_share` says for which tokenizers that holds. To see that it
does, the first texts of each are tokenised whole as well, and every ending begins with a few tokens
that are known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

_WORTH_SHARING = 200  # characters
_COMPARED = 64  # texts of a tokenizer that are also tokenised whole
# What looks at the characters before a place, or at the beginning of a text.
_LOOKS_BACK = re.compile(r"\(\?<|\\[bBAG]|(?<!\[)\^")


class TokenisedText(NamedTuple):
    """A text's tokens, with the beginning and end of each in the text."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class _Cut(NamedTuple):
    """Where the ending of a text begins: a place in it, and the number of tokens before that.

    known: the number of tokens before the next such place, up to which the ending's are known.
    """

    place: int
    tokens: int
    known: int


class SharedTokens:
    """Tokenises the texts of one tokenizer, and remembers how many were compared."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._is_right = can_share(tokenizer)
        self._left_to_compare = _COMPARED

    def tokenise(self, texts: Sequence[str], *, special: bool) -> list[TokenisedText]:
        """Tokenise texts. special: with the special tokens of whole texts."""
        if not self._is_right or len(texts) < 2:
            return self._whole(texts, special=special)
        tokenised = self._shared(texts, special=special)
        compared = min(len(texts), self._left_to_compare)
        if compared:
            self._left_to_compare -= compared
            if self._whole(texts[:compared], special=special) != tokenised[:compared]:
                self._is_right = False
                return self._whole(texts, special=special)
        return tokenised

    def _whole(self, texts: Sequence[str], *, special: bool) -> list[TokenisedText]:
        if not texts:
            return []
        batch = self._batch(texts, special=special)
        pairs = zip(batch["input_ids"], batch["offset_mapping"], strict=True)
        return [TokenisedText(ids, offsets) for ids, offsets in pairs]

    def _batch(self, texts: Sequence[str], *, special: bool) -> Any:
        return self._tokenizer(
            list(texts),
            add_special_tokens=special,
            return_attention_mask=False,
            return_offsets_mapping=True,
            verbose=False,
        )

    def _shared(self, texts: Sequence[str], *, special: bool) -> list[TokenisedText]:
        """Tokenise the longest text of each family, and of the others what they do not share."""
        families = _families(texts)
        longest = [max(family, key=lambda i: len(texts[i])) for family in families]
        bases = self._batch([texts[i] for i in longest], special=special)
        tokenised: dict[int, TokenisedText] = {}
        whole: list[int] = []  # texts with no place where their ending begins
        cut_by_index: dict[int, _Cut] = {}
        base_by_index: dict[int, TokenisedText] = {}
        for number, (family, first) in enumerate(zip(families, longest, strict=True)):
            base = TokenisedText(bases["input_ids"][number], bases["offset_mapping"][number])
            tokenised[first] = base
            words = bases.word_ids(number)
            for i in family:
                if i == first:
                    continue
                cut = _cut(texts[first], base, words, _common_beginning(texts[first], texts[i]))
                if cut is None:
                    whole.append(i)
                else:
                    cut_by_index[i] = cut
                    base_by_index[i] = base

        tokenised_whole = self._whole([texts[i] for i in whole], special=special)
        tokenised.update(zip(whole, tokenised_whole, strict=True))
        endings = [texts[i][cut.place :] for i, cut in cut_by_index.items()]
        tokenised_endings = self._whole(endings, special=False)
        for (i, cut), ending in zip(cut_by_index.items(), tokenised_endings, strict=True):
            joined = _joined(base_by_index[i], cut, ending)
            if joined is None:
                self._is_right = False
                return self._whole(texts, special=special)
            tokenised[i] = joined
        return [tokenised[i] for i in range(len(texts))]


def _joined(base: TokenisedText, cut: _Cut, ending: TokenisedText) -> TokenisedText | None:
    """The tokens of a base, and those of an ending; None if they differ where both are known."""
    overlap = cut.known - cut.tokens
    if base.ids[cut.tokens : cut.known] != ending.ids[:overlap]:
        return None
    offsets = [(begin + cut.place, end + cut.place) for begin, end in ending.offsets[overlap:]]
    return TokenisedText(
        [*base.ids[: cut.known], *ending.ids[overlap:]], [*base.offsets[: cut.known], *offsets]
    )


def _families(texts: Sequence[str]) -> list[list[int]]:
    """Texts, by index, that begin alike; neighbours only, as those of one edit are."""
    families: list[list[int]] = []
    for i, text in enumerate(texts):
        if families:
            first = texts[families[-1][0]]
            if text[:_WORTH_SHARING] == first[:_WORTH_SHARING] and len(text) > _WORTH_SHARING:
                families[-1].append(i)
                continue
        families.append([i])
    return families


def _common_beginning(a: str, b: str) -> int:
    """How many characters two texts have in common at the beginning."""
    low = 0
    high = min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(text: str, tokens: TokenisedText, words: Sequence[int | None], common: int) -> _Cut | None:
    """The last but one place before `common` where a word begins with a space and a letter.

    Patterns that look at the next character, or over white space, then see the same on both sides.
    """
    known = 0
    for k in range(len(tokens.ids) - 1, 0, -1):
        start = tokens.offsets[k][0]
        place = start if text[start : start + 1] == " " else start - 1
        if place + 3 > common:
            continue
        if place < _WORTH_SHARING // 2:
            return None
        begins_word = words[k] is not None and words[k] != words[k - 1]
        is_after = tokens.offsets[k - 1][1] <= place
        if not begins_word or not is_after or text[place] != " ":
            continue
        if text[place - 1].isalnum() and text[place + 1].isalpha():
            if known:
                return _Cut(place, k, known)
            known = k
    return None


@lru_cache(8)
def shared_tokens(tokenizer: Tokenizer) -> SharedTokens:
    """What tokenises the texts of a tokenizer."""
    return SharedTokens(tokenizer)


def can_share(tokenizer: Tokenizer) -> bool:
    """Whether the tokens before and behind the beginning of a word are those of its two parts."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return False
    described = json.loads(backend.to_str())
    model = described["model"]
    if described["normalizer"] is not None or model["type"] != "BPE" or model.get("dropout"):
        return False
    if described.get("truncation") or described.get("padding"):
        return False
    plain = all(
        not (token["single_word"] or token["lstrip"] or token["rstrip"])
        and " " not in token["content"]
        for token in described["added_tokens"]
    )
    return plain and _is_local(described["pre_tokenizer"])


def _is_local(step: dict[str, Any] | None) -> bool:
    """Whether a step that finds words looks at no more than the next character."""
    if step is None:
        return False
    kind = step["type"]
    if kind == "Sequence":
        steps = step["pretokenizers"]
        # Without a pattern, the whole text would be one word.
        has_pattern = any(each["type"] == "Split" or each.get("use_regex") for each in steps)
        return has_pattern and all(_is_step_local(each) for each in steps)
    return kind == "ByteLevel" and step.get("use_regex", True) and _is_step_local(step)


def _is_step_local(step: dict[str, Any]) -> bool:
    if step["type"] == "ByteLevel":
        return not step["add_prefix_space"]
    if step["type"] == "Split":
        pattern = step["pattern"].get("Regex")
        is_kept = step["behavior"] == "Isolated" and not step["invert"]
        return pattern is not None and is_kept and not _LOOKS_BACK.search(pattern)
    return bool(step["type"] == "Digits")
