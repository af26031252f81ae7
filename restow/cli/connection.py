"""The flags that select a command's cluster, named as in kubectl, and the client that they describe.

``flags`` is the decorator of every command that talks to a cluster. It passes one value, ``connection``, to the
command.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from restow import kube
from restow.cli import completion
from restow.cli.http import import_quickly
from restow.cli.shared import option
from restow.kube.impersonation import Impersonation

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from restow.kube.client import HttpCluster

_F = TypeVar("_F", bound=Callable[..., Any])

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """The cluster that a command works with, and the user that it acts as.

    Attributes:
        kubeconfig, context, cluster, user: as kubectl's flags.
        impersonation: --as, --as-uid, --as-group and --as-user-extra.
        request_timeout: seconds for one request; infinity for no limit, None for the client's default.
    """

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    impersonation: Impersonation = field(default_factory=Impersonation)
    request_timeout: float | None = None

    def open(self) -> AbstractAsyncContextManager[HttpCluster]:
        """Return a client of the cluster; opening it sends no request."""
        import_quickly()
        open_cluster = partial(
            kube.connect,
            self.kubeconfig,
            self.context,
            cluster=self.cluster,
            user=self.user,
            impersonate=self.impersonation,
        )
        return open_cluster() if self.request_timeout is None else open_cluster(request_timeout=self.request_timeout)

    def within(self, seconds: float) -> ClusterConnection:
        """Return the connection with this timeout, unless the flags set one."""
        return self if self.request_timeout is not None else replace(self, request_timeout=seconds)


def _seconds(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """Read a duration in Go's format (``1m30s``) or as a number of seconds; 0 means no limit.

    Raises:
        click.BadParameter: the text is neither.
    """
    if value is None:
        return None
    parts = _PART.findall(value)
    if parts and "".join(number + unit for number, unit in parts) == value:
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    elif re.fullmatch(r"\d+", value, re.ASCII):
        seconds = float(value)
    else:
        msg = f"{value!r} is not a duration: give a number with a unit, such as 1s, 2m or 3h"
        raise click.BadParameter(msg)
    return seconds or math.inf


def _attributes(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Read attributes of a user, each as ``KEY=VALUE``; a key that is given twice has two values.

    Raises:
        click.BadParameter: a text has no equals sign, or nothing before it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            msg = "an attribute of a user is written KEY=VALUE"
            raise click.BadParameter(msg)
        found[key] = (*found.get(key, ()), value)
    return found


_FLAGS: Final = (
    option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig file; default: KUBECONFIG, ~/.kube/config, then the pod's service account.",
        shell_complete=completion.files,
    ),
    option("--context", metavar="NAME", help="Context of the kubeconfig; default: the current context."),
    option("--cluster", metavar="NAME", help="Cluster of the kubeconfig; default: the context's."),
    option("--user", metavar="NAME", help="User of the kubeconfig; default: the context's."),
    option("--as", "as_user", metavar="USER", help="User, or service account, to impersonate."),
    option(
        "--as-group", "as_groups", multiple=True, metavar="GROUP", help="Group to impersonate, with --as; repeatable."
    ),
    option("--as-uid", metavar="UID", help="UID to impersonate, with --as."),
    option(
        "--as-user-extra",
        "as_attributes",
        multiple=True,
        callback=_attributes,
        metavar="KEY=VALUE",
        help="Further attribute of the user to impersonate, with --as; repeatable, also for one key.",
    ),
    option(
        "--request-timeout",
        callback=_seconds,
        metavar="TIME",
        help="Limit of one request to the API server: 1s, 2m, 3h, or 0 for none; default: 75s. Does not apply to "
        "watches.",
    ),
)


def flags(function: _F) -> _F:
    """Add the flags; the command receives them as ``connection``."""

    @wraps(function)
    def command(*arguments: Any, **given: Any) -> Any:
        names = ("kubeconfig", "context", "cluster", "user", "request_timeout")
        chosen = {name: given.pop(name) for name in names}
        whom = Impersonation(
            given.pop("as_user") or "", given.pop("as_uid") or "", given.pop("as_groups"), given.pop("as_attributes")
        )
        return function(*arguments, connection=ClusterConnection(impersonation=whom, **chosen), **given)

    for each in reversed(_FLAGS):
        command = each(command)
    return command  # type: ignore[return-value] # the function, with other parameters
