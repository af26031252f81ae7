"""Hostile manifests: a client gets a refusal that names the field, never an error of the operator."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from restow.conversion.reviews.admission import RawObject
from restow.crds import ANY, Schema
from restow.crds.paths import ROOT, field_path, items_path
from tests.cloudprofile.hostile import PARENTS, HostileRequest, hostile, whole
from tests.cloudprofile.served import Answer, ApiServer, schema_of

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
MANY: Final = 2_000 if os.environ.get("RESTOW_HYPOTHESIS_PROFILE") == "nightly" else 100
KINDS: Final = [
    (kind, version)
    for kind in ("CloudProfile", "NamespacedCloudProfile", "Shoot")
    for version in ("v1beta1", "v1beta2")
]


@pytest.fixture
def server() -> ApiServer:
    """A server that holds the profiles that the manifests refer to."""
    profile, child = PARENTS
    return ApiServer(NOW, {"cloudprofiles": [profile], "namespacedcloudprofiles": [child]})


def sent(server: ApiServer, request: HostileRequest) -> Answer:
    """Send a request through conversion and admission."""
    return server.create(request.new) if request.old is None else server.update(request.new, request.old)


@pytest.mark.parametrize(("kind", "version"), KINDS)
def test_the_manifests_are_valid_before_they_are_damaged(server: ApiServer, kind: str, version: str) -> None:
    """The hostile manifests would be refused for something else, before a rule reads what is hostile in them."""
    answer = server.create(whole(kind, version))
    assert (answer.refusal, answer.warnings) == ("", ())


def test_no_manifest_makes_the_operator_fail(server: ApiServer) -> None:
    """A client would read "failed with TypeError; try again later" and not know what to change."""
    codes = set()
    for request in hostile(range(MANY)):
        try:
            answer = sent(server, request)
        except Exception as error:
            raise AssertionError(f"seed {request.seed} of {request.new['kind']}") from error
        codes.add(int(answer.code))
        assert answer.code < 500, (request.seed, answer.refusal)
    assert codes == {200, 403, 422}


def put(kind: str, place: str, value: Any) -> dict[str, Any]:
    """Return a whole object of v1beta2 with a value at a place, ``spec.regions.0.zones`` for instance."""
    obj = whole(kind, "v1beta2")
    *way, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    at: Any = obj
    for step in way:
        at = at[step]
    at[last] = value
    return obj


POOL = "spec.provider.workers.0"
STARTED_FIRST = [
    {"version": "1.31.0", "lifecycle": [{"classification": "preview", "startTime": "0001-01-01T00:00:00Z"}]},
    {"version": "1.31.1"},
]


@pytest.mark.parametrize(
    ("new", "refused"),
    [
        (put("Shoot", f"{POOL}.zones", [{"name": "a"}]), "zones[0]: Invalid value: must be a string, not an object"),
        (put("Shoot", f"{POOL}.zones", True), "workers[0].zones: Invalid value: must be a list, not a boolean"),
        (put("Shoot", f"{POOL}.volume.size", 20), "volume.size: Invalid value: must be a string, not a number"),
        (put("Shoot", f"{POOL}.volume.size", "1e99999999999"), ""),
        (put("Shoot", f"{POOL}.volume.size", "1e-99999999999"), "volume.size: Invalid value"),
        (put("Shoot", f"{POOL}.machine.image.version", f"1.0.0-{'9' * 5000}"), "machine.image.version"),
        (put("Shoot", f"{POOL}.machine.image.version", "9" * 5000), "must be a semantic version"),
        (put("Shoot", "spec.kubernetes.version", "9" * 5000), "spec.kubernetes.version: Invalid value"),
        (put("Shoot", "spec.accessRestrictions", "eu"), "spec.accessRestrictions: Invalid value: must be a list"),
        (put("Shoot", "spec.accessRestrictions", ["eu"]), "spec.accessRestrictions[0]: Invalid value: must be an obj"),
        (put("Shoot", "spec.controlPlane", "a"), "spec.controlPlane: Invalid value: must be an object"),
        (put("Shoot", "spec.cloudProfile.name", "../secrets"), 'CloudProfile "../secrets" not found'),
        (put("CloudProfile", "spec.caBundle", "é"), "spec.caBundle: Invalid value"),
        (put("CloudProfile", "spec.kubernetes.versions", STARTED_FIRST), "must be the latest patch version"),
        (put("NamespacedCloudProfile", "spec.parent.kind", "Shoot"), "spec.parent.kind: Unsupported value"),
    ],
)
def test_a_refusal_names_the_field(server: ApiServer, new: dict[str, Any], refused: str) -> None:
    """These manifests made a step fail, which refused them without the field and the rule."""
    answer = server.create(new)
    assert bool(answer.refusal) is bool(refused)
    assert refused in answer.refusal
    assert answer.code < 500


def test_a_stored_value_of_a_wrong_type_can_be_corrected(server: ApiServer) -> None:
    """A Shoot from before the schema knew its zones would refuse every change, also the one that corrects it."""
    old = put("Shoot", f"{POOL}.zones", [{"name": "a"}])
    assert "zones[0]" in server.update(put("Shoot", f"{POOL}.zones", [{"name": "b"}]), old).refusal
    assert server.update(whole("Shoot", "v1beta2"), old).refusal == ""


class Watched(dict[str, Any]):
    """A JSON object that notes the fields that the modules of ``cloudprofile`` read."""

    def __init__(self, value: Mapping[str, Any], schema: Schema, path: str, undeclared: set[str]) -> None:
        super().__init__(
            {
                name: watched(child, schema.field(name) or ANY, field_path(path, name), undeclared)
                for name, child in value.items()
            }
        )
        self._schema, self._path, self._undeclared = schema, path, undeclared

    def __getitem__(self, name: str) -> Any:
        self._note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def _note(self, name: str) -> None:
        is_declared = self._schema.is_declared(name) or self._schema.field(name) not in {None, ANY}
        if not is_declared and "/cloudprofile/" in sys._getframe(2).f_code.co_filename:
            self._undeclared.add(field_path(self._path, name))


def watched(value: Any, schema: Schema, path: str, undeclared: set[str]) -> Any:
    """Return a value whose objects are watched."""
    if isinstance(value, dict):
        return Watched(value, schema, path, undeclared)
    if isinstance(value, list):
        items = schema.items or ANY
        return [watched(child, items, items_path(path), undeclared) for child in value]
    return value


@pytest.fixture
def undeclared(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The fields without a schema that rules read from the objects of requests."""
    found: set[str] = set()
    tree = RawObject.tree

    def watching(raw: RawObject) -> Any:
        obj = tree(raw)
        return watched(obj, schema_of(obj), ROOT, found)

    monkeypatch.setattr(RawObject, "tree", watching)
    return found


def test_rules_read_declared_fields_only(server: ApiServer, undeclared: set[str]) -> None:
    """The guard checks the types of declared fields; a rule that reads another one fails on what it holds."""
    for kind, version in KINDS:
        server.create(whole(kind, version))
    for request in hostile(range(MANY)):
        sent(server, request)
    assert undeclared == set()
