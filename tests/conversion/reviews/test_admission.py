"""Admission: the envelope, and giving an object the stash back that a client of an old version dropped."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from restow.conversion import Graph, KindGraph, ObjectError
from restow.conversion.model.values import same
from restow.conversion.reviews.admission import (
    AdmissionError,
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReview,
    GroupVersionKind,
    GroupVersionResource,
    json_patch,
)
from restow.conversion.reviews.admissionsteps import restore_stash
from restow.conversion.testing import objects
from tests.conversion.randomkinds import GROUP as RANDOM_GROUP
from tests.conversion.randomkinds import KIND as RANDOM_KIND
from tests.conversion.randomkinds import kinds
from tests.conversion.server.gateways import CRD, GROUP, HUB, KIND, OLD, graph, new, old

STASH = graph.kind(GROUP, KIND).stash_key
RELAXED = settings(suppress_health_check=list(HealthCheck), deadline=None)


# The envelope.


def review(**request: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": GROUP, "version": "v1", "kind": KIND},
            "resource": {"group": GROUP, "version": "v1", "resource": "gateways"},
            "operation": "UPDATE",
            "userInfo": {"username": "jane", "groups": ["system:authenticated"], "extra": {"scopes": ["a"]}},
            **request,
        },
    }


def read(document: Any) -> AdmissionReview:
    return AdmissionReview.of(json.dumps(document).encode())


def test_what_a_step_sees_is_what_the_server_sent() -> None:
    """A field under another name would be empty, and a step would decide without it."""
    asked = {"group": GROUP, "version": "v1alpha1", "kind": KIND}
    request = read(
        review(
            name="g",
            namespace="default",
            subResource="status",
            requestKind=asked,
            requestResource={"group": GROUP, "version": "v1alpha1", "resource": "gateways"},
            requestSubResource="status",
            object=new(),
            oldObject=None,
            dryRun=True,
            options={"kind": "UpdateOptions"},
            somethingNewer=1,
        )
    ).request
    assert (request.uid, request.operation, request.name, request.namespace) == ("u-1", "UPDATE", "g", "default")
    assert request.kind == GroupVersionKind(GROUP, "v1", KIND)
    assert request.resource == GroupVersionResource(GROUP, "v1", "gateways")
    assert request.request_kind == GroupVersionKind(GROUP, "v1alpha1", KIND)
    assert request.request_resource == GroupVersionResource(GROUP, "v1alpha1", "gateways")
    assert (request.sub_resource, request.request_sub_resource) == ("status", "status")
    assert (request.object, request.old_object, request.dry_run) == (new(), None, True)
    assert (request.user_info.username, request.user_info.groups) == ("jane", ("system:authenticated",))
    assert request.user_info.extra == {"scopes": ["a"]}
    assert request.options == {"kind": "UpdateOptions"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 1}}',
        json.dumps({**review(), "kind": "ConversionReview"}).encode(),
        json.dumps({**review(), "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
        json.dumps(review(object=[])).encode(),
    ],
)
def test_what_is_no_review_is_told_so(body: bytes) -> None:
    """Without a uid there is nothing to answer to; a guess would be refused by the server with less of a reason."""
    with pytest.raises(AdmissionError):
        AdmissionReview.of(body)


def answered(verdict: AdmissionResponse) -> dict[str, Any]:
    answer = json.loads(read(review()).answer(verdict))
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"].pop("uid") == "u-1"
    return dict(answer["response"])


def test_verdicts_become_answers() -> None:
    """The server reads exactly these fields; a patch without its type, or with a refusal, is an error to it."""
    patch = ({"op": "add", "path": "/a", "value": 1},)
    assert answered(AdmissionResponse()) == {"allowed": True}
    assert answered(AdmissionResponse(warnings=("mind",))) == {"allowed": True, "warnings": ["mind"]}
    encoded = base64.b64encode(b'[{"op":"add","path":"/a","value":1}]').decode()
    assert answered(AdmissionResponse(patch=patch)) == {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
    assert answered(AdmissionResponse(allowed=False, message="no", warnings=("mind",), patch=patch)) == {
        "allowed": False,
        "status": {"message": "no", "code": 403},
        "warnings": ["mind"],
    }
    assert answered(AdmissionResponse(allowed=False, message="no", code=422))["status"]["code"] == 422


# Patches.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, "", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b/c", "~d", "~1", "", "é"]), inner, max_size=4)
    ),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b/c", "~d", "~1", "", "é"]), JSON, max_size=4)


def patched(before: Any, operations: Any) -> Any:
    """Apply a JSON patch of object members as RFC 6902 says."""
    after = copy.deepcopy(before)
    for operation in operations:
        place = after
        *way, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        for step in way:
            place = place[step]
        assert (last in place) == (operation["op"] != "add")
        if operation["op"] == "remove":
            del place[last]
        else:
            place[last] = copy.deepcopy(operation["value"])
    return after


@RELAXED
@given(OBJECTS, OBJECTS)
def test_a_patch_turns_one_object_into_the_other(before: Any, after: Any) -> None:
    """Names with / and ~, nulls, and numbers of another type included: the server applies it blindly."""
    assert same(patched(before, json_patch(before, after)), after)
    assert list(json_patch(before, before)) == []


# Restoring.


@dataclass(frozen=True)
class Update:
    """What the server does around the step for an update by a client of another version.

    ``stored`` is at the version that the step is registered for, ``sent`` at the client's.
    """

    graph: Graph
    stored: dict[str, Any]
    sent: dict[str, Any]
    stored_status: bool = False

    @property
    def here(self) -> str:
        return str(self.stored["apiVersion"])

    @property
    def received(self) -> dict[str, Any]:
        """The object of the request, as the step sees it."""
        return self.graph.convert(self.sent, self.here)

    @property
    def admitted(self) -> dict[str, Any]:
        """The object of the request after the step."""
        return dict(patched(self.received, self.verdict().patch))

    def verdict(self, **more: Any) -> AdmissionResponse:
        def kind(obj: Any) -> GroupVersionKind:
            group, _, version = obj["apiVersion"].partition("/")
            return GroupVersionKind(group, version, obj["kind"])

        request = AdmissionRequest(
            **{
                "uid": "u",
                "kind": kind(self.stored),
                "resource": GroupVersionResource(),
                "operation": "UPDATE",
                "request_kind": kind(self.sent),
                "object": self.received,
                "old_object": self.stored,
                **more,
            }
        )
        return restore_stash(self.graph, request, stored_status=self.stored_status)


def without_stash(obj: dict[str, Any], key: str = STASH) -> dict[str, Any]:
    if key not in obj["metadata"].get("annotations", {}):
        return obj
    annotations = {name: text for name, text in obj["metadata"]["annotations"].items() if name != key}
    metadata = {name: value for name, value in obj["metadata"].items() if name != "annotations"}
    return {**obj, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


RICH = new(
    timeout="1m30s",
    tls={"certificate": "c", "minVersion": "1.3"},
    listeners=[{"name": "a", "weight": 3}, {"name": "b"}],
)


def test_what_the_client_could_not_see_survives_its_replace() -> None:
    """This is what the step is for: without it a replace at the old version silently resets what only the hub says."""
    shown = graph.convert(RICH, OLD)
    sent = without_stash({**shown, "spec": {**shown["spec"], "host": "elsewhere.example.com"}})
    update = Update(graph, RICH, sent)
    assert update.received["spec"]["timeout"] == "0s", "the loss that the test is about"
    assert update.admitted == {**RICH, "spec": {**RICH["spec"], "host": "elsewhere.example.com"}}


def test_an_edit_wins_over_what_is_restored() -> None:
    """If the restored value won, an old client could not change a field that a newer client made richer."""
    shown = graph.convert(RICH, OLD)
    sent = without_stash({**shown, "spec": {**shown["spec"], "timeoutSeconds": 20, "listeners": [{"title": "b"}]}})
    admitted = Update(graph, RICH, sent).admitted
    assert admitted["spec"] == {**RICH["spec"], "timeout": "20s", "listeners": [{"name": "b"}]}


def test_annotations_of_the_client_stay() -> None:
    """The patch adds to what was sent; it must not put the old annotations back."""
    stored = {**RICH, "metadata": {**RICH["metadata"], "annotations": {"old": "1", "a/b~c": "1"}}}
    sent = without_stash(graph.convert(stored, OLD))
    sent["metadata"]["annotations"] = {"a/b~c": "2"}
    admitted = Update(graph, stored, sent).admitted
    assert admitted == {**stored, "metadata": {**stored["metadata"], "annotations": {"a/b~c": "2"}}}


def test_what_only_old_versions_say_survives_as_well() -> None:
    """The hub has a stash too, for fields that it lacks; it comes and goes with the client's."""
    stored = graph.convert(old(timeoutSeconds=5, listeners=[{"title": "x"}]), HUB)
    stored["metadata"]["annotations"] = {STASH: '{"format":1,"kept":{"v9":{"spec.x":{"is":1}}}}'}
    sent = without_stash(graph.convert(stored, OLD))
    assert STASH not in Update(graph, stored, sent).received["metadata"].get("annotations", {})
    assert Update(graph, stored, sent).admitted == stored


