"""The fields of a webhook, in a CRD or in a webhook configuration: which ones to write, and who manages them.

restow writes only the fields that differ, and owns only the fields that it wrote. A field that it once owned must stay
in each of its later applies, because the server removes a field that its only owner leaves out. A field that another
manager applies must not be taken over: that manager's next apply would conflict, or both would overwrite each other
repeatedly.

A CA bundle keeps the certificates that it has, in their order, unless they are to be dropped: a replica may still use
them for serving. A bundle into which cert-manager injects is left to it.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from restow.conversion.certificates.wiring.clientconfig import Address, Bundle, address_in, differing
from restow.conversion.model.errors import WiringRefused

#: The field manager of restow's wiring.
FIELD_MANAGER: Final = "restow-wiring"

#: The label (key, value) of the Secrets that restow fills.
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "restow")

CONFIG: Final = "clientConfig"
_INJECTIONS: Final = ("inject-ca-from", "inject-ca-from-secret", "inject-apiserver-ca")

Path = tuple[str, ...]
"""The names of fields, from the outer one inwards; an item of a list by name is one step (``item``)."""
Leaves = Mapping[Path, Any]
Entries = Sequence[Mapping[str, Any]]


def item(name: str) -> str:
    """Return the step to the item of a list with this name."""
    return f"k:{json.dumps({'name': name}, separators=(',', ':'))}"


class FieldManagers:
    """The managers of the fields below a path, by the object's managedFields."""

    def __init__(self, entries: Entries, *root: str) -> None:
        self._entries = entries
        self._root = root

    def below(self, *path: str) -> FieldManagers:
        """Return those of the fields below a field."""
        return FieldManagers(self._entries, *self._root, *path)

    def is_ours(self, path: Path = ()) -> bool:
        """Return whether restow owns the field at a path, or a field below it."""
        return any(map(_is_own, self._owning(path)))

    def wrote(self, path: Path) -> bool:
        """Return whether restow owns the field by any operation: an apply, or the patch of a takeover."""
        return any(entry.get("manager") == FIELD_MANAGER for entry in self._owning(path))

    def sole_owner(self, path: Path = ()) -> bool:
        """Return whether restow is the only owner of the field: an apply without the field then removes it."""
        found = list(self._owning(path))
        return bool(found) and all(map(_is_own, found))

    def appliers(self, path: Path) -> tuple[str, ...]:
        """Return the other managers that apply the field (server-side apply), and so intend to keep its value.

        Managers of plain updates are left out, because the server's own defaults also count as the creator's update.
        """
        return _names(entry for entry in self._owning(path) if entry.get("operation") == "Apply")

    def others(self, path: Path = ()) -> tuple[str, ...]:
        """Return all other managers of the field, however they wrote it."""
        return _names(self._owning(path))

    def _owning(self, path: Path) -> Iterator[Mapping[str, Any]]:
        for entry in self._entries:
            node: Any = entry.get("fieldsV1") or {}
            for step in (*self._root, *path):
                name = step if step.startswith("k:") else f"f:{step}"
                node = node.get(name) if isinstance(node, Mapping) else None
            if node is not None:
                yield entry


def last_writer(entries: Entries) -> str:
    """Return the manager that wrote last, except restow; empty if no entry shows it.

    This is a hint: a client that only removes a field leaves no entry.
    """
    others = [entry for entry in entries if not _is_own(entry) and entry.get("subresource") != "status"]
    latest = max(others, key=lambda entry: str(entry.get("time") or ""), default={})
    return str(latest.get("manager") or "")


def _names(entries: Iterator[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(entry.get("manager") or "unknown") for entry in entries if not _is_own(entry)))


