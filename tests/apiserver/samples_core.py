"""Machines, Clusters and ClusterClasses as installations have them at v1beta1, and the writes that made them."""

from __future__ import annotations

from tests.apiserver.samples import CONDITIONS, LABELS, SEVERE, V2_REF, Sample, Write, applied, condition, ref, status

MACHINES = Sample(
    file="cluster.x-k8s.io_machines.yaml",
    canaries={
        "v1beta1": {"bootstrap": {}, "clusterName": "c", "infrastructureRef": {"name": "m"}},
        "v1beta2": {"bootstrap": {}, "clusterName": "c", "infrastructureRef": V2_REF},
    },
    objects={
        "plain": (
            applied(
                "capi-machineset",
                metadata=LABELS,
                spec={
                    "clusterName": "prod",
                    "bootstrap": {"dataSecretName": "prod-md-0"},
                    "infrastructureRef": {"kind": "DockerMachine", "name": "prod-md-0"},
                    "readinessGates": [{"conditionType": "example.com/disk"}],
                },
            ),
            applied(
                "autoscaler",
                metadata={"annotations": {"cluster.x-k8s.io/delete-machine": "yes"}, "finalizers": ["example.com/f"]},
                spec={
                    "readinessGates": [{"conditionType": "example.com/net", "polarity": "Negative"}],
                    "taints": [{"key": "a", "effect": "NoSchedule", "propagation": "Always", "value": "b"}],
                },
            ),
            status(
                "capi-machine",
                phase="Running",
                conditions=CONDITIONS,
                nodeRef={"name": "node-1"},
                addresses=[{"type": "InternalIP", "address": "10.0.0.1"}],
            ),
        ),
        "referring": (
            applied(
                "capi-machineset",
                spec={
                    "clusterName": "prod",
                    "version": "v1.32.0",
                    "bootstrap": {"configRef": ref("KubeadmConfig", "prod-0", "bootstrap.cluster.x-k8s.io/v1beta1")},
                    "infrastructureRef": ref("DockerMachine", "prod-0"),
                },
            ),
            applied("drainer", spec={"nodeDrainTimeout": "10s", "nodeDeletionTimeout": "20s", "failureDomain": "z1"}),
            Write(
                "editor", "merge", {"metadata": {"labels": {"edited": "yes"}}, "spec": {"providerID": "docker:////1"}}
            ),
            status(
                "manager",
                "put",
                phase="Running",
                bootstrapReady=True,
                infrastructureReady=True,
                conditions=SEVERE,
                nodeRef={"apiVersion": "v1", "kind": "Node", "name": "node-2", "uid": "1-2-3"},
                v1beta2={"conditions": [condition("Ready")]},
            ),
        ),
        "ahead": (
            applied(
                "capi-machineset",
                spec={
                    "clusterName": "prod",
                    "bootstrap": {"dataSecretName": "s"},
                    "infrastructureRef": {"kind": "DockerMachine", "name": "x"},
                    "readinessGates": [{"conditionType": "example.com/disk"}],
                },
            ),
            applied(
                "autoscaler",
                version="v1beta2",
                spec={"readinessGates": [{"conditionType": "example.com/net"}], "failureDomain": "z3"},
            ),
            Write("editor", "merge", {"metadata": {"labels": {"a": "b"}}, "spec": {"version": "v1.30.0"}}),
            Write("editor", "merge", {"metadata": {"labels": {"c": "d"}}}, version="v1beta2"),
            status("capi-machine", conditions=CONDITIONS),
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
            status("manager", "merge", phase="Pending", conditions=CONDITIONS[:1]),
        ),
    },
    lossy=frozenset({"referring"}),
    both_served=True,
)

