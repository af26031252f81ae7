"""What is asked for: to which version the objects of which kinds are to be brought.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from restow.conversion.errors import ConversionError
from restow.conversion.graph import Graph
from restow.crds import Crd

__all__ = ["NoTarget", "Targets"]


class NoTarget(ConversionError):
    """No kind has the version that was asked for; the message names those that there are."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The apiVersion for each (group, kind) that is to be converted; ``lists``: the kind of each (group, list kind)."""

    versions: Mapping[tuple[str, str], str]
    lists: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, graph: Graph, to: str, crds: Iterable[Crd] = ()) -> Targets:
        """Return the targets for ``v1beta2`` (every kind that has it) or ``group/v1beta2``.

        Raises:
            NoTarget: there is nothing to go to.
        """
        group, _, version = to.rpartition("/")
        versions = {
            name: f"{name[0]}/{version}"
            for name, kind in graph.kinds.items()
            if version in kind.visible_versions and (not group or group == name[0])
        }
        if not versions:
            known = (
                f"{kind}.{its_group} ({', '.join(each.visible_versions)})"
                for (its_group, kind), each in graph.kinds.items()
            )
            raise NoTarget(f"no kind has the version {to[:100]}; there are {'; '.join(known) or 'none'}")
        lists = {(its_group, f"{kind}List"): kind for its_group, kind in graph.kinds}
        return cls(versions, lists | {(crd.group, crd.list_kind): crd.kind for crd in crds})

    def of_object(self, api_version: object, kind: object) -> str | None:
        """Return the apiVersion that an object is to have, None if it is no concern of ours."""
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return None
        return self.versions.get((api_version.rpartition("/")[0], kind))

    def kind_of_items(self, api_version: object, kind: object) -> str | None:
        """Return the kind of the items of a typed list, None if it is no such list."""
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return None
        return self.lists.get((api_version.rpartition("/")[0], kind))

    @property
    def groups(self) -> frozenset[str]:
        """The groups of the kinds that are to be converted."""
        return frozenset(group for group, _ in self.versions)
