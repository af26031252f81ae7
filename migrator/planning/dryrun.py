"""Try a migration on a few objects, without storing anything: the webhook, the conversion of entries, and the writes.

``DryRun`` sends the migration's own writes with ``dryRun=All``, and finds objects that would be refused. Conversion of
entries, admission and validation run. The writes do not reach etcd, so its size limit is not checked. A plan estimates
its time from these writes.

``probe`` tests the webhook: it converts an object of the sample from the storage version to every other one and back,
and once more without its content, because API servers send such partial objects too, for managedFields.

``StripPrediction`` has the entries that a migration would strip, and their managers, by converting the entries of these
objects. For ``restow ready``, whose user waits for the answer, ``StripCheck`` tries only a few objects, of every
combination of managers and from as many namespaces as possible. If it cannot try them, the answer contains the reason.

``Sample`` picks these objects from a long list in constant memory: of every shape, from many namespaces, from all
pages. An object that cannot be written is most often unusual: the only one in a namespace with a policy, or the oldest
one with entries of a forgotten version. Therefore the sample covers shapes first and namespaces second. Among equal
objects a hash of the uid decides, which is the same in every run and independent of the order of the list.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import msgspec

from restow.crds import Crd, pruned_paths
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError, NotFound
from restow.kube.resources import qualified_name
from restow.kube.retry import with_retries
from restow.migrator.decide.decision import decide
from restow.migrator.decide.policies import entry_policies
from restow.migrator.decide.premise import Premise
from restow.migrator.model.converter import Answer, Converter, ConverterDown, Json, Unconverted
from restow.migrator.model.options import Engine, Options
from restow.migrator.model.report import CrdReport, ObjectFailure, PlanCheck, PlanFinding, PlanFindings, few, of_failure
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.translation import Translation, supposed
from restow.migrator.requests.environment import Environment
from restow.migrator.requests.lister import Item
from restow.migrator.requests.pace import each_of
from restow.migrator.requests.premisecheck import PremiseCheck
from restow.migrator.requests.translator import Translator, Work
from restow.migrator.requests.webhook import open_converter
from restow.migrator.requests.wire import Meta, object_decoder, whole_object_decoder, whole_page_decoder
from restow.migrator.requests.writer import ObjectWriter

_T = TypeVar("_T")


@dataclass(slots=True, order=True)
class _Pick(Generic[_T]):
    """A picked object; the least wanted one, by its hash, sorts first."""

    order: int
    item: _T = field(compare=False)


@dataclass(slots=True)
class _ObjectShape(Generic[_T]):
    """The picks of one shape, by place, with the least wanted one first in each place.

    ``crowded`` has the fullest place first: its number of picks and its least wanted pick at its last change. Entries
    of places that have changed since are skipped.
    """

    places: dict[Hashable, list[_Pick[_T]]] = field(default_factory=dict)
    crowded: list[tuple[int, int, int, Hashable]] = field(default_factory=list)
    size: int = 0
    _changes: int = 0

    def add(self, place: Hashable, pick: _Pick[_T]) -> None:
        heapq.heappush(self.places.setdefault(place, []), pick)
        self.size += 1
        self._changed(place)

    def remove_least_wanted(self) -> _Pick[_T]:
        while True:
            fill, order, _change, place = heapq.heappop(self.crowded)
            picks = self.places.get(place)
            if picks and (-len(picks), picks[0].order) == (fill, order):
                break
        gone = heapq.heappop(picks)
        self.size -= 1
        if picks:
            self._changed(place)
        else:
            del self.places[place]
        return gone

    def _changed(self, place: Hashable) -> None:
        picks = self.places[place]
        self._changes += 1  # makes all rows different, so that places are never compared
        heapq.heappush(self.crowded, (-len(picks), picks[0].order, self._changes, place))
        if len(self.crowded) > 2 * self.size + 8:
            rows = enumerate(self.places.items())
            self.crowded = [(-len(each), each[0].order, number, where) for number, (where, each) in rows]
            heapq.heapify(self.crowded)


class Sample(Generic[_T]):
    """The objects picked so far.

    Args:
        most: the number of objects to keep.
        detached: returns the part of a picked item to keep, so that it does not keep its page in memory.
    """

    def __init__(self, most: int, detached: Callable[[_T], _T]) -> None:
        self._most = most
        self._detached = detached
        self._shapes: dict[Hashable, _ObjectShape[_T]] = {}
        self._size = 0

    @property
    def items(self) -> list[_T]:
        """The picked items, the most wanted first."""
        picks = [pick for shape in self._shapes.values() for place in shape.places.values() for pick in place]
        return [pick.item for pick in sorted(picks, reverse=True)]

    def offer(self, shape: Hashable, place: Hashable, uid: str, item: _T) -> None:
        """Add an object if it improves the sample.

        Args:
            shape: equal for objects that a migration treats alike.
            place: its namespace.
            uid: decides the order of objects with the same shape and place.
            item: the item to keep.
        """
        if self._most < 1:
            return
        new = _Pick(-int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=8).digest()), item)
        self._shapes.setdefault(shape, _ObjectShape()).add(place, new)
        self._size += 1
        if self._size > self._most and self._remove_least_wanted() is new:
            return
        new.item = self._detached(item)

    def _remove_least_wanted(self) -> _Pick[_T]:
        """Remove and return the least wanted pick of the fullest place of the most frequent shape."""
        fullest = max(self._shapes, key=lambda shape: self._shapes[shape].size)
        gone = self._shapes[fullest].remove_least_wanted()
        self._size -= 1
        if not self._shapes[fullest].size:
            del self._shapes[fullest]
        return gone


def detached(meta: Meta) -> Meta:
    """Return a copy of an object's metadata: field sets are views of the page's bytes, and would keep it in memory."""
    entries = tuple(msgspec.structs.replace(entry, fields=entry.fields.copy()) for entry in meta.managed_fields)
    return msgspec.structs.replace(meta, managed_fields=entries)


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


MOST_TRIED = 50
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
        self._sample = Sample[Meta](MOST_TRIED, detached)
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
        environment = Environment.brief(self._cluster)
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

        async def read(meta: Meta) -> None:
            params = {"fieldSelector": f"metadata.name={meta.name}"}
            reply = await with_retries(self._cluster).list_page(resource, meta.namespace or None, params=params)
            for item in reply.decode(whole_page_decoder).items or ():
                found[meta.uid] = object_decoder.decode(item).metadata, whole_object_decoder.decode(item)

        try:
            await each_of(picked, read, _READERS)
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


async def probe(converter: Converter, crd: Crd, sample: Json | None, *, needed: bool) -> list[PlanFinding]:
    """Return the problems of a CRD's conversion webhook.

    Args:
        converter: calls the webhook.
        crd: the CRD.
        sample: an object at the storage version; None if there is none.
        needed: whether a migration has to convert entries through the webhook; otherwise only the API server needs it.
    """
    found: list[PlanFinding] = []
    whole = _plain(sample) if sample is not None else None
    partial = _without_content(whole or _made_up(crd))
    try:
        for version in crd.versions:
            if version.storage:
                continue
            if whole is not None:
                found += await _there_and_back(converter, crd, whole, version.name, needed=needed)
            found += await _partial(converter, crd, partial, version.name)
    except ConverterDown as down:
        then = "The migration has nothing to translate through it, and the API server may reach it all the same"
        if needed:
            then = "Until then a migration cannot translate managedFields"
        message = f"{str(down).rstrip('.')}. {then}"
        found.append(PlanFinding(check=PlanCheck.WEBHOOK, message=message, fails=needed, reason="ConverterDown"))
    return found


async def _there_and_back(converter: Converter, crd: Crd, obj: Json, name: str, *, needed: bool) -> list[PlanFinding]:
    version, storage = crd.version(name), crd.storage
    assert version is not None
    old = await _one(converter, obj, version.api_version)
    if isinstance(old, Unconverted):
        return [_refused(crd, obj, name, old, fails=needed)]
    new = await _one(converter, old, storage.api_version)
    if isinstance(new, Unconverted):
        return [_refused(crd, old, storage.name, new, fails=needed)]
    found = []
    for answer, at in ((old, version), (new, storage)):
        if paths := pruned_paths(answer, at.schema):
            message = (
                f"the conversion webhook of {crd.name} answers {_where(obj)} at {at.name} with fields that {at.name} "
                f"does not declare, and the API server prunes them: {few(paths)}. Declare them, or fix the conversion"
            )
            found.append(_finding(obj, message))
    return found


async def _partial(converter: Converter, crd: Crd, obj: Json, name: str) -> list[PlanFinding]:
    version = crd.version(name)
    assert version is not None
    answer = await _one(converter, obj, version.api_version)
    if not isinstance(answer, Unconverted):
        return []
    message = (
        f"the conversion webhook of {crd.name} does not convert an object without spec and status to {name}: "
        f"{answer.message.rstrip('.')}. API servers send such objects when they work on managedFields, and empty these "
        "where that fails: have it leave out what it is not given"
    )
    return [PlanFinding(check=PlanCheck.WEBHOOK, message=message, reason="CannotConvert")]


def _refused(crd: Crd, obj: Json, name: str, answer: Unconverted, *, fails: bool) -> PlanFinding:
    message = (
        f"{_where(obj)} cannot be converted to {name} by the conversion webhook of {crd.name}: "
        f"{answer.message.rstrip('.')}. Fix the object, or the webhook, then plan again"
    )
    return _finding(obj, message, fails=fails, reason="CannotConvert")


def _finding(obj: Json, message: str, *, fails: bool = False, reason: str = "") -> PlanFinding:
    metadata = obj["metadata"]
    return PlanFinding(
        check=PlanCheck.WEBHOOK,
        message=message,
        fails=fails,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        reason=reason,
    )


async def _one(converter: Converter, obj: Json, api_version: str) -> Answer:
    [answer] = await converter.convert([obj], api_version)
    return answer


def _plain(obj: Json) -> Json:
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _without_content(obj: Json) -> Json:
    return {key: obj[key] for key in ("apiVersion", "kind", "metadata")}


def _made_up(crd: Crd) -> Json:
    metadata = {"name": "restow-probe", "uid": "00000000-0000-4000-8000-000000000000"}
    if crd.namespaced:
        metadata["namespace"] = "default"
    return {"apiVersion": crd.storage.api_version, "kind": crd.kind, "metadata": metadata}


def _where(obj: Json) -> str:
    return qualified_name(obj["metadata"].get("namespace"), obj["metadata"]["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measurements of a plan; durations in seconds.

    Attributes:
        writes, write_s: the number of dry-run writes, and their total duration at ``concurrency``.
        conversions, conversion_s: the conversions through the converter, in batches as in a migration.
        list_s: the total duration of all LISTs, which are sequential.
        concurrency: the most writes in flight.
    """

    writes: int = 0
    write_s: float = 0.0
    conversions: int = 0
    conversion_s: float = 0.0
    list_s: float = 0.0
    concurrency: int = 0

    @property
    def writes_per_s(self) -> float | None:
        """The measured rate; None without a measurement."""
        return self.writes / self.write_s if self.writes and self.write_s > 0 else None


