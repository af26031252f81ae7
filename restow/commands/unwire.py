"""``restow unwire``: remove a conversion webhook from CRDs before it is uninstalled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from restow import migrator
from restow.cli import completion, options
from restow.cli.addresses import KEPT_IN, read_address
from restow.cli.connection import ClusterConnection
from restow.cli.crdnames import full_names
from restow.cli.exits import Exit
from restow.cli.printing import print_data, print_table, say
from restow.cli.session import Session, run

if TYPE_CHECKING:
    from restow.conversion.certificates.unwire import Removal
    from restow.conversion.certificates.wiring.clientconfig import Address
    from restow.kube import Cluster


@dataclass(slots=True)
class _Outcome:
    """The results for the CRDs, and for the objects that restow keeps for their servers."""

    removal: Removal
    crds: dict[str, str] = field(default_factory=dict)
    against: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@click.command("unwire")
@click.argument("names", metavar="[CRD]...", nargs=-1, shell_complete=completion.crds)
@click.option(
    "--server",
    metavar="NAMESPACE/SERVICE|URL",
    help="All CRDs that this webhook converts, instead of named ones; none is no error.",
)
@click.option("--keep-server", is_flag=True, help="Leave webhook configurations, Secrets and Leases of the server.")
@click.option(
    "--although-needed",
    is_flag=True,
    help="Unwire without the proof: objects lose, at each write, what the version of the write does not declare.",
)
@click.option("--dry-run", is_flag=True, help="Look only; write and remove nothing.")
@options.output
@options.connection
def command(
    names: tuple[str, ...],
    server: str | None,
    keep_server: bool,
    although_needed: bool,
    dry_run: bool,
    output: str,
    connection: ClusterConnection,
) -> None:
    """Take a conversion webhook away from CRDs that do not need it.

    It sets their conversion strategy to None, and removes what restow keeps for the webhook.

    Run it before you uninstall a conversion webhook: a CRD that names a webhook which is gone blocks reads, the
    deletion of namespaces, and the garbage collector of the whole cluster.

    It writes nothing unless it has proved for every named CRD that no object needs the webhook: only one version is
    served and stored, or each object is the same at every version. Where objects are stored is proved by a complete
    restow migrate; to compare them, it reads each one at each version, so the webhook must still run. A server that
    runs meanwhile leaves an unwired CRD alone until it is started again.

    Then it removes, once no CRD calls a server any more: the webhook configurations that restow alone wrote, the
    Secrets of the certificate and its CA, and released Leases. With --server it writes nothing while ConversionRules
    need the server, or anything else calls it or relies on its CA, at whatever URL.

    Exit codes: 0 unwired; 2 usage or refused; 3 something needs the webhook; 4 the API server stayed out of reach: run
    again.

    \b
    restow unwire widgets.example.com
    restow unwire --server my-system/my-webhook --dry-run
    """
    from restow.conversion.certificates.unwire import Removal, crds_of, obstacles, remove_server

    if bool(names) == bool(server):
        msg = "name CRDs or give --server, not both"
        raise click.UsageError(msg)
    address = None if server is None else read_address(server, "--server")

    async def unwire_all(session: Session) -> Exit:
        cluster, found = session.cluster, _Outcome(Removal())
        chosen = await full_names(cluster, names) if address is None else await crds_of(cluster, address)
        servers = await _servers(cluster, chosen) if address is None else (address,)
        if address is not None:
            found.against += await _served_rules(cluster, address)
            if not keep_server:
                found.against += await obstacles(cluster, address, *_secret(cluster, address), unwired=chosen)
        if not found.against and (dry_run or len(chosen) > 1):
            # Check every CRD before the first write: half of an uninstall helps no user.
            await _unwire(cluster, chosen, found, although_needed=although_needed, dry_run=True)
        if not found.against and not dry_run:
            await _unwire(cluster, chosen, found, although_needed=although_needed, dry_run=False)
        if not found.against and not keep_server:
            for each in servers:
                unwired = chosen if dry_run else ()
                done = await remove_server(cluster, each, *_secret(cluster, each), unwired=unwired, dry_run=dry_run)
                found.removal.removed += done.removed
                found.removal.kept += done.kept
        _show(found, output, "would be removed" if dry_run else "removed")
        return Exit.DUE if found.against else Exit.DONE

    run(unwire_all, connection)


async def _unwire(
    cluster: Cluster, names: Sequence[str], found: _Outcome, *, although_needed: bool, dry_run: bool
) -> None:
    from restow.conversion.certificates import WiringRefused, unwire

    found.notes.clear()
    for name in names:
        try:
            done = await unwire(cluster, name, migrator.may_be_stored, although_needed=although_needed, dry_run=dry_run)
        except WiringRefused as error:
            found.crds[name] = "needs its webhook"
            found.against.append(str(error))
            continue
        if done.changed:
            found.crds[name] = "can be unwired" if dry_run else "unwired"
        found.crds.setdefault(name, "has no webhook")
        found.notes += done.notes


async def _servers(cluster: Cluster, names: Sequence[str]) -> tuple[Address, ...]:
    """Return the addresses of the webhooks that the CRDs call now."""
    from restow.conversion.certificates import WiringRefused
    from restow.conversion.certificates.apply import read_crd
    from restow.conversion.certificates.wiring.clientconfig import address_of

    found: dict[str, Address] = {}
    for name in names:
        try:
            crd = await read_crd(cluster, name)
            address = address_of((crd.webhook or {}).get("clientConfig") or {})
        except (WiringRefused, ValueError):
            continue  # the CRD has none; ``unwire`` reports the problem
        found.setdefault(f"{address.host}:{address.port}", address)
    return tuple(found.values())


def _secret(cluster: Cluster, server: Address) -> tuple[str, str]:
    """Return namespace and name of the Secret with a server's certificate."""
    from restow.conversion.certificates import Service

    if isinstance(server, Service):
        return server.namespace, server.name
    return cluster.default_namespace, KEPT_IN


