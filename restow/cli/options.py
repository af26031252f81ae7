"""The flags that subcommands share: kubectl's flags where kubectl has one, and the flags of a migration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from restow import migrator
from restow.cli import completion
from restow.cli import connection as clusters
from restow.cli.logs import FORMATS, LEVELS, remember
from restow.cli.printing import note_wide
from restow.cli.session import PATIENCE
from restow.cli.shared import option
from restow.migrator.model.options import PATIENCE_S, SETTLE_S, url_problem

if TYPE_CHECKING:
    from restow.cli.registries import ConversionSource
    from restow.migrator.requests.environment import Converters

JOB_INDEX = "JOB_COMPLETION_INDEX"
"""The environment variable with which an Indexed Job tells each pod its index, from 0."""

MOST_SAMPLED = 10_000
"""The largest sample in objects; the process keeps all of them in memory until the list has ended."""

_F = TypeVar("_F", bound=Callable[..., Any])


def together(*decorators: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Combine several options into one decorator; the help shows them in this order."""

    def decorate(function: _F) -> _F:
        for each in reversed(decorators):
            function = each(function)
        return function

    return decorate


def logs(function: _F) -> _F:
    """Add -v, --log-level and --log-format, for ``restow.cli.logs.log_to_stderr``."""
    return together(
        option(
            "-v",
            "--v",
            "verbosity",
            type=click.IntRange(0),
            metavar="N",
            expose_value=False,
            callback=remember,
            help="Log level as a number, as kubectl's: 1 to 5 info, 6 and more debug with every request.",
        ),
        option(
            "--log-level",
            type=click.Choice(LEVELS),
            envvar="RESTOW_LOG_LEVEL",
            show_envvar=True,
            expose_value=False,
            callback=remember,
            help="Lowest level to log; default: info for commands that serve, warning for others.",
        ),
        option(
            "--log-format",
            type=click.Choice(FORMATS),
            envvar="RESTOW_LOG_FORMAT",
            show_envvar=True,
            expose_value=False,
            callback=remember,
            help="Format of log lines; default: text.",
        ),
    )(function)


def connection(function: _F) -> _F:
    """Add ``restow.cli.connection.flags`` and the flags of the log: every command that uses an API server logs."""
    return together(clusters.flags, logs)(function)


def api_servers(function: _F) -> _F:
    """Add --api-server, as ``api_servers``."""
    return click.option(
        "--api-server",
        "api_servers",
        multiple=True,
        metavar="URL",
        help="https://HOST:PORT of another API server of the cluster to check; repeatable.",
    )(function)


