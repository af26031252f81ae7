"""Admission on the same server."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from typing import Any

import pytest

from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server import Limits, RestoreStash, ServerPhase
from restow.conversion.server import admission as admitting
from tests.conversion.server.apiserver import ApiServer, review
from tests.conversion.server.gateways import CRD, GROUP, HUB, KIND, OLD, graph, new, old
from tests.conversion.server.rawhttp import Answer, connected
from tests.conversion.server.webhooks import Authority, Running, running


def admission(**request: Any) -> bytes:
    kind = {"group": GROUP, "version": "v1", "kind": KIND}
    resource = {"group": GROUP, "version": "v1", "resource": "gateways"}
    request = {"uid": "u-1", "kind": kind, "resource": resource, "operation": "UPDATE", **request}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


async def _by_name(request: AdmissionRequest) -> AdmissionResponse:
    match request.name:
        case "patch":
            return AdmissionResponse(patch=({"op": "add", "path": "/x", "value": 1},), warnings=("patched",))
        case "denied":
            return AdmissionResponse(allowed=False, message="not today")
        case "broken":
            raise RuntimeError("secret-value")
        case "inconvertible":
            graph.convert(old(), f"{GROUP}/v9")
        case "slow":
            await asyncio.sleep(60)
    return AdmissionResponse()


async def asked(webhook: Running, path: str, body: bytes) -> Answer:
    async with connected(webhook) as client:
        return await client.post(body, path=path)


async def responded(webhook: Running, path: str, **request: Any) -> dict[str, Any]:
    answer = await asked(webhook, path, admission(**request))
    assert answer.status == 200
    response = json.loads(answer.body)["response"]
    assert response.pop("uid") == "u-1"
    return dict(response)


@pytest.fixture
async def webhook(authority: Authority) -> Any:
    """A webhook with one step, mounted both ways."""
    limits = Limits(admission_seconds=0.05, object=50_000, admission=100_000, drain_seconds=0)
    async with running(authority, limits=limits, validating={"names": _by_name}, mutating={"names": _by_name}) as found:
        yield found


async def test_steps_decide(webhook: Running) -> None:
    """Verdict, message, warnings and patch arrive as the step gave them."""
    assert await responded(webhook, "/admit/names", name="fine") == {"allowed": True}
    assert await responded(webhook, "/admit/names", name="denied") == {
        "allowed": False,
        "status": {"message": "not today", "code": 403},
    }
    patched = await responded(webhook, "/mutate/names", name="patch")
    assert (patched["allowed"], patched["warnings"], patched["patchType"]) == (True, ["patched"], "JSONPatch")
    assert json.loads(base64.b64decode(patched["patch"])) == [{"op": "add", "path": "/x", "value": 1}]


@pytest.mark.parametrize(
    ("path", "name", "what", "code"),
    [
        ("/admit/names", "broken", "failed with RuntimeError", 500),
        ("/mutate/names", "broken", "failed with RuntimeError", 500),
        ("/admit/names", "inconvertible", "cannot read the object: Gateway.edge.example.dev has no version v9", 422),
        ("/admit/names", "slow", "did not decide within 0.05 seconds", 500),
        ("/admit/names", "patch", "wants to patch, which a validating step cannot", 500),
    ],
)
async def test_a_step_that_fails_refuses(
    webhook: Running, path: str, name: str, what: str, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Failing open would admit objects that no step has checked; the message names the step and shows no value."""
    with caplog.at_level(logging.DEBUG):
        response = await responded(webhook, path, name=name)
    assert (response["allowed"], response["status"]["code"]) == (False, code)
    message = response["status"]["message"]
    assert message.startswith(f"the admission step names {what}")
    assert "secret" not in message + caplog.text
    line = json.loads(next(each.message for each in caplog.records if each.name.startswith("restow")))
    assert (line["event"], line["step"], line["kind"]) == ("admission failed", "names", KIND)


