"""A kind of another project as a peer: its CRD, its conversions in restow's rules, and what a comparison must know."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from restow.conversion import Registry, rules
from restow.conversion.compile.graph import Graph
from restow.conversion.rulefiles import load
from restow.crds import Crd
from restow.crds.documents import load_documents
from tests.peers.building import Project, installed
from tests.peers.comparison import Comparison
from tests.peers.differences import Table
from tests.peers.oracle import Oracle
from tests.peers.recordings import Mode, mode, program, recording

__all__ = ["Peer"]

_HERE: Final = Path(__file__).parent
_TABLES: Final = _HERE / "differences"


@dataclass(frozen=True)
class Peer:
    """One kind.

    Attributes:
        project: whose it is.
        kind: its name.
        crd: the file of its CRD.
        hub: the version that restow's rules use as the hub, as the project does.
        spoke: the other version.
        rules: restow's rules in Python; without them, the document of ``<project>.yaml`` for the kind is used.
        functions: what the document cannot say.
        choices: values of fields whose schema does not tell them, by version and path.
        stashes: annotations in which the project keeps what a version cannot say.
    """

    project: Project
    kind: str
    crd: str
    hub: str
    spoke: str
    rules: Callable[[], list[rules.Rule]] | None = None
    functions: Callable[[], list[rules.Rule]] = list
    choices: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    stashes: tuple[str, ...] = ()

    def definition(self) -> Crd:
        """Return the CRD with the two versions."""
        document = _document(self.project, self.crd)
        versions = [each for each in document["spec"]["versions"] if each["name"] in (self.hub, self.spoke)]
        return Crd.from_document({**document, "spec": {**document["spec"], "versions": versions}})

    def registry(self) -> Registry:
        """Return a registry with the kind's rules."""
        registry = Registry()
        declared = self.declared() if self.rules is None else self.rules()
        kind = registry.kind(self.definition().group, self.kind, hub=self.hub)
        kind.spoke(self.spoke)(lambda: [*declared, *self.functions()])
        return registry

    def graph(self) -> Graph:
        """Return the compiled conversions; every field of the CRD is accounted for."""
        return self.registry().freeze([self.definition()])

    def document(self) -> str:
        """Return the text of the document that has the kind's rules."""
        text = (_HERE / f"{self.project.name}.yaml").read_text(encoding="utf-8")
        return next(each for each in text.split("\n---\n") if f"kind: {self.kind}}}" in each)

    def declared(self) -> Sequence[rules.Rule]:
        """Return the rules that the project's document declares for the kind."""
        (document,) = load(self.document()).rules
        assert (document.hub, *document.spokes) == (self.hub, self.spoke)
        return document.spokes[self.spoke]

    def comparison(self) -> Comparison:
        """Return the comparison with the project's own conversions."""
        table = Table(_TABLES / f"{self.project.name}.yaml", _TABLES / "common.yaml")
        versions = (self.hub, self.spoke)
        return Comparison(self.graph(), self.definition(), versions, self.choices, self.stashes, table)

    def oracle(self) -> Oracle:
        """Return the project's conversions."""
        return Oracle(program(self.project))


@cache
def _document(project: Project, file: str) -> Any:
    if mode() is Mode.RECORDED:
        return json.loads(bytes(recording(project).crds[file]))
    return next(iter(load_documents((installed(project) / "crds" / file).read_bytes())))
