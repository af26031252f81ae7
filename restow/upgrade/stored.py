"""The stored objects of CRDs: of a cluster, or of a dump."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from restow.cli.exits import InputError
from restow.cli.files import found_in, sources_of
from restow.crds import Crd, dropped_fields, pruned_paths
from restow.kube.cluster import Cluster
from restow.kube.pager import list_pages
from restow.kube.resources import Object
from restow.migrator.decide.proof import may_be_stored
from restow.migrator.planning.dryrun import Sample
from restow.upgrade.observed import where_of

_PAGE: Final = 250


def chosen(objects: Iterable[Object], most: int | None) -> list[Object]:
    """Return at most so many objects: of every combination of managers and fields, from many namespaces."""
    if most is None:
        return list(objects)
    sample: Sample[Object] = Sample(most, lambda obj: obj)
    for obj in objects:
        metadata = obj["metadata"]
        entries = metadata.get("managedFields") or ()
        managers = frozenset((each.get("manager"), each.get("apiVersion")) for each in entries)
        fields = frozenset(name for part in obj.values() if isinstance(part, Mapping) for name in part)
        sample.offer((managers, fields), metadata.get("namespace"), where_of(obj), obj)
    return sample.items


def of_dump(paths: Sequence[Path], crds: Mapping[str, Crd]) -> dict[str, list[Object]]:
    """Return the objects of files by CRD, as ``kubectl get -o yaml --show-managed-fields`` writes them.

    Raises:
        InputError: a file cannot be read, or an object has a version that its CRD lacks.
    """
    kinds = {(crd.group, crd.kind): crd for crd in crds.values()}
    found: dict[str, list[Object]] = {name: [] for name in crds}
    for each in found_in(sources_of(paths, recursive=True)):
        group, _, version = str(each.value.get("apiVersion")).rpartition("/")
        crd = kinds.get((group, str(each.value.get("kind"))))
        if crd is None:
            continue
        if crd.version(version) is None:
            names = ", ".join(known.name for known in crd.versions)
            raise InputError(f"{each.where}: {each.title} is at {version}, and {crd.name} has only {names} before")
        found[crd.name].append(each.value)
    return found


async def of_cluster(cluster: Cluster, crd: Crd) -> list[Object]:
    """Return the objects of a CRD at the version at which each of them must be stored, as far as can be seen.

    With the strategy None an object is stored at an older version if it has a field there that the storage version
    lacks. Everything else is taken for stored at the storage version.
    """
    shown = crd.storage.name if crd.storage.served else crd.served[0]
    found = {where_of(obj): obj async for obj in _objects(cluster, crd, shown)}
    for name in may_be_stored(crd) if crd.strategy == "None" else ():
        version = crd.version(name)
        if version is None or version.storage or not version.served:
            continue
        if dropped_fields(version.schema, crd.storage.schema):
            async for obj in _objects(cluster, crd, name):
                if pruned_paths(obj, crd.storage.schema):
                    found[where_of(obj)] = obj
    return list(found.values())


async def _objects(cluster: Cluster, crd: Crd, version: str) -> AsyncIterator[Object]:
    async for page in list_pages(cluster, crd.resource_at(version), limit=_PAGE):
        for item in page:
            yield {"apiVersion": f"{crd.group}/{version}", "kind": crd.kind, **item}


def stored_form(crd: Crd, obj: Object) -> tuple[str, dict[str, Any]]:
    """Return the key in etcd of an object and the object as the API server stores it."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "selfLink")}
    if crd.namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    metadata.setdefault("uid", str(uuid5(NAMESPACE_OID, where_of(obj))))
    metadata.setdefault("creationTimestamp", "1970-01-01T00:00:00Z")
    metadata.setdefault("generation", 1)
    parts = ("/registry", crd.group, crd.plural, metadata.get("namespace") if crd.namespaced else "", metadata["name"])
    return "/".join(part for part in parts if part), {**obj, "metadata": metadata}


def namespaces_of(crd: Crd, objects: Iterable[Object]) -> Iterator[str]:
    """Yield the namespaces of objects, each once."""
    if crd.namespaced:
        yield from dict.fromkeys(obj["metadata"].get("namespace") or "default" for obj in objects)
