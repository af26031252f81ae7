"""Decides which fields a webhook configuration lacks: the one apply that is due, or none.

A missing MutatingWebhookConfiguration or ValidatingWebhookConfiguration is installed. From then on it is kept like a
CRD's `spec.conversion`. In a configuration that a chart installs, restow writes `caBundle` alone.

A field that another writer has set to another value stays as it is, and is reported, because a shorter timeout or a
narrower selector is intended. Only for address and CA bundle, another *applier* leads to a refusal, as for CRDs: a
configuration whose webhook cannot be found is worse than a missing one. A webhook at another address that restow did
not write stays, whoever wrote it.

Sources: k8s.io/api `admissionregistration/v1` for lists by name (`webhooks`, `matchConditions`) and atomic ones
(`rules`, `admissionReviewVersions`).

Pure.
"""

from __future__ import annotations

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
    leaves,
)
from restow.conversion.certificates.wiring.fieldmanagers import (
    CONFIG,
    FieldManagers,
    Path,
    WebhookFields,
    foreign_paths,
    injected,
    injector_of,
    item,
    rival_at,
)
from restow.conversion.model.errors import WiringRefused
from restow.conversion.model.values import Json

_CONDITIONS: Final = "matchConditions"

Document = Mapping[str, Any]


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
    names = {hook.name for hook in hooks}
    superfluous = [name for name in found.hooks if found.managers(name).is_ours() and name not in names]
    notes = (*injected(found.name, found.injector), *(note for hook in hooks for note in hook.notes))
    calls = tuple((hook.address, hook.fields.bundle) for hook in hooks)
    if live is not None and not superfluous and not any(hook.fields.is_due for hook in hooks):
        return ConfigurationPlan(calls, None, notes)
    found.check(names)
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
    return ConfigurationPlan(calls, body, notes, rivals, any(hook.fields.removes for hook in hooks))


def is_alone_ours(live: Document, server: Address) -> bool:
    """Return whether restow alone wrote all webhooks of a configuration, and all are at this server."""
    found = _Found(live, "")
    return bool(found.hooks) and all(
        (address := address_in(hook)) is not None
        and address.server == server.server
        and found.managers(name).sole_owner()
        for name, hook in found.hooks.items()
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
        self._entries: Sequence[Document] = metadata.get("managedFields") or ()

    def managers(self, hook: str) -> FieldManagers:
        """Return the managers of the fields of a webhook."""
        return FieldManagers(self._entries, "webhooks", item(hook))

    def check(self, wanted: AbstractSet[str]) -> None:
        """Raise WiringRefused if all of its webhooks belong to another owner."""
        if self.hooks and not any(name in wanted or self.managers(name).is_ours() for name in self.hooks):
            managers = FieldManagers(self._entries, "webhooks").others()
            raise WiringRefused(
                f"there is a {self.name} with other webhooks, written by {' and '.join(managers) or 'another client'}: "
                "restow does not add its own; rename that one, or delete it"
            )


class _Hook:
    """One webhook of a configuration: its wanted and its current fields."""

    def __init__(self, wanted: Document, found: _Found, bundle: Bundle, dropped: Bundle) -> None:
        self.name: str = wanted["name"]
        self.address = address_of(wanted["clientConfig"])
        self._found = found
        self._live = found.hooks.get(self.name) or {}
        self._managers = managers = found.managers(self.name)
        self._present, self._problem = bundle_in(self._live)
        self.fields = WebhookFields(
            dict(_leaves(self._live)),
            dict(_leaves(wanted)),
            config=(CONFIG,),
            managers=managers,
            present=self._present,
            bundle=bundle,
            dropped=dropped,
            injector=found.injector,
            stays=lambda path: () if path[0] == CONFIG else managers.others(path),
        )

    @property
    def rival(self) -> tuple[Address, Bundle] | None:
        """The address and bundle of another restow's webhook, if the configuration names one."""
        address = rival_at(self._live, self.address, self._managers)
        return None if address is None else (address, self._present)

    @property
    def notes(self) -> Iterator[str]:
        if self._problem:
            yield f"{self.name}: {self._problem}; it is replaced"
        for path, names in self.fields.theirs.items():
            yield f"{self._spoken(path)} was set by {' and '.join(names)}, and stays"

    @property
    def body(self) -> Json | None:
        """The fields of the webhook to apply; None if there are none."""
        fields = self.fields.applied
        return _assembled(self.name, fields) if fields else None

    def check(self) -> None:
        """Raise WiringRefused if another manager applies another address or bundle, or wrote another address."""
        self.fields.check(self._spoken, may_remove=self._managers.sole_owner)
        if foreign_paths(self._live, self.address, self._managers):
            managers = self._managers.others((CONFIG,))
            raise WiringRefused(
                f"the webhook {self.name} in the {self._found.name} is at "
                f"{address_in(self._live) or 'a malformed address'}, as {' and '.join(managers) or 'another client'} "
                f"wrote it: restow does not move it to {self.address}; correct it there, or delete it"
            )

    def _spoken(self, path: Path) -> str:
        field = ".".join(name for name in path if not name.startswith("k:"))
        return f"{field} of the webhook {self.name} in the {self._found.name}"


def _leaves(hook: Document) -> Iterator[tuple[Path, Any]]:
    """Yield the fields of a webhook: those of its address and its match conditions one by one, all others whole."""
    for name, value in hook.items():
        if name == CONFIG:
            yield from (((CONFIG, *path), leaf) for path, leaf in leaves(value))
        elif name == _CONDITIONS:
            yield from (((_CONDITIONS, item(condition["name"])), condition) for condition in value or ())
        else:
            yield (name,), value


def _assembled(name: str, fields: Mapping[Path, Any]) -> Json:
    """Return a webhook with these fields."""
    conditions = [value for path, value in fields.items() if path[0] == _CONDITIONS]
    hook = assembled({path: value for path, value in fields.items() if path[0] != _CONDITIONS})
    return {"name": name, **hook, **({_CONDITIONS: conditions} if conditions else {})}
