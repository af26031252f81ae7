"""``restow diff``: the verdict on CRDs before they are applied."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from restow.cli import options
from restow.cli.exits import Exit, InputError
from restow.cli.printing import counted, echo, is_wide, print_data, print_sentence, print_table, say
from restow.cli.session import Session, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from restow.cli.registries import ConversionSource
    from restow.conversion import Diagnostic
    from restow.crds import Crd
    from restow.crds.crddiff import CrdFinding
    from restow.crds.schemachanges import ChangeVerdict

    _Judged = list[tuple[str, tuple[CrdFinding, ...]]]

_CLUSTER: Final = "cluster"
_PAGE: Final = 50  # a definition can be a megabyte


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
@options.output
@options.connection
def command(old: str, new: str, rule_files: tuple[Path, ...], **flags: Any) -> None:
    """Say what clients notice if the CRDs of NEW replace those of OLD.

    OLD and NEW are files, folders, - for stdin, git:REF:PATH, or `cluster` for the CRDs that are served now.
    Crossplane's CompositeResourceDefinitions count as CRDs.

    A change is breaking if the API server refuses or drops what it took before, or if a client that changes nothing
    gets another result. A notice concerns readers or people. What was wrong before is no finding. With `cluster`, only
    the CRDs that the other side has are compared.

    Exit codes: 0 nothing breaks; 1 there are breaking changes; 2 usage or refused; 4 the API server stayed out of
    reach.

    \b
    restow diff cluster config/crd
    restow diff git:v1.2.0:config/crd config/crd --rules conversions.yaml
    """
    from restow.cli.registries import ConversionSource

    source = ConversionSource(rules=rule_files) if rule_files else None
    if old == new == _CLUSTER:
        msg = "OLD and NEW are both the cluster: name what is to be applied"
        raise click.UsageError(msg)
    read = {name: _crds(name) for name in dict.fromkeys((old, new)) if name != _CLUSTER}
    if _CLUSTER not in (old, new):
        raise SystemExit(int(_finish(_judged(read[old], read[new], source), flags["output"])))

    import asyncio

    async def compare(session: Session) -> Exit:
        (given,) = read.values()
        live = await _served(session, given)
        before, after = (live, given) if old == _CLUSTER else (given, live)
        return _finish(await asyncio.to_thread(_judged, before, after, source, part=True), flags["output"])

    run(compare, flags["connection"])


def _crds(source: str) -> dict[str, Crd]:
    """Return the CRDs of a file, a folder, standard input or a commit, by name."""
    from restow.cli.registries import load_crds

    scheme, _, place = source.partition(":")
    if scheme == "git" and place and not Path(source).exists():
        found = _of_commit(*_commit(source, place))
    else:
        if source != "-" and not Path(source).exists():
            msg = f"{source!r} is no file, no folder, no git:REF:PATH, and not {_CLUSTER!r}"
            raise click.UsageError(msg)
        found = load_crds([Path(source)], composites=True)
    twice = [name for name, count in Counter(crd.name for crd in found).items() if count > 1]
    if twice:
        raise InputError(f"{source} holds the CRD {twice[0]} more than once: name the file or folder that is meant")
    return {crd.name: crd for crd in found}


def _commit(source: str, place: str) -> tuple[str, str]:
    reference, colon, path = place.partition(":")
    if not colon or not reference or reference.startswith("-"):
        msg = f"{source!r} must be git:REF:PATH, git:v1.2.0:config/crd for instance"
        raise click.UsageError(msg)
    return reference, path or "."


def _of_commit(reference: str, path: str) -> tuple[Crd, ...]:
    """Return the CRDs of a file or folder as a commit of the repository here has it."""
    import subprocess
    import tarfile
    import tempfile
    from io import BytesIO

    from restow.cli.registries import load_crds

    command = ["git", "archive", "--format=tar", reference, "--", path]
    try:
        found = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 the reference is no flag
    except FileNotFoundError as error:
        raise InputError("git is not installed, and git:REF:PATH needs it") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"git:{reference}:{path} cannot be read ({said[-1] if said else 'git failed'})") from error
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
            archive.extractall(folder, filter="data")
        try:
            return load_crds([Path(folder) / path], composites=True)
        except InputError as error:
            raise InputError(error.message.replace(f"{folder}/", f"git:{reference}:")) from error


async def _served(session: Session, given: dict[str, Crd]) -> dict[str, Crd]:
    """Return the CRDs of the cluster that ``given`` names; for an XRD the XRD, as the CRD has Crossplane's fields."""
    from restow.conversion.certificates.wiring.crd import COMPOSITES
    from restow.crds.composites import crd_of_composite, is_composite
    from restow.kube.pager import list_pages
    from restow.migrator.requests.crdaccess import list_crds

    crds = {crd.name: crd for crd in await list_crds(session.cluster)}
    found = {name: crd for name, crd in crds.items() if name in given}
    if any(is_composite(crd) for crd in given.values()) and COMPOSITES.full_name in crds:
        async for page in list_pages(session.cluster, COMPOSITES, limit=_PAGE):
            live = (crd_of_composite({"apiVersion": COMPOSITES.api_version, **item}) for item in page)
            found |= {crd.name: crd for crd in live if crd.name in given and is_composite(given[crd.name])}
    return found


