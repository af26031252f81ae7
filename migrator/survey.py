"""What a migration would do, found by looking only: the numbers behind ``restow plan``.

The objects are listed and decided by the very functions that a migration uses, so a plan cannot promise what a
migration then does not do. One thing it leaves open: it converts nothing, since a plan must not cost a webhook as much
as the migration itself does. It supposes that all entries can be carried over (a dry run finds out), and counts the
conversions.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from restow.crds import Crd, dropped_fields, pruned_paths
from restow.kube.cluster import Cluster
from restow.kube.resources import Resource
from restow.migrator import mark as completion
from restow.migrator.decide import Decision, decide
from restow.migrator.halt import Halt
from restow.migrator.lister import Item, ListFailed, list_objects
from restow.migrator.model import Options, Phase
from restow.migrator.passes import Converters, Environment, own_webhook, page_size
from restow.migrator.preflight import Refused, refusal
from restow.migrator.report import Requests
from restow.migrator.translation import supposed
from restow.migrator.treatment import Treatments, treatments
from restow.migrator.wire import Meta

__all__ = ["Survey", "survey"]


@dataclass(slots=True, kw_only=True)
class Survey:
    """What was found of one CRD.

    Attributes:
        refused: why it cannot be migrated as it is, or empty.
        unfinished: why not all objects could be looked at, or empty.
        objects: how many objects there are (in the asked-for part).
        steps: objects by the requests that each needs, e.g. ``{("combined-patch",): 12, (): 3}``.
        entries: managedFields entries of other versions, by (apiVersion, treatment).
        owners: objects by (manager, apiVersion) of such entries.
        stripped: entries that would be stripped, by (manager, apiVersion).
        remaining: objects that would keep entries of other versions.
        blocked: objects that cannot be written without losing an owner.
        reads: objects that have to be read whole.
        translations: entries that would be sent through the converter.
        conversions: how many conversions that takes at most.
        in_process: they take place in this process, and not in the CRD's webhook.
        new_defaults: paths of defaults that a write would persist: two writes an object.
        lost_fields: objects by field that would be pruned for good (strategy None).
        reencode: whether every object is to be written, since storedVersions names another version.
        prune: whether storedVersions would be pruned, provided that every object gets through.
    """

    crd: Crd
    refused: str = ""
    unfinished: str = ""
    completed: bool = False
    objects: int = 0
    steps: Counter[tuple[str, ...]] = field(default_factory=Counter)
    entries: Counter[tuple[str, str]] = field(default_factory=Counter)
    owners: Counter[tuple[str, str]] = field(default_factory=Counter)
    stripped: Counter[tuple[str, str]] = field(default_factory=Counter)
    remaining: int = 0
    blocked: int = 0
    reads: int = 0
    translations: int = 0
    conversions: int = 0
    in_process: bool = False
    new_defaults: tuple[str, ...] = ()
    lost_fields: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    reencode: bool = False
    prune: bool = False
    requests: Requests = field(default_factory=Requests)

    @property
    def writes(self) -> int:
        """Write requests that a migration would send, retries and dry-run rehearsals not counted."""
        return sum(len(steps) * count for steps, count in self.steps.items())

    @property
    def due(self) -> tuple[Phase, ...]:
        """The phases with work to do."""
        due = []
        if self.reencode and self.objects:
            due.append(Phase.STORAGE)
        if self.entries and any("combined-patch" in steps for steps in self.steps):
            due.append(Phase.MANAGED_FIELDS)
        if self.prune:
            due.append(Phase.PRUNE)
        return tuple(due)

    def to_json(self) -> dict[str, Any]:
        """Return one element of ``crds`` in ``restow plan -o json``."""
        crd = self.crd
        return {
            "name": crd.name,
            "storageVersion": crd.storage.name,
            "servedVersions": list(crd.served),
            "storedVersions": list(crd.stored_versions),
            "strategy": crd.strategy,
            "refused": self.refused,
            "unfinished": self.unfinished,
            "due": [phase.value for phase in self.due],
            "objects": self.objects,
            "requests": {"list": self.requests.list, "read": self.reads, "write": self.writes},
            "steps": [{"requests": list(steps), "objects": count} for steps, count in sorted(self.steps.items())],
            "entries": [
                {"apiVersion": version, "treatment": treatment, "entries": count}
                for (version, treatment), count in sorted(self.entries.items())
            ],
            "owners": [
                {"manager": manager, "apiVersion": version, "objects": count}
                for (manager, version), count in sorted(self.owners.items())
            ],
            "stripped": [
                {"manager": manager, "apiVersion": version, "entries": count}
                for (manager, version), count in sorted(self.stripped.items())
            ],
            "remaining": self.remaining,
            "blocked": self.blocked,
            "conversions": {"entries": self.translations, "atMost": self.conversions},
            "newDefaults": list(self.new_defaults),
            "lostFields": [{"path": path, "objects": count} for path, count in sorted(self.lost_fields.items())],
            "warnings": list(self.warnings),
        }


async def survey(cluster: Cluster, crd: Crd, options: Options, converters: Converters = own_webhook) -> Survey:
    """Look at all objects of a CRD and count what a migration with these options and converters would do.

    Raises:
        KubeError: the API server cannot be reached.
    """
    found = Survey(crd=crd, refused=refusal(crd, options.namespace))
    try:
        found.in_process = crd.strategy != "None" and converters(crd) is not None
    except Refused as refused:
        found.refused = found.refused or str(refused)
    if found.refused:
        return found
    found.completed = completion.completed(crd, options)
    rules = treatments(crd, options, completed=found.completed)
    found.new_defaults = rules.new_defaults
    found.reencode = rules.reencode
    found.prune = rules.reencode and options.does(Phase.PRUNE) and not options.partial
    try:
        async for meta, live in _objects(cluster, crd, rules, options, found.requests, at=crd.storage.name):
            _count(found, _decided(found, meta, live, rules))
            for entry in meta.managed_fields:
                if entry.api_version != rules.storage:
                    found.entries[entry.api_version, rules.of(entry.api_version).value] += 1
            for owner in {(entry.manager, entry.api_version) for entry in meta.managed_fields}:
                if owner[1] != rules.storage:
                    found.owners[owner] += 1
        await _look_for_lost_fields(cluster, crd, rules, options, found)
    except ListFailed as failure:
        found.unfinished = str(failure)
    return found


def _decided(found: Survey, meta: Meta, live: dict[str, Any] | None, rules: Treatments) -> Decision:
    decision = decide(meta.managed_fields, rules, live)
    if not decision.needs_object:
        return decision
    translation, conversions = supposed(meta.managed_fields, rules)
    found.reads += live is None and not rules.translates
    found.translations += len(translation.carried)
    found.conversions += conversions
    return decide(meta.managed_fields, rules, live or {}, translation)


def _count(found: Survey, decision: Decision) -> None:
    found.objects += 1
    found.steps[tuple(step.value for step in decision.steps)] += 1
    found.stripped.update(decision.stripped)
    found.remaining += decision.remaining > 0
    found.blocked += bool(decision.refusal)


async def _objects(
    cluster: Cluster, crd: Crd, rules: Treatments, options: Options, requests: Requests, *, at: str, whole: bool = False
) -> AsyncIterator[Item]:
    environment = Environment(cluster, Halt(), time.monotonic, random.Random())
    async for page in list_objects(
        cluster,
        Resource(crd.group, at, crd.plural, crd.namespaced),
        page_size=page_size(options, crd, rules),
        requests=requests,
        halt=environment.halt,
        jitter=environment.jitter,
        namespace=options.namespace,
        selector=options.selector,
        whole=whole or rules.whole_objects,
    ):
        for item in page.items:
            yield item


async def _look_for_lost_fields(cluster: Cluster, crd: Crd, rules: Treatments, options: Options, found: Survey) -> None:
    """Find fields of stored objects that the storage version does not know: a rewrite prunes them for good.

    They show only at the version that declares them, so the objects are read there. Under strategy Webhook the
    converter decides what becomes of them.
    """
    if crd.strategy != "None" or not rules.reencode:
        return
    for name in crd.stored_versions:
        version = crd.version(name)
        if version is None or version.storage or not dropped_fields(version.schema, crd.storage.schema):
            continue
        if not version.served:
            fields = ", ".join(dropped_fields(version.schema, crd.storage.schema))
            found.warnings.append(
                f"{name} is not served, so it cannot be seen whether objects use fields that {crd.storage.name} does "
                f"not have and a rewrite would prune: {fields}"
            )
            continue
        wider = replace(rules, whole_objects=True)
        async for _meta, live in _objects(cluster, crd, wider, options, found.requests, at=name, whole=True):
            found.lost_fields.update(pruned_paths(live or {}, crd.storage.schema))
    for path, count in sorted(found.lost_fields.items()):
        found.warnings.append(
            f"rewriting would prune {path} of {count} objects for good: {crd.storage.name} does not declare it"
        )
