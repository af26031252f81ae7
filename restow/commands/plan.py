"""``restow plan``: what a migration would do."""

from __future__ import annotations

from typing import Any

import click

from restow import options
from restow.exits import Exit
from restow.migrator import Survey, list_crds, read_crd, survey
from restow.printing import print_data, print_table, say
from restow.session import Session, run


@click.command("plan")
@options.crds
@options.migration
@options.output
@options.connection
def command(**flags: Any) -> None:
    """Show what a migration would do, by looking only.

    Lists the objects of each CRD and decides each one exactly as `restow migrate` would, but sends no write. Exits
    with 3 if work is due. Nothing is converted either: what a conversion webhook can carry over is supposed to be all,
    which `restow migrate --dry-run` finds out.
    """
    names = options.crd_names(flags.pop("names"), flags.pop("everything"), flags.pop("files"))
    kubeconfig, context, form = flags.pop("kubeconfig"), flags.pop("context"), flags.pop("output")
    converters = options.converters(flags)
    chosen = options.migration_options(flags)

    async def plan(session: Session) -> Exit:
        if names is None:
            crds = await list_crds(session.cluster)
        else:
            crds = [(await read_crd(session.cluster, name)).crd for name in names]
        surveys = [await survey(session.cluster, crd, chosen, converters) for crd in crds]
        show(surveys, form)
        return _exit(surveys, one_by_one=names is not None)

    run(plan, kubeconfig=kubeconfig, context=context)


def _exit(surveys: list[Survey], *, one_by_one: bool) -> Exit:
    """Tell what stands in the way. Of all CRDs of a cluster, some may well be in no state to be migrated."""
    code = Exit.DUE if any(each.due for each in surveys) else Exit.DONE
    for each in surveys:
        if why := each.refused or each.unfinished:
            fatal = one_by_one or bool(each.unfinished)
            say(f"restow: {why}", style="red" if fatal else "yellow")
            code = Exit.REFUSED if fatal else code
    return code


def show(surveys: list[Survey], form: str) -> None:
    """Print plans as a table with the reasons below it; or as JSON or YAML."""
    if form != "table":
        print_data({"crds": [each.to_json() for each in surveys]}, form)
        return
    columns = ("name", "storage", "stored", "strategy", "objects", "due", "writes", "lists", "remaining")
    print_table(columns, (_row(each) for each in surveys))
    judged = [each for each in surveys if not each.refused and not each.unfinished]
    for each in judged:
        for sentence in reasons(each):
            say(f"{each.crd.name}: {sentence}")
        for warning in each.warnings:
            say(f"{each.crd.name}: {warning}", style="yellow")
    if any(each.due for each in judged):
        say("Work is due: run restow migrate with the same arguments.", style="bold")


def _row(found: Survey) -> tuple[str, ...]:
    crd = found.crd
    return (
        crd.name,
        crd.storage.name,
        ",".join(crd.stored_versions),
        crd.strategy,
        str(found.objects),
        "refused" if found.refused else "unknown" if found.unfinished else ",".join(found.due) or "-",
        str(found.writes),
        str(found.requests.list),
        str(found.remaining),
    )


def reasons(found: Survey) -> list[str]:
    """Say why each phase is due, and what will be done to whose entries."""
    crd, said = found.crd, []
    old = [name for name in crd.stored_versions if name != crd.storage.name]
    if old:
        said.append(f"objects may be stored at {', '.join(old)}; all are to be written at {crd.storage.name}")
    for (version, treatment), count in sorted(found.entries.items()):
        said.append(f"{count} managedFields entries at {version}: {_TREATMENTS[treatment]}")
    for (manager, version), count in sorted(found.stripped.items()):
        said.append(f"{count} entries of {manager} at {version} cannot be carried over and would be stripped")
    if found.translations:
        how = "in this process" if found.in_process else "by the conversion webhook"
        said.append(
            f"translating {found.translations} entries takes at most {found.conversions} conversions {how}; whether "
            "all can be carried over, migrate --dry-run finds out"
        )
    if found.new_defaults:
        paths = ", ".join(found.new_defaults)
        said.append(f"two writes an object, so that the new default of {paths} is not owned by restow")
    if found.blocked:
        said.append(f"{found.blocked} objects cannot be written without losing an owner")
    if found.completed and found.remaining:
        said.append("a complete run left its mark; clients of served versions wrote those entries since")
    return said


_TREATMENTS = {
    "current": "stay",
    "rename": "to be translated",
    "reshape": "to be translated, item by item where lists are keyed now",
    "reshape-unknown": "to be translated (the version is no longer in the CRD)",
    "translate": "to be translated by converting what they own",
    "drop": "to be stripped",
    "keep": "to be kept",
}
