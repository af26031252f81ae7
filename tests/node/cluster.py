"""A cluster with nodes: restow's control plane, kube-controller-manager, kube-scheduler, kube-proxy, names and nodes.

It runs in the network namespace of this process, where the control plane is at 172.30.0.1; ``machine.run_apart`` made
that namespace. The API server reaches webhooks the way those of most clusters do: by the Service's address, through
rules of kube-proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from restow.controlplane.commands import SERVICE_RANGE
from restow.controlplane.plane import ControlPlane
from restow.controlplane.processes import ProcessGroup
from tests.node.names import serve_names
from tests.node.nodes import CONTROL, Node, call, proxy_configuration, wait_for

__all__ = ["Cluster", "running_cluster"]


@dataclass
class Cluster:
    """What runs."""

    plane: ControlPlane
    nodes: list[Node]
    kubectl_binary: Path
    logs: Path
    group: ProcessGroup

    def kubectl(self, *words: str | Path, stdin: str | None = None) -> str:
        """Run kubectl as administrator; it has to succeed."""
        return call(self.kubectl_binary, "--kubeconfig", self.plane.kubeconfig, *words, stdin=stdin)

    def get(self, *words: str) -> dict[str, Any]:
        """Return an object or a list."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *words, "-o", "json"))
        return found

    def apply(self, *documents: dict[str, Any]) -> None:
        """Apply objects that a webhook sees, once the rules of kube-proxy at the API server know its new Service."""
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})

        def applied() -> bool:
            try:
                self.kubectl("apply", "-f", "-", stdin=listed)
            except AssertionError as error:
                if "no route to host" in str(error):
                    return False
                raise
            return True

        wait_for(applied, "the API server does not reach the webhook", 60)

    def pods(self, namespace: str, labels: str = "") -> list[dict[str, Any]]:
        """Return the pods of a namespace."""
        found: list[dict[str, Any]] = self.get("pods", "-n", namespace, "-l", labels)["items"]
        return found

    def log(self, namespace: str, pod: str) -> str:
        """Return the log of a pod's containers."""
        return self.kubectl("logs", "-n", namespace, pod, "--all-containers")

    def peak(self, pod: dict[str, Any]) -> int:
        """Return the most memory that a pod has taken, in bytes; it has to be there still."""
        return int((_group(pod, "memory") / "memory.max_usage_in_bytes").read_text())

    def kill(self, pod: dict[str, Any]) -> None:
        """End the processes of a pod's containers without a warning, as a kernel does that has no memory left."""
        for container in pod["status"]["containerStatuses"]:
            group = _group(pod, "pids") / container["containerID"].rpartition("/")[2]
            for process in (group / "cgroup.procs").read_text().split():
                os.kill(int(process), signal.SIGKILL)

    @contextlib.contextmanager
    def cut_off(self, node: str) -> Iterator[None]:
        """Cut a node off while the context lasts: it reaches neither the API server nor the other node."""
        link = f"link-{node.rpartition('-')[2]}"
        call("ip", "link", "set", link, "down")
        try:
            yield
        finally:
            call("ip", "link", "set", link, "up")
            wait_for(lambda: _ready(self) == len(self.nodes), f"{node} does not come back")

    def described(self) -> str:
        """Return what helps to see why a test failed."""
        asked = ("get pods -A -o wide", "get events -A", "describe pods -A")
        pods = [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in self.get("pods", "-A")["items"]]
        told = [self.kubectl(*each.split()) for each in asked]
        for where, name in pods:
            with contextlib.suppress(AssertionError):  # it has not started
                told.append(f"{name}:\n{self.log(where, name)}")
        return "\n".join(told)


@contextlib.contextmanager
def running_cluster(binaries: dict[str, Path], count: int, logs: Path) -> Iterator[Cluster]:
    """Run a cluster of so many nodes, all ready."""
    _network()
    plane = ControlPlane(
        apiserver_args={
            "bind-address": "0.0.0.0",
            "advertise-address": CONTROL,
            "endpoint-reconciler-type": None,
            "authorization-mode": "Node,RBAC",
            "disable-admission-plugins": None,
            "kubelet-preferred-address-types": "InternalIP",
        },
        log_directory=logs,
    )
    _run(plane.start())
    group = ProcessGroup(log_directory=logs)
    try:
        work = Path(os.environ["RESTOW_NODES"])
        nodes = [Node(number, work / f"node-{number}", group, binaries, _archives()) for number in range(1, count + 1)]
        _start_controllers(plane, group, binaries)
        for node in nodes:
            node.start(plane, nodes)
        cluster = Cluster(plane, nodes, binaries["kubectl"], logs, group)
        with serve_names(plane, CONTROL):
            wait_for(lambda: _ready(cluster) == count, f"not all nodes are ready; the logs are in {logs}")
            yield cluster
    finally:
        _run(group.close(5))
        _run(plane.stop())


def _group(pod: dict[str, Any], hierarchy: str) -> Path:
    """Return the control group of a pod with requests that are below its limits."""
    nodes = Path("/sys/fs/cgroup", hierarchy, Path(os.environ["RESTOW_NODES"]).name)
    return nodes / pod["spec"]["nodeName"] / "kubepods" / "burstable" / f"pod{pod['metadata']['uid']}"


def _archives() -> list[Path]:
    return [Path(each) for each in os.environ["RESTOW_NODE_IMAGES"].split(os.pathsep)]


def _network() -> None:
    """The link of all nodes, and a route to the addresses of Services, which rules then rewrite."""
    call("ip", "link", "add", "nodes", "type", "bridge")
    call("ip", "address", "add", f"{CONTROL}/24", "dev", "nodes")
    call("ip", "link", "set", "nodes", "up")
    call("ip", "route", "add", SERVICE_RANGE, "dev", "nodes")
    call("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")


def _start_controllers(plane: ControlPlane, group: ProcessGroup, binaries: dict[str, Path]) -> None:
    """Start what a control plane with nodes has besides API server and etcd."""
    manager = plane.admin.kubeconfig
    common = ("--leader-elect=false", "--bind-address=127.0.0.1")
    group.start(
        "kube-controller-manager",
        [
            str(binaries["kube-controller-manager"]),
            f"--kubeconfig={manager}",
            f"--root-ca-file={plane.ca_file}",
            "--controllers=*",
            "--authentication-skip-lookup=true",
            "--node-monitor-grace-period=20s",
            *common,
        ],
    )
    scheduler = plane.user("system:kube-scheduler").kubeconfig
    group.start(
        "kube-scheduler",
        [str(binaries["kube-scheduler"]), f"--kubeconfig={scheduler}", "--authentication-skip-lookup=true", *common],
    )
    proxy = plane.folder / "kube-proxy.yaml"
    proxy.write_text(
        yaml.safe_dump(proxy_configuration(plane.user("system:kube-proxy").kubeconfig, "control", CONTROL))
    )
    group.start("kube-proxy", [str(binaries["kube-proxy"]), "--config", str(proxy)])


def _ready(cluster: Cluster) -> int:
    conditions = [each["status"].get("conditions", []) for each in cluster.get("nodes")["items"]]
    return sum({"type": "Ready", "status": "True"}.items() <= each.items() for node in conditions for each in node)


def _run(coroutine: Coroutine[object, object, object]) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(coroutine)
