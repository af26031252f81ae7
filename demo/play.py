"""The whole evening: a control plane of one's own, the story on it, and everything taken down again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

from demo.checks import Check
from demo.crd import GROUP, crd_name
from demo.journey import Journey
from demo.narration import Story
from restow.controlplane import ControlPlane
from restow.kube import connect

__all__ = ["Played", "play"]

_LOOK = 1.0  # seconds; a process that has died is noticed within half of that


@dataclass(frozen=True, slots=True)
class Played:
    """How it went.

    Attributes:
        kubernetes: the API server's version.
        objects: how many were asked for.
        seconds: duration of each step, by title.
    """

    kubernetes: str
    objects: int
    checks: tuple[Check, ...]
    seconds: dict[str, float]
    duration_s: float

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``python -m demo -o json``."""
        return {
            "result": "Passed" if self.passed else "Failed",
            "kubernetes": self.kubernetes,
            "objects": self.objects,
            "checks": [check.to_json() for check in self.checks],
            "steps": [{"step": title, "durationSeconds": round(took, 3)} for title, took in self.seconds.items()],
            "durationSeconds": round(self.duration_s, 3),
        }


async def play(objects: int, show: Callable[[Played], None], *, keep: bool) -> Played:
    """Start a control plane, tell the story, show the result, and leave nothing behind.

    Args:
        objects: how many there are to be.
        show: is given the result while the control plane still runs.
        keep: go on running until cancelled.

    Raises:
        ControlPlaneError: it could not be started, or ended by itself.
        DemoError, KubeError, Refused: the story could not go on.
    """
    begun = time.monotonic()
    story = Story()
    async with AsyncExitStack() as stack:
        with story.step("A control plane of its own"):
            story.tell(
                "Starting etcd and kube-apiserver. Where they are not on this machine yet, they are fetched or built "
                "once; what that waits for is told below."
            )
            plane = await stack.enter_async_context(ControlPlane())
            version = await _version(plane)
            story.tell(f"{version} listens on {plane.server}.")
        checks = await _tell(story, plane, objects)
        played = Played(version, objects, tuple(checks), story.seconds, time.monotonic() - begun)
        show(played)
        if keep:
            await _stay(story, plane)
    return played


async def _tell(story: Story, plane: ControlPlane, objects: int) -> list[Check]:
    try:
        async with connect(plane.kubeconfig) as cluster:
            journey = Journey(story, plane, cluster, objects)
            await journey.tell()
    except Exception:
        await _blame_the_dead(plane)
        raise
    return journey.checks


async def _version(plane: ControlPlane) -> str:
    """Ask the binary: ``Kubernetes v1.36.3``."""
    asked = await asyncio.create_subprocess_exec(
        plane.binaries["kube-apiserver"], "--version", stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asked.communicate()
    return said.decode().strip()


async def _blame_the_dead(plane: ControlPlane) -> None:
    """Raise ProcessError, with its log, if a process of the control plane has died: all else follows from that."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LOOK):
            await plane.watch()


async def _stay(story: Story, plane: ControlPlane) -> None:
    """Let people look around."""
    story.heads("The control plane goes on running until Ctrl-C. Look around:")
    story.types(f"export KUBECONFIG={plane.kubeconfig}")
    story.types(f"restow status {crd_name(GROUP)}")
    story.types("kubectl get databases -A --show-managed-fields -o yaml")
    await plane.watch()
