"""The whole sentence of each refusal: the object, the field, and the broken rule. One row per rule.

Tests of the single rules check whether they refuse; this module checks the text of the refusal.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from restow.cloudprofile.findings import is_denied, refusal
from restow.cloudprofile.profiles.admission import judge, judge_namespaced
from restow.cloudprofile.shoots.admission import shoot_findings
from tests.cloudprofile.manifests import shoot_profiles
from tests.cloudprofile.profiles.test_requirements import FUTURE, NOW, PAST

Json = dict[str, Any]

FIELD = re.compile(r"(spec|status\.cloudProfileSpec|metadata)(\.[A-Za-z]\w*(\[\d+\])?)+")
ENDING = [{"classification": "supported"}, {"classification": "expired", "startTime": FUTURE}]
ENDED = [{"classification": "supported"}, {"classification": "expired", "startTime": PAST}]
COMING = [{"classification": "supported", "startTime": FUTURE}]
WHOLE: Json = {
    "type": "local",
    "regions": [{"name": "here"}],
    "machineTypes": [{"name": "t", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
    "machineImages": [{"name": "ubuntu", "versions": [{"version": "1.0.0", "lifecycle": ENDING}]}],
    "kubernetes": {"versions": [{"version": "1.31.0"}, {"version": "1.30.0", "lifecycle": ENDING}]},
    "limits": {"maxNodesTotal": 9},
}
PARENT = {"kind": "CloudProfile", "metadata": {"name": "aws"}, "spec": WHOLE}
CHILD_SPEC: Json = {
    "parent": {"kind": "CloudProfile", "name": "aws"},
    "kubernetes": {"versions": [{"version": "1.30.0", "lifecycle": ENDING[1:]}]},
}
CHILD = {"kind": "NamespacedCloudProfile", "metadata": {"name": "mine", "namespace": "ns"}, "spec": CHILD_SPEC}
IMAGE = {"name": "ubuntu", "version": "1.0.0"}


def shoot_with(version: str = "1.31.0", name: str = "aws", image: Json = IMAGE, minimum: int = 1) -> Json:
    """Return a Shoot with one worker pool."""
    machine = {"type": "t", "image": image, "architecture": "amd64"}
    spec = {
        "cloudProfile": {"kind": "CloudProfile", "name": name},
        "kubernetes": {"version": version},
        "provider": {"workers": [{"name": "w", "machine": machine, "minimum": minimum, "maximum": 10}]},
    }
    return {"kind": "Shoot", "metadata": {"name": "shoot", "namespace": "ns"}, "spec": spec}


@dataclass(frozen=True)
class Refused:
    """A refused request: the objects sent, replaced and existing, and the expected field and rule."""

    where: str
    rule: str
    new: Json
    old: Json | None = None
    children: list[Json] = field(default_factory=list)
    shoots: list[Json] = field(default_factory=list)

    def findings(self) -> Any:
        """Return the findings of the rules."""
        new, old = (None if each is None else copy.deepcopy(each) for each in (self.new, self.old))
        assert new is not None
        if new["kind"] == "CloudProfile":
            return judge(new, old, children=self.children, shoots=self.shoots, now=NOW).findings
        if new["kind"] == "NamespacedCloudProfile":
            return judge_namespaced(new, old, parent=PARENT, shoots=self.shoots, now=NOW).findings
        return shoot_findings(new, old, shoot_profiles([PARENT, other("other")]), NOW)


def other(name: str) -> Json:
    """Return a CloudProfile with another name."""
    return {**PARENT, "metadata": {"name": name}}


def profile(**spec: Any) -> Json:
    """Return the CloudProfile with other parts; None omits one."""
    return {**PARENT, "spec": {name: part for name, part in {**WHOLE, **spec}.items() if part is not None}}


def child(**spec: Any) -> Json:
    """Return the NamespacedCloudProfile with other parts."""
    return {**CHILD, "spec": {**CHILD_SPEC, **spec}}


def versions(*listed: Json) -> Json:
    """Return a section of Kubernetes versions."""
    return {"kubernetes": {"versions": list(listed)}}


def images(**fields: Any) -> Json:
    """Return a section with one version of one machine image."""
    return {"machineImages": [{"name": "ubuntu", "versions": [{"version": "1.0.0", **fields}]}]}


def stages(*names: str, starts: str | None = None) -> list[Json]:
    """Return stages; all but the first start at the given time."""
    return [
        {"classification": name, **({"startTime": starts} if place and starts else {})}
        for place, name in enumerate(names)
    ]


VERSIONS, IMAGES = "spec.kubernetes.versions", "spec.machineImages"
TABLE = {
    # a CloudProfile by itself
    "no version": Refused(VERSIONS, "must provide at least one Kubernetes version", profile(**versions())),
    "no number": Refused(f"{VERSIONS}[0]", "must match the regex", profile(**versions({"version": "v1.31"}))),
    "twice": Refused(
        f"{VERSIONS}[1].version",
        'Duplicate value: "1.31.0"',
        profile(**versions({"version": "1.31.0"}, {"version": "1.31.0"})),
    ),
    "unknown stage": Refused(
        f"{VERSIONS}[0].lifecycle[0].classification",
        'supported values: "unavailable", "preview", "supported", "deprecated", "expired"',
        profile(**versions({"version": "1.31.0", "lifecycle": stages("ancient")})),
    ),
    "stage twice": Refused(
        f"{VERSIONS}[0].lifecycle[1].classification",
        'Duplicate value: "preview"',
        profile(**versions({"version": "1.31.0", "lifecycle": stages("preview", "preview", starts=FUTURE)})),
    ),
    "out of order": Refused(
        f"{VERSIONS}[0].lifecycle[1].classification",
        "preview must be before supported",
        profile(**versions({"version": "1.31.0", "lifecycle": stages("supported", "preview", starts=FUTURE)})),
    ),
    "not monotonic": Refused(
        f"{VERSIONS}[0].lifecycle[2]",
        "start times must be monotonically increasing",
        profile(
            **versions(
                {
                    "version": "1.31.0",
                    "lifecycle": [
                        *stages("preview", "supported", starts=FUTURE),
                        {"classification": "expired", "startTime": PAST},
                    ],
                }
            )
        ),
    ),
    "start missing": Refused(
        f"{VERSIONS}[0].lifecycle[1]",
        "only the leading lifecycle elements can have the start time optional",
        profile(
            **versions(
                {
                    "version": "1.31.0",
                    "lifecycle": [{"classification": "preview", "startTime": PAST}, *stages("supported")],
                }
            )
        ),
    ),
    "no time": Refused(
        f"{VERSIONS}[0].expirationDate", "soon", profile(**versions({"version": "1.31.0", "expirationDate": "soon"}))
    ),
    "both forms": Refused(
        f"{VERSIONS}[0]",
        "in combination with `lifecycle`",
        profile(**versions({"version": "1.31.0", "expirationDate": FUTURE, "lifecycle": ENDING})),
    ),
    "expired by classification": Refused(
        f"{VERSIONS}[0].classification",
        "cannot specify `classification` expired: set `expirationDate`, or a lifecycle",
        profile(**versions({"version": "1.31.0", "classification": "expired"})),
    ),
    "two supported": Refused(
        f"{VERSIONS}[0]",
        'must not overlap per minor version, and "1.31.1" has one',
        profile(
            **versions(
                {"version": "1.31.0", "lifecycle": stages("supported")},
                {"version": "1.31.1", "lifecycle": stages("supported")},
            )
        ),
    ),
    "preview below": Refused(
        f"{VERSIONS}[0]",
        "must be the latest patch version of its minor version",
        profile(**versions({"version": "1.31.0", "lifecycle": stages("preview")}, {"version": "1.31.1"})),
    ),
    "supported above a preview": Refused(
        f"{VERSIONS}[1]",
        "must be lower than all preview versions",
        profile(**versions({"version": "1.31.0", "lifecycle": stages("preview")}, {"version": "1.31.1"})),
    ),
    "image number": Refused(
        f"{IMAGES}[0].versions[0].version",
        "Use a semantic version",
        profile(machineImages=[{"name": "ubuntu", "versions": [{"version": "latest"}]}]),
    ),
    "image without versions": Refused(
        f"{IMAGES}[0].versions",
        "must provide at least one version for the machine image 'ubuntu'",
        profile(machineImages=[{"name": "ubuntu", "versions": []}]),
    ),
    "kubelet range": Refused(
        f"{IMAGES}[0].versions[0].kubeletVersionConstraint",
        "cannot parse the kubeletVersionConstraint",
        profile(**images(kubeletVersionConstraint="about 1.30")),
    ),
    "architecture": Refused(
        f"{IMAGES}[0].versions[0].architectures[0]", "amd64", profile(**images(architectures=["mips"]))
    ),
    "quantity": Refused(
        "spec.machineTypes[0].memory",
        "Invalid value",
        profile(machineTypes=[{"name": "t", "cpu": "1", "gpu": "0", "memory": "much"}]),
    ),
    "limit": Refused("spec.limits.maxNodesTotal", "must be greater than 0", profile(limits={"maxNodesTotal": 0})),
    "bundle": Refused("spec.caBundle", "not a valid PEM-encoded certificate", profile(caBundle="x")),
    # a CloudProfile in place of another
    "section taken away": Refused("spec.regions", "must provide at least one region", profile(regions=None), PARENT),
    "limit lowered": Refused(
        "spec.limits.maxNodesTotal", "cannot be decreased", profile(limits={"maxNodesTotal": 1}), PARENT
    ),
    "past date": Refused(
        f"{VERSIONS}[1]",
        "version 1.30.0 must not have an expiration in the past",
        profile(**versions({"version": "1.31.0"}, {"version": "1.30.0", "lifecycle": ENDED})),
        PARENT,
    ),
    "turned unavailable": Refused(
        f"{VERSIONS}[1]",
        "cannot be turned unavailable",
        profile(**versions({"version": "1.31.0"}, {"version": "1.30.0", "lifecycle": COMING})),
        PARENT,
    ),
    "not expired": Refused(
        VERSIONS,
        'unable to delete Kubernetes version "1.30.0": it is supported',
        profile(**versions({"version": "1.31.0"})),
        PARENT,
    ),
    "used by a Shoot": Refused(
        VERSIONS,
        "from CloudProfile \"aws\" - version is still in use by shoot 'ns/shoot'",
        profile(**versions({"version": "1.31.0"})),
        PARENT,
        shoots=[shoot_with("1.30.0")],
    ),
    "overridden by a child": Refused(
        VERSIONS,
        "version is still in use by NamespacedCloudProfile 'ns/mine'",
        profile(**versions({"version": "1.31.0"})),
        PARENT,
        children=[CHILD],
    ),
    "a stage overridden by a child": Refused(
        f"{VERSIONS}[1].lifecycle",
        "unable to delete the stage expired of version 1.30.0: it is overridden by NamespacedCloudProfile 'ns/mine'",
        profile(**versions({"version": "1.31.0"}, {"version": "1.30.0", "lifecycle": ENDING[:1]})),
        PARENT,
        children=[CHILD],
    ),
    "an image used by a Shoot": Refused(
        IMAGES,
        "unable to delete MachineImage version 'ubuntu/1.0.0' from CloudProfile \"aws\" - version is still in use",
        profile(machineImages=[{"name": "other", "versions": [{"version": "1.0.0"}]}]),
        PARENT,
        shoots=[shoot_with()],
    ),
    "a limit below a Shoot's nodes": Refused(
        "spec.limits.maxNodesTotal",
        'of shoot "ns/shoot" must not exceed the limit of 10',
        profile(limits={"maxNodesTotal": 10}),
        PARENT,
        shoots=[shoot_with(minimum=11)],
    ),
    # a NamespacedCloudProfile
    "no parent": Refused("spec.parent.name", "must provide a parent name", child(parent={"kind": "CloudProfile"})),
    "parent changed": Refused(
        "spec.parent", "field is immutable", child(parent={"kind": "CloudProfile", "name": "gcp"}), CHILD
    ),
    "version of its own": Refused(
        f"{VERSIONS}[0].version",
        "'1.29.0' does not exist in parent CloudProfile",
        child(**versions({"version": "1.29.0", "lifecycle": ENDING[1:]})),
    ),
    "nothing overridden": Refused(
        f"{VERSIONS}[0].lifecycle", "does not set expiration date", child(**versions({"version": "1.30.0"}))
    ),
    "stage of its own": Refused(
        f"{VERSIONS}[0].lifecycle[0].classification",
        "version 1.30.0 has no stage preview",
        child(**versions({"version": "1.30.0", "lifecycle": stages("preview")})),
    ),
    "classified": Refused(
        f"{VERSIONS}[0].classification",
        "must not provide a classification to a Kubernetes version",
        child(**versions({"version": "1.30.0", "classification": "preview"})),
    ),
    "into the past": Refused(
        f"{VERSIONS}[0].lifecycle",
        'expiration date for version "1.30.0" is in the past',
        child(**versions({"version": "1.30.0", "lifecycle": ENDED[1:]})),
        CHILD,
    ),
    "more than stages of an image": Refused(
        f"{IMAGES}[0].versions[0].architectures",
        "must not provide an architecture to an extended machine image",
        child(**images(architectures=["arm64"], lifecycle=ENDING[1:])),
    ),
    # a Shoot
    "unknown profile": Refused("spec.cloudProfile", 'CloudProfile "gone" not found', shoot_with(name="gone")),
    "unknown version": Refused("spec.kubernetes.version", 'Unsupported value: "1.7.0"', shoot_with("1.7.0")),
    "downgrade": Refused(
        "spec.kubernetes.version",
        'kubernetes version downgrade is not supported: from "1.31.0" to "1.30.0"',
        shoot_with("1.30.0"),
        shoot_with("1.31.0"),
    ),
    "unknown image": Refused(
        "spec.provider.workers[0].machine.image.version",
        'Unsupported value: "9.0.0": supported values: "ubuntu:1.0.0"',
        shoot_with(image={"name": "ubuntu", "version": "9.0.0"}),
    ),
    "other root": Refused(
        "spec.cloudProfile",
        'cannot change from "aws" to "other". A Shoot stays with the same root CloudProfile',
        shoot_with(name="other"),
        shoot_with(),
    ),
    "too many nodes": Refused("spec.provider.workers", "must not exceed the limit of 9", shoot_with(minimum=10)),
}


@pytest.mark.parametrize("refused", TABLE.values(), ids=TABLE)
def test_a_refusal_names_object_field_and_rule(refused: Refused) -> None:
    """A refused user would not know what to change, or where."""
    findings = refused.findings()
    assert any(finding.field == refused.where and refused.rule in str(finding) for finding in findings), list(
        map(str, findings)
    )
    metadata = refused.new["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
    sentence = refusal(refused.new["kind"], name, findings)
    said = "forbidden" if is_denied(findings) else "invalid"
    assert sentence.startswith(f'{refused.new["kind"]} "{name}" is {said}: ')
    for finding in findings:
        assert FIELD.fullmatch(finding.field), finding.field
        assert str(finding) in sentence
        assert len(finding.detail.split()) > 2 or finding.type in {"Duplicate", "NotSupported"}, finding.detail
