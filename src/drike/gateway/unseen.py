"""What of a request a model may read although `drike.conversations.turns` does not.

It must not hide a question about an edit that is enforced, so only fields, roles and types are let
through of which it is known that they ask nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from drike.conversations.following import Followed
from drike.conversations.memory import Earlier
from drike.conversations.turns import Api, Conversation, Speaker, UnreadError
from drike.gates.index import EditIndex
from drike.gateway.calls import RawHeaders
from drike.gateway.feed import EditFeed
from drike.gateway.requests import EditableRequest
from drike.support.records import encodable


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


# The fields of a request whose texts are read.
_READ: Mapping[Api, frozenset[str]] = {
    Api.CHAT: frozenset({"messages"}),
    Api.COMPLETIONS: frozenset({"prompt"}),
    Api.RESPONSES: frozenset({"input", "instructions"}),
    Api.MESSAGES: frozenset({"messages", "system"}),
}
# Further fields that may hold texts, lists or objects, and in which nobody asks anything.
_SETTINGS = _set_of("""
    model models stream stream_options temperature top_p top_k min_p seed n stop stop_sequences
    stop_token_ids bad_words max_tokens max_completion_tokens max_output_tokens logprobs
    top_logprobs logit_bias logits_processors frequency_penalty presence_penalty user metadata
    store service_tier safety_identifier prompt_cache_key prompt_cache_retention cache_salt
    cache_control request_id tools tool_choice functions function_call tool_resources tool_config
    response_format guided_json guided_choice guided_regex guided_grammar
    guided_decoding_backend guided_whitespace_pattern structured_outputs grammar json_schema regex
    ebnf format text include truncation context_management reasoning reasoning_effort thinking
    output_config output_format verbosity modalities audio prediction web_search_options provider
    route transforms plugins keep_alive options betas anthropic_version anthropic_beta container
    mcp_servers chat_template_kwargs mm_processor_kwargs extra_headers timeout tags
""")
_MESSAGE_FIELDS = _set_of("""
    role content name type id status phase call_id tool_calls tool_call_id function_call refusal
    audio annotations reasoning reasoning_content reasoning_details thinking cache_control weight
    prefix partial metadata
""")
_ROLES = _set_of("""
    system developer user human assistant model ai bot gpt tool function ipython observation
""")
# Items of the responses API, beside messages and what tools return, that ask nothing.
_ITEMS = _set_of("""
    reasoning function_call custom_tool_call computer_call web_search_call file_search_call
    code_interpreter_call image_generation_call local_shell_call shell_call apply_patch_call
    mcp_call mcp_list_tools mcp_approval_request mcp_approval_response tool_search_call
""")
_TEXT_PARTS: Mapping[Api, frozenset[str]] = {
    Api.CHAT: frozenset({"", "text", "input_text"}),
    Api.RESPONSES: frozenset({"", "text", "input_text", "output_text"}),
    Api.MESSAGES: frozenset({"text"}),
}
_RESULTS = frozenset({"tool_result", "search_result"})
_SOURCES = _RESULTS | {"document"}
_MEDIA = _set_of("""
    image image_url input_image audio audio_url input_audio video video_url input_video file
    input_file document container_upload
