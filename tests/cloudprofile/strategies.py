"""Strategies for profiles, with few names and days so that generated parts often interact."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from restow.cloudprofile.versions.lifecycle import Classification

__all__ = [
    "any_lifecycles",
    "lifecycles",
    "moments",
    "overrides",
    "profile_specs",
    "project_specs",
    "pulled_down",
    "versions",
]

_DAY_ONE = datetime(2025, 1, 1, tzinfo=UTC)
_WRITTEN = [classification.value for classification in Classification]
_days = st.integers(0, 6)

moments = st.integers(-1, 14).map(lambda half_days: _DAY_ONE + timedelta(hours=12 * half_days))


def _stage(classification: str, day: int | None) -> dict[str, str]:
    if day is None:
        return {"classification": classification}
    return {"classification": classification, "startTime": f"2025-01-{day + 1:02}T00:00:00Z"}


@st.composite
def lifecycles(draw: st.DrawFn) -> list[dict[str, str]]:
    """Draw a lifecycle that validation accepts: in order, leading starts optional."""
    names = sorted(draw(st.sets(st.sampled_from(_WRITTEN), min_size=1)), key=_WRITTEN.index)
    leading = draw(st.integers(0, len(names)))
    days = sorted(draw(st.lists(_days, min_size=len(names) - leading, max_size=len(names) - leading)))
    starts: list[int | None] = [*([None] * leading), *days]
    return [_stage(name, day) for name, day in zip(names, starts, strict=True)]


@st.composite
def pulled_down(draw: st.DrawFn) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Draw a parent's late stages, and an override of at least two of them that starts early."""
    late = sorted(draw(st.lists(st.integers(4, 6), min_size=len(_WRITTEN), max_size=len(_WRITTEN))))
    moved = sorted(draw(st.sets(st.sampled_from(range(1, len(_WRITTEN))), min_size=2)))
    early = sorted(draw(st.lists(st.integers(0, 5), min_size=len(moved), max_size=len(moved))))
    base = [_stage(name, day) for name, day in zip(_WRITTEN, late, strict=True)]
    return base, [_stage(_WRITTEN[place], day) for place, day in zip(moved, early, strict=True)]


any_lifecycles = st.lists(st.builds(_stage, st.sampled_from(_WRITTEN), st.none() | _days), min_size=1, max_size=5)
"""Lifecycles in any order, with repeated stages."""


def _with(version: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"version": version, **fields}


_legacy = st.fixed_dictionaries(
    {},
    optional={
        "classification": st.sampled_from(_WRITTEN[1:-1]),
        "expirationDate": _days.map(lambda day: f"2025-01-{day + 1:02}T00:00:00Z"),
    },
)
_fields = _legacy | lifecycles().map(lambda stages: {"lifecycle": stages})
_any_fields = _legacy | any_lifecycles.map(lambda stages: {"lifecycle": stages})
_numbers = st.sampled_from(["1.30.1", "1.30.2", "1.31.0", "1.31.1", "1.32.0"])

versions = st.builds(_with, _numbers, _fields)
"""Versions, with lifecycles in order, with plain fields, or with neither."""

overrides = st.builds(_with, _numbers, _any_fields)
"""Overrides that a project may have written for a version, valid or not."""


def _lists(items: st.SearchStrategy[dict[str, Any]], key: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(items, max_size=4, unique_by=lambda item: item[key])


def _images(items: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    image = st.fixed_dictionaries(
        {"name": st.sampled_from(["ubuntu", "suse", "flatcar"]), "versions": _lists(items, "version")},
        optional={"updateStrategy": st.sampled_from(["patch", "minor", "major"])},
    )
    return _lists(image, "name")


_types = st.fixed_dictionaries(
    {"name": st.sampled_from(["small", "large"]), "cpu": st.just("2")},
    optional={
        "architecture": st.sampled_from(["amd64", "arm64"]),
        "capabilities": st.just({"architecture": ["arm64"]}),
    },
)
_volumes = st.fixed_dictionaries({"name": st.sampled_from(["fast", "slow"]), "class": st.sampled_from(["a", "b"])})
_common = {
    "machineTypes": _lists(_types, "name"),
    "volumeTypes": _lists(_volumes, "name"),
    "limits": st.fixed_dictionaries({}, optional={"maxNodesTotal": st.integers(1, 9)}),
    "caBundle": st.sampled_from(["A\n", "B\n"]),
}

profile_specs = st.fixed_dictionaries(
    {"kubernetes": st.fixed_dictionaries({"versions": _lists(versions, "version")})},
    optional={
        **_common,
        "type": st.just("local"),
        "machineImages": _images(versions),
        "machineCapabilities": st.just([{"name": "architecture", "values": ["amd64", "arm64"]}]),
        "providerConfig": st.just({"some": "thing"}),
        "regions": st.just([{"name": "here"}]),
    },
)
"""CloudProfile specs."""

project_specs = st.fixed_dictionaries(
    {"parent": st.just({"kind": "CloudProfile", "name": "parent"})},
    optional={
        **_common,
        "kubernetes": st.fixed_dictionaries({"versions": _lists(overrides, "version")}),
        "machineImages": _images(overrides),
        "providerConfig": st.just({"another": "thing"}),
    },
)
"""NamespacedCloudProfile specs, valid or not."""
