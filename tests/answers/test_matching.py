import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.answers.matching import ends_answer, ends_word, equals, first_line, matches, normalise

words = st.text(alphabet="abcdefgXYZ", min_size=1, max_size=8).filter(
    lambda w: w.casefold() not in {"a", "an", "the"}
)


@given(words, words)
def test_target_matches_at_line_start_but_not_inside_a_longer_word(target: str, more: str) -> None:
    assert matches(f" {target} {more}", target)
    assert matches(f"{target}.\nanything", target)
    assert not matches(f"{target}{more}", target)


@given(words, words)
def test_only_the_first_line_of_an_answer_is_matched(target: str, other: str) -> None:
    assert matches(f"\n {target}\n{other}", target)
    if normalise(other) != normalise(target):
        assert not matches(f"{other}\n{target}", target)


@given(st.text(max_size=40))
def test_normalising_leaves_something_and_every_text_matches_itself(text: str) -> None:
    assert normalise(f" {text}\t") == normalise(text)
    assert bool(normalise(text)) == bool(text.strip())
    first = first_line(text)
    assert not first or (equals(text, first) and matches(text, first))


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [
        (" New York City", "New York", True),
        (" Newark", "New", False),
        (" French-speaking", "French", True),
        (" Old Paris", "Paris", False),
        ("", "Paris", False),
        (" Ålesund", "ålesund", True),
        (" +", "+", True),
        (" C#", "C", False),
        (" C++ is", "C++", True),
        (" Rome's fountains", "Rome", True),
        ("Oslo,Norway", "Oslo", True),
        ("P!nk sings", "P", False),
        ("Hoi Polloi", "Hoi An", False),
        ("Hoi An is a city", "Hoi An", True),
        ("Oslo:Norway", "Oslo", True),
    ],
)
def test_a_target_ends_where_its_last_word_ends(text: str, target: str, right: bool) -> None:
    assert matches(text, target) is right


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [
        (" the Netherlands, a country", "Netherlands", True),
        (" The The", "The The", True),
        (" Serie B", "Serie A", False),
        (" Serie A, the first league", "Serie A", True),
        (" serie a", "Serie A", True),
        (" A. Peru", "A", True),
        (" B. Peru", "A", False),
        (" A man of means", "man", True),
        ("An owl", "owl", True),
        ("Author of an Owl", "author of Owl", True),
    ],
)
def test_articles_do_not_count_where_they_are_articles(text: str, target: str, right: bool) -> None:
    assert matches(text, target) is right


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [
        (" U.S. Senate", "US Senate", True),
        ("J.K. Rowling wrote it", "J. K. Rowling", True),
        ("J. K. Rowling", "J.K. Rowling", True),
        ("J. R. R. Tolkien", "J.R.R. Tolkien", True),
        ("А. С. Пушкин", "А.С. Пушкин", True),
        ("U.S. U.S.", "U.S.", True),
    ],
)
def test_initials_are_the_same_with_and_without_points_and_spaces(
    text: str, target: str, right: bool
) -> None:
    assert matches(text, target) is right


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [
        (" 3.5 million", "35", False),
        (" 3,500", "3500", True),
        (" 5 degrees", "-5 degrees", False),
        (" \N{MINUS SIGN}5 degrees", "-5", True),
        (" 1914\N{EN DASH}1918", "1914-1918", True),
        ("15 Millionen", "1,5", False),
        ("1,500,000", "1500000", True),
        ("10:30 am", "10", False),
    ],
)
def test_a_number_is_matched_whole(text: str, target: str, right: bool) -> None:
    assert matches(text, target) is right


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [
        ("東京です。", "東京", True),
        ("東京都です。", "東京", False),
        ("日本語です", "日本", False),
        ("みかんせい", "みかん", False),
        ("北京是首都", "北京", True),
        ("北京市", "北京", False),
        ("Pythonです", "Python", True),
        ("서울입니다.", "서울", True),
        ("서울시입니다.", "서울", False),
        ("서울에서는", "서울", True),
        ("서울이라고 합니다", "서울", True),
        ("赤ちゃん", "赤", False),
        ("北京。它是首都", "北京", True),
        ("北京（中国）", "北京", True),
    ],
)
def test_in_chinese_japanese_and_korean_a_name_ends_before_a_particle(
    text: str, target: str, right: bool
) -> None:
    assert matches(text, target) is right


@pytest.mark.parametrize(
    ("text", "target", "right"),
    [
        ("काला", "कला", False),
        ("नेपाली", "नेपाल", False),
        ("नेपाल है", "नेपाल", True),
        ("ดุ", "ดี", False),
    ],
)
def test_vowel_signs_are_part_of_a_word(text: str, target: str, right: bool) -> None:
    assert matches(text, target) is right


def test_exact_match_rejects_text_after_the_target() -> None:
    assert equals(" the Paris.", "Paris")
    assert not equals(" Paris, France", "Paris")


def test_an_empty_target_is_refused() -> None:
    with pytest.raises(ValueError, match="empty one"):
        matches("anything", "  ")


@pytest.mark.parametrize(
    ("following", "word", "answer"),
    [
        ("", True, True), ("\n", True, True), (".\n\n", True, True), ("land", False, False), (" City", True, False),
        ("。", True, True), ("です", True, False), ("都", False, False), ("んぼ", False, False), ("ी", False, False),
        ("입니다", True, False), ("입", False, False),
    ],
)  # fmt: skip
def test_word_and_answer_boundaries(following: str, word: bool, answer: bool) -> None:
    assert (ends_word(following), ends_answer(following)) == (word, answer)
