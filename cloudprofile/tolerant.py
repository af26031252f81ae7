"""What can be read of a version that validation may yet refuse: None instead of an error. Pure."""

from __future__ import annotations

from datetime import datetime

from restow.cloudprofile import lifecycle, semver
from restow.cloudprofile.lifecycle import Classification, Stage
from restow.cloudprofile.parts import Object
from restow.cloudprofile.semver import Version

__all__ = ["classification_of", "number_of", "stages_of"]


def number_of(version: Object) -> Version | None:
    """Return a version's number, or None where it is none."""
    try:
        return semver.parse(version.get("version") or "")
    except semver.InvalidVersion:
        return None


def stages_of(version: Object | None) -> tuple[Stage, ...] | None:
    """Return the stages of a version, or None where there is none or they cannot be read."""
    try:
        return None if version is None else lifecycle.stages(version)
    except ValueError:
        return None


def classification_of(version: Object, now: datetime) -> Classification | None:
    """Return what a version is at ``now``, or None where its stages cannot be read."""
    try:
        return lifecycle.classification_at(version, now)
    except ValueError:
        return None
