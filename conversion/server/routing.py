"""Which conversions are served for which CRD. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from restow.conversion.graph import Graph
from restow.crds import Crd

__all__ = ["conversions_by_crd"]


def conversions_by_crd(graph: Graph, crds: Iterable[Crd] = ()) -> dict[str, Graph]:
    """Return the graph of each kind alone, by the name of its CRD (``<plural>.<group>``).

    Alone, so that a CRD that names another one's path is told so. A kind whose CRD is not given gets the plural of an
    English word: what most CRDs have, and to be looked at where a kind is none.
    """
    names = {(crd.group, crd.kind): crd.name for crd in crds}
    return {
        names.get((group, kind)) or f"{_plural(kind)}.{group}": Graph({(group, kind): conversions})
        for (group, kind), conversions in graph.kinds.items()
    }


def _plural(kind: str) -> str:
    singular = kind.lower()
    if singular.endswith(("s", "x", "z", "ch", "sh")):
        return f"{singular}es"
    if singular.endswith("y") and not singular.endswith(("ay", "ey", "iy", "oy", "uy")):
        return f"{singular.removesuffix('y')}ies"
    return f"{singular}s"
