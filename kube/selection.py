"""Which objects of one resource a watch is about. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from restow.kube.resources import Resource

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects to list and to watch.

    Attributes:
        resource: the resource, at the version to read it at.
        namespace: one namespace, or None for all of them.
        label_selector, field_selector: in the API's own syntax; empty for everything.
        metadata_only: ask for apiVersion, kind and metadata alone (``PartialObjectMetadata``).
    """

    resource: Resource
    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False

    def params(self) -> dict[str, str]:
        """Return the query parameters that select."""
        selectors = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        return {name: value for name, value in selectors.items() if value}

    def __str__(self) -> str:
        return self.resource.describe(self.namespace)
