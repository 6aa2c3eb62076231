"""What may be private in a text, by its form, and the text without it.

All of it takes time linear in the text: each pattern begins only where a run of its signs begins,
and gives no sign of a run back.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_AROUND_CUT = 300  # characters read behind the limit on a text, to know what is cut in two
_KEY = r"[\w/+=-]"  # a sign of a key, base64 ones included
_LOCAL = r"[\w.+!#$%&'*/=?^{|}~-]"  # a sign before the @ of an e-mail address
# Beginnings of addresses that have no "//".
_SCHEMES = (
    r"s?ftps?|mailto|tel|sms|callto|sips?|xmpp|skype|jdbc|odbc|ssh|scp|smb|git|file|data|magnet|urn"
    r"|ldaps?|wss?|https?|postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?"
)

_AT = r"(?:@|%40|&#0*64;|&#x40;|&commat;|\s?[\[({<]\s?(?:at|ät|@)\s?[\])}>]\s?)"
_DOT = r"(?:\.|\s?[\[({<]\s?(?:dot|punkt|\.)\s?[\])}>]\s?)"
# Beginnings of keys by which services tell them from other words.
_KEYS_BEGIN = (
    r"sk|pk|rk|gh[oprsu]|github_pat|glpat|gloas|xox[a-z]|xapp|hf|npm|pypi|SG|shp[a-z]{2}|dop_v1|whsec"
    r"|nvapi|gsk|xai|r8|pat|figd|lin_api|secret|AccountKey"
)
_SECRETS = (
    r"pass(?:word|wd|phrase|code)?|pwd|passwort|kennwort|mot de passe|contraseña|senha"
    r"|密码|密碼|パスワード"
    r"|(?:(?:client|api|access|app|account|shared)[ _-]?)?(?:secret|token|key)"
    r"|authorization|set-cookie|cookie|session[ _-]?id|credentials?"
)
# What stands between the word and the secret: behind a verb, only what is no plain word is one.
_IS = (
    r"(?:\s{0,2}[=:：]\s{0,2}|\s(?:is|ist|est|es|lautet):?\s"
    r"(?=\S*\d|[^\s.,;:!?]*[^\w\s.,;:!?'’-]))"
)
_SEPARATOR = r"[\s().\-/_*·‐-―−]"  # between the digits of a number

# What names a person or opens a door, by its form; names in plain words are not found. Where two
# kinds overlap, the first one gives the name.
_KINDS = {
    "address": (
        r"(?i:(?<![a-z0-9+.-])[a-z0-9+.-]++://\S+"
        rf"|(?<![\w.+-])(?:(?:{_SCHEMES}):(?=\S)|www\d{{0,3}}\.)\S++"
        r"|(?<![\w.-])[\w-]++(?:\.[\w-]++)++(?<=\.[a-z]{2}|[a-z]{3})(?:/\S+|:\d{2,5}\b\S*)"
        r"|(?<![\w.-])localhost(?:[:/]\S*)"
        r"|(?<![\w/.])(?:/home|/users)/\S+|(?<!\w)[a-z]:\\\S+|(?<![^\s\"'(<])\\\\[\w.-]+\\\S+)"
        r"|(?<![^\s\"'(<\[{])[^\s:@/\"'(<\[{]++:[^\s@]{1,200}+@\S+"
    ),
    "e-mail": (
        rf"(?<!{_LOCAL})(?:{_LOCAL}++{_AT}|\"[^\"\n]{{1,64}}+\"@)"
        rf"(?:\[[^\]\s]{{1,60}}\]|[\w-]++(?:{_DOT}[\w-]++)*+)"
        rf"|(?<!{_LOCAL})[\w.+-]++ @ ?[\w-]++(?:\.[\w-]++)++"
        rf"|(?<![\w.+%-])(?!%)[\w.+-]++(?:%40|&#0*64;|&#x40;|&commat;)[\w-]++(?:\.[\w-]++)*+"
    ),
    "IP": (
        r"(?<!\d)\d{1,3}(?:\[?[.。]\]?\d{1,3}){3}(?!\d)(?::\d{1,5})?"
        r"|(?<![\w:])(?=[\da-fA-F:]*::|(?:[\da-fA-F]{1,4}:){4})[\da-fA-F:]{3,39}\b(?:\.\d{1,3}){0,3}"
        r"(?:%\w+)?|(?<![\w-])[\da-fA-F]{2}(?:-[\da-fA-F]{2}){5}(?![\w-])"
    ),
    "key": (
        rf"(?<!{_KEY})(?=[^\W\d_]|{_KEY}*?[^\W\d_])(?={_KEY}*?\d){_KEY}{{20,}}+(?:\.[\w-]{{4,}}+)*+"
        rf"|(?<![^\W_])(?:{_KEYS_BEGIN})[-_.](?:[\w-]{{12,}}+)(?:\.[\w-]++)*+"
        r"|(?<![^\W_])eyJ[\w-]{8,}+(?:\.[\w-]*+)*+"
        r"|-----BEGIN [^\n-]{0,60}-----(?s:.*?)(?:-----END[^\n-]{0,60}-----|\Z)"
        rf"|(?i:(?<![^\W_])(?:{_SECRETS})(?:{_IS}(?:(?:bearer|basic|token)\s)?[^\s,;]{{3,}}+))"
        r"|(?i:(?<!\w)(?:bearer|basic)\s(?=\S*\d|[\w+/=.-]{16})[\w+/=.~-]{4,}+)"
        r"|(?i:(?<!\w)(?:-u\s|--user\s|uid=|user(?:name)?=|username:)\s{0,2}[^\s:,;]++(?::\S+)?)"
        r"|(?<![^\W_])(?:PIN|TAN|CVV|CVC|OTP)(?:\s{0,2}[:=]\s{0,2}|\s(?:is\s)?)\d{3,8}(?!\d)"
    ),
    "number": (  # of a phone, a card, an account
        rf"\+?(?<!\d)\d(?:{_SEPARATOR}{{0,2}}\d){{6,}}"
        r"|(?<![^\W_])[A-Z]{2}\d{2}(?:[ -]?[A-Z\d]{4}){2,7}"
        r"(?:[ -]?(?=[A-Z]?\d)[A-Z\d]{1,3})?(?![^\W_])"
        r"|(?<![^\W_])(?=(?:[a-zA-Z]*+\d){7})[a-zA-Z\d]++"
    ),
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _KINDS.items()}


class _Hidden(NamedTuple):
    """What is hidden: its place in a text, and the kind that stands there instead."""

    begin: int
    end: int
    kind: str


class _Plain(NamedTuple):
    """A text as it looks, and the place of each of its signs in the text as it is."""

    text: str
    places: Sequence[int]


def redacted(text: str, longest: int) -> str:
    """The first `longest` characters without what is private.

    It has [e-mail] for an e-mail address, and so on. What is hidden is listed in `_KINDS`; what the
    limit would cut in two is left out.
    """
    plain = _plain(text, longest + _AROUND_CUT)
    parts = []
    shown_until = 0
    for hidden in _found(plain):
        if hidden.begin >= longest:
            break
        parts.append(text[shown_until : hidden.begin])
        shown_until = hidden.end
        if hidden.end > longest:
            break  # cut in two, it would not be known any more
        parts.append(f"[{hidden.kind}]")
    parts.append(text[shown_until:longest])
    return "".join(parts)


def _found(plain: _Plain) -> Iterator[_Hidden]:
    """What is private, in order; where several kinds overlap, all of it is one."""
    ranks = {kind: rank for rank, kind in enumerate(_PATTERNS)}
    found = sorted(
        _Hidden(match.start(), match.end(), kind)
        for kind, pattern in _PATTERNS.items()
        for match in pattern.finditer(plain.text)
    )
    if not found:
        return
    current = found[0]
    for hidden in found[1:]:
        if hidden.begin < current.end:
            kind = min(current.kind, hidden.kind, key=ranks.__getitem__)
            current = _Hidden(current.begin, max(current.end, hidden.end), kind)
        else:
            yield _in_text(current, plain)
            current = hidden
    yield _in_text(current, plain)


def _in_text(hidden: _Hidden, plain: _Plain) -> _Hidden:
    """The same by its place in the text as it is."""
    begin = plain.places[hidden.begin]
    return _Hidden(begin, plain.places[hidden.end - 1] + 1, hidden.kind)


def _plain(text: str, most: int) -> _Plain:
    """The first signs of a text that are seen, `most` at most, in their common forms.

    A full-width @ is an @, and signs without a width are left out.
    """
    if text.isascii():
        return _Plain(text[:most], range(most))
    part = text[: 4 * most]
    common = {sign: _common_form(sign) for sign in set(part)}
    signs = []
    places = []
    for place, sign in enumerate(part):
        if common[sign]:
            signs.append(common[sign])
            places.append(place)
            if len(signs) == most:
                break
    return _Plain("".join(signs), places)


def _common_form(sign: str) -> str:
    """A sign in its common form, if that is one sign; "" for one that is not seen."""
    is_selector = "\ufe00" <= sign <= "\ufe0f" or sign == "\u034f"
    if is_selector or unicodedata.category(sign) == "Cf":
        return ""
    form = unicodedata.normalize("NFKC", sign)
    return form if len(form) == 1 else sign
