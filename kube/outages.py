"""When no answer comes: what aiohttp and the socket raise, as this room's errors and in words.

Their own texts show objects, tuples and the name of a C file; a user wants to hear which server, and what ails it.
"""

from __future__ import annotations

import os
import socket
import ssl

import aiohttp

from restow.kube.errors import KubeError, TimedOut, Unreachable, Untrusted

__all__ = ["PlainErrors"]


class PlainErrors:
    """Turn what aiohttp and the socket raise into this room's errors; a sentence, with the original chained."""

    __slots__ = ("_host", "_target", "_verb")

    def __init__(self, verb: str, target: str, host: str) -> None:
        self._verb = verb
        self._target = target
        self._host = host

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, KubeError):
            return
        if isinstance(error, TimeoutError):
            msg = f"{self._verb} {self._target}: {self._host} did not answer in time"
            raise TimedOut(msg) from error
        if isinstance(error, (aiohttp.ClientError, OSError)):
            msg = f"{self._verb} {self._target}: {self._host} cannot be reached ({_why(error)})"
            unknown = isinstance(getattr(error, "certificate_error", error), ssl.SSLCertVerificationError)
            raise (Untrusted if unknown else Unreachable)(msg) from error


def _why(error: Exception) -> str:
    """What went wrong on the way, in words: the texts of aiohttp and the socket show objects and tuples."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"its proxy answered {error.status} {error.message}".rstrip()
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "it closed the connection without an answer"
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    via = "its proxy: " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{via}its certificate is not to be trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"{via}no TLS connection: {(cause.reason or 'failed').replace('_', ' ').lower()}"
    if isinstance(cause, socket.gaierror):
        return f"{via}its name is not known"
    if isinstance(cause, OSError) and cause.errno:
        return f"{via}{os.strerror(cause.errno).lower()}"
    if isinstance(cause, ConnectionError):
        return f"{via}it closed the connection"
    return f"{via}{str(cause).strip() or type(cause).__name__}"
