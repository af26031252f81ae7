"""Find clients that requested a version, in the API server's metrics and its audit log.

The metrics count requests since the start of the API server, without their clients (``apiserver_request_total``). For
versions that the CRD marks ``deprecated``, ``apiserver_requested_deprecated_apis`` is 1 from the first request on. It
says no more than the counters, and is a separate reference only if these are missing, because ``--disabled-metrics``
and ``--allow-metric-labels`` of the API server can remove them. An audit log (JSON lines of ``audit.k8s.io/v1``) has
users and user agents. Pure: the caller reads the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from restow.migrator.references.readers.inventories import Versions
from restow.migrator.references.reference import NotLookedAt, Reference, ReferenceKind, SoughtVersion, same_effect

MOST_CLIENTS: Final = 1000
"""The most pairs of user and user agent that are counted separately in an audit log; all further ones share a count."""

LONGEST_LINE: Final = 8 * 1024 * 1024
"""The most bytes of a line of an audit log; API servers cut their events at a fraction of this."""

_CLIENT: Final = same_effect(
    "These requests fail (404, the server could not find the requested resource).",
    "have the client ask for another version",
)
_COUNTER: Final = "apiserver_request_total"
_DEPRECATED: Final = "apiserver_requested_deprecated_apis"
_METRIC: Final = re.compile(rf"^({_COUNTER}|{_DEPRECATED})\{{([^}}]*)\}} ([0-9.eE+]+)\s*$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_STARTED: Final = re.compile(r"^process_start_time_seconds ([0-9.eE+]+)\s*$", re.MULTILINE)


def client_references(metrics: str, versions: Versions, server: str) -> Iterator[Reference]:
    """Yield a reference for each verb of requests at a version, from an API server's metrics.

    Args:
        metrics: the body of ``/metrics``.
        versions: the versions to search for.
        server: the address of the API server.
    """
    by_resource = {(of.group, of.version, of.plural): of for of in versions}
    started = _STARTED.search(metrics)
    since = f" since {datetime.fromtimestamp(float(started[1]), UTC):%Y-%m-%dT%H:%M:%SZ}" if started else ""
    counts: dict[tuple[SoughtVersion, str], float] = {}
    counted: set[SoughtVersion] = set()
    deprecated: dict[SoughtVersion, None] = {}
    for found in _METRIC.finditer(metrics):
        labels = dict(_LABEL.findall(found[2]))
        of = by_resource.get((labels.get("group", ""), labels.get("version", ""), labels.get("resource", "")))
        if of is None:
            continue
        if found[1] != _COUNTER:
            if float(found[3]):
                deprecated[of] = None
            continue
        counted.add(of)
        if labels.get("code", "").startswith("404"):
            continue
        verb = labels.get("verb", "?")
        counts[of, verb] = counts.get((of, verb), 0.0) + float(found[3])
    for of in deprecated:
        if of not in counted:
            detail = f"at least one request at this deprecated version{since}; {_COUNTER} does not say how many"
            yield Reference(ReferenceKind.CLIENTS, of, server, "", "", _DEPRECATED, detail, _CLIENT)
    for (of, verb), count in sorted(counts.items(), key=lambda item: (item[0][0].crd, item[0][0].version, item[0][1])):
        if count:
            detail = (
                f"{verb} at this {'deprecated ' if of in deprecated else ''}version{since}; controllers of Kubernetes "
            )
            detail += "and restow are counted too"
            yield Reference(
                ReferenceKind.CLIENTS,
                of,
                server,
                "",
                verb,
                _COUNTER,
                detail,
                _CLIENT,
                count=int(count),
            )


class _ObjectRef(msgspec.Struct, frozen=True):
    resource: str = ""
    group: str = msgspec.field(name="apiGroup", default="")
    version: str = msgspec.field(name="apiVersion", default="")


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _AuditEvent(msgspec.Struct, frozen=True):
    stage: str = ""
    verb: str = ""
    agent: str = msgspec.field(name="userAgent", default="")
    user: _User = _User()
    object_ref: _ObjectRef | None = msgspec.field(name="objectRef", default=None)
    received: str = msgspec.field(name="requestReceivedTimestamp", default="")


_event = msgspec.json.Decoder(_AuditEvent)
_OTHERS: Final = ("(other users)", "(other user agents)")


@dataclass(slots=True)
class _Requests:
    first: str = ""
    last: str = ""
    stages: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, event: _AuditEvent) -> None:
        if event.received:
            self.first = min(self.first or event.received, event.received)
            self.last = max(self.last, event.received)
        key = (event.verb, event.stage)
        self.stages[key] = self.stages.get(key, 0) + 1

    @property
    def verbs(self) -> dict[str, int]:
        """The numbers of requests by verb. A request is logged at up to three stages; the most frequent one counts."""
        found: dict[str, int] = {}
        for (verb, _stage), count in self.stages.items():
            found[verb] = max(found.get(verb, 0), count)
        return dict(sorted(found.items()))


class AuditTally:
    """Counts the requests at some versions in an audit log, by user and user agent, in bounded memory."""

    def __init__(self, versions: Versions, log: str) -> None:
        self._log = log
        self._sought: Mapping[tuple[str, str, str], SoughtVersion] = {
            (of.group, of.version, of.plural): of for of in versions
        }
        self._markers = tuple({of.plural.encode() for of in self._sought.values()})
        self._clients: dict[tuple[SoughtVersion, str, str], _Requests] = {}
        self._unread = 0

    def add(self, line: bytes) -> None:
        """Count one line of the log."""
        if not line.strip():
            return
        if not any(marker in line for marker in self._markers):
            return
        try:
            event = _event.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            self._unread += 1
            return
        about = event.object_ref
        of = None if about is None else self._sought.get((about.group, about.version, about.resource))
        if of is None:
            return
        key = (of, event.user.username, event.agent)
        if key not in self._clients and len(self._clients) >= MOST_CLIENTS:
            key = (of, *_OTHERS)
        self._clients.setdefault(key, _Requests()).add(event)

    def skip(self) -> None:
        """Count a line that is too long to read."""
        self._unread += 1

    def references(self) -> Iterator[Reference]:
        """Yield a reference for each user and user agent."""
        for (of, user, agent), seen in sorted(self._clients.items(), key=lambda item: (item[0][0].crd, *item[0][1:])):
            verbs = seen.verbs
            said = ", ".join(f"{verb} {count}" for verb, count in verbs.items())
            detail = f"{agent or 'no user agent'}: {said}; first {seen.first or '?'}, last {seen.last or '?'}"
            count = sum(verbs.values())
            yield Reference(ReferenceKind.AUDIT_LOG, of, self._log, "", user, "", detail, _CLIENT, count=count)

    def unread(self) -> Iterable[NotLookedAt]:
        """Return the unread parts of the log."""
        if self._unread:
            yield NotLookedAt(self._log, f"{self._unread} lines are no audit events that can be read")
