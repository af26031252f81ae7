"""The whole CloudProfile family on a real API server: both webhooks in this process, its controllers, and one clock.

The CRDs convert by the webhook, both webhook configurations are in force, and the controllers run, all as an
installation has them; only the clock, which admission and controllers share, is moved by the test.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from restow.cloudprofile.admission import admission_steps, webhook_configurations
from restow.cloudprofile.controllers import ControllerOptions, run
from restow.cloudprofile.conversions import graph
from restow.cloudprofile.profiles.rendering import render
from restow.cloudprofile.versions.lifecycle import status_of
from restow.controlplane.etcd import Etcd
from restow.conversion.certificates.ca.store import CERTIFICATE, KEY
from restow.conversion.server import ServerPhase, ServingCertificate, WebhookServer, bind, conversions_by_crd, run_alone
from restow.crds import Crd
from restow.crds.cloudprofiles import documents
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType, Reply
from restow.kube.errors import ApiError, Conflict, Invalid
from restow.kube.resources import Resource
from restow.kube.retry import with_retries
from tests.apiserver.kind import Document, until
from tests.apiserver.profile_api import GROUP, Api, install, uninstall
from tests.apiserver.profile_controllers import BELL, FixedTime, Watched, World
from tests.apiserver.serving import certified

__all__ = [
    "CLOUD_PROFILE",
    "NAMESPACED",
    "REST",
    "SHOOT",
    "Family",
    "MovedTime",
    "Service",
    "Tell",
    "lifecycle",
    "living",
    "owned_paths",
    "spoken",
    "stage",
    "told",
    "versions_in",
]

CLOUD_PROFILE, NAMESPACED, SHOOT = "CloudProfile", "NamespacedCloudProfile", "Shoot"

_CONFIGURATIONS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_GRAPH_CRDS = tuple(map(Crd.from_document, documents().values()))
_GRAPH = graph(_GRAPH_CRDS)

#: What makes a profile complete, so that nothing but its versions is worth a warning.
REST: Document = {
    "regions": [{"name": "here"}],
    "machineTypes": [{"name": "t", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
    "machineImages": [{"name": "ubuntu", "updateStrategy": "major", "versions": [{"version": "1.0.0"}]}],
}

Tell = Callable[[Document], None]
"""Changes what a client is about to write."""


def stage(classification: str, start: str | None = None) -> Document:
    """A stage of a lifecycle."""
    return {"classification": classification} | ({"startTime": start} if start else {})


def lifecycle(version: str, *stages: Document) -> Document:
    """A version with its stages, at v1beta2."""
    return {"version": version} | ({"lifecycle": list(stages)} if stages else {})


def versions_in(found: Document) -> dict[str, Document]:
    """The Kubernetes versions of a profile by their names, each without its name."""
    listed = found["spec"].get("kubernetes", {}).get("versions", [])
    return {each["version"]: {name: value for name, value in each.items() if name != "version"} for each in listed}


def told(version: str, **fields: Any) -> Tell:
    """Say so of a Kubernetes version in a spec, in place of what was said of it; of no fields at all, remove it."""

    def change(spec: Document) -> None:
        kubernetes = spec.setdefault("kubernetes", {})
        listed = kubernetes.setdefault("versions", [])
        others = [each for each in listed if each["version"] != version]
        at = next((place for place, each in enumerate(listed) if each["version"] == version), len(listed))
        said = [{"version": version} | fields] if fields else []
        kubernetes["versions"] = [*others[:at], *said, *others[at:]]

    return change


_KEYS = {"versions": "version", "lifecycle": "classification"}


def owned_paths(said: Any, path: str = "/f:spec", key: str = "name") -> Iterator[str]:
    """The paths that who applies a spec owns: its leaves, and the items of its lists by their keys."""
    if isinstance(said, dict):
        for name, each in said.items():
            yield from owned_paths(each, f"{path}/f:{name}", _KEYS.get(name, "name"))
    elif isinstance(said, list):
        for each in said:
            item = f'{path}/k:{{"{key}":"{each[key]}"}}'
            yield from (item, *owned_paths(each, item))
    else:
        yield path


def spoken(reply: Reply) -> list[str]:
    """The warnings of a reply that are about the change: not of the deprecated version, nor of gaps in the minors."""
    standing = ("is deprecated; use", "cannot be moved on: updates never skip")
    return [warning for warning in reply.warnings if not any(text in warning for text in standing)]


class MovedTime(FixedTime):
    """A clock of which only the time of day stands still: what waits between attempts goes on by itself."""

    def _monotonic(self) -> float:
        return self.at.timestamp() + time.monotonic()


class Family(World):
    """The family, its clock, and what is stored. What ``World`` makes, it makes at v1beta2.

    Attributes:
        old, new: the API at v1beta1 and v1beta2.
        time: the clock of admission and controllers.
        watched: the API server as the controllers see it, with a count of what they ask.
    """

    def __init__(self, cluster: HttpCluster, etcd: Etcd, clock: FixedTime) -> None:
        super().__init__(cluster)
        self.etcd = etcd
        self.time = clock
        self.watched = Watched(cluster)
        self.old, self.new = Api(cluster, "v1beta1"), self.api

    # --- objects ---------------------------------------------------------------------------------------------------

    async def at(self, version: str, kind: str, name: str) -> Document:
        """An object as clients of a version read it."""
        api = self.old if version == "v1beta1" else self.new
        found: Document = (await self.cluster.get(api.at(kind), name, _namespace(kind))).json()
        return found

    async def stored(self, kind: str, name: str) -> bytes:
        """The bytes in etcd."""
        place = "/".join(part for part in (self.new.at(kind).plural, _namespace(kind), name) if part)
        found = await self.etcd.get(f"/registry/{GROUP}/{place}")
        assert found is not None, f"{kind} {name} is not stored"
        return found

    async def put(self, obj: Document, manager: str = "editor") -> Reply:
        """Replace an object at its own version, on the resourceVersion that it was read with."""
        api = self.old if obj["apiVersion"].endswith("v1beta1") else self.new
        metadata, params = obj["metadata"], {"fieldManager": manager, "fieldValidation": "Strict"}
        body = json.dumps(obj).encode()
        return await self.cluster.replace(
            api.at(obj["kind"]), metadata["name"], body, metadata.get("namespace"), params=params
        )

    async def edit(self, version: str, kind: str, name: str, change: Tell, manager: str = "editor") -> Reply:
        """Read, change and replace; and again if somebody was faster, as clients do."""

        async def attempt() -> Reply | None:
            found = await self.at(version, kind, name)
            change(found)
            with suppress(Conflict):
                return await self.put(found, manager)
            return None

        reply: Reply = await until(attempt, f"{kind} {name} is changed by others all the time")
        return reply

    async def apply(self, manifest: Document, manager: str, *, force: bool = False) -> Reply:
        """Server-side apply."""
        api = self.old if manifest["apiVersion"].endswith("v1beta1") else self.new
        params = {"fieldManager": manager, "fieldValidation": "Strict"} | ({"force": "true"} if force else {})
        metadata = manifest["metadata"]
        return await self.cluster.patch(
            api.at(manifest["kind"]),
            metadata["name"],
            json.dumps(manifest).encode(),
            metadata.get("namespace"),
            patch_type=PatchType.APPLY,
            params=params,
        )

    async def refused(self, write: Any) -> str:
        """The sentence with which a write is refused."""
        try:
            await write
        except ApiError as error:
            return error.message
        raise AssertionError("it was not refused")

    # --- time ------------------------------------------------------------------------------------------------------

    async def pass_time(self, **by: float) -> None:
        """Move the clock, and have the controllers look at it; their timers run on the event loop."""
        self.time.move(**by)
        await self.ring()

    async def hang_bell(self) -> None:
        """Make the profiles whose changes have every queue look at the clock."""
        await self.profile(BELL, {"version": "1.0.0"})
        await self.child(BELL, BELL)

    async def ring(self) -> None:
        """Have something happen, so that queues look at the clock."""
        self._rung += 1
        body = json.dumps({"metadata": {"annotations": {"ring": str(self._rung)}}}).encode()
        await self.cluster.patch(self.new.at(CLOUD_PROFILE), BELL, body, patch_type=PatchType.MERGE)

    async def settles(self, kind: str, name: str) -> Document:
        """Wait until the status says what is now; return the object at v1beta2."""

        async def says() -> Document | None:
            found = await self.get(kind, name)
            spec = found["spec"]
            if kind == NAMESPACED:
                parent = await self.get(CLOUD_PROFILE, spec["parent"]["name"])
                spec = render(parent["spec"], spec)
                if found.get("status", {}).get("cloudProfileSpec") != spec:
                    return None
            expected = status_of(spec, self.time.at) | {"observedGeneration": found["metadata"]["generation"]}
            return found if expected.items() <= found.get("status", {}).items() else None

        settled: Document = await until(says, f"{kind} {name} does not settle")
        return settled

    @asynccontextmanager
    async def controlled(self, **options: Any) -> AsyncIterator[None]:
        """Run the controllers inside of the block."""
        chosen = ControllerOptions(**{"resync": None, "grace": 0.5} | options)
        task = asyncio.create_task(run(self.watched, self.time.clock, chosen), name="controllers")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def clear(self) -> None:
        """Delete everything but the bell; and again, for a controller may give an object its finalizer back."""

        async def gone() -> bool:
            left = [
                item | {"kind": kind}
                for kind in (SHOOT, NAMESPACED, CLOUD_PROFILE)
                for item in (await with_retries(self.cluster).list_page(self.new.at(kind))).json()["items"]
                if item["metadata"]["name"] != BELL
            ]
            for each in left:
                with suppress(ApiError):
                    await self.release(each)
                    await self.new.delete(each)
            return not left

        await until(gone, "something stays")


def _namespace(kind: str) -> str | None:
    return None if kind == CLOUD_PROFILE else "default"


class Service:
    """The webhook in this process: conversions and admission; where it is, and what verifies it."""

    def __init__(self, cluster: HttpCluster, clock: FixedTime, folder: Path) -> None:
        steps = admission_steps(cluster, _GRAPH, _GRAPH_CRDS, lambda: clock.at, tells_names=True)
        self.webhook = WebhookServer(
            conversions_by_crd(_GRAPH, _GRAPH_CRDS),
            validating=steps.validating,
            mutating=steps.mutating,
        )
        self._bundle = certified(folder).base64
        self._certificate = ServingCertificate(
            folder / CERTIFICATE, folder / KEY, counts=self.webhook.counts, clock=self.webhook.clock
        )
        self._listener, self._probes = bind("127.0.0.1", 0), bind("127.0.0.1", 0)

    def client_config(self, path: str) -> Mapping[str, Any]:
        """How an API server finds a path."""
        port = self._listener.getsockname()[1]
        return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": self._bundle}

    def crds(
        self,
        *,
        storage: str = "v1beta2",
        versions: Sequence[str] = ("v1beta1", "v1beta2"),
        served: Sequence[str] = ("v1beta1", "v1beta2"),
    ) -> dict[str, Document]:
        """The CRDs as an installation applies them: converted here, stored at a version."""
        changed = documents()
        for name, document in changed.items():
            spec = document["spec"]
            spec["conversion"]["webhook"]["clientConfig"] = self.client_config(f"/convert/{name}")
            spec["versions"] = [
                each | {"storage": each["name"] == storage, "served": each["name"] in served}
                for each in spec["versions"]
                if each["name"] in versions
            ]
        return changed

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve inside of the block."""
        self.webhook.phase = ServerPhase.SERVING
        never = asyncio.Event()
        serving = asyncio.create_task(
            run_alone(self.webhook, self._certificate, self._listener, self._probes, never), name="webhook"
        )
        try:
            yield
        finally:
            serving.cancel()  # the API server's connections are idle, and would be waited for
            with suppress(asyncio.CancelledError):
                await serving


