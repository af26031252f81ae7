"""Tries a webhook exactly as a CRD is going to say it, before the CRD says so.

A CRD that names a webhook which does not answer takes down every version but the storage version at once: reads, watch
caches, garbage collection, namespace deletion. One review per direction and version, of an object that is nothing but
a name, tells beforehand: address, certificate, path, kind and versions are then all right.
"""

from __future__ import annotations

from typing import Final

from restow.conversion.values import Json
from restow.conversion.wiring.acceptance import Rejected, Sent, accept, review_body
from restow.conversion.wiring.address import Address
from restow.conversion.wiring.bundle import Bundle
from restow.conversion.wiring.caller import Caller
from restow.conversion.wiring.errors import NotAnswering
from restow.crds import Crd

__all__ = ["probe", "probe_reviews"]

_STUB: Final[Json] = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}


def probe_reviews(crd: Crd) -> tuple[Sent, ...]:
    """Return the reviews: from the storage version to every other served one and back; of one version, an empty one."""
    storage = crd.storage.api_version
    others = [f"{crd.group}/{name}" for name in crd.served if name != crd.storage.name]
    ways = [way for other in others for way in ((storage, other), (other, storage))]
    if not ways:
        return (Sent("restow-probe", storage, ()),)
    return tuple(
        Sent(f"restow-probe-{number}", target, ({"apiVersion": source, "kind": crd.kind, "metadata": _metadata(crd)},))
        for number, (source, target) in enumerate(ways)
    )


async def probe(
    crd: Crd,
    address: Address,
    bundle: Bundle,
    *,
    timeout: float = 10.0,
    connect_to: tuple[str, int] | None = None,
) -> None:
    """Send the reviews and check the answers as an API server would.

    Args:
        crd: whose kind and versions.
        address, bundle: as its ``clientConfig`` says, or is going to.
        timeout: seconds for each review.
        connect_to: (host, port) to connect to instead of the address's own, where its name does not resolve.

    Raises:
        NotAnswering: the webhook does not answer as it must.
    """
    async with Caller(address, bundle, timeout=timeout, connect_to=connect_to) as caller:
        for sent in probe_reviews(crd):
            answer = await caller.call(review_body(sent, response=_STUB))
            content_type = answer.headers.get("Content-Type", "")
            try:
                accept(sent, status=answer.status, content_type=content_type, body=answer.body)
            except Rejected as error:
                raise NotAnswering(
                    f"the webhook at {address} does not convert {crd.kind} to {sent.desired}: {error}"
                ) from error


def _metadata(crd: Crd) -> dict[str, str]:
    metadata = {"name": "restow-probe", "uid": "00000000-0000-0000-0000-000000000000"}
    return metadata | ({"namespace": "default"} if crd.namespaced else {})
