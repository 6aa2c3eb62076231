"""No reader of texts takes more time for a text of twice the length than about twice as much, however it is made."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pytest

from drike.answers import denials, matching, thoughts, values
from drike.answers.statements import stated
from drike.conversations.imitations import defused
from drike.gateway.redaction import redacted
from drike.support.secrets_in_text import may_hold_password, without_secrets
from drike.text import (
    capitals,
    glossary,
    masking,
    phrases,
    question_forms,
    relation_words,
    spelling,
    templates,
    times,
    value_kinds,
    words,
)
from drike.text import sentences as sentence_reader
from drike.text.questions import leans_back, parts_of
from drike.text.things import Said, compared_things, said, things
from tests.fakes.tally import Tally

Reader = Callable[[str], object]

SHORT, TIMES = 2_000, 8  # characters, and how many times as many the long text has
STATED = {  # an edit's new object, old object and subject, and what was asked
    "a city": ("Oslo", "Lima", "Peru", "What is the capital of Peru?"),
    "a quantity": ("14 days", "5 km", "the trial", "Is it 14 days?"),
    "a person": ("Jorge Luis Borges", "J. K. Rowling", "A. B. Doe", "Who is it?"),
    "money": ("$3.5 million", "not applicable", "it", "How much is it?"),
    "a date": ("21 May 1971", "1971", "the fair", "When was it?"),
}


def judge(new: str, old: str, about: str, question: str) -> Reader:
    return lambda text: stated(text, [new], [old], about=[about], question=question)


def read_sentences(text: str) -> object:
    blocks, _ = sentence_reader.blocks_of(text)
    lines = sentence_reader.lines_of(text, blocks)
    return [list(sentence_reader.sentences_of(text, line)) for line in lines]


READERS: dict[str, Reader] = {
    **{f"stated: {name}": judge(*names) for name, names in STATED.items()},
    "without thoughts": thoughts.without_thoughts,
    "has thoughts": thoughts.has_thoughts,
    "first line": matching.first_line,
    "normalise": matching.normalise.__wrapped__,
    "matches": lambda text: matching.matches(text, "the capital of Peru"),
    "uniform": values.uniform,
    "refuses": denials.refuses,
    "without lead": denials.without_lead,
    "yes": denials.is_yes,
    "no": denials.is_no,
    "parts": parts_of,
    "leans back": leans_back,
    "sentences": read_sentences,
    "ending": sentence_reader.ending,
    "find name": capitals.find_name,
    "corrected": spelling.corrected,
    "glossed": glossary.glossed,
    "answer kind": question_forms.answer_kind,
    "beginning": question_forms.beginning,
    "stated kind": question_forms.stated_kind,
    "is open": question_forms.is_open,
    "trimmed": question_forms.trimmed,
    "of other time": lambda text: times.is_of_other_time(text, ["the price of it is"], [text], ""),
    "said": said,
    "things": things,
    "things in common": lambda text: compared_things(Said(text), Said("the head of it is"), text),
    "kinds of value": value_kinds.kinds_of_value,
    "kinds asked": value_kinds.kinds_asked,
    "other things": question_forms.other_things,
    "telling words": relation_words.telling_words,
    "asked parts": relation_words.asked_parts,
    "contrary": lambda text: relation_words.contrary(text, "the capital"),
    "around": lambda text: templates.around(text, "Peru"),
    "query template": lambda text: templates.query_template(text, "Peru"),
    "mentions": lambda text: words.mentions(text, "Peru"),
    "masked": lambda text: masking.masked(text, ["Peru", "Lima"]),
    "words": words.words,
    "weight": lambda text: words.Words.of(text).weight,
    "fingerprint": lambda text: words.Words.of(text).fingerprint,
    "defused": defused,
    "redacted": lambda text: redacted(text, len(text)),
    "may hold password": may_hold_password,
    "without secrets": without_secrets,
    **{
        f"find {kind}": lambda text, kind=kind: phrases.find_phrase(text, kind)
        for kind in phrases.PhraseKind.__args__  # type: ignore[attr-defined]
    },
}

# What hostile texts are made of, separated by bars.
_WRITTEN = (
    "\"|'|`|``|```|```\n|```python\n|(|[|{|)|]|}|<|>|()|[](|](|![|**|*|_|__|~|~~|~~a~~|#|# |## a\n|> |- |* |1. "
    "|---\n|\n|\n\n|\r\n|\t| |  |a|A|aA|a |A |a-|a.|A.|A. |a'|a's |a,|a, |word |\\|\\\\|&|&amp;|/|//|@|=|+|C++ |^|-|--| - "
    "|1|1,|1.|1 |1-|1/|1,000|1 000 |1.000|-1|$1|$|€|%|5 km |3 million |May |May 1|1 May |21. |12:30 |1st |one |two hundred "
    "|not |no |never |neither |nor |or |and |until |before |was |was until |is |is not |isn't |from |to |from Lima to "
    "|Lima|Lima |Oslo |Oslo. |Oslo, |Lima or |Peru |Peru's |capital of |the |of the |The |of |in 1985 |in the year "
    "|What |What is |What? |?|? |!|!? |.|. |...|;|: |:|who |which |if |but |instead of |you said |you mean |however, "
    "|formerly |(former |(now |(until |the claim that |is wrong |cannot |sorry |yes |no, |the answer is |It is |Answer: "
    "|http://|http://a.b/|www.a.b |a@b.c |<think>|</think>|<think |<a>|<a |</a>|[THINK]|<answer>|Q: |\nQ: |user: "
    "|“|”|«|»|‘|’|—|–|é|e\u0301|\u0301|\u200b|\u00a0|\u202f|中|中国|的|か|カ|한|한국의|ไ|😀|اب"
    "|question: |Translate: |IV |Mr. |Dr. John |de la |van |ein |kein|January |half |it's |next to |apart from |second "
)  # fmt: skip
PARTS = [*_WRITTEN.split("|"), "x" * 50, "1" * 50, "|", "|a|", "<|", "<|a|>", "| a | b |\n"]
ENDS = ("", "!", "\n", " x", "\n\nx?", " was")


def hostile_parts(count: int, seed: int) -> Iterator[str]:
    """Each part, and as many made of two or three of them."""
    yield from PARTS
    draw = random.Random(seed)
    for _ in range(count):
        yield "".join(draw.choices(PARTS, k=draw.choice((2, 2, 3))))


def text_of(part: str, length: int, end: str) -> str:
    return (part * (length // len(part) + 1))[:length] + end


def seconds(read: Reader, text: str, attempts: int) -> float:
    """The least time of some attempts, in this thread alone."""
    taken = []
    for _ in range(attempts):
        began = time.thread_time()
        read(text)
        taken.append(time.thread_time() - began)
    return min(taken)


def grows_too_fast(read: Reader, part: str, end: str) -> bool:
    """Whether time grows like the length's square or nearly so, where it is long enough to be told."""
    long = text_of(part, TIMES * SHORT, end)
    if seconds(read, long, 1) < 0.01:
        return False
    short = text_of(part, SHORT, end)
    for attempts in (1, 2, 4):  # what seems so once is measured again
        most = 2.5 * TIMES * seconds(read, short, 3 * attempts) + 0.005
        if seconds(read, long, attempts) <= most:
            return False
    return True


@pytest.mark.reliability
@pytest.mark.parametrize("name", READERS)
def test_no_text_takes_a_reader_longer_than_its_length(name: str, tally: Tally) -> None:
    read = READERS[name]
    read("Peru is a word")  # patterns are compiled, and lists read
    draw = random.Random(name)
    parts = list(hostile_parts(250, seed=draw.randrange(1 << 30)))
    found = [part for part in parts if grows_too_fast(read, part, draw.choice(ENDS))]
    tally("texts made to be read slowly", len(parts), len(found))
    assert found == []


@pytest.mark.parametrize("part", ["\n", "\r\n", "- \n", "|\n", ".\n"])
def test_times_that_are_over_are_looked_for_line_by_line(part: str) -> None:
    assert not grows_too_fast(READERS["of other time"], part, " was")
    assert times.years_asked(part + "- in 1985 it was")
