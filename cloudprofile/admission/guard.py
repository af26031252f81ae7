"""The guard around every step, and the answers to requests.

A refusal names the object, and each field with its rule, as the API server's own validation does (422). If the object
is valid by itself and another object forbids it, the code is 403, as from Gardener's admission plugins. Warnings are
shortened as an API server does it: a warning is cut at 256 characters once all warnings together exceed 4 KiB.

Without client certificates anyone who reaches the port can send a review of a request that was never made, in any
user's name. So a refusal gives only the number of the objects that block it; the operator's log has their names. With
client certificates only the API server can send reviews, and its client gets the names.

The guard admits an update that does not change the spec (a migration, a label) before the step decides, and fails
closed. For all other requests it checks the shape before the rules run. Mutating admission runs before the API server's
own validation, so a step may get any JSON; a finding names the field and the type, as the server's own error does. So a
rule may read every field that the schema declares, and no other. Values of a wrong type in the stored object, from a
time when no schema declared their fields, count as missing, so that an update can correct them. The guard also limits
the length of lists, because the time of some rules grows faster than the list. It refuses an object that is nested more
deeply than any schema, because the operator could not list its kind any more.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

import msgspec

from restow.cloudprofile.findings import ValidationFinding, anonymous, invalid, is_denied, refusal
from restow.cloudprofile.objects import GROUP, OLD
from restow.cloudprofile.versions.lifecycle import InvalidTime
from restow.cloudprofile.versions.semver import InvalidRange, InvalidVersion
from restow.conversion.model.deepjson import DEEPEST
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server import AdmissionStep
from restow.conversion.server.timeslices import offload
from restow.crds import Schema, type_problems
from restow.crds.paths import ROOT, field_path, item_path
from restow.crds.types import fitting
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import KubeError, TooManyRequests, describe_failure
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


class GuardedStep:
    """A step for the creations and updates of one kind at one version, which fails closed.

    Args:
        step: decides; the object of its requests is never None.
        kind, version: the kind and version that it decides on.
        schema: the schema of that version; None to skip the check of the shape.
        pauses: the seconds before each retry while the API server fills a watch cache, which happens for a moment after
            every change of a CRD (a new CA bundle is enough); in total less than a webhook's timeout.
    """

    def __init__(
        self,
        step: AdmissionStep,
        kind: str,
        version: str,
        schema: Schema | None = None,
        *,
        pauses: Sequence[float] = (0.1, 0.2, 0.4, 0.8, 1.5),
    ) -> None:
        self._step = step
        self._kind = kind
        self._version = version
        self._schema = schema
        self._pauses = pauses

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the step's verdict, or a refusal with the reason."""
        if request.operation not in {"CREATE", "UPDATE"} or request.sub_resource or not request.has_object:
            return ALLOWED
        if (request.kind.group, request.kind.kind, request.kind.version) != (GROUP, self._kind, self._version):
            return AdmissionResponse(
                allowed=False,
                message=f"this step judges {self._kind} of {GROUP}/{self._version} and was asked about "
                f"{request.kind.kind} of {request.kind.group}/{request.kind.version}: its webhook's rules are wrong",
                code=HTTPStatus.BAD_REQUEST,
            )
        if await offload(request.size, request.keeps, "spec"):
            return ALLOWED
        if wrong := await offload(request.size, self._wrong, request):
            return answer(request, wrong)
        try:
            return await self._decided(await offload(request.size, self._fitting, request))
        except KubeError as error:
            return self._refused(request, f"what it refers to cannot be read: {describe_failure(error)}; try again")
        except (InvalidRange, InvalidTime, InvalidVersion) as error:
            return self._refused(request, f"the profile that it uses has a part that cannot be read: {error}")

    def _wrong(self, request: AdmissionRequest) -> tuple[ValidationFinding, ...]:
        if request.is_cut:
            return (invalid("object", f"is nested more than {DEEPEST} levels deep, which the operator does not read"),)
        if self._schema is None:
            return ()
        wrong = shape_findings(request.object, self._schema)
        if wrong or request.old_object is None:
            return wrong
        return tuple(islice(_too_long(request.old_object, self._schema, ROOT, " in the object as it is stored"), _MOST))

    def _fitting(self, request: AdmissionRequest) -> AdmissionRequest:
        old, schema = request.old_object, self._schema
        if old is None or schema is None or next(type_problems(old, schema), None) is None:
            return request
        return replace(request, old_object=fitting(old, schema))

    async def _decided(self, request: AdmissionRequest) -> AdmissionResponse:
        for pause in self._pauses:
            try:
                return await self._step(request)
            except TooManyRequests as error:
                if not error.initializing:
                    raise
                await asyncio.sleep(pause)
        return await self._step(request)

    def _refused(self, request: AdmissionRequest, why: str) -> AdmissionResponse:
        message = f'{self._kind} "{subject(request)}" cannot be judged: {why}'
        return AdmissionResponse(allowed=False, message=message, code=HTTPStatus.SERVICE_UNAVAILABLE)


_MOST: Final = 20


def shape_findings(obj: Any, schema: Schema) -> tuple[ValidationFinding, ...]:
    """Return a finding for each place where an object's shape differs from the schema, twenty at most."""
    if long := tuple(islice(_too_long(obj, schema, ROOT, ""), _MOST)):
        return long
    problems = islice(type_problems(obj, schema), _MOST)
    return tuple(invalid(problem.field or "object", problem.detail) for problem in problems)


def _too_long(value: Any, schema: Schema, path: str, where: str) -> Iterator[ValidationFinding]:
    """Yield a finding for each list with more items than its schema allows, whatever else is wrong."""
    if isinstance(value, dict):
        for name, child in value.items():
            field = schema.field(name) if isinstance(child, dict | list) else None
            if field is not None:
                yield from _too_long(child, field, field_path(path, name), where)
    elif isinstance(value, list) and (items := schema.items) is not None:
        most = schema.node.get("maxItems")
        if most is not None and len(value) > most:
            yield invalid(path.removeprefix("."), f"has {len(value)} items, at most {most} are allowed{where}")
            return
        for index, child in enumerate(value):
            if isinstance(child, dict | list):
                yield from _too_long(child, items, item_path(path, index), where)
