"""The guard around every step: it admits only its own kind, checks the shape first, and fails closed.

The guard admits an update that does not change the spec (a migration, a label) before the step decides. For all other
requests it checks the shape before the rules run. Mutating admission runs before the API server's own validation, so
a step may get any JSON: a version that YAML reads as a number, a string instead of a list. A finding names the field
and the type, as the server's own error does. So a rule may read every field that the schema declares, and no other.
Values of a wrong type in the stored object, from a time when no schema declared their fields, count as missing, so that
an update can correct them. The guard also limits the length of lists, because the time of some rules grows faster than
the list. It refuses an object that is nested more deeply than any schema, because the operator could not list its kind
any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

from restow.cloudprofile.admission.responses import ALLOWED, answer, is_judged, subject
from restow.cloudprofile.findings import ValidationFinding, invalid
from restow.cloudprofile.objects import GROUP
from restow.cloudprofile.versions.lifecycle import InvalidTime
from restow.cloudprofile.versions.semver import InvalidRange, InvalidVersion
from restow.conversion.model.deepjson import DEEPEST
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server import AdmissionStep
from restow.conversion.server.timeslices import offload
from restow.crds import Schema, type_problems
from restow.crds.paths import ROOT, field_path, item_path
from restow.crds.types import fitting
from restow.kube.errors import KubeError, TooManyRequests, describe_failure


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
        if not is_judged(request):
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
