"""Waiting until a started process serves; an error has the cause of a death or a time-out.

Invariant: a response counts only if it comes from *our* process: the API server's certificate must be signed by the
plane's own authority, and etcd must have the name of the started member. A server of another plane that took the port
is never mistaken for ours.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp

from restow.controlplane.errors import ControlPlaneError, ProcessError

if TYPE_CHECKING:
    import ssl

    from restow.controlplane.processes import ManagedProcess

Probe = Callable[[aiohttp.ClientSession], Awaitable[str | None]]
"""A function that checks once and returns None if the process is ready, else a text with the missing condition."""

_POLL = 0.1  # seconds; as envtest
_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=2)  # another process on the port may accept and never answer


async def wait_until_ready(process: ManagedProcess, probe: Probe, timeout: float) -> None:
    """Return when the probe succeeds; raise ``ProcessError`` if the process ends or the time is up."""
    missing: str | None = "it was not asked yet"
    try:
        async with asyncio.timeout(timeout), aiohttp.ClientSession(timeout=_REQUEST_TIMEOUT) as session:
            while True:
                process.check()
                try:
                    missing = await probe(session)
                except (aiohttp.ClientError, TimeoutError) as error:
                    missing = str(error) or type(error).__name__
                if missing is None:
                    process.check()
                    return
                await asyncio.sleep(_POLL)
    except TimeoutError as error:
        message = (
            f"{process.name} was not ready within {timeout:g} s ({missing}). A loaded machine may need more: "
            f"start_timeout or KUBEBUILDER_CONTROLPLANE_START_TIMEOUT. Its log ends:\n{process.log_tail()}"
        )
        raise ProcessError(message) from error


def etcd_probe(url: str, member: str) -> Probe:
    """Return a probe of etcd that succeeds if etcd is healthy and its only member has that name."""

    async def probe(session: aiohttp.ClientSession) -> str | None:
        if missing := await _ok(session, f"{url}/health"):
            return missing
        async with session.post(f"{url}/v3/cluster/member/list", json={}) as response:
            members = (await response.json()).get("members", [])
        return None if [each.get("name") for each in members] == [member] else "another etcd answers at its port"

    return probe


def apiserver_probe(url: str, context: ssl.SSLContext) -> Probe:
    """Return a probe of an API server that succeeds if the server is ready and the namespace ``default`` exists."""

    async def probe(session: aiohttp.ClientSession) -> str | None:
        return await _ok(session, f"{url}/readyz", context) or await _ok(
            session, f"{url}/api/v1/namespaces/default", context
        )

    return probe


def http_probe(url: str, context: ssl.SSLContext) -> Probe:
    """Return a probe that succeeds if a URL answers 200."""

    async def probe(session: aiohttp.ClientSession) -> str | None:
        return await _ok(session, url, context)

    return probe


async def _ok(session: aiohttp.ClientSession, url: str, context: ssl.SSLContext | None = None) -> str | None:
    async with session.get(url, ssl=context or True) as response:
        return None if response.status == HTTPStatus.OK else f"{url} answers {response.status}"


_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


def go_duration_seconds(text: str) -> float:
    """Return the seconds of a Go duration; raise ValueError if the text is none, or is negative."""
    if _PART.sub("", text) or not text:
        raise ValueError(text)
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def seconds_from_environment(phase: str, default: float) -> float:
    """Return ``KUBEBUILDER_CONTROLPLANE_<phase>_TIMEOUT`` in seconds, or the default if it is not set."""
    name = f"KUBEBUILDER_CONTROLPLANE_{phase}_TIMEOUT"
    text = os.environ.get(name)
    if not text:
        return default
    try:
        return go_duration_seconds(text)
    except ValueError as error:
        message = f"{name} is {text!r}, which is no duration; write it as Go does, for instance 60s or 1m30s."
        raise ControlPlaneError(message) from error
