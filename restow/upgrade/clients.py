"""Who writes the fields and versions that an upgrade removes, as far as managedFields of stored objects tell. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from restow.crds import Crd
from restow.crds.crddiff import CrdFinding
from restow.crds.schemachanges import ChangeVerdict
from restow.kube.resources import Object
from restow.upgrade.observed import is_below, owned_paths

_GOING: Final = frozenset({"field-removed", "fields-closed"})


def client_findings(old: Crd, new: Crd, found: Iterable[CrdFinding], objects: Iterable[Object]) -> Iterator[CrdFinding]:
    """Yield the managers of what goes, for each version and field that is gone or no longer served.

    Args:
        old, new: the CRD before and after.
        found: the verdict on its schemas.
        objects: stored objects with their managedFields.
    """
    withdrawn = {*old.served} - {*new.served}
    fields = [(each.version, each.path) for each in found if each.check in _GOING]
    writers: dict[tuple[str, str], Counter[str]] = {}
    owned: dict[str, tuple[str, ...]] = {}  # many objects have the same entries
    for obj in objects:
        met = set()
        for entry in obj["metadata"].get("managedFields") or ():
            version = str(entry.get("apiVersion")).rpartition("/")[2]
            if version in withdrawn:
                met.add((version, "spec.versions", entry.get("manager", "")))
            going = [path for at, path in fields if at == version]
            if not going:
                continue
            key = json.dumps(entry.get("fieldsV1"))
            if key not in owned:
                owned[key] = owned_paths(entry)
            met |= {
                (version, path, entry.get("manager", ""))
                for path in going
                if any(is_below(each, path) for each in owned[key])
            }
        for version, path, manager in met:
            writers.setdefault((version, path), Counter())[manager] += 1
    for (version, path), managers in sorted(writers.items()):
        who = ", ".join(f"{name or 'unnamed'} ({count})" for name, count in sorted(managers.items()))
        yield CrdFinding(new.name, version, "clients", ChangeVerdict.NOTICE, path, f"written by {who}")
