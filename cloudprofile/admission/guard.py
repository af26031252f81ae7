"""What every step has in common: it is asked about its own kind, and refuses what it cannot decide, with the reason.

An update that leaves the spec as it is, a migration or a label, is admitted before anything of it is decoded. Of any
other one the shape comes before the rules. What is nested deeper than anything in the schemas is refused: one such
object would keep the operator from reading a list of its kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from restow.cloudprofile.admission.answers import ALLOWED, answer, is_judged, subject
from restow.cloudprofile.admission.shape import shape_findings
from restow.cloudprofile.findings import Finding, invalid
from restow.cloudprofile.lifecycle import InvalidTime
from restow.cloudprofile.resources import GROUP
from restow.cloudprofile.semver import InvalidVersion
from restow.cloudprofile.versionrange import InvalidRange
from restow.conversion.admission import AdmissionRequest, Verdict
from restow.conversion.server import AdmissionStep
from restow.conversion.server.turns import aside
from restow.conversion.shallow import DEEPEST
from restow.crds import Schema
from restow.kube.errors import KubeError, TooManyRequests
from restow.kube.failures import describe_failure

__all__ = ["Guarded"]


class Guarded:
    """A step that is asked about the creations and updates of one kind at one version, and fails closed.

    Args:
        step: decides; the object of its requests is never None.
        kind, version: what it is for.
        schema: of that version; None for no look at the shape.
        pauses: seconds before each further try while the API server fills a watch cache anew, as it does for a moment
            when a CRD changed (our own new CA bundle is enough); together less than a webhook's timeout.
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

    async def __call__(self, request: AdmissionRequest, /) -> Verdict:
        """Return the step's verdict, or a refusal that says what it lacked."""
        if not is_judged(request):
            return ALLOWED
        if (request.kind.group, request.kind.kind, request.kind.version) != (GROUP, self._kind, self._version):
            return Verdict(
                allowed=False,
                message=f"this step judges {self._kind} of {GROUP}/{self._version} and was asked about "
                f"{request.kind.kind} of {request.kind.group}/{request.kind.version}: its webhook's rules are wrong",
                code=HTTPStatus.BAD_REQUEST,
            )
        if await aside(request.size, request.keeps, "spec"):
            return ALLOWED
        if wrong := await aside(request.size, self._wrong, request):
            return answer(request, wrong)
        try:
            return await self._decided(request)
        except KubeError as error:
            return self._refused(request, f"what it refers to cannot be read: {describe_failure(error)}; try again")
        except (InvalidRange, InvalidTime, InvalidVersion) as error:
            return self._refused(request, f"the profile that it uses has a part that cannot be read: {error}")

    def _wrong(self, request: AdmissionRequest) -> tuple[Finding, ...]:
        if request.is_cut:
            return (invalid("object", f"is nested more than {DEEPEST} levels deep, which the operator does not read"),)
        if self._schema is None:
            return ()
        wrong = shape_findings(request.object, self._schema)
        if wrong or request.old_object is None:
            return wrong
        return shape_findings(request.old_object, self._schema, stored=True)

    async def _decided(self, request: AdmissionRequest) -> Verdict:
        for pause in self._pauses:
            try:
                return await self._step(request)
            except TooManyRequests as error:
                if not error.initializing:
                    raise
                await asyncio.sleep(pause)
        return await self._step(request)

    def _refused(self, request: AdmissionRequest, why: str) -> Verdict:
        message = f'{self._kind} "{subject(request)}" cannot be judged: {why}'
        return Verdict(allowed=False, message=message, code=HTTPStatus.SERVICE_UNAVAILABLE)
