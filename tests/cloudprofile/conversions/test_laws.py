"""The laws of conversion for the three kinds, over objects generated from their CRDs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restow.cloudprofile.profiles.rendering import render
from restow.cloudprofile.versions.lifecycle import status_of
from restow.conversion.testing import Generator, Laws, roundtrip_suite
from tests.cloudprofile.conversions.family import GROUP, V1BETA1, V1BETA2, conversions, crd_of, profile
from tests.cloudprofile.strategies import lifecycles, moments, profile_specs, project_specs

RELAXED = settings(suppress_health_check=list(HealthCheck), deadline=None)

NAMES = st.sampled_from(["1.30.1", "1.30.2", "1.31.0"])
IMAGES = st.sampled_from(["a", "b"])
#: Stages in order, and special cases: two stages without start, a lone expiration, an unavailable version.
STAGES = lifecycles() | st.sampled_from(
    [
        [],
        [{"classification": "unavailable"}, {"classification": "preview", "startTime": "2025-01-03T00:00:00Z"}],
        [{"classification": "preview"}, {"classification": "expired"}],
        [{"classification": "expired"}],
    ]
)
#: The schema refuses a lifecycle at v1beta1, so generated objects of v1beta1 have none.
NO_STAGES: st.SearchStrategy[list[Any]] = st.just([])
NAMED = {"cloudProfileName": "a"}
PLACES = ("spec", "status.cloudProfileSpec")


def overrides() -> dict[str, dict[str, st.SearchStrategy[Any]]]:
    """Return strategies by path: statuses that list versions of the spec, rightly or wrongly, and lifecycles."""
    found: dict[str, dict[str, st.SearchStrategy[Any]]] = {"v1beta1": {}, "v1beta2": {}}
    for version, stages in (("v1beta1", NO_STAGES), ("v1beta2", STAGES)):
        for place in (*PLACES, "status"):
            kubernetes, images = f".{place}.kubernetes.versions[]", f".{place}.machineImages[]"
            found[version] |= {
                f"{kubernetes}.version": NAMES,
                f"{images}.name": IMAGES,
                f"{images}.versions[].version": NAMES,
            }
            if place != "status":
                found[version] |= {f"{each}.lifecycle": stages for each in (kubernetes, f"{images}.versions[]")}
    return found


def shoot_specs() -> st.SearchStrategy[dict[str, Any]]:
    """Return specs that name a profile in one way or in both, even two different ones, because a rule requires one."""
    version = crd_of("Shoot").version("v1beta1")
    schema = None if version is None else version.schema.field("spec")
    assert schema is not None
    names = {".spec.cloudProfileName": IMAGES, ".spec.cloudProfile.name": IMAGES}
    specs = Generator(names).value(schema, ".spec")
    return specs.map(lambda spec: spec if {"cloudProfile", "cloudProfileName"} & spec.keys() else {**spec, **NAMED})


TestCloudProfile = roundtrip_suite(conversions(), crd_of("CloudProfile"), overrides=overrides())
TestNamespacedCloudProfile = roundtrip_suite(conversions(), crd_of("NamespacedCloudProfile"), overrides=overrides())
TestShoot = roundtrip_suite(conversions(), crd_of("Shoot"), overrides={"v1beta1": {".spec": shoot_specs()}})


def lifted(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with its versions in the form of v1beta2."""
    return dict(conversions().convert(profile(spec, version=V1BETA1), V1BETA2)["spec"])


@st.composite
def living_profiles(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a CloudProfile whose status was written at some time, or not yet."""
    spec = lifted(draw(profile_specs))
    now: datetime | None = draw(st.none() | moments)
    return profile(spec) if now is None else profile(spec, status=status_of(spec, now))


@st.composite
def living_projects(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a NamespacedCloudProfile that was rendered at some time, or not yet."""
    spec = draw(project_specs)
    sparse = profile(spec, version=V1BETA1, kind="NamespacedCloudProfile")
    spec = dict(conversions().convert(sparse, V1BETA2)["spec"])
    now: datetime | None = draw(st.none() | moments)
    drawn = profile(spec, kind="NamespacedCloudProfile")
    if now is None:
        return drawn
    rendered = render(lifted(draw(profile_specs)), spec)
    return {**drawn, "status": {"cloudProfileSpec": rendered, **status_of(rendered, now)}}


@RELAXED
@given(living_profiles() | living_projects())
def test_the_laws_hold_at_every_instant(obj: dict[str, Any]) -> None:
    """An object would change, or become invalid, only because time passes."""
    laws = Laws(conversions().kind(GROUP, obj["kind"]))
    laws.round_trip(obj, "v1beta1")
    laws.round_trip(laws.convert(obj, "v1beta1"), "v1beta2")
    laws.determinism(obj, "v1beta1")
    laws.unchanged_input(obj, "v1beta1")


@RELAXED
@given(living_profiles(), moments)
def test_what_v1beta1_says_itself_does_not_depend_on_the_status(obj: dict[str, Any], now: datetime) -> None:
    """A client of v1beta1 would read other fields than it wrote until the reconciler has updated the status."""
    shown = {name: value for name, value in conversions().convert(obj, V1BETA1).items() if name != "status"}
    plain = {**shown, "metadata": {"name": "p"}}
    stored = conversions().convert(plain, V1BETA2)
    read = conversions().convert({**stored, "status": status_of(stored["spec"], now)}, V1BETA1)
    assert {name: value for name, value in read.items() if name != "status"} == plain


@RELAXED
@given(living_profiles() | living_projects(), moments)
def test_going_up_nothing_depends_on_the_status(obj: dict[str, Any], now: datetime) -> None:
    """Specs without status, which the server converts for managedFields and in an apply, would differ."""
    shown = conversions().convert(obj, V1BETA1)
    spec = conversions().convert(shown, V1BETA2)["spec"]
    alone = {name: value for name, value in shown.items() if name != "status"}
    others = {**alone, "status": status_of(obj["spec"], now)}
    assert conversions().convert(alone, V1BETA2)["spec"] == conversions().convert(others, V1BETA2)["spec"] == spec
