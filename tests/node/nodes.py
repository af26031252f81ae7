"""A node: containerd and a kubelet in namespaces of their own, joined to a control plane by a link.

A node's folder stands in the place of /run, /var/lib/kubelet, /var/lib/containerd, /var/log, /var/lib/cni and /etc/cni,
so that every program has its default paths. Its pods get addresses of the node's range; every other range has a route.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from restow.controlplane.plane import ControlPlane
from restow.controlplane.processes import ManagedProcess, ProcessGroup
from tests.node.images import PAUSE
from tests.node.machine import hierarchies

__all__ = ["CONTROL", "PODS", "Node", "call", "wait_for"]

CONTROL: Final = "172.30.0.1"
"""The address of the control plane: API server and names."""
PODS: Final = "10.244.0.0/16"

_CONTAINERD: Final = f"""
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""
_OWN: Final = ("run", "var/lib/kubelet", "var/lib/containerd", "var/lib/cni", "var/log", "etc/cni")
_SOCKET: Final = "/run/containerd/containerd.sock"


def call(*command: str | Path, stdin: str | None = None) -> str:
    """Run a command that has to succeed; return what it printed."""
    done = subprocess.run([str(part) for part in command], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    """Return what the condition gives once it gives something; fail with ``what`` after a while."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"after {seconds:.0f} s {what}"
        time.sleep(0.2)
    return found


@dataclass
class Node:
    """One node, by its number: the first is ``node-1``."""

    number: int
    folder: Path
    group: ProcessGroup
    binaries: dict[str, Path]
    images: Sequence[Path]
    processes: dict[str, ManagedProcess] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the Node object."""
        return f"node-{self.number}"

    @property
    def address(self) -> str:
        """The address of the node."""
        return f"172.30.0.{self.number + 1}"

    @property
    def pods(self) -> str:
        """The range of its pods."""
        return f"10.244.{self.number}.0/24"

    @property
    def _cgroup(self) -> str:
        """Its control group in each hierarchy, below the one of this run."""
        return f"{self.folder.parent.name}/{self.name}"

    def inside(self) -> list[str | Path]:
        """What runs a command in the node's namespaces."""
        holder = self.processes["holder"].pid
        return ["nsenter", "--target", str(holder), "--mount", "--net", "--uts", "--"]

    def start(self, plane: ControlPlane, others: Sequence[Node]) -> None:
        """Start everything; return once containerd has the images. The kubelet registers the node on its own."""
        for name in _OWN:
            (self.folder / name).mkdir(parents=True)
        self._hold()
        self._link(others)
        self._write(plane)
        self._run("containerd", "containerd", "--config", self.folder / "containerd.toml")
        wait_for((self.folder / "run/containerd/containerd.sock").exists, "containerd does not listen")
        for image in self.images:
            call(*self.inside(), "ctr", "--namespace", "k8s.io", "images", "import", image)
        self._run("kube-proxy", self.binaries["kube-proxy"], "--config", self.folder / "kube-proxy.yaml")
        self.start_kubelet()

    def start_kubelet(self) -> None:
        """Start the kubelet, for the first time or again."""
        self._run(
            "kubelet",
            self.binaries["kubelet"],
            *("--config", self.folder / "kubelet.yaml"),
            *("--kubeconfig", self.folder / "kubelet.kubeconfig"),
            *("--hostname-override", self.name),
            *("--node-ip", self.address),
            *("--node-labels", f"topology.kubernetes.io/zone=zone-{self.number}"),
        )

    def _run(self, name: str, *command: str | Path) -> None:
        words = [str(part) for part in (*self.inside(), *command)]
        self.processes[name] = self.group.start(f"{self.name}-{name}", words)

    def _hold(self) -> None:
        """Start the process that holds the namespaces, with the node's folders in their places."""
        mounts = " && ".join(f"mkdir -p /{name} && mount --bind {self.folder / name} /{name}" for name in _OWN)
        ready = self.folder / "ready"
        script = f"{mounts} && hostname {self.name} && touch {ready} && exec sleep infinity"
        apart = ["unshare", "--net", "--mount", "--uts", "--propagation", "private", "sh", "-c", script]
        self.processes["holder"] = self.group.start(f"{self.name}-holder", apart)
        wait_for(ready.exists, f"the namespaces of {self.name} are not there")

    def _link(self, others: Sequence[Node]) -> None:
        holder = self.processes["holder"].pid
        outside = f"link-{self.number}"
        call("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", str(holder))
        call("ip", "link", "set", outside, "master", "nodes", "up")
        call("ip", "route", "add", self.pods, "via", self.address)
        routes = [("default", CONTROL), *((other.pods, other.address) for other in others if other is not self)]
        for command in (
            ("ip", "link", "set", "lo", "up"),
            ("ip", "address", "add", f"{self.address}/24", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
            *(("ip", "route", "add", to, "via", via) for to, via in routes),
            ("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"),
        ):
            call(*self.inside(), *command)

    def _write(self, plane: ControlPlane) -> None:
        (self.folder / "containerd.toml").write_text(_CONTAINERD)
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "type": "ptp",
            "ipMasq": False,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": self.pods}]], "routes": [{"dst": "0.0.0.0/0"}]},
        }
        (self.folder / "etc/cni/net.d").mkdir()
        (self.folder / "etc/cni/net.d/pods.conf").write_text(json.dumps(network))
        kubelet = plane.user(f"system:node:{self.name}", ["system:nodes"])
        proxy = plane.user("system:kube-proxy")
        self._kubeconfig("kubelet", kubelet.kubeconfig)
        self._kubeconfig("kube-proxy", proxy.kubeconfig)
        for hierarchy in hierarchies():
            (hierarchy / self._cgroup).mkdir()
        self._yaml("kubelet.yaml", self._kubelet(plane))
        self._yaml(
            "kube-proxy.yaml", proxy_configuration(self.folder / "kube-proxy.kubeconfig", self.name, self.address)
        )

    def _kubeconfig(self, name: str, source: Path) -> None:
        """Write a kubeconfig for the API server's address among the nodes; its certificate has other names."""
        document = yaml.safe_load(source.read_text())
        cluster = document["clusters"][0]["cluster"]
        cluster["server"] = cluster["server"].replace("127.0.0.1", CONTROL)
        cluster["tls-server-name"] = "kubernetes"
        self._yaml(f"{name}.kubeconfig", document)

    def _yaml(self, name: str, document: dict[str, Any]) -> None:
        (self.folder / name).write_text(yaml.safe_dump(document))

    def _kubelet(self, plane: ControlPlane) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},  # the API server reads logs without a certificate of its own
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "clusterDNS": [CONTROL],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "enforceNodeAllocatable": [],
            "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
            "failCgroupV1": False,
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "4s",
            "resolvConf": "",
            "rotateCertificates": False,
        }


def proxy_configuration(kubeconfig: Path, name: str, address: str) -> dict[str, Any]:
    """Return the configuration of a kube-proxy, which changes rules in its own network namespace alone."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": PODS,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": name,
        "bindAddress": address,
        "conntrack": {"maxPerCore": 0, "min": 0},
    }
