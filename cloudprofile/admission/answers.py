"""What a client is told: verdicts of the rules as verdicts of admission. Pure.

A refusal names the object, and each field with its rule, as the API server's own validation does (422). Warnings are
shortened to what an API server passes on: it cuts a warning at 256 characters once all together exceed 4 KiB.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from itertools import islice

from restow.cloudprofile.findings import Finding, refusal
from restow.conversion.admission import AdmissionRequest, Verdict
from restow.kube.resources import qualified_name

__all__ = ["ALLOWED", "answer", "is_judged", "subject", "warned"]

ALLOWED = Verdict()

_LONGEST = 256
_MOST = 15
_MOST_REASONS = 100

#: Of more warnings than these not even the number is told.
_MOST_COUNTED = 1000


def subject(request: AdmissionRequest) -> str:
    """Return the name of the object of a request, with its namespace; on create it may have none yet."""
    metadata = (request.object or {}).get("metadata") if not request.name else None
    named = metadata if isinstance(metadata, dict) else {}
    name = request.name or named.get("name") or named.get("generateName") or ""
    return qualified_name(request.namespace, name)


def is_judged(request: AdmissionRequest) -> bool:
    """Whether a request creates or updates a whole object; nothing else is any step's business."""
    return request.operation in {"CREATE", "UPDATE"} and not request.sub_resource and request.has_object


def answer(
    request: AdmissionRequest, found: Iterable[Finding], warnings: Iterable[str] = (), *, note: str = ""
) -> Verdict:
    """Return the verdict: refused if there are findings, with warnings in either case.

    ``note`` is said behind the findings.
    """
    reasons = tuple(found)
    if not reasons:
        return warned(ALLOWED, warnings)
    notes = [note] if note else []
    if len(reasons) > _MOST_REASONS:
        notes.append(f"and {len(reasons) - _MOST_REASONS} more reasons like these")
    message = refusal(request.kind.kind, subject(request), reasons[:_MOST_REASONS])
    message += f" ({'; '.join(notes)})" if notes else ""
    return warned(Verdict(allowed=False, message=message, code=HTTPStatus.UNPROCESSABLE_ENTITY), warnings)


def warned(verdict: Verdict, warnings: Iterable[str]) -> Verdict:
    """Return a verdict with further warnings, each once."""
    texts = list(dict.fromkeys(map(_shortened, islice(warnings, _MOST_COUNTED))))
    if len(texts) > _MOST:
        texts = [*texts[:_MOST], f"and {len(texts) - _MOST} more warnings like these"]
    return replace(verdict, warnings=(*verdict.warnings, *texts))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