def _judged(
    old: dict[str, Crd], new: dict[str, Crd], source: ConversionSource | None, *, part: bool = False
) -> _Judged:
    """Return the findings by CRD; with ``part``, a CRD that one side lacks is not judged as gone."""
    from dataclasses import replace

    from restow.crds.crddiff import CrdFinding, crd_findings
    from restow.crds.schemachanges import ChangeVerdict

    known_kinds = source.graph().kinds if source is not None and old.keys() & new.keys() else {}
    judged: _Judged = []
    for name in sorted({**old, **new}):
        before, after = old.get(name), new.get(name)
        if before is None:
            judged.append((name, (CrdFinding(name, "", "crd-added", ChangeVerdict.OK, "-", "CRD is new"),)))
        elif after is None:
            if not part:
                gone = CrdFinding(name, "", "crd-removed", ChangeVerdict.BREAKING, "-", "CRD is gone")
                judged.append((name, (gone,)))
        elif source is None or (after.group, after.kind) not in known_kinds:
            judged.append((name, crd_findings(before, after)))
        else:
            known = set(_by_rules(source, before))
            versions = (*after.versions, *(each for each in before.versions if after.version(each.name) is None))
            found = _by_rules(source, replace(after, versions=versions))
            through = (finding for finding in found if finding not in known)
            judged.append((name, (*crd_findings(before, after, judged=True), *through)))
    return judged


def _by_rules(source: ConversionSource, crd: Crd) -> Iterator[CrdFinding]:
    """Yield what ``restow check`` finds wrong with the rules for a CRD, or bounds that they pass."""
    from restow.conversion import DefinitionError
    from restow.conversion.definition.bounds import narrowed_bounds
    from restow.crds.schemachanges import ChangeVerdict

    try:
        graph = source.graph([crd])
    except InputError as error:
        if not isinstance(error.__cause__, DefinitionError):
            raise
        for each in error.__cause__.diagnostics:
            yield _diagnosed(source, crd, "conversion-rules", ChangeVerdict.BREAKING, each)
    else:
        for each in narrowed_bounds(graph.kind(crd.group, crd.kind)):
            yield _diagnosed(source, crd, "conversion-bounds", ChangeVerdict.NOTICE, each)


def _diagnosed(
    source: ConversionSource, crd: Crd, check: str, severity: ChangeVerdict, found: Diagnostic
) -> CrdFinding:
    from restow.crds.crddiff import CrdFinding

    fix = source.phrased(found.fix)
    return CrdFinding(crd.name, found.version or "", check, severity, found.path, found.problem, fix)


def _finish(judged: _Judged, form: str) -> Exit:
    from restow.crds.schemachanges import ChangeVerdict

    found = [finding for _, findings in judged for finding in findings]
    counts = Counter(finding.severity for finding in found)
    if form != "table":
        worst = next((each for each in ChangeVerdict if counts[each]), ChangeVerdict.OK)
        names = [name for name, _ in judged]
        print_data({"verdict": worst.value, "crds": names, "findings": [each.to_json() for each in found]}, form)
    else:
        for name, findings in judged:
            _show(name, findings)
        breaks, notices = counts[ChangeVerdict.BREAKING], counts[ChangeVerdict.NOTICE]
        said = f"{counted(breaks, 'breaking change')}, {counted(notices, 'notice')} in {counted(len(judged), 'CRD')}"
        say(said, style="red" if breaks else "bold")
    return Exit.FAILURES if counts[ChangeVerdict.BREAKING] else Exit.DONE


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
