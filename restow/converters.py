"""What ``plan`` and ``migrate`` convert with: an author's own conversions in this process, or the CRD's webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from restow.conversion import Graph, ObjectError, RuleFailed
from restow.crds import Crd
from restow.migrator import Answer, Converters, Json, Refused, Unconverted
from restow.registries import load_crds, load_graph

__all__ = ["GraphConverter", "graph_converters", "load_converters"]

_SLICE_S = 0.01
"""How long objects are converted before other tasks have their turn."""


class GraphConverter:
    """A migrator's ``Converter`` over a frozen graph: nothing leaves this process."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        """Convert each object by itself; one that the rules refuse does not stop the others."""
        loop = asyncio.get_running_loop()
        answers: list[Answer] = []
        pause_at = loop.time() + _SLICE_S
        for obj in objects:
            answers.append(self._convert(obj, api_version))
            if loop.time() >= pause_at:
                await asyncio.sleep(0)
                pause_at = loop.time() + _SLICE_S
        return answers

    def _convert(self, obj: Json, api_version: str) -> Answer:
        try:
            return self._graph.convert(obj, api_version)
        except ObjectError as error:
            rule = f" ({error.rule})" if isinstance(error, RuleFailed) and error.rule not in error.reason else ""
            return Unconverted(f"{error}{rule}")


def load_converters(registry: str, crd_files: Sequence[Path] = ()) -> Converters:
    """Return the converters that ``--registry module:attribute`` and ``--crd FILE`` name.

    Raises:
        click.UsageError, InputError: as ``load_graph`` and ``load_crds`` do.
    """
    return graph_converters(load_graph(registry, load_crds(crd_files)))


def graph_converters(graph: Graph) -> Converters:
    """Return the graph as converter of the kinds that it knows; other kinds are left to their own webhooks."""
    converter = GraphConverter(graph)

    def converter_for(crd: Crd) -> GraphConverter | None:
        known = graph.kinds.get((crd.group, crd.kind))
        if known is None:
            return None
        if missing := [version.name for version in crd.versions if version.name not in known.versions]:
            msg = (
                f"the registry converts {crd.kind}.{crd.group}, but not its version {', '.join(missing)}: it is of "
                "another release than the CRD. Give the one that belongs to it, or leave --registry out"
            )
            raise Refused(msg)
        return converter

    return converter_for
