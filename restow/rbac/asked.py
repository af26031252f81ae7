"""What rights are asked for: which commands, about which CRDs, in which way they will be run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from restow.migrator import Engine

__all__ = ["Asked", "Command", "Target"]


class Command(StrEnum):
    """A command that talks to an API server.

    ``conversions`` is ``operator --conversions``; ``embedding`` the ``Migrator`` in an operator of the reader's own.
    """

    STATUS = "status"
    PLAN = "plan"
    READY = "ready"
    REFERENCES = "references"
    MIGRATE = "migrate"
    PRUNE = "prune"
    REPORT = "report"
    DOCTOR = "doctor"
    UNWIRE = "unwire"
    SERVE = "serve"
    OPERATOR = "operator"
    CONVERSIONS = "conversions"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Target:
    """A CRD by its name.

    Raises:
        ValueError: the name is not ``<plural>.<group>``.
    """

    name: str

    def __post_init__(self) -> None:
        if not (self.plural and self.group):
            msg = f"{self.name!r} is no name of a CRD: give <plural>.<group>"
            raise ValueError(msg)

    @property
    def plural(self) -> str:
        """The resource."""
        return self.name.partition(".")[0]

    @property
    def group(self) -> str:
        """The API group."""
        return self.name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class Asked:
    """How the commands will be run.

    Attributes:
        crds: names of the CRDs. Without any, ``doctor`` runs with ``--namespace``.
        namespaces: the only ones whose objects are touched; all if empty.
        home: the namespace that the process runs in: of its ConfigMap and Lease.
        everything: the commands run with ``--all``.
        prunes: ``migrate`` runs without ``--no-prune`` and ``--dry-run``.
        shards: ``migrate`` runs in shards.
        engine: the engine of ``migrate``.
        profiles: ``report`` runs with ``--profiles``.
        dependents: the commands list all resources, Secrets too, for what names the version: ``ready``,
            ``references``, with ``--references`` ``plan`` and ``report``, ``embedding`` with ``references_s``, and
            ``operator`` with ``--references-every``.
        moves: ``references`` runs with ``--move`` and ``--undo``.
        written: the only resources (``configmaps``, ``deployments.apps``) in which it moves references; all if empty.
        crossplane: ``conversions`` wires the CompositeResourceDefinitions from which Crossplane makes CRDs.
        proxied: ``(namespace, name, port)`` of conversion webhooks asked from outside of the cluster.
        own_ca: ``(namespace, name)`` of the Service that ``serve`` or ``operator`` keep certificates for; for a webhook
            at a URL those of its Secret. ``unwire`` removes what they keep.
        url: where API servers find the webhook of ``own_ca``; empty for the Service.
        restores_stashes: ``serve`` or ``conversions`` keep a webhook configuration too (``--restore-stashes``).
        refuses_unconvertible: ``serve`` or ``conversions`` keep that configuration too (``--refuse-unconvertible``).
        installs_crds, controls, maintains: the operator's flags ``--install-crds``, not ``--no-controllers``,
            ``--maintain-shoots``.
        keeps: CRDs that the operator keeps migrated (``--migrate``).
        lease: the Lease of ``embedding``.
        least: without the rights that a command can do without.
    """

    crds: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    home: str = "default"
    everything: bool = False
    prunes: bool = True
    shards: bool = False
    engine: Engine = Engine.DIRECT
    profiles: bool = False
    dependents: bool = False
    moves: bool = False
    written: tuple[str, ...] = ()
    crossplane: bool = False
    proxied: tuple[tuple[str, str, int], ...] = ()
    own_ca: tuple[str, str] | None = None
    url: str = ""
    restores_stashes: bool = False
    refuses_unconvertible: bool = False
    installs_crds: bool = False
    controls: bool = True
    maintains: bool = False
    keeps: tuple[str, ...] = ()
    lease: str = "restow-migrator"
    least: bool = False

    @property
    def targets(self) -> tuple[Target, ...]:
        """The CRDs.

        Raises:
            ValueError: a name is not ``<plural>.<group>``.
        """
        return tuple(map(Target, self.crds))

    @property
    def places(self) -> tuple[str | None, ...]:
        """Where objects are touched; None for everywhere."""
        return self.namespaces or (None,)