class DryRun:
    """Tries the writes of objects of one CRD, and measures them.

    Args:
        environment: the API server and the clock; once its stop is set, the dry run ends.
        crd: the CRD.
        rules: the policies for the decisions about objects.
        options: the options of the migration; the dry run obeys its concurrency and rate.
        converter: converts entries.
        findings: receives the refusals.
        predicted: receives entries that cannot be carried over.
    """

    def __init__(
        self,
        environment: Environment,
        crd: Crd,
        rules: EntryPolicies,
        options: Options,
        *,
        converter: Converter,
        findings: PlanFindings,
        predicted: StripPrediction,
    ) -> None:
        self._cluster = environment.cluster
        self._resource = crd.resource_at(crd.storage.name)
        self._rules = rules
        self._workers = options.concurrency
        self._findings = findings
        self._predicted = predicted
        self._stop = environment.stop
        self._clock = environment.clock
        self._report = CrdReport(name=crd.name)
        self._translator = Translator(converter, rules, self._report)
        self._writer = ObjectWriter(
            environment,
            rules,
            replace(options, engine=Engine.DIRECT, patience_s=0.0, dry_run=True),
            self._report,
            translator=self._translator,
            check=PremiseCheck(environment.cluster, Premise(crd)),
        )
        self._told_end = False
        self.tried = 0
        self.measured = Measured(concurrency=options.concurrency)

    async def try_out(self, items: Sequence[Item]) -> None:
        """Try the writes of some objects concurrently; refusals become findings."""
        if self._stop:
            return
        try:
            works = await self._translated(items)
        except ConverterDown as down:
            self._stop.because(str(down))
            self._findings.add(
                PlanFinding(check=PlanCheck.WEBHOOK, message=str(down), fails=True, reason="ConverterDown")
            )
            self._told_end = True
            return
        for meta, live, translation in works:
            if translation is not None and live is not None:
                self._predicted.see(meta, live, translation, self._rules)
        before, sent = self._clock(), self._report.requests.write
        await each_of(works, self._finish, self._workers)
        took, sent = self._clock() - before, self._report.requests.write - sent
        self.tried += len(works)
        self.measured = replace(self.measured, writes=self.measured.writes + sent, write_s=self.measured.write_s + took)
        for failure in self._report.failures:
            self._tell(failure)
        self._report.failures.clear()
        for warning in self._report.warnings:
            self._findings.add(PlanFinding(check=PlanCheck.REHEARSAL, message=warning))
        self._report.warnings.clear()
        if self._stop and not self._told_end:
            self._told_end = True
            message = f"the rehearsal ended before its end: {self._stop.why}. Plan again once that is fixed"
            self._findings.add(PlanFinding(check=PlanCheck.REHEARSAL, message=message))

    def _tell(self, failure: ObjectFailure) -> None:
        if not (self._stop and failure.reason == "Interrupted"):
            self._findings.add(of_failure(failure))

    async def _translated(self, items: Sequence[Item]) -> list[Work]:
        """Convert the entries that need it in one batch, as a migration does for a page."""
        converted: list[Item] = []
        others: list[Item] = []
        for item in items:
            (converted if self._is_converted(item[0]) else others).append(item)
        if not converted:
            return await self._translator.works(items)
        whole = await self._whole(converted)
        before, asked = self._clock(), self._report.conversions
        translations = await self._translator.translate(whole)
        self.measured = replace(
            self.measured,
            conversions=self.measured.conversions + self._report.conversions - asked,
            conversion_s=self.measured.conversion_s + self._clock() - before,
        )
        works: list[Work] = [(meta, live, done) for (meta, live), done in zip(whole, translations, strict=True)]
        return works + [(meta, live, None) for meta, live in others]

    def _is_converted(self, meta: Meta) -> bool:
        """Return whether entries of an object are converted: those of the CRD's versions, or only of removed ones."""
        return self._rules.translates or bool(supposed(meta.managed_fields, self._rules)[0].converted)

    async def _whole(self, items: Sequence[Item]) -> list[tuple[Meta, dict[str, Any]]]:
        """Return the objects with their content, which is read if the list left it out; skip deleted objects."""
        found: dict[int, dict[str, Any]] = {}

        async def read(numbered: tuple[int, Item]) -> None:
            number, (meta, live) = numbered
            if live is not None:
                found[number] = live
                return
            try:
                reply = await with_retries(self._cluster).get(self._resource, meta.name, meta.namespace or None)
                found[number] = reply.decode(whole_object_decoder)
            except NotFound:
                return
            except KubeError as error:
                self._tell(ObjectFailure(meta.namespace, meta.name, type(error).__name__, str(error)))

        await each_of(enumerate(items), read, self._workers)
        return [(items[number][0], found[number]) for number in sorted(found)]

    async def _finish(self, work: Work) -> None:
        if not self._stop:
            await self._writer.finish(*work)
