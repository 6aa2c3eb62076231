"""What of a text may be a password: in addresses, and in what is meant as one."""

import re
import unicodedata
from pathlib import Path

_HIDDEN = "***"
# What may hold a password, however it is misspelt: SCHEME:/...; postgres without a colon;
# USER:PASSWORD@; password=...; and libpq's host=... Names are bounded, so that long texts of one
# word take no longer than others.
_DOUBTFUL = re.compile(
    r"[a-z][\w+.-]{1,40}\s*:\s*[/\\]|postgres\w{0,40}\s*(?::|//)|^[^:\n]*:.*@"
    r"|(?:pass|pwd|secret|token)\w{0,40}\s*[=:]"
    r"|(?:^|\s)(?:host|hostaddr|dbname|user|service)\s*=",
    re.IGNORECASE | re.MULTILINE,
)
_DRIVE = re.compile(r"[a-z]:[/\\]", re.IGNORECASE)
# All up to the last @ of an address belongs to its login: a password may hold any sign.
_LOGIN = re.compile(r"(?P<scheme>//|\\\\|^(?!.*(?://|\\\\))).*@", re.DOTALL)
_VALUE = re.compile(
    r"(?P<name>(?:pass|pwd|secret|token|key)\w{0,40}\s*[=:]\s*)[^\s&;]+", re.IGNORECASE
)

# Of a process's arguments, each of which ends with a zero byte.
_SECRETS_OF_ARGUMENTS = (
    re.compile(rb"://[^\0/@:]*:(?P<secret>[^\0\s]*)@"),
    re.compile(rb"pass(?:word|wd)?\s*=\s*(?P<secret>[^\0&\s]+)", re.IGNORECASE),
)
_BEGIN_OF_ARGUMENTS = 45  # place of a field of /proc/self/stat, behind the program's name


def may_hold_password(text: str) -> bool:
    """Whether a text that is no address may be meant as one with a password."""
    folded = _folded(text)
    drive = _DRIVE.match(folded)
    behind = folded[drive.end() :] if drive else folded
    return _DOUBTFUL.search(behind) is not None


def without_secrets(address: str) -> str:
    """An address as a message may show it, also one that cannot be read."""
    folded = _folded(address)
    login, at, rest = folded.rpartition("@")
    shown = _LOGIN.sub(rf"\g<scheme>{_HIDDEN}@", login + at) + rest
    shown = _VALUE.sub(rf"\g<name>{_HIDDEN}", shown)
    return address if shown == folded else shown


def _folded(text: str) -> str:
    """A text without signs that nobody sees, and with full-width ones as usual."""
    seen = (sign for sign in text if unicodedata.category(sign) != "Cf")
    return unicodedata.normalize("NFKC", "".join(seen))


def hide_arguments() -> None:
    """Overwrite the passwords in this process's arguments, which all users of a machine may list.

    It does nothing where the system does not say where they are (it is Linux that does).
    """
    try:
        fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        begin, end = map(int, fields[_BEGIN_OF_ARGUMENTS : _BEGIN_OF_ARGUMENTS + 2])
        with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
            memory.seek(begin)
            arguments = memory.read(end - begin)
            hidden = arguments
            for secret in _SECRETS_OF_ARGUMENTS:
                hidden = secret.sub(_starred, hidden)
            if hidden != arguments:
                memory.seek(begin)
                memory.write(hidden)
    except (OSError, ValueError):
        return


def _starred(match: re.Match[bytes]) -> bytes:
    """What matches, with as many stars as its secret has bytes."""
    begin = match.start("secret") - match.start()
    end = match.end("secret") - match.start()
    return match[0][:begin] + b"*" * (end - begin) + match[0][end:]
