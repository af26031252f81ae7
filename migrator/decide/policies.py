"""Decide, from the CRD alone, the policy for managedFields entries of each of its versions.

An entry of a served version is translated or kept, and stripped only if an option says so; stripping is for unserved
and removed versions. Under strategy None every version's fields have the same paths, so the schemas are enough to
translate each entry, even one whose version is no longer in the CRD. Under strategy Webhook only the converter knows
the new place of a field.

Under strategy None the API server converts the object to an entry's version before it compares fields. If the storage
version has a default that this version does not declare, every object has such a field from its next write on, and that
conversion fails. A write that is not a server-side apply then empties managedFields (before Kubernetes 1.37), or leaves
an entry with which its manager can no longer apply. ``hazard_warnings`` names such entries if they stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from restow.crds import Crd, Schema, added_defaults, dropped_fields, retyped_fields, topology_differences
from restow.migrator.decide.proof import may_be_stored, reencoding_due
from restow.migrator.model.options import ManagedFields, Options, Phase, Scope
from restow.migrator.model.report import few
from restow.migrator.ownership.policy import EntryPolicies, EntryPolicy


def undeclared_defaults(old: Schema, new: Schema) -> tuple[str, ...]:
    """Return the paths where a version has a default that an older one would prune."""
    unknown = dropped_fields(new, old)
    return tuple(path for path in added_defaults(old, new) if any(is_at(path, place) for place in unknown))


def is_at(path: str, place: str) -> bool:
    """Return whether a path is a place, or below it."""
    return path.startswith(place) and path[len(place) :][:1] in ("", ".", "[", "{")


def hazard_warnings(
    hazards: Mapping[str, tuple[str, ...]], kept: Mapping[tuple[str, str], int], storage: str
) -> list[str]:
    """Return a sentence for each version whose entries stay despite such a default.

    Args:
        hazards: defaults that a version does not declare, by apiVersion.
        kept: the numbers of entries that stay, by manager and apiVersion.
        storage: the apiVersion of the storage version.
    """
    said = []
    for version, paths in hazards.items():
        entries = {manager: count for (manager, at), count in sorted(kept.items()) if at == version}
        if not entries:
            continue
        said.append(
            f"{sum(entries.values())} managedFields entries of {few(list(entries))} stay at {version}, which lacks "
            f"{few(list(paths))}, a default of {storage}: the next write of an object that has it costs all owners "
            "of the object, unless that write is a server-side apply. Run with --managed-fields translate, "
            f"--scope not-storage and --ignore-mark, and have these managers apply at {storage}"
        )
    return said


def entry_policies(crd: Crd, options: Options, *, completed: bool = False) -> EntryPolicies:
    """Decide, from the CRD alone, the policy for the entries of each of its versions.

    Args:
        crd: the CRD as read at the start of the pass.
        options: the options of the run.
        completed: whether a proof shows that a run with these options did the managedFields for exactly these versions;
            clients wrote the present entries of served versions since, and these entries stay.
    """
    storage = crd.storage
    by_version = {version.api_version: _entry_policy(crd, version.name, options) for version in crd.versions}
    if completed:
        served = {version.api_version for version in crd.versions if version.served} - {storage.api_version}
        by_version |= dict.fromkeys(served, EntryPolicy.KEEP)
    return EntryPolicies(
        storage=storage.api_version,
        by_version=by_version,
        removed=_removed(crd, options),
        present=frozenset(by_version),
        served=frozenset(version.api_version for version in crd.versions if version.served),
        reencode=reencoding_due(crd, options),
        new_defaults=_persisted_defaults(crd, options),
        schemas={version.api_version: version.schema for version in crd.versions},
        whole_objects=any(
            _needs_objects(by_version[version.api_version], version.schema, storage.schema)
            or (by_version[version.api_version] is EntryPolicy.RENAME and len(version.name) < len(storage.name))
            for version in crd.versions
        ),
        hazards={
            version.api_version: paths
            for version in crd.versions
            if crd.strategy == "None" and (paths := undeclared_defaults(version.schema, storage.schema))
        },
        grows=max(0, len(storage.name) - min(map(len, (storage.name, *may_be_stored(crd))))),
    )


def _persisted_defaults(crd: Crd, options: Options) -> tuple[str, ...]:
    """Return defaults that objects at an older version lack, and that a plain write would persist under our manager.

    They exclude the status: with a status subresource a write of the object itself never owns status fields.
    """
    storage = crd.storage
    stored = {version.name for version in crd.versions} if options.ignore_mark else set(may_be_stored(crd))
    older = [version for version in crd.versions if version.name in stored and not version.storage]
    found = dict.fromkeys(
        path
        for version in older
        for path in added_defaults(version.schema, storage.schema, webhook=crd.strategy == "Webhook")
        if not (storage.has_status_subresource and path.startswith(".status"))
    )
    return tuple(found)


def _entry_policy(crd: Crd, name: str, options: Options) -> EntryPolicy:
    version = crd.version(name)
    assert version is not None
    if version.storage:
        return EntryPolicy.CURRENT
    if not _in_scope(options, served=version.served, removed=False):
        return EntryPolicy.KEEP
    if options.managed_fields is ManagedFields.STRIP and (not version.served or options.strip_served):
        return EntryPolicy.DROP
    if crd.strategy != "None":
        return EntryPolicy.TRANSLATE
    if topology_differences(version.schema, crd.storage.schema):
        return EntryPolicy.RECONCILE
    return EntryPolicy.RENAME


def _needs_objects(policy: EntryPolicy, old: Schema, new: Schema) -> bool:
    if policy in (EntryPolicy.RENAME, EntryPolicy.DROP):
        return bool(retyped_fields(old, new))
    return policy is EntryPolicy.RECONCILE


def _removed(crd: Crd, options: Options) -> EntryPolicy:
    if not _in_scope(options, served=False, removed=True):
        return EntryPolicy.KEEP
    if options.managed_fields is ManagedFields.STRIP:
        return EntryPolicy.DROP
    return EntryPolicy.TRANSLATE if crd.strategy != "None" else EntryPolicy.RECONCILE_UNKNOWN


def _in_scope(options: Options, *, served: bool, removed: bool) -> bool:
    if not options.does(Phase.MANAGED_FIELDS) or options.managed_fields is ManagedFields.KEEP:
        return False
    if options.scope is Scope.NOT_STORAGE:
        return True
    if options.scope is Scope.UNSERVED:
        return not served
    return removed
