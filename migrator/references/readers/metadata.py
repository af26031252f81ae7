"""Find versions in the metadata of objects: ownerReferences, field managers, kubectl's last applied configuration.

The garbage collector looks up an owner at the version that an ownerReference names. If that version is not served, it
treats the owner as deleted. On Kubernetes 1.36 such dependents stay when their owner is deleted, and for about half a
minute after the version was unserved, newly created ones are deleted. See
``tests/apiserver/controllermanager/test_garbage_collection.py``, and Kubernetes issue 102641.

``WriterTally`` counts the writers of the CRD's own objects by field manager, with the time of the last write, instead
of listing objects. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.migrator.references.reference import Effect, Reference, ReferenceKind, SoughtVersion, same_effect
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


LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

_ENTRIES: Final = Effect(
    unserved="Nothing fails: the API server still converts the entry.",
    removed="Every server-side apply of the object fails (request to convert CR to an invalid group/version).",
    advice="have this client write another version, then run restow migrate, which translates the entries",
    against_unserving=False,
)
_APPLIED: Final = same_effect(
    "Nothing fails: kubectl apply takes the annotation for the fields that it set before, in the old version's shape.",
    "the next kubectl apply of a converted manifest (restow convert) writes it",
    stands=False,
)


class _Annotations(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Annotated(msgspec.Struct, frozen=True):
    metadata: _Annotations = _Annotations()


class _Applied(msgspec.Struct, frozen=True):
    api_version: str = msgspec.field(name="apiVersion", default="")


_annotated = msgspec.json.Decoder(_Annotated)
_applied = msgspec.json.Decoder(_Applied)


@dataclass(slots=True)
class _Writer:
    count: int = 0
    last: str = ""


@dataclass(slots=True)
class WriterTally:
    """Counts entries and annotations of one version, by manager."""

    of: SoughtVersion
    _writers: dict[str, _Writer] = field(default_factory=dict)
    _applied: int = 0

    def add(self, meta: Meta, text: msgspec.Raw | bytes) -> None:
        """Count the entries and annotations of one object of the CRD; ``text`` is the listed object."""
        for entry in meta.managed_fields:
            if entry.api_version == self.of.api_version:
                writer = self._writers.setdefault(entry.manager, _Writer())
                writer.count += 1
                writer.last = max(writer.last, entry.time)
        if LAST_APPLIED.encode() in bytes(text):
            self._applied += self._applied_at(text)

    def _applied_at(self, text: Any) -> bool:
        try:
            annotations = _annotated.decode(text).metadata.annotations or {}
            return _applied.decode(annotations.get(LAST_APPLIED, "{}")).api_version == self.of.api_version
        except (msgspec.MsgspecError, RecursionError):
            return False  # kubectl did not write this annotation

    def references(self) -> Iterator[Reference]:
        """Yield a reference for each manager, and one for all annotations."""
        for manager, writer in sorted(self._writers.items()):
            yield Reference(
                ReferenceKind.MANAGED_FIELDS,
                self.of,
                self.of.crd,
                "",
                manager,
                "/metadata/managedFields",
                f"entries of {manager}, last written {writer.last or 'at an unknown time'}",
                _ENTRIES,
                count=writer.count,
            )
        if self._applied:
            pointer = "/metadata/annotations/" + LAST_APPLIED.replace("/", "~1")
            detail = "last applied by kubectl at this version"
            yield Reference(
                ReferenceKind.LAST_APPLIED, self.of, self.of.crd, "", "", pointer, detail, _APPLIED, self._applied
            )
