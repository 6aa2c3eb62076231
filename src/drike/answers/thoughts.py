"""Thoughts that models write before an answer, which is what is left without them.

All who judge or show an answer take them out here. Models mark them by `<think>` and its kin, some
with attributes or a prefix, by `[THINK]`, `<|begin_of_thought|>` or the channels of gpt-oss. A mark
that begins thoughts may be missing, as where it is part of the prompt, and so may the one that ends
them, where the answer was cut.
"""

import regex

_NAMES = (
    r"(?:[\w-]+:)?(?:think(?:ing)?|thoughts?|thought[-_ ]?process|reason(?:ing|s)?"
    r"|reasoning[-_]content|(?:self[-_])?reflection|scratch[-_]?pad|analysis|rationale"
    r"|chain[-_]of[-_]thoughts?|cot|antthinking|inner[-_](?:thoughts?|monologue|voice))"
)
_ATTRIBUTES = r"(?:\s[^<>\n]{0,200})?"
_BEGIN = (
    rf"<{_NAMES}{_ATTRIBUTES}>|\[THINK\]|◁think▷"
    rf"|<\|(?:(?:begin|start)_(?:of_)?)?{_NAMES}\|>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)[^<>]{0,100}<\|message\|>"
)
_END = (
    rf"</\s*{_NAMES}\s*>|\[/THINK\]|◁/think▷"
    rf"|<\|(?:/|end_(?:of_)?){_NAMES}\|>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>final[^<>]{0,100}<\|message\|>"
)
_EMPTY = rf"<{_NAMES}\s*/>"
_MARK = regex.compile(rf"(?P<empty>{_EMPTY})|(?P<end>{_END})|(?P<begin>{_BEGIN})", regex.I)
# Some models put the answer between marks of its own once they have thought.
_MARK_OF_ANSWER = regex.compile(
    r"</?(?:answer|final_answer|response|output)>"
    r"|<\|(?:begin|end)_of_(?:solution|answer)\|>|<\|(?:end|return)\|>",
    regex.I,
)


def without_thoughts(text: str) -> str:
    """What a model wrote without its thoughts; "" if it wrote nothing else, or was cut in them."""
    marks = list(_MARK.finditer(text))
    if not marks:
        return text
    kept: list[str] = []
    place = 0
    thinking = False
    for mark in marks:
        before = text[place : mark.start()]
        if mark["end"] is None:
            kept += [] if thinking else [before]
            thinking = thinking or mark["begin"] is not None
        elif not thinking:
            kept = []  # all of it were thoughts, whose beginning is not marked
        else:
            thinking = False
        place = mark.end()
    if not thinking:
        kept.append(text[place:])
    answer: str = _MARK_OF_ANSWER.sub(" ", " ".join(kept))
    return answer.lstrip()


def has_thoughts(text: str) -> bool:
    """Whether a text holds thoughts that say something."""
    if not _MARK.search(text):
        return False
    words: list[str] = _MARK_OF_ANSWER.sub(" ", _MARK.sub(" ", text)).split()
    return words != without_thoughts(text).split()