def _is_own(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"


def injector_of(annotations: Mapping[str, str]) -> str:
    """Return the annotation that makes cert-manager inject an object's bundle; empty if there is none."""
    names = (f"cert-manager.io/{name}" for name in _INJECTIONS)
    return next((name for name in names if name in annotations), "")


def injected(name: str, injector: str) -> tuple[str, ...]:
    """Return the note on an object whose bundle cert-manager injects; nothing without such an annotation."""
    if not injector:
        return ()
    return (f"{name} has the annotation {injector}: cert-manager writes its caBundle, restow does not",)


def foreign_paths(webhook: Mapping[str, Any] | None, address: Address, managers: FieldManagers) -> list[Path]:
    """Return the fields by which a webhook is at another address than this one, and which restow did not write."""
    config = (webhook or {}).get(CONFIG) or {}
    paths = [(CONFIG, *path) for path in differing(config, address)]
    return [path for path in paths if not managers.wrote(path)]


def rival_at(webhook: Mapping[str, Any] | None, address: Address, managers: FieldManagers) -> Address | None:
    """Return the address of another server that some restow wrote into a webhook; None if there is none.

    Every restow installation writes under one field manager, so that one whose Service moved can continue. Only the
    other webhook can tell whose it is, and whether it still runs.
    """
    live = address_in(webhook)
    if live is None or live.server == address.server or foreign_paths(webhook, address, managers):
        return None
    return live


class WebhookFields:
    """What is due for the fields of one webhook.

    Args:
        live, wanted: the fields, without the wanted bundle.
        config: the path of its ``clientConfig``.
        managers: the managers of the fields.
        present: the bundle that is there.
        bundle, dropped: certificates that the bundle must have, and that it must not have.
        injector: the annotation by which cert-manager writes the bundle; empty for none.
        stays: returns the managers because of which a field that differs stays as it is.

    Attributes:
        bundle: the bundle that the API server will use.
        removes: whether certificates are removed from the bundle.
        changes: the wanted fields that differ.
        theirs: the fields that differ and stay, each with its managers.
        stale: the fields of the address that are not wanted, for example a url where a service is wanted.
    """

    def __init__(
        self,
        live: Leaves,
        wanted: Leaves,
        *,
        config: Path,
        managers: FieldManagers,
        present: Bundle,
        bundle: Bundle,
        dropped: Bundle,
        injector: str,
        stays: Callable[[Path], tuple[str, ...]] = lambda _path: (),
    ) -> None:
        self._live = live
        self._managers = managers
        self.bundle = present if injector else (present - dropped) | (bundle - dropped)
        self.removes = not self.bundle >= present
        self.wanted = dict(wanted)
        ca_bundle = (*config, "caBundle")
        if self.bundle and not injector:
            self.wanted[ca_bundle] = live[ca_bundle] if present.matches(self.bundle) else self.bundle.base64
        due = [path for path, value in self.wanted.items() if live.get(path) != value]
        self.theirs = {path: names for path in due if (names := stays(path))}
        self.changes = [path for path in due if path not in self.theirs]
        self.stale = [
            path for path in live if path[: len(config)] == config and path != ca_bundle and path not in self.wanted
        ]

    @property
    def is_due(self) -> bool:
        """Whether a write is due."""
        return bool(self.changes or self.stale)

    @property
    def applied(self) -> Leaves:
        """The fields to apply: those that differ, and those that restow owns already.

        A field that restow and another manager own gets the other manager's value: if it were left out, the server
        would remove the field.
        """
        values = self.wanted | {path: self._live[path] for path in self.theirs if path in self._live}
        return {path: value for path, value in values.items() if path in self.changes or self._managers.is_ours(path)}

    def check(self, spoken: Callable[[Path], str], may_remove: Callable[[Path], bool]) -> None:
        """Raise WiringRefused if another manager applies a field that is due, or a stale one may not be removed."""
        for path in (*self.changes, *self.stale):
            if managers := self._managers.appliers(path):
                raise WiringRefused(
                    f"{spoken(path)} is applied by {' and '.join(managers)} with another value: take it out of that "
                    "manifest, or correct it there"
                )
        for path in self.stale:
            if not may_remove(path):
                raise WiringRefused(
                    f"{spoken(path)} is there, which restow did not write and does not remove: take it out first"
                )
