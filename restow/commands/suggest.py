"""``restow suggest``: draft the rules between two versions of a CRD."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow.cli.exits import Exit, InputError
from restow.cli.printing import counted, print_text, say
from restow.kube.suggestions import did_you_mean

if TYPE_CHECKING:
    from restow.conversion import Diagnostic
    from restow.conversion.definition.drafts import RulesDraft
    from restow.crds import Crd


@click.command("suggest")
@click.option(
    "--crd",
    "crd_files",
    required=True,
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Manifest, or folder of manifests, of the CRD; repeatable.",
)
@click.option("--kind", metavar="KIND", help="The kind, if the files hold several CRDs.")
@click.option("--from", "spoke", required=True, metavar="VERSION", help="The version to write rules for.")
@click.option("--to", "hub", required=True, metavar="VERSION", help="The hub: the version that it converts to.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "python"]),
    default="yaml",
    show_default=True,
    help="A file of ConversionRules, or a module.",
)
def command(**flags: Any) -> None:
    """Draft the conversion rules between two versions of a CRD.

    The draft follows from the schemas and the names of fields. Each rule has the reason for it as a comment. A change
    of unit, range or meaning is never called a rename. What the schemas leave open is an open question on stderr, and
    the stash keeps the field until you answer it, so that the draft loses nothing. The draft is checked as by restow
    check, and what remains to be done is printed too.

    Exit codes: 0 nothing is open; 1 there are open questions or findings; 2 usage, or the CRD cannot be used.

    \b
    restow suggest --crd config/crd.yaml --from v1alpha1 --to v1 > conversions.yaml
    restow suggest --crd config/crd.yaml --from v1alpha1 --to v1 -o python
    """
    from restow.cli.registries import load_crds
    from restow.conversion.definition.drafts import drafted
    from restow.conversion.rulefiles import as_data
    from restow.conversion.rulefiles.dump import draft_as_python, draft_as_yaml

    crd = _narrowed(_chosen(load_crds(flags["crd_files"]), flags["kind"]), flags["spoke"], flags["hub"])
    spoke, hub = (crd.version(flags[name]) for name in ("spoke", "hub"))
    assert spoke is not None
    assert hub is not None
    draft = drafted(spoke.schema, hub.schema, names=(spoke.name, hub.name))
    printed, phrased = (draft_as_yaml, as_data) if flags["output"] == "yaml" else (draft_as_python, str)
    print_text(printed(draft.rules, group=crd.group, kind=crd.kind, hub=hub.name, spoke=spoke.name))
    findings = _findings(draft, crd, spoke.name, hub.name)
    for number, question in enumerate(draft.questions, 1):
        say(f"question {number}: {phrased(str(question))}", style="magenta")
    for finding in findings:
        say(f"check: {phrased(str(finding))}", style="magenta")
    if draft.questions or findings:
        say(f"{counted(len(draft.questions), 'open question')}, {counted(len(findings), 'finding')}", style="red")
        raise SystemExit(int(Exit.FAILURES))
    say("every field is accounted for, and nothing is open: read the draft, and try the laws on it", style="bold")


def _chosen(crds: tuple[Crd, ...], kind: str | None) -> Crd:
    found = [crd for crd in crds if kind is None or kind in (crd.kind, crd.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(crd.kind for crd in crds)
    raise InputError(f"name one kind with --kind: the files hold CRDs of {names}")


def _narrowed(crd: Crd, spoke: str, hub: str) -> Crd:
    """Return the CRD with only these two versions."""
    names = [version.name for version in crd.versions]
    for name in (spoke, hub):
        if name not in names:
            said = f"{crd.name} has no version {name}, only {', '.join(names)}"
            advice = did_you_mean(name, names)
            raise InputError(f"{said}; {advice}" if advice else said)
    if spoke == hub:
        raise InputError(f"--from and --to both name {hub}: give two versions")
    return replace(crd, versions=tuple(version for version in crd.versions if version.name in (spoke, hub)))


def _findings(draft: RulesDraft, crd: Crd, spoke: str, hub: str) -> tuple[Diagnostic, ...]:
    """Return the findings of ``restow check`` about the draft."""
    from restow.conversion import DefinitionError, Registry

    registry = Registry()
    declared = [each.rule for each in draft.rules]
    registry.kind(crd.group, crd.kind, hub=hub).spoke(spoke)(lambda: declared)
    try:
        registry.freeze([crd])
    except DefinitionError as error:
        return error.diagnostics
    return ()
