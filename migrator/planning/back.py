"""What it would mean to make an older version the storage version again (``plan --storage``, ``ready --storage``).

Every object is converted to the older version and back. What then differs is lost. What differs only if the annotations
that the conversion added are left out on the way back is kept in them: a client that drops annotations loses it. With
the strategy None nothing is kept, and the schemas say what the API server would drop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from restow.crds import Crd, Version, pruned_paths
from restow.crds.objectdiff import object_changes
from restow.kube.cluster import Cluster
from restow.kube.pager import list_pages
from restow.kube.resources import qualified_name
from restow.kube.retry import with_retries
from restow.kube.suggestions import did_you_mean
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.converter import Converter, Json, Unconverted
from restow.migrator.model.options import Options
from restow.migrator.model.report import Requests
from restow.migrator.requests.environment import Converters, Environment, own_webhook
from restow.migrator.requests.preflight import refusal
from restow.migrator.requests.webhook import open_converter

_PAGE: Final = 100
_MOST_PLACES: Final = 200


@dataclass(slots=True)
class FieldCounts:
    """The numbers of objects by field, and one of these objects each."""

    objects: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    beyond: int = 0

    def add(self, path: str, where: str) -> None:
        """Count a field of an object (``namespace/name``)."""
        if path not in self.objects and len(self.objects) >= _MOST_PLACES:
            self.beyond += 1
            return
        self.objects[path] += 1
        self.examples.setdefault(path, where)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the fields as data."""
        return [
            {"path": path, "objects": count, "example": self.examples[path]}
            for path, count in sorted(self.objects.items())
        ]

    def sentences(self, said: str) -> Iterator[str]:
        """Yield a sentence for each field."""
        for path, count in sorted(self.objects.items()):
            number = "1 object" if count == 1 else f"{count} objects"
            yield f"{path} of {number} ({self.examples[path]}): {said}"
        if self.beyond:
            yield f"{self.beyond} further places: {said}"


@dataclass(slots=True)
class WayBack:
    """The answer for one version.

    Attributes:
        crd: the name of the CRD.
        version: the older version.
        objects: the number of objects.
        lost: the fields that the older version cannot say.
        kept: the fields that only an annotation keeps at the older version.
        failed: why objects cannot be converted, counted as if it were a field.
        writers: the numbers of objects with managedFields entries at the present storage version, by manager.
        against: sentences with further reasons against the step.
    """

    crd: str
    version: str
    storage: str
    objects: int = 0
    lost: FieldCounts = field(default_factory=FieldCounts)
    kept: FieldCounts = field(default_factory=FieldCounts)
    failed: FieldCounts = field(default_factory=FieldCounts)
    writers: Counter[str] = field(default_factory=Counter)
    against: list[str] = field(default_factory=list)

    @property
    def loses(self) -> bool:
        """Whether a migration back would lose values, or fail."""
        return bool(self.lost.objects or self.failed.objects)

    @property
    def ready(self) -> bool:
        """Whether the version may become the storage version now."""
        return not (self.loses or self.against)

    def reasons(self) -> list[str]:
        """Return the reasons against the step."""
        return [
            *self.against,
            *self.failed.sentences(f"they cannot be converted to {self.version} and back"),
            *self.lost.sentences(f"{self.version} cannot say it, and it would be lost"),
        ]

    def notes(self) -> list[str]:
        """Return what follows the step."""
        said = list(self.kept.sentences(f"at {self.version} only an annotation keeps it; clients must not drop it"))
        if self.writers:
            who = ", ".join(f"{name} ({count})" for name, count in sorted(self.writers.items()))
            said.append(f"written at {self.storage} by {who}: keep {self.storage} served for them")
        return said

    def to_json(self) -> dict[str, Any]:
        """Return the answer as data."""
        return {
            "name": self.crd,
            "version": self.version,
            "mayBeStorage": self.ready,
            "against": self.against,
            "objects": self.objects,
            "lost": self.lost.to_json(),
            "kept": self.kept.to_json(),
            "failed": self.failed.to_json(),
            "writers": [{"manager": name, "objects": count} for name, count in sorted(self.writers.items())],
        }


