"""Automatic version management: its configuration, and the changes that a profile should get. Pure.

The configuration has the form of the versioning policy document, which is a part of Gardener's
ControllerManagerConfiguration: ``controllers.cloudProfile.kubernetesVersionManagement`` and
``controllers.cloudProfile.machineImageVersionManagement``. Everything else in such a file is ignored. An unknown name
inside ``controllers.cloudProfile`` is an error, and so is a name on the way there that nearly equals that of a
section, because restow would silently ignore the setting.

Version management gives a profile's versions classifications and expirations. It is off by default. The rules are
those of the versioning policy document, applied to the versions at a given time:

- *Maintained* are the highest minor versions of Kubernetes that the profile has, as many as configured; gaps between
  them do not matter, and a minor whose versions are all unavailable does not count.
- A version without classification becomes ``supported`` if it is the latest (of its maintained minor, of its image),
  previews not counted, else ``deprecated``.
- Of several supported versions of a maintained minor, or of an image, only the highest stays.
- In a minor that is not maintained all versions are deprecated, previews too.
- A deprecated version expires after the configured duration. The latest patch of a minor that is not maintained does
  not: its end forces Shoots to the next minor, so a person sets that date.
- Settings of a person stay: an expiration is never moved, and previews of maintained minors and versions that are
  already deprecated or expired do not change, except that patches of an unmaintained minor get a missing expiration. A
  stage that is planned for later and contradicts the policy is dropped, and the change reports that.

Changes are written as stages that begin at that time (``deprecated``, then ``expired``); the fields of v1beta1 become
stages in the same change. Managing the result again at the same time changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from operator import attrgetter
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from restow.cloudprofile.objects import (
    Object,
    PlacedVersion,
    VersionKey,
    placed_versions,
    version_name,
    versions_by_key,
    with_versions,
)
from restow.cloudprofile.versions.lifecycle import (
    Classification,
    classification_at,
    parse_time,
    whole_seconds,
    written_stages,
)
from restow.cloudprofile.versions.semver import SemanticVersion, parse
from restow.conversion.manifests import read
from restow.conversion.rules.standard import numbertexts
from restow.crds.documents import NotYaml

_KIND = "ControllerManagerConfiguration"
_OTHERS = {"namespacedCloudProfile", "controllerDeployment", "controllerRegistration"}
_NOT_OURS = {"concurrentSyncs", "monitorPeriod"}
_ALIKE = 0.8  # of 1, which accepts "controller", "cloudProfiles", "cloudprofile"


class InvalidConfiguration(ValueError):
    """An error: a configuration file cannot be used. The message names each field."""


def parse_duration(text: object) -> timedelta:
    """Read a duration as Go writes it, ``2880h`` or ``1h30m`` for instance.

    Raises:
        ValueError: the text is not a duration.
    """
    if isinstance(text, timedelta):
        return text
    nanoseconds = numbertexts.parse_duration(text) if isinstance(text, str) else None
    if nanoseconds is None or nanoseconds < 0:
        raise ValueError("must be a duration like 720h or 1h30m, of at most 2562047h")
    return timedelta(microseconds=nanoseconds / 1000)


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]


class _ConfigPart(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


class KubernetesVersionManagement(_ConfigPart):
    """The management of Kubernetes versions.

    Attributes:
        enabled: whether Kubernetes versions are managed.
        maintained_kubernetes_versions: how many of the highest minor versions are maintained.
        expiration_duration_maintained_version: how long a maintained version lasts after it is deprecated.
        expiration_duration_unmaintained_version: the same for all other minor versions.
    """

    enabled: bool = False
    maintained_kubernetes_versions: int = Field(default=3, ge=1)
    expiration_duration_maintained_version: Duration = timedelta(hours=2880)
    expiration_duration_unmaintained_version: Duration = timedelta(hours=720)


class MachineImageVersionManagement(_ConfigPart):
    """The management of machine image versions.

    Attributes:
        enabled: whether machine image versions are managed.
        expiration_duration: how long a version lasts after it is deprecated.
    """

    enabled: bool = False
    expiration_duration: Duration = timedelta(hours=2880)


class VersionManagement(_ConfigPart):
    """Both parts of the configuration; both are off by default."""

    kubernetes_version_management: KubernetesVersionManagement = KubernetesVersionManagement()
    machine_image_version_management: MachineImageVersionManagement = MachineImageVersionManagement()


def read_configuration(text: str) -> VersionManagement:
    """Read the YAML of a ControllerManagerConfiguration.

    Raises:
        InvalidConfiguration: the text is not YAML, or a field of the two parts is unknown or has a wrong value.
    """
    try:
        documents = read(text)
    except NotYaml as error:
        raise InvalidConfiguration(f"the configuration is no YAML: {error}") from error
    if len(documents) != 1 or documents[0].problem:
        problem = documents[0].problem if len(documents) == 1 else f"it has {len(documents)} documents"
        raise InvalidConfiguration(f"the configuration is no single document of YAML: {problem}")
    part = documents[0].data
    if not isinstance(part, dict) or part.get("kind", _KIND) != _KIND or not part.keys() & {"kind", "controllers"}:
        # Any other file would silently give a policy that manages nothing.
        raise InvalidConfiguration(f"this is no {_KIND}: it has neither that kind nor the field controllers")
    for name in ("controllers", "cloudProfile"):
        part = {} if part is None else part
        if not isinstance(part, dict):
            raise InvalidConfiguration(f"the configuration has no object around {name}")
        if name not in part and (meant := get_close_matches(name, set(map(str, part)) - _OTHERS, 1, _ALIKE)):
            raise InvalidConfiguration(f"{meant[0]} is no section of a {_KIND}: did you mean {name}?")
        part = part.get(name)
    return _validated(part)


def _validated(part: object) -> VersionManagement:
    settings: Any = part
    if part is None:
        settings = {}
    elif isinstance(part, dict):
        # A null section sets nothing, and the settings of Gardener's own controller do not concern versions.
        settings = {name: value for name, value in part.items() if value is not None and name not in _NOT_OURS}
    try:
        return VersionManagement.model_validate(settings)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise InvalidConfiguration(f"controllers.cloudProfile cannot be used: {faults}") from error


@dataclass(frozen=True, slots=True)
class VersionChange:
    """One version that management changes.

    Attributes:
        field: the path of the version in the profile.
        key: the version.
        what: the result, ``deprecated, expires 2025-05-15T12:00:00Z`` for instance.
        why: the rule.
    """

    field: str
    key: VersionKey
    what: str
    why: str

    def __str__(self) -> str:
        """Return the change as one line."""
        return f"{version_name(self.key)}: {self.what} ({self.why})"


@dataclass(frozen=True, slots=True)
class ManagementResult:
    """The changes that automatic version management proposes for a profile.

    Attributes:
        changes: each version that changes, in the order of the profile.
        spec: the profile's spec with all changes; equal to the one before if there are none.
    """

    changes: tuple[VersionChange, ...]
    spec: dict[str, Any]

    def only(self, spec: Object, kept: Iterable[VersionChange]) -> dict[str, Any]:
        """Return ``spec``, the spec before the changes, with only the changes in ``kept``."""
        chosen, after = {change.key for change in kept}, versions_by_key(self.spec)
        return with_versions(spec, lambda key, version: after[key] if key in chosen else version)


@dataclass(frozen=True, slots=True)
class _Item:
    """A version of the profile with the facts that the rules need."""

    path: str
    raw: Object
    version: SemanticVersion
    classification: Classification

    @property
    def is_unclassified(self) -> bool:
        """Whether the version has no classification, in which case it counts as supported."""
        return not self.raw.get("lifecycle") and not self.raw.get("classification")

    @property
    def is_supported(self) -> bool:
        return self.classification == Classification.SUPPORTED

    @property
    def is_deprecated(self) -> bool:
        return self.classification == Classification.DEPRECATED


@dataclass(frozen=True, slots=True)
class _Reclassification:
    """The new classification of a version, and the reason; it expires after ``lasting``, None for no new date."""

    becomes: Classification
    why: str
    lasting: timedelta | None = None


def manage(spec: Object, config: VersionManagement, now: datetime) -> ManagementResult:
    """Return what automatic version management changes in a CloudProfile's spec at ``now``.

    Raises:
        InvalidVersion: a version cannot be read; validation refuses such profiles.
        InvalidTime: a time cannot be read; validation refuses such profiles.
    """
    changes: dict[VersionKey, tuple[VersionChange, Object]] = {}
    kubernetes, images = config.kubernetes_version_management, config.machine_image_version_management
    lists: dict[str, list[PlacedVersion]] = {}
    for placed in placed_versions(spec):
        lists.setdefault(placed.key[0], []).append(placed)
    for image, listed in lists.items():
        if not (images if image else kubernetes).enabled:
            continue
        items = [_Item(path, version, parse(key[1]), classification_at(version, now)) for key, path, version in listed]
        if image:
            active = [item for item in items if item.classification.is_active]
            verdicts = _judge_maintained(active, "machine image", images.expiration_duration)
        else:
            verdicts = _judge_kubernetes(items, kubernetes)
        for item, verdict in verdicts:
            key = image, item.raw["version"]
            changes[key] = _changed(item, key, verdict, now)
    ordered = tuple(changes[key][0] for key, _, _ in placed_versions(spec) if key in changes)
    changed = with_versions(spec, lambda key, version: changes[key][1] if key in changes else version)
    return ManagementResult(ordered, changed)


def _changed(item: _Item, key: VersionKey, verdict: _Reclassification, now: datetime) -> tuple[VersionChange, Object]:
    lifecycle = _lifecycle(item, verdict, now)
    what = _described(item, verdict, lifecycle)
    kept = {name: value for name, value in item.raw.items() if name not in _LIFECYCLE_FIELDS}
    return VersionChange(item.path, key, what, verdict.why), {**kept, "lifecycle": lifecycle}


_LIFECYCLE_FIELDS = frozenset({"classification", "expirationDate", "lifecycle"})


def _judge_kubernetes(
    items: Sequence[_Item], config: KubernetesVersionManagement
) -> Iterator[tuple[_Item, _Reclassification]]:
    lines = sorted({item.version.line for item in items if item.classification != Classification.UNAVAILABLE})
    maintained = lines[-config.maintained_kubernetes_versions :]
    for line in lines:
        of_line = [item for item in items if item.version.line == line and item.classification.is_active]
        name = "minor version {}.{}".format(*line)
        if line in maintained:
            yield from _judge_maintained(of_line, name, config.expiration_duration_maintained_version)
        else:
            yield from _judge_unmaintained(of_line, name, config.expiration_duration_unmaintained_version)


def _judge_maintained(
    active: Sequence[_Item], name: str, lasting: timedelta
) -> Iterator[tuple[_Item, _Reclassification]]:
    """Keep one supported version: the latest if it has no classification, else the highest supported one."""
    released = [item for item in active if item.classification != Classification.PREVIEW]
    latest = _highest(released)
    kept = _highest(item for item in released if item.is_supported and (item is latest or not item.is_unclassified))
    for item in released:
        if item is kept and item.is_unclassified:
            yield (
                item,
                _Reclassification(Classification.SUPPORTED, f"the latest version of the {name} has no classification"),
            )
        elif item is not kept and item.is_supported:
            reason = "has no classification and is not the latest" if item.is_unclassified else "is not the highest"
            why = f"one version of the {name} is supported, and this one {reason}"
            yield item, _Reclassification(Classification.DEPRECATED, why, lasting)


def _judge_unmaintained(
    active: Sequence[_Item], name: str, lasting: timedelta
) -> Iterator[tuple[_Item, _Reclassification]]:
    """Deprecate all versions; the latest patch lasts until a person sets its end, the others expire."""
    latest = _highest(active)
    why = f"the {name} is not maintained"
    for item in active:
        if item is latest:
            if not item.is_deprecated:
                yield item, _Reclassification(Classification.DEPRECATED, why)
        elif not item.is_deprecated or not _expirations(item.raw):
            yield item, _Reclassification(Classification.DEPRECATED, why, lasting)


def _highest(items: Iterable[_Item]) -> _Item | None:
    return max(items, key=attrgetter("version"), default=None)


def _lifecycle(item: _Item, verdict: _Reclassification, now: datetime) -> list[Object]:
    """Return the stages of a version after a verdict: the past ones, the new one, and the expiration."""
    expirations = _expirations(item.raw)
    if verdict.becomes == Classification.SUPPORTED:
        return [{"classification": Classification.SUPPORTED.value}, *expirations]
    begun = [stage for stage in written_stages(item.raw) if _start(stage) <= now]
    if not item.is_deprecated:
        begun.append({"classification": Classification.DEPRECATED.value, "startTime": whole_seconds(now)})
    if not expirations and verdict.lasting is not None:
        end = whole_seconds(now + verdict.lasting)
        expirations = [{"classification": Classification.EXPIRED.value, "startTime": end}]
    return [*begun, *expirations]


def _expirations(raw: Object) -> list[Object]:
    return [stage for stage in written_stages(raw) if stage.get("classification") == Classification.EXPIRED]


def _start(stage: Object) -> datetime:
    start = stage.get("startTime")
    return parse_time(start) if start else datetime.min.replace(tzinfo=UTC)


def _described(item: _Item, verdict: _Reclassification, lifecycle: Sequence[Object]) -> str:
    if verdict.becomes == Classification.SUPPORTED:
        return Classification.SUPPORTED.value
    ends = [stage.get("startTime") for stage in lifecycle if stage["classification"] == Classification.EXPIRED]
    end = f"expires {ends[-1]}" if ends else "without expiration"
    said = end if item.is_deprecated else f"{Classification.DEPRECATED.value}, {end}"
    return ", ".join((said, *_dropped(item, lifecycle)))


def _dropped(item: _Item, lifecycle: Sequence[Object]) -> Iterator[str]:
    """Yield a note for each stage that a person planned and the change removes, so that no removal is silent."""
    kept = {stage.get("classification") for stage in lifecycle}
    for stage in written_stages(item.raw):
        if stage.get("classification") not in kept:
            yield f"its planned stage {stage.get('classification')} of {stage.get('startTime')} is dropped"
