"""The request for rights: the commands, their CRDs, and the flags with which they will run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from restow.migrator import Engine


class Command(StrEnum):
    """A command that talks to an API server.

    ``conversions`` is ``operator --conversions``; ``embedding`` is the ``Migrator`` in another operator.
    """

    STATUS = "status"
    PLAN = "plan"
    READY = "ready"
    REFERENCES = "references"
    MIGRATE = "migrate"
    REPORT = "report"
    DOCTOR = "doctor"
    UNWIRE = "unwire"
    SERVE = "serve"
    OPERATOR = "operator"
    CONVERSIONS = "conversions"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True)
class Target:
    """A CRD, identified by its name.

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
        """The plural, which is the name of the resource."""
        return self.name.partition(".")[0]

    @property
    def group(self) -> str:
        """The API group."""
        return self.name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class Asked:
    """How the commands will be run.

    Attributes:
        crds: the names of the CRDs. Without any, ``doctor`` runs with ``--namespace``.
        namespaces: the namespaces whose objects the commands access; all if empty.
        home: the namespace of the process, its ConfigMap and its Lease.
        everything: the commands run with ``--all``.
        prunes: ``migrate`` runs without ``--no-prune`` and ``--dry-run``.
        shards: ``migrate`` runs in shards.
        engine: the engine of ``migrate``.
        profiles: ``report`` runs with ``--profiles``.
        dependents: the commands list all resources, including Secrets, to find references to the version: ``ready``,
            ``references``, ``plan`` and ``report`` with ``--references``, ``embedding`` with ``references_s``, and
            ``operator`` with ``--references-every``.
        moves: ``references`` runs with ``--move`` and ``--undo``.
        written: the resources (``configmaps``, ``deployments.apps``) in which it moves references; all if empty.
        crossplane: ``conversions`` wires the CompositeResourceDefinitions from which Crossplane makes CRDs.
        proxied: ``(namespace, name, port)`` of conversion webhooks that are called from outside the cluster.
        own_ca: ``(namespace, name)`` of the Service for which ``serve`` or ``operator`` maintain certificates, or of
            the Secret for a webhook at a URL. ``unwire`` removes these certificates.
        url: the URL of the webhook of ``own_ca``; empty for a Service.
        restores_stashes: ``serve`` or ``conversions`` also maintain a webhook configuration (``--restore-stashes``).
        refuses_unconvertible: ``serve`` or ``conversions`` also maintain this configuration
            (``--refuse-unconvertible``).
        installs_crds, controls, maintains: the operator's flags ``--install-crds``, not ``--no-controllers``,
            ``--maintain-shoots``.
        keeps: CRDs that the operator keeps migrated (``--migrate``).
        lease: the name of the Lease of ``embedding``.
        least: leave out the optional rights.
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
        """The namespaces whose objects the commands access; None for all."""
        return self.namespaces or (None,)
