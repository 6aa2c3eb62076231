"""Thoughts that models write before an answer, which is what is left without them.

All who judge or show an answer take them out here. Models mark them by `<think>` and its kin in
brackets of several sorts, some with attributes, a prefix or an ending, by tokens of their own, the
channels of gpt-oss and of Gemma, or a sentence that announces them. A mark that begins thoughts may
be missing, as where it is part of the prompt, and so may the one that ends them, where the answer
was cut. Marks around the answer itself, and of the end of a turn, are no part of it either.
"""

import regex

_WORDS = (
    r"(?:think(?:ing)?|thoughts?|reason(?:ing|s)?|reflections?|deliberations?|pondering|monologue"
    r"|scratch[-_]?pad|analysis|rationale|chain[-_]of[-_]thoughts?|cot|antthinking|inner[-_]voice"
    r"|planning|思考|思维|推理|denken|überlegung|réflexion|razonamiento|pensamiento)"
)
_KINDS = (
    r"(?:process|blocks?|content|text|trace|section|steps?|time|mode|budget|phase|log|reflect"
    r"|过程)"
)
_JOINT = r"[-_:.▁]"
_NAME = rf"(?:[^\W_]{{1,20}}{_JOINT}){{0,3}}(?<!final[-_]){_WORDS}(?:{_JOINT}?{_KINDS}){{0,2}}"
_ATTRIBUTES = r"(?:\s[^<>\n]{0,200})?"
_OPEN = r"(?:<|＜|&lt;)\s?"
_CLOSE = r"\s*(?:>|＞|&gt;)"
_TOKEN = r"<[|｜]"  # noqa: S105 - a mark of special tokens
_END_OF_TOKEN = r"[|｜]>"  # noqa: S105
_OF = r"[_▁](?:of[_▁])?"
_MESSAGE = r"[^<>]{0,100}(?:<\|constrain\|>[^<>]{0,40})?<\|message\|>"
_BEGIN = (
    rf"{_OPEN}{_NAME}{_ATTRIBUTES}{_CLOSE}|(?-i:\[THINK\]|\[[A-Z_]{{0,20}}(?:THINKING|THOUGHTS?"
    rf"|REASONING)\])|\A\s*[\[【]{_NAME}[\]】]|◁{_NAME}▷"
    rf"|{_TOKEN}(?:(?:begin|start){_OF})?{_NAME}(?:_(?:start|begin))?{_END_OF_TOKEN}"
    r"|<\|inner_prefix\|>|<\|im_start\|>think|<\|channel>(?:thought|analysis)|<unused\d+>thought"
    rf"|(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary){_MESSAGE}"
    r"|\A\s*Here(?:['’]s| is) my (?:thought|thinking|reasoning) process:"
    r"|\A\s*Thinking\.\.\.\s*\n"
    # The channels of gpt-oss as they are where special tokens are left out.
    r"|(?-i:\A\s*analysis(?=\p{Lu}|[\"'“]))"
)
_END = (
    rf"(?:<|＜|&lt;)\s?/\s*{_NAME}{_CLOSE}|[\[【]/{_NAME}[\]】]|◁/{_NAME}▷"
    rf"|{_TOKEN}(?:/|end{_OF}){_NAME}{_END_OF_TOKEN}|{_TOKEN}{_NAME}_end{_END_OF_TOKEN}"
    r"|<\|inner_suffix\|>|<\|im_start\|>answer|<channel\|>|<unused\d+>(?!thought)"
    rf"|(?:<\|start\|>assistant)?<\|channel\|>final{_MESSAGE}"
)
# Ends thoughts that have begun; elsewhere it is a mark of another kind, or a sentence.
_END_IF_BEGUN = (
    r"<\|end\|>(?=\s*[^<\s])|\.\.\.done thinking\."
    r"|Here(?:['’]s| is) my (?:response|answer):|(?-i:assistant\s?final(?=\S|\n))"
)
# Thoughts with both their ends; the second may be missing.
_WHOLE = (
    rf"{_OPEN}{_NAME}\s*/\s*>"
    r"|<details\s[^<>]{0,100}reasoning[^<>]{0,100}>(?s:.*?)(?:</details>|\Z)"
    rf"|```{_NAME}\s*\n(?s:.*?)(?:\n```|\Z)"
)
_MARK = regex.compile(
    rf"(?P<whole>{_WHOLE})|(?P<end>{_END})|(?P<end_if_begun>{_END_IF_BEGUN})|(?P<begin>{_BEGIN})",
    regex.I,
)
_MAY_HAVE_MARKS = regex.compile(r"[<＜&\[【◁`]|\A\s*(?:Here|analysis|Thinking)", regex.I)

