"""A continuation's score is found in a rated text, whatever the tokens are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given as draw
from hypothesis import strategies as st

from drike.models.protocols import Request
from drike.models.served.rated_texts import RatedText, Token, score_of

WORDS = st.lists(
    st.sampled_from(["New", "York", "Zürich", "東京", "St.", "O'Brien", "né"]),
    min_size=1,
    max_size=4,
)
HIDES = {
    "nothing": lambda t: t,
    "spaces": lambda t: t.lstrip(" "),
    "characters": lambda t: t.replace("ü", "\ufffd"),
}


def pieces_of(text: str, data: st.DataObject) -> list[str]:
    """The text, cut at random places."""
    places = st.sets(st.integers(1, max(1, len(text) - 1)), max_size=5)
    cuts = sorted(data.draw(places)) if len(text) > 1 else []
    return [text[begin:end] for begin, end in pairwise([0, *cuts, len(text)])]


@draw(WORDS, WORDS, st.data(), st.sampled_from(sorted(HIDES)), st.booleans(), st.booleans())
def test_a_continuation_is_found_under_any_tokenisation(
    before: list[str], after: list[str], data: st.DataObject, hides: str, begins: bool, writes: bool
) -> None:
    prompt = " ".join(before) + " is"
    continuation = " " + " ".join(after)
    start_of_text = ["<s>"] if begins else []
    written = [" the"] if writes else []
    of_continuation = pieces_of(continuation, data)
    before_it = [*start_of_text, *pieces_of(prompt, data)]
    texts = [HIDES[hides](text) for text in [*before_it, *of_continuation, *written]]
    rated = [Token(text, -float(i + 1), (-99.0,)) for i, text in enumerate(texts)]

    score = score_of(RatedText(rated, None), Request(prompt, continuation))

    start = len(before_it)
    end = start + len(of_continuation)
    assert score.logprobs == tuple(token.logprob for token in rated[start:end])
    assert score.following == "".join(texts[end:])


@draw(st.integers(1, 4))
def test_a_token_across_the_prompt_boundary_is_refused(over: int) -> None:
    text = "The capital is Oslo"
    prompt = "The capital is"
    tokens = [
        text[: len(prompt) - over],
        text[len(prompt) - over : len(prompt) + over],
        text[len(prompt) + over :],
        ".",
    ]
    reading = RatedText([Token(token, -1.0, (-2.0,)) for token in tokens], None)
    with pytest.raises(ValueError, match="do not spell"):
        score_of(reading, Request(prompt, " Oslo"))


@pytest.mark.parametrize("value", [-9999.0, -1e5, float("-inf"), float("nan"), None, True, "-1"])
def test_what_servers_write_for_no_log_probability_is_no_score(value: object) -> None:
    tokens = [Token("It is", -1.0, (-2.0,)), Token(" Oslo", value, (-2.0,))]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no finite log-probability"):
        score_of(RatedText(tokens, ""), Request("It is", " Oslo"))
