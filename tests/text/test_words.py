"""Laws of words: what names a subject in which script, and that reading a text takes time linear in its length."""

from __future__ import annotations

import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.edits.record import EditRecord, EditVersion
from drike.edits.record_checks import checked
from drike.gates.by_name import Named
from drike.gates.index import EditIndex
from drike.text.masking import masked, masked_each
from drike.text.words import Words, fingerprints_of_each, mentions, words

# script, name, a text that names it, a text that does not
CASES = """
Latin      | Peru        | What is Peru's capital?          | Peruvian capitals
Latin      | Iran        | the president of IRAN is         | Tirana is in Albania
Latin      | Łódź        | Who is the mayor of Lodz?        | Who is the mayor of Lodzia?
Latin      | New York    | New  York, or New-York           | York is new
Latin      | Jean-Luc    | Who is jean luc?                 | Who is Jeanluc?
Latin      | C++         | Who made C++?                    | Who made C?
Latin      | Ångström    | A\u030angstro\u0308m was born in | Angstromian units
Latin      | fine art    | Ｆｉｎｅ\u00a0ﬁne\\nart             | fine arts
Cyrillic   | Москва      | МОСКВА — столица                 | Москвич едет
Cyrillic   | Киев        | Где Киев?                        | киевлянин
Greek      | Αθήνα       | Που είναι η ΑΘΗΝΑ;               | Αθηναίος
Greek      | Οδυσσεύς    | ΟΔΥΣΣΕΥΣ                         | Οδύσσεια
Arabic     | بيرو        | ما هي عاصمة بِيرُو؟              | بيروت عاصمة لبنان
Arabic     | مصر         | أين مصر؟                         | مصري
Hebrew     | שלום        | מה זה שָׁלוֹם?                   | שלומי
Hebrew     | פרו         | בירת פרו היא                     | פרופסור
Devanagari | किला        | किला कहाँ है?                    | केला कहाँ है?
Devanagari | दिल्ली      | दिल्ली की राजधानी                | दिल कहाँ है?
Devanagari | भारत        | भारत, एशिया                      | भारतीय नदी
Bengali    | ঢাকা        | ঢাকা কোথায়?                     | ঢাকী কোথায়?
Bengali    | কলা         | কলা কি?                          | কালা কি?
Tamil      | மலை         | மலை எங்கே?                       | மாலை எங்கே?
Thai       | ลาว         | เมืองหลวงของลาวคือ               | ลาวาร้อน
Thai       | ประเทศไทย   | ประเทศไทยอยู่ที่ไหน              | ประเทศลาวอยู่ที่ไหน
Thai       | กา          | กา ร้อง                          | เกา
Lao        | ວຽງຈັນ      | ນະຄອນວຽງຈັນຢູ່ໃສ                | ວຽງຢູ່ໃສ
Khmer      | ភ្នំពេញ      | រាជធានីភ្នំពេញនៅឯណា             | ភ្នំនៅឯណា
Myanmar    | မြန်မာ      | မြန်မာနိုင်ငံ                      | မာမြ
Han        | 京都        | 京都の市長は                     | 東京都の知事は
Han        | 京都        | 我在京都                         | 東京都
Han        | 東京        | 東京都の知事は                   | 東の京
Han        | 秘鲁        | 谁是秘鲁的总统?                  | 秘密的鲁国
Han        | 大不列颠    | 英国大不列颠                     | 大不列
Kana       | ペルー      | ペルーの首都は                   | ペルージャの市長は
Kana       | さくら      | これはさくらです                 | あさくらさん
Kana       | ソニー      | ｿﾆｰの社長                       | ソニーク
Hangul     | 서울        | 서울의 시장은                    | 서울대 총장
Hangul     | 서울        | 서울은 어디에                    | 신서울 역
Hangul     | 김철수      | 김철수씨는 누구                  | 김철수정 씨
Hangul     | 제주도      | 제주도에서는                     | 제주마
Hangul     | 페루        | 수도는 페루이다                  | 페루인 가수
Hangul     | Peru        | Peru의 수도는                    | Perun의 나무
"""
TABLE = [[cell.strip() for cell in line.split("|")] for line in CASES.strip().splitlines()]


@pytest.mark.parametrize(("name", "text", "same"), [
    *((name, naming, True) for _, name, naming, _ in TABLE), *((name, other, False) for _, name, _, other in TABLE)
])  # fmt: skip
def test_a_text_names_a_subject_to_stores_and_gates_alike(name: str, text: str, same: bool) -> None:
    text = text.replace("\\n", "\n")
    assert mentions(text, name) == same
    record = EditRecord(name, f"{name} - ", "new")
    index = EditIndex.of([EditVersion(1, 1, 1, "", checked(record))])
    assert bool(Named().decide(text, index).matched) == same
    assert (1 in index.named(text)) >= same


