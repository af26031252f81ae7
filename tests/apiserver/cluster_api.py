"""Objects as a Cluster API installation has them at v1beta1, and the writes by which their owners made them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from restow.kube.resources import Resource
from tests.apiserver.kind import Document
from tests.apiserver.published import PublishedKind

How = Literal["apply", "create", "merge", "put"]


@dataclass(frozen=True)
class Write:
    """One write of an object: server-side apply, POST, merge patch, or read-change-PUT."""

    manager: str
    how: How
    parts: Document
    subresource: str | None = None


@dataclass(frozen=True)
class Sample:
    """Objects of one CRD.

    Attributes:
        file: the published CRD.
        canaries: the smallest valid spec at each version.
        objects: writes by object name.
        lossy: objects that use fields which v1beta2 does not have.
    """

    file: str
    canaries: dict[str, Document]
    objects: dict[str, tuple[Write, ...]]
    lossy: frozenset[str] = field(default_factory=frozenset)

    def applied(self, name: str) -> list[Write]:
        """The writes of an object that were server-side applies."""
        return [write for write in self.objects[name] if write.how == "apply"]


async def carry_out(kind: PublishedKind, name: str, write: Write, version: str = "v1beta1") -> None:
    """Do one write."""
    manifest = kind.manifest(version, name, **json.loads(json.dumps(write.parts)))
    resource, namespace = kind.at(version), "default"
    params = {"fieldManager": write.manager}
    if write.how == "apply":
        await kind.apply(manifest, write.manager, subresource=write.subresource)
    elif write.how == "create":
        await kind.cluster.create(resource, json.dumps(manifest).encode(), namespace, params=params)
    elif write.how == "merge":
        await kind.merge(version, name, write.parts, write.manager, subresource=write.subresource)
    else:
        await _put(kind, resource, name, write, params)


async def _put(kind: PublishedKind, resource: Resource, name: str, write: Write, params: dict[str, str]) -> None:
    now = await kind.get(resource.version, name)
    for part, content in write.parts.items():
        now[part] = now.get(part, {}) | content
    body = json.dumps(now).encode()
    await kind.cluster.replace(resource, name, body, "default", subresource=write.subresource, params=params)


def _apply(manager: str, **parts: Any) -> Write:
    return Write(manager, "apply", parts)


def _status(manager: str, how: How = "apply", **status: Any) -> Write:
    return Write(manager, how, {"status": status}, "status")


def _ref(kind: str, name: str, api_version: str = "infrastructure.cluster.x-k8s.io/v1beta1") -> Document:
    return {"apiVersion": api_version, "kind": kind, "name": name, "namespace": "default"}


def _condition(kind: str, status: str = "True", **more: str) -> Document:
    told = {"reason": "Provisioned", "message": "fine", "lastTransitionTime": "2025-03-01T10:00:00Z"}
    return {"type": kind, "status": status} | told | more


_CONDITIONS = [_condition("Ready"), _condition("Available", "False", message="waiting", reason="Waiting")]
_SEVERE = [_condition("Ready", "False", severity="Error", message="no network"), _condition("Available")]
_LABELS = {"labels": {"cluster.x-k8s.io/cluster-name": "prod"}, "annotations": {"cluster.x-k8s.io/paused": "no"}}
_V2_REF = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachine", "name": "m"}

MACHINES = Sample(
    file="cluster.x-k8s.io_machines.yaml",
    canaries={
        "v1beta1": {"bootstrap": {}, "clusterName": "c", "infrastructureRef": {"name": "m"}},
        "v1beta2": {"bootstrap": {}, "clusterName": "c", "infrastructureRef": _V2_REF},
    },
    objects={
        "plain": (
            _apply(
                "capi-machineset",
                metadata=_LABELS,
                spec={
                    "clusterName": "prod",
                    "bootstrap": {"dataSecretName": "prod-md-0"},
                    "infrastructureRef": {"kind": "DockerMachine", "name": "prod-md-0"},
                    "readinessGates": [{"conditionType": "example.com/disk"}],
                },
            ),
            _apply(
                "autoscaler",
                metadata={"annotations": {"cluster.x-k8s.io/delete-machine": "yes"}, "finalizers": ["example.com/f"]},
                spec={
                    "readinessGates": [{"conditionType": "example.com/net", "polarity": "Negative"}],
                    "taints": [{"key": "a", "effect": "NoSchedule", "propagation": "Always", "value": "b"}],
                },
            ),
            _status(
                "capi-machine",
                phase="Running",
                conditions=_CONDITIONS,
                nodeRef={"name": "node-1"},
                addresses=[{"type": "InternalIP", "address": "10.0.0.1"}],
            ),
        ),
        "referring": (
            _apply(
                "capi-machineset",
                spec={
                    "clusterName": "prod",
                    "version": "v1.32.0",
                    "bootstrap": {"configRef": _ref("KubeadmConfig", "prod-0", "bootstrap.cluster.x-k8s.io/v1beta1")},
                    "infrastructureRef": _ref("DockerMachine", "prod-0"),
                },
            ),
            _apply("drainer", spec={"nodeDrainTimeout": "10s", "nodeDeletionTimeout": "20s", "failureDomain": "z1"}),
            Write("editor", "merge", {"metadata": {"labels": {"edited": "yes"}}, "spec": {"providerID": "docker:////1"}}),
            _status(
                "manager",
                "put",
                phase="Running",
                bootstrapReady=True,
                infrastructureReady=True,
                conditions=_SEVERE,
                nodeRef={"apiVersion": "v1", "kind": "Node", "name": "node-2", "uid": "1-2-3"},
                v1beta2={"conditions": [_condition("Ready")]},
            ),
        ),
        "by-hand": (
            Write(
                "kubectl-create",
                "create",
                {
                    "spec": {
                        "clusterName": "prod",
                        "bootstrap": {"dataSecretName": "s"},
                        "infrastructureRef": {"kind": "DockerMachine", "name": "x"},
                        "taints": [{"key": "k", "effect": "NoExecute", "propagation": "OnInitialization"}],
                    }
                },
            ),
            Write("kubectl-edit", "put", {"spec": {"failureDomain": "z2", "version": "v1.31.0"}}),
            _status("manager", "merge", phase="Pending", conditions=_CONDITIONS[:1]),
        ),
    },
    lossy=frozenset({"referring"}),
)

CLUSTERS = Sample(
    file="cluster.x-k8s.io_clusters.yaml",
    canaries={"v1beta1": {"paused": False}, "v1beta2": {"paused": False}},
    objects={
        "plain": (
            _apply(
                "argocd",
                metadata=_LABELS,
                spec={
                    "clusterNetwork": {"pods": {"cidrBlocks": ["10.1.0.0/16", "10.2.0.0/16"]}, "serviceDomain": "cluster.local"},
                    "controlPlaneRef": {"kind": "KubeadmControlPlane", "name": "prod"},
                    "availabilityGates": [{"conditionType": "example.com/dns"}],
                },
            ),
            _apply(
                "capd",
                spec={
                    "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
                    "availabilityGates": [{"conditionType": "example.com/net", "polarity": "Positive"}],
                },
            ),
            _status("capi", phase="Provisioned", observedGeneration=1, conditions=_CONDITIONS),
        ),
        "topology": (
            _apply(
                "argocd",
                spec={
                    "topology": {
                        "class": "quick",
                        "classNamespace": "default",
                        "version": "v1.32.0",
                        "rolloutAfter": "2025-03-01T10:00:00Z",
                        "controlPlane": {
                            "replicas": 3,
                            "nodeDrainTimeout": "5s",
                            "metadata": {"labels": {"tier": "cp"}},
                            "machineHealthCheck": {"enable": True, "maxUnhealthy": "30%"},
                        },
                        "variables": [
                            {"name": "image", "value": {"os": "flatcar", "tags": ["a", "b"]}, "definitionFrom": "inline"},
                            {"name": "size", "value": 3},
                        ],
                        "workers": {
                            "machineDeployments": [
                                {
                                    "class": "default",
                                    "name": "md-0",
                                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
                                    "variables": {"overrides": [{"name": "size", "value": 5, "definitionFrom": "x"}]},
                                }
                            ]
                        },
                    },
                    "infrastructureRef": _ref("DockerCluster", "prod", "infrastructure.cluster.x-k8s.io/v1beta1"),
                },
            ),
            _apply(
                "autoscaler",
                spec={
                    "topology": {
                        "class": "quick",
                        "version": "v1.32.0",
                        "workers": {
                            "machineDeployments": [
                                {"class": "default", "name": "md-0", "replicas": 4, "metadata": {"labels": {"a": "b"}}},
                                {"class": "gpu", "name": "md-1", "replicas": 1, "nodeDrainTimeout": "1s"},
                            ],
                            "machinePools": [{"class": "pool", "name": "mp-0", "failureDomains": ["z1", "z2"]}],
                        },
                    }
                },
            ),
            _status(
                "capi",
                "put",
                conditions=_SEVERE,
                controlPlaneReady=True,
                v1beta2={"conditions": [_condition("Available")], "workers": {"replicas": 2}},
            ),
        ),
        "by-hand": (
            Write("kubectl-create", "create", {"spec": {"paused": True, "clusterNetwork": {"apiServerPort": 6443}}}),
            Write("kubectl-edit", "put", {"spec": {"infrastructureRef": {"kind": "DockerCluster", "name": "by-hand"}}}),
            _apply("argocd", metadata={"labels": {"team": "a"}}, spec={"clusterNetwork": {"serviceDomain": "a.local"}}),
            _status("capi", "merge", phase="Pending", conditions=_CONDITIONS[:1]),
        ),
    },
    lossy=frozenset({"topology"}),
)

_JOIN = {
    "discovery": {"bootstrapToken": {"apiServerEndpoint": "10.0.0.1:6443", "caCertHashes": ["sha256:1", "sha256:2"]}},
    "nodeRegistration": {
        "name": "node",
        "taints": [{"key": "a", "effect": "NoSchedule"}],
        "ignorePreflightErrors": ["Swap", "Mem"],
    },
}
_ENV = {"name": "A", "valueFrom": {"secretKeyRef": {"key": "k"}}}  # secretKeyRef.name has a default in both versions
_CLUSTER_CONFIGURATION = {
    "apiServer": {"certSANs": ["a.local", "b.local"], "extraEnvs": [_ENV]},
    "etcd": {"local": {"dataDir": "/var/lib/etcd", "serverCertSANs": ["etcd.local"]}},
    "featureGates": {"NodeSwap": True, "Other": False},
}
_CLASSIC = {"clusterName": "prod", "kubernetesVersion": "v1.32.0", "networking": {"dnsDomain": "a.local"}}
_FILES = [
    {"path": "/etc/a", "content": "a: b", "permissions": "0600"},
    {"path": "/etc/b", "contentFrom": {"secret": {"name": "s", "key": "k"}}},
]

KUBEADM_CONFIGS = Sample(
    file="bootstrap.cluster.x-k8s.io_kubeadmconfigs.yaml",
    canaries={"v1beta1": {"verbosity": 1}, "v1beta2": {"verbosity": 1}},
    objects={
        "plain": (
            _apply(
                "capi-kcp",
                metadata=_LABELS,
                spec={
                    "clusterConfiguration": _CLUSTER_CONFIGURATION,
                    "joinConfiguration": _JOIN,
                    "files": _FILES,
                    "users": [{"name": "admin", "sshAuthorizedKeys": ["ssh-rsa A"]}],
                    "mounts": [["/dev/a", "/mnt/a"], ["/dev/b", "/mnt/b"]],
                },
            ),
            _apply(
                "platform",
                spec={
                    "ntp": {"enabled": True, "servers": ["ntp.local"]},
                    "clusterConfiguration": {"featureGates": {"Platform": True}, "dns": {"imageTag": "v1"}},
                    "preKubeadmCommands": ["echo before"],
                },
            ),
            _status("capbk", dataSecretName="prod-0", observedGeneration=2, conditions=_CONDITIONS),
        ),
        "classic": (
            _apply(
                "capi-kcp",
                spec={
                    "clusterConfiguration": _CLUSTER_CONFIGURATION | _CLASSIC,
                    "initConfiguration": {"bootstrapTokens": [{"token": "a.b", "ttl": "1h", "groups": ["g"]}]},
                    "useExperimentalRetryJoin": True,
                },
            ),
            _apply("platform", spec={"joinConfiguration": {"discovery": {"timeout": "5m", "tlsBootstrapToken": "t"}}}),
            _status(
                "capbk", "put", ready=True, conditions=_SEVERE, failureReason="x", v1beta2={"conditions": [_condition("Ready")]}
            ),
        ),
        "by-hand": (
            Write("kubectl-create", "create", {"spec": {"files": _FILES, "format": "ignition", "verbosity": 3}}),
            Write("kubectl-edit", "merge", {"spec": {"diskSetup": {"partitions": [{"device": "/dev/a", "layout": True}]}}}),
            _apply("platform", spec={"ignition": {"containerLinuxConfig": {"strict": True}}}),
            _status("capbk", "merge", conditions=_CONDITIONS),
        ),
    },
    lossy=frozenset({"classic"}),
)

_PATCH = {
    "name": "image",
    "description": "sets the image",
    "definitions": [
        {
            "selector": {
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                "kind": "DockerMachineTemplate",
                "matchResources": {"controlPlane": True, "machineDeploymentClass": {"names": ["default", "gpu"]}},
            },
            "jsonPatches": [
                {"op": "add", "path": "/spec/a", "value": {"any": ["thing", 1]}},
                {"op": "replace", "path": "/spec/b", "valueFrom": {"variable": "image"}},
            ],
        }
    ],
}
_VARIABLE = {
    "name": "image",
    "required": True,
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {"os": {"type": "string", "default": "flatcar"}},
            "x-kubernetes-validations": [{"rule": "self.os != ''"}],
        }
    },
}
_TEMPLATE = {
    "bootstrap": {"ref": _ref("KubeadmConfigTemplate", "md", "bootstrap.cluster.x-k8s.io/v1beta1")},
    "infrastructure": {"ref": _ref("DockerMachineTemplate", "md")},
}
_V2_TEMPLATE = {"templateRef": {"apiVersion": "a.example.com/v1", "kind": "K", "name": "n"}}

CLUSTER_CLASSES = Sample(
    file="cluster.x-k8s.io_clusterclasses.yaml",
    canaries={"v1beta1": {}, "v1beta2": {"controlPlane": _V2_TEMPLATE, "infrastructure": _V2_TEMPLATE}},
    objects={
        "plain": (
            _apply("argocd", metadata=_LABELS, spec={"variables": [_VARIABLE], "patches": [_PATCH]}),
            _apply(
                "platform",
                spec={"availabilityGates": [{"conditionType": "example.com/a"}], "kubernetesVersions": ["v1.31.0", "v1.32.0"]},
            ),
            _status("capi", conditions=_CONDITIONS, observedGeneration=1),
        ),
        "quick": (
            _apply(
                "argocd",
                spec={
                    "controlPlane": {
                        "ref": _ref("KubeadmControlPlaneTemplate", "cp", "controlplane.cluster.x-k8s.io/v1beta1"),
                        "metadata": {"labels": {"tier": "cp"}},
                        "nodeDrainTimeout": "10s",
                    },
                    "infrastructure": {"ref": _ref("DockerClusterTemplate", "c")},
                    "variables": [_VARIABLE | {"metadata": {"labels": {"a": "b"}}}],
                    "workers": {
                        "machineDeployments": [
                            {
                                "class": "default",
                                "template": _TEMPLATE | {"metadata": {"labels": {"pool": "default"}}},
                                "readinessGates": [{"conditionType": "example.com/disk"}],
                                "strategy": {"type": "OnDelete"},
                            }
                        ]
                    },
                },
            ),
            _apply(
                "platform",
                spec={
                    "workers": {
                        "machineDeployments": [
                            {"class": "default", "template": _TEMPLATE, "minReadySeconds": 5, "failureDomain": "z1"},
                            {"class": "gpu", "template": _TEMPLATE, "namingStrategy": {"template": "x"}},
                        ],
                        "machinePools": [{"class": "pool", "template": _TEMPLATE, "failureDomains": ["z1"]}],
                    }
                },
            ),
            _status(
                "capi",
                "put",
                conditions=_SEVERE,
                variables=[
                    {
                        "name": "image",
                        "definitions": [{"from": "inline", "required": True, "schema": _VARIABLE["schema"], "metadata": {"labels": {"a": "b"}}}],
                    }
                ],
            ),
        ),
        "by-hand": (
            Write("kubectl-create", "create", {"spec": {"patches": [_PATCH]}}),
            Write("kubectl-edit", "merge", {"spec": {"kubernetesVersions": ["v1.32.0"]}}),
            _apply("platform", spec={"availabilityGates": [{"conditionType": "example.com/b", "polarity": "Negative"}]}),
            _status("capi", "merge", observedGeneration=2, conditions=_CONDITIONS[1:]),
        ),
    },
    lossy=frozenset({"quick"}),
)

CONTROL_PLANES = Sample(
    file="controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
    canaries={
        "v1beta1": {"kubeadmConfigSpec": {}, "machineTemplate": {"infrastructureRef": {}}, "version": "v1.32.0"},
        "v1beta2": {"machineTemplate": {"spec": {"infrastructureRef": _V2_REF}}, "version": "v1.32.0"},
    },
    objects={
        "applied": (
            _apply(
                "argocd",
                metadata=_LABELS,
                spec={
                    "version": "v1.32.0",
                    "kubeadmConfigSpec": {"clusterConfiguration": _CLUSTER_CONFIGURATION, "files": _FILES},
                    "machineTemplate": {
                        "infrastructureRef": _ref("DockerMachineTemplate", "cp"),
                        "metadata": {"labels": {"tier": "cp"}},
                        "readinessGates": [{"conditionType": "example.com/disk"}],
                    },
                },
            ),
            _apply(
                "platform",
                spec={
                    "replicas": 3,
                    "version": "v1.32.0",
                    "rolloutBefore": {"certificatesExpiryDays": 21},
                    "kubeadmConfigSpec": {"ntp": {"servers": ["ntp.local"]}, "clusterConfiguration": _CLASSIC},
                    "machineTemplate": {
                        "infrastructureRef": _ref("DockerMachineTemplate", "cp"),
                        "nodeDrainTimeout": "10s",
                    },
                },
            ),
            _status(
                "kcp",
                replicas=3,
                readyReplicas=3,
                updatedReplicas=3,
                selector="a=b",
                conditions=_SEVERE,
                versions=[{"version": "v1.31.0", "replicas": 1}, {"version": "v1.32.0", "replicas": 2}],
            ),
        ),
        "by-hand": (
            Write(
                "kubectl-create",
                "create",
                {
                    "spec": {
                        "version": "v1.31.0",
                        "kubeadmConfigSpec": {"joinConfiguration": _JOIN},
                        "machineTemplate": {"infrastructureRef": {"kind": "DockerMachineTemplate", "name": "cp"}},
                        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}},
                    }
                },
            ),
            Write("kubectl-scale", "merge", {"spec": {"replicas": 5}}, "scale"),
            Write("kubectl-edit", "put", {"spec": {"version": "v1.32.0", "remediationStrategy": {"maxRetry": 3}}}),
            _apply("platform", metadata={"labels": {"a": "b"}, "finalizers": ["example.com/f"]}),
            _status("kcp", "put", initialized=True, ready=True, replicas=5, conditions=_CONDITIONS),
            _status("kcp", "merge", version="v1.31.0", v1beta2={"conditions": [_condition("Ready")]}),
        ),
    },
    lossy=frozenset({"applied", "by-hand"}),
)

SAMPLES = (MACHINES, CLUSTERS, KUBEADM_CONFIGS, CLUSTER_CLASSES, CONTROL_PLANES)
