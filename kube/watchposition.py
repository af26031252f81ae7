"""Where a list-watch stands, and what the end of a stream means for it. Pure: each step returns a new position.

The rules (API concepts, "410 Gone responses"; client-go's reflector):

==========================================  ==========================================================
the stream …                                then
==========================================  ==========================================================
was closed by the server                    reopen at the last resourceVersion
ended in a reset, a timeout, a broken line  reopen there
was refused with 429 or 5xx                 reopen there, ``Retry-After`` respected; given up for a new
                                            list after five server errors at one resourceVersion
was refused with 410                        the history is gone: list anew
was refused with 401, 403, 404              raise, unless it worked before and this is not the sixth time in
                                            a row: a starting API server answers 403 until it knows its RBAC
was refused with another 4xx                raise: waiting does not help
==========================================  ==========================================================

There is no hot loop: a stream is followed at once only if it was closed normally after having lived for
``HEALTHY`` seconds; everything else waits, longer each time, until a stream has lived that long again. That a list
succeeded proves nothing, and neither do events: both can come again and again from a server that keeps closing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from restow.kube.backoff import Backoff
from restow.kube.errors import (
    ApiError,
    BadReply,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

__all__ = ["HEALTHY", "WATCH_BACKOFF", "Position"]

HEALTHY = 10.0  # seconds
WATCH_BACKOFF = Backoff(first=0.8, most=30.0)  # client-go's reflector
_SERVER_ERRORS_BEFORE_RELIST = 5
_REFUSALS_BEFORE_RAISE = 6  # with their back-off 12 to 25 seconds


@dataclass(frozen=True, slots=True)
class Position:
    """Where a list-watch stands.

    Attributes:
        version: the resourceVersion to watch from, or None if a list is needed.
        failures: streams in a row that did not end well.
        server_errors: 5xx in a row while watching from ``version``.
        worked: whether a list has succeeded.
        refusals: 401, 403 and 404 since something last worked.
        at_least: seconds that the server asked to wait before the next request.
    """

    version: str | None = None
    failures: int = 0
    server_errors: int = 0
    worked: bool = False
    refusals: int = 0
    at_least: float = 0.0

    def seen(self, version: str) -> Position:
        """Return the position after a list or an event at ``version``."""
        return replace(self, version=version, server_errors=0, worked=True, refusals=0)

    def closed(self, lived: float) -> Position:
        """Return the position after the server closed a stream that was open for ``lived`` seconds."""
        return replace(self, failures=0 if lived >= HEALTHY else self.failures + 1, refusals=0, at_least=0.0)

    def failed(self, error: KubeError, lived: float) -> Position:
        """Return the position after a list or stream failed; ``lived`` is 0 if no stream was open.

        Raises:
            KubeError: ``error`` itself, if it does not pass by waiting.
        """
        refusals = self.refusals + isinstance(error, (Unauthorized, Forbidden, NotFound))
        may_pass = isinstance(error, (Gone, TooManyRequests, ServerError, Unreachable, BadReply))
        if not may_pass and not (self.worked and self.refusals < refusals < _REFUSALS_BEFORE_RAISE):
            raise error
        server_errors = self.server_errors + isinstance(error, ServerError)
        lost = isinstance(error, Gone) or server_errors >= _SERVER_ERRORS_BEFORE_RELIST
        return Position(
            version=None if lost else self.version,
            failures=1 if lived >= HEALTHY else self.failures + 1,
            server_errors=0 if lost else server_errors,
            worked=self.worked,
            refusals=refusals,
            at_least=(error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0,
        )

    def delay(self, chance: float) -> float:
        """Return the seconds to wait before the next request; ``chance`` is a random number from [0, 1)."""
        return max(self.at_least, WATCH_BACKOFF.delay(self.failures, chance))
