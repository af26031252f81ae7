"""Free TCP ports on the loopback address."""

from __future__ import annotations

import contextlib
import socket

__all__ = ["free_ports"]

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports that nothing listens on now.

    The kernel gives ports in a rotating order, yet another process may take one before it is bound: the
    caller retries its start then (``PortTakenError``).
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
