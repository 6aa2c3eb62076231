"""Signals that ask a process to end."""

from __future__ import annotations

import signal


def ending_signals() -> tuple[int, ...]:
    """SIGTERM, and where there is one SIGHUP, which a closed terminal sends; not if it is ignored, as under nohup."""
    hangup: list[int] = [signal.SIGHUP] if hasattr(signal, "SIGHUP") else []
    return signal.SIGTERM, *(number for number in hangup if signal.getsignal(number) is not signal.SIG_IGN)
