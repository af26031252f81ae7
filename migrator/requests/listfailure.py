"""Name the objects that fail a list, and say what to do.

From Kubernetes 1.37 on, the API server names them. Before, a list stops at the first object that cannot be converted to
the requested version. The search halves the page that failed until a page of one object fails, and continues the same
list at another served version to read that object's name. The number of requests is bounded, and so is the time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import ApiError, KubeError, one_line
from restow.kube.resources import qualified_name
from restow.kube.retry import without_retries
from restow.migrator.model.report import Requests
from restow.migrator.requests.lister import CONVERTER_OUT_OF_REACH, FailedPage, ListFailed
from restow.migrator.requests.wire import ObjectPage, page_decoder

MOST_REQUESTS = 40
"""The most requests: halving a page of 500 objects takes ten, and the name of the object one or two more."""
MOST_NAMED = 3
_TIME = 30.0  # seconds; a webhook may take as long to fail on one object
_LONGEST = 300  # characters of an API server's message


async def explain_list_failure(
    cluster: Cluster, crd: Crd, failure: ListFailed, requests: Requests | None = None
) -> ListFailed:
    """Return the failure of a list with the objects that cannot be converted, and the next step.

    Args:
        cluster: the API server.
        crd: the CRD whose objects could not be listed at the storage version.
        failure: the failure of the list.
        requests: counts the requests of the search.
    """
    if not conversion_failed(failure) or failure.page is None:
        return failure
    named, is_away = "", any(text in str(failure) for text in CONVERTER_OUT_OF_REACH)
    if not is_away and isinstance(failure.__cause__, ApiError) and failure.__cause__.unreadable:
        named = _named(crd, failure.__cause__.unreadable, str(failure))
    elif not is_away:
        search = _FailureSearch(without_retries(cluster), crd, failure.page, requests or Requests())
        with contextlib.suppress(TimeoutError, KubeError, _EnoughError):
            async with asyncio.timeout(_TIME):
                await search.run()
        named = search.sentence(str(failure))
    return help_to_list(crd, failure, named)


def _named(crd: Crd, unreadable: Mapping[str, str], failure: str) -> str:
    """Return a sentence with the objects that an API server named as unreadable, a few by name."""
    names = [qualified_name(*crd.named_by(key)) for key in unreadable]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    because = _because(next(iter(unreadable.values())), failure)
    return f"{', '.join(names[:MOST_NAMED])}{more} cannot be converted to {crd.storage.name}{because}"


def _because(said: str, failure: str) -> str:
    """Return an API server's message in parentheses, unless the failure already has it."""
    said = one_line(said, _LONGEST)
    return f" ({said})" if said and said.removesuffix("…") not in failure else ""


class _EnoughError(Exception):
    """The limit of requests is reached."""


