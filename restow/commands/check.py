"""``restow check``: check that conversions account for every field of the CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from restow.cli import options
from restow.cli.exits import Exit, InputError
from restow.cli.printing import counted, echo, print_data, print_table, say
from restow.cli.session import Session, run
from restow.offline import options as offline

if TYPE_CHECKING:
    from restow.cli.registries import ConversionSource
    from restow.conversion import Adopted, Diagnostic, Graph
    from restow.conversion.definition.losses import AcceptedList, RuleLoss
    from restow.conversion.definition.opaque import OpaqueField
    from restow.conversion.definition.suggestions import Suggestion
    from restow.crds import Crd


@click.command("check")
@offline.conversions
@click.option("--live", is_flag=True, help="Read the CRDs of the registry's kinds from the cluster.")
@click.option(
    "--report",
    is_flag=True,
    help="Also report what each rule can lose, lists without keys, adopted annotations, and opaque fields that no rule "
    "looks into.",
)
@options.output
@options.connection
def command(**flags: Any) -> None:
    """Check that conversions account for every field of CRDs.

    Every field must be the same in both versions, or a rule must map it, stash it, or drop it with an acknowledgement.
    Anything else is a finding, with its path and a proposal; for fields that were likely renamed or moved, the proposal
    is a rule. Run it in CI: it finds fields that are later added to one version only. Without CRDs it checks only the
    rules. The report also names fields that no schema describes (x-kubernetes-preserve-unknown-fields) and that no rule
    looks into: nothing in there is checked.

    Exit codes: 0 every field is accounted for; 1 there are findings; 2 usage or refused; 4 the API
    server stayed out of reach.

    \b
    restow check --registry example.conversions:registry --crd config/crd --report
    """
    from restow.cli.registries import load_crds
    from restow.migrator.requests.crdaccess import list_crds

    source, form, report = offline.source(flags), flags["output"], flags["report"]
    if flags["live"] and flags["crd_files"]:
        msg = "--live reads the CRDs from the cluster, --crd from files: give one"
        raise click.UsageError(msg)
    if not flags["live"]:
        raise SystemExit(int(_tell(_checked(source, load_crds(flags["crd_files"])), form, report=report)))

    async def check(session: Session) -> Exit:
        alone = _checked(source, ())
        if alone.graph is None:
            return _tell(alone, form, report=report)
        crds = [crd for crd in await list_crds(session.cluster) if (crd.group, crd.kind) in alone.graph.kinds]
        if not crds:
            raise InputError(f"{session.cluster.host} has no CRD of a kind that {source} converts")
        return _tell(_checked(source, crds), form, report=report)

    run(check, flags["connection"])


@dataclass(frozen=True, slots=True)
class _Checked:
    """The findings. ``graph`` is None if there are any; ``places`` are their declarations in rule files."""

    graph: Graph | None
    findings: tuple[Diagnostic, ...]
    places: tuple[str, ...]
    drafts: tuple[Suggestion, ...]
    crds: tuple[Crd, ...]
    source: ConversionSource

    @property
    def notes(self) -> list[Diagnostic]:
        """Information that is not a defect: bounds that another version narrows, fields that failures leave."""
        from restow.conversion.definition.bounds import narrowed_bounds
        from restow.conversion.definition.missing import hidden_on_both_sides, missing_where_kept, missing_where_made

        kinds = () if self.graph is None else self.graph.kinds.values()
        found = (
            note
            for kind in kinds
            for find in (narrowed_bounds, missing_where_kept, missing_where_made, hidden_on_both_sides)
            for note in find(kind)
        )
        return [replace(note, fix=self.source.phrased(note.fix)) for note in found]


def _checked(source: ConversionSource, crds: Iterable[Crd]) -> _Checked:
    from restow.conversion import Graph

    crds = tuple(crds)
    found = _frozen(source, crds)
    if isinstance(found, Graph):
        _is_for(found, crds, source)
        return _Checked(found, (), (), (), crds, source)
    return _Checked(None, found, tuple(source.places_of(found)), tuple(_drafts(source, crds)), crds, source)


def _frozen(source: ConversionSource, crds: Sequence[Crd]) -> Graph | tuple[Diagnostic, ...]:
    from restow.conversion import DefinitionError

    try:
        return source.graph(crds)
    except InputError as error:
        if isinstance(error.__cause__, DefinitionError):
            return error.__cause__.diagnostics
        raise


def _is_for(graph: Graph, crds: Sequence[Crd], source: ConversionSource) -> None:
    """Refuse a Graph that was frozen against other CRDs, because it cannot be checked against these."""
    for crd in crds:
        kind = graph.kinds.get((crd.group, crd.kind))
        for version in crd.versions if kind is not None else ():
            assert kind is not None
            schema = kind.schema(version.name) if version.name in kind.versions else None
            if schema is None or schema.node != version.schema.node:
                against = "without CRDs" if schema is None else f"against another {crd.name}"
                raise InputError(f"{source} is a Graph that was frozen {against}: name its Registry instead")


def _drafts(source: ConversionSource, crds: Sequence[Crd]) -> list[Suggestion]:
    """Draft rules for unaccounted fields, unless the existing rules are invalid themselves."""
    from restow.conversion import Graph
    from restow.conversion.definition.suggestions import suggestions

    alone = _frozen(source, ())
    if not isinstance(alone, Graph):
        return []
    kinds = ((alone.kinds.get((crd.group, crd.kind)), crd) for crd in crds)
    drafts = (draft for kind, crd in kinds if kind is not None for draft in suggestions(kind, crd))
    return [replace(draft, rule=source.phrased(draft.rule)) for draft in drafts]


@dataclass(frozen=True, slots=True)
class _RulesReport:
    """The tables that ``--report`` adds.

    Attributes:
        losses: the losses of each rule.
        accepted: lists that a kind's ``keyless`` accepts without keys.
        adopted: annotations of other tools, each with its kind.
        opaque: fields that no schema describes and no rule reads.
    """

    losses: tuple[RuleLoss, ...] = ()
    accepted: tuple[AcceptedList, ...] = ()
    adopted: tuple[tuple[str, Adopted], ...] = ()
    opaque: tuple[OpaqueField, ...] = ()

    @classmethod
    def of(cls, graph: Graph) -> _RulesReport:
        """Report on the rules of a graph."""
        from restow.conversion.definition.losses import accepted_lists, rule_losses
        from restow.conversion.definition.opaque import opaque_fields

        kinds = [*graph.kinds.values()]
        return cls(
            tuple(loss for kind in kinds for loss in rule_losses(kind)),
            tuple(each for kind in kinds for each in accepted_lists(kind)),
            tuple((f"{kind.kind}.{kind.group}", each) for kind in kinds for each in kind.adopts),
            tuple(field for kind in kinds for field in opaque_fields(kind)),
        )

    def show(self) -> None:
        """Print the tables that have rows."""
        if self.losses:
            judged = ((r.kind, r.version, r.title, r.up.value, r.down.value, _why(r)) for r in self.losses)
            print_table(("kind", "version", "rule", "up", "down", "why"), judged)
        if self.accepted:
            lists = ((a.kind, a.version, a.pattern, f"{a.hub} {a.path}", a.reason) for a in self.accepted)
            print_table(("kind", "version", "keyless", "covers the list", "why"), lists)
        if self.adopted:
            stashes = (
                (kind, a.annotation, a.version, ", ".join(a.fields) or "all", _then(a)) for kind, a in self.adopted
            )
            print_table(("kind", "adopted annotation", "holds objects of", "takes", "on the next write"), stashes)
        if self.opaque:
            opaque = ((f.kind, f.version, f.path, f.says, f"{f.hub} {f.hub_path}", f.hub_says) for f in self.opaque)
            print_table(("kind", "version", "opaque field", "is", "in the hub", "is"), opaque)
            named = counted(len(self.opaque), "opaque field")
            say(f"no rule looks into {named}: what stands there passes as it is", style="magenta")

    def to_json(self) -> dict[str, Any]:
        """Return the tables in the form of ``-o json``."""
        return {
            "rules": [
                {
                    "kind": r.kind,
                    "version": r.version,
                    "hub": r.hub,
                    "rule": r.rule,
                    "paths": {"version": list(r.paths[0]), "hub": list(r.paths[1])},
                    "up": r.up.value,
                    "down": r.down.value,
                    **({"reason": r.reason} if r.reason else {}),
                    **({"branch": r.branch} if r.branch else {}),
                    **({"onError": "keep"} if r.keeps else {}),
                }
                for r in self.losses
            ],
            "keyless": [
                {"kind": a.kind, "version": a.version, "hub": a.hub, "path": a.path}
                | {"pattern": a.pattern, "reason": a.reason}
                for a in self.accepted
            ],
            "adopted": [
                {
                    "kind": kind,
                    "annotation": a.annotation,
                    "version": a.version,
                    "fields": [*a.fields],
                    "stays": a.stays,
                }
                for kind, a in self.adopted
            ],
            "opaque": [
                {
                    "kind": f.kind,
                    "version": f.version,
                    "hub": f.hub,
                    "paths": {"version": f.path, "hub": f.hub_path},
                    "says": {"version": f.says, "hub": f.hub_says},
                }
                for f in self.opaque
            ],
        }


def _tell(checked: _Checked, form: str, *, report: bool) -> Exit:
    told = _RulesReport() if checked.graph is None or not report else _RulesReport.of(checked.graph)
    if form != "table":
        print_data(_json(checked) | (told.to_json() if report else {}), form)
    else:
        _show(checked, told)
    return Exit.FAILURES if checked.findings else Exit.DONE


def _show(checked: _Checked, report: _RulesReport) -> None:
    if checked.findings:
        heads, rows_found = ["kind", "version", "field", "problem", "fix"], []
        for f, place in zip(checked.findings, checked.places, strict=True):
            rows_found.append([*([place] if place else []), f.kind, f.version or "-", f.path, f.problem, f.fix])
        print_table([*(["at"] if any(checked.places) else []), *heads], rows_found)
        for draft in checked.drafts:
            inside = f", inside of {draft.inside}" if draft.inside else ""
            echo(f"{draft.kind} {draft.version}: did you mean {draft.rule}{inside}?")
        count = len(checked.findings)
        say(counted(count, "finding"), style="red")
        return
    report.show()
    assert checked.graph is not None
    for note in checked.notes:
        say(f"note: {note}", style="magenta")
    for kind in checked.graph.kinds.values():
        if kind.leaves:
            say(f"{kind.kind}.{kind.group}: {', '.join(kind.leaves)} left alone, not served", style="magenta")
    against = "the rules are sound; give --crd to check the fields"
    if checked.crds:
        what = f"{len(checked.crds)} CRDs" if len(checked.crds) != 1 else checked.crds[0].name
        against = f"every field of {what} is accounted for"
    elif checked.graph.kinds and all(kind.hub_schema is not None for kind in checked.graph.kinds.values()):
        names = ", ".join(f"{kind}.{group}" for group, kind in checked.graph.kinds)
        against = f"every field of {names} is accounted for: the Graph was frozen with their CRDs"
    say(against, style="bold")


def _why(loss: RuleLoss) -> str:
    """Return the author's reason, and the fate of a value for which the rule fails."""
    return "; ".join(filter(None, (loss.reason, "keeps what fails" if loss.keeps else ""))) or "-"


def _then(adopted: Adopted) -> str:
    return "stays" if adopted.stays else "is removed"


def _json(checked: _Checked) -> dict[str, Any]:
    return {
        "crds": [crd.name for crd in checked.crds],
        "findings": [
            {
                **({"at": place} if place else {}),
                "kind": f.kind,
                "version": f.version,
                "path": f.path,
                "problem": f.problem,
                "fix": f.fix,
            }
            for f, place in zip(checked.findings, checked.places, strict=True)
        ],
        "notes": [
            {"kind": n.kind, "version": n.version, "path": n.path, "problem": n.problem, "fix": n.fix}
            for n in checked.notes
        ],
        "drafts": [{"kind": d.kind, "version": d.version, "rule": d.rule, "inside": d.inside} for d in checked.drafts],
    }
