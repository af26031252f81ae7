"""Requests that are answered with an HTTP error: the status, and a sentence that the API server passes on.

An API server shows its user the message of an error whose body is a ``Status`` (client-go ``rest/request.go``
``transformResponse``); it comes again by itself after 429 and 5xx with an integer ``Retry-After``
(``rest/with_retry.go``), up to ten times within its 30 seconds. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

import msgspec

__all__ = ["Refusal"]

_COME_AGAIN: Final = {"Retry-After": "1"}
_HEADERS: Final[Mapping[HTTPStatus, Mapping[str, str]]] = MappingProxyType(
    {
        HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": "POST"},
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE: {"Accept-Encoding": "identity"},
        HTTPStatus.TOO_MANY_REQUESTS: _COME_AGAIN,
        HTTPStatus.SERVICE_UNAVAILABLE: _COME_AGAIN,
    }
)


class Refusal(Exception):
    """A request is not served. ``why`` is one word for metrics; ``hangs_up``: the rest of its body is not wanted."""

    def __init__(self, status: HTTPStatus, why: str, message: str, *, hangs_up: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.why = why
        self.hangs_up = hangs_up

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the answer, besides its content type and length."""
        return _HEADERS.get(self.status, {})

    @property
    def body(self) -> bytes:
        """A ``Status``, as JSON."""
        return msgspec.json.encode(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": str(self),
                "reason": self.status.phrase.replace(" ", ""),
                "code": int(self.status),
            }
        )
