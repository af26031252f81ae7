"""The requests of ``restow doctor``, on the API server in memory."""

from __future__ import annotations

import pytest

from restow.conversion.diagnosis import diagnose
from restow.conversion.diagnosis import doctor as doctor_module
from restow.migrator import may_be_stored
from tests.apiserver.kind import Kind
from tests.memory.cluster import MemoryCluster, Request

OLD, NEW = "v1alpha1", "v1beta1"
REFUSED = 'conversion webhook for example.com/v1beta1, Kind=Widget failed: Post "https://gone/": dial tcp: no host'


@pytest.mark.parametrize("verb", ["list", "get"])
async def test_a_webhook_that_is_gone_ends_the_list(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CRD of many objects would be listed to its end, though no object can be read at another version."""
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
    found = await diagnose(memory, kind.name, may_be_stored)
    assert [problem.kind for problem in found.problems] == ["WebhookUnreachable"]
    pages = [sent for sent in memory.requests if sent.verb == "list" and sent.params and "continue" in sent.params]
    assert pages == []
