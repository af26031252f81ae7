"""Shoot: the profile that a cluster is made from, and the versions that the cluster uses.

Every field that a rule reads is declared, because admission checks the types of declared fields only. Gardener's Shoot
has many more fields; the server keeps them unchanged and undeclared.

Pure.
"""

from __future__ import annotations

from typing import Final

from hack.crds.machines import ARCHITECTURES
from hack.crds.nodes import (
    ApiVersion,
    Node,
    Rule,
    count,
    flag,
    keyed,
    listed,
    record,
    refused,
    rule,
    rule_unless_broken_before,
    text,
)

# Offsets from UTC are limited to those in use, -1200 to +1400.
_TIME_OF_DAY = (
    r"^([01][0-9]|2[0-3])([0-5][0-9]){2}"
    r"(\+(0[0-9]|1[0-3])[0-5][0-9]|\+1400|-(0[0-9]|1[01])[0-5][0-9]|-1200)$"
)


def shoot(api: ApiVersion) -> dict[str, Node]:
    """Return the spec and the status of a Shoot."""
    restriction = record("", {"name": text("The name of the restriction.")}, open_=True)
    fields = {
        **_profile(api),
        "kubernetes": _kubernetes("The version of the control plane; a short one means the latest supported of it."),
        "accessRestrictions": listed(
            "The access restrictions of the region that the cluster keeps.", restriction, "atomic"
        ),
        "controlPlane": record("The control plane.", {"zones": _zones("The zones that it is pinned to.")}, open_=True),
        "maintenance": _maintenance(),
        "provider": _provider(),
        "region": text("One of the regions of the profile."),
    }
    rules, required = (_one_profile(), []) if api == "v1beta1" else ([], ["cloudProfile"])
    spec = record("The cluster that is wanted.", fields, required=required, rules=rules, open_=True)
    condition = record(
        "",
        {
            "type": text("What it is about."),
            "status": text("Whether it holds.", enum=["True", "False", "Unknown", "Progressing"]),
            "reason": text("Why, in a word."),
            "message": text("Why, as a sentence."),
            "lastTransitionTime": text("When the status last changed.", format="date-time"),
        },
        open_=True,
    )
    fields_of_status = {
        "lastMaintenance": _last_maintenance(),
        "conditions": keyed("Conditions of the cluster; MaintenanceWindowValid is restow's.", "type", condition),
    }
    status = record("The cluster that is there.", fields_of_status, open_=True)
    return {"spec": spec, "status": status}


def _profile(api: ApiVersion) -> dict[str, Node]:
    reference = record(
        "The profile that the cluster is made from; a NamespacedCloudProfile is one of the Shoot's own namespace.",
        {
            "kind": text(
                "The kind of the profile.", enum=["CloudProfile", "NamespacedCloudProfile"], default="CloudProfile"
            ),
            "name": text("The name of the profile.", minLength=1, maxLength=253),
        },
        required=["name"],
    )
    if api == "v1beta2":
        name = refused("cloudProfileName", "write it here as the name of cloudProfile")
        return {"cloudProfile": reference, "cloudProfileName": name}
    name = text(
        "The name of the CloudProfile that the cluster is made from. Deprecated: cloudProfile takes its place.",
        minLength=1,
        maxLength=253,
    )
    return {"cloudProfile": reference, "cloudProfileName": name}


def _one_profile() -> list[Rule]:
    return [
        rule_unless_broken_before(
            "has({0}.cloudProfile) || has({0}.cloudProfileName)",
            "name the profile that the cluster is made from",
            "FieldValueRequired",
            at=".cloudProfile",
        ),
        rule_unless_broken_before(
            "!has({0}.cloudProfile) || !has({0}.cloudProfileName) || "
            "({0}.cloudProfile.kind == 'CloudProfile' && {0}.cloudProfile.name == {0}.cloudProfileName)",
            "cloudProfile and cloudProfileName name different profiles: let them agree, or remove cloudProfileName",
            at=".cloudProfileName",
        ),
    ]


def _kubernetes(description: str) -> Node:
    version = text(description, maxLength=63, pattern=r"^([0-9]+(\.[0-9]+){0,2})?$")
    return record("Kubernetes.", {"version": version}, open_=True)