def _finite(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if not math.isfinite(value):
        raise click.BadParameter("expected a finite number of seconds")
    return value


def settle(function: _F) -> _F:
    """Add --settle."""
    return click.option(
        "--settle",
        type=click.FloatRange(0),
        callback=_finite,
        default=SETTLE_S,
        show_default=True,
        envvar="RESTOW_SETTLE",
        show_envvar=True,
        metavar="S",
        help="Seconds to wait before the list, once all API servers follow the CRD. A request that began earlier, and "
        "that an admission webhook delays, stores the old version; API servers end it after 60 seconds.",
    )(function)


def patience(function: _F) -> _F:
    """Add --patience."""
    return click.option(
        "--patience",
        type=click.FloatRange(0),
        default=PATIENCE_S,
        show_default=True,
        envvar=PATIENCE,
        show_envvar=True,
        metavar="S",
        help="Seconds to retry an API server or a converter that is out of reach, before exit code 4.",
    )(function)


def output(function: _F) -> _F:
    """Add -o."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", "json", "yaml"]),
        default="table",
        callback=note_wide,
        help="Format of the result; wide is a table with all columns.",
    )(function)


def crds(*, all_without: bool = False) -> Callable[[_F], _F]:
    """Add CRD… | --all | -f FILE; ``all_without`` for a command that means all CRDs where none is named."""
    default = "; the default where none is named" if all_without else ""
    return together(
        click.argument("names", metavar="[CRD]...", nargs=-1, shell_complete=completion.crds),
        click.option("--all", "everything", is_flag=True, help=f"All CRDs of the cluster{default}."),
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            type=click.Path(exists=True, allow_dash=True, path_type=Path),
            metavar="FILE",
            help="Use the names of the CRDs in this manifest (file, folder, or - for stdin); repeatable.",
        ),
    )


def selection(function: _F) -> _F:
    """Add -n, -A and -l."""
    return together(
        click.option("-n", "--namespace", metavar="NAME", help="Objects of one namespace only; never prunes."),
        click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces (the default)."),
        click.option("-l", "--selector", metavar="LABELS", help="Objects with these labels only; never prunes."),
    )(function)


def migration(function: _F) -> _F:
    """Add the flags of a migration; ``migration_options`` reads them."""
    return together(
        click.option(
            "--managed-fields",
            type=click.Choice([each.value for each in migrator.ManagedFields]),
            default=migrator.ManagedFields.TRANSLATE.value,
            show_default=True,
            help="Translate entries of other versions to the storage version, strip entries of unserved versions, "
            "or keep all.",
        ),
        click.option(
            "--scope",
            type=click.Choice([each.value for each in migrator.Scope]),
            default=migrator.Scope.NOT_STORAGE.value,
            show_default=True,
            help="The managedFields entries that --managed-fields applies to.",
        ),
        click.option(
            "--strip-served",
            is_flag=True,
            help="With --managed-fields strip: also strip entries of served versions. Their appliers get conflicts.",
        ),
        click.option(
            "--skip-phase",
            "skip",
            multiple=True,
            type=click.Choice([each.value for each in migrator.Phase]),
            help="Skip this phase; repeatable.",
        ),
        click.option(
            "--only",
            type=click.Choice([each.value for each in migrator.Phase]),
            help="Run this phase alone; prune includes the writes that prove that it is safe.",
        ),
        click.option(
            "--ignore-mark", is_flag=True, help="Write all objects even if the proof of a complete run is valid."
        ),
        converter,
        selection,
    )(function)


def running(function: _F) -> _F:
    """Add --engine, --resume, and --shard and --shards, which ``shard`` reads."""
    return together(
        click.option(
            "--engine",
            type=click.Choice([each.value for each in migrator.Engine]),
            default=migrator.Engine.DIRECT.value,
            show_default=True,
            help="What re-encodes objects: restow (direct), or first the cluster's StorageVersionMigration (native); "
            "auto is direct, but waits for an active StorageVersionMigration.",
        ),
        click.option(
            "--resume",
            is_flag=True,
            help="Skip objects that were written after the watermark of an earlier run.",
        ),
        click.option(
            "--shard", metavar="I/N", help="Migrate one of N shards, 0/N to N-1/N; the last one to finish prunes."
        ),
        click.option(
            "--shards",
            type=click.IntRange(1),
            envvar="RESTOW_SHARDS",
            show_envvar=True,
            metavar="N",
            help=f"Number of shards in an Indexed Job of N completions; {JOB_INDEX} selects the shard.",
        ),
    )(function)


def shard(flags: dict[str, Any], environment: Mapping[str, str]) -> migrator.Shard | None:
    """Return the shard from the flags that ``running`` added, and remove them from ``flags``.

    Raises:
        click.UsageError: the flags do not name a valid shard.
    """
    part, count = flags.pop("shard"), flags.pop("shards")
    try:
        if part is not None:
            return migrator.Shard.parse(part)
        if count is None:
            return None
        index = environment.get(JOB_INDEX, "")
        if not (index.isascii() and index.isdecimal()):
            msg = f"--shards {count} needs {JOB_INDEX}, as an Indexed Job sets it; elsewhere give --shard I/{count}"
            raise click.UsageError(msg)
        return migrator.Shard(int(index), count)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def conversion_source(function: _F) -> _F:
    """Add --registry and --rules; ``source_of`` reads them."""
    return together(
        click.option(
            "--rules",
            "rule_files",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="ConversionRules file to convert with; repeatable.",
        ),
        click.option(
            "--registry",
            metavar="MODULE:ATTR",
            help="The Registry, or Graph, of Python to convert with.",
        ),
    )(function)


def source_of(flags: dict[str, Any]) -> ConversionSource | None:
    """Return the source that the flags of ``conversion_source`` name, or None; remove them from ``flags``.

    Raises:
        click.UsageError: both flags were given.
    """
    registry, rules = flags.pop("registry"), flags.pop("rule_files")
    if registry is not None and rules:
        msg = "--registry and --rules both say what to convert with: give one"
        raise click.UsageError(msg)
    if registry is None and not rules:
        return None
    from restow.cli.registries import ConversionSource  # costs a quarter of the start, and few need it

    return ConversionSource(registry, tuple(rules))


def converter(function: _F) -> _F:
    """Add the flags that select what converts under strategy Webhook; ``converters`` reads them.

    The flags are those of ``conversion_source``, and --crd. Without them the CRD's own webhook converts.
    """
    more = together(
        click.option(
            "--crd",
            "crd_files",
            multiple=True,
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="With --registry or --rules: manifest of the CRDs that they are for; repeatable.",
        ),
        click.option(
            "--conversion-url",
            metavar="URL",
            help="Another URL of the CRD's conversion webhook, for example a forwarded port.",
        ),
    )
    return conversion_source(more(function))


def converters(flags: dict[str, Any]) -> Converters:
    """Return the converters for strategy Webhook, and remove their flags from ``flags``.

    Raises:
        click.UsageError: --crd is given without --registry or --rules, or they do not name conversions.
        InputError: a file cannot be used.
    """
    from restow.migrator.requests.environment import own_webhook

    source, crd_files = source_of(flags), flags.pop("crd_files")
    if source is None:
        if crd_files:
            msg = "--crd says what --registry or --rules is for: give both"
            raise click.UsageError(msg)
        return own_webhook
    from restow.cli.registries import load_converters  # costs a quarter of the start, and few need it

    return load_converters(source, crd_files)


def migration_options(flags: dict[str, Any], **more: Any) -> migrator.Options:
    """Return the options of a migration from the flags that ``migration`` added, and remove them from ``flags``.

    Raises:
        click.UsageError: flags contradict each other.
    """
    namespace, selector = flags.pop("namespace"), flags.pop("selector")
    if flags.pop("all_namespaces") and namespace:
        msg = "--namespace and --all-namespaces exclude each other"
        raise click.UsageError(msg)
    managed_fields = migrator.ManagedFields(flags.pop("managed_fields"))
    strip_served = flags.pop("strip_served")
    if strip_served and managed_fields is not migrator.ManagedFields.STRIP:
        msg = "--strip-served needs --managed-fields strip"
        raise click.UsageError(msg)
    conversion_url = flags.pop("conversion_url")
    if conversion_url is not None and (why := url_problem(conversion_url)):
        msg = f"--conversion-url: {why}"
        raise click.UsageError(msg)
    return checked(
        skip=_skipped(flags.pop("skip"), flags.pop("only")),
        managed_fields=managed_fields,
        scope=migrator.Scope(flags.pop("scope")),
        strip_served=strip_served,
        ignore_mark=flags.pop("ignore_mark"),
        conversion_url=conversion_url,
        namespace=namespace,
        selector=selector,
        **more,
    )


def _skipped(skip: tuple[str, ...], only: str | None) -> frozenset[migrator.Phase]:
    """Return the phases that ``--skip-phase`` or ``--only`` switches off.

    Raises:
        click.UsageError: both flags were given.
    """
    if only is None:
        return frozenset(map(migrator.Phase, skip))
    if skip:
        msg = "--only says which phase runs, and --skip-phase which does not: give one"
        raise click.UsageError(msg)
    runs = {migrator.Phase(only)} | ({migrator.Phase.STORAGE} if only == migrator.Phase.PRUNE else set())
    return frozenset(migrator.Phase) - runs


def checked(**options: Any) -> migrator.Options:
    """Return the options of a migration.

    Raises:
        click.UsageError: ``Options`` refuses a value.
    """
    try:
        return migrator.Options(**options)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def crd_names(
    names: tuple[str, ...], everything: bool, files: tuple[Path, ...], *, all_without: bool = False
) -> tuple[str, ...] | None:
    """Return the names of the CRDs, each once; None means all CRDs of the cluster.

    With ``all_without``, all are meant where none is named.

    Raises:
        click.UsageError: no CRD is named, or CRDs are named together with --all.
        InputError: a file cannot be read, contains no CRD, or contains a malformed one.
    """
    if everything and (names or files):
        msg = "name CRDs or give --all, not both"
        raise click.UsageError(msg)
    if everything or (all_without and not (names or files)):
        return None
    found = names
    if files:
        from restow.cli.registries import load_crds  # costs a third of the start, and few need it

        found = (*names, *(crd.name for crd in load_crds(files)))
    if not found:
        msg = "name the CRDs, give -f FILE, or --all"
        raise click.UsageError(msg)
    return tuple(dict.fromkeys(found))


def sample_size(_context: click.Context, _option: click.Parameter, value: str) -> int | None:
    """Read ``--sample``: a number of objects, or ``all`` (None).

    Raises:
        click.BadParameter: the text is neither, or the number is too large.
    """
    if value == "all":
        return None
    if not value.isdecimal() or int(value) > MOST_SAMPLED:
        msg = f"{value!r} is neither 'all' nor a number up to {MOST_SAMPLED}"
        raise click.BadParameter(msg)
    return int(value)
