"""Finds what restow left in a cluster, and removes what nobody needs.

Everything is found first. Each thing has the reason why it stays, or the request that removes it. The request has the
state that was read as its precondition, so what another client writes meanwhile stays.

Rights: list on customresourcedefinitions, webhook configurations, Leases, ConfigMaps and Secrets of all namespaces, and
on the objects of all CRDs; patch and delete on what is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from restow.conversion.certificates.apply import resource_of
from restow.conversion.certificates.unwire import CONFIGURATIONS, crds_of, obstacles
from restow.conversion.certificates.wiring.clientconfig import Service, address_in
from restow.conversion.certificates.wiring.configuration import is_alone_ours
from restow.conversion.certificates.wiring.crd import COMPOSITES, UNWIRED, Definition
from restow.conversion.certificates.wiring.fieldmanagers import MANAGED_BY
from restow.conversion.operate.revisions import CONFIGURATION as RULES_CONFIGURATION
from restow.conversion.operate.revisions import RevisionRecord
from restow.conversion.stash.annotation import parse_stash
from restow.crds import Crd
from restow.crds.conversionrules import CONVERSION_RULES
from restow.crds.conversionrules import NAME as RULES_CRD
from restow.kube import Cluster, PatchType, Resource
from restow.kube.clock import SYSTEM_CLOCK
from restow.kube.errors import Conflict, Forbidden, KubeError, NotFound
from restow.kube.pager import list_names, list_pages
from restow.kube.resources import CONFIG_MAPS, CRDS, LEASES, SECRETS, qualified_name
from restow.kube.suggestions import few
from restow.migrator.decide.proof import ANNOTATION as MARK
from restow.migrator.decide.proof import UNFINISHED, unprotected_versions
from restow.migrator.operate.conditions import apply, present
from restow.migrator.operate.policy import LABEL as MIGRATE
from restow.migrator.references.move import BACKUP_LABEL, MOVED
from restow.migrator.requests.crdaccess import list_crds
from restow.migrator.requests.lostowners import ANNOTATION as LOST_OWNERS
from restow.migrator.requests.lostowners import LostOwners
from restow.migrator.requests.native import find_native
from restow.uninstall import written
from restow.uninstall.written import LeftoverKind

_PAGE: Final = 500
_GRACE: Final = timedelta(seconds=60)
"""How long after its end a Lease counts as held: clocks differ, and a process may renew it late."""


@dataclass(slots=True)
class Leftover:
    """One thing that restow left.

    Attributes:
        kind: what it is.
        name: its name, with its namespace or the CRD that it is on.
        reason: why it stays, a sentence without its full stop; empty if it can go.
        remove: removes it; several things on one object share one request.
    """

    kind: LeftoverKind
    name: str
    reason: str = ""
    remove: Callable[[], Awaitable[None]] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``left`` in the JSON of ``restow uninstall``."""
        return {"kind": self.kind.value, "name": self.name, "reason": self.reason}


@dataclass(slots=True)
class Leftovers:
    """What was found.

    Attributes:
        found: the things, in the order in which they are removed.
        running: the Leases that a process holds, each with its holder.
        not_seen: what could not be looked at, each a sentence.
    """

    found: list[Leftover] = field(default_factory=list)
    running: list[str] = field(default_factory=list)
    not_seen: list[str] = field(default_factory=list)


async def find_leftovers(
    cluster: Cluster, stashes: Sequence[str] = (), now: Callable[[], datetime] = SYSTEM_CLOCK.now
) -> Leftovers:
    """Find what restow left, whatever made it.

    Args:
        cluster: the API server.
        stashes: the annotations of stashes with names other than ``<group>/conversion-stash``.
        now: the time, to tell whether a Lease is held.

    Raises:
        MigrationRefused: the user may not list the CRDs.
        KubeError: the API server cannot be reached.
    """
    search = _Search(cluster, await list_crds(cluster), await _rules(cluster), now)
    for look in (search.on_crds, search.stashes(stashes), search.webhooks, search.in_namespaces, search.native):
        await look()
    return search.result


async def remove(leftovers: Leftovers) -> None:
    """Remove what can go; what the API server refuses to remove gets that as its reason.

    Raises:
        KubeError: the API server cannot be reached.
    """
    for each in leftovers.found:
        if each.reason or each.remove is None:
            continue
        try:
            await each.remove()
        except Conflict:
            each.reason = f"{each.name}: another client wrote it meanwhile: run restow uninstall again"
        except NotFound:
            continue
        except KubeError as error:
            if error.out_of_reach:
                raise
            each.reason = str(error)


