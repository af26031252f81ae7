"""``restow rbac``: print the minimal rights that a command needs, as Roles."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from restow.cli import completion, options
from restow.cli.addresses import KEPT_IN
from restow.cli.printing import print_data, print_text
from restow.migrator import Engine
from restow.rbac import Command

if TYPE_CHECKING:
    from restow.rbac import Asked, ServiceAccount

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SERVICE: Final = re.compile(rf"(?P<namespace>{_LABEL})/(?P<name>{_LABEL})(:(?P<port>\d{{1,5}}))?", re.ASCII)


@click.command("rbac")
@click.option(
    "--crd",
    "crds",
    multiple=True,
    metavar="NAME|FILE",
    help="Name of a CRD, or a manifest with CRDs; repeatable.",
    shell_complete=completion.crds_or_files,
)
@click.option("--all", "everything", is_flag=True, help="The commands run with --all: CRDs are listed too.")
@click.option(
    "--for",
    "commands",
    multiple=True,
    required=True,
    type=click.Choice([each.value for each in Command]),
    help="The command to run (conversions: operator --conversions); repeatable.",
)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="Objects of this namespace only, by a Role in it; repeatable.",
)
@click.option("--least", is_flag=True, help="Leave out optional rights.")
@click.option("--no-prune", is_flag=True, help="migrate runs with --no-prune or --dry-run.")
@click.option("--shards", is_flag=True, help="migrate runs in shards, with their records in a ConfigMap.")
@click.option(
    "--engine",
    type=click.Choice([each.value for each in Engine]),
    default=Engine.DIRECT.value,
    show_default=True,
    help="migrate runs with this engine.",
)
@click.option("--profiles", is_flag=True, help="report runs with --profiles.")
@click.option("--crossplane", is_flag=True, help="conversions may wire the CompositeResourceDefinitions of Crossplane.")
@click.option(
    "--dependents",
    is_flag=True,
    help="ready, references, plan, report, embedding and operator --migrate may list all resources, Secrets included, "
    "to find what names the version.",
)
@click.option("--move", "moves", is_flag=True, help="references runs with --move and --undo.")
@click.option(
    "--resource",
    "written",
    multiple=True,
    metavar="RESOURCE",
    help="With --move: references are written in this resource only (configmaps, deployments.apps); repeatable. "
    "secrets includes Helm releases.",
)
@click.option(
    "--proxied",
    multiple=True,
    metavar="NAMESPACE/SERVICE[:PORT]",
    help="A conversion webhook that is called from outside the cluster; repeatable.",
)
@click.option(
    "--own-ca",
    metavar="NAMESPACE/SERVICE",
    help="serve, operator or conversions keep certificates for this Service, and unwire removes them; at "
    "https://HOST[:PORT] their Secrets are "
    "in the namespace of the service account, else in default.",
)
@click.option("--restore-stashes", is_flag=True, help="serve, or operator --conversions, runs with --restore-stashes.")
@click.option(
    "--refuse-unconvertible", is_flag=True, help="serve, or operator --conversions, runs with --refuse-unconvertible."
)
@click.option("--install-crds", is_flag=True, help="operator runs with --install-crds; conversions, too.")
@click.option("--no-controllers", is_flag=True, help="operator runs with --no-controllers.")
@click.option("--maintain-shoots", is_flag=True, help="operator runs with --maintain-shoots.")
@click.option(
    "--migrate",
    "keeps",
    multiple=True,
    metavar="CRD",
    help="operator runs with --migrate for this CRD (family: those of CloudProfiles); repeatable.",
    shell_complete=completion.crds,
)
@click.option(
    "--service-account",
    metavar="NAMESPACE/NAME",
    help="Also print this service account and its bindings; the process runs in its namespace.",
)
@click.option(
    "--lease",
    default="restow-migrator",
    show_default=True,
    metavar="NAME",
    help="With --for embedding: the Lease of the Migrator.",
)
@click.option("--name", help="Name of the Roles; default: restow-, the commands, and the CRDs.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Format of the manifests.")
def command(**flags: Any) -> None:
    """Print the minimal RBAC that commands need, with reasons.

    Rules name their objects where RBAC allows it; it does not for create. Optional rights are marked, with the effect
    of their absence; --least leaves them out. Without --crd, the rights of doctor are those of doctor --namespace.

    Exit codes: 0 printed; 2 usage.

    \b
    restow rbac --for migrate --crd widgets.example.com --service-account my-system/migrator | kubectl apply -f -
    restow rbac --for embedding --crd widgets.example.com --service-account my-system/my-operator
    restow rbac --for references --crd widgets.example.com --move --resource configmaps --resource secrets
    restow rbac --for doctor
    """
    from restow.rbac import Asked, grants, manifests, plain, to_yaml

    commands = tuple(dict.fromkeys(Command(each) for each in flags["commands"]))
    account = _account(flags["service_account"])
    home = _home(flags, commands, account)
    own_ca, url = _own_ca(flags["own_ca"], home)
    asked = Asked(
        crds=_names(flags["crds"]),
        namespaces=flags["namespaces"],
        home=home,
        everything=flags["everything"],
        prunes=not flags["no_prune"],
        shards=flags["shards"],
        engine=Engine(flags["engine"]),
        profiles=flags["profiles"],
        dependents=flags["dependents"],
        moves=flags["moves"],
        written=flags["written"],
        crossplane=flags["crossplane"],
        proxied=tuple(_service(each, "--proxied") for each in flags["proxied"]),
        own_ca=own_ca,
        url=url,
        restores_stashes=flags["restore_stashes"],
        refuses_unconvertible=flags["refuse_unconvertible"],
        installs_crds=flags["install_crds"],
        controls=not flags["no_controllers"],
        maintains=flags["maintain_shoots"],
        keeps=_kept(flags["keeps"]),
        lease=flags["lease"],
        least=flags["least"],
    )
    _insist(commands, asked)
    try:
        found = grants(commands, asked)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    documents = manifests(found, flags["name"] or _name(commands, asked), account)
    if flags["output"] == "yaml":
        print_text(to_yaml(documents))
    else:
        print_data({"apiVersion": "v1", "kind": "List", "items": plain(documents)}, "json")


def _name(commands: tuple[Command, ...], asked: Asked) -> str:
    """Return a name for the Roles that differs from the name of another team's Roles for other CRDs."""
    first, *others = (*asked.crds, "")
    if others[1:]:
        digest = sha256(" ".join(sorted(asked.crds)).encode()).hexdigest()[:8]
        first = f"{first}-and-{len(others) - 1}-more-{digest}"
    return "-".join(filter(None, ("restow", *commands, first)))


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the CRDs, read from the manifest where a manifest is given.

    Raises:
        InputError: a manifest cannot be read, or contains no CRD.
    """
    files = tuple(Path(each) for each in given if Path(each).exists())
    names = tuple(each for each in given if not Path(each).exists())
    return options.crd_names(names, everything=False, files=files) or () if given else ()


def _kept(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the CRDs that --migrate names.

    Raises:
        click.UsageError: --migrate is ``all``, for which there is no minimal set of rights.
    """
    from restow.rbac import FAMILY

    if "all" in given:
        msg = "--migrate all would take the right to write every object of the cluster: name the CRDs"
        raise click.UsageError(msg)
    found = (FAMILY if each == "family" else (each,) for each in given)
    return tuple(dict.fromkeys(name for names in found for name in names))


