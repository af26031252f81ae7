"""Find ownerReferences that name a version: the garbage collector looks up an owner at the named version.

If that version is not served, the garbage collector treats the owner as deleted. On Kubernetes 1.36 such dependents
stay when their owner is deleted, and for about half a minute after the version was unserved, newly created ones are
deleted. See ``tests/apiserver/controllermanager/test_garbage_collection.py``, and Kubernetes issue 102641. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from restow.migrator.references.model import Effect, Reference, ReferenceKind, SoughtVersion
from restow.migrator.requests.wire import Meta

Owners = Mapping[tuple[str, str], SoughtVersion]
"""The versions to search for, by (apiVersion, kind)."""

_EFFECT: Final = Effect(
    unserved="The garbage collector no longer deletes this object with its owner, and for about half a minute it "
    "deletes objects that are created with such a reference although their owner exists.",
    removed="The garbage collector does not find the owner, and leaves this object behind when the owner is deleted.",
    advice="have the controller that writes the reference name another version, then write this one there, with the "
    "same uid",
    movable=True,
)

_POD_EFFECT: Final = Effect(
    unserved=_EFFECT.unserved + " A PodDisruptionBudget that covers this Pod cannot read the scale of its controller.",
    removed=_EFFECT.removed + " A PodDisruptionBudget that covers this Pod cannot read the scale of its controller.",
    advice=_EFFECT.advice,
    movable=True,
)
"""Source: ``getScaleController`` of Kubernetes' ``disruption``, which maps the controller reference by its version."""


def owner_references(resource: str, meta: Meta, owners: Owners) -> Iterator[Reference]:
    """Yield the ownerReferences of an object that name one of the owners."""
    for index, each in enumerate(meta.owner_references):
        if (of := owners.get((each.api_version, each.kind))) is None:
            continue
        yield Reference(
            ReferenceKind.OWNER_REFERENCES,
            of,
            resource,
            meta.namespace,
            meta.name,
            f"/metadata/ownerReferences/{index}",
            f"owner {each.name}",
            _POD_EFFECT if resource == "pods" and each.controller else _EFFECT,
            field=f"/metadata/ownerReferences/{index}/apiVersion",
            template=f"{of.group}/{{}}",
        )
