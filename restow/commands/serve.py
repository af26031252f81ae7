"""``restow serve``: run the conversion and admission webhook."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow.cli import options
from restow.cli.addresses import at, read_address
from restow.cli.exits import InputError
from restow.cli.logs import log_to_stderr
from restow.cli.session import sentence
from restow.webhook import serving

if TYPE_CHECKING:
    from restow.conversion import Graph
    from restow.conversion.server import Clients, KeptEvents, Limits, ServingCertificate, WebhookServer
    from restow.crds import Crd
    from restow.webhook.authority import OwnAuthority

_STEP = "conversion-stash"
_REFUSAL = "refuse-unconvertible"


@dataclass(frozen=True, slots=True)
class _Served:
    """The settings from the flags."""

    graph: Graph
    crds: Sequence[Crd]
    certificate: Path
    key: Path
    client_ca: Path | None
    clients: Clients
    limits: Limits
    events: KeptEvents | None

    def webhook(self) -> tuple[WebhookServer, ServingCertificate]:
        """Return the webhook of a process, and its certificate."""
        from restow.conversion.server import (
            RefuseKept,
            RestoreStash,
            ServerPhase,
            ServingCertificate,
            WebhookServer,
            conversions_by_crd,
        )

        webhook = WebhookServer(
            conversions_by_crd(self.graph, self.crds),
            validating={_REFUSAL: RefuseKept(self.graph)},
            mutating={_STEP: RestoreStash(self.graph, self.crds)},
            clients=self.clients,
            limits=self.limits,
            kept=None if self.events is None else self.events.note,
        )
        webhook.phase = ServerPhase.SERVING
        certificate = ServingCertificate(
            self.certificate, self.key, client_ca=self.client_ca, counts=webhook.counts, clock=webhook.clock
        )
        return webhook, certificate


@click.command("serve")
@options.conversion_source
@click.option(
    "--crd",
    "crd_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Manifest of the CRDs, against which the conversions are checked at the start; repeatable.",
)
@click.option(
    "--cert",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Serving certificate with its chain, PEM; reloaded when the file changes.",
)
@click.option(
    "--key",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Private key of the certificate, PEM, unencrypted.",
)
@click.option(
    "--own-ca",
    metavar="NAMESPACE/SERVICE",
    help="Keep a CA and the certificate in Secrets in the namespace of this Service (or https://HOST), write the "
    "certificate to --cert and --key, and wire the CRDs of --crd to it.",
)
@click.option(
    "--restore-stashes",
    is_flag=True,
    help="With --own-ca: also keep a webhook configuration, so that API servers call /mutate/conversion-stash.",
)
@click.option(
    "--refuse-unconvertible",
    is_flag=True,
    help="With --own-ca: also keep a webhook configuration, so that API servers call /admit/refuse-unconvertible.",
)
@click.option(
    "--on-error",
    type=click.Choice(["fail", "keep"]),
    default="fail",
    show_default=True,
    help="What becomes of a value for which a rule's function raises, where rules and kinds leave it open: it fails "
    "its object, and so every LIST of its kind, or the stash keeps it as it is.",
)
@options.connection
@serving.flags
def command(**flags: Any) -> None:
    """Serve conversions and admission over HTTPS.

    Each CRD has its own path, /convert/<plural>.<group>, for its spec.conversion.webhook. The admission step
    /mutate/conversion-stash restores a stash that a client dropped. /admit/refuse-unconvertible refuses writes of
    values that --on-error keep would keep.

    SIGTERM makes the server unready and drains it; a second one stops it immediately. SIGHUP reloads the certificate.

    Exit codes: 0 after SIGTERM; 1 stopped immediately; 2 usage, or it could not start.

    \b
    restow serve --rules conversions.yaml --crd config/crd.yaml --cert tls/tls.crt --key tls/tls.key
    restow serve --registry example.conversions:registry --crd config/crd.yaml --cert tls/tls.crt --key tls/tls.key
    """
    from restow.cli.registries import load_crds
    from restow.conversion.certificates.ca.metrics import CertificateMetrics
    from restow.conversion.server import BadCertificate, KeptEvents, run_alone
    from restow.kube import KubeError
    from restow.offline import options as offline
    from restow.webhook.authority import keep, prepare

    log_to_stderr("info")
    crds = load_crds(flags["crd_files"])
    clients, limits = serving.clients(flags), serving.limits(flags)
    graph = offline.source(flags).graph(crds, on_error=flags["on_error"])
    events = None if flags["own_ca"] is None else KeptEvents()
    served = _Served(graph, crds, flags["cert"], flags["key"], flags["client_ca"], clients, limits, events)
    authority = _own_authority(served, flags)

    metrics = None if authority is None else CertificateMetrics()
    further = bytes if metrics is None else metrics.text

    def keeping(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        if authority is None or metrics is None or events is None:
            return work
        return keep(authority, flags["connection"].open, work, metrics, events)

    listener, probes = serving.bound(flags)
    try:
        if authority is not None:
            prepare(authority, flags["connection"].open)
        webhook, certificate = served.webhook()
        serving.tell(webhook, listener, probes)
        serving.run_until_stopped(
            lambda stop: keeping(run_alone(webhook, certificate, listener, probes, stop, further_metrics=further)),
            certificate.reload,
        )
    except BadCertificate as error:
        raise InputError(str(error)) from error
    except KubeError as error:
        raise InputError(sentence(error)) from error


def _own_authority(served: _Served, flags: dict[str, Any]) -> OwnAuthority | None:
    """Return the settings of --own-ca, None without the flag.

    Raises:
        click.UsageError: --own-ca has a malformed value, or flags that it needs are missing.
        InputError: --refuse-unconvertible is given, and no rule keeps values.
    """
    from restow.conversion.certificates.wiring.documents import (
        refusal_configuration,
        refusal_name,
        stash_configuration,
        stash_name,
    )
    from restow.webhook.authority import OwnAuthority

    if flags["own_ca"] is None:
        for flag in ("restore_stashes", "refuse_unconvertible"):
            if flags[flag]:
                name = f"--{flag.replace('_', '-')}"
                msg = f"{name} needs --own-ca: without, the certificate's keeper installs the configuration"
                raise click.UsageError(msg)
        return None
    folder = served.certificate.parent
    if not served.crds or (served.certificate, served.key) != (folder / "tls.crt", folder / "tls.key"):
        msg = "--own-ca needs --crd, and --cert FOLDER/tls.crt --key FOLDER/tls.key of one folder"
        raise click.UsageError(msg)
    address, names = read_address(flags["own_ca"]), [crd.name for crd in served.crds]
    configurations = []
    if flags["restore_stashes"]:
        step = at(address, f"/mutate/{_STEP}")
        configurations.append(stash_configuration(stash_name(address), step, served.graph, served.crds))
    if flags["refuse_unconvertible"]:
        step = at(address, f"/admit/{_REFUSAL}")
        refusal = refusal_configuration(refusal_name(address), step, served.graph, served.crds)
        if not refusal["webhooks"]:
            raise InputError(
                "--refuse-unconvertible has nothing to refuse: no rule for these CRDs keeps a value that it cannot "
                "convert. Set --on-error keep, onError: keep in rules, or leave the flag out"
            )
        configurations.append(refusal)
    return OwnAuthority(address, folder, names, configurations)
