"""The API server in memory for steps and reconcilers of CloudProfile: its objects, its requests, and its refusals."""

from __future__ import annotations

from typing import Any

from restow.kube.resources import Resource
from tests.memory.cluster import MemoryCluster, Request

__all__ = ["Memory"]

Document = dict[str, Any]


class Memory(MemoryCluster):
    """An API server that holds objects of kinds without a CRD.

    Attributes:
        verbs: the custom verbs of users, by their names.
        refusals: status and message by request, e.g. ``get shoots`` or ``patch status of shoots``.
    """

    def __init__(self, **held: list[Document]) -> None:
        super().__init__()
        self.verbs: dict[str, set[str]] = {}
        self.refusals: dict[str, tuple[int, str]] = {}
        self.before = self._refuse
        for plural, objects in held.items():
            for obj in objects:
                self.seed(plural, obj)

    @property
    def held(self) -> dict[tuple[str, str | None, str], Document]:
        """The objects by plural, namespace and name."""
        return {(plural, namespace or None, name): found for (plural, namespace, name), found in self._objects.items()}

    @property
    def asked(self) -> list[str]:
        """The requests in their order."""
        return [_asked(request) for request in self.requests]

    @property
    def patches(self) -> list[tuple[str, Document]]:
        """The patches that were not refused, as (``dry``, ``status`` or ``object``, body)."""
        return [(_part(each), each.body) for each in self.requests if each.verb == "patch"]

    @property
    def events(self) -> list[Document]:
        """The Events that were recorded."""
        return [each.body for each in self.requests if each.verb == "create" and each.resource.plural == "events"]

    def allows(self, spec: Document) -> bool:
        """Answer a review of a user's rights."""
        return spec["resourceAttributes"]["verb"] in self.verbs.get(spec["user"], set())

    def without_crd(self, request: Request) -> None:
        """Treat every kind as a built-in one."""

    async def _refuse(self, request: Request) -> None:
        if (asked := _asked(request)) in self.refusals:
            self.requests.remove(request)
            status, message = self.refusals[asked]
            raise self.error(request, status, "Refused", message)

    def note(self, verb: str, resource: Resource) -> None:
        """Record a request that a test answers itself."""
        self.requests.append(Request(verb, resource))


def _part(request: Request) -> str:
    return "dry" if request.dry_run else request.subresource or "object"


def _asked(request: Request) -> str:
    what = f" {_part(request)} of" if request.verb == "patch" else ""
    return f"{request.verb}{what} {request.resource.plural}"
