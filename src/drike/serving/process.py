"""`python -P -m drike.serving.process JSON`: a gateway in a process that has loaded neither the command line nor torch.

`drike serve --upstream` checks and prints everything, and then becomes this process, which listens on the same sockets
in a quarter of the memory.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import NoReturn

from drike.errors import DrikeError
from drike.serving.options import GatewayOptions
from drike.serving.start import Started, start
from drike.support.signals import ending_signals


def exec_gateway(started: Started) -> NoReturn:
    """Replace this process by one that serves on the sockets of `started`."""
    started.tenants.close()
    for listening in started.sockets:
        listening.set_inheritable(True)
    values = {"options": asdict(started.options), "sockets": [listening.fileno() for listening in started.sockets]}
    command = [sys.executable, "-P", "-m", __name__, json.dumps(values)]  # -P: no module from the working folder
    os.execv(sys.executable, command)  # noqa: S606 - it is this Python


def main() -> None:
    """Serve with the options of the command line until SIGINT, SIGTERM or SIGHUP."""
    for number in ending_signals():
        signal.signal(number, signal.default_int_handler)  # uvicorn raises a signal again once it has ended
    values = json.loads(sys.argv[1])
    api, admin = (socket.socket(fileno=number) for number in values["sockets"])
    try:
        started = start(GatewayOptions(**values["options"]), (api, admin))
    except DrikeError as problem:
        sys.exit(f"Error: {problem}")
    with suppress(KeyboardInterrupt):
        started.run()


if __name__ == "__main__":
    main()
