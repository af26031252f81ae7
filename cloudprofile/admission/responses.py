"""Admission responses: the verdicts of the rules, without the names of other users' objects.

A refusal names the object, and each field with its rule, as the API server's own validation does (422). If the object
is valid by itself and another object forbids it, the code is 403, as from Gardener's admission plugins. Warnings are
shortened as an API server does it: a warning is cut at 256 characters once all warnings together exceed 4 KiB.

Without client certificates anyone who reaches the port can send a review of a request that was never made, in any
user's name. So a refusal gives only the number of the objects that block it; the operator's log has their names. With
client certificates only the API server can send reviews, and its client gets the names.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from itertools import islice
from typing import Final

import msgspec

from restow.cloudprofile.findings import ValidationFinding, anonymous, is_denied, refusal
from restow.cloudprofile.objects import OLD
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.resources import qualified_name

ALLOWED = AdmissionResponse()

_LONGEST_WARNING = 256
_MOST_WARNINGS = 15
_MOST_REASONS = 100

#: The most warnings that are counted; beyond it the answer does not even give their number.
_MOST_COUNTED = 1000


def subject(request: AdmissionRequest) -> str:
    """Return the name of the object of a request, with its namespace; on create it may have none yet."""
    metadata = (request.object or {}).get("metadata") if not request.name else None
    named = metadata if isinstance(metadata, dict) else {}
    name = request.name or named.get("name") or named.get("generateName") or ""
    return qualified_name(request.namespace, name)


def is_judged(request: AdmissionRequest) -> bool:
    """Return whether a request creates or updates a whole object; the steps ignore all other requests."""
    return request.operation in {"CREATE", "UPDATE"} and not request.sub_resource and request.has_object


def answer(
    request: AdmissionRequest, found: Iterable[ValidationFinding], warnings: Iterable[str] = (), *, note: str = ""
) -> AdmissionResponse:
    """Return the verdict: refused if there are findings, with warnings in either case.

    ``note`` is appended to the findings.
    """
    reasons = tuple(_at_version(request, finding) for finding in found)
    if not reasons:
        return warned(ALLOWED, warnings)
    notes = [note] if note else []
    if len(reasons) > _MOST_REASONS:
        notes.append(f"and {len(reasons) - _MOST_REASONS} more reasons like these")
    message = refusal(request.kind.kind, subject(request), reasons[:_MOST_REASONS])
    message += f" ({'; '.join(notes)})" if notes else ""
    code = HTTPStatus.FORBIDDEN if is_denied(reasons) else HTTPStatus.UNPROCESSABLE_ENTITY
    return warned(AdmissionResponse(allowed=False, message=message, code=code), warnings)


def _at_version(request: AdmissionRequest, finding: ValidationFinding) -> ValidationFinding:
    """Return a finding with the fields that the client's version has: v1beta1 has no lifecycle."""
    if request.request_kind is None or request.request_kind.version != OLD:
        return finding
    return replace(finding, field=_LIFECYCLE.sub(lambda found: f".{found[1] or 'expirationDate'}", finding.field))


_LIFECYCLE: Final = re.compile(r"\.lifecycle(?:\[\d+\](?:\.(classification)|\.startTime)?)?$")


def warned(verdict: AdmissionResponse, warnings: Iterable[str]) -> AdmissionResponse:
    """Return a verdict with further warnings, each once."""
    texts = list(dict.fromkeys(map(_shortened, islice(warnings, _MOST_COUNTED))))
    if len(texts) > _MOST_WARNINGS:
        texts = [*texts[:_MOST_WARNINGS], f"and {len(texts) - _MOST_WARNINGS} more warnings like these"]
    return replace(verdict, warnings=(*verdict.warnings, *texts))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_WARNING else text[: _LONGEST_WARNING - 1] + "…"


_log = logging.getLogger(__name__)

_MOST_LOGGED: Final = 20
_SECONDS_EACH: Final = 1.0


class Responder:
    """A writer of answers to admission requests.

    ``names``: whether responses name other users' objects; otherwise the names go to the log, at most one line a
    second.
    """

    def __init__(self, *, names: bool, clock: Clock = SYSTEM_CLOCK) -> None:
        self._names = names
        self._clock = clock
        self._silent_until = 0.0

    def answer(
        self, request: AdmissionRequest, found: Iterable[ValidationFinding], warnings: Iterable[str] = ()
    ) -> AdmissionResponse:
        """Return the verdict: refused if there are findings, with warnings in either case."""
        reasons = tuple(found)
        if self._names or all(reason.user is None for reason in reasons):
            return answer(request, reasons, warnings)
        now = self._clock.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + _SECONDS_EACH
            why = [str(reason) for reason in reasons[:_MOST_LOGGED]]
            details = {"kind": request.kind.kind, "name": subject(request), "reasons": len(reasons), "why": why}
            _log.info("%s", msgspec.json.encode({"event": "refused", **details}).decode())
        return answer(request, anonymous(reasons), warnings, note="the operator's log names the objects")