async def _rules(cluster: Cluster) -> tuple[str, ...]:
    """Return the names of the ConversionRules; none where the cluster does not know the kind."""
    with suppress(NotFound):
        return tuple(await list_names(cluster, CONVERSION_RULES))
    return ()


class _Removal:
    """Removes annotations of one object in one request, at the state in which they were read."""

    def __init__(self, cluster: Cluster, resource: Resource, metadata: Mapping[str, Any]) -> None:
        self._cluster, self._resource, self._metadata = cluster, resource, metadata
        self._names: list[str] = []
        self._sent: asyncio.Future[None] | None = None

    def of(self, name: str) -> Callable[[], Awaitable[None]]:
        """Add an annotation; return what removes all of them, once, and has the same outcome for each."""
        self._names.append(name)
        return self._remove

    async def _remove(self) -> None:
        self._sent = self._sent or asyncio.ensure_future(self._send())
        await self._sent

    async def _send(self) -> None:
        kept = {name: self._metadata[name] for name in ("uid", "resourceVersion")}
        body = msgspec.json.encode({"metadata": {**kept, "annotations": dict.fromkeys(self._names)}})
        name, namespace = self._metadata["name"], self._metadata.get("namespace")
        await self._cluster.patch(self._resource, name, body, namespace, patch_type=PatchType.MERGE, metadata_only=True)


