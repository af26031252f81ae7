"""Ports of this machine for servers that tests start, when the address must be known before the server listens."""

from __future__ import annotations

import socket

_reserved: list[socket.socket] = []


def free_port() -> int:
    """Reserve a port of 127.0.0.1 until this process ends, and return it.

    A socket that is bound and does not listen keeps the kernel from giving the port to anybody who asks for any port,
    or connects. A server may listen at it all the same, again and again: servers allow that an address is reused.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    _reserved.append(reserved)
    return int(reserved.getsockname()[1])