async def way_back(
    cluster: Cluster,
    crd: Crd,
    version: str,
    converters: Converters = own_webhook,
    *,
    observe: Callable[[WayBack], None] = lambda _found: None,
) -> WayBack:
    """Convert all objects to an older version and back, without a write.

    Raises:
        MigrationRefused: the CRD lacks the version, it is the storage version, or the objects cannot be listed.
        ConverterDown: the conversion webhook does not answer.
        KubeError: the API server cannot be reached.
    """
    target = crd.version(version)
    if target is None:
        names = [each.name for each in crd.versions]
        msg = f"{crd.name} has no version {version}: its versions are {', '.join(names)}"
        if advice := did_you_mean(version, names):
            msg += f"; {advice}"
        raise MigrationRefused(msg)
    if target.storage:
        msg = f"{version} is the storage version of {crd.name} already"
        raise MigrationRefused(msg)
    if why := refusal(crd):
        raise MigrationRefused(why)
    found = WayBack(crd.name, version, crd.storage.name)
    if not target.served:
        found.against.append(
            f"{version} is not served, so no object could be migrated to it: serve it in one release, and make it the "
            "storage version in the next"
        )
    environment = Environment.brief(cluster)
    async with open_converter(converters(crd), environment, crd, Options(), Requests()) as converter:
        async for page in list_pages(with_retries(cluster), crd.resource_at(crd.storage.name), limit=_PAGE):
            await _look(found, crd, target, page, converter)
            observe(found)
    return found


async def _look(found: WayBack, crd: Crd, target: Version, page: Sequence[Json], converter: Converter) -> None:
    found.objects += len(page)
    for obj in page:
        entries = obj["metadata"].get("managedFields") or ()
        found.writers.update({each["manager"] for each in entries if each.get("apiVersion") == crd.storage.api_version})
    if crd.strategy == "None":
        for obj in page:
            for path in pruned_paths(obj, target.schema):
                found.lost.add(path, _where(obj))
        return
    bare = [{**obj, "metadata": _without(obj["metadata"], "managedFields")} for obj in page]
    down = await converter.convert(bare, target.api_version)
    ends = [(obj, each) for obj, each in zip(bare, down, strict=True) if not isinstance(each, Unconverted)]
    for obj, answer in zip(bare, down, strict=True):
        if isinstance(answer, Unconverted):
            found.failed.add(target.name, _where(obj))
    whole = await converter.convert([each for _, each in ends], crd.storage.api_version)
    stripped = await converter.convert([_as_annotated(each, obj) for obj, each in ends], crd.storage.api_version)
    for (obj, _), back, without in zip(ends, whole, stripped, strict=True):
        if isinstance(back, Unconverted):
            found.failed.add(crd.storage.name, _where(obj))
            continue
        lost = _changed(obj, back)
        for path in lost:
            found.lost.add(path, _where(obj))
        if not isinstance(without, Unconverted):
            for path in _changed(obj, without):
                if path not in lost:
                    found.kept.add(path, _where(obj))


def _changed(obj: Json, back: Json) -> tuple[str, ...]:
    metadata = obj["metadata"] | {key: back["metadata"].get(key) for key in ("labels", "annotations")}
    return tuple(dict.fromkeys(path for _, path in object_changes(obj, {**back, "metadata": metadata})))


def _as_annotated(answer: Json, obj: Json) -> Json:
    """Return an answer with only the annotations of the object that was converted."""
    kept = {"annotations": obj["metadata"]["annotations"]} if obj["metadata"].get("annotations") else {}
    return {**answer, "metadata": _without(answer["metadata"], "annotations") | kept}


def _without(metadata: Json, key: str) -> Json:
    return {name: value for name, value in metadata.items() if name != key}


def _where(obj: Json) -> str:
    return qualified_name(obj["metadata"].get("namespace"), obj["metadata"]["name"])