class _Search:
    def __init__(
        self, cluster: Cluster, crds: Sequence[Crd], rules: Sequence[str], now: Callable[[], datetime]
    ) -> None:
        self.result = Leftovers()
        self._cluster = cluster
        self._crds = {crd.name: crd for crd in crds}
        self._rules = rules
        self._now = now

    def _add(
        self, kind: LeftoverKind, name: str, reason: str = "", remove: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.result.found.append(Leftover(kind, name, reason, remove))

    def _deletes(self, resource: Resource, metadata: Mapping[str, Any]) -> Callable[[], Awaitable[None]]:
        """Return what deletes an object as it was read."""
        conditions = {name: metadata[name] for name in ("uid", "resourceVersion")}
        body = msgspec.json.encode({"preconditions": conditions})

        async def delete() -> None:
            await self._cluster.delete(resource, metadata["name"], metadata.get("namespace"), body=body)

        return delete

    async def _list(
        self, resource: Resource, *, metadata_only: bool = True, **params: str
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield all objects of a resource that this user may list; none where the cluster does not know it."""
        try:
            pages = list_pages(self._cluster, resource, limit=_PAGE, params=params, metadata_only=metadata_only)
            async for page in pages:
                for each in page:
                    yield each
        except NotFound:
            return
        except Forbidden as error:
            if resource == LEASES:
                raise  # a process may be running
            self.result.not_seen.append(str(error))

    async def on_crds(self) -> None:
        """Look at the CRDs, and at Crossplane's definitions, which ``unwire`` marks too."""
        for crd in self._crds.values():
            self._of_crd(crd)
        async for each in self._list(COMPOSITES):
            metadata = each["metadata"]
            if UNWIRED in (metadata.get("annotations") or {}):
                removal = _Removal(self._cluster, COMPOSITES, metadata)
                self._add(LeftoverKind.ANNOTATION, f"{UNWIRED} of {metadata['name']}", remove=removal.of(UNWIRED))
        for name in self._rules:
            reason = f"the ConversionRules {name} convert objects: kubectl delete conversionrules {name} while their"
            self._add(LeftoverKind.RULES, name, f"{reason} operator runs; it unwires the CRD where that is safe")
        own = self._crds.get(RULES_CRD)
        if own is not None:
            reason = f"the CRD {own.name} has ConversionRules, which would be deleted with it" if self._rules else ""
            self._add(LeftoverKind.CRD, own.name, reason, self._deletes(CRDS, own.document["metadata"]))

    def _of_crd(self, crd: Crd) -> None:
        metadata = crd.document["metadata"]
        removal = _Removal(self._cluster, CRDS, metadata)
        if self._wired(crd):
            reason = f"{crd.name} calls a webhook that restow wired: run restow unwire {crd.name} first"
            self._add(LeftoverKind.WEBHOOK, crd.name, reason)
        for name in (name for name in written.ON_CRDS if name in crd.annotations):
            reason = self._needed(crd, name)
            self._add(LeftoverKind.ANNOTATION, f"{name} of {crd.name}", reason, None if reason else removal.of(name))
        # Conditions go last: their removal changes the CRD, and annotations go only while it is as it was read.
        for condition, manager in written.CONDITIONS.items():
            if present(crd, condition):
                self._add(
                    LeftoverKind.CONDITION, f"{condition} of {crd.name}", remove=partial(self._unapply, crd, manager)
                )
        by_people = f"people wrote it, not restow: remove it from the CRD {crd.name}, and from its manifest"
        labels = [(LeftoverKind.LABEL, MIGRATE)] if MIGRATE in (metadata.get("labels") or {}) else []
        for kind, name in [*labels, *((LeftoverKind.ANNOTATION, each) for each in written.BY_PEOPLE)]:
            if kind is LeftoverKind.LABEL or name in crd.annotations:
                self._add(kind, f"{name} of {crd.name}", f"{name} of {crd.name}: {by_people}")

    def _wired(self, crd: Crd) -> bool:
        definition = Definition.of(crd.document)
        return definition.webhook is not None and definition.managers.wrote(("webhook",))

    def _needed(self, crd: Crd, name: str) -> str:
        """Return why an annotation of a CRD is needed: what it says is written nowhere else."""
        if name == LOST_OWNERS and (lost := LostOwners.noted_on(crd)).names:
            return f"{name} of {crd.name} is the only record of what was lost: {lost.sentence}"
        if name != MARK:
            return ""
        if self._wired(crd):
            return f"{name} of {crd.name} is the proof that restow unwire {crd.name} needs"
        open_to_loss = unprotected_versions(crd)
        if crd.annotations[name].startswith(UNFINISHED) and open_to_loss:
            return (
                f"{name} of {crd.name} says that the last run did not finish, and objects may be stored at "
                f"{', '.join(open_to_loss)}, which status.storedVersions does not name: run restow migrate {crd.name}"
            )
        return ""

    async def _unapply(self, crd: Crd, manager: str) -> None:
        await apply(self._cluster, crd, [], manager)

    def stashes(self, names: Sequence[str]) -> Callable[[], Awaitable[None]]:
        """Return the search for stashes on objects of CRDs without a webhook; one that converts keeps its own."""

        async def look() -> None:
            for crd in self._crds.values():
                if crd.strategy == "None" and crd.served:
                    await self._stashes_of(crd, {f"{crd.group}{written.STASH}", *names})

        return look

    async def _stashes_of(self, crd: Crd, names: set[str]) -> None:
        resource = crd.resource_at(crd.storage.name if crd.storage.name in crd.served else crd.served[0])
        kept: dict[str, list[str]] = {}
        try:
            async for each in self._list(resource):
                metadata = each["metadata"]
                for name in names & {*(metadata.get("annotations") or {})}:
                    where = qualified_name(metadata.get("namespace"), metadata["name"])
                    if reason := _stash_needed(crd, resource, metadata, name):
                        kept.setdefault(reason, []).append(where)
                    else:
                        removal = _Removal(self._cluster, resource, metadata)
                        self._add(LeftoverKind.STASH, f"{name} of {crd.plural} {where}", remove=removal.of(name))
        except KubeError as error:
            if error.out_of_reach:
                raise
            self.result.not_seen.append(str(error))
        for reason, objects in kept.items():
            self._add(LeftoverKind.STASH, f"{crd.name} ({len(objects)})", f"{few(objects)} of {crd.name}: {reason}")

    async def webhooks(self) -> None:
        """Look at webhook configurations, and then at the Secrets of their servers."""
        going = []
        for kind in CONFIGURATIONS:
            async for live in self._list(resource_of(kind), metadata_only=False):
                metadata, addresses = live["metadata"], [address_in(hook) for hook in live.get("webhooks") or ()]
                if not addresses or addresses[0] is None or not is_alone_ours(live, addresses[0]):
                    continue
                called = await crds_of(self._cluster, addresses[0])
                reason = (
                    f"the CRD {few(called)} calls its server: run restow unwire {called[0]} first" if called else ""
                )
                if not reason and metadata["name"] == RULES_CONFIGURATION and self._rules:
                    reason = f"it admits the ConversionRules {few(self._rules)}: delete these first"
                if not reason:
                    going.append(metadata["name"])
                self._add(
                    LeftoverKind.CONFIGURATION, metadata["name"], reason, self._deletes(resource_of(kind), metadata)
                )
        async for each in self._list(SECRETS, labelSelector="=".join(MANAGED_BY)):
            metadata = each["metadata"]
            namespace, server = metadata["namespace"], metadata["name"].removesuffix("-ca")
            against = await obstacles(self._cluster, Service(namespace, server), namespace, server, unwired=going)
            name = qualified_name(namespace, metadata["name"])
            self._add(LeftoverKind.SECRET, name, "; ".join(against), self._deletes(SECRETS, metadata))

    async def in_namespaces(self) -> None:
        """Look at ConfigMaps, backups of Helm releases and Leases."""
        prefixes = (written.CONVERSIONS, written.DECLARED, written.SHARDS)
        async for each in self._list(CONFIG_MAPS):
            metadata = each["metadata"]
            if metadata["name"].startswith(prefixes):
                name = qualified_name(metadata["namespace"], metadata["name"])
                reason = await self._config_map_needed(metadata)
                self._add(LeftoverKind.CONFIG_MAP, name, reason, self._deletes(CONFIG_MAPS, metadata))
        ((label, value),) = BACKUP_LABEL.items()
        async for each in self._list(SECRETS, labelSelector=f"{label}={value}"):
            metadata = each["metadata"]
            name = qualified_name(metadata["namespace"], metadata["name"])
            crd, _, version = (metadata.get("annotations") or {}).get(MOVED, "").partition(" ")
            known = crd in self._crds and version in [each.name for each in self._crds[crd].versions]
            reason = f"restow references {crd} --version {version} --undo takes the release back from {name}"
            reason += f": remove {version} from {crd} first, or delete the Secret"
            self._add(LeftoverKind.SECRET, name, reason if known else "", self._deletes(SECRETS, metadata))
        async for each in self._list(LEASES, metadata_only=False):
            metadata = each["metadata"]
            if metadata["name"].startswith(written.LEASES):
                self._lease(metadata, each.get("spec") or {})

    def _lease(self, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
        name, holder = qualified_name(metadata["namespace"], metadata["name"]), spec.get("holderIdentity")
        renewed = spec.get("renewTime")
        lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0) + _GRACE
        if holder and renewed and datetime.fromisoformat(renewed) + lasts > self._now():
            self.result.running.append(f"the Lease {name} is held by {holder}")
        else:
            self._add(LeftoverKind.LEASE, name, remove=self._deletes(LEASES, metadata))

    async def _config_map_needed(self, metadata: Mapping[str, Any]) -> str:
        """Return why a ConfigMap of the operator is needed."""
        namespace, name = metadata["namespace"], metadata["name"]
        if name.startswith(written.SHARDS):
            return ""
        whole = (await self._cluster.get(CONFIG_MAPS, name, namespace)).json()
        if name.startswith(written.DECLARED):
            rules = (whole.get("data") or {}).get("rules", "")
            return f"the ConversionRules {rules} exist: delete these first" if rules in self._rules else ""
        record = RevisionRecord.read(whole)
        if record.rules in self._rules:
            return f"{namespace}/{name} has what converts objects of {record.crd}: delete {record.rules} first"
        crd = self._crds.get(record.crd)
        if crd is not None and self._wired(crd):
            return f"{namespace}/{name} has what converts objects of {record.crd}: run restow unwire {record.crd} first"
        if crd is not None and record.former:
            return (
                f"{namespace}/{name} has the spec.conversion of {record.crd} from before restow took it over: compare "
                f"it with the CRD, then run kubectl delete configmap -n {namespace} {name}"
            )
        return ""

    async def native(self) -> None:
        """Look at the StorageVersionMigrations that ``migrate --engine native`` made."""
        api = await find_native(self._cluster)
        if api is None:
            return
        for each in api.migrations:
            if each.name.startswith(f"restow-{each.spec.resource.resource}-"):
                reason = "" if each.state.over else f"the StorageVersionMigration {each.name} is running: wait for it"
                self._add(LeftoverKind.NATIVE, each.name, reason, partial(self._delete, api.resource, each.name))

    async def _delete(self, resource: Resource, name: str) -> None:
        await self._cluster.delete(resource, name)


def _stash_needed(crd: Crd, resource: Resource, metadata: Mapping[str, Any], name: str) -> str:
    """Return why a stash stays, a sentence; empty if nobody needs it."""
    parsed = parse_stash(metadata["annotations"][name])
    if parsed is None:
        return f"the annotation {name} is no stash of restow: ask its owner, or remove it"
    stash, _ = parsed
    if stash.foreign:
        return f"the stash in {name} is of a newer release of restow: use that release"
    if needed := sorted({version.name for version in crd.versions} & {*stash.kept}):
        versions = ", ".join(needed)
        return f"the stash in {name} alone has fields of {versions}: remove {versions} from the CRD first"
    if any(entry.get("apiVersion") != resource.api_version for entry in metadata.get("managedFields") or ()):
        return (
            f"nobody needs the stash in {name}, but the write that removes it may cost field owners at other versions: "
            f"run restow migrate {crd.name} first"
        )
    return ""
