"""Helpers of these tests: requests to a real API server, and a search for left-over processes and files."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from restow.controlplane import ClusterUser, ControlPlane

GROUP = "example.com"


class Api:
    """A client that sends a few requests to a real API server as one user."""

    def __init__(self, user: ClusterUser) -> None:
        self.user = user

    async def __call__(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Send one request; return status and document."""
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.user.server}{path}", json=body, ssl=self.user.ssl_context()) as response,
        ):
            is_json = response.content_type == "application/json"  # a path that is not served answers in plain text
            return response.status, await response.json() if is_json else {"message": await response.text()}

    async def until(self, path: str, condition: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
        """Read a path until the condition holds for (status, document)."""
        async with asyncio.timeout(60):
            while not condition(*(answer := await self("GET", path))):
                await asyncio.sleep(0.05)
        return answer[1]

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object; anything but 201 fails the test."""
        status, answer = await self("POST", path, body)
        assert status == 201, answer
        return answer

    async def create_crd(self, plural: str, kind: str) -> None:
        """Create a namespaced CRD with the versions v1 (stored) and v2; wait until it is served."""
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        versions = [
            {"name": "v1", "served": True, "storage": True, "schema": schema},
            {"name": "v2", "served": True, "storage": False, "schema": schema},
        ]
        names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
        }
        await self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        await self.until(f"/apis/{GROUP}/v1/namespaces/default/{plural}", lambda status, _: status == 200)


@pytest.fixture(scope="session")
def plane(control_plane):
    """Run a new control plane even if the session's is an existing cluster, because these tests stop servers."""
    if isinstance(control_plane, ControlPlane):
        yield control_plane
        return
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        own = runner.run(ControlPlane().start())
        yield own
        runner.run(own.stop())


@pytest.fixture
def api() -> type[Api]:
    """Return the class of clients: ``api(user)`` makes one."""
    return Api


class Remains:
    """The remains of a control plane: files in the temporary folder, and processes that work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def processes(self) -> list[str]:
        """Return the command lines of running processes that name the folder."""
        found = []
        for directory in Path("/proc").iterdir():
            try:
                command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.folder) in command:
                found.append(command)
        return found

    async def wait_for_none(self) -> None:
        """Wait until no process and no file is left, until the test's time limit."""
        await self._until(lambda: not self.processes() and not list(self.folder.iterdir()))

    async def wait_for_a_process(self, name: str) -> None:
        """Wait until a process with this word in its command line works in the folder."""
        await self._until(lambda: any(name in command for command in self.processes()))

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.02)


@pytest.fixture
def remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Remains:
    """Redirect temporary files of this process and of started ones to a folder; return the search for remains in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return Remains(folder)
