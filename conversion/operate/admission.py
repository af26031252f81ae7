"""Admission of ``ConversionRules``: refuses rules that no CRD could fit, and users who may not change the CRD.

Admission does not check whether rules fit their CRD, because both may come from one chart, in any order; the gates
check this.

``declarations`` says which right a user needs, and why. The step asks the API server about every user who creates or
deletes rules, changes their spec, an annotation of restow or an owner, or takes restow's finalizer away. Another owner
matters, because the garbage collector would delete the rules for it. Other changes of metadata pass. While the kind has
no CRD, a user needs the right on all CRDs; rules that convert nothing may be deleted without.

An answer is recorded for a new spec. A new value of the annotation ``DECLARED`` has one recorded for rules that are
there without an answer. No other change of metadata declares rules: controllers with many rights, this operator among
them, write metadata of any object.

An answer belongs to the object that has the name, or to a new one if the name is free. A creation under a name in use
fails after admission, so nothing is recorded for it.

There are two webhooks. The one for what gives a user something has the failure policy Fail. With Ignore, a spec would
be stored while no replica answers, and whoever reaches the port could have it recorded by a forged review. The other
one is for deletions and finalizers, and has the policy Ignore: they must be possible while no replica runs, and nothing
is released before a replica runs again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from restow.conversion.certificates.wiring.documents import configuration_document, webhook_document, webhook_rule
from restow.conversion.operate.declarations import EVERY, VERBS, Declarations, digest_of, needed
from restow.conversion.operate.gates import listed, mistakes, target_of, with_advice
from restow.conversion.operate.revisions import CONFIGURATION, DECLARED, FINALIZER
from restow.conversion.operate.targets import CrdFinder
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server.rights import holds
from restow.conversion.server.timeslices import offload
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Forbidden, NotFound
from restow.kube.resources import CRDS

#: The name of the step.
STEP: Final = "conversionrules"

_ALLOWED: Final = AdmissionResponse()
_OURS: Final = "restow.dev/"


class AdmitRules:
    """The step; answers are recorded in ``namespace``."""

    def __init__(self, cluster: Cluster, namespace: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._cluster = cluster
        self._crds = CrdFinder(cluster, clock, fresh_s=0.0)  # a wrong miss is a 403
        self._declarations = Declarations(cluster, namespace, clock)

    async def __call__(self, request: AdmissionRequest, /) -> AdmissionResponse:
        """Return the verdict.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
            CrdError: a CRD of the group is malformed.
        """
        gives = await offload(request.size, _gives, request)
        if not gives and not _takes(request):
            return _ALLOWED
        try:
            crd = await self._crd_of(request)
            if not gives and not crd:
                return _ALLOWED
            if not await self._holds_one(request, crd):
                user = json.dumps(request.user_info.username)
                said = f"User {user} cannot {request.operation.lower()} these rules: that takes {needed(crd or EVERY)}"
                return AdmissionResponse(allowed=False, message=said)
            verdict = await offload(request.size, _judge, request)
            if verdict.allowed and _declares(request) and not request.dry_run and await self._is_stored(request):
                await self._record(request, crd)
        except Forbidden as error:
            code = HTTPStatus.INTERNAL_SERVER_ERROR
            return AdmissionResponse(allowed=False, message=with_advice(str(error)), code=code)
        return verdict

    async def _holds_one(self, request: AdmissionRequest, crd: str) -> bool:
        name = "" if crd == EVERY else crd
        for verb in VERBS:
            if await holds(self._cluster, request.user_info, verb, CRDS, name):
                return True
        return False

    async def _is_stored(self, request: AdmissionRequest) -> bool:
        """Return whether the object is the one of its name, or can become it: no other one is there to stay."""
        metadata = _metadata(request.object)
        try:
            reply = await self._cluster.get(CONVERSION_RULES, metadata["name"], metadata_only=True)
        except NotFound:
            return True
        live = _metadata(reply.json())
        return "deletionTimestamp" in live or bool(live["uid"] == metadata["uid"])

    async def _record(self, request: AdmissionRequest, crd: str) -> None:
        document = request.object or {}
        before = None if request.old_object is None else await offload(request.size, digest_of, request.old_object)
        digest, metadata = await offload(request.size, digest_of, document), document["metadata"]
        user = request.user_info.username
        await self._declarations.add(metadata["name"], digest, metadata["uid"], crd or EVERY, user, keeps=before)

    async def _crd_of(self, request: AdmissionRequest) -> str:
        """Return the name of the target's CRD; empty if there is none, EVERY if the operator may not read it."""
        target = target_of(request.object or request.old_object or {})
        try:
            crd = await self._crds.find(*target) if target else None
        except Forbidden:
            return EVERY
        return "" if crd is None else crd.name