@asynccontextmanager
async def _admitting(cluster: HttpCluster, service: Service) -> AsyncIterator[None]:
    """Have both webhook configurations in force inside of the block."""
    made = webhook_configurations("restow", service.client_config)
    group = "admissionregistration.k8s.io"
    resources = [Resource(group, "v1", _CONFIGURATIONS[each["kind"]], namespaced=False) for each in made]
    try:
        for resource, document in zip(resources, made, strict=True):
            body = json.dumps(document).encode()
            await cluster.create(resource, body, params={"fieldValidation": "Strict"})
        await until(lambda: _in_force(Api(cluster, "v1beta2")), "admission is not in force")
        yield
    finally:
        for resource in resources:
            await cluster.delete(resource, "restow")


async def _in_force(api: Api) -> bool:
    """Whether a Shoot is refused for its profile (a validating step) after its kind was filled in (a mutating one)."""
    try:
        await api.rehearse(api.manifest(SHOOT, "probe", {"cloudProfile": {"name": "nowhere"}}))
    except Invalid as error:
        return "not found" in error.message
    except ApiError as error:
        return "not found" in error.message
    return False


@asynccontextmanager
async def living(
    kubeconfig: Path, etcd: Etcd, folder: Path, *, storage: str = "v1beta2", clock: FixedTime | None = None
) -> AsyncIterator[tuple[Family, Service]]:
    """Run the family inside of the block, without its controllers; the CRDs go in the end, with all objects."""
    chosen = clock or MovedTime()
    async with connect(kubeconfig) as cluster:
        service = Service(cluster, chosen, folder)
        async with service.running():
            crds = service.crds(storage=storage)
            await install(cluster, crds)
            family = Family(cluster, etcd, chosen)
            try:
                async with _admitting(cluster, service):
                    await family.hang_bell()
                    yield family, service
                    await family.clear()
                    await _free(family)
            finally:
                await uninstall(cluster, list(crds))


async def _free(family: Family) -> None:
    """Let the bell go."""
    for kind in (NAMESPACED, CLOUD_PROFILE):
        found = await family.get(kind, BELL)
        await family.release(found)
        with suppress(ApiError):
            await family.new.delete(found)
