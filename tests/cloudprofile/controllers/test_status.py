"""The status controllers, which share their event loop with the webhooks."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from restow.cloudprofile.controllers import reconcilers
from restow.cloudprofile.controllers.index import ProfileIndex
from restow.cloudprofile.controllers.reconcilers import EventRecorder
from restow.cloudprofile.objects import CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE
from restow.kube.clock import Clock
from restow.kube.listwatch import Key
from restow.kube.watchevents import Added
from tests.cloudprofile.controllers.test_index import item
from tests.cloudprofile.memory import Memory

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("versions", "aside"), [(10, False), (400, True)])
def test_the_status_of_a_large_profile_is_decided_aside(
    monkeypatch: pytest.MonkeyPatch, versions: int, aside: bool
) -> None:
    """Several large statuses in a row would block webhook requests until the API server gives up."""
    threads = []
    decide = reconcilers.decide_namespaced_status

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return decide(*arguments)

    monkeypatch.setattr(reconcilers, "decide_namespaced_status", noted)
    listed = [{"version": f"1.{number}.0"} for number in range(versions)]
    child = {
        "apiVersion": "core.gardener.cloud/v1beta2",
        "kind": NAMESPACED_CLOUD_PROFILE,
        "metadata": {"name": "c", "namespace": "n", "uid": "c", "resourceVersion": "1", "finalizers": ["gardener"]},
        "spec": {"parent": {"kind": CLOUD_PROFILE, "name": "p"}},
    }
    index, memory = ProfileIndex(), Memory(namespacedcloudprofiles=[child])
    index.profiles.apply(Added(item("p", spec={"kubernetes": {"versions": listed}})))
    place = ("namespacedcloudprofiles", "n", "c")
    stored = memory.held[place]
    parts = {name: value for name, value in stored.items() if name != "metadata"}
    index.namespaced.apply(Added(item("c", 1, "n", metadata=stored["metadata"], **parts)))
    made = reconcilers.ProfileStatus(
        kind=NAMESPACED_CLOUD_PROFILE,
        informer=memory,
        live=memory,
        index=index,
        recorder=EventRecorder(memory, "test", "test", Clock(now=lambda: NOW)),
        now=lambda: NOW,
    )
    asyncio.run(made.reconcile(Key("n", "c")))
    assert [each is not threading.main_thread() for each in threads] == [aside]
    assert len(memory.held[place]["status"]["kubernetes"]["versions"]) == versions
