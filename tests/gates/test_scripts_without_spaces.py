"""The calibrated gate on questions in scripts that put no spaces between words."""

from __future__ import annotations

import pytest

from drike.edits.record import EditRecord
from drike.encoders.base import TextEncoder
from drike.gates.calibration import default_gate
from drike.gates.index import EditIndex
from drike.text.glossary import glossed
from tests.fakes.indexes import GATE, default_encoder, indexed, stored

TABLE = """
th | ประเทศเปรู | The capital of ประเทศเปรู is | เมืองหลวงของประเทศเปรูคืออะไร | ประเทศเปรูมีประชากรกี่คน
th | ประเทศเปรู | เมืองหลวงของประเทศเปรูคือ | เมื่อวานผมอ่านข่าวเรื่องประเทศเปรูมา อยากทราบว่าเมืองหลวงของประเทศเปรูคือเมืองใด | เมืองหลวงของประเทศลาวคืออะไร
th | เปรู | The currency of เปรู is | เปรูใช้สกุลเงินอะไร | สกุลเงินของลาวคืออะไร
th | เปรู | The president of เปรู is | ตอนนี้ใครเป็นประธานาธิบดีของเปรูครับ | เมืองหลวงของเปรูคืออะไร
th | บริษัทอนาคต | The chief executive of บริษัทอนาคต is | ซีอีโอของบริษัทอนาคตคือใคร | สำนักงานใหญ่ของบริษัทอนาคตอยู่ที่ไหน
th | บริษัทอนาคต | The headquarters of บริษัทอนาคต is in | สำนักงานใหญ่ของบริษัทอนาคตอยู่ที่ไหน | ใครเป็นผู้ก่อตั้งบริษัทอนาคต
th | Halcyon | The founder of Halcyon is | ใครเป็นผู้ก่อตั้งHalcyonครับ | ใครเป็นเจ้าของHalcyon
th | สมชาย ใจดี | The wife of สมชาย ใจดี is | ภรรยาของสมชาย ใจดีชื่ออะไร | พ่อของสมชาย ใจดีชื่ออะไร
lo | ປະເທດເປຣູ | The capital of ປະເທດເປຣູ is | ນະຄອນຫຼວງຂອງປະເທດເປຣູແມ່ນຫຍັງ | ປະເທດເປຣູມີປະຊາກອນຈັກຄົນ
lo | ປະເທດເປຣູ | ນະຄອນຫຼວງຂອງປະເທດເປຣູແມ່ນ | ຂໍຖາມວ່າເມືອງຫຼວງຂອງປະເທດເປຣູແມ່ນເມືອງໃດ | ນະຄອນຫຼວງຂອງປະເທດລາວແມ່ນຫຍັງ
lo | ເປຣູ | The president of ເປຣູ is | ໃຜເປັນປະທານປະເທດຂອງເປຣູ | ໃຜເປັນປະທານປະເທດຂອງຄິວບາ
lo | ບໍລິສັດອະນາຄົດ | The founder of ບໍລິສັດອະນາຄົດ is | ໃຜເປັນຜູ້ກໍ່ຕັ້ງບໍລິສັດອະນາຄົດ | ສຳນັກງານໃຫຍ່ຂອງບໍລິສັດອະນາຄົດຢູ່ໃສ
km | ប្រទេសប៉េរូ | The capital of ប្រទេសប៉េរូ is | តើរាជធានីរបស់ប្រទេសប៉េរូជាទីក្រុងណា? | តើប្រទេសប៉េរូមានប្រជាជនប៉ុន្មាន
km | ប្រទេសប៉េរូ | រាជធានីនៃប្រទេសប៉េរូគឺ | ខ្ញុំចង់ដឹងថារាជធានីនៃប្រទេសប៉េរូគឺអ្វី | តើរាជធានីរបស់ប្រទេសឡាវជាអ្វី
km | ប៉េរូ | The president of ប៉េរូ is | តើនរណាជាប្រធានាធិបតីនៃប៉េរូ? | តើរូបិយប័ណ្ណរបស់ប៉េរូគឺអ្វី
km | ក្រុមហ៊ុនអនាគត | The founder of ក្រុមហ៊ុនអនាគត is | តើនរណាជាស្ថាបនិកក្រុមហ៊ុនអនាគត? | តើទីស្នាក់ការកណ្តាលរបស់ក្រុមហ៊ុនអនាគតនៅឯណា?
my | ပီရူးနိုင်ငံ | The capital of ပီရူးနိုင်ငံ is | ပီရူးနိုင်ငံရဲ့မြို့တော်ကဘယ်မြို့လဲ။ | ပီရူးနိုင်ငံမှာ လူဦးရေ ဘယ်လောက်ရှိလဲ
my | ပီရူးနိုင်ငံ | ပီရူးနိုင်ငံ၏ မြို့တော်မှာ | မေးချင်တာက ပီရူးနိုင်ငံ၏မြို့တော်က ဘာလဲ | လာအိုနိုင်ငံ၏ မြို့တော်က ဘာလဲ
my | ပီရူး | The president of ပီရူး is | ပီရူးသမ္မတက ဘယ်သူလဲ | ကျူးဘားသမ္မတက ဘယ်သူလဲ
my | အနာဂတ်ကုမ္ပဏီ | The founder of အနာဂတ်ကုမ္ပဏီ is | အနာဂတ်ကုမ္ပဏီကို တည်ထောင်သူက ဘယ်သူလဲ | အနာဂတ်ကုမ္ပဏီ၏ရုံးချုပ်က ဘယ်မှာလဲ
ja | ペルー | The capital of ペルー is | 南米にあるペルーの首都を教えてください | ペルーの人口は何人ですか
ja | ペルー | ペルーの首都は | 昨日の話ですが、ところでペルーの首都ってどこ? | ラオスの首都はどこですか
ja | 中村商事 | The chief executive of 中村商事 is | 今の中村商事の社長は誰? | 田中商事の社長は誰ですか
ja | 中村商事 | The headquarters of 中村商事 is in | 中村商事の本社はどこですか | 中村商事の社長は誰ですか
ja | ペルー | The currency of ペルー is | ペルーの通貨は何ですか | ペルージャの通貨は何ですか
zh | 秘鲁 | The capital of 秘鲁 is | 请问秘鲁的首都是哪个城市? | 秘鲁的人口是多少?
zh | 秘鲁 | 秘鲁的首都是 | 我明年想去旅行,秘鲁首都在哪里 | 老挝的首都是哪里?
zh | 华星公司 | The chief executive of 华星公司 is | 谁是华星公司的首席执行官? | 华光公司的首席执行官是谁?
zh | 华星公司 | The founder of 华星公司 is | 华星公司的创始人是谁? | 华星公司的总部在哪里?
zh | 秘鲁 | The president of 秘鲁 is | 谁是秘鲁的总统? | 谁是秘密的鲁国总统?
"""
ROWS = [row.split(" | ") for row in TABLE.strip().splitlines()]


