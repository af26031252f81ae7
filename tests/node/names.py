"""Names of Services for pods: a DNS server of a hundred lines in the place of CoreDNS, which is an image of its own.

It answers ``NAME.NAMESPACE.svc`` and ``NAME.NAMESPACE.svc.cluster.local`` with the Service's address, and nothing else.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

from restow.controlplane.plane import ControlPlane

__all__ = ["serve_names"]

_ADDRESS, _IN, _TTL = 1, 1, 2
_NO_SUCH_NAME = 3
_ANSWER = 0x8580  # an answer with authority, to a question that may recurse


@contextlib.contextmanager
def serve_names(plane: ControlPlane, address: str) -> Iterator[None]:
    """Answer at port 53 of ``address`` while the context lasts."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((address, 53))
        thread = threading.Thread(target=_serve, args=(listener, plane), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            stop.sendto(b"", (address, 53))
            stop.close()
            thread.join()


def _serve(listener: socket.socket, plane: ControlPlane) -> None:
    while True:
        question, client = listener.recvfrom(1500)
        if not question:
            return
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, struct.error, IndexError):
            listener.sendto(_answer(question, plane), client)


def _answer(question: bytes, plane: ControlPlane) -> bytes:
    (identity,) = struct.unpack("!H", question[:2])
    labels, place = [], 12
    while length := question[place]:
        labels.append(question[place + 1 : place + 1 + length].decode())
        place += 1 + length
    (kind,) = struct.unpack("!H", question[place + 1 : place + 3])
    asked = question[12 : place + 5]
    found = _service(labels, plane)
    records = b""
    if found and kind == _ADDRESS:
        records = struct.pack("!HHHIH", 0xC00C, _ADDRESS, _IN, _TTL, 4) + socket.inet_aton(found)
    flags = _ANSWER | (0 if found else _NO_SUCH_NAME)
    return struct.pack("!HHHHHH", identity, flags, 1, int(bool(records)), 0, 0) + asked + records


def _service(labels: list[str], plane: ControlPlane) -> str | None:
    """Return the address of a Service by its name."""
    if labels[2:] not in (["svc"], ["svc", "cluster", "local"]):
        return None
    server = urlsplit(plane.server)
    connection = http.client.HTTPSConnection(server.netloc, context=plane.admin.ssl_context(), timeout=5)
    try:
        connection.request("GET", f"/api/v1/namespaces/{labels[1]}/services/{labels[0]}")
        response = connection.getresponse()
        body = response.read()
        return json.loads(body)["spec"]["clusterIP"] if response.status == 200 else None
    finally:
        connection.close()