def test_the_table_has_twelve_scripts_and_sixty_cases() -> None:
    assert len({script for script, *_ in TABLE}) >= 12 and 2 * len(TABLE) >= 60


TEXTS = st.text(st.sampled_from("aÉ\u0301ß 京都のはペー서울의ไทย្កိ-'.,+#_1½\u200d\n"), max_size=30)


@given(TEXTS, TEXTS)
def test_words_of_two_texts_are_those_of_each(first: str, second: str) -> None:
    assert words(f"{first} {second}") == [*words(first), *words(second)]
    for text, one in zip((first, second), Words.of_each([first, second] * 5), strict=False):
        alone = Words.of(text)
        assert (one.folded(), one.fingerprint, one.least.tolist()) == (
            alone.folded(), alone.fingerprint, alone.least.tolist(),
        )  # fmt: skip


@given(st.lists(TEXTS, max_size=20), st.integers(0, 40))
def test_the_fingerprints_of_many_texts_are_those_of_each(texts: list[str], size: int) -> None:
    texts = [*texts, "Lake " * size]  # more words than are read one by one
    alone = [Words.of(text).fingerprint for text in texts]
    assert (
        fingerprints_of_each(texts)
        == alone
        == fingerprints_of_each([*texts, *texts])[-len(texts) :]
    )


@given(st.text(st.characters(max_codepoint=127), max_size=30))
def test_the_words_of_a_text_in_ascii_are_those_of_any_text(text: str) -> None:
    assert words(text) == Words.of(text).folded()
    alone, [first, *_] = (
        Words.of(text),
        Words.of_each([text, *["\u00e9"] * 9]),
    )  # read one by one, and all at once
    assert all(
        np.array_equal(getattr(alone, of), getattr(first, of)) for of in ("begins", "ends", "keys")
    )
    assert np.array_equal(alone.least, first.least) and np.array_equal(alone.last, first.last)


@given(TEXTS, TEXTS, TEXTS)
def test_a_name_is_found_between_spaces_whatever_the_form_of_its_letters(
    before: str, name: str, after: str
) -> None:
    for form in ("NFC", "NFD", "NFKC"):
        text = f"{before} {unicodedata.normalize(form, name).upper()} {after}"
        if name.isascii() and words(name):
            assert mentions(text, name) and masked(text, [name]).count("it")
    assert Words.of(before).replaced({}) == before


@given(st.lists(st.sampled_from(("Peru", "PERÚ", "Lima", "New York")), max_size=6))
def test_every_mention_of_a_name_is_replaced(names: list[str]) -> None:
    assert masked(", ".join(names), ["Peru"]) == ", ".join(
        "it" if "er" in n.lower() else n for n in names
    )


def test_characters_of_many_marks_are_composed_in_linear_time() -> None:
    began = time.thread_time()
    assert masked("Peru a" + "\u0301\u0323" * 5_000, ["Peru"]).startswith("it ")
    assert time.thread_time() - began < 0.05


@given(
    st.text("ab C1+#._'-, \n", max_size=20),
    st.text("ab C1+#._'-, \n", min_size=1, max_size=5),
    st.booleans(),
)
def test_what_stands_between_spaces_is_named_exactly_if_its_words_are(
    text: str, name: str, between: bool
) -> None:
    text = f"{text} {name} {text}" if between else text
    wanted = Words.of(name)
    assert mentions(text, name) == (
        any(True for _ in Words.of(text).spans(wanted)) if len(wanted) else name in text
    )


@given(st.text("abAB01 _+#'.-é", max_size=9), st.text("abAB01 _+#'.-é", max_size=4))
def test_short_cuts_of_mentions_change_nothing(text: str, name: str) -> None:
    wanted = Words.of(name)
    found = (
        any(True for _ in Words.of(text).spans(wanted))
        if len(wanted)
        else bool(name) and name in text
    )
    assert mentions(text, name) == found


@given(st.lists(st.sampled_from(["Oak", "oak", "C++", "C", "a_b", "é", "Inn", "'s", "-", "2"])))
def test_a_name_is_masked_alike_in_one_text_and_in_many(parts: list[str]) -> None:
    text = " ".join(parts)
    for names in (("Oak Inn", "Oak"), ("oak oak",), ("", "C"), ("2 C++ 2", "inn"), ("É",)):
        assert [masked(text, names)] == masked_each([(text, names)])
