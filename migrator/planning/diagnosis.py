"""Examine a CRD for what a migration repairs, for ``restow doctor``: stored versions, owners, and fields that vanish.

The caller lists the objects and passes each page to ``CrdExamination.see``, which keeps counts, so memory is bounded.
The facts of API servers behind the checks, all seen on Kubernetes 1.37:

- A server-side apply converts the object to the version of each managedFields entry. It fails, for every manager, if
  one of these versions has left the CRD, does not declare a field that the object has (strategy None), or is one to
  which the webhook cannot convert the object.
- With strategy None, a write at a version prunes the fields that this version does not declare, also those that another
  version stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from restow.crds import Crd, Version, dropped_fields, retyped_fields
from restow.crds.problems import CrdDiagnosis, CrdProblem, ProblemKind
from restow.kube.cluster import Cluster
from restow.kube.resources import CRDS
from restow.migrator.decide.policies import is_at
from restow.migrator.decide.proof import may_be_stored, what_is_proved
from restow.migrator.model.converter import ConverterDown, Json, Unconverted
from restow.migrator.model.options import Options
from restow.migrator.model.report import Requests, few
from restow.migrator.requests.environment import Environment
from restow.migrator.requests.preflight import LAST_APPLIED, Permission, missing, refusal, rehearse_mark
from restow.migrator.requests.webhook import open_converter


@dataclass(slots=True)
class _Entries:
    """The objects with managedFields entries of one version, by manager; why the first one cannot be converted."""

    objects: int = 0
    managers: Counter[str] = field(default_factory=Counter)
    said: str = ""

    def add(self, managers: set[str], said: str = "") -> None:
        self.objects += 1
        self.managers.update(managers)
        self.said = self.said or said

    def __str__(self) -> str:
        return _some([f"{name} ({count})" for name, count in sorted(self.managers.items())])


class CrdExamination:
    """Examines one CRD.

    Args:
        cluster: the API server.
        crd: the CRD as just read.

    Attributes:
        whole_objects: whether ``see`` needs whole objects, and not only their metadata.
    """

    def __init__(self, cluster: Cluster, crd: Crd) -> None:
        self._cluster, self._crd = cluster, crd
        proven = what_is_proved(crd)
        self._doubt = proven.doubt
        self._migrate = f"restow migrate {crd.name}{' --ignore-mark' if proven.managed_fields_done(Options()) else ''}"
        others = [version for version in crd.versions if not version.storage]
        self._present = {version.api_version for version in crd.versions}
        by_schema = crd.strategy == "None"
        self._lacking = {each.api_version: _lacking(crd, each) for each in others if by_schema}
        self._by_webhook = [each.api_version for each in others if not by_schema and not each.served]
        self.whole_objects = bool(self._by_webhook)
        self._objects = 0
        self._failing: dict[str, _Entries] = {}
        self._down = False
        self._not_seen: list[str] = []

    async def see(self, objects: Sequence[Mapping[str, Any]]) -> None:
        """Take a page of objects into account, as they are listed at the storage version."""
        asked: dict[str, list[tuple[Mapping[str, Any], set[str]]]] = {}
        for obj in objects:
            self._objects += 1
            for api_version, managers in _managers(obj).items():
                if api_version in self._by_webhook:
                    asked.setdefault(api_version, []).append((obj, managers))
                elif api_version not in self._present or self._lacking.get(api_version):
                    self._failing.setdefault(api_version, _Entries()).add(managers)
        for api_version, found in asked.items():
            answers = await self._converted([dict(obj) for obj, _ in found], api_version)
            for answer, (_, managers) in zip(answers, found, strict=False):
                if isinstance(answer, Unconverted):
                    self._failing.setdefault(api_version, _Entries()).add(managers, answer.message)

    async def _converted(self, objects: Sequence[Json], api_version: str) -> Sequence[Json | Unconverted]:
        """Convert objects by the CRD's webhook, as an apply does; nothing once it does not answer."""
        if self._down:
            return ()
        environment = replace(Environment.brief(self._cluster), longest_wait=0.0)
        try:
            async with open_converter(None, environment, self._crd, Options(), Requests()) as converter:
                return await converter.convert(objects, api_version)
        except ConverterDown as down:
            version = api_version.removeprefix(f"{self._crd.group}/")
            self._down = True
            self._not_seen.append(f"server-side apply of objects with managedFields entries at {version}: {down}")
            return ()

    async def result(self, *, listed: bool) -> CrdDiagnosis:
        """Return what was found; ``listed`` says whether ``see`` got every object."""
        crd = self._crd
        problems = [self._apply_fails(api_version, entries) for api_version, entries in self._failing.items()]
        problems += fields_lost(crd)
        if why := refusal(crd):
            self._not_seen.append(f"whether a migration is due: {why}")
        else:
            problems += await self._not_markable()
            problems += self._migration_due(some=self._objects > 0 or not listed)
        number = "1 object" if self._objects == 1 else f"{self._objects} objects"
        well = f"no managedFields entry of {number} makes a server-side apply fail"
        seen = self._objects and not self._failing and not self._down
        return CrdDiagnosis(crd.name, tuple(problems), (well,) if seen else (), tuple(self._not_seen))

    def _apply_fails(self, api_version: str, entries: _Entries) -> CrdProblem:
        crd, storage = self._crd, self._crd.storage.name
        version = api_version.removeprefix(f"{crd.group}/")
        have = "1 object has" if entries.objects == 1 else f"{entries.objects} objects have"
        what = f"{have} managedFields entries at {version}, of {entries}, "
        every = "Every server-side apply of such an object{} fails with 500, whoever sends it"
        command, remedy = self._migrate, f"It moves the entries to {storage} with what their managers own."
        strip, instead = f"{self._migrate} --managed-fields strip", tuple[str, ...]()
        found = crd.version(version)
        if found is None:
            what += f"and {crd.name} does not have {version} any more"
            effect = f"{every.format('')}: request to convert CR to an invalid group/version."
            if crd.strategy == "Webhook":
                remedy += f" If the webhook does not convert {version} any more, the other command drops the entries."
                instead = (strip,)
        elif entries.said:
            what += f"to which the webhook cannot convert them: {entries.said}"
            effect = f"{every.format('')}."
            command = strip
            remedy = (
                f"It drops the entries at {version}: their managers own the fields again from their next apply on. If "
                f"the webhook can convert them again, {self._migrate} keeps the owners."
            )
        else:
            what += f"which does not declare {_some(self._lacking[api_version])}"
            effect = (
                f"{every.format(f' at {storage}')}, once the object has such a field (a default of {storage} is "
                "enough, from its next write on): field not declared in schema."
            )
            if found.served:
                remedy += f" Then have these managers apply at {storage}, or each apply at {version} undoes it."
        return CrdProblem(ProblemKind.APPLY_FAILS, what, effect, command, remedy, instead)

    async def _not_markable(self) -> list[CrdProblem]:
        """Try to leave the mark, unless the CRD needs none."""
        crd = self._crd
        if len(crd.versions) == 1 and not self._doubt:
            return []
        if lacking := await missing(self._cluster, [Permission(CRDS, "patch", name=crd.name)]):
            self._not_seen.append(f"whether a migration can leave its mark: permission is missing to {lacking[0]}")
            return []
        said = await rehearse_mark(self._cluster, crd)
        if not said:
            return []
        clear = f"kubectl annotate crd {crd.name} {LAST_APPLIED}-"
        return [
            CrdProblem(
                ProblemKind.NOT_MARKABLE,
                said,
                "A migration rewrites every object, and fails at its end.",
                f"{clear} && {self._migrate}" if clear in said else self._migrate,
                "It leaves the mark, once the API server takes it.",
            )
        ]

    def _migration_due(self, *, some: bool) -> list[CrdProblem]:
        """Return the problem that it is not proved at which version objects are stored.

        A CRD without objects (not ``some``) has none, unless status.storedVersions names another version.
        """
        crd, storage, command = self._crd, self._crd.storage.name, f"restow migrate {self._crd.name}"
        named = [name for name in crd.stored_versions if name != storage]
        if not self._doubt or not (some or named):
            return []
        if left := crd.unknown_stored_versions:
            kind = ProblemKind.STORED_VERSION_UNKNOWN
            what = f"status.storedVersions of {crd.name} has {left[0]}, which spec.versions does not have any more"
            effect = f"The API server refuses changes of {crd.name} while it does."
            remedy = f"It stores every object at {storage} and takes {', '.join(left)} out of status.storedVersions."
            return [CrdProblem(kind, what, effect, command, remedy)]
        others = [name for name in may_be_stored(crd) if name != storage]
        remedy = f"It stores every object at {storage} and leaves the proof on {crd.name}."
        if pruned := dict.fromkeys(path for name in others for path in _pruned(crd, name)):
            fields = _some(list(pruned))
            remedy += f" It removes {fields}, which {storage} does not declare: restow plan {crd.name} counts them."
        if named:
            kind, old = ProblemKind.MIGRATION_DUE, ", ".join(named)
            what = f"objects of {crd.name} may still be stored at {old}"
            effect = f"Each read of such an object calls for a conversion, and {old} cannot be removed."
        else:
            kind, what = ProblemKind.NOT_PROVED, self._doubt
            old = ", ".join(others) or "a version that left"
            effect = (
                f"Objects may be stored at {old}, although status.storedVersions does not say so. After its removal "
                "they could not be read."
            )
        return [CrdProblem(kind, what, effect, command, remedy)]


