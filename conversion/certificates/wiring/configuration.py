"""Decides which fields a webhook configuration lacks: the one apply that is due, or none.

A missing MutatingWebhookConfiguration or ValidatingWebhookConfiguration is installed. From then on it is kept like a
CRD's `spec.conversion`: restow writes only the fields that differ, and owns only the fields that it wrote. In a
configuration that a chart installs, this is `caBundle` alone.

A field that another writer has set to another value stays as it is, and is reported, because a shorter timeout or a
narrower selector is intended. Only for address and CA bundle, another *applier* leads to a refusal, as for CRDs: a
configuration whose webhook cannot be found is worse than a missing one. A webhook at another address that restow did
not write stays, whoever wrote it.

Sources: k8s.io/api `admissionregistration/v1` for lists by name (`webhooks`, `matchConditions`) and atomic ones
(`rules`, `admissionReviewVersions`).

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from restow.conversion.certificates.wiring.clientconfig import (
    NO_BUNDLE,
    Address,
    Bundle,
    address_in,
    address_of,
    assembled,
    bundle_in,
    differing,
    is_same_server,
    leaves,
)
from restow.conversion.certificates.wiring.crd import injector_of
from restow.conversion.certificates.wiring.fieldmanagers import appliers, is_ours, owners, sole_owner, wrote
from restow.conversion.model.errors import WiringRefused
from restow.conversion.model.values import Json

_CONFIG: Final = "f:clientConfig"
_CA_BUNDLE: Final = (_CONFIG, "f:caBundle")
_CONDITIONS: Final = "f:matchConditions"

Document = Mapping[str, Any]
Path = tuple[str, ...]
"""A field of a webhook, spelled as in managedFields."""


@dataclass(frozen=True, slots=True)
class ConfigurationPlan:
    """The change that is due for one webhook configuration.

    Attributes:
        calls: the addresses and bundles that the API server will use, to be probed before anything is written.
        body: the fields to apply; None if nothing is due.
        notes: remarks for a person, each a sentence.
        rivals: the addresses and bundles of another restow installation's webhooks that it names now.
        removes: whether certificates are removed from a bundle.
    """

    calls: tuple[tuple[Address, Bundle], ...]
    body: Json | None
    notes: tuple[str, ...] = ()
    rivals: tuple[tuple[Address, Bundle], ...] = ()
    removes: bool = False


def plan_configuration(
    wanted: Document, live: Document | None, bundle: Bundle, dropped: Bundle = NO_BUNDLE
) -> ConfigurationPlan:
    """Compare a webhook configuration, as just read, with the wanted one.

    Args:
        wanted: the document, each webhook with its address and without ``caBundle``.
        live: the configuration as read; None if there is none.
        bundle: certificates that verify the webhook's own certificate.
        dropped: certificates that must not be in any bundle any more.

    Raises:
        WiringRefused: the configuration of this name belongs to another owner, or another manager applies another
            address or CA bundle.
    """
    found = _Found(live or {}, f"{wanted['kind']} {wanted['metadata']['name']}")
    hooks = [_Hook(hook, found, bundle, dropped) for hook in wanted["webhooks"]]
    superfluous = [name for name in found.hooks if found.is_ours(name) and name not in {hook.name for hook in hooks}]
    notes = (*found.notes(), *(note for hook in hooks for note in hook.notes))
    calls = tuple((hook.address, hook.bundle) for hook in hooks)
    if live is not None and not superfluous and not any(hook.is_due for hook in hooks):
        return ConfigurationPlan(calls, None, notes)
    found.check({hook.name for hook in hooks})
    for hook in hooks:
        hook.check()
    metadata = {"name": wanted["metadata"]["name"]}
    if live is not None:
        metadata |= {"uid": live["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
    body = {
        "apiVersion": wanted["apiVersion"],
        "kind": wanted["kind"],
        "metadata": metadata,
        "webhooks": [hook.body for hook in hooks if hook.body is not None],
    }
    rivals = tuple(hook.rival for hook in hooks if hook.rival is not None)
    return ConfigurationPlan(calls, body, notes, rivals, any(hook.removes for hook in hooks))


def is_alone_ours(live: Document, server: Address) -> bool:
    """Return whether restow alone wrote all webhooks of a configuration, and all are at this server."""
    found = _Found(live, "")
    addresses = map(address_in, found.hooks.values())
    return (
        bool(found.hooks)
        and all(address is not None and is_same_server(address, server) for address in addresses)
        and all(sole_owner(found.entries, ("f:webhooks", _key(name))) for name in found.hooks)
    )


def bundles_of(wanted: Document, live: Document) -> tuple[Bundle, ...]:
    """Return the bundles that verify this webhook and that restow has to keep; unreadable ones are empty.

    Webhooks with other names or addresses belong to another owner.
    """
    found = _Found(live, "")
    if found.injector:
        return ()
    addresses = {hook["name"]: address_of(hook["clientConfig"]) for hook in wanted["webhooks"]}
    return tuple(
        bundle_in(hook)[0]
        for name, hook in found.hooks.items()
        if name in addresses and address_in(hook) == addresses[name]
    )


class _Found:
    """A configuration as it was read; empty if there is none."""

    def __init__(self, live: Document, name: str) -> None:
        metadata = live.get("metadata") or {}
        self.name = name
        self.hooks: Mapping[str, Document] = {str(hook.get("name")): hook for hook in live.get("webhooks") or ()}
        self.injector = injector_of(metadata.get("annotations") or {})
        self.entries: Sequence[Document] = metadata.get("managedFields") or ()

    def notes(self) -> Iterator[str]:
        if self.injector:
            yield f"{self.name} has the annotation {self.injector}: cert-manager writes its caBundle, restow does not"

    def check(self, wanted: AbstractSet[str]) -> None:
        """Raise WiringRefused if all of its webhooks belong to another owner."""
        if self.hooks and not any(name in wanted or self.is_ours(name) for name in self.hooks):
            managers = owners(self.entries, ("f:webhooks",))
            raise WiringRefused(
                f"there is a {self.name} with other webhooks, written by {' and '.join(managers) or 'another client'}: "
                "restow does not add its own; rename that one, or delete it"
            )

    def is_ours(self, hook: str) -> bool:
        return is_ours(self.entries, ("f:webhooks", _key(hook)))


class _Hook:
    """One webhook of a configuration: its wanted and its current fields."""

    def __init__(self, wanted: Document, found: _Found, bundle: Bundle, dropped: Bundle) -> None:
        self.name: str = wanted["name"]
        self.address = address_of(wanted["clientConfig"])
        self._found = found
        live = found.hooks.get(self.name) or {}
        self._live = dict(_leaves(live))
        present, self._problem = bundle_in(live)
        self.bundle = present if found.injector else (present - dropped) | (bundle - dropped)
        self.removes = not self.bundle >= present
        self._present = present
        config = live.get("clientConfig") or {}
        paths = [(_CONFIG, *(f"f:{name}" for name in path)) for path in differing(config, self.address)]
        self._another = address_in(live) if paths else None
        self._is_foreign = not all(wrote(found.entries, self._path(path)) for path in paths)
        self._wanted = dict(_leaves(wanted))
        if self.bundle and not found.injector:
            self._wanted[_CA_BUNDLE] = self._live[_CA_BUNDLE] if present.matches(self.bundle) else self.bundle.base64
        due = [path for path, value in self._wanted.items() if self._live.get(path) != value]
        self._foreign = {path: names for path in due if (names := self._others(path))}
        self._changes = [path for path in due if path not in self._foreign]
        # For example a url where a service is wanted.
        self._stale = [
            path for path in self._live if path[0] == _CONFIG and path != _CA_BUNDLE and path not in self._wanted
        ]

    @property
    def is_due(self) -> bool:
        return bool(self._changes or self._stale)

    @property
    def rival(self) -> tuple[Address, Bundle] | None:
        """The address and bundle of another restow's webhook, if the configuration names one."""
        if self._another is None or self._is_foreign or is_same_server(self._another, self.address):
            return None
        return self._another, self._present

    @property
    def notes(self) -> Iterator[str]:
        if self._problem:
            yield f"{self.name}: {self._problem}; it is replaced"
        for path, names in self._foreign.items():
            yield f"{self._spoken(path)} was set by {' and '.join(names)}, and stays"

    @property
    def body(self) -> Json | None:
        """The fields of the webhook to apply; None if there are none.

        A field that restow and another manager own gets the other manager's value: if it were left out, the server
        would remove the field.
        """
        values = self._wanted | {path: self._live[path] for path in self._foreign if path in self._live}
        kept = {path: value for path, value in values.items() if path in self._changes or self._owns(path)}
        return _assembled(self.name, kept) if kept else None

    def check(self) -> None:
        """Raise WiringRefused if another manager applies another address or bundle, or wrote another address."""
        for path in (*self._changes, *self._stale):
            managers = appliers(self._found.entries, self._path(path))
            if managers:
                raise WiringRefused(
                    f"{self._spoken(path)} is applied by {' and '.join(managers)} with another value: take it out of "
                    "that manifest, or correct it there"
                )
        for path in self._stale:
            if not sole_owner(self._found.entries, self._path(path)):
                raise WiringRefused(
                    f"{self._spoken(path)} is there, which restow did not write and does not remove: take it out first"
                )
        if self._is_foreign:
            managers = owners(self._found.entries, self._path((_CONFIG,)))
            raise WiringRefused(
                f"the webhook {self.name} in the {self._found.name} is at {self._another or 'a malformed address'}, as "
                f"{' and '.join(managers) or 'another client'} wrote it: restow does not move it to {self.address}; "
                "correct it there, or delete it"
            )

    def _others(self, path: Path) -> tuple[str, ...]:
        """Return the other managers of a field, except for a field of the webhook's address."""
        return () if path[0] == _CONFIG else owners(self._found.entries, self._path(path))

    def _owns(self, path: Path) -> bool:
        return is_ours(self._found.entries, self._path(path))

    def _path(self, path: Path) -> Path:
        return ("f:webhooks", _key(self.name), *path)

    def _spoken(self, path: Path) -> str:
        field = ".".join(name.removeprefix("f:") for name in path if name.startswith("f:"))
        return f"{field} of the webhook {self.name} in the {self._found.name}"


def _key(name: str) -> str:
    """Return the path element of a list item with this name."""
    return f"k:{json.dumps({'name': name}, separators=(',', ':'))}"


def _leaves(hook: Document) -> Iterator[tuple[Path, Any]]:
    """Yield the fields of a webhook: those of its address and its match conditions one by one, all others whole."""
    for name, value in hook.items():
        if name == "clientConfig":
            yield from (((_CONFIG, *(f"f:{step}" for step in path)), leaf) for path, leaf in leaves(value))
        elif name == "matchConditions":
            yield from (((_CONDITIONS, _key(condition["name"])), condition) for condition in value or ())
        else:
            yield (f"f:{name}",), value


def _assembled(name: str, fields: Mapping[Path, Any]) -> Json:
    """Return a webhook with these fields."""
    conditions = [value for path, value in fields.items() if path[0] == _CONDITIONS]
    plain = {path: value for path, value in fields.items() if path[0] != _CONDITIONS}
    hook = assembled({tuple(step.removeprefix("f:") for step in path): value for path, value in plain.items()})
    return {"name": name, **hook, **({"matchConditions": conditions} if conditions else {})}
