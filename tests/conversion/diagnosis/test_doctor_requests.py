"""The requests of ``restow doctor``, on the API server in memory."""

from __future__ import annotations

import pytest

from restow.conversion.diagnosis import diagnose
from restow.conversion.diagnosis import doctor as doctor_module
from restow.migrator import may_be_stored
from restow.migrator.planning.diagnosis import CrdExamination
from tests.apiserver.kind import Kind
from tests.memory.cluster import MemoryCluster, Request

OLD, NEW = "v1alpha1", "v1beta1"
REFUSED = 'conversion webhook for example.com/v1beta1, Kind=Widget failed: Post "https://gone/": dial tcp: no host'


@pytest.mark.parametrize("verb", ["list", "get"])
async def test_objects_are_listed_once_where_the_webhook_is_gone(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CRD of many objects would be listed twice: to read each one, and for the managers of its fields."""
    monkeypatch.setattr(doctor_module, "_PAGE", 2)
    memory = MemoryCluster()
    kind = Kind(memory, memory, "example.com")  # type: ignore[arg-type]  # it has what is used of both
    document = kind.document(storage=NEW)
    await kind.create(document)
    await kind.populate(5)
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://gone/convert"}}}
    live = memory.find("customresourcedefinitions", kind.name)
    live["spec"]["conversion"] = conversion
    live["status"]["storedVersions"] = [NEW]
    memory.seed("customresourcedefinitions", live)

    async def without_webhook(request: Request) -> None:
        if request.verb == verb and request.resource == kind.at(OLD):
            raise memory.error(request, 500, "InternalError", REFUSED)

    memory.before, memory.requests = without_webhook, []
    found = await diagnose(memory, kind.name, may_be_stored, CrdExamination)
    assert [problem.kind for problem in found.problems] == ["WebhookUnreachable", "NotProved"]
    lists = [sent for sent in memory.requests if sent.verb == "list" and sent.resource == kind.at(NEW)]
    assert [sent.params["limit"] for sent in lists if sent.params] == ["1", "2", "2", "2", "250"], (
        "the last one compares"
    )


async def test_only_an_object_of_a_version_that_left_is_deleted_unread() -> None:
    """An object that the webhook refuses can be repaired; the printed command would delete it past its finalizers."""
    memory = MemoryCluster()
    kind = Kind(memory, memory, "example.com")  # type: ignore[arg-type]  # it has what is used of both
    await kind.create(kind.document(storage=NEW))
    reasons = {
        "left": "request to convert CR from an invalid group/version: example.com/v0",
        "refused": "conversion webhook for example.com/v1beta1, Kind=Widget failed: no",
    }

    async def unreadable(request: Request) -> None:
        if request.verb == "list" and request.resource == kind.at(NEW) and (request.params or {}).get("limit") != "1":
            error = memory.error(request, 500, "StorageReadError", f"failed: {reasons['left']}")
            error.unreadable = {f"/registry/example.com/widgets/a/{name}": why for name, why in reasons.items()}
            raise error

    memory.before = unreadable
    found = (await diagnose(memory, kind.name, may_be_stored, CrdExamination)).problems
    refused, left = (each for each in found if each.kind in ("ObjectNotConvertible", "ObjectOfLeftVersion"))
    assert (refused.command, refused.instead) == (f"kubectl -n a edit widgets.{OLD}.example.com refused", ())
    assert left.what.startswith("Widget a/left is stored at v0, ")
    assert len(left.instead) == 1 and "/namespaces/a/widgets/left?" in left.instead[0]
