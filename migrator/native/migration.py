"""The cluster's own StorageVersionMigration (``storagemigration.k8s.io``, KEP-4192) as data: its shape and its states.

What its controller does, by its source in Kubernetes 1.36 and 1.37: it takes the resource's resourceVersion when it
first sees the object (``status.resourceVersion``), sends every object that is not newer nothing but its identity (as an
apply; from 1.37 on as a merge patch), and ends ``Succeeded`` or ``Failed`` (the first refused object fails it; a 500 it
repeats for ever). Then a second controller sets the CRD's condition StorageMigrating to False, *prunes storedVersions,
also after a failure*, and sets ``Running`` to False. Only then it is over. One that is deleted while it runs leaves the
condition True for good. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Any

import msgspec

from restow.crds import Crd
from restow.kube.resources import Resource

__all__ = [
    "NATIVE_MIGRATIONS",
    "NativeMigration",
    "NativeState",
    "active",
    "failed_prune",
    "native_decoder",
    "native_list_decoder",
    "native_manifest",
    "native_name",
    "without_condition",
]

NATIVE_MIGRATIONS = tuple(
    Resource("storagemigration.k8s.io", version, "storageversionmigrations", namespaced=False)
    for version in ("v1", "v1beta1")
)
"""The versions that are understood, newest first; v1alpha1 had another shape."""

_FAILED = ("StorageMigrating", "False", "MigrationFailed")


class NativeState(StrEnum):
    """Where it is; ``ending``: it has ended, but the CRD has not been told yet."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"

    @property
    def over(self) -> bool:
        """Whether nothing is done for it any more."""
        return self in (NativeState.SUCCEEDED, NativeState.FAILED)


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Of(msgspec.Struct, frozen=True):
    group: str = ""
    resource: str = ""


class _Spec(msgspec.Struct, frozen=True):
    resource: _Of = _Of()


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class NativeMigration(msgspec.Struct, frozen=True):
    """One StorageVersionMigration."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def resource_version(self) -> str:
        """What it takes an object for written since, if that is newer; empty before it has begun."""
        return self.status.resource_version

    @property
    def state(self) -> NativeState:
        """Where it is."""
        true = {each.type for each in self.status.conditions or () if each.status == "True"}
        ended = true & {"Succeeded", "Failed"}
        if "Running" in true:
            return NativeState.ENDING if ended else NativeState.RUNNING
        if "Failed" in true:
            return NativeState.FAILED
        return NativeState.SUCCEEDED if ended else NativeState.PENDING

    @property
    def message(self) -> str:
        """Why it failed, as the controller says it."""
        return next((each.message for each in self.status.conditions or () if each.type == "Failed"), "")

    def concerns(self, crd: Crd) -> bool:
        """Whether it migrates this CRD's objects."""
        return (self.spec.resource.group, self.spec.resource.resource) == (crd.group, crd.plural)


class _List(msgspec.Struct, frozen=True):
    items: tuple[NativeMigration, ...] | None = None


native_decoder = msgspec.json.Decoder(NativeMigration)
native_list_decoder = msgspec.json.Decoder(_List)


def native_name(crd: Crd, settle_s: float) -> str:
    """The name of the one that restow makes after so much settling.

    It is the same for the same CRD in the same generation: a run after a killed one finds it, and may believe its
    resourceVersion as the killed one would have.
    """
    told = msgspec.json.encode([crd.name, crd.uid, crd.generation, settle_s])
    return f"restow-{crd.plural}-{hashlib.sha256(told).hexdigest()[:12]}"


def native_manifest(crd: Crd, resource: Resource, settle_s: float) -> dict[str, Any]:
    """Return what is created."""
    return {
        "apiVersion": resource.api_version,
        "kind": "StorageVersionMigration",
        "metadata": {"name": native_name(crd, settle_s)},
        "spec": {"resource": {"group": crd.group, "resource": crd.plural}},
    }


def active(migrations: Iterable[NativeMigration], crd: Crd) -> tuple[NativeMigration, ...]:
    """Return those of this CRD that are not over, by name."""
    found = (each for each in migrations if each.concerns(crd) and not each.state.over)
    return tuple(sorted(found, key=lambda each: each.name))


def without_condition(crd: Crd) -> Crd:
    """Return the CRD without the condition StorageMigrating, where that was left over."""
    conditions = {kind: value for kind, value in crd.conditions.items() if kind != "StorageMigrating"}
    return replace(crd, conditions=conditions)


def failed_prune(crd: Crd) -> str:
    """Return when a StorageVersionMigration of this CRD failed last, or an empty string where the last one did not.

    Its controller prunes storedVersions all the same (``finishCRDMigration`` does not ask whether it succeeded), so
    they prove nothing then.
    """
    for each in (crd.document.get("status") or {}).get("conditions") or ():
        if (each.get("type"), each.get("status"), each.get("reason")) == _FAILED:
            return str(each.get("lastTransitionTime") or "once")
    return ""
