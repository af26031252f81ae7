"""The configuration of automatic version management, in the form of the versioning policy document. Pure.

The form is a part of Gardener's ControllerManagerConfiguration:
``controllers.cloudProfile.kubernetesVersionManagement`` and ``controllers.cloudProfile.machineImageVersionManagement``.
Everything else in such a file is ignored. An unknown name inside ``controllers.cloudProfile`` is an error, and so is a
name on the way there that nearly equals that of a section, because restow would silently ignore the setting.
"""

from __future__ import annotations

import re
from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from restow.conversion.manifests import NotYaml, read

_KIND = "ControllerManagerConfiguration"
_OTHERS = {"namespacedCloudProfile", "controllerDeployment", "controllerRegistration"}
_NOT_OURS = {"concurrentSyncs", "monitorPeriod"}
_ALIKE = 0.8  # of 1, which accepts "controller", "cloudProfiles", "cloudprofile"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_LONGEST = (2**63 - 1) / 1e9  # seconds: Go counts nanoseconds in 64 bits
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|us|µs|ns|m|s)")


class InvalidConfiguration(ValueError):
    """An error: a configuration file cannot be used. The message names each field."""


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
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > _LONGEST:
        raise ValueError("must be a duration like 720h or 1h30m, of at most 2562047h")
    return timedelta(seconds=seconds)


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
