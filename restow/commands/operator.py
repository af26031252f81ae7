"""``restow operator``: conversion, admission and controllers of the CloudProfile family in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from restow.cli import completion, options, signals
from restow.cli.addresses import at, read_address
from restow.cli.exits import InputError
from restow.cli.logs import log_to_stderr
from restow.cli.printing import print_text
from restow.cli.session import sentence
from restow.webhook import serving

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Coroutine

    from restow.cloudprofile.controllers import ControllerOptions
    from restow.cloudprofile.management import VersionManagement
    from restow.conversion.certificates.wiring.clientconfig import Address
    from restow.conversion.server import ServingCertificate, WebhookServer
    from restow.migrator.operate.reconciler import Targets
    from restow.operator import Files, Settings

LABELLED: Final = "labelled"

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("operator")
@click.option(
    "--own-ca",
    metavar="NAMESPACE/SERVICE",
    help="Keep a CA and the certificate in Secrets in the namespace of this Service (or https://HOST), and put the CA "
    "bundle into the CRDs and both webhook configurations.",
)
@click.option(
    "--cert", type=_FILE, help="Serving certificate from another source, with its chain, PEM; reloaded when it changes."
)
@click.option("--key", type=_FILE, help="Private key of the certificate, PEM, unencrypted.")
@click.option("--install-crds", is_flag=True, help="Apply the CRDs first, as the field manager restow-operator.")
@click.option(
    "--conversions",
    is_flag=True,
    help="Reconcile and serve the ConversionRules of the cluster, for any kind, instead of the CloudProfile family.",
)
@options.connection
@serving.flags
@click.option(
    "--lease",
    default="restow-operator",
    show_default=True,
    metavar="[NAMESPACE/]NAME",
    help="Lease that elects the replica that runs the controllers; default namespace: that of the Service, or the "
    "client's own.",
)
@click.option("--no-controllers", is_flag=True, help="Serve only.")
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Objects of a kind that are reconciled concurrently.",
)
@click.option(
    "--management",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Propose changes of versions by this policy, a ControllerManagerConfiguration.",
)
@click.option("--apply-management", is_flag=True, help="Write the proposed changes into the CloudProfiles.")
@click.option("--maintain-shoots", is_flag=True, help="Apply update targets to Shoots in their maintenance windows.")
@click.option(
    "--migrate",
    multiple=True,
    is_flag=False,
    flag_value=LABELLED,
    metavar="[CRD]",
    help="Keep this CRD migrated to its storage version (family: those of CloudProfiles, all: every one; without a "
    f'value, or {LABELLED}: each with the label restow.dev/migrate: "true"); repeatable. Without a '
    "certificate it does only that.",
    shell_complete=completion.crds,
)
@options.settle
@click.option(
    "--references-every",
    type=click.IntRange(1),
    metavar="S",
    help="With --migrate: every S seconds, look through all resources for what names a version that may go, and set "
    "the condition restow.dev/NoReferences of each CRD.",
)
@click.option(
    "--service",
    metavar="NAMESPACE/SERVICE",
    help="With --conversions, --cert, --key and --ca-file: the Service (or https://HOST) at which API servers find it.",
)
@click.option(
    "--restore-stashes",
    is_flag=True,
    help="With --conversions: also keep a webhook configuration for each CRD, by which stashes are restored that "
    "clients of old versions drop.",
)
@click.option(
    "--refuse-unconvertible",
    is_flag=True,
    help="With --conversions: also keep a webhook configuration for each CRD of which a rule keeps values (onError: "
    "keep), by which writes of values are refused that the rule could not convert.",
)
@click.option(
    "--print-webhooks",
    metavar="NAMESPACE/SERVICE",
    help="Print the webhook configurations for this Service (or https://HOST), and exit.",
)
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --print-webhooks or --service: the CA bundle of the certificate, PEM; with --service it is followed "
    "when it changes.",
)
def command(**flags: Any) -> None:
    """Run conversion, admission and controllers of CloudProfiles.

    Every replica serves; an elected one runs the controllers. Conversion is at /convert/<plural>.core.gardener.cloud,
    admission at /admit/<step> and /mutate/<step>.

    With --conversions it serves the ConversionRules of the cluster instead, each kind at /convert/<plural>.<group>.

    With --migrate and no certificate it serves nothing, and keeps CRDs migrated, of operators in any language.

    SIGTERM releases the lease and drains the server; a second one stops it immediately. SIGHUP reloads the certificate.

    Exit codes: 0 after SIGTERM; 1 stopped immediately; 2 usage, or it could not start.

    \b
    restow operator --own-ca restow-system/restow-operator --install-crds --migrate family
    restow operator --migrate
    restow operator --own-ca restow-system/restow-conversions --install-crds --conversions
    restow operator --service restow-system/restow-conversions --cert certs/tls.crt --key certs/tls.key \
      --ca-file certs/ca.crt --conversions
    """
    from restow.conversion.certificates.ca import CertificateError
    from restow.conversion.server import BadCertificate
    from restow.crds.aggregation import GroupServedElsewhere
    from restow.kube import KubeError
    from restow.operator import run
    from restow.operator.conversions import run as run_conversions

    if flags["print_webhooks"] is not None:
        print_text(_webhooks(read_address(flags["print_webhooks"], "--print-webhooks"), flags["ca_file"]))
        return
    if flags["restore_stashes"] and not flags["conversions"]:
        msg = "--restore-stashes goes with --conversions: the operator of CloudProfiles restores stashes in any case"
        raise click.UsageError(msg)
    if flags["refuse_unconvertible"] and not flags["conversions"]:
        msg = "--refuse-unconvertible goes with --conversions: the conversions of CloudProfiles keep no such value"
        raise click.UsageError(msg)
    if flags["references_every"] is not None and not flags["migrate"]:
        msg = "--references-every looks for references to versions of the CRDs of --migrate: give --migrate too"
        raise click.UsageError(msg)
    if flags["conversions"]:
        _check_conversions(flags)
    if _only_migrates(flags):
        settings, served = _migrations(flags)
    else:
        settings, served = _settings(flags), run_conversions if flags["conversions"] else run
    log_to_stderr("info")
    try:
        serving.run_until_stopped(lambda stop: served(settings, stop))
    except (KubeError, CertificateError) as error:
        raise InputError(sentence(error)) from error
    except (BadCertificate, GroupServedElsewhere, OSError) as error:
        raise InputError(str(error)) from error


def _only_migrates(flags: dict[str, Any]) -> bool:
    """Return whether the process is to serve nothing, since it has --migrate and nothing to serve with."""
    given = ("own_ca", "cert", "key", "conversions", "service")
    return bool(flags["migrate"]) and not any(flags[name] for name in given)


def _migrations(
    flags: dict[str, Any],
) -> tuple[Settings, Callable[[Settings, asyncio.Event], Coroutine[Any, Any, None]]]:
    """Return the settings of a process that only migrates, and its main function.

    Raises:
        click.UsageError: a flag is about the CloudProfile family.
        InputError: the port is taken.
    """
    for name in ("install_crds", "management", "apply_management", "maintain_shoots"):
        if flags[name]:
            msg = f"--{name.replace('_', '-')} is for the operator of CloudProfiles: give --own-ca, or --cert and --key"
            raise click.UsageError(msg)
    from restow.operator import Settings
    from restow.operator.migrations import run as run_migrations

    namespace, _, name = flags["lease"].rpartition("/")
    settings = Settings(
        identity=None,
        listen=None,
        connect=flags["connection"].open,
        lease=(name, namespace or None),
        migrate=_targets(flags["migrate"], flags["settle"]),
        settle_s=flags["settle"],
        references_s=flags["references_every"],
    )
    probes = serving.bound_probes(flags)
    return settings, lambda settings, stop: run_migrations(settings, probes, stop)


def _settings(flags: dict[str, Any]) -> Settings:
    """Return the operator's settings from the flags.

    Raises:
        click.UsageError: flags are missing or contradict each other, or --own-ca or --migrate has a malformed value.
        InputError: the file of --management cannot be read, or contains no configuration; or a port is taken.
    """
    import asyncio

    from restow.conversion.certificates import Service
    from restow.conversion.operate.wiring import REFUSING, RESTORING
    from restow.operator import Files, Settings

    def listen(webhook: WebhookServer, certificate: ServingCertificate) -> tuple[socket.socket, socket.socket]:
        signals.on_hangup(asyncio.get_running_loop(), certificate.reload)
        serving.tell(webhook, *sockets)
        return sockets

    identity = _identity(flags)
    namespace, _, name = flags["lease"].rpartition("/")
    address = identity.address if isinstance(identity, Files) else identity
    if not namespace and isinstance(address, Service):
        namespace = address.namespace
    steps = {RESTORING: "restore_stashes", REFUSING: "refuse_unconvertible"}
    settings = Settings(
        identity=identity,
        listen=listen,
        connect=flags["connection"].open,
        lease=(name, namespace or None),
        clients=serving.clients(flags),
        client_ca=flags["client_ca"],
        limits=serving.limits(flags),
        controllers=_controllers(flags),
        migrate=_targets(flags["migrate"], flags["settle"]),
        settle_s=flags["settle"],
        references_s=flags["references_every"],
        installs_crds=flags["install_crds"],
        rules_steps=tuple(step for step, flag in steps.items() if flags[flag]),
    )
    sockets = serving.bound(flags)
    return settings


def _check_conversions(flags: dict[str, Any]) -> None:
    """Refuse flags that --conversions does not allow.

    Raises:
        click.UsageError: without --own-ca, --service or --ca-file is missing; or a flag is about the CloudProfile
            family.
    """
    if flags["own_ca"] is None and (flags["service"] is None or flags["ca_file"] is None):
        msg = (
            "--conversions needs --own-ca NAMESPACE/SERVICE, or --service, --cert, --key and --ca-file: the operator "
            "wires CRDs as rules come and go"
        )
        raise click.UsageError(msg)
    for name in ("management", "apply_management", "maintain_shoots", "no_controllers", "migrate"):
        if flags[name]:
            msg = f"--conversions does not go with --{name.replace('_', '-')}: run a second operator for that"
            raise click.UsageError(msg)


def _targets(names: tuple[str, ...], settle_s: float) -> Targets | None:
    """Return the CRDs that --migrate names, None if it names none."""
    from restow.operator.family import crds

    if not names:
        return None
    if "all" in names:
        return lambda _crd: True
    own = [crd.name for crd in crds()]
    found = [each for name in names for each in (own if name == "family" else [name]) if name != LABELLED]
    if wrong := [name for name in found if "." not in name]:
        msg = f"--migrate takes <plural>.<group>, family, all or {LABELLED}, not {wrong[0]!r}"
        raise click.UsageError(msg)
    if LABELLED not in names:
        return tuple(dict.fromkeys(found))
    from restow.migrator import Options
    from restow.migrator.operate.policy import asking

    labelled = asking(Options(resume=True, settle_s=settle_s))
    return lambda crd: crd.name in found or labelled(crd)


def _identity(flags: dict[str, Any]) -> Files | Address:
    from restow.operator import Files

    own, certificate, key = flags["own_ca"], flags["cert"], flags["key"]
    service = None if flags["service"] is None else read_address(flags["service"], "--service")
    if service is not None and (own is not None or not flags["conversions"]):
        msg = "--service goes with --conversions and --cert; with --own-ca the Service is named there"
        raise click.UsageError(msg)
    if own is not None and certificate is None and key is None:
        return read_address(own)
    if own is None and certificate is not None and key is not None:
        return Files(certificate, key, flags["ca_file"], service)
    msg = "give --own-ca NAMESPACE/SERVICE, or --cert and --key"
    raise click.UsageError(msg)


def _controllers(flags: dict[str, Any]) -> ControllerOptions | None:
    from restow.cloudprofile.controllers import ControllerOptions

    management = _management(flags["management"])
    if flags["apply_management"] and management is None:
        msg = "--apply-management applies a policy: give --management FILE too"
        raise click.UsageError(msg)
    if flags["no_controllers"]:
        return None
    return ControllerOptions(
        management=management,
        applies_management=flags["apply_management"],
        maintenance=flags["maintain_shoots"],
        workers=flags["workers"],
    )


def _management(file: Path | None) -> VersionManagement | None:
    from restow.cloudprofile.management import InvalidConfiguration, read_configuration

    if file is None:
        return None
    try:
        return read_configuration(file.read_text(encoding="utf-8"))
    except (InvalidConfiguration, OSError, UnicodeDecodeError) as error:
        raise InputError(f"--management {file}: {error}") from error


def _webhooks(address: Address, ca_file: Path | None) -> str:
    import yaml

    from restow.conversion.certificates import Bundle
    from restow.conversion.certificates.wiring.clientconfig import BundleError
    from restow.operator.family import configurations

    try:
        bundle = None if ca_file is None else Bundle.from_pem(ca_file.read_bytes())
    except (BundleError, OSError) as error:
        raise InputError(f"--ca-file {ca_file}: {error}") from error
    documents = configurations(lambda path: at(address, path), bundle)
    return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