def test_a_stored_status_keeps_its_part() -> None:
    """The server replaces the status by the stored one after admission; its part of the stash has to outlive that."""
    stored = {**RICH, "status": {"phase": "Draining"}}
    sent = without_stash({name: value for name, value in graph.convert(stored, OLD).items() if name != "status"})
    kept = graph.convert(Update(graph, stored, sent, stored_status=True).admitted, OLD)
    written = {**kept, "status": graph.convert(stored, OLD)["status"]}
    assert graph.convert(written, HUB) == stored
    plain = graph.convert(Update(graph, stored, sent).admitted, OLD)
    assert "status" not in plain, "where status is a plain field, a client that leaves it out removes it"


def test_a_stored_status_does_not_come_from_nowhere() -> None:
    """A client cannot add a status to an object that has none stored."""
    sent = without_stash({**graph.convert(RICH, OLD), "status": {"ready": True}})
    assert Update(graph, RICH, sent, stored_status=True).admitted == RICH


@pytest.mark.parametrize(
    "more",
    [
        {"operation": "CREATE", "old_object": None},
        {"operation": "DELETE", "object": None},
        {"operation": "CONNECT"},
        {"sub_resource": "status"},
        {"request_kind": None},
        {"request_kind": GroupVersionKind(GROUP, "v1", KIND)},
        {"kind": GroupVersionKind(GROUP, "v1", "Other"), "request_kind": GroupVersionKind(GROUP, "v1alpha1", "Other")},
    ],
)
def test_everything_else_passes(more: dict[str, Any]) -> None:
    """A client of the hub sees the annotation for what it is, and may remove it."""
    sent = without_stash(graph.convert(RICH, OLD))
    assert Update(graph, RICH, sent).verdict().patch
    assert Update(graph, RICH, sent).verdict(**more) == AdmissionResponse()