CLUSTERS = Sample(
    file="cluster.x-k8s.io_clusters.yaml",
    canaries={"v1beta1": {"paused": False}, "v1beta2": {"paused": False}},
    objects={
        "plain": (
            applied(
                "argocd",
                metadata=LABELS,
                spec={
                    "clusterNetwork": {
                        "pods": {"cidrBlocks": ["10.1.0.0/16", "10.2.0.0/16"]},
                        "serviceDomain": "cluster.local",
                    },
                    "controlPlaneRef": {"kind": "KubeadmControlPlane", "name": "prod"},
                    "availabilityGates": [{"conditionType": "example.com/dns"}],
                },
            ),
            applied(
                "capd",
                spec={
                    "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
                    "availabilityGates": [{"conditionType": "example.com/net", "polarity": "Positive"}],
                },
            ),
            status("capi", phase="Provisioned", observedGeneration=1, conditions=CONDITIONS),
        ),
        "topology": (
            applied(
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
                            {"name": "image", "value": ["flatcar", 1], "definitionFrom": "inline"},
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
                    "infrastructureRef": ref("DockerCluster", "prod", "infrastructure.cluster.x-k8s.io/v1beta1"),
                },
            ),
            applied(
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
            status(
                "capi",
                "put",
                conditions=SEVERE,
                controlPlaneReady=True,
                v1beta2={"conditions": [condition("Available")], "workers": {"replicas": 2}},
            ),
        ),
        "ahead": (
            applied("argocd", spec={"availabilityGates": [{"conditionType": "example.com/dns"}], "paused": False}),
            applied("capd", version="v1beta2", spec={"clusterNetwork": {"services": {"cidrBlocks": ["10.3.0.0/16"]}}}),
            status("capi", phase="Provisioned", conditions=CONDITIONS),
        ),
        "by-hand": (
            Write("kubectl-create", "create", {"spec": {"paused": True, "clusterNetwork": {"apiServerPort": 6443}}}),
            Write("kubectl-edit", "put", {"spec": {"infrastructureRef": {"kind": "DockerCluster", "name": "by-hand"}}}),
            applied(
                "argocd", metadata={"labels": {"team": "a"}}, spec={"clusterNetwork": {"serviceDomain": "a.local"}}
            ),
            status("capi", "merge", phase="Pending", conditions=CONDITIONS[:1]),
        ),
    },
    lossy=frozenset({"topology"}),
    both_served=True,
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
    "bootstrap": {"ref": ref("KubeadmConfigTemplate", "md", "bootstrap.cluster.x-k8s.io/v1beta1")},
    "infrastructure": {"ref": ref("DockerMachineTemplate", "md")},
}
_V2_TEMPLATE = {"templateRef": {"apiVersion": "a.example.com/v1", "kind": "K", "name": "n"}}

CLUSTER_CLASSES = Sample(
    file="cluster.x-k8s.io_clusterclasses.yaml",
    canaries={"v1beta1": {}, "v1beta2": {"controlPlane": _V2_TEMPLATE, "infrastructure": _V2_TEMPLATE}},
    objects={
        "plain": (
            applied("argocd", metadata=LABELS, spec={"variables": [_VARIABLE], "patches": [_PATCH]}),
            applied(
                "platform",
                spec={
                    "availabilityGates": [{"conditionType": "example.com/a"}],
                    "kubernetesVersions": ["v1.31.0", "v1.32.0"],
                },
            ),
            status("capi", conditions=CONDITIONS, observedGeneration=1),
        ),
        "quick": (
            applied(
                "argocd",
                spec={
                    "controlPlane": {
                        "ref": ref("KubeadmControlPlaneTemplate", "cp", "controlplane.cluster.x-k8s.io/v1beta1"),
                        "metadata": {"labels": {"tier": "cp"}},
                        "nodeDrainTimeout": "10s",
                    },
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
            applied(
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
            status(
                "capi",
                "put",
                conditions=SEVERE,
                variables=[
                    {
                        "name": "image",
                        "definitions": [
                            {
                                "from": "inline",
                                "required": True,
                                "schema": _VARIABLE["schema"],
                                "metadata": {"labels": {"a": "b"}},
                            }
                        ],
                    }
                ],
            ),
        ),
        "by-hand": (
            Write("kubectl-create", "create", {"spec": {"patches": [_PATCH]}}),
            Write("kubectl-edit", "merge", {"spec": {"kubernetesVersions": ["v1.32.0"]}}),
            applied(
                "platform", spec={"availabilityGates": [{"conditionType": "example.com/b", "polarity": "Negative"}]}
            ),
            status("capi", "merge", observedGeneration=2, conditions=CONDITIONS[1:]),
        ),
    },
    lossy=frozenset({"quick"}),
)
