"""``restow diff``: the verdict on CRDs before they are applied."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from restow.cli import options
from restow.cli.exits import Exit
from restow.cli.printing import counted, echo, is_wide, print_data, print_sentence, print_table, say
from restow.cli.session import Session, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from restow.crds.crddiff import CrdFinding
    from restow.crds.schemachanges import ChangeVerdict
    from restow.upgrade.schemas import Judged

_CLUSTER: Final = "cluster"


@click.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option(
    "--rules",
    "rule_files",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Conversion rules between the versions, so that a renamed field is no loss; repeatable.",
)
@click.option(
    "--crdify-config",
    "config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A configuration file of crdify, which says which checks count.",
)
@click.option("--live", is_flag=True, help="Also try the change on the cluster's objects, on a control plane here.")
@click.option(
    "--objects",
    "dumps",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Also try the change on the objects of a file or folder, on a control plane here; repeatable.",
)
@click.option(
    "--sample",
    callback=options.sample_size,
    default="all",
    show_default=True,
    metavar="N|all",
    help="Number of objects of each CRD to try.",
)
@options.output
@options.connection
def command(old: str, new: str, **flags: Any) -> None:
    """Say what clients notice if the CRDs of NEW replace those of OLD.

    OLD and NEW are files, folders, - for stdin, git:REF:PATH, or `cluster` for the CRDs that are served now.
    Crossplane's CompositeResourceDefinitions count as CRDs.

    A change is breaking if the API server refuses or drops what it took before, or if a client that changes nothing
    gets another result. A notice concerns readers or people. What was wrong before is no finding. With `cluster`, only
    the CRDs that the other side has are compared.

    With --live or --objects, an API server of its own on this machine gets the old CRD and the stored objects, then the
    new CRD, and the migration. Findings name objects and fields, never values. Nothing leaves this machine.

    Exit codes: 0 nothing breaks; 1 there are breaking changes; 2 usage or refused; 3 nothing breaks, and a migration
    is due after the change; 4 the API server stayed out of reach.

    \b
    restow diff cluster config/crd --live
    restow diff git:v1.2.0:config/crd config/crd --rules conversions.yaml
    """
    if old == new == _CLUSTER:
        msg = "OLD and NEW are both the cluster: name what is to be applied"
        raise click.UsageError(msg)
    from restow.upgrade.verdict import Sought, verdict

    connection, form = flags.pop("connection"), flags.pop("output")
    sought = Sought(old, new, **flags)

    async def compare(session: Session) -> Exit:
        found = await verdict(sought, session.cluster)
        return _finish(found.findings, form, due=found.due)

    if sought.needs_cluster:
        run(compare, connection)
    import asyncio

    found = asyncio.run(verdict(sought, None))
    raise SystemExit(int(_finish(found.findings, form, due=found.due)))


def _finish(judged: Judged, form: str, *, due: bool) -> Exit:
    from restow.crds.schemachanges import ChangeVerdict

    found = [finding for findings in judged.values() for finding in findings]
    counts = Counter(finding.severity for finding in found)
    if form != "table":
        worst = next((each for each in ChangeVerdict if counts[each]), ChangeVerdict.OK)
        print_data({"verdict": worst.value, "crds": [*judged], "findings": [each.to_json() for each in found]}, form)
    else:
        _show_all(judged, counts)
    if counts[ChangeVerdict.BREAKING]:
        return Exit.FAILURES
    return Exit.DUE if due else Exit.DONE


def _show_all(judged: Judged, counts: Mapping[ChangeVerdict, int]) -> None:
    from restow.crds.schemachanges import ChangeVerdict

    for name, findings in judged.items():
        _show(name, findings)
    breaks, notices = counts[ChangeVerdict.BREAKING], counts[ChangeVerdict.NOTICE]
    said = f"{counted(breaks, 'breaking change')}, {counted(notices, 'notice')} in {counted(len(judged), 'CRD')}"
    say(said, style="red" if breaks else "bold")


def _show(name: str, findings: Sequence[CrdFinding]) -> None:
    """Print the table of one CRD, and below it what each kind of change means and what to do."""
    from restow.crds.crddiff import CHECKS
    from restow.crds.schemachanges import ChangeVerdict

    noticed = [finding for finding in findings if finding.severity is not ChangeVerdict.OK]
    shown = sorted(findings if is_wide() else noticed, key=lambda finding: [*ChangeVerdict].index(finding.severity))
    echo(name if noticed else f"{name}: ok")
    if not shown:
        return
    rows = [(each.severity.value, each.version or "-", each.path, each.what) for each in shown]
    print_table(("verdict", "version", "path", "change"), rows)
    for check in dict.fromkeys(each.check for each in shown if CHECKS[each.check][0]):
        effect, remedy = CHECKS[check]
        own = list(dict.fromkeys(each.remedy for each in shown if each.check == check and each.remedy))
        print_sentence(f"{check}: {effect}. {'. '.join(own) or remedy}.", first="  ", then="    ")