""")
_FURTHER_MODELS = ("models", "fallbacks")  # that may answer in place of the first one
# Keys that some servers take in any case.
_IN_ANY_CASE = frozenset({"messages", "input", "prompt", "role", "content", "text", "type"})
_WORD = re.compile(r"[\w.:/-]{0,64}")
_LONGEST_SHOWN = 40  # characters


_ASK_AS_USER = "send all that is asked as text of a user's messages"
ENDS_UNASKED = UnreadError(
    "unseen", "the last message, which is no user's, names its subject", _ASK_AS_USER
)


def unread_question(request: EditableRequest, earlier: Earlier) -> UnreadError | None:
    """Why a question could be missed in a request; None if all that asks is read.

    earlier: what is known of the turns that the upstream keeps.
    """
    before = request.conversation.before
    if before and not earlier.has_read(before):
        sentence = f"the turns that {_shown(before)} stands for were not read by this gateway"
        return UnreadError("unseen", sentence, "send them with the request")
    reason = unseen(request)
    return UnreadError("unseen", reason, _ASK_AS_USER) if reason else None


def unclear_model(request: EditableRequest) -> UnreadError | None:
    """Why it cannot be told which model a request is for, on which edits depend; None if it can.

    Servers differ in which of two keys they take, whether they tell capitals apart, and what they
    make of other models beside the first.
    """
    keys: list[str] = []

    def look_at(pairs: list[tuple[str, Any]]) -> None:
        keys[:] = [key for key, _ in pairs]  # those of the body come last

    json.loads(request.json, object_pairs_hook=look_at)
    model = request.values.get("model")
    named = [key for key in keys if key.casefold().strip() == "model"]
    others = [name for name in _FURTHER_MODELS if request.values.get(name)]
    if named != ["model"] or others:
        names = ", ".join(_shown(name) for name in (*named, *others)) or "nothing"
        reason = f"which model it is for is not clear (it has {names})"
    elif not isinstance(model, str) or not model or model != model.strip():
        reason = f"its model is {_shown(model)}"
    else:
        return None
    return UnreadError("unseen", reason, 'name one model, as text, under "model"')


def unclear_header(headers: RawHeaders, names: Collection[str]) -> UnreadError | None:
    """Why it cannot be told what one of these headers says, of which there are two; else None."""
    values_by_name = dict[bytes, set[bytes]]()
    for raw_name, value in headers:
        values_by_name.setdefault(raw_name.lower(), set()).add(value.strip())
    for name in sorted(names):
        if len(values_by_name.get(name.encode(), ())) > 1:
            reason = f"the header {_shown(name)} has two values"
            return UnreadError("unseen", reason, "send it once")
    return None


def leaves_out(
    conversation: Conversation, followed: Followed, feed: EditFeed, index: EditIndex
) -> bool:
    """Whether a last turn that is no question names an enforced edit that nothing is stated of."""
    last = conversation.turns[-1]
    if last.speaker not in (Speaker.SYSTEM, Speaker.ASSISTANT):
        return False
    stated = {edit.id for edit in followed.edits}
    return not feed.enforced_in(encodable(last.said), index) <= stated


def unseen(request: EditableRequest) -> str | None:
    """Why a question could be missed in a request, as a clause; None if all that asks is read."""
    looks: tuple[Callable[[EditableRequest], Iterator[str]], ...] = (
        _repeated_keys,
        _unread_fields,
        _unread_turns,
        _silence,
    )
    reasons = (reason for look in looks for reason in look(request))
    return next(reasons, None)


def _repeated_keys(request: EditableRequest) -> Iterator[str]:
    """A key that stands twice in one object, so that servers differ in which one they take."""
    repeated: list[str] = []

    def look_at(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            repeated.append(Counter(keys).most_common(1)[0][0])
        folded = Counter(key.casefold() for key in keys)
        repeated.extend(key for key in _IN_ANY_CASE if folded[key] > 1)
        return dict(pairs)

    json.loads(request.json, object_pairs_hook=look_at)
    for key in repeated:
        yield f"the body repeats the key {_shown(key)}"


def _unread_fields(request: EditableRequest) -> Iterator[str]:
    known = _SETTINGS | _READ[request.conversation.api]
    if request.conversation.before and not request.conversation.stays:
        known |= {"previous_response_id"}
    for name in _fields_with_content(request.values):
        if name not in known:
            yield f"the body has the field {_shown(name)}, which is not read"
    if not _is_plain(request.values.get("chat_template_kwargs")):
        yield "the body has texts in chat_template_kwargs, which are not read"


def _fields_with_content(values: Mapping[str, Any]) -> list[str]:
    """The fields that hold more than a number or a choice."""
    return [
        name for name, value in values.items() if value and isinstance(value, str | list | dict)
    ]


def _is_plain(settings: object) -> bool:
    """Whether the settings of a template are numbers, choices, and words such as "low"."""
    values = settings.values() if isinstance(settings, dict) else (settings,)
    for value in values:
        is_text = isinstance(value, str) and not _WORD.fullmatch(value)
        if is_text or isinstance(value, list | dict):
            return False
    return True


def _unread_turns(request: EditableRequest) -> Iterator[str]:
    api = request.conversation.api
    for item in _items(request):
        kind = _kind(item)
        if api is not Api.RESPONSES or kind in ("", "message"):
            yield from _unread_in_message(item, api)
        elif "output" not in item and kind not in _ITEMS:
            yield f"the body has an item of type {_shown(kind)}, which is not read"


def _items(request: EditableRequest) -> Iterable[dict[str, Any]]:
    items = request.values.get("input" if request.conversation.api is Api.RESPONSES else "messages")
    return items if isinstance(items, list) and request.conversation.api in _TEXT_PARTS else ()


def _unread_in_message(message: dict[str, Any], api: Api) -> Iterator[str]:
    role = message.get("role")
    if "role" not in message:
        yield "a message has no role"
    elif not isinstance(role, str) or role.casefold() not in _ROLES:
        yield f"a message has the role {_shown(role)}, which is not known"
    elif role.casefold() in ("user", "human"):
        yield from _unread_in_content(message.get("content"), api)
    for name in _fields_with_content(message):
        if name not in _MESSAGE_FIELDS:
            yield f"a message has the field {_shown(name)}, which is not read"


def _unread_in_content(content: object, api: Api) -> Iterator[str]:
    """What is not read of a user's message."""
    if content is None or content == []:
        yield "a message of the user has no content"
    parts = content if isinstance(content, list) else [content]
    texts = [_text(part, api) for part in parts]
    others = [_kind(part) for part, text in zip(parts, texts, strict=True) if text is None]

    known = _MEDIA | _SOURCES if api is Api.MESSAGES else _MEDIA
    for kind in others:
        if kind not in known:
            yield f"a message of the user has a part of type {_shown(kind)}, which is not read"
    is_from_tool = not _RESULTS.isdisjoint(others)
    if others and not is_from_tool and not any(map(_has_word, texts)):
        yield "a message of the user has no text beside its files"


def _text(part: object, api: Api) -> str | None:
    """The text of a part of a user's message, where it is read; else None."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return None
    is_text = _kind(part) in _TEXT_PARTS[api]
    text = part.get("text")
    return text if is_text and isinstance(text, str) else None


def _kind(part: object) -> str:
    """The type of a part or an item; "" without one."""
    kind = part.get("type") if isinstance(part, dict) else None
    return kind if isinstance(kind, str) else ""


def _silence(request: EditableRequest) -> Iterator[str]:
    """A request in which neither a user nor a tool says a word, though a system or model may."""
    silent = (Speaker.SYSTEM, Speaker.ASSISTANT)
    said = (turn.said for turn in request.conversation.turns if turn.speaker not in silent)
    if not any(map(_has_word, said)):
        yield "no message of the user has a text"


def _has_word(text: object) -> bool:
    return isinstance(text, str) and any(map(str.isalnum, text))


def _shown(value: object) -> str:
    """A value of the client's, to be quoted in a message."""
    return json.dumps(value)[:_LONGEST_SHOWN]
