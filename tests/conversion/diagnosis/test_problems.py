"""What API servers say, and the command that follows from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restow.conversion.certificates import Service, Url
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.diagnosis import ProblemKind
from restow.conversion.diagnosis.namespaces import unattributed
from restow.conversion.diagnosis.problems import (
    called,
    left_version_problem,
    names,
    namespace_problem,
    of_crd,
    refusal,
    webhook_problem,
)
from restow.crds import Crd
from tests.migrator import builders as b

SERVICE = Service("system", "webhook", "/convert")
FAILED = "conversion webhook for example.com/v1, Kind=Widget failed: "
POST = FAILED + 'Post "https://webhook.system.svc:443/convert?timeout=30s": '


def of(*, stored: tuple[str, ...] = ("v2",), annotations: dict[str, str] | None = None, **more: Any) -> Crd:
    """A CRD of v1 and v2, with conditions, a status or metadata."""
    document = b.crd_document(stored=stored)
    document["metadata"] = document["metadata"] | {"annotations": annotations or {}} | more.pop("metadata", {})
    established = {"type": "Established", "status": "True"}
    document["status"] = document["status"] | {"conditions": more.pop("conditions", [established])}
    return Crd.from_document(document)


@pytest.mark.parametrize(
    ("message", "why", "said"),
    [
        (POST + 'service "webhook" not found', 'service "webhook" not found', None),
        (POST + "dial tcp 10.0.0.1:443: connect: refused", "dial tcp 10.0.0.1:443: connect: refused", None),
        (FAILED + "Widget default/a: .spec.size: no number", None, "Widget default/a: .spec.size: no number"),
        ("storage is (re)initializing", None, "storage is (re)initializing"),
    ],
)
def test_a_call_that_failed_is_no_object_that_failed(message: str, why: str | None, said: str | None) -> None:
    """Taken for each other, a person edits objects while the webhook is down, or restarts a webhook that is well."""
    assert called(message) == why
    assert said is None or refusal(message) == said


@pytest.mark.parametrize(
    ("why", "server", "annotations", "kind", "command"),
    [
        ('service "webhook" not found', SERVICE, {}, "WebhookUnreachable", "kubectl -n system get services"),
        (
            'no endpoints available for service "webhook"',
            SERVICE,
            {},
            "WebhookUnreachable",
            "kubectl -n system get endpointslices,pods -l kubernetes.io/service-name=webhook",
        ),
        (
            "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            SERVICE,
            {},
            "CertificateNotTrusted",
            "kubectl patch crd widgets.example.com --type=merge",
        ),
        (
            "x509: certificate has expired or is not yet valid",
            SERVICE,
            {"cert-manager.io/inject-ca-from": "system/webhook"},
            "CertificateNotTrusted",
            "kubectl -n cert-manager logs deploy/cert-manager-cainjector",
        ),
        ("EOF", Url("https://host.example.com/convert"), {}, "WebhookUnreachable", "curl -vk https://host.example.com"),
        ("EOF", None, {}, "WebhookUnreachable", "curl -vk"),
    ],
)
def test_a_webhook_that_is_needed_is_repaired(
    why: str, server: Address | None, annotations: dict[str, str], kind: str, command: str
) -> None:
    """The first command is the one that a person on call runs: it must fit the cause."""
    found = webhook_problem(of(annotations=annotations), server, why, "it is needed")
    assert found.kind == kind and found.command.startswith(command)
    assert (
        "it is needed. If the webhook is gone for good, run restow unwire widgets.example.com --although-needed: "
        in (found.remedy)
    )


def test_a_webhook_that_is_not_needed_goes() -> None:
    """Starting it again for nothing would leave the CRD to the next outage."""
    found = webhook_problem(of(), SERVICE, "EOF", "")
    assert found.command == "restow unwire widgets.example.com" and "--although-needed" not in found.remedy


@pytest.mark.parametrize(
    ("document", "kinds"),
    [
        (of(), []),
        (
            of(conditions=[{"type": "NamesAccepted", "status": "False", "message": '"widgets" is already in use'}]),
            [ProblemKind.NOT_SERVED],
        ),
        (
            of(
                metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
                conditions=[{"type": "Terminating", "status": "True", "message": "could not list instances"}],
            ),
            [ProblemKind.DELETION_STUCK],
        ),
    ],
)
def test_what_the_crd_shows(document: Crd, kinds: list[ProblemKind]) -> None:
    """A CRD that is well must show nothing, else no one reads the rest."""
    assert [each.kind for each in of_crd(document)] == kinds


def test_only_namespaces_that_wait_for_this_crd_count() -> None:
    """A namespace that waits for a Pod would be blamed on the CRD."""
    message = "Some resources are remaining: widgets.example.com has 1 resource instances"
    condition = {"type": "NamespaceContentRemaining", "status": "True", "message": message}
    stuck = {"metadata": {"name": "a"}, "status": {"phase": "Terminating", "conditions": [condition]}}
    found = namespace_problem(of(), stuck)
    assert found is not None and "the namespace a cannot be deleted" in found.what
    other = condition | {"message": "Some resources are remaining: pods. has 1 resource instances"}
    assert namespace_problem(of(), stuck | {"status": {"phase": "Terminating", "conditions": [other]}}) is None
    assert namespace_problem(of(), stuck | {"status": {"phase": "Active"}}) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Some resources are remaining: gadgets.x.io has 1, widgets.example.com has 2 resource instances", True),
        ("Some resources are remaining: superwidgets.example.com has 1 resource instances", False),
        ("Some resources are remaining: widgets.example.com.au has 1 resource instances", False),
        (f'1 remaining: {FAILED}Post "https://a": EOF', True),
        ("1 remaining: conversion webhook for example.com/v1, Kind=Gadget failed: EOF", False),
        ("unexpected items still remain in namespace: a for gvr: example.com/v1, Resource=widgets", True),
        ("unexpected items still remain in namespace: a for gvr: example.com/v1, Resource=gadgets", False),
    ],
)
def test_a_condition_leads_to_the_crd_that_it_is_about(message: str, expected: bool) -> None:
    """Another kind of the same group would be diagnosed, found well, and the namespace would go on waiting."""
    assert names(of(), message) is expected


def test_what_no_crd_explains_is_shown_with_a_command() -> None:
    """A namespace waits for Pods or for an aggregated API too; a page of CRDs that are well would hide that."""
    waits = {
        "NamespaceDeletionDiscoveryFailure": "Discovery failed for some groups: metrics.k8s.io/v1beta1: stale",
        "NamespaceContentRemaining": "Some resources are remaining: pods. has 1 resource instances, "
        "widgets.example.com has 2 resource instances",
        "NamespaceFinalizersRemaining": "Some content has finalizers remaining: example.com/f in 3 resource instances",
    }
    discovery, left = unattributed("a", waits, [of()])
    assert "metrics.k8s.io" in discovery.what and discovery.command == "kubectl get apiservices"
    assert "pods. has 1" in left.what and "example.com/f" in left.what and "widgets" not in left.what
    assert left.command.endswith("-n a")
    only = {"NamespaceContentRemaining": "Some resources are remaining: widgets.example.com has 2 resource instances"}
    assert list(unattributed("a", only, [of()])) == []
    assert ["widgets" in each.what for each in unattributed("a", only, [])] == [True]


LEFT = "example.com/v1alpha1"


def keys(*names: str) -> list[str]:
    """The keys in etcd of objects."""
    return [f"/registry/example.com/widgets/{name}" for name in names]


def test_objects_of_a_version_that_left_have_a_command_each() -> None:
    """A hundred of them would make a line that no terminal shows; and a name in a wrong path deletes another object."""
    cluster_scoped = replace(of(stored=("v0", "v2")), namespaced=False)
    found = left_version_problem(cluster_scoped, LEFT, keys(*(f"w{number}" for number in range(7))))
    assert found.what.startswith("Widget w0, w1, w2, w3, w4 and 2 more are stored at v1alpha1, ")
    assert len(found.instead) == 7 and "/apis/example.com/v2/widgets/w6?" in found.instead[6]
    assert '"name": "v0"' in found.command, "the API server refuses a change that leaves v0 out"
    unnamed = left_version_problem(of(), LEFT, [])
    assert "Widget (one that the API server does not name) is stored at v1alpha1" in unnamed.what
    assert unnamed.instead == () and "delete" not in unnamed.remedy


def test_the_page_shows_what_is_printed() -> None:
    """A reader searches the page for the words on the terminal."""
    howto = Path(__file__).parents[3] / "docs" / "howto"
    page = (howto / "troubleshooting.md").read_text()
    address = Service("my-system", "my-webhook", "/convert")
    stored_at_v1 = replace(of(), storage=of().versions[0])
    stored_at_v1 = replace(stored_at_v1, storage=replace(stored_at_v1.storage, name="v1alpha1"))
    found = webhook_problem(stored_at_v1, address, 'service "my-webhook" not found', "")
    for text in (found.what, found.effect, found.remedy, found.command):
        assert text in page
    v1 = replace(of(), kind="Widget", storage=replace(of().versions[0], name="v1"))
    found = left_version_problem(v1, LEFT, keys("team-a/w1"))
    for text in (found.what, found.effect, found.remedy, found.command, *found.instead):
        assert text in page
    for kind in (
        "not found",
        "no endpoints available for service",
        "connection refused",
        "signed by unknown authority",
    ):
        assert kind in (howto / "troubleshooting.md").read_text()