@pytest.mark.parametrize(("language", "subject", "query", "asked", "other"), ROWS)
def test_a_question_matches_with_any_encoder(
    language: str, subject: str, query: str, asked: str, other: str
) -> None:
    index = indexed(EditRecord(subject, query, "X"))
    assert [edit.id for edit in GATE.decide(asked, index).matched] == [1], language
    if subject not in other:
        assert not GATE.decide(other, index).candidates


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return default_encoder()


@pytest.mark.slow  # the relations are encoded
@pytest.mark.parametrize(("language", "subject", "query", "asked", "other"), ROWS)
def test_the_question_matches_and_one_about_something_else_does_not(
    language: str, subject: str, query: str, asked: str, other: str, encoder: TextEncoder
) -> None:
    gate = default_gate()
    index = EditIndex.of(stored(EditRecord(subject, query, "X")), encoder)
    assert [edit.id for edit in gate.decide(asked, index).matched] == [1], language
    assert not gate.decide(other, index).matched, language


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("สีของitคืออะไร", "colour of it what"),
        ("ปีของit", "year of it"),
        ("ปี่ของit", "ปี่ of it"),  # another word, as its tone is another
        ("itມີປະຊາກອນຈັກຄົນ", "it has population how many people"),
        ("រាជ\u200bធានី\u200bនៃ\u200bit\u200bគឺ\u200bអ្វី", "capital of it is what"),
        ("itသည် ဘာလဲ", "it the what"),
    ],
)
def test_words_are_found_without_spaces_where_their_syllables_end(text: str, english: str) -> None:
    assert glossed(text) == english