# Some models put the answer between marks of its own once they have thought.
_ANSWERS = r"(?:final[-_ ]?)?(?:answer|response|output|result|solution|final)"
_MARK_OF_ANSWER = regex.compile(
    rf"</?{_ANSWERS}>|{_TOKEN}(?:begin|start|end){_OF}(?:{_ANSWERS}|box){_END_OF_TOKEN}", regex.I
)
_BEGINS_WITH_MARK = regex.compile(rf"\s*<{_ANSWERS}>", regex.I)
_BOXED = regex.compile(r"\$?\\boxed\{(?:\\text\{)?([^{}\n]*)\}{1,2}\$?")
# The end of the model's turn, where a server shows its token; what follows is made up.
_END_OF_TURN = regex.compile(
    rf"{_TOKEN}(?:im_end|eot_id|eom_id|return|end|end_?of_?(?:text|turn|turn_token|sentence)"
    rf"|end▁of▁sentence){_END_OF_TOKEN}|<(?:end_of_turn|eos|turn\|)>|(?<!<s>[^<]{{0,200}})</s>\s*\Z",
    regex.I,
)
# What stands before a turn of the assistant in templates of chats, and begins texts.
_HEADER = regex.compile(
    r"<\|im_start\|>\s*assistant\b|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>"
    r"|<start_of_turn>\s*model\b|\A.*\[/INST\]"
    r"|\A\s*+(?:<(?:s|bos|pad|unk)>\s*+)++(?!.*</s>\s*\S)",
    regex.I | regex.S,
)
_OTHER_TOKEN = regex.compile(rf"{_TOKEN}[\w▁]{{1,40}}{_END_OF_TOKEN}")
_TOKENS_BEFORE = regex.compile(rf"(?:\s|{_OTHER_TOKEN.pattern})*+")


def without_thoughts(text: str) -> str:
    """What a model wrote without its thoughts; "" if it wrote nothing else, or was cut in them."""
    if not _MAY_HAVE_MARKS.search(text) and "\\boxed" not in text:
        return text
    kept: list[str] = []
    place = 0
    thinking = False
    has_marks = False
    for mark in _MARK.finditer(text):
        if mark["end_if_begun"] and not thinking:
            continue
        has_marks = True
        before = text[place : mark.start()]
        if mark["begin"] or mark["whole"]:
            kept += [] if thinking else [before]
            thinking = thinking or mark["begin"] is not None
        elif not thinking:
            kept = []  # all of it were thoughts, whose beginning is not marked
        else:
            thinking = False
        place = mark.end()
    if not thinking:
        kept.append(text[place:])
    answer = " ".join(kept)
    if has_marks:
        return _without_marks(_MARK_OF_ANSWER.sub(" ", answer)).lstrip()
    if _BEGINS_WITH_MARK.match(answer):
        answer = _MARK_OF_ANSWER.sub(" ", answer)
    return _without_marks(answer)


def has_thoughts(text: str) -> bool:
    """Whether a text holds thoughts that say something."""
    if not _MARK.search(text):
        return False
    words: list[str] = _without_marks(_MARK_OF_ANSWER.sub(" ", _MARK.sub(" ", text))).split()
    return words != without_thoughts(text).split()


def _without_marks(answer: str) -> str:
    """An answer up to the end of the turn, without special tokens and what frames it."""
    answer = _HEADER.sub(" ", answer)
    tokens_before = _TOKENS_BEFORE.match(answer)
    end = _END_OF_TURN.search(answer, tokens_before.end() if tokens_before else 0)
    if end:
        answer = answer[: end.start()]
    without_tokens = _OTHER_TOKEN.sub(" ", answer)
    unframed: str = _BOXED.sub(r"\1", without_tokens)
    return unframed