async def _served_rules(cluster: Cluster, server: Address) -> tuple[str, ...]:
    """Return why ConversionRules need the server, if it is that of their operator: it alone removes their finalizer."""
    from restow.conversion.certificates.apply import resource_of
    from restow.conversion.certificates.wiring.clientconfig import address_in, names_server
    from restow.conversion.operate.revisions import CONFIGURATION, FINALIZER
    from restow.crds.conversionrules import CONVERSION_RULES
    from restow.kube.errors import Forbidden, NotFound

    try:
        configurations = (await cluster.list_page(resource_of("ValidatingWebhookConfiguration"))).json()["items"]
        hooks = [each["webhooks"] for each in configurations if each["metadata"]["name"] == CONFIGURATION]
        addresses = [address_in(hook) for each in hooks for hook in each]
        if not any(address is not None and names_server(address, server) for address in addresses):
            return ()
        rules = [each["metadata"] for each in (await cluster.list_page(CONVERSION_RULES)).json()["items"]]
    except (NotFound, Forbidden):
        return ()
    names = " ".join(each["name"] for each in rules if FINALIZER in each.get("finalizers", ()))
    told = f"the {server} serves the ConversionRules {names}, which cannot go without it: run kubectl delete "
    return (f"{told}conversionrules {names} first",) if names else ()


def _show(found: _Outcome, form: str, removed: str) -> None:
    if form != "table":
        crds = [{"name": name, "state": state} for name, state in found.crds.items()]
        removal = {"removed": found.removal.removed, "kept": found.removal.kept}
        print_data({"crds": crds, "against": found.against, "notes": found.notes, **removal}, form)
        return
    rows = [("CRD", name, state) for name, state in found.crds.items()]
    rows += [(kind, name, removed) for kind, _, name in (each.partition(" ") for each in found.removal.removed)]
    if rows:
        print_table(("kind", "name", "state"), rows)
    for reason in found.against:
        say(reason, style="red")
    for note in (*found.notes, *found.removal.kept):
        say(note, style="magenta")
