"""Whether whoever sends a request holds a custom verb: asked of the API server by a SubjectAccessReview."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, Final

import msgspec

from restow.cloudprofile.admission.answers import ALLOWED
from restow.cloudprofile.resources import NAMESPACED_CLOUD_PROFILES
from restow.conversion.admission import AdmissionRequest, Verdict
from restow.kube.cluster import Cluster
from restow.kube.resources import Resource

__all__ = ["review_body", "review_verb"]

_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
_encode = msgspec.json.Encoder().encode


class _Status(msgspec.Struct, frozen=True):
    allowed: bool


class _Review(msgspec.Struct, frozen=True):
    status: _Status


_decoder = msgspec.json.Decoder(_Review)


def review_body(request: AdmissionRequest, verb: str) -> dict[str, Any]:
    """Return the SubjectAccessReview that asks for a verb on the NamespacedCloudProfile of a request."""
    user = request.user_info
    attributes = {
        "group": NAMESPACED_CLOUD_PROFILES.group,
        "version": NAMESPACED_CLOUD_PROFILES.version,
        "resource": NAMESPACED_CLOUD_PROFILES.plural,
        "namespace": request.namespace,
        "name": request.name,
        "verb": verb,
    }
    asked = {"user": user.username, "groups": user.groups, "uid": user.uid, "extra": user.extra}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {**{name: value for name, value in asked.items() if value}, "resourceAttributes": attributes},
    }


async def review_verb(cluster: Cluster, request: AdmissionRequest, verb: str) -> Verdict:
    """Refuse a request whose user does not hold a verb.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    reply = await cluster.create(_REVIEWS, _encode(review_body(request, verb)))
    if reply.decode(_decoder).status.allowed:
        return ALLOWED
    place = f'in the namespace "{request.namespace}"'
    message = (
        f"User {json.dumps(request.user_info.username)} cannot {request.operation.lower()} NamespacedCloudProfile "
        f"{json.dumps(request.name)} like this: changing spec.{_field(verb)} needs the verb {json.dumps(verb)} on "
        f"{NAMESPACED_CLOUD_PROFILES.full_name} {place}"
    )
    return Verdict(allowed=False, message=message, code=HTTPStatus.FORBIDDEN)


def _field(verb: str) -> str:
    return verb.removeprefix("modify-spec-")
