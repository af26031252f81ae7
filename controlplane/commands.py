"""The command lines of etcd, kube-apiserver and kube-controller-manager; pure.

The defaults are those of controller-runtime's envtest where it has any. The differences, with their reasons:

- ``--endpoint-reconciler-type=none`` and an advertised loopback address: no network routes to this API server, and
  without these flags kube-apiserver looks for an interface with a default route, which an isolated machine lacks.
- ``--shutdown-watch-termination-grace-period``: without this flag a stop waits as long as any client watches (a
  minute).
- Profiling and the controllers that need nodes are off: they cost CPU that a measurement would count.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FlagValue = str | Sequence[str] | None
Arguments = Mapping[str, FlagValue]
"""Flags by name: a text, several texts (the flag is repeated), or None (the default is omitted)."""

LOOPBACK = "127.0.0.1"
SERVICE_RANGE = "10.0.0.0/24"
SERVICE_ADDRESS = "10.0.0.1"
"""The address of the Service ``kubernetes``: the first address of the range, and a name in the serving certificate."""


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The certificates and keys that the servers read."""

    ca: Path
    serving_certificate: Path
    serving_key: Path
    service_account_key: Path
    service_account_public_key: Path


def etcd_command(
    binary: Path, data: Path, *, member: str, client_port: int, peer_port: int, extra: Arguments
) -> list[str]:
    """Return the command of a single member that does not sync to disk, because its data is removed with the plane."""
    client, peer = f"http://{LOOPBACK}:{client_port}", f"http://{LOOPBACK}:{peer_port}"
    defaults: dict[str, FlagValue] = {
        "name": member,
        "data-dir": str(data),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"{member}={peer}",
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }
    return _command(binary, defaults, extra)


def apiserver_command(
    binary: Path,
    files: ServerFiles,
    *,
    etcd: str,
    port: int,
    feature_gates: Mapping[str, bool],
    runtime_config: Mapping[str, bool],
    extra: Arguments,
) -> list[str]:
    """Return the command of an API server with client certificates and RBAC that needs no nodes."""
    defaults: dict[str, FlagValue] = {
        "etcd-servers": etcd,
        "bind-address": LOOPBACK,
        "advertise-address": LOOPBACK,
        "secure-port": str(port),
        "endpoint-reconciler-type": "none",
        "shutdown-watch-termination-grace-period": "1s",
        "tls-cert-file": str(files.serving_certificate),
        "tls-private-key-file": str(files.serving_key),
        "client-ca-file": str(files.ca),
        "authorization-mode": "RBAC",
        "allow-privileged": "true",
        "profiling": "false",
        "disable-admission-plugins": "ServiceAccount",
        "service-cluster-ip-range": SERVICE_RANGE,
        "service-account-issuer": f"https://{LOOPBACK}:{port}/",
        "service-account-key-file": str(files.service_account_public_key),
        "service-account-signing-key-file": str(files.service_account_key),
        "feature-gates": key_values(feature_gates),
        "runtime-config": key_values(runtime_config),
    }
    return _command(binary, defaults, extra)


def controller_manager_command(
    binary: Path,
    *,
    kubeconfig: Path,
    files: ServerFiles,
    port: int,
    controllers: Sequence[str],
    feature_gates: Mapping[str, bool],
    extra: Arguments,
) -> list[str]:
    """Return the command of a controller manager that runs the named controllers, without leader election."""
    defaults: dict[str, FlagValue] = {
        "kubeconfig": str(kubeconfig),
        "authentication-kubeconfig": str(kubeconfig),
        "authorization-kubeconfig": str(kubeconfig),
        "authentication-skip-lookup": "true",  # there is no front proxy with an authority to look up
        "client-ca-file": str(files.ca),
        "bind-address": LOOPBACK,
        "secure-port": str(port),
        "tls-cert-file": str(files.serving_certificate),
        "tls-private-key-file": str(files.serving_key),
        "controllers": ",".join(controllers),
        "leader-elect": "false",
        "profiling": "false",
        "use-service-account-credentials": "false",
        "feature-gates": key_values(feature_gates),
    }
    return _command(binary, defaults, extra)


def key_values(settings: Mapping[str, bool]) -> str | None:
    """Return ``{"A": True}`` as ``A=true``, sorted; None if there are no settings."""
    return ",".join(f"{name}={str(on).lower()}" for name, on in sorted(settings.items())) or None


def _command(binary: Path, defaults: Arguments, extra: Arguments) -> list[str]:
    merged = {**defaults, **{name.lstrip("-"): value for name, value in extra.items()}}
    command = [str(binary)]
    for name, value in merged.items():
        if value is not None:
            command += [f"--{name}={each}" for each in ([value] if isinstance(value, str) else value)]
    return command


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports on which no process listens now.

    The kernel assigns ports in a rotating order, but another process may take one before it is bound; the caller then
    retries its start (``PortTakenError``).
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
