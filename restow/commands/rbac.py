"""``restow rbac``: print the minimal rights that a command needs, as Roles.

A command is given as it will run (``--for "migrate --no-prune"``), and read by its own parser: a flag has one meaning,
and a flag that does not exist is refused here as there.
"""

from __future__ import annotations

import re
import shlex
from hashlib import sha256
from importlib import import_module
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
_COMMANDS: Final = {each.value: each for each in Command if each is not Command.CONVERSIONS}
_EMBEDDING: Final = click.Command(
    Command.EMBEDDING.value, params=[click.Option(["--lease"], help="Lease of the Migrator.", metavar="NAME")]
)


@click.command("rbac")
@click.argument("crds", metavar="[CRD|FILE]...", nargs=-1, shell_complete=completion.crds_or_files)
@click.option(
    "--for",
    "runs",
    multiple=True,
    required=True,
    metavar='"COMMAND FLAGS"',
    help="The command as it will run, without the CRDs, or embedding [--lease NAME] for the Migrator in your own "
    "operator; repeatable.",
)
@click.option(
    "--dependents",
    is_flag=True,
    help="The commands may list all resources, Secrets included, to find what names a version.",
)
@click.option(
    "--resource",
    "written",
    multiple=True,
    metavar="[NAMESPACE/]RESOURCE",
    help="references --move writes in this resource only (configmaps, deployments.apps); repeatable. secrets includes "
    "Helm releases.",
)
@click.option(
    "--proxied",
    multiple=True,
    metavar="NAMESPACE/SERVICE[:PORT]",
    help="A conversion webhook that is called from outside the cluster; repeatable.",
)
@click.option("--crossplane", is_flag=True, help="The operator may wire Crossplane's CompositeResourceDefinitions.")
@click.option(
    "--service-account",
    metavar="NAMESPACE/NAME",
    help="Also print this service account and its bindings; the process runs in its namespace.",
)
@click.option("--least", is_flag=True, help="Leave out optional rights.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="Format of the manifests.")
def command(**flags: Any) -> None:
    """Print the minimal RBAC that commands need, with reasons.

    Rules name their objects where RBAC allows it; it does not for create. Optional rights are marked, with the effect
    of their absence; --least leaves them out. Without CRDs, the rights of doctor are those of doctor --namespace.

    Exit codes: 0 printed; 2 usage.

    \b
    restow rbac widgets.example.com --for migrate --service-account my-system/migrator | kubectl apply -f -
    restow rbac widgets.example.com --for "migrate -n team-a --engine native" --for ready
    restow rbac widgets.example.com --for embedding --service-account my-system/my-operator
    restow rbac widgets.example.com --for "references --move v1" --resource configmaps --resource secrets
    restow rbac --for doctor
    """
    from restow.rbac import grants, manifests, plain, to_yaml

    account = _account(flags["service_account"])
    runs = [_asked(text, flags, account) for text in flags["runs"]]
    _insist(runs, flags["written"])
    try:
        found = tuple(dict.fromkeys(grant for command, asked in runs for grant in grants([command], asked)))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    commands = tuple(dict.fromkeys(command for command, _ in runs))
    documents = manifests(found, _name(commands, runs[0][1].crds), account)
    if flags["output"] == "yaml":
        print_text(to_yaml(documents))
    else:
        print_data({"apiVersion": "v1", "kind": "List", "items": plain(documents)}, "json")


def _parsed(text: str) -> tuple[Command, dict[str, Any]]:
    """Return a command and its flags by name.

    Raises:
        click.UsageError: the command needs no rights or does not exist, or its parser refuses a flag.
    """
    try:
        name, *words = shlex.split(text)
        command = _COMMANDS[name]
    except (KeyError, ValueError) as error:
        msg = f"--for takes a command with its flags, one of {', '.join(_COMMANDS)}; not {text!r}"
        raise click.UsageError(msg) from error
    parsed = _EMBEDDING if command is Command.EMBEDDING else import_module(f"restow.commands.{name}").command
    own = click.Context(parsed, info_name=f"restow {name}")
    given, more, _ = parsed.make_parser(own).parse_args(words)
    if more:
        raise click.UsageError(f"--for {text!r}: unexpected {' '.join(more)!r}")
    flags = {name: value for name, value in given.items() if isinstance(value, str | bool | list | tuple)}  # was given
    for each in parsed.params:
        if isinstance(each.type, click.Choice) and each.name in flags:
            each.type_cast_value(own, flags[each.name])
    return Command.CONVERSIONS if flags.get("conversions") else command, flags


def _asked(text: str, flags: dict[str, Any], account: ServiceAccount | None) -> tuple[Command, Asked]:
    """Return a command and how it runs.

    Raises:
        click.UsageError: a flag has no meaning, or the command needs a service account.
    """
    from restow.rbac import Asked

    command, own = _parsed(text)
    given = own.get
    sharded = given("shard") is not None or given("shards") is not None
    controls = not given("no_controllers")
    home = account.namespace if account else "default"
    elects = command is Command.OPERATOR and (given("migrate") or controls)
    if account is None and (sharded or elects or command in (Command.CONVERSIONS, Command.EMBEDDING)):
        msg = "give --service-account NAMESPACE/NAME: restow needs rights in the namespace that it runs in"
        raise click.UsageError(msg)
    own_ca, url = _own_ca(given("own_ca") or given("server"), home)
    named = (*(given("names") or ()), *filter(None, [given("name")]))
    return command, Asked(
        crds=tuple(dict.fromkeys((*_names(flags["crds"]), *named))),
        namespaces=_namespaces(command, own, flags["written"]),
        home=home,
        everything=bool(given("everything")),
        prunes=_prunes(own),
        shards=sharded,
        engine=Engine(given("engine") or Engine.DIRECT),
        profiles=bool(given("with_profiles")),
        dependents=bool(flags["dependents"] or given("references") or given("references_every")),
        moves=bool(given("target") or given("undo")),
        written=tuple(dict.fromkeys(each.rpartition("/")[2] for each in flags["written"])),
        crossplane=flags["crossplane"],
        proxied=tuple(_service(each, "--proxied") for each in flags["proxied"]),
        own_ca=own_ca,
        url=url,
        restores_stashes=bool(given("restore_stashes")),
        refuses_unconvertible=bool(given("refuse_unconvertible")),
        installs_crds=bool(given("install_crds")),
        controls=controls,
        maintains=bool(given("maintain_shoots")),
        keeps=_kept(tuple(given("migrate") or ())),
        lease=given("lease") or "restow-migrator",
        least=flags["least"],
    )


def _prunes(own: dict[str, Any]) -> bool:
    """Return whether ``migrate`` prunes with these flags."""
    skipped = own.get("no_prune") or "prune" in (own.get("skip") or ()) or own.get("only") not in (None, "prune")
    return not (skipped or own.get("dry_run") or own.get("selector"))


def _namespaces(command: Command, own: dict[str, Any], written: tuple[str, ...]) -> tuple[str, ...]:
    """Return the namespaces that a command is limited to; all if empty."""
    if command is Command.REFERENCES:
        return tuple(dict.fromkeys(place for each in written if (place := each.rpartition("/")[0])))
    return (own["namespace"],) if own.get("namespace") and command is not Command.DOCTOR else ()


def _name(commands: tuple[Command, ...], crds: tuple[str, ...]) -> str:
    """Return a name for the Roles that differs from the name of another team's Roles for other CRDs."""
    first, *others = (*crds, "")
    if others[1:]:
        digest = sha256(" ".join(sorted(crds)).encode()).hexdigest()[:8]
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


def _insist(runs: list[tuple[Command, Asked]], written: tuple[str, ...]) -> None:
    """Refuse flags whose result would be empty or smaller than intended.

    Raises:
        click.UsageError: a command needs CRDs and none is named, ``serve`` alone is named without --own-ca, or
            --resource is given without the command that it narrows.
    """
    if written and not any(asked.moves for _, asked in runs):
        msg = '--resource says where references are written: give --for "references --move VERSION"'
        raise click.UsageError(msg)
    if all(command is Command.SERVE and asked.own_ca is None for command, asked in runs):
        msg = "serve needs no right, unless it keeps its own certificates: give --own-ca NAMESPACE/SERVICE"
        raise click.UsageError(msg)
    for command, asked in runs:
        if not (asked.crds or _needs_no_crd(command, asked)):
            msg = f"name the CRDs that {command} is for: restow rbac CRD|FILE --for {command}"
            raise click.UsageError(msg)


def _needs_no_crd(command: Command, asked: Asked) -> bool:
    if command is Command.SERVE:
        return asked.own_ca is None
    everywhere = command is Command.STATUS and asked.everything
    profiles = command is Command.REPORT and asked.profiles
    return everywhere or profiles or command in (Command.OPERATOR, Command.CONVERSIONS, Command.DOCTOR)