def fields_lost(crd: Crd) -> Iterator[CrdProblem]:
    """Yield a problem for each version between which and the storage version the strategy None loses fields."""
    if crd.strategy != "None":
        return
    storage, stored = crd.storage, may_be_stored(crd)
    for other in crd.versions:
        if other.storage or not (other.served or other.name in stored):
            continue
        types = tuple(
            dict.fromkeys(
                (*retyped_fields(other.schema, storage.schema), *retyped_fields(storage.schema, other.schema))
            )
        )
        hidden = _without(dropped_fields(storage.schema, other.schema), types) if other.served else ()
        pruned = _without(dropped_fields(other.schema, storage.schema), types)
        effects = []
        if hidden:
            effects.append(f"A write at {other.name}, even of a label, removes {_some(hidden)} from the stored object.")
        if pruned:
            effects.append(
                f"{storage.name} does not declare {_some(pruned)}: every write drops what an object has there."
            )
        if types:
            what = f"The type of {_some(types)} differs"
            effects.append(f"{what}: an object that has such a field can be written at one version only.")
        if effects:
            yield _loses(crd, other, " ".join(effects))


def _loses(crd: Crd, other: Version, effect: str) -> CrdProblem:
    storage = crd.storage.name
    return CrdProblem(
        ProblemKind.FIELDS_LOST,
        f"the conversion strategy of {crd.name} is None, which converts nothing, and its versions {other.name} and "
        f"{storage} have different fields",
        effect,
        f"kubectl get crd {crd.name} -o yaml > {crd.name}.yaml && "
        f"restow suggest --crd {crd.name}.yaml --from {other.name} --to {storage}",
        f"It drafts the rules for a conversion webhook (restow serve). Or declare the same fields in both versions, or "
        f"stop serving {other.name}: restow ready {crd.name} --drop {other.name} says whether it may go.",
    )


def _lacking(crd: Crd, version: Version) -> tuple[str, ...]:
    """Return the places of the storage version at which an object does not fit the version."""
    types = retyped_fields(crd.storage.schema, version.schema)
    return (*_without(dropped_fields(crd.storage.schema, version.schema), types), *types)


def _pruned(crd: Crd, name: str) -> tuple[str, ...]:
    """Return what a rewrite of objects that are stored at a version loses under strategy None."""
    version = crd.version(name)
    return dropped_fields(version.schema, crd.storage.schema) if version and crd.strategy == "None" else ()


def _without(paths: Sequence[str], places: Sequence[str]) -> tuple[str, ...]:
    return tuple(path for path in paths if not any(is_at(path, place) for place in places))


def _managers(obj: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the managers of an object's managedFields by apiVersion."""
    found: dict[str, set[str]] = {}
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        found.setdefault(str(entry.get("apiVersion")), set()).add(str(entry.get("manager")))
    return found


def _some(names: Sequence[str]) -> str:
    return few(["its undeclared fields" if name == "." else name for name in names])