def _maintenance() -> Node:
    update = record(
        "What is updated then.",
        {
            "kubernetesVersion": flag("Whether Kubernetes is.", default=True),
            "machineImageVersion": flag("Whether the machine images are; yes, if nothing is said."),
        },
        open_=True,
    )
    window = record(
        "The time of day: at least 30 minutes, at most 6 hours.",
        {
            "begin": text(
                "When it begins, as HHMMSS and the offset from UTC, e.g. 220000+0100.",
                pattern=_TIME_OF_DAY,
                maxLength=_LENGTH_OF_A_TIME,
            ),
            "end": text("When it ends, in the same form.", pattern=_TIME_OF_DAY, maxLength=_LENGTH_OF_A_TIME),
        },
        required=["begin", "end"],
        rules=[_window_bounds()],
    )
    return record("When and how the cluster is updated.", {"autoUpdate": update, "timeWindow": window}, open_=True)


_LENGTH_OF_A_TIME: Final = 11


def _window_bounds() -> Rule:
    """Return the rule with Gardener's bounds for a window; it ignores times that their own pattern refuses."""

    def seconds(name: str) -> str:
        offset = f"(int(self.{name}.substring(7, 9)) * 3600 + int(self.{name}.substring(9, 11)) * 60)"
        return (
            f"(int(self.{name}.substring(0, 2)) * 3600 + int(self.{name}.substring(2, 4)) * 60 + "
            f"int(self.{name}.substring(4, 6)) - (self.{name}.substring(6, 7) == '+' ? {offset} : -{offset}))"
        )

    form = "'^[0-9]{6}[+-][0-9]{4}$'"
    # The two times differ by at most 38 hours; adding two days keeps the remainder from being negative.
    duration = f"(({seconds('end')} - {seconds('begin')} + 172800) % 86400)"
    return rule(
        f"!self.begin.matches({form}) || !self.end.matches({form}) || ({duration} >= 1800 && {duration} <= 21600)",
        "the window must be at least 30 minutes long and at most 6 hours: move begin or end",
    )


def _provider() -> Node:
    workers = keyed("The worker pools.", "name", _worker())
    fields = {"type": text("The provider, e.g. aws."), "workers": workers}
    return record("The provider and the worker pools.", fields, open_=True)


def _worker() -> Node:
    image = record(
        "The image of the machines.",
        {"name": text("The name of the image."), "version": text("Its version; a short one means the latest of it.")},
        open_=True,
    )
    machine = record(
        "The machines.",
        {
            "type": text("The machine type."),
            "image": image,
            "architecture": text("The processor architecture.", enum=ARCHITECTURES),
        },
        open_=True,
    )
    runtime = record("", {"type": text("Its type.")}, open_=True)
    interface = record(
        "The container runtime interface.",
        {
            "name": text("Its name."),
            "containerRuntimes": keyed("The container runtimes.", "type", runtime),
        },
        open_=True,
    )
    fields = {
        "name": text("The name of the pool.", minLength=1),
        "kubernetes": _kubernetes("The version of the pool, where it differs from that of the control plane."),
        "machine": machine,
        "cri": interface,
        "minimum": count("The lowest number of machines.", minimum=0),
        "maximum": count("The highest number of machines.", minimum=0),
        "updateStrategy": text(
            "How machines are updated: replaced one by one, or in place.",
            enum=["AutoRollingUpdate", "AutoInPlaceUpdate", "ManualInPlaceUpdate"],
            default="AutoRollingUpdate",
        ),
        "volume": record(
            "The root volume.", {"type": text("The volume type."), "size": text("Its size, e.g. 50Gi.")}, open_=True
        ),
        "zones": _zones("The zones of the machines."),
    }
    return record("", fields, open_=True)


def _zones(description: str) -> Node:
    return listed(description, {"type": "string"}, "atomic")


def _last_maintenance() -> Node:
    return record(
        "The last maintenance.",
        {
            "description": text("What was done, and why."),
            "triggeredTime": text("When it began.", format="date-time"),
            "state": text("How it stands.", enum=["Processing", "Succeeded", "Failed"]),
            "failureReason": text("Why it failed."),
        },
        open_=True,
    )
