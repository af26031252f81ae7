"""The configuration of automatic version management, as the versioning policy document writes it. Pure.

That is a part of Gardener's ControllerManagerConfiguration: ``controllers.cloudProfile.kubernetesVersionManagement``
and ``controllers.cloudProfile.machineImageVersionManagement``. Everything else in such a file is left to others; an
unknown field inside the two parts is an error, since it would be a setting that is not heeded.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from restow.conversion.manifests import NotYaml, read

__all__ = [
    "InvalidConfiguration",
    "KubernetesVersionManagement",
    "MachineImageVersionManagement",
    "VersionManagement",
    "parse_duration",
    "read_configuration",
]


_KIND = "ControllerManagerConfiguration"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|us|µs|ns|m|s)")


class InvalidConfiguration(ValueError):
    """A configuration file cannot be used; the message names each field."""


def parse_duration(text: object) -> timedelta:
    """Read a duration as Go writes it, ``2880h`` or ``1h30m`` for instance.

    Raises:
        ValueError: the text is not a duration.
    """
    if isinstance(text, timedelta):
        return text
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("must be a duration like 720h or 1h30m")
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]


class _ConfigPart(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")


class KubernetesVersionManagement(_ConfigPart):
    """How Kubernetes versions are managed.

    Attributes:
        enabled: whether they are at all.
        maintained_kubernetes_versions: how many of the highest minor versions are maintained.
        expiration_duration_maintained_version: how long a version of those goes on once it is deprecated.
        expiration_duration_unmaintained_version: the same for all other minor versions.
    """

    enabled: bool = False
    maintained_kubernetes_versions: int = Field(default=3, ge=1)
    expiration_duration_maintained_version: Duration = timedelta(hours=2880)
    expiration_duration_unmaintained_version: Duration = timedelta(hours=720)


class MachineImageVersionManagement(_ConfigPart):
    """How machine image versions are managed.

    Attributes:
        enabled: whether they are at all.
        expiration_duration: how long a version goes on once it is deprecated.
    """

    enabled: bool = False
    expiration_duration: Duration = timedelta(hours=2880)


class VersionManagement(_ConfigPart):
    """Both parts; all of it is off by default."""

    model_config = ConfigDict(extra="ignore")  # concurrentSyncs and the like are not about versions

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
        # Any other file would be a policy by which nothing is managed, without a word.
        raise InvalidConfiguration(f"this is no {_KIND}: it has neither that kind nor the field controllers")
    for name in ("controllers", "cloudProfile"):
        part = {} if part is None else part
        if not isinstance(part, dict):
            raise InvalidConfiguration(f"the configuration has no object around {name}")
        part = part.get(name)
    return _validated(part)


def _validated(part: object) -> VersionManagement:
    settings: Any = part
    if part is None:
        settings = {}
    elif isinstance(part, dict):
        settings = {name: value for name, value in part.items() if value is not None}  # nothing below it is written
    try:
        return VersionManagement.model_validate(settings)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise InvalidConfiguration(f"controllers.cloudProfile cannot be used: {faults}") from error
