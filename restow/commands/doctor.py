"""``restow doctor``: find problems of a CRD or of a terminating namespace, and the command that fixes each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from restow import migrator
from restow.cli import completion, options
from restow.cli.connection import ClusterConnection
from restow.cli.crdnames import full_names
from restow.cli.exits import Exit, InputError
from restow.cli.printing import echo, print_data, print_sentence, say
from restow.cli.session import Session, require_namespace, run

if TYPE_CHECKING:
    from restow.conversion.diagnosis import CrdDiagnosis, CrdProblem, NamespaceDiagnosis


@click.command("doctor")
@click.argument("name", metavar="[CRD]", default="", shell_complete=completion.crds)
@click.option("-n", "--namespace", metavar="NAME", help="Instead of a CRD: why this namespace is not deleted.")
@click.option(
    "--objects",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Read at most so many objects, one by one, at each version.",
)
@options.output
@options.connection
def command(name: str, namespace: str | None, objects: int, output: str, connection: ClusterConnection) -> None:
    """Find out what is wrong with a CRD, and how to fix it.

    It looks at what clients meet: whether objects can be read at each served version, whether the conversion webhook
    can be called and its certificate is trusted, which objects it cannot convert, which versions objects are stored
    at, and which namespaces wait for objects to be deleted. It works while conversion does not, and writes nothing.

    With --namespace it finds the CRDs for whose objects a namespace waits that stays in the phase Terminating.

    Exit codes: 0 nothing is wrong; 1 problems found; 2 usage or refused; 4 the API server stayed out of reach: run
    again.

    \b
    restow doctor widgets.example.com
    restow doctor --namespace team-a
    """
    from restow.conversion.certificates import WiringRefused
    from restow.conversion.diagnosis import diagnose, diagnose_namespace
    from restow.migrator.planning.diagnosis import CrdExamination

    if bool(name) == bool(namespace):
        raise click.UsageError(
            "name one CRD (<plural>.<group>), or give --namespace for a namespace that is not deleted"
        )

    async def look(session: Session) -> Exit:
        if namespace:
            await require_namespace(session, namespace)
            waits = await diagnose_namespace(
                session.cluster, namespace, migrator.may_be_stored, CrdExamination, most=objects
            )
            _show_namespace(waits, output)
            return Exit.DONE if waits.well else Exit.FAILURES
        (chosen,) = await full_names(session.cluster, [name])
        try:
            found = await diagnose(session.cluster, chosen, migrator.may_be_stored, CrdExamination, most=objects)
        except WiringRefused as error:
            raise InputError(str(error)) from error
        _show(found, output)
        return Exit.FAILURES if found.problems else Exit.DONE

    run(look, connection)


def _show(found: CrdDiagnosis, form: str) -> None:
    if form != "table":
        print_data(found.to_json(), form)
        return
    _list(found.problems)
    if not found.problems:
        echo(f"Nothing is wrong with {found.crd}.")
    _note(found)


def _show_namespace(found: NamespaceDiagnosis, form: str) -> None:
    """Show the problems of each CRD under its name, then the problems that belong to no CRD."""
    if form != "table":
        print_data(found.to_json(), form)
        return
    if not found.deleting:
        echo(f"The namespace {found.namespace} is not being deleted.")
    elif found.well:
        echo(f"The namespace {found.namespace} is being deleted; its conditions name nothing that it waits for.")
    for crd in found.crds:
        echo(f"{crd.crd}:")
        _list(crd.problems)
        _note(crd)
    if found.crds and found.problems:
        echo(f"other resources in {found.namespace}:")
    _list(found.problems)


def _list(problems: Sequence[CrdProblem]) -> None:
    for number, problem in enumerate(problems, start=1):
        indent = " " * len(head := f"{number}. ")
        print_sentence(problem.what, first=head, then=indent)
        print_sentence(problem.effect, first=indent, then=indent)
        print_sentence(problem.remedy, first=indent, then=indent)
        if problem.command:
            echo(f"{indent}  $ {problem.command}")
        for command in problem.instead:
            echo(f"{indent}  or $ {command}")


def _note(found: CrdDiagnosis) -> None:
    for well in found.looked_at:
        say(well, style="bold")
    for missing in found.not_seen:
        say(f"not looked at: {missing}", style="magenta")