def test_a_stash_that_was_sent_counts() -> None:
    """A client that restores a backup means the stash in it, not the one of the object it overwrites."""
    backup = graph.convert(new(timeout="2h", tls={"minVersion": "1.2"}), OLD)
    assert Update(graph, RICH, backup).verdict() == AdmissionResponse()


def test_nothing_is_patched_where_nothing_was_kept() -> None:
    """Most objects have no stash at all; a patch would cost their clients a conversion."""
    plain = new(timeout="5s")
    assert Update(graph, plain, without_stash(graph.convert(plain, OLD))).verdict() == AdmissionResponse()


def test_an_annotation_that_is_no_stash_does_not_count() -> None:
    """Other text under the annotation's name must not hide that the stash is gone, nor survive in its place."""
    sent = graph.convert(RICH, OLD)
    sent["metadata"]["annotations"] = {STASH: "whatever"}
    assert Update(graph, RICH, sent).admitted == RICH


def test_an_object_that_cannot_be_converted_is_an_error() -> None:
    """The caller fails closed with the sentence; a guess would lose what the step is there to keep."""
    update = Update(graph, RICH, graph.convert(RICH, OLD))
    with pytest.raises(ObjectError):
        update.verdict(request_kind=GroupVersionKind(GROUP, "v9", KIND))


@st.composite
def edits(draw: st.DrawFn) -> tuple[Graph, KindGraph, dict[str, Any], dict[str, Any], str]:
    """Draw a kind, a stored object, another one to take edits from, and the client's version."""
    found, crd = draw(kinds())
    here, there = draw(st.sampled_from([("v1", "v2"), ("v2", "v1")]))
    stored, other = (draw(objects(crd.version(here).schema, f"{RANDOM_GROUP}/{here}", RANDOM_KIND)) for _ in range(2))
    return found, found.kind(RANDOM_GROUP, RANDOM_KIND), stored, other, f"{RANDOM_GROUP}/{there}"


@RELAXED
@given(edits(), st.data())
def test_an_edit_without_the_stash_gives_what_it_gives_with_it(sample: Any, data: st.DataObject) -> None:
    """The law of the step, over random rules: whether its client kept the annotation makes no difference."""
    found, kind, stored, other, there = sample
    shown, others = found.convert(stored, there), found.convert(other, there)
    names = sorted({*shown, *others} - {"apiVersion", "kind", "metadata"})
    taken = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    edited = {name: value for name, value in shown.items() if name not in taken}
    edited |= {name: others[name] for name in taken if name in others}
    assume(isinstance(edited.get("metadata"), dict))
    with_stash = found.convert(edited, stored["apiVersion"])
    update = Update(found, stored, without_stash(edited, kind.stash_key))
    assert same(update.admitted, with_stash)


def test_the_kind_of_these_tests_has_a_status_subresource() -> None:
    """Without the status subresource the cases above would not be those of a real CRD."""
    assert all(version.has_status_subresource for version in CRD.versions)
