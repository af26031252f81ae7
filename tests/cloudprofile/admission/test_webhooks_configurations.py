"""The webhook configurations, by which an API server decides which requests to send to which step."""

from __future__ import annotations

from typing import Any

from restow.cloudprofile.admission import admission_steps, webhook_configurations
from restow.cloudprofile.conversions import graph
from restow.conversion.server import WebhookServer
from tests.cloudprofile.admission.test_webhooks import CRDS, NOW
from tests.cloudprofile.memory import Memory


def hooks() -> list[dict[str, Any]]:
    """Return all webhooks, mutating ones first."""
    return [
        each for document in webhook_configurations("x", lambda path: {"url": path}) for each in document["webhooks"]
    ]


def test_every_path_is_served_and_every_step_is_asked() -> None:
    """A webhook without a step would refuse every request, and a step without a webhook would never be called."""
    steps = admission_steps(Memory(), graph(CRDS), CRDS, lambda: NOW)
    served = WebhookServer({}, validating=steps.validating, mutating=steps.mutating).paths
    assert {each["clientConfig"]["url"] for each in hooks()} == set(served)


def test_nothing_fails_open() -> None:
    """A webhook that fails open would admit unchecked requests, and one with side effects would forbid dry runs."""
    for hook in hooks():
        assert hook["failurePolicy"] == "Fail"
        assert hook["sideEffects"] == "None"
        assert 1 <= hook["timeoutSeconds"] <= 30


def test_all_versions_reach_the_steps_of_the_hub() -> None:
    """Requests at the old version would bypass the rules, or steps for v1beta1 would get requests of other versions."""
    for hook in hooks():
        versions = {version for rule in hook["rules"] for version in rule["apiVersions"]}
        assert versions in ({"v1beta2"}, {"v1beta1"})
        assert hook["matchPolicy"] == ("Equivalent" if versions == {"v1beta2"} else "Exact")


def test_old_clients_are_looked_at_first_and_stashes_restored_before_defaults() -> None:
    """The steps for old clients would see an earlier patch, and what v1beta1 hides would be missed in a lost stash."""
    mutating = webhook_configurations("x", lambda path: {"url": path})[0]["webhooks"]
    names = [each["name"].partition(".")[0] for each in mutating]
    assert names == [
        "cloudprofile-old-clients",
        "namespacedcloudprofile-old-clients",
        "conversion-stash",
        "cloudprofile-hidden",
        "namespacedcloudprofile-hidden",
        "cloudprofile-capabilities",
        "shoot-reference",
        "shoot-defaults",
    ]
