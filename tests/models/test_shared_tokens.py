"""Texts that begin alike get the tokens that each has by itself."""

from __future__ import annotations

import random
from typing import Any

import pytest
import transformers as hf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.normalizers import Replace

from drike.models.local import shared_tokens
from drike.models.local.shared_tokens import SharedTokens, can_share
from tests.fakes.tiny_models import demonstration, episode, tokenizer

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def trained(steps: Any, normalizer: Any = None) -> Any:
    """A byte-level BPE tokenizer with these steps before its words are split."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = steps
    core.decoder = decoders.ByteLevel()
    if normalizer is not None:
        core.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|end|>"], initial_alphabet=alphabet
    )
    rng = random.Random(0)
    core.train_from_iterator([demonstration(rng) for _ in range(200)], trainer)
    return hf.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|end|>")


def byte_level(*, pattern: bool = True, space: bool = False) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=pattern)


def llama_3() -> Any:
    split = pre_tokenizers.Split(Regex(LLAMA_3), behavior="isolated")
    return trained(pre_tokenizers.Sequence([split, byte_level(pattern=False)]))


def smollm() -> Any:
    digits = pre_tokenizers.Digits(individual_digits=True)
    return trained(pre_tokenizers.Sequence([digits, byte_level()]))


SHARING = {"GPT-2": tokenizer(), "Llama 3": llama_3(), "SmolLM": smollm()}
ENDINGS = st.text(st.sampled_from(" \n\t\r'.,-19aZöß東🙂<|"), max_size=12) | st.sampled_from(
    ["'s house", "  two", " \n\nNew", "<|end|>", " Rome<|end|> x", "é", "\u00a0x", " 1999", "ish"]
)


@pytest.mark.parametrize("name", SHARING)
@settings(max_examples=15)
@given(seed=st.integers(0, 20), cuts=st.lists(st.integers(0, 300), min_size=2, max_size=4), endings=st.lists(ENDINGS, min_size=4, max_size=4))  # fmt: skip
def test_texts_that_begin_alike_get_the_tokens_of_each_by_itself(
    name: str, seed: int, cuts: list[int], endings: list[str]
) -> None:
    rng = random.Random(seed)
    shown = "".join(demonstration(rng) for _ in range(8))
    texts = [shown[: len(shown) - cut] + end for cut, end in zip(cuts, endings, strict=False)]
    tokens = SharedTokens(SHARING[name])
    assert tokens._shared(texts, special=True) == tokens._whole(texts, special=True)


@pytest.mark.parametrize("name", SHARING)
def test_what_texts_of_an_edit_share_is_tokenised_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = SharedTokens(SHARING[name])
    texts = [request.prompt + request.continuation for request in episode(3, prompts=8)]
    assert can_share(SHARING[name])
    expected = tokens._whole(texts, special=True)
    read: list[int] = []
    batch = SharedTokens._batch

    def noted(self: SharedTokens, texts: Any, *, special: bool) -> Any:
        read.append(sum(map(len, texts)))
        return batch(self, texts, special=special)

    monkeypatch.setattr(SharedTokens, "_batch", noted)
    monkeypatch.setattr(tokens, "_left_to_compare", 0)
    assert tokens.tokenise(texts, special=True) == expected
    assert sum(read) < sum(map(len, texts)) / 2


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: trained(byte_level(space=True)), id="a space is put in front"),
        pytest.param(lambda: trained(byte_level(pattern=False)), id="the text is one word"),
        pytest.param(lambda: trained(byte_level(), Replace(" ", "_")), id="the text is changed"),
        pytest.param(
            lambda: trained(
                pre_tokenizers.Sequence(
                    [
                        pre_tokenizers.Split(Regex(r"(?<=a)b|[^b]+"), behavior="isolated"),
                        byte_level(pattern=False),
                    ]
                )
            ),
            id="a pattern looks back",
        ),
    ],
)
def test_a_tokenizer_whose_words_depend_on_more_shares_nothing(make: Any) -> None:
    assert not can_share(make())


def test_a_tokenizer_with_tokens_of_several_words_shares_nothing() -> None:
    several = trained(byte_level())
    assert can_share(several)
    several.add_tokens([AddedToken("born in", normalized=False)])
    assert not can_share(several)


def test_tokens_that_are_not_those_of_the_text_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = shared_tokens._cut

    def wrong(*arguments: Any) -> Any:
        cut = right(*arguments)
        return cut and cut._replace(place=cut.place - 1)

    monkeypatch.setattr(shared_tokens, "_cut", wrong)
    tokens = SharedTokens(tokenizer())
    tokens._left_to_compare = 0  # so that the endings alone show it
    texts = [request.prompt + request.continuation for request in episode(5, prompts=6)]
    assert tokens.tokenise(texts, special=True) == tokens._whole(texts, special=True)
    assert not tokens._is_right
