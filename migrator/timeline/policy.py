"""The policy file: the releases of a project, its promises, and the versions of its API.

    upgradeSkew: 3             # an upgrade may skip releases: n-3 -> n is supported
    servedAfterSuccessor: 3    # releases in which a version is served along with its successor
    bufferReleases: 1          # releases after unserving in which a user may serve it again
    migratorSince: v1.10       # the first release that runs a storage-version and managedFields migrator
    releases:
      - {name: v1.9, date: Dec 24}
      - {name: v1.10, date: April 25}
    versions:
      - {name: v1beta1}
      - {name: v1beta2, added: v1.11}

Releases are listed in their order, versions from the oldest to the newest. A version's ``added``, ``storage``,
``unserved`` and ``removed`` name releases; ``earlier`` means before the first listed one. Omitted steps follow from the
promises.

Pure.
"""

from __future__ import annotations

from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

#: Replaces the name of a release, and means before the first one of the list.
EARLIER: Final = "earlier"


class PolicyError(ValueError):
    """The policy file is invalid; the message has a sentence for each defect, with its place."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ReleaseEntry(_Model):
    """A release; ``date`` is displayed unchanged."""

    name: str = Field(min_length=1)
    date: str = ""


class VersionEntry(_Model):
    """A version of the API, and the releases of those steps that do not follow from the promises.

    ``successor`` is the version that clients should use instead; it defaults to the next one of the list.
    """

    name: str = Field(min_length=1)
    added: str = EARLIER
    storage: str | None = None
    unserved: str | None = None
    removed: str | None = None
    successor: str | None = None


class TimelinePolicy(_Model):
    """A policy; see the module. Counts are numbers of releases."""

    upgrade_skew: int = Field(alias="upgradeSkew", ge=1)
    served_after_successor: int = Field(alias="servedAfterSuccessor", ge=0)
    kept_after_unserved: int | None = Field(alias="keptAfterUnserved", default=None, ge=0)
    buffer_releases: int = Field(alias="bufferReleases", default=0, ge=0)
    storage_after_added: int = Field(alias="storageAfterAdded", default=0, ge=0)
    migrator_since: str | None = Field(alias="migratorSince", default=None)
    releases: tuple[ReleaseEntry, ...] = Field(min_length=1)
    versions: tuple[VersionEntry, ...] = Field(min_length=1)

    @property
    def kept(self) -> int:
        """The releases for which a version is kept once no object can have it any more: at least the upgrade skew."""
        return self.upgrade_skew if self.kept_after_unserved is None else self.kept_after_unserved

    def index(self, release: str) -> int:
        """Return the index of a release in the list, -1 for ``earlier``.

        Raises:
            PolicyError: the policy has no such release.
        """
        if release == EARLIER:
            return -1
        for index, each in enumerate(self.releases):
            if each.name == release:
                return index
        known = ", ".join(each.name for each in self.releases)
        message = f"{release} is no release of the policy, which has {known}"
        raise PolicyError(message)

    @model_validator(mode="after")
    def _names(self) -> Self:
        for what, names in (
            ("release", [each.name for each in self.releases]),
            ("version", [each.name for each in self.versions]),
        ):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                message = f"the {what} {', '.join(twice)} is listed twice"
                raise ValueError(message)
        known = {each.name for each in self.releases} | {EARLIER}
        for version in self.versions:
            for step in ("added", "storage", "unserved", "removed"):
                release = getattr(version, step)
                if release is not None and release not in known:
                    message = f"{version.name}.{step} names {release}, which is not among the releases"
                    raise ValueError(message)
            if version.successor is not None and version.successor not in {each.name for each in self.versions}:
                message = f"{version.name}.successor names {version.successor}, which is not among the versions"
                raise ValueError(message)
        if self.migrator_since is not None and self.migrator_since not in known:
            message = f"migratorSince names {self.migrator_since}, which is not among the releases"
            raise ValueError(message)
        return self


def parse_policy(document: Any) -> TimelinePolicy:
    """Return the policy of a decoded YAML or JSON document.

    Raises:
        PolicyError: the document is not a valid policy; the message lists every defect.
    """
    try:
        return TimelinePolicy.model_validate(document)
    except ValidationError as error:
        raise PolicyError("; ".join(_sentence(each) for each in error.errors())) from error


def _sentence(error: Any) -> str:
    place = ".".join(str(step) for step in error["loc"])
    text = str(error["msg"]).removeprefix("Value error, ")
    return f"{place}: {text}" if place else text
