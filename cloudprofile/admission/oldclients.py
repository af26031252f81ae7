"""The step that tells clients of v1beta1 what their edit does not do, and what it takes along; it refuses nothing.

What is worth a warning, ``restow.cloudprofile.conversions`` knows. The step has to see what the client wrote, as it
wrote it. So it is registered at v1beta1 alone (matchPolicy Exact), and before the other mutating steps: once one of
those has patched the object, it has been to the hub and back, and shows the classification that is, not the one that
was sent.
"""

from __future__ import annotations

from restow.cloudprofile.admission.answers import ALLOWED, warned
from restow.cloudprofile.conversions import edit_warnings
from restow.cloudprofile.parts import spec_of
from restow.conversion import Graph
from restow.conversion.admission import AdmissionRequest, Verdict
from restow.conversion.server.turns import aside

__all__ = ["WarnOldClient"]


class WarnOldClient:
    """Warns; ``graph`` converts the family."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def __call__(self, request: AdmissionRequest, /) -> Verdict:
        """Return the warnings.

        Raises:
            ConversionError: an object cannot be converted.
        """
        new, old = request.object or {}, request.old_object
        if old is None or spec_of(new) == spec_of(old):
            return ALLOWED
        return warned(ALLOWED, await aside(request.size, edit_warnings, self._graph, old, new))
