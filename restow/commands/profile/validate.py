"""``restow profile validate``: check profiles as admission would."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow.cli import options
from restow.cli.exits import Exit
from restow.cli.printing import echo, print_data, print_table
from restow.commands.profile.inputs import Profile, at_option, files_option, moment, read_profiles, unclassified_in

if TYPE_CHECKING:
    from restow.cloudprofile.findings import ValidationVerdict


@click.command("validate")
@files_option
@click.option(
    "--old",
    "old_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The profiles before: judge the manifests as updates of those of the same kind and name.",
)
@at_option
@options.output
def command(files: tuple[Path, ...], old_files: tuple[Path, ...], at: str | None, output: str) -> None:
    """Check profiles as admission would: refused fields with the rule, and warnings.

    What the schemas refuse is found as well: a misspelled field, a missing one, a field of the other version. A
    NamespacedCloudProfile is checked against its parent, and a CloudProfile's changes against the
    NamespacedCloudProfiles of the same manifests. Shoots are not looked at: only a cluster knows them.

    Exit codes: 0 all are allowed; 1 one is refused; 2 usage, or a manifest that is none.

    \b
    restow profile validate -f new/cloudprofile.yaml --old cloudprofile.yaml
    """
    from restow.cloudprofile.objects import parent_of
    from restow.cloudprofile.profiles.admission import judge, judge_namespaced

    now = moment(at)
    profiles = read_profiles(files, judged=True)
    olds = {
        (profile.kind, profile.name): profile
        for profile in (read_profiles(old_files, judged=True) if old_files else ())
    }
    parents = {each.name: each for each in (*olds.values(), *profiles) if each.kind == "CloudProfile"}
    children = [each.document for each in profiles if each.kind == "NamespacedCloudProfile"]
    judged: list[tuple[Profile, ValidationVerdict]] = []
    for profile in profiles:
        before = olds.get((profile.kind, profile.name))
        old = None if before is None else before.document
        if profile.kind == "CloudProfile":
            verdict = judge(
                _in_step(profile, before),
                old,
                children=children,
                shoots=(),
                now=now,
                unclassified=unclassified_in(profile),
            )
        else:
            wanted = parent_of(profile.document)
            parent = parents.get(wanted.name) if wanted else None
            verdict = judge_namespaced(
                profile.document,
                old,
                parent=None if parent is None else parent.document,
                shoots=(),
                now=now,
                unclassified=() if parent is None else unclassified_in(parent),
            )
        judged.append((profile, _with_schema(profile, verdict)))
    show(judged, output)
    raise SystemExit(int(Exit.DONE if all(verdict.allowed for _, verdict in judged) else Exit.FAILURES))


def _in_step(profile: Profile, before: Profile | None) -> dict[str, Any]:
    """Return a CloudProfile as the operator's mutating step changes it."""
    from restow.cloudprofile.capabilities import in_step

    return {**profile.document, "spec": in_step(profile.spec, None if before is None else before.spec)}


def _with_schema(profile: Profile, verdict: ValidationVerdict) -> ValidationVerdict:
    """Return the verdict with the schema's findings first, without a rule's finding that repeats one of them."""
    from restow.cloudprofile.findings import ValidationVerdict

    told = {(each.type, each.field) for each in profile.findings}
    others = (each for each in verdict.findings if (each.type, each.field) not in told)
    return ValidationVerdict((*profile.findings, *others), verdict.warnings)


def show(judged: Sequence[tuple[Profile, ValidationVerdict]], form: str) -> None:
    """Print every finding and warning as a table, or as JSON or YAML."""
    rows = [
        {"profile": f"{profile.kind} {profile.name}", "level": level, "field": said.field, "rule": str(said)}
        for profile, verdict in judged
        for level, remarks in (("refused", verdict.findings), ("warning", verdict.warnings))
        for said in remarks
    ]
    for row in rows:
        row["rule"] = row["rule"].removeprefix(f"{row['field']}: ")
    if form != "table":
        print_data({"allowed": all(verdict.allowed for _, verdict in judged), "remarks": rows}, form)
    elif rows:
        print_table(("profile", "level", "field", "rule"), ([*row.values()] for row in rows))
    else:
        echo(f"{len(judged)} profile{'s' if len(judged) > 1 else ''} would be admitted.")