def _judge(request: AdmissionRequest) -> AdmissionResponse:
    """Refuse a document with mistakes, and another target."""
    if not request.has_object or request.keeps("spec"):
        return _ALLOWED
    document = request.object or {}
    found = mistakes(document)
    if found:
        return AdmissionResponse(allowed=False, message=listed(found, "mistake"), code=422)
    old = request.old_object
    if old is not None and target_of(old) != target_of(document):
        message = "/spec/target: another target cannot be given to rules. Create another ConversionRules object for it."
        return AdmissionResponse(allowed=False, message=message, code=422)
    return _ALLOWED


def _gives(request: AdmissionRequest) -> bool:
    """Return whether a request brings a spec, an annotation of restow, or an owner."""
    if not request.has_object or request.old_object is None:
        return request.has_object
    new, old = _metadata(request.object), _metadata(request.old_object)
    owners = "ownerReferences"
    return (
        not request.keeps("spec")
        or _own_annotations(new) != _own_annotations(old)
        or (new.get(owners) or []) != (old.get(owners) or [])
    )


def _takes(request: AdmissionRequest) -> bool:
    """Return whether a request takes the object away, or its finalizer."""
    now, before = (set(_metadata(each).get("finalizers") or ()) for each in (request.object, request.old_object))
    return not request.has_object or FINALIZER in before - now


def _declares(request: AdmissionRequest) -> bool:
    """Return whether a request brings a spec that its sender declares."""
    if not request.has_object:
        return False
    new, old = _own_annotations(_metadata(request.object)), _own_annotations(_metadata(request.old_object))
    return not request.keeps("spec") or new.get(DECLARED) != old.get(DECLARED)


def _metadata(document: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (document or {}).get("metadata") or {}
    return found


def _own_annotations(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {name: text for name, text in (metadata.get("annotations") or {}).items() if name.startswith(_OURS)}


def configuration(client_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration for a webhook at an address, without CA bundle."""
    name = f"{CONVERSION_RULES.plural}.{CONVERSION_RULES.group}"
    parts = ("annotations", "ownerReferences")
    declares = " || ".join(["request.operation == 'CREATE'", "object.spec != oldObject.spec", *map(_differs, parts)])
    releases = f"request.operation == 'DELETE' || {_differs('finalizers')}"
    webhooks = [
        webhook_document(
            name,
            client_config,
            [_rule("CREATE", "UPDATE")],
            conditions=({"name": "declares", "expression": declares},),
            side_effects="NoneOnDryRun",
        ),
        webhook_document(
            f"release.{name}",
            client_config,
            [_rule("UPDATE", "DELETE")],
            side_effects="NoneOnDryRun",
            failure_policy="Ignore",
            conditions=({"name": "releases", "expression": releases},),
        ),
    ]
    return configuration_document("ValidatingWebhookConfiguration", CONFIGURATION, webhooks)


def _differs(name: str) -> str:
    """Return the expression of CEL for: an update changes a part of the metadata."""
    now, before = (f"{each}.metadata.{name}" for each in ("object", "oldObject"))
    return f"has({now}) != has({before}) || (has({now}) && {now} != {before})"


def _rule(*operations: str) -> dict[str, Any]:
    rule: dict[str, Any] = webhook_rule(
        CONVERSION_RULES.group, CONVERSION_RULES.version, CONVERSION_RULES.plural, operations, namespaced=False
    )
    return rule
