"""The kind that a scenario migrates, and those who write its objects besides the migrator.

Whatever they write is noted by the revision it got, so that the judge can tell it from what the migrator wrote.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from restow.controlplane.errors import NotStoredError
from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, NotFound
from tests.apiserver.kind import Kind, until
from tests.faults.conversion import ConversionWebhook
from tests.faults.history import History
from tests.faults.scenario import Scenario, Step
from tests.faults.truth import Document

GROUP = "faults.example.com"
"""One for all: that a group comes or goes costs the API server seconds."""

OLD, NEW, REMOVED = "v1", "v2", "v0"


class Widgets(Kind):
    """Widgets of one scenario: v1, then v2; some of them owned at v0 too."""

    def __init__(
        self, cluster: HttpCluster, etcd: Etcd, number: int, scenario: Scenario, webhook: ConversionWebhook
    ) -> None:
        self.plural = f"widgets{number:05}"  # of one length: none is the beginning of another
        super().__init__(cluster, etcd, GROUP)
        self.history = History(etcd.url, GROUP, self.plural)
        self.storage = OLD
        self._scenario = scenario
        self._webhook = webhook
        self._edits = 1
        self._changing = asyncio.Lock()

    def document(self, *, storage: str, versions: Sequence[str] = (OLD, NEW), **_other: Any) -> Document:
        """The CRD with these versions, all of them served."""
        made = super().document(storage=storage, versions=versions)
        names = {"plural": self.plural, "singular": self.plural, "kind": self._kind, "listKind": f"{self._kind}List"}
        made["spec"]["names"] = names | {"shortNames": [f"{self.plural}-{self._edits}"]}
        for version in made["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": _schema(version["name"], self._scenario)}
        if self._scenario.webhook:
            client = self._webhook.client_config(self.plural, bundles=self._edits)
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return made

    def manifest(self, version: str, name: str, namespace: str = "default", **parts: Any) -> Document:
        """As in the base, of a kind of its own."""
        return super().manifest(version, name, namespace, **parts) | {"kind": self._kind}

    @property
    def _kind(self) -> str:
        return self.plural.capitalize()

    async def serves(self, document: Document) -> None:
        """Wait until new objects are stored at the storage version."""
        self.storage = next(each["name"] for each in document["spec"]["versions"] if each["storage"])
        await until(lambda: self._stores_at(self.storage), f"{self.name} is not stored at {self.storage}")

    async def _stores_at(self, version: str) -> bool:
        """As in the base, but nothing stays where the webhook is down in between."""
        body = self.manifest(version, "canary", spec={"size": 1})
        stored: Document = {}
        with contextlib.suppress(ApiError, NotStoredError):
            await self.cluster.create(self.at(version), json.dumps(body).encode(), "default")
            stored = await self.etcd.stored_object(self.group, self.plural, "default", "canary")
        with contextlib.suppress(ApiError):
            await self.cluster.delete(self.at(version), "canary", "default")
        return bool(stored and stored["apiVersion"] == f"{self.group}/{version}")

    async def flip(self, storage: str) -> None:
        """Make another version the storage version."""
        async with self._changing:
            await self.change(self.document(storage=storage))

    async def edit(self) -> None:
        """Change the CRD in what concerns no object: its CA bundle, or a short name."""
        async with self._changing:
            self._edits += 1
            await self.change(self.document(storage=self.storage))

    async def prepare(self) -> tuple[int, list[Any]]:
        """Create everything and make the migration due; return what is stored then."""
        scenario = self._scenario
        first = [*([REMOVED] if scenario.removed else []), OLD, *([NEW] if scenario.early else [])]
        await self.create(self.document(storage=OLD, versions=first))
        templates = await asyncio.gather(*(self._template(place) for place in range(len(scenario.shapes))))
        await self.history.put(self._copies(templates))
        return await self.history.now()

    def _copies(self, templates: Sequence[Document]) -> list[Document]:
        copies = []
        for number, name in enumerate(self._scenario.names):
            made = copy.deepcopy(templates[number % len(templates)])
            made["metadata"] |= {"name": name, "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{self.name}"))}
            made["spec"]["size"] = number
            copies.append(made)
        return copies

    async def _template(self, place: int) -> Document:
        name = f"template{place}"
        for step in self._scenario.shapes[place]:
            await self._step(step, name)
        stored = await self.etcd.stored_object(self.group, self.plural, "default", name)
        await self.delete(OLD, name)
        return stored

    async def _step(self, step: Step, name: str) -> None:
        host = "address" if self._scenario.webhook else "host"
        if step is Step.SIZE:
            await self.apply(self.manifest(OLD, name, spec={"size": 1}), "alice")
        elif step is Step.FULL:
            spec = {"size": 1, "color": "red", "host": "a.local"}
            await self.apply(self.manifest(OLD, name, spec=spec), "alice", force=True)
        elif step is Step.PARTS:
            parts = [{"name": "a", "count": 1}, {"name": "b", "count": 2}]
            labels = {"labels": {"bob": "here"}}
            await self.apply(self.manifest(OLD, name, spec={"parts": parts}, metadata=labels), "bob")
        elif step is Step.EDIT:
            change = {"metadata": {"labels": {"edited": "yes"}}, "spec": {"color": "blue", "host": "e.local"}}
            await self.merge(OLD, name, change, "erin")
        elif step is Step.EDIT_NEW:
            change = {"metadata": {"annotations": {"edited": "again"}}, "spec": {host: "f.local"}}
            await self.merge(NEW, name, change, "erin")
        elif step is Step.REMOVED:
            labels = {"labels": {"dora": "here"}}
            await self.apply(self.manifest(REMOVED, name, spec={"notes": ["n"], "level": 3}, metadata=labels), "dora")
        elif step is Step.STATUS:
            conditions = [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]
            await self.apply(self.manifest(OLD, name, status={"conditions": conditions}), "ctl", subresource="status")
        elif step is Step.PHASE:
            await self.merge(OLD, name, {"status": {"phase": "Running"}}, "kubelet", subresource="status")
        else:
            await self.merge(OLD, name, {"metadata": {"managedFields": [{}]}}, "anyone")


class Users:
    """Those who write objects in mid-run, through an API server of their own choice.

    Attributes:
        revisions: what they wrote, by the revision that it got.
        deleted: how often they deleted an object, by its name, or tried to.
        tried: who wrote values that nobody wrote before, and got an error: the API server answers with one, too, when
            it has stored the object and cannot convert its answer.
    """

    def __init__(self, widgets: Widgets) -> None:
        self._widgets = widgets
        self._number = 1000
        self.revisions: dict[int, str] = {}
        self.deleted: Counter[str] = Counter()
        self.tried: dict[object, str] = {}

    async def apply(self, version: str, name: str, manager: str = "alice", cluster: HttpCluster | None = None) -> bool:
        """Server-side apply of a size that nobody applied before."""
        size = self._next()
        manifest = self._widgets.manifest(version, name, spec={"size": size})
        widgets = self._widgets
        if cluster is not None:
            widgets = copy.copy(widgets)
            widgets.cluster = cluster
        return await self._note(manager, size, widgets.apply(manifest, manager, force=True))

    async def update(self, version: str, name: str) -> bool:
        """A merge patch of a color that nobody wrote before."""
        color = f"color{self._next()}"
        return await self._note("erin", color, self._widgets.merge(version, name, {"spec": {"color": color}}, "erin"))

    async def update_status(self, version: str, name: str) -> bool:
        """A merge patch of a phase that nobody wrote before."""
        phase = f"phase{self._next()}"
        writing = self._widgets.merge(version, name, {"status": {"phase": phase}}, "kubelet", subresource="status")
        return await self._note("kubelet", phase, writing)

    async def delete(self, name: str) -> bool:
        """Delete an object."""
        self.deleted[name] += 1
        try:
            await self._widgets.delete(OLD, name)
        except NotFound:
            self.deleted[name] -= 1
            return False
        except ApiError:
            return False
        return True

    async def create(self, version: str, name: str) -> bool:
        """Create an object, whose only owner is carol."""
        return await self.apply(version, name, "carol")

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _note(self, manager: str, value: object, writing: Any) -> bool:
        try:
            written = await writing
        except ApiError:
            self.tried[value] = manager
            return False
        self.revisions[int(written["metadata"]["resourceVersion"])] = manager
        return True


def _schema(version: str, scenario: Scenario) -> Document:
    text, number = {"type": "string"}, {"type": "integer"}
    condition = {"type": "object", "required": ["type"], "properties": {"type": text, "status": text}}
    part = {"type": "object", "required": ["name"], "properties": {"name": text, "count": number}}
    conditions: Document = {"type": "array", "items": condition}
    if version == NEW and scenario.keyed:
        conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    spec: Document = {
        "size": number,
        "level": number,
        "color": text,
        "address" if version == NEW and scenario.webhook else "host": text,
        "notes": {"type": "array", "items": text},
        "parts": {
            "type": "array",
            "items": part,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    }
    if version == NEW and scenario.default:
        spec["policy"] = {"type": "string", "default": "Retain"}
    status = {"type": "object", "properties": {"phase": text, "conditions": conditions}}
    made = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": status}}
    return json.loads(json.dumps(made))  # type: ignore[no-any-return]
