"""What restow says where Gardener is asked: the same answers in the same form, by the way that a request travels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from restow.cloudprofile.capabilities import defaulted
from restow.cloudprofile.maintenance.plan import maintain
from restow.cloudprofile.maintenance.schedule import InvalidWindow, window_of
from restow.cloudprofile.objects import CLOUD_PROFILE, Object, ProfileReference, profile_of, spec_of
from restow.cloudprofile.profiles.rendering import render
from restow.cloudprofile.shoots.profile import offering
from restow.cloudprofile.versions.lifecycle import next_transition_of, status_of
from restow.cloudprofile.versions.updates import NoUpdateTarget, auto_target, consecutive_minor_target, image_target
from tests.cloudprofile.served import HUB, Answer, ApiServer, at_version, schema_findings, schema_of

__all__ = ["lifecycle", "maintained", "merged", "reasons", "sent", "targets", "travelling", "window"]

Document = dict[str, Any]

_PLURALS = {"CloudProfile": "cloudprofiles", "NamespacedCloudProfile": "namespacedcloudprofiles", "Shoot": "shoots"}


def at_hub(obj: Document) -> Document:
    """Return an object at v1beta2."""
    return at_version(obj, HUB)


def travelling(obj: Document) -> Document:
    """Return an object of Gardener's as a client of restow's writes it: at v1beta2 if it has lifecycles."""
    return at_hub(obj) if "'lifecycle'" in repr(obj.get("spec")) else obj


def lifecycle(spec: Document, now: datetime) -> Document:
    """Return the classifications of a spec, and its next transition."""
    obj = {"apiVersion": "core.gardener.cloud/v1beta1", "kind": CLOUD_PROFILE, "metadata": {"name": "p"}, "spec": spec}
    hub = spec_of(at_hub(obj))
    status = status_of(hub, now)
    following = next_transition_of(hub, now)
    return {
        "kubernetes": _named(status.get("kubernetes", {})),
        "images": [_named(image) for image in status.get("machineImages", ())],
        "next": None if following is None else following.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _named(part: Mapping[str, Any]) -> list[str]:
    return [version["classification"] for version in part.get("versions", ())]


def targets(versions: Sequence[Document], current: str, now: datetime) -> Document:
    """Return where each way to choose an update goes; empty for nowhere."""
    obj = {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": CLOUD_PROFILE,
        "metadata": {"name": "p"},
        "spec": {"kubernetes": {"versions": list(versions)}},
    }
    hub = spec_of(at_hub(obj))["kubernetes"]["versions"]

    def of_image(strategy: str, *, forced: bool) -> str:
        try:
            return image_target({"versions": hub, "updateStrategy": strategy}, current, now, forced=forced) or ""
        except NoUpdateTarget:
            return ""

    return {
        "patch": auto_target(hub, current, now) or "",
        "minor": of_image("minor", forced=False),
        "overall": of_image("major", forced=False),
        "consecutive minor": consecutive_minor_target(hub, current, now) or "",
        "next minor": of_image("patch", forced=True),
        "next major": of_image("minor", forced=True),
    }


def merged(parent: Document, child: Document) -> Document:
    """Return what the two render to."""
    return render(defaulted(spec_of(at_hub(parent))), spec_of(at_hub(child)))


def sent(new: Document, old: Document | None, held: Sequence[Document], now: datetime) -> Answer:
    """Return the answer to a request; a version that only the old object has may be hidden from clients of v1beta1."""
    by_plural: dict[str, list[Document]] = {}
    for each in map(travelling, [*held, *([] if old is None else [old])]):
        by_plural.setdefault(_PLURALS[each["kind"]], []).append(each)
    has_stages = "'lifecycle'" in repr([each["spec"] for each in (new, old) if each is not None])
    server, written = ApiServer(now, by_plural), at_hub(new) if has_stages else new
    if wrong := schema_findings(written, schema_of(written)):
        return Answer(f"{new['kind']} is invalid: [{', '.join(map(str, wrong))}]", 422)
    return server.create(written) if old is None else server.update(written, travelling(old))


def maintained(shoot: Document, profile: Document, now: datetime) -> Document:
    """Return the versions of a Shoot after its maintenance, and what is said of it."""
    reference = ProfileReference(CLOUD_PROFILE, profile["metadata"]["name"])
    hub = at_hub(shoot)
    assert profile_of(hub) == reference
    offer: Object = offering({reference: at_hub(profile)}).offer(reference) or {}
    plan = maintain(hub, offer, now)
    return {"spec": plan.spec, "updates": plan.updates, "image_error": plan.image_error}


def window(begin: str, end: str, now: datetime) -> bool | None:
    """Return whether a time is in a window; None if the window cannot be read."""
    try:
        return window_of({"spec": {"maintenance": {"timeWindow": {"begin": begin, "end": end}}}}).contains(now)
    except InvalidWindow:
        return None


_INDEX: Final = re.compile(r"\[\d+\]")


def reasons(answer: Answer) -> set[tuple[str, str]]:
    """Return the type and the field of each reason of a refusal, without the places in lists."""
    found = () if answer.allowed else answer.findings
    return {(each.type.value, _INDEX.sub("[]", each.field)) for each in found}