async def test_what_is_no_admission_review_is_refused(webhook: Running) -> None:
    """A ConversionReview at the wrong path, garbage, or more than two objects may have."""
    assert (await asked(webhook, "/admit/names", review(old()))).status == 400
    assert (await asked(webhook, "/admit/names", b"")).status == 400
    assert (await asked(webhook, "/admit/names", admission(object=new(host="x" * 110_000)))).status == 413
    assert (await asked(webhook, "/admit/other", admission())).status == 404
    assert (await asked(webhook, "/names", admission())).status == 404


async def test_reviews_that_take_much_memory_are_refused_or_wait(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bytes on the wire may take a hundred decoded; and of what may be decoded only so much is at once."""
    running_now, most = 0, 0

    async def slow(request: AdmissionRequest) -> AdmissionResponse:
        nonlocal running_now, most
        assert request.object
        running_now += 1
        most = max(most, running_now)
        await asyncio.sleep(0.01)
        running_now -= 1
        return AdmissionResponse()

    async with running(authority, validating={"slow": slow}) as webhook:
        answer = await asked(webhook, "/admit/slow", admission(object={"x": [{}] * 400_000}))
        assert (answer.status, "600000 commas and brackets" in answer.message) == (413, True)
        body = admission(object={"x": [{}] * 200_000})
        answers = await asyncio.gather(*(asked(webhook, "/admit/slow", body) for _ in range(4)))
        assert [each.status for each in answers] == [200] * 4
        assert most == 1
        monkeypatch.setattr(admitting, "_MOST_WAITING", 0)
    async with running(authority, validating={"slow": slow}) as webhook:
        answers = await asyncio.gather(*(asked(webhook, "/admit/slow", body) for _ in range(4)))
        assert sorted(each.status for each in answers) == [200, 429, 429, 429]


async def test_verdicts_are_counted(webhook: Running) -> None:
    """By step and result, so that one sees a step that fails."""
    for name in ("fine", "denied", "broken", "fine"):
        await responded(webhook, "/admit/names", name=name)
    counters = webhook.webhook.counts.snapshot().counters
    found = {key[1:]: value for key, value in counters.items() if key[0] == "restow_admission_reviews_total"}
    assert found == {("names", "allowed"): 2, ("names", "denied"): 1, ("names", "failed"): 1}


async def test_steps_wait_for_the_start_too(authority: Authority) -> None:
    """A step whose caches are empty would decide wrongly."""
    async with running(authority, phase=ServerPhase.STARTING, validating={"names": _by_name}) as starting:
        answer = await asked(starting, "/admit/names", admission(name="fine"))
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


async def test_the_stash_is_restored_by_what_the_server_mounts(authority: Authority, api: ApiServer) -> None:
    """The whole way of a replace at the old version, as an API server goes it: convert, ask the step, patch, store."""
    rich = {**new(timeout="1m30s", tls={"minVersion": "1.3"}), "status": {"phase": "Draining"}}
    async with running(authority, mutating={"conversion-stash": RestoreStash(graph, [CRD])}) as webhook:
        (shown,) = await api.convert(webhook.url, rich, to=OLD)
        sent = {**shown, "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"}}
        sent["spec"] = {**shown["spec"], "host": "elsewhere.example.com"}
        del sent["status"]
        (received,) = await api.convert(webhook.url, sent, to=HUB)
        request_kind = {"group": GROUP, "version": "v1alpha1", "kind": KIND}
        response = await responded(
            webhook, "/mutate/conversion-stash", requestKind=request_kind, object=received, oldObject=rich
        )
        for operation in json.loads(base64.b64decode(response["patch"])):
            *way, last = operation["path"].split("/")[1:]
            place = received
            for name in way:
                place = place[name]
            place[last] = operation["value"]
        (stored_at_old,) = await api.convert(webhook.url, received, to=OLD)
        (stored,) = await api.convert(webhook.url, {**stored_at_old, "status": shown["status"]}, to=HUB)
    assert stored == {**rich, "spec": {**rich["spec"], "host": "elsewhere.example.com"}}
