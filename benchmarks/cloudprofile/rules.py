"""Measure the cost of the rules alone, and compare the objects per second of both webhooks with it.

The webhooks are those of a running ``restow operator``, called over one TLS keep-alive connection. In addition to the
rules, a webhook does HTTP and TLS, decodes and encodes reviews, and for admission reads the profile from the API
server.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from benchmarks.cloudprofile.content import Sizes, changed_profile, children, profile, shoot, shoots
from benchmarks.conversion.load import Load, fire
from restow.cloudprofile.controllers.index import transform_namespaced
from restow.cloudprofile.objects import CLOUD_PROFILES, GROUP, HUB, OLD, SHOOTS, profile_of
from restow.cloudprofile.profiles.admission import judge
from restow.cloudprofile.profiles.reconciliation import decide_namespaced_status
from restow.cloudprofile.shoots.admission import shoot_findings, shoot_warnings
from restow.cloudprofile.shoots.profile import offering
from restow.operator.family import conversions

__all__ = ["Rates", "RuleCosts", "measure_rates", "rule_costs"]

Json = dict[str, Any]

_SHOOTS_IN_A_REVIEW: Final = 100
_USER: Final = {"username": "bench", "groups": ["system:authenticated"]}


@dataclass(frozen=True, slots=True)
class Rates:
    """Objects per second of one kind of review: by the webhook, and by its rules alone."""

    what: str
    webhook: float
    rules: float


@dataclass(frozen=True, slots=True)
class RuleCosts:
    """The costs of the rules in process, without any request.

    Attributes:
        status: seconds of CPU for the first status of one NamespacedCloudProfile.
        same_status: seconds of CPU if the status is already right.
        change: seconds of CPU to judge a change of the CloudProfile, with all profiles that use it.
        status_bytes: the size of the status of one NamespacedCloudProfile as JSON.
        kept_bytes: the size of the part that the operator keeps in memory.
    """

    status: float
    same_status: float
    change: float
    status_bytes: int
    kept_bytes: int


def rule_costs(sizes: Sizes) -> RuleCosts:
    """Measure the rules in process; the best of three counts, because other programs use the machine too."""
    now, parent = datetime.now(UTC), profile(sizes)
    related = list(children(sizes))
    child = related[0]
    status = dict(decide_namespaced_status(child, parent, now).patch)
    settled = {**child, "status": status}
    changed = {**parent, "spec": changed_profile(sizes)}
    users = list(shoots(sizes))

    def judged() -> None:
        found = judge(changed, parent, children=related, shoots=users, now=now)
        assert not found.findings, found.findings

    assert not decide_namespaced_status(settled, parent, now).patch
    return RuleCosts(
        _cpu(lambda: decide_namespaced_status(child, parent, now)),
        _cpu(lambda: decide_namespaced_status(settled, parent, now)),
        _cpu(judged),
        len(msgspec.json.encode(status)),
        len(transform_namespaced(settled)["status"]),
    )


def _cpu(call: Callable[[], Any]) -> float:
    used = []
    for _ in range(3):
        begun = time.process_time()
        call()
        used.append(time.process_time() - begun)
    return min(used)


async def measure_rates(port: int, sizes: Sizes, requests: int) -> list[Rates]:
    """Call both webhooks of an operator at this port."""
    large = profile(sizes)
    many = [shoot(sizes, number) for number in range(_SHOOTS_IN_A_REVIEW)]
    old = f"{GROUP}/{OLD}"
    graph, now = conversions(), datetime.now(UTC)
    one = many[0]
    reference = profile_of(one)
    assert reference is not None
    profiles = {reference: large}

    def admitted() -> None:
        offered = offering(profiles)
        found = shoot_findings(one, None, offered, now)
        assert not found, found
        list(shoot_warnings(one, offered.offer(reference) or {}, now))

    cells: tuple[tuple[str, str, Json, int, int, Callable[[], Any]], ...] = (
        (
            "conversion: the CloudProfile to v1beta1",
            f"/convert/{CLOUD_PROFILES.full_name}",
            _conversion([large], old),
            1,
            requests,
            lambda: graph.convert(large, old),
        ),
        (
            f"conversion: {_SHOOTS_IN_A_REVIEW} Shoots to v1beta1",
            f"/convert/{SHOOTS.full_name}",
            _conversion(many, old),
            _SHOOTS_IN_A_REVIEW,
            requests,
            lambda: [graph.convert(each, old) for each in many],
        ),
        ("admission: a Shoot is validated", "/admit/shoots", _admission(one), 1, requests, admitted),
    )
    found = []
    for what, path, body, count, times, rules in cells:
        volley = await fire(Load(port, path, msgspec.json.encode(body), times, 1), _trust())
        _check(what, msgspec.json.decode(volley.answer)["response"])
        rules()  # not counted, like each connection's first request
        begun = time.perf_counter()
        for _ in range(times):
            rules()
        seconds = time.perf_counter() - begun
        found.append(Rates(what, len(volley.latencies) * count / volley.seconds, times * count / seconds))
    return found


def _check(what: str, response: Json) -> None:
    if response.get("allowed") is False or (response.get("result") or {}).get("status") == "Failed":
        message = f"{what}: {response}"
        raise RuntimeError(message)


def _conversion(objects: list[Json], target: str) -> Json:
    request = {"uid": "u", "desiredAPIVersion": target, "objects": objects}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}


def _admission(obj: Json) -> Json:
    what = {"group": GROUP, "version": HUB}
    request = {
        "uid": "u",
        "kind": what | {"kind": obj["kind"]},
        "resource": what | {"resource": SHOOTS.plural},
        "requestKind": what | {"kind": obj["kind"]},
        "requestResource": what | {"resource": SHOOTS.plural},
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"]["namespace"],
        "operation": "CREATE",
        "userInfo": _USER,
        "object": obj,
        "oldObject": None,
        "dryRun": False,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _trust() -> ssl.SSLContext:
    """Return a context that verifies nothing: the operator's certificate has another name than the clients use here."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
