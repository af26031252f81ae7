"""Predict the entries that a migration would strip, and their managers, by converting the entries of a few objects.

For ``restow ready``, whose user waits for the answer, ``StripCheck`` tries only a few objects, of every combination of
managers and from as many namespaces as possible. If it cannot try them, the answer contains the reason.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError
from restow.kube.resources import qualified_name
from restow.kube.retry import with_retries
from restow.migrator.decide.decision import decide
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.converter import ConverterDown, Json
from restow.migrator.model.findings import PlanCheck, PlanFinding
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.translation import Translation, supposed
from restow.migrator.planning.sample import Sample, detached
from restow.migrator.requests.passes import LONGEST_WAIT, Environment, open_converter
from restow.migrator.requests.stop import RunStop
from restow.migrator.requests.translator import Translator
from restow.migrator.requests.wire import Meta, object_decoder, whole_object_decoder, whole_page_decoder


@dataclass(slots=True)
class StripPrediction:
    """The results of entries that were converted for a plan; owners are (manager, apiVersion).

    Attributes:
        objects: the number of objects whose entries were converted.
        stripped: the numbers of entries that would be stripped or cut, because some of their fields cannot be carried
            over, by owner.
        kept: the numbers of entries that stay for this reason, because their version is served, by owner.
        affected: the numbers of objects with such entries, by owner.
        examples: the name of one of these objects, by owner.
        remaining: the number of objects that keep entries, which only a conversion shows.
        failed: the number of objects that cannot be translated at all.
    """

    objects: int = 0
    stripped: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    affected: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    remaining: int = 0
    failed: int = 0

    def see(self, meta: Meta, live: Json, translation: Translation, rules: EntryPolicies) -> None:
        """Count the results of one object, without entries that are stripped without any conversion.

        Raises:
            msgspec.MsgspecError: an entry's field set is not a JSON object.
        """
        self.objects += 1
        supposition, _conversions = supposed(meta.managed_fields, rules)
        thought = decide(meta.managed_fields, rules, live, supposition)
        found = decide(meta.managed_fields, rules, live, translation)
        self.failed += bool(found.refusal)
        stripped, kept = Counter(found.stripped) - Counter(thought.stripped), Counter(found.not_carried)
        self.stripped += stripped
        self.kept += kept
        self.remaining += found.remaining > 0 and not thought.remaining
        where = qualified_name(meta.namespace, meta.name)
        for owner in stripped | kept:
            self.affected[owner] += 1
            self.examples.setdefault(owner, where)

    def findings(self, crd: Crd) -> Iterator[PlanFinding]:
        """Yield a sentence for every owner that loses something."""
        storage = crd.storage.name
        for owner, entries in sorted((self.stripped | self.kept).items()):
            manager, api_version = owner
            version, count = api_version.rpartition("/")[2], self.affected[owner]
            objects = f"{count} objects, {self.examples[owner]} for one," if count > 1 else self.examples[owner]
            its = f"its {entries} entries at {version}" if entries > 1 else f"its entry at {version}"
            then = f"a migration would strip the rest from {its}"
            if owner in self.kept:
                then = f"{its} would stay while {version} is served; a migration once {version} is not served "
                then += "would strip the rest from it" if entries == 1 else "would strip the rest from them"
            message = (
                f"not all that {manager} owns at {version} of {objects} can be carried over to {storage}: {then}, and "
                f"those fields would have no owner. Have {manager} write these objects at {storage} first, then plan "
                "again"
            )
            yield PlanFinding(check=PlanCheck.OWNERS, message=message, reason="NotCarriedOver")


MOST = 50
"""The most objects that are tried."""

_READERS = 8


@dataclass(frozen=True, slots=True)
class Losses:
    """The entries of a version that a migration would strip once the version is unserved.

    Attributes:
        owners: the numbers of entries that would be stripped or cut, by manager.
        tried: the number of objects whose entries were converted.
        note: a sentence about the check; empty if nothing has to be converted.
    """

    owners: dict[str, int] = field(default_factory=dict)
    tried: int = 0
    note: str = ""


class StripCheck:
    """Picks some of the objects with entries at a version, and predicts the results of those entries.

    Args:
        cluster: the API server.
        crd: the CRD.
        version: the version to unserve, or a removed one.
    """

    def __init__(self, cluster: Cluster, crd: Crd, version: str) -> None:
        self._cluster = cluster
        self._crd = crd
        self._version = version
        self._api_version = f"{crd.group}/{version}"
        self._converts = crd.strategy != "None" and version != crd.storage.name
        self._sample = Sample[Meta](MOST, detached)
        self._objects = 0

    def offer(self, meta: Meta) -> None:
        """Consider a listed object."""
        mine = [entry for entry in meta.managed_fields if entry.api_version == self._api_version]
        if mine and self._converts:
            self._objects += 1
            shape = frozenset((entry.manager, entry.operation, entry.subresource) for entry in mine)
            self._sample.offer(shape, meta.namespace, meta.uid, meta)

    async def losses(self) -> Losses:
        """Convert the entries of the picked objects, through the CRD's own webhook; nothing is stored."""
        if not self._objects:
            return Losses()
        try:
            found = await self._foretell(self._sample.items)
        except (ConverterDown, KubeError) as error:
            return self._unknown(str(error).rstrip("."))
        if found.objects and found.failed == found.objects:
            return self._unknown(f"none of the {found.objects} objects tried can be converted, restow plan says why")
        owners = {name: count for (name, at), count in found.stripped.items() if at == self._api_version}
        return Losses(owners, found.objects - found.failed, self._note(owners, found) if found.objects else "")

    async def _foretell(self, picked: Sequence[Meta]) -> StripPrediction:
        options = Options()
        rules = entry_policies(_without_serving(self._crd, self._version), options)
        environment = Environment(
            self._cluster, RunStop(), time.monotonic, random.Random(), longest_wait=LONGEST_WAIT, longest_patience_s=0.0
        )
        report = CrdReport(name=self._crd.name)
        found = StripPrediction()
        objects = await self._read(picked)
        async with open_converter(None, environment, self._crd, options, report.requests) as converter:
            translations = await Translator(converter, rules, report).translate(objects)
        for (meta, live), translation in zip(objects, translations, strict=True):
            try:
                found.see(meta, live, translation, rules)
            except msgspec.MsgspecError:
                found.failed += 1
        return found

    async def _read(self, picked: Sequence[Meta]) -> list[tuple[Meta, Json]]:
        """Read the picked objects whole; skip deleted ones.

        The method lists them by name, which needs no right but that to list all objects.
        """
        resource = self._crd.resource_at(self._crd.storage.name)
        found: dict[str, tuple[Meta, Json]] = {}

        async def read(todo: Iterator[Meta]) -> None:
            for meta in todo:
                params = {"fieldSelector": f"metadata.name={meta.name}"}
                reply = await with_retries(self._cluster).list_page(resource, meta.namespace or None, params=params)
                for item in reply.decode(whole_page_decoder).items or ():
                    found[meta.uid] = object_decoder.decode(item).metadata, whole_object_decoder.decode(item)

        todo = iter(picked)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_READERS, len(picked))):
                    group.create_task(read(todo))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [found[meta.uid] for meta in picked if meta.uid in found]

    def _unknown(self, why: str) -> Losses:
        return Losses(note=_UNKNOWN.format(version=self._version, storage=self._crd.storage.name, why=why))

    def _note(self, owners: dict[str, int], found: StripPrediction) -> str:
        version, storage = self._version, self._crd.storage.name
        tried = f"{found.objects} of {self._objects}" if found.objects < self._objects else f"all {self._objects}"
        basis = f"tried on {tried} objects with such entries"
        if found.failed:
            basis += f", {found.failed} of which cannot be converted; restow plan names them"
        if not owners:
            return f"all that managers own at {version} can be carried over to {storage} ({basis})"
        who = ", ".join(f"{name} ({count})" for name, count in sorted(owners.items()))
        example = next(found.examples[name, self._api_version] for name in sorted(owners))
        then = f"once {version} is not served, restow migrate" if version in self._crd.served else "restow migrate"
        return (
            f"{then} would strip entries at {version} of {who}, {example} for one, as far as what they own cannot be "
            f"carried over to {storage} ({basis}): those fields would have no owner. Have these managers write "
            f"these objects at {storage} first"
        )


def _without_serving(crd: Crd, version: str) -> Crd:
    """Return the CRD with a version unserved."""
    versions = tuple(replace(each, served=each.served and each.name != version) for each in crd.versions)
    return replace(crd, versions=versions, served=tuple(name for name in crd.served if name != version))


_UNKNOWN = (
    "whether all that managers own at {version} can be carried over to {storage} could not be found out: {why}. What "
    "cannot be is stripped by a migration once {version} is not served"
)
