"""What a cluster without nodes lacks for Jobs: a kubelet that runs their pods, and a controller that judges the exits.

A pod is a process of this machine: with the template's arguments and environment, a token of its ServiceAccount, and
no other right. The Job's own podFailurePolicy judges exit codes, and the Job's status is written as its controller
does it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import NotFound
from restow.kube.resources import Resource
from restow.rbac import ServiceAccount
from tests.apiserver.accounts import Account, Accounts
from tests.restow.commandline import Ran, restow

__all__ = ["JOBS", "Kubelet", "kubelet"]

JOBS = Resource("batch", "v1", "jobs", namespaced=True)
_VARIABLE = re.compile(r"\$\((\w+)\)")


@dataclass
class Kubelet:
    """Runs the pods of the Jobs of all namespaces.

    Attributes:
        ran: each pod that ended, with the name of its Job.
    """

    plane: ControlPlane
    cluster: HttpCluster
    folder: Path
    ran: list[tuple[str, Ran]] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    async def run_forever(self) -> None:
        """Run what there is, each Job once."""
        while True:
            for document in (await self.cluster.list_page(JOBS)).json()["items"]:
                metadata = document["metadata"]
                if metadata["uid"] not in self._seen and "deletionTimestamp" not in metadata:
                    self._seen.add(metadata["uid"])
                    await self._run(document)
            await asyncio.sleep(0.05)

    async def idle(self) -> bool:
        """Whether every Job has ended, of one at least."""
        found = (await self.cluster.list_page(JOBS)).json()["items"]
        return bool(found) and all(each.get("status", {}).get("conditions") for each in found)

    async def _run(self, job: dict[str, Any]) -> None:
        spec = job["spec"]
        begun = _now()
        indexed = spec.get("completionMode") == "Indexed"
        count = spec["completions"]
        environments = [{"JOB_COMPLETION_INDEX": str(index)} if indexed else {} for index in range(count)]
        completions = (self._completed(job, environment, f"{place}") for place, environment in enumerate(environments))
        if not all(await asyncio.gather(*completions)):
            await self._end(job, begun, {"Failed": "FailureTarget"}, {"failed": 1})
            return
        indexes = {"completedIndexes": f"0-{count - 1}" if count > 1 else "0"} if indexed else {}
        done = {"succeeded": count, "completionTime": _now(), **indexes}
        await self._end(job, begun, {"Complete": "SuccessCriteriaMet"}, done)

    async def _completed(self, job: dict[str, Any], environment: dict[str, str], place: str) -> bool:
        """Run pods of one completion until one succeeds, or the policy says that none will."""
        spec = job["spec"]
        left = spec.get("backoffLimitPerIndex", spec["backoffLimit"])
        while True:
            ran = await self._pod(job["metadata"]["namespace"], spec["template"]["spec"], environment, place)
            self.ran.append((job["metadata"]["name"], ran))
            action = _action(spec, ran.code)
            if ran.code == 0 or action == "FailJob":
                return ran.code == 0
            left -= action == "Count"
            if left < 0:
                return False

    async def _pod(self, namespace: str, spec: dict[str, Any], environment: dict[str, str], place: str) -> Ran:
        (container,) = spec["containers"]
        environment = environment | {"RESTOW_SETTLE": "0"}  # there is one API server, which stores as the CRD says
        for each in container.get("env", ()):
            source = each.get("valueFrom")
            assert source in (None, {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}), source
            environment = environment | {each["name"]: namespace if source else each["value"]}
        arguments = [_VARIABLE.sub(lambda found: environment[found[1]], each) for each in container["args"]]
        account = Account(ServiceAccount(namespace, spec["serviceAccountName"]), self.folder / f"{place}.kubeconfig")
        await Accounts(self.plane, self.cluster, self.folder).log_in(account)
        return await asyncio.to_thread(restow, *arguments, kubeconfig=account.kubeconfig, environment=environment)

    async def _end(self, job: dict[str, Any], begun: str, conditions: dict[str, str], status: dict[str, Any]) -> None:
        (final, first) = next(iter(conditions.items()))
        times = {"lastProbeTime": _now(), "lastTransitionTime": _now(), "status": "True"}
        body = {
            "status": status | {"startTime": begun, "conditions": [{"type": kind, **times} for kind in (first, final)]}
        }
        metadata = job["metadata"]
        try:
            await self.cluster.patch(
                JOBS,
                metadata["name"],
                json.dumps(body).encode(),
                metadata["namespace"],
                patch_type=PatchType.MERGE,
                subresource="status",
            )
        except NotFound:
            return  # Helm does not wait for it any more


@asynccontextmanager
async def kubelet(plane: ControlPlane, cluster: HttpCluster, folder: Path) -> AsyncIterator[Kubelet]:
    """Have Jobs run meanwhile."""
    made = Kubelet(plane, cluster, folder)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.run_forever())
        try:
            yield made
        finally:
            running.cancel()


def _action(spec: dict[str, Any], code: int) -> str:
    """What the policy says of an exit code: by its first rule that knows it."""
    rules = spec["podFailurePolicy"]["rules"]
    found = (rule["action"] for rule in rules if code in rule.get("onExitCodes", {}).get("values", ()))
    return next(found, "Count")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
