"""KubeadmConfigs and KubeadmControlPlanes as installations have them at v1beta1, and the writes that made them."""

from __future__ import annotations

from tests.apiserver.samples import CONDITIONS, LABELS, SEVERE, V2_REF, Sample, Write, applied, condition, ref, status

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
            applied(
                "capi-kcp",
                metadata=LABELS,
                spec={
                    "clusterConfiguration": _CLUSTER_CONFIGURATION,
                    "joinConfiguration": _JOIN,
                    "files": _FILES,
                    "users": [{"name": "admin", "sshAuthorizedKeys": ["ssh-rsa A"]}],
                    "mounts": [["/dev/a", "/mnt/a"], ["/dev/b", "/mnt/b"]],
                },
            ),
            applied(
                "platform",
                spec={
                    "ntp": {"enabled": True, "servers": ["ntp.local"]},
                    "clusterConfiguration": {"featureGates": {"Platform": True}, "dns": {"imageTag": "v1"}},
                    "preKubeadmCommands": ["echo before"],
                },
            ),
            status("capbk", dataSecretName="prod-0", observedGeneration=2, conditions=CONDITIONS),
        ),
        "classic": (
            applied(
                "capi-kcp",
                spec={
                    "clusterConfiguration": _CLUSTER_CONFIGURATION | _CLASSIC,
                    "initConfiguration": {"bootstrapTokens": [{"token": "a.b", "ttl": "1h", "groups": ["g"]}]},
                    "useExperimentalRetryJoin": True,
                },
            ),
            applied("platform", spec={"joinConfiguration": {"discovery": {"timeout": "5m", "tlsBootstrapToken": "t"}}}),
            status(
                "capbk",
                "put",
                ready=True,
                conditions=SEVERE,
                failureReason="x",
                v1beta2={"conditions": [condition("Ready")]},
            ),
        ),
        "by-hand": (
            Write("kubectl-create", "create", {"spec": {"files": _FILES, "format": "ignition", "verbosity": 3}}),
            Write(
                "kubectl-edit", "merge", {"spec": {"diskSetup": {"partitions": [{"device": "/dev/a", "layout": True}]}}}
            ),
            applied("platform", spec={"ignition": {"containerLinuxConfig": {"strict": True}}}),
            status("capbk", "merge", conditions=CONDITIONS),
        ),
    },
    lossy=frozenset({"classic"}),
)

CONTROL_PLANES = Sample(
    file="controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
    canaries={
        "v1beta1": {"kubeadmConfigSpec": {}, "machineTemplate": {"infrastructureRef": {}}, "version": "v1.32.0"},
        "v1beta2": {"machineTemplate": {"spec": {"infrastructureRef": V2_REF}}, "version": "v1.32.0"},
    },
    objects={
        "applied": (
            applied(
                "argocd",
                metadata=LABELS,
                spec={
                    "version": "v1.32.0",
                    "kubeadmConfigSpec": {"clusterConfiguration": _CLUSTER_CONFIGURATION, "files": _FILES},
                    "machineTemplate": {
                        "infrastructureRef": ref("DockerMachineTemplate", "cp"),
                        "metadata": {"labels": {"tier": "cp"}},
                        "readinessGates": [{"conditionType": "example.com/disk"}],
                    },
                },
            ),
            applied(
                "platform",
                spec={
                    "replicas": 3,
                    "version": "v1.32.0",
                    "rolloutBefore": {"certificatesExpiryDays": 21},
                    "kubeadmConfigSpec": {"ntp": {"servers": ["ntp.local"]}, "clusterConfiguration": _CLASSIC},
                    "machineTemplate": {
                        "infrastructureRef": ref("DockerMachineTemplate", "cp"),
                        "nodeDrainTimeout": "10s",
                    },
                },
            ),
            status(
                "kcp",
                replicas=3,
                readyReplicas=3,
                updatedReplicas=3,
                selector="a=b",
                conditions=SEVERE,
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
            applied("platform", metadata={"labels": {"a": "b"}, "finalizers": ["example.com/f"]}),
            status("kcp", "put", initialized=True, ready=True, replicas=5, conditions=CONDITIONS),
            status("kcp", "merge", version="v1.31.0", v1beta2={"conditions": [condition("Ready")]}),
        ),
    },
    lossy=frozenset({"applied", "by-hand"}),
)
