"""Who runs this process, by the operating system, whatever the environment says."""

import os
import sys

_LONGEST_NAME = 257  # characters of a user's name on Windows, with the zero at its end


def user_name() -> str:
    """The name of the user; of one who has none, as in a container, the number."""
    return _name_by_token() if sys.platform == "win32" else _name_by_number()


def _name_by_number() -> str:
    import pwd  # not on Windows

    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"


def _name_by_token() -> str:
    """The user of the token that this thread has. Raises OSError."""
    import ctypes

    name = ctypes.create_unicode_buffer(_LONGEST_NAME)
    length = ctypes.c_ulong(_LONGEST_NAME)
    libraries = ctypes.windll  # type: ignore[attr-defined, unused-ignore]
    if not libraries.advapi32.GetUserNameW(name, ctypes.byref(length)):
        raise OSError("Windows does not say who runs this process")
    return name.value
