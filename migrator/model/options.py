"""The options of a run (``Options``), its phases, and the shard of the objects that this process migrates.

They are frozen values that are validated on creation.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlsplit

SETTLE_S = 65.0
"""Seconds after which all requests from before a change of the CRD have ended.

An API server chooses the version to store at when a request arrives, and admission webhooks may delay that request. The
API server aborts every request after a minute (kube-apiserver ``--request-timeout``).
"""

PATIENCE_S = 300.0
"""Seconds that a run waits for temporary failures, above all a restart of the API server, before it gives up."""


_E = TypeVar("_E", bound=StrEnum)


class Phase(StrEnum):
    """A part of a migration that can be switched off.

    - ``storage`` off: restow writes no object only to re-encode it, and never prunes.
    - ``managed-fields`` off: restow leaves managedFields unchanged.
    - ``prune`` off: restow leaves ``status.storedVersions`` unchanged.
    """

    STORAGE = "storage"
    MANAGED_FIELDS = "managed-fields"
    PRUNE = "prune"


class ManagedFields(StrEnum):
    """What to do with managedFields entries in scope.

    - ``translate``: move them to the storage version with their ownership intact; strip what cannot be carried over.
    - ``strip``: drop those of unserved and removed versions; those of served versions are still translated or kept,
      because their clients need them (``Options.strip_served`` overrides that).
    - ``keep``: leave them unchanged.
    """

    TRANSLATE = "translate"
    STRIP = "strip"
    KEEP = "keep"


class Scope(StrEnum):
    """The managedFields entries to migrate: those of every version but the storage version, only of unserved and
    removed versions, or only of versions removed from the CRD.
    """

    NOT_STORAGE = "not-storage"
    UNSERVED = "unserved"
    REMOVED = "removed"


class Engine(StrEnum):
    """What rewrites objects at the storage version. managedFields, the proof and the prune are always restow's work.

    - ``direct``: restow, with one write for the storage version and the managedFields.
    - ``native``: the cluster's own StorageVersionMigration, which restow creates, follows and verifies; restow does the
      rest. An object with entries to translate then costs one more write.
    - ``auto``: ``direct``, but if a StorageVersionMigration of the CRD is already running, the run waits for it instead
      of refusing the CRD. ``direct`` is better where both are possible: it was measured at three times the rate, obeys
      ``rate``, knows which objects failed, and does not prune after a failure.
    """

    DIRECT = "direct"
    NATIVE = "native"
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one run, validated on creation.

    Raises:
        TypeError: a field has a value of another type; the message names it. Strings are accepted for enums, and lists
            or sets for tuples and frozensets.
        ValueError: a value is out of range, or two contradict each other; the message names the field.

    Attributes:
        skip: the phases that are switched off.
        managed_fields, scope: what happens to managedFields entries, and to which of them.
        strip_served: with ``strip``, drop entries of served versions too; their appliers will get conflicts.
        dry_run: send every write with ``dryRun=All``: admission and validation run, nothing is stored.
        namespace, selector: migrate only a part of the objects; such a run never prunes.
        concurrency: the most writes in flight; 429s of the API server lower it for a while.
        rate: the most writes per second, or None.
        page_size: objects per LIST request; None means 500, or 100 if every listed object costs a conversion or is
            read whole.
        settle_s: seconds that must pass after the last change of the CRD, and after the last API server has seen it,
            before objects are listed, because requests from before may still store at the old version.
        conversion_url: another URL of the CRD's conversion webhook, such as a port-forward, or None.
        passes: the most passes; a pass is repeated if the CRD changed during it.
        ignore_mark: write all objects despite the proof of a complete run, and translate again entries that clients of
            served versions have written since.
        resume: do not re-encode objects that were written after the watermark of an earlier run
            (``restow.migrator.model.watermark``). It trusts ``settle_s``, as every prune does. A run without it writes
            such objects once more, and so repairs objects that a slower API server wrote at the old version. Use it in
            Jobs that are retried; omit it for a full check.
        shard: the part of the objects for this process, or None for all; see ``restow.migrator.run.shards``.
        engine: what rewrites the objects.
        patience_s: seconds for which requests with temporary failures (no answer, 429, 5xx), and an unreachable
            converter, are retried.
        native_patience_s: seconds to wait for the cluster's own migration.
        api_servers: ``https://host:port`` of further API servers of the cluster, to check for lag too.
    """

    skip: frozenset[Phase] = field(default_factory=frozenset)
    managed_fields: ManagedFields = ManagedFields.TRANSLATE
    scope: Scope = Scope.NOT_STORAGE
    strip_served: bool = False
    dry_run: bool = False
    namespace: str | None = None
    selector: str | None = None
    concurrency: int = 32
    rate: float | None = None
    page_size: int | None = None
    settle_s: float = SETTLE_S
    conversion_url: str | None = None
    passes: int = 3
    ignore_mark: bool = False
    resume: bool = False
    shard: Shard | None = None
    engine: Engine = Engine.DIRECT
    patience_s: float = PATIENCE_S
    native_patience_s: float = 3600.0
    api_servers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._set("skip", frozenset(_member(Phase, "skip", each) for each in _several("skip", self.skip)))
        self._set("managed_fields", _member(ManagedFields, "managed_fields", self.managed_fields))
        self._set("scope", _member(Scope, "scope", self.scope))
        self._set("engine", _member(Engine, "engine", self.engine))
        self._set("api_servers", tuple(_server(each) for each in _several("api_servers", self.api_servers)))
        for name in ("strip_served", "dry_run", "ignore_mark", "resume"):
            if not isinstance(getattr(self, name), bool):
                _wrong_type(name, "True or False", getattr(self, name))
        for name in ("namespace", "selector", "conversion_url"):
            _text(name, getattr(self, name))
        if self.conversion_url is not None and (why := url_problem(self.conversion_url)):
            raise ValueError(f"Options.conversion_url: {why}")
        if self.shard is not None and not isinstance(self.shard, Shard):
            _wrong_type("shard", "a Shard or None", self.shard)
        _whole("concurrency", self.concurrency)
        _whole("passes", self.passes)
        if self.page_size is not None:
            _whole("page_size", self.page_size)
        if self.rate is not None:
            _seconds("rate", self.rate, "a number of writes per second above 0", positive=True)
        _seconds("settle_s", self.settle_s, "a number of seconds from 0 on")
        _seconds("patience_s", self.patience_s, "a number of seconds from 0 on")
        _seconds("native_patience_s", self.native_patience_s, "a number of seconds from 0 on")
        if why := self._contradiction():
            raise ValueError(why)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _contradiction(self) -> str:
        if self.shard is not None and self.partial:
            return "a shard is a part of all objects: it goes with no namespace and no selector"
        if self.engine is not Engine.NATIVE:
            return ""
        if self.shard is not None:
            return "the engine native goes with no shard: the cluster's own migration does all objects"
        if self.partial or self.dry_run:
            return "the engine native goes with no namespace, selector or dry run: it does all objects, for good"
        return ""

    @property
    def partial(self) -> bool:
        """Whether the run covers only some of the objects."""
        return self.namespace is not None or self.selector is not None

    def does(self, phase: Phase) -> bool:
        """Whether this phase is switched on."""
        return phase not in self.skip

    @property
    def prunes(self) -> bool:
        """Whether both phases that lead to a prune are switched on."""
        return self.does(Phase.STORAGE) and self.does(Phase.PRUNE)