@dataclass(slots=True)
class _FailureSearch:
    """The search within one page, and what it found."""

    cluster: Cluster
    crd: Crd
    page: FailedPage
    requests: Requests
    sent: int = 0
    names: list[str] = field(default_factory=list)
    said: str = ""
    before: str = ""
    ended: bool = False

    async def run(self) -> None:
        """Find the first few objects of the page that cannot be converted.

        Raises:
            KubeError: a request failed for another reason.
            _EnoughError: the limit of requests is reached.
        """
        token, size = self.page.token, self.page.size
        while size > 0 and len(self.names) < MOST_NAMED:
            position, token = await self._first(token, size)
            if position is None:
                break
            name, token = await self._name(token)
            self.names.append(name)
            size -= position
            if not name or not token:
                break
        self.ended = True

    async def _first(self, token: str, size: int) -> tuple[int | None, str]:
        """Return the position (from 1) of the first object that fails from a token on, and the token before it.

        The position is None if these objects can all be converted (by now).
        """
        good, bad = 0, size + 1
        while bad - good > 1:
            # Read the whole page first: its last read was earlier, or after another object there was none yet.
            limit = size if bad > size else (bad - good) // 2
            try:
                page = await self._list(self.crd.storage.name, token, limit)
            except ApiError as error:
                if not conversion_failed(error):
                    raise
                bad = good + limit
                self.said = error.said
                if limit == 1:
                    break
                continue
            if page.items:
                self.before = page.items[-1].metadata.key
            good, token = good + limit, page.metadata.continue_
            if not token:
                return None, ""
        return (bad, token) if bad <= size else (None, token)

    async def _name(self, token: str) -> tuple[str, str]:
        """Return the name of the object after a token, read at a version that works, and the next token."""
        for version in self.crd.served:
            if version == self.crd.storage.name:
                continue
            try:
                page = await self._list(version, token, 1)
            except ApiError as error:
                if not conversion_failed(error):
                    raise
                continue
            for item in page.items or ():
                return item.metadata.key, page.metadata.continue_
        return "", ""

    async def _list(self, version: str, token: str, limit: int) -> ObjectPage:
        if self.sent >= MOST_REQUESTS:
            raise _EnoughError
        self.sent += 1
        self.requests.list += 1
        params = {"limit": str(limit)} | ({"continue": token} if token else {})
        resource = self.crd.resource_at(version)
        reply = await self.cluster.list_page(resource, self.page.namespace, params=params, metadata_only=True)
        return reply.decode(page_decoder)

    def sentence(self, failure: str) -> str:
        """Return a sentence that names the objects."""
        storage = self.crd.storage.name
        because = _because(self.said, failure)
        names = [name for name in self.names if name]
        bound = "" if self.ended else f"; the search ended after {self.sent} requests"
        if names:
            more = " and perhaps more" if len(names) == MOST_NAMED or not self.ended else ""
            return f"{', '.join(names)}{more} cannot be converted to {storage}{because}{bound}"
        if self.names:
            after = f"the object after {self.before}" if self.before else "the first object"
            return (
                f"{after} in the list cannot be converted to {storage}{because}, and no served version shows its name"
            )
        if self.ended:
            return "by now all objects of the page that failed can be converted: run again"
        return f"which object cannot be converted to {storage} was not found within {self.sent} requests"


def conversion_failed(failure: Exception) -> bool:
    """Return whether a list failed because of a conversion."""
    return any(text in str(failure) for text in _CONVERSION_FAILED)


def help_to_list(crd: Crd, failure: ListFailed, named: str = "") -> ListFailed:
    """Add advice to the failure of a list if the CRD's conversion is the cause.

    Args:
        crd: the CRD whose objects could not be listed.
        failure: the failure of the list.
        named: a sentence with the objects that cannot be converted, if they are known.
    """
    if not conversion_failed(failure):
        return failure
    said = str(failure).rstrip(".")
    said = f"{said}: {named}" if named else said
    cause = failure.__cause__
    if isinstance(cause, ApiError) and cause.left_version:
        left = cause.left_version.split("/")[-1]
        return ListFailed(
            f"{said}. {crd.name} does not have the version {left} any more, so API servers cannot read what is stored "
            f"at it: put {left} back into spec.versions (served: false is enough) and run again with --ignore-mark, or "
            f"delete these objects. restow doctor {crd.name} prints both commands",
            failure.page,
        )
    if crd.strategy != "Webhook":
        return ListFailed(said, failure.page, unreachable=failure.unreachable)
    return ListFailed(
        f"{said}. The API server converts every listed object to {crd.storage.name}, and one object that fails "
        f"fails the list: check that the conversion webhook of {crd.name} runs, that its certificate fits the CRD's "
        f"caBundle, and that it converts {', '.join(version.name for version in crd.versions)}. An object that the "
        "webhook refuses can still be read and edited at the version that it is stored at",
        failure.page,
        unreachable=failure.unreachable,
    )


_CONVERSION_FAILED = ("conversion webhook", "conversion for", "request to convert CR", "(re)initializing")
