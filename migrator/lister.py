"""All objects of a CRD, page by page, through whatever an API server answers to a long list.

Memory stays bounded by a page. A continue token that etcd compacted away (410) comes with an inconsistent one, and the
list goes on from there: no key is skipped, and what was created meanwhile is stored at the storage version.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from restow.kube.cluster import Cluster
from restow.kube.errors import BadReply, KubeError
from restow.kube.resources import Resource
from restow.migrator.halt import Halt
from restow.migrator.outcome import ATTEMPTS, Action, of_list_error
from restow.migrator.report import Requests
from restow.migrator.waits import again
from restow.migrator.wire import Meta, object_decoder, page_decoder, whole_object_decoder, whole_page_decoder

__all__ = ["FailedPage", "ListFailed", "Listed", "list_objects"]

Item = tuple[Meta, dict[str, Any] | None]


@dataclass(frozen=True, slots=True)
class FailedPage:
    """Which page could not be read: that of ``size`` objects from ``token`` on (empty for the first one)."""

    namespace: str | None
    token: str
    size: int


class ListFailed(Exception):
    """A page could not be read; the message says why and what to do."""

    def __init__(self, message: str, page: FailedPage | None = None) -> None:
        super().__init__(message)
        self.page = page


@dataclass(frozen=True, slots=True)
class Listed:
    """One page.

    Attributes:
        items: its objects, whole ones with their content.
        remaining: how many are to follow, if the server said so.
        resource_version: of the list; another one after the list was continued inconsistently.
    """

    items: list[Item]
    remaining: int | None
    resource_version: str = ""


async def list_objects(
    cluster: Cluster,
    resource: Resource,
    *,
    page_size: int,
    requests: Requests,
    halt: Halt,
    jitter: Callable[[float], float],
    namespace: str | None = None,
    selector: str | None = None,
    whole: bool = False,
    attempts: int = ATTEMPTS,
) -> AsyncIterator[Listed]:
    """Yield page after page, until the end or until ``halt`` is raised.

    Args:
        page_size: ``limit`` of each request.
        requests: where requests and retries are counted.
        jitter: spreads a wait, ``seconds -> seconds``.
        whole: read whole objects, not metadata only.
        attempts: tries of one page, fewer than usual where one list of many may well be missing.

    Raises:
        ListFailed: a page could not be read.
    """
    token = ""
    while not halt:
        params = {"limit": str(page_size)}
        if selector:
            params["labelSelector"] = selector
        if token:
            params["continue"] = token
        attempt = 0
        while True:
            attempt += 1
            requests.list += 1
            try:
                page, token = await _page(cluster, resource, namespace, params, whole=whole)
                break
            except KubeError as error:
                outcome = of_list_error(error, attempt=attempt)
                if outcome.action is Action.FAIL or attempt >= attempts:
                    said = outcome.message or error.said
                    msg = f"the objects of {resource.full_name} could not all be listed: {said}"
                    raise ListFailed(msg, FailedPage(namespace, params.get("continue", ""), page_size)) from error
                requests.retried += 1
                if outcome.action is Action.CONTINUE:
                    params["continue"] = outcome.token
                what = again("list the objects", attempt, outcome.attempts, error.said)
                await halt.sleep(jitter(outcome.wait), what)
                if halt:
                    return
        yield page
        if not token:
            return


async def _page(
    cluster: Cluster, resource: Resource, namespace: str | None, params: dict[str, str], *, whole: bool
) -> tuple[Listed, str]:
    reply = await cluster.list_page(resource, namespace, params=params, metadata_only=not whole)
    if whole:
        raw = reply.decode(whole_page_decoder)
        try:
            items: list[Item] = [
                (object_decoder.decode(item).metadata, whole_object_decoder.decode(item)) for item in raw.items or ()
            ]
        except msgspec.MsgspecError as error:
            msg = f"an object of {resource.full_name} does not have the shape of one ({error})"
            raise BadReply(msg) from error
        return Listed(items, raw.metadata.remaining, raw.metadata.resource_version), raw.metadata.continue_
    page = reply.decode(page_decoder)
    items = [(item.metadata, None) for item in page.items or ()]
    return Listed(items, page.metadata.remaining, page.metadata.resource_version), page.metadata.continue_
