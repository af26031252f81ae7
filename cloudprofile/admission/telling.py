"""What a client is told of objects that are not its own.

Without client certificates anybody who reaches the port may ask, about a request that was never made and in anybody's
name. So a refusal counts the objects that stand against it; their names are in the log, for those who run the
operator. With client certificates it is an API server that asks, and its client is told the names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from restow.cloudprofile.admission.answers import answer, subject
from restow.cloudprofile.findings import Finding, anonymous
from restow.conversion.admission import AdmissionRequest, Verdict
from restow.kube.clock import SYSTEM_CLOCK, Clock

__all__ = ["Telling"]

_log = logging.getLogger(__name__)

_MOST: Final = 20
_SECONDS_EACH: Final = 1.0


class Telling:
    """Answers requests.

    ``names`` says whether users' objects are named to who asks, else one line a second is logged.
    """

    def __init__(self, *, names: bool, clock: Clock = SYSTEM_CLOCK) -> None:
        self._names = names
        self._clock = clock
        self._silent_until = 0.0

    def answer(self, request: AdmissionRequest, found: Iterable[Finding], warnings: Iterable[str] = ()) -> Verdict:
        """Return the verdict: refused if there are findings, with warnings in either case."""
        reasons = tuple(found)
        if self._names or all(reason.user is None for reason in reasons):
            return answer(request, reasons, warnings)
        now = self._clock.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + _SECONDS_EACH
            why = [str(reason) for reason in reasons[:_MOST]]
            details = {"kind": request.kind.kind, "name": subject(request), "reasons": len(reasons), "why": why}
            _log.info("%s", msgspec.json.encode({"event": "refused", **details}).decode())
        return answer(request, anonymous(reasons), warnings, note="the operator's log names the objects")
