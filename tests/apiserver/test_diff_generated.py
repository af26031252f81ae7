"""The rehearsal of ``restow diff`` and the real upgrade agree on generated upgrades, object by object.

``python -m tests.apiserver.test_diff_generated 0 200`` tries more of them.
"""

from __future__ import annotations

import asyncio
import copy
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any, ClassVar

import pytest

from restow.controlplane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane
from restow.conversion import Graph
from restow.conversion.rulefiles import load, registry_of
from restow.crds import Crd
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.errors import Invalid
from restow.migrator import Options, migrate
from restow.migrator.requests.crdaccess import read_crd
from restow.migrator.requests.environment import own_webhook
from restow.upgrade.rehearsal import Upgrade, rehearse
from restow.upgrade.stored import of_cluster
from restow.webhook.local import serve_locally
from tests.apiserver.kind import Document, Kind, entry_versions, owners, without_bookkeeping

IN_SUITE = 10
STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ITEM = {"type": "object", "required": ["k"], "properties": {"k": STRING, "n": INTEGER}}
KEYED = {"type": "array", "items": ITEM, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
FIELDS: dict[str, Document] = {
    "a": INTEGER,
    "b": STRING,
    "c": {**STRING, "enum": ["x", "y", "z"]},
    "d": KEYED,
    "e": {"type": "object", "additionalProperties": STRING},
    "f": {"type": "object", "properties": {"g": STRING, "h": INTEGER}},
}
CHANGED: dict[str, tuple[Document, ...]] = {
    "a": ({**INTEGER, "maximum": 5}, {"type": "number"}, {**INTEGER, "default": 1}),
    "b": ({**STRING, "maxLength": 2}, {**STRING, "default": "new"}),
    "c": ({**STRING, "enum": ["x"]},),
    "d": ({"type": "array", "items": ITEM}, {**KEYED, "maxItems": 1}),
    "e": ({"type": "object", "properties": {"p": STRING}},),
    "f": ({"type": "object", "properties": {"g": STRING}}, {**FIELDS["f"], "x-kubernetes-map-type": "atomic"}),
}
NEW = {"i": {**STRING, "default": "i"}, "j": INTEGER}
RULES = """\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {{name: widgets.{group}}}
spec:
  target: {{group: {group}, kind: Widget}}
  hub: v2
  spokes:
  - version: v1
    rules:
    - rename: {{spoke: spec.b, hub: spec.bee}}
"""


def version(name: str, fields: dict[str, Document], *, storage: bool, served: bool = True) -> Document:
    """One entry of spec.versions."""
    spec = {"type": "object", "properties": fields}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": served, "storage": storage, "schema": schema}


class Generated:
    """One upgrade: a CRD, its next release, rules if it has some, and what clients write before."""

    def __init__(self, number: int, group: str) -> None:
        self.chance = random.Random(number)
        self.group = group
        self.rules = number % 4 == 3
        before = {name: FIELDS[name] for name in self.some(FIELDS, 4)} | {"b": STRING}
        self.before = before
        self.old = self.crd(version("v1", before, storage=True))
        self.new = self.crd(*(self.renamed() if self.rules else self.versions()))

    def some(self, of: Any, least: int = 0) -> list[str]:
        """Return some of the names, in their order."""
        names = list(of)
        picked = self.chance.sample(names, self.chance.randint(least, len(names)))
        return [name for name in names if name in picked]

    def crd(self, *versions: Document) -> Document:
        """The CRD with these versions."""
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
        spec = {"group": self.group, "scope": "Namespaced", "names": names, "versions": list(versions)}
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        return {**kind, "metadata": {"name": f"widgets.{self.group}"}, "spec": spec}

    def changed(self) -> dict[str, Document]:
        """Fields of which some go, some change, and some are new."""
        kept = {name: self.before[name] for name in self.some(self.before, 2)}
        for name in self.some(kept):
            if self.chance.random() < 0.5:
                kept[name] = self.chance.choice(CHANGED[name])
        return kept | {name: NEW[name] for name in self.some(NEW)}

    def versions(self) -> list[Document]:
        """The next versions with the strategy None."""
        way = self.chance.choice(("same", "same", "next", "next", "unserved", "removed"))
        if way == "same":
            return [version("v1", self.changed(), storage=True)]
        if way == "removed":
            return [version("v2", self.changed(), storage=True)]
        old = self.before if self.chance.random() < 0.5 else self.changed()
        return [
            version("v1", old, storage=False, served=way != "unserved"),
            version("v2", self.changed(), storage=True),
        ]

    def renamed(self) -> list[Document]:
        """The next versions with rules that rename a field."""
        bee = {"bee" if name == "b" else name: node for name, node in self.before.items()}
        served = self.chance.random() < 0.7
        return [version("v1", self.before, storage=False, served=served), version("v2", bee, storage=True)]

    def graph(self) -> Graph | None:
        """The rules."""
        if not self.rules:
            return None
        return registry_of(load(RULES.format(group=self.group)).rules).freeze([Crd.from_document(self.new)])

    def value(self, name: str) -> Any:
        """A value that the old CRD takes."""
        chance = self.chance
        values: dict[str, Any] = {
            "a": chance.randint(0, 9),
            "b": "b" * chance.randint(0, 4),
            "c": chance.choice("xyz"),
            "d": [{"k": k, "n": chance.randint(0, 3)} for k in self.some("pqr")],
            "e": dict.fromkeys(self.some("pq"), "v"),
            "f": {"g": "g", "h": chance.randint(0, 3)},
        }
        return values[name]

    async def populate(self, kind: Kind) -> None:
        """Have three managers write a few objects."""
        for number in range(self.chance.randint(2, 4)):
            name = f"w{number}"
            first = self.some(self.before, 1)
            manifest = kind.manifest("v1", name, spec={field: self.value(field) for field in first})
            await kind.apply(manifest, "alice")
            others = [field for field in self.before if field not in first]
            if theirs := self.some(others):
                await kind.apply(kind.manifest("v1", name, spec={field: self.value(field) for field in theirs}), "bob")
            if self.chance.random() < 0.5:
                change = {"spec": {"b": self.value("b")}, "metadata": {"finalizers": ["example.com/held"]}}
                await kind.merge("v1", name, change, "carol")


class Widgets(Kind):
    """Widgets of which no field is sure to be declared."""

    canary: ClassVar[Document] = {}


def seen(obj: Document) -> Any:
    """What must be equal: the content, the metadata, and who owns what at which version."""
    return without_bookkeeping(obj), owners(obj), entry_versions(obj)


def leaves(node: Any, path: str = "") -> set[str]:
    """The paths of all values of an object."""
    if isinstance(node, dict) and node:
        return {leaf for name, below in node.items() for leaf in leaves(below, f"{path}/{name}")}
    return {path}


async def really(generated: Generated, kind: Kind, graph: Graph | None) -> tuple[dict[str, Any], set[str]] | None:
    """Upgrade the cluster itself; return what each served version shows, and what failed. None: the CRD is refused."""
    document = copy.deepcopy(generated.new)
    async with AsyncExitStack() as stack:
        if graph is not None:
            served = await stack.enter_async_context(serve_locally(graph, [Crd.from_document(generated.new)]))
            document["spec"]["conversion"] = served[kind.name]
        try:
            await kind.change(document)
        except Invalid:
            return None
        report = await migrate(kind.cluster, [kind.name], Options(settle_s=0.0), converters=own_webhook)
        names = [each["name"] for each in generated.new["spec"]["versions"] if each["served"]]
        shown = {name: (await kind.cluster.list_page(kind.at(name))).json()["items"] for name in names}
        failed = {each.where for each in report.crds[0].failures}
        back = {"spec": {**document["spec"], "conversion": {"strategy": "None"}}}
        await kind.change(back)
    return {name: {f"default/{o['metadata']['name']}": seen(o) for o in items} for name, items in shown.items()}, failed


async def agrees(
    number: int,
    cluster: HttpCluster,
    plane: ControlPlane,
    scratch: tuple[ControlPlane, HttpCluster],
    checks: Counter[str],
) -> str:
    """Try one upgrade both ways; return how it differs, or nothing. ``checks`` counts upgrades by what is found."""
    generated = Generated(number, f"g{number}.example.com")
    graph = generated.graph()
    kind = Widgets(cluster, plane.etcd, generated.group)
    await kind.create(generated.old)
    try:
        await generated.populate(kind)
        old = await read_crd(cluster, kind.name)
        objects = await of_cluster(cluster, old)
        new = copy.deepcopy(generated.new)
        if graph is not None:
            new["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
        upgrade = Upgrade(old, Crd.from_document(new), graph, objects)
        found = await rehearse(scratch[0], scratch[1], upgrade)
        checks.update({each.check for each in found.findings} or {"nothing"})
        real = await really(generated, kind, graph)
    finally:
        await kind.remove()
    if real is None or found.report is None:
        return "" if (real is None) is (found.report is None) else "only one of both refuses the CRD"
    shown, failed = real
    rehearsed = {name: {where: seen(obj) for where, obj in each.items()} for name, each in found.shown.items()}
    if shown != rehearsed:
        return f"shown {shown}\nrehearsed {rehearsed}"
    if failed != {each.where for each in found.report.failures}:
        return f"failed {failed}, rehearsed {found.report.failures}"
    if graph is None and "v1" in shown:
        lost = {
            f"default/{obj['metadata']['name']}"
            for obj in objects
            if leaves(obj["spec"]) - leaves(shown["v1"][f"default/{obj['metadata']['name']}"][0].get("spec", {}))
        }
        named = {
            where
            for each in found.findings
            if each.version == "v1" and each.check in ("object-pruned", "object-changed")
            for where in each.objects
        }
        return "" if lost <= named else f"lost {lost}, named {named}"
    return ""


@pytest.fixture(scope="module")
def scratch() -> Iterator[ControlPlane]:
    """The control plane of rehearsals."""
    with running_plane(ControlPlane) as plane:
        yield plane


@pytest.fixture
async def there(scratch: ControlPlane) -> AsyncIterator[tuple[ControlPlane, HttpCluster]]:
    """It, and a session."""
    async with connect(scratch.kubeconfig) as opened:
        yield scratch, opened


@pytest.mark.parametrize("number", range(IN_SUITE))
async def test_rehearsal_and_upgrade_agree(
    number: int, cluster: HttpCluster, control_plane: ControlPlane, there: tuple[ControlPlane, HttpCluster]
) -> None:
    """A verdict would be about another upgrade than the one that follows."""
    assert await agrees(number, cluster, control_plane, there, Counter()) == ""


async def _many(first: int, end: int) -> int:
    differing, checks = 0, Counter[str]()
    async with (
        ControlPlane() as plane,
        ControlPlane() as scratch,
        connect(plane.kubeconfig) as cluster,
        connect(scratch.kubeconfig) as there,
    ):
        for number in range(first, end):
            if said := await agrees(number, cluster, plane, (scratch, there), checks):
                differing += 1
                print(number, said[:2000], flush=True)
    print(f"{end - first} upgrades, {differing} differ; {dict(checks)}")
    return differing


if __name__ == "__main__":
    raise SystemExit(asyncio.run(_many(int(sys.argv[1]), int(sys.argv[2]))) > 0)
