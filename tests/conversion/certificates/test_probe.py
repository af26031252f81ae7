"""A webhook is tried as an API server would call it, before a CRD names it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from restow.conversion.certificates import Bundle, NotAnswering, Service, Url
from restow.conversion.certificates.ca.authority import Authority
from restow.conversion.certificates.probe import probe, probe_reviews
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Address
from restow.crds import Crd
from tests.conversion.conformance.breakages import BREAKAGES, GOOD, crashing
from tests.conversion.conformance.server import Reply, Served, served
from tests.conversion.conformance.widgets import GROUP, crd

SERVICE = Service("system", "webhook", "/convert")


@pytest.fixture
async def good(tmp_path: Path) -> AsyncIterator[Served]:
    """A good webhook whose certificate is for a Service."""
    async with served(GOOD, tmp_path, host=SERVICE.host) as running:
        yield running


def place(running: Served) -> tuple[str, int]:
    """Where a test's webhook listens."""
    return "127.0.0.1", urlsplit(running.url).port or 0


async def test_through_a_service(good: Served) -> None:
    """The certificate has to be for the Service's name, not for where its pod happens to listen."""
    await probe(crd(), SERVICE, Bundle.from_pem(good.ca), connect_to=place(good))


async def test_another_service_of_the_same_certificate(good: Served) -> None:
    """The API server would refuse the certificate, and all versions would be down."""
    other = replace(SERVICE, name="other")
    with pytest.raises(NotAnswering, match=r"does not verify for the name other.system.svc"):
        await probe(crd(), other, Bundle.from_pem(good.ca), connect_to=place(good))


async def test_another_authority(good: Served) -> None:
    """A bundle of another installation is well-formed; only a call shows that it does not verify the certificate."""
    stranger = Authority.create("stranger", now=datetime.now(UTC), valid_for=timedelta(days=1))
    for bundle in (Bundle.of([stranger.der]), NO_BUNDLE):
        with pytest.raises(NotAnswering, match="does not verify"):
            await probe(crd(), SERVICE, bundle, connect_to=place(good))
    both = Bundle.of([stranger.der]) | Bundle.from_pem(good.ca)
    await probe(crd(), SERVICE, both, connect_to=place(good))


async def test_nobody_there() -> None:
    """The commonest case at installation: the CRD is wired before the webhook runs."""
    with pytest.raises(NotAnswering, match=r"the webhook at https://127.0.0.1:1/convert did not answer"):
        await probe(crd(), Url("https://127.0.0.1:1/convert"), NO_BUNDLE)


@pytest.mark.parametrize(
    ("webhook", "said"),
    [
        (BREAKAGES["uid"].webhook, "expected response.uid="),
        (crashing(lambda obj: "spec" not in obj), "nil pointer dereference"),
        (BREAKAGES["answers"].webhook, "panic: nil map"),
        (replace(GOOD, reply=lambda _reply: Reply(b"404", 404)), "the server could not find the requested resource"),
        (BREAKAGES["kind"].webhook, "invalid kind"),
    ],
    ids=["uid", "partial objects", "crash", "path", "kind"],
)
async def test_an_answer_that_no_server_would_accept(webhook: object, said: str, tmp_path: Path) -> None:
    """An answer that API servers reject must not count as an answer."""
    async with served(webhook, tmp_path) as running:  # type: ignore[arg-type]
        with pytest.raises(NotAnswering, match="does not convert Widget to") as refused:
            await probe(crd(), Url(running.url), Bundle.from_pem(running.ca))
    assert said in str(refused.value)


async def test_a_webhook_that_lacks_one_version(tmp_path: Path) -> None:
    """If a newer CRD is wired to an older release of the webhook, clients cannot read objects of the new version."""
    older = crashing(lambda obj: obj["apiVersion"].endswith("v1alpha1"))
    async with served(older, tmp_path) as running:
        with pytest.raises(NotAnswering, match=f"does not convert Widget to {GROUP}/v1:"):
            await probe(crd(), Url(running.url), Bundle.from_pem(running.ca))


def test_every_version_is_asked_for_in_both_directions() -> None:
    """One that is left out is found by the first client."""
    asked = {(sent.objects[0]["apiVersion"], sent.desired) for sent in probe_reviews(crd())}
    v1, v1beta1, v1alpha1 = (f"{GROUP}/{name}" for name in ("v1", "v1beta1", "v1alpha1"))
    assert asked == {(v1, v1beta1), (v1beta1, v1), (v1, v1alpha1), (v1alpha1, v1)}


async def test_a_kind_of_one_version(tmp_path: Path) -> None:
    """There is nothing to convert, but address and certificate can be tried."""
    document = dict(crd().document)
    document["spec"] = {**document["spec"], "versions": document["spec"]["versions"][-1:]}
    address: Address
    async with served(GOOD, tmp_path) as running:
        address = Url(running.url)
        await probe(Crd.from_document(document), address, Bundle.from_pem(running.ca))