def _wrong_type(name: str, wanted: str, value: object) -> NoReturn:
    msg = f"Options.{name} must be {wanted}, not of type {type(value).__name__}"
    raise TypeError(msg)


def _member(kind: type[_E], name: str, value: object) -> _E:
    if not isinstance(value, str):
        _wrong_type(name, f"made of {kind.__name__}", value)
    try:
        return kind(value)
    except ValueError:
        msg = f"Options.{name} knows {', '.join(kind)}, not {value!r}"
        raise ValueError(msg) from None


def _several(name: str, value: Any) -> Collection[Any]:
    if not isinstance(value, Collection) or isinstance(value, str | bytes | dict):
        _wrong_type(name, "a collection", value)
    return value


def _server(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        msg = f"Options.api_servers takes https://HOST:PORT, not {value!r}"
        raise ValueError(msg)
    return value


def _text(name: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        _wrong_type(name, "a string or None", value)
    if value == "":
        msg = f"Options.{name} must not be empty: give None where there is none"
        raise ValueError(msg)


def _whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        _wrong_type(name, "a whole number", value)
    if value < 1:
        msg = f"Options.{name} must be 1 or more, not {value}"
        raise ValueError(msg)


def _seconds(name: str, value: object, wanted: str, *, positive: bool = False) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        _wrong_type(name, wanted, value)
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        msg = f"Options.{name} must be {wanted}, not {value}"
        raise ValueError(msg)


MOST_SHARDS = 1000
"""The most shards: the records of more do not fit into a ConfigMap, and each shard lists all objects."""


_I_OF_N = re.compile(r"(\d+)/(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One part of ``count``; ``index`` counts from 0, as JOB_COMPLETION_INDEX does."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not (1 <= self.count <= MOST_SHARDS and 0 <= self.index < self.count):
            msg = (
                f"shard {self.index}/{self.count} does not exist: shards are counted from 0/{self.count} to "
                f"{self.count - 1}/{self.count}, and there are at most {MOST_SHARDS}"
            )
            raise ValueError(msg)

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``i/n``.

        Raises:
            ValueError: the text is not ``i/n``, or there is no such shard.
        """
        found = _I_OF_N.fullmatch(text)
        if found is None:
            msg = f"{text!r} is no shard: give i/n, from 0/n to n-1/n"
            raise ValueError(msg)
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def owns(self, uid: str) -> bool:
        """Whether this shard has an object; the answer depends only on the uid, in every process and release."""
        digest = hashlib.blake2b(uid.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.count == self.index


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def url_problem(url: str) -> str:
    """Return why this cannot be the URL of a conversion webhook, or an empty string."""
    try:
        parts = urlsplit(url)
        plain = parts.scheme == "http" and parts.hostname in _LOOPBACK
        more = parts.query or parts.fragment or parts.username or parts.port == 0
    except ValueError:  # a malformed port or IPv6 address
        plain, more = False, True
    if not more and parts.hostname and (parts.scheme == "https" or plain):
        return ""
    return "this is no URL of a conversion webhook: give https://HOST:PORT/PATH (http only for this machine)"