def _account(text: str | None) -> ServiceAccount | None:
    from restow.rbac import ServiceAccount

    if text is None:
        return None
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        msg = f"--service-account takes NAMESPACE/NAME, not {text!r}"
        raise click.UsageError(msg)
    return ServiceAccount(namespace, name)


def _home(flags: dict[str, Any], commands: tuple[Command, ...], account: ServiceAccount | None) -> str:
    """Return the namespace that the process runs in.

    Raises:
        click.UsageError: the commands need it, and no service account is given.
    """
    if account is not None:
        return account.namespace
    elects = Command.OPERATOR in commands and (flags["keeps"] or not flags["no_controllers"])
    if flags["shards"] or elects or {Command.CONVERSIONS, Command.EMBEDDING} & {*commands}:
        msg = "give --service-account NAMESPACE/NAME: restow needs rights in the namespace that it runs in"
        raise click.UsageError(msg)
    return "default"


def _own_ca(text: str | None, home: str) -> tuple[tuple[str, str] | None, str]:
    """Return the Service or Secret that --own-ca means, and the URL if it does not name a Service.

    Raises:
        click.UsageError: the text is neither NAMESPACE/SERVICE nor https://HOST[:PORT].
    """
    from restow.conversion.certificates.wiring.clientconfig import Url

    if text is None:
        return None, ""
    if "://" not in text:
        return _service(text, "--own-ca", " or https://HOST[:PORT]")[:2], ""
    try:
        return (home, KEPT_IN), Url(text.rstrip("/")).url
    except ValueError as error:
        msg = f"--own-ca {text!r}: {error}"
        raise click.UsageError(msg) from error


def _service(text: str, flag: str, otherwise: str = "") -> tuple[str, str, int]:
    found = _SERVICE.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 443) < 65536:
        msg = f"{flag} takes NAMESPACE/SERVICE[:PORT]{otherwise}, not {text!r}"
        raise click.UsageError(msg)
    return found["namespace"], found["name"], int(found["port"] or 443)


def _insist(commands: tuple[Command, ...], asked: Asked) -> None:
    """Refuse flags whose result would be empty or smaller than intended.

    Raises:
        click.UsageError: a command needs CRDs and none is named, ``serve`` alone is named without --own-ca, or
            --move or --resource is given without the command or flag that it narrows.
    """
    if asked.moves and Command.REFERENCES not in commands:
        msg = "--move is about restow references: give --for references"
        raise click.UsageError(msg)
    if asked.written and not asked.moves:
        msg = "--resource says where --move writes: give --move too"
        raise click.UsageError(msg)
    serves = Command.SERVE in commands and asked.own_ca is not None
    others = {Command.SERVE, Command.OPERATOR, Command.CONVERSIONS}
    others |= ({Command.REPORT} if asked.profiles else set()) | (set() if asked.crds else {Command.DOCTOR})
    about_crds = {each for each in commands if each not in others}
    named = bool(asked.crds) or (asked.everything and about_crds <= {Command.STATUS} and not serves)
    if (about_crds or serves) and not named:
        msg = f"name the CRDs that {', '.join(commands)} is for: --crd NAME or FILE"
        raise click.UsageError(msg)
    if Command.SERVE in commands and asked.own_ca is None and len(commands) == 1:
        msg = "serve needs no right, unless it keeps its own certificates: give --own-ca NAMESPACE/SERVICE"
        raise click.UsageError(msg)
