"""Find fields of stored objects that the storage version does not declare, because a rewrite prunes them permanently.

Stored bytes cannot be read: the API server prunes by the schema of the requested version, and a strict dry run checks
only the request. With strategy None, however, conversion changes only the apiVersion. Therefore a read at the version
that an object was stored at shows all fields that this version declares; a rewrite loses those that the storage version
does not declare. The search cannot see two kinds: fields that the old version's own schema has dropped since, which
every read prunes already, and fields of an old version that is not served, for which it can only compare the schemas.
Under strategy Webhook the converter decides about each field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from restow.crds import Crd, dropped_fields, pruned_paths
from restow.migrator.decide.proof import may_be_stored
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport, PlanCheck, PlanFinding
from restow.migrator.requests.environment import Environment
from restow.migrator.requests.lister import ListedPage, ListFailed, object_pages
from restow.migrator.requests.passes import WHOLE_OBJECTS

MOST_PATHS = 200
"""The most listed fields: below an open map, every object may have different names."""


@dataclass(slots=True)
class LostFields:
    """The numbers of objects by field that would be pruned, an example of each, and unserved old versions."""

    objects: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    unseen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    beyond: int = 0

    def add(self, path: str, where: str) -> None:
        """Count a field of an object (``namespace/name``)."""
        if path not in self.objects and len(self.objects) >= MOST_PATHS:
            self.beyond += 1
            return
        self.objects[path] += 1
        self.examples.setdefault(path, where)

    def findings(self, crd: Crd) -> list[PlanFinding]:
        """Return what a migration would prune, one sentence per field."""
        storage = crd.storage.name
        advice = "Declare it there, or move its value first"
        unseen = "Serve {name} for the time of the plan to see"
        said = self._sentences(crd, prunes="would prune", advice=f". {advice}", unseen=f". {unseen}")
        if self.beyond:
            said.append(f"rewriting would prune {self.beyond} fields more: look at what {storage} keeps of maps")
        return [PlanFinding(check=PlanCheck.FIELDS, message=each) for each in said]

    def warnings(self, crd: Crd) -> list[str]:
        """Return sentences about the fields that the current migration prunes."""
        said = self._sentences(crd, prunes="prunes")
        if self.beyond:
            said.append(f"rewriting prunes {self.beyond} fields more")
        return said

    def _sentences(self, crd: Crd, *, prunes: str, advice: str = "", unseen: str = "") -> list[str]:
        storage = crd.storage.name
        said = [
            f"{name} is not served, so it cannot be seen whether objects of {crd.name} use fields that {storage} does "
            f"not have and a rewrite {prunes}: {', '.join(paths)}{unseen.format(name=name)}"
            for name, paths in self.unseen.items()
        ]
        said += [
            f"rewriting {prunes} {path} of {count} objects for good ({self.examples[path]} among them): {storage} "
            f"does not declare it{advice}"
            for path, count in sorted(self.objects.items())
        ]
        return said


async def warn_of_lost_fields(environment: Environment, crd: Crd, options: Options, report: CrdReport) -> None:
    """Report the fields that a run prunes before it does, because they cannot be seen afterwards.

    This costs a list of whole objects at each older version that declares more fields, and nothing if none does.
    """

    def pages(version: str) -> AsyncIterator[ListedPage]:
        size = options.page_size or WHOLE_OBJECTS
        return object_pages(environment, crd, options, report.requests, size, version=version, whole=True)

    try:
        found = await find_lost_fields(crd, pages)
    except ListFailed as failure:
        report.warn([f"whether fields are pruned could not be seen: {failure}"])
    else:
        report.warn(found.warnings(crd))


async def find_lost_fields(crd: Crd, pages_at: Callable[[str], AsyncIterator[ListedPage]]) -> LostFields:
    """Read the objects at every older version that may know more than the storage version does.

    Args:
        crd: the CRD.
        pages_at: lists the whole objects at a version.

    Raises:
        ListFailed: no attempt could read a page of the objects.
    """
    found = LostFields()
    if crd.strategy != "None":
        return found
    for name in may_be_stored(crd):
        version = crd.version(name)
        if version is None or version.storage:
            continue
        dropped = dropped_fields(version.schema, crd.storage.schema)
        if dropped and not version.served:
            found.unseen[name] = dropped
        elif dropped:
            async for page in pages_at(name):
                for meta, live in page.items:
                    for path in pruned_paths(live or {}, crd.storage.schema):
                        found.add(path, meta.key)
    return found
