"""The rehearsal of a run's own writes of the CRD, against an API server in memory that refuses what a test says."""

from __future__ import annotations

from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.errors import BadRequest, Conflict, Forbidden, Invalid, KubeError, OutcomeUnknown
from restow.kube.resources import CRDS
from restow.migrator.decide.proof import ANNOTATION
from restow.migrator.model import watermark
from restow.migrator.model.options import Options, Phase
from restow.migrator.model.report import PlanCheck, PlanFinding
from restow.migrator.requests.preflight import rehearse_mark, rehearse_writes
from tests.memory.cluster import MemoryCluster, Request
from tests.migrator import builders as b

PUT_BACK, TOKEN, WATERMARK, PRUNE, MARK = "put back", "token", "watermark", "prune", "mark"


def write_of(request: Request) -> str:
    """Which write of a run this is."""
    if stored := (request.body.get("status") or {}).get("storedVersions"):
        return PUT_BACK if len(stored) > 1 else PRUNE
    names = {watermark.RUNS: TOKEN, watermark.ANNOTATION: WATERMARK, ANNOTATION: MARK}
    [name] = [names[each] for each, value in request.body["metadata"]["annotations"].items() if value is not None]
    return name


class Refusing(MemoryCluster):
    """Has one CRD, and refuses some of its writes.

    Attributes:
        errors: what the writes meet, by their names.
        tried: the names of the writes, which were all dry runs, in their order.
    """

    def __init__(self, errors: dict[str, KubeError] | None = None, **document: Any) -> None:
        super().__init__()
        self.errors, self.tried = errors or {}, list[str]()
        self.seed(CRDS.plural, b.crd_document(**document))
        self.before = self._answer

    async def _answer(self, request: Request) -> None:
        if request.verb == "patch":
            assert request.dry_run
            self.tried.append(write_of(request))
            if error := self.errors.get(self.tried[-1]):
                raise error

    @property
    def crd(self) -> Crd:
        """The CRD as it is stored."""
        return Crd.from_document(self.find(CRDS.plural, f"widgets.{b.GROUP}"))

    async def rehearse(self, **options: Any) -> list[PlanFinding]:
        """What the rehearsal finds."""
        return await rehearse_writes(self, self.crd, Options(**options), rewritten=True)


def denied(kind: type[Any] = Forbidden, message: str = "admission webhook denied the request: no") -> KubeError:
    """An answer of an API server."""
    error: KubeError = kind(status=403, verb="PATCH", target="the CRD", message=message)
    return error


@pytest.mark.parametrize(
    ("document", "options", "tried"),
    [
        ({"stored": ("v1", "v2")}, {}, [TOKEN, WATERMARK, PRUNE, MARK]),
        ({"stored": ("v2",)}, {}, [PUT_BACK, TOKEN, WATERMARK, PRUNE, MARK]),
        ({"stored": ("v1", "v2")}, {"namespace": "a"}, []),
        ({"stored": ("v1", "v2")}, {"skip": frozenset({Phase.PRUNE})}, []),
    ],
    ids=["due", "trimmed by somebody", "a namespace", "no prune"],
)
async def test_the_writes_of_a_run_are_tried_in_its_order(
    document: dict[str, Any], options: dict[str, Any], tried: list[str]
) -> None:
    """A write that is not tried is refused after hours; one that the run does not send is a false alarm."""
    server = Refusing(**document)
    assert await server.rehearse(**options) == [] and server.tried == tried
    assert ANNOTATION not in server.crd.annotations and list(server.crd.stored_versions) == [*document["stored"]]


async def test_a_refusal_of_several_writes_is_one_sentence() -> None:
    """A policy would be reported once for each write."""
    server = Refusing(dict.fromkeys((WATERMARK, PRUNE, MARK), denied()), stored=("v1", "v2"))
    [found] = await server.rehearse()
    assert found.fails and found.check is PlanCheck.CRD
    assert "refuses the watermark and the prune of status.storedVersions and the mark on widgets" in found.message


@pytest.mark.parametrize("write", [TOKEN, WATERMARK])
async def test_what_a_run_can_do_without_is_a_warning(write: str) -> None:
    """Only the shortcut of a run that was interrupted is lost, or the sign of a restore."""
    [found] = await Refusing({write: denied()}, stored=("v1", "v2")).rehearse()
    assert not found.fails and "without the mark" not in found.message


async def test_what_a_webhook_does_not_let_be_tried_is_not_known() -> None:
    """The migration may well pass: a webhook with side effects refuses every dry run."""
    error = denied(BadRequest, 'admission webhook "a.b" does not support dry run')
    server = Refusing({MARK: error}, stored=("v1", "v2"))
    [found] = await server.rehearse()
    assert (found.fails, found.check) == (False, PlanCheck.REHEARSAL)
    assert await rehearse_mark(server, server.crd) == ""


@pytest.mark.parametrize("error", [denied(Conflict), denied(OutcomeUnknown)], ids=["conflict", "no answer"])
async def test_a_write_of_others_in_between_is_no_refusal(error: KubeError) -> None:
    """A CRD that is written often would seem to be guarded."""
    server = Refusing({MARK: error, PRUNE: error}, stored=("v1", "v2"))
    assert await server.rehearse() == []
    assert await rehearse_mark(server, server.crd) == ""


async def test_the_largest_annotation_is_named() -> None:
    """Without one of kubectl, the user would look for what fills the annotations."""
    error = denied(Invalid, "metadata.annotations: Too long: may not be more than 262144 bytes")
    server = Refusing({MARK: error}, annotations={"a": "x", "b": "xxx", "c": ""})
    assert "of which b is the largest" in await rehearse_mark(server, server.crd)
