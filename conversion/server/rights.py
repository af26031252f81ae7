"""Asks the API server whether the sender of an admission request holds a right, by a SubjectAccessReview."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from restow.conversion.reviews.admission import UserInfo
from restow.kube.cluster import Cluster
from restow.kube.resources import SUBJECT_ACCESS_REVIEWS, Resource


class _Status(msgspec.Struct, frozen=True):
    allowed: bool


class _Review(msgspec.Struct, frozen=True):
    status: _Status


_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(_Review)


async def holds(
    cluster: Cluster, user: UserInfo, verb: str, resource: Resource, name: str = "", namespace: str = ""
) -> bool:
    """Return whether a user holds a verb on an object; without a name, on all objects of the resource.

    Raises:
        KubeError: the API server refuses the request, or cannot be reached.
    """
    asked = {"user": user.username, "groups": user.groups, "uid": user.uid, "extra": user.extra}
    attributes = {
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "namespace": namespace,
        "name": name,
        "verb": verb,
    }
    spec: dict[str, Any] = {part: value for part, value in asked.items() if value}
    body = {
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
        "kind": "SubjectAccessReview",
        "spec": spec | {"resourceAttributes": attributes},
    }
    reply = await cluster.create(SUBJECT_ACCESS_REVIEWS, _encode(body))
    return reply.decode(_decoder).status.allowed
