"""What is written into a webhook configuration: all where there is none, then no more than differs and is ours."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from restow.conversion.certificates import Bundle, Service, WiringRefused
from restow.conversion.certificates.wiring.configuration import bundles_of, is_alone_ours, plan_configuration
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER

Json = dict[str, Any]

OLD, NEW, OTHER = Bundle.of([b"old"]), Bundle.of([b"new"]), Bundle.of([b"other"])
CONDITION = {"name": "changes", "expression": "object.spec != oldObject.spec"}
RULES = [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["widgets"]}]


def hook(name: str, **more: Any) -> Json:
    """A webhook as it should be."""
    service = {"namespace": "system", "name": "webhook", "port": 443, "path": f"/admit/{name}"}
    config = {"clientConfig": {"service": service}}
    return {"name": name, **config, "rules": RULES, "timeoutSeconds": 10, "matchConditions": [CONDITION], **more}


def document(*hooks: Json) -> Json:
    """A configuration as it should be."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "restow"},
        "webhooks": list(hooks),
    }


WANTED = document(hook("a.example.com"), hook("b.example.com"))


def live(wanted: Json, bundle: Bundle | None, *managers: Json, annotations: Json | None = None) -> Json:
    """A configuration as it was read."""
    found = copy.deepcopy(wanted)
    metadata = {"uid": "u", "resourceVersion": "7", "annotations": annotations or {}, "managedFields": list(managers)}
    found["metadata"] |= metadata
    for each in found["webhooks"] if bundle is not None else []:
        each["clientConfig"]["caBundle"] = bundle.base64
    return found


def owned(manager: str, fields: dict[str, Json], operation: str = "Apply") -> Json:
    """An entry of managedFields: webhooks by name, each with its fields."""
    hooks = {f"k:{json.dumps({'name': name}, separators=(',', ':'))}": each for name, each in fields.items()}
    return {"manager": manager, "operation": operation, "fieldsV1": {"f:webhooks": hooks}}


def whole(*names: str, without: str = "") -> Json:
    """The entry of what restow installed."""
    conditions = {f"k:{json.dumps({'name': CONDITION['name']}, separators=(',', ':'))}": {".": {}, "f:expression": {}}}
    fields = {
        ".": {},
        "f:name": {},
        "f:rules": {},
        "f:timeoutSeconds": {},
        "f:matchConditions": conditions,
        "f:clientConfig": {
            "f:caBundle": {},
            "f:service": {"f:namespace": {}, "f:name": {}, "f:port": {}, "f:path": {}},
        },
    }
    fields.pop(without, None)
    return owned(FIELD_MANAGER, dict.fromkeys(names, fields))


OURS = whole("a.example.com", "b.example.com")


def with_bundle(wanted: Json, bundle: Bundle) -> list[Json]:
    """The webhooks of a document, each with its bundle."""
    return live(wanted, bundle)["webhooks"]


def test_where_there_is_none_all_of_it_is_applied() -> None:
    """Each webhook with its bundle: without one the API server would try the system's roots."""
    plan = plan_configuration(WANTED, None, NEW)
    assert plan.body == {**WANTED, "webhooks": with_bundle(WANTED, NEW)}
    assert [(each.host, bundle) for each, bundle in plan.calls] == [("webhook.system.svc", NEW)] * 2


def test_nothing_is_due_where_all_is_said() -> None:
    """Every write makes every API server rebuild its webhooks."""
    assert plan_configuration(WANTED, live(WANTED, NEW, OURS), NEW).body is None
    reordered = live(WANTED, OLD | NEW, OURS)
    assert plan_configuration(WANTED, reordered, NEW | OLD).body is None


def test_a_new_ca_joins_the_old_one_and_only_what_is_dropped_goes() -> None:
    """A rotation needs both CAs for a while; and the apply repeats our other fields, or the server removes them."""
    plan = plan_configuration(WANTED, live(WANTED, OLD, OURS), NEW)
    assert plan.body is not None
    assert plan.body["webhooks"] == with_bundle(WANTED, OLD | NEW)
    assert plan.body["metadata"] == {"name": "restow", "uid": "u", "resourceVersion": "7"}
    assert all(bundle == OLD | NEW for _, bundle in plan.calls)
    dropped = plan_configuration(WANTED, live(WANTED, OLD | NEW | OTHER, OURS), NEW, OLD)
    assert dropped.body is not None
    assert dropped.body["webhooks"] == with_bundle(WANTED, NEW | OTHER)


def test_of_one_that_others_installed_only_the_bundle_is_ours() -> None:
    """Helm, Flux or kubectl keep the rest."""
    helm = owned("helm", {"a.example.com": {"f:rules": {}}, "b.example.com": {"f:rules": {}}}, "Update")
    plan = plan_configuration(WANTED, live(WANTED, None, helm), NEW)
    assert plan.body is not None
    config = {"clientConfig": {"caBundle": NEW.base64}}
    assert plan.body["webhooks"] == [{"name": "a.example.com", **config}, {"name": "b.example.com", **config}]


def test_what_somebody_else_set_stays_and_is_told() -> None:
    """A shorter timeout is meant; taken back every half minute it would be a quarrel."""
    found = live(WANTED, NEW, whole("a.example.com", "b.example.com", without="f:timeoutSeconds"))
    found["webhooks"][0]["timeoutSeconds"] = 3
    found["metadata"]["managedFields"] += [
        owned("kubectl-edit", {"a.example.com": {"f:timeoutSeconds": {}}}, "Update"),
        owned("other", {"b.example.com": {"f:timeoutSeconds": {}}}),
    ]
    plan = plan_configuration(WANTED, found, NEW)
    assert plan.body is None
    (note,) = plan.notes
    assert note.startswith("timeoutSeconds of the webhook a.example.com in the ValidatingWebhookConfiguration restow ")
    assert note.endswith("was set by kubectl-edit, and stays")
    rotated = plan_configuration(WANTED, found, OLD)
    assert rotated.body is not None
    assert "timeoutSeconds" not in rotated.body["webhooks"][0]


def test_a_condition_that_somebody_edited_is_applied_as_they_wrote_it() -> None:
    """We still own the name of the condition: without it in the apply, the server removes it and refuses the rest."""
    found = live(WANTED, OLD, OURS)
    edited = {**CONDITION, "expression": "true"}
    found["webhooks"][0]["matchConditions"] = [edited]
    key = f"k:{json.dumps({'name': CONDITION['name']}, separators=(',', ':'))}"
    entry = {"a.example.com": {"f:matchConditions": {key: {"f:expression": {}}}}}
    found["metadata"]["managedFields"].append(owned("kubectl-edit", entry, "Update"))
    plan = plan_configuration(WANTED, found, NEW)
    assert plan.body is not None
    assert plan.body["webhooks"][0]["matchConditions"] == [edited]


def test_a_further_condition_of_somebody_else_costs_nothing() -> None:
    """The list is keyed by name: a condition that another manager adds must not cause a write."""
    found = live(WANTED, NEW, OURS)
    found["webhooks"][0]["matchConditions"].append({"name": "narrower", "expression": "true"})
    assert plan_configuration(WANTED, found, NEW).body is None


def test_address_and_bundle_of_another_applier_are_refused() -> None:
    """Two that apply one field write it back and forth."""
    for path in ({"f:caBundle": {}}, {"f:service": {"f:port": {}}}):
        found = live(WANTED, OLD, owned("argocd", {"a.example.com": {"f:clientConfig": path}}))
        found["webhooks"][0]["clientConfig"]["service"]["port"] = 8443
        with pytest.raises(
            WiringRefused, match=r"of the webhook a\.example\.com .* is applied by argocd with another value"
        ):
            plan_configuration(WANTED, found, NEW)


def test_another_kind_of_address_goes_only_if_it_is_ours() -> None:
    """With both a URL and a Service the server refuses the configuration."""
    for each in (moved := copy.deepcopy(WANTED))["webhooks"]:
        each["clientConfig"] = {"url": "https://127.0.0.1:9443/admit"}
    plan = plan_configuration(moved, live(WANTED, NEW, OURS), NEW)
    assert plan.body is not None
    assert all("service" not in each["clientConfig"] for each in plan.body["webhooks"])
    with pytest.raises(WiringRefused, match=r"clientConfig\.service\.namespace of .* which restow did not write"):
        plan_configuration(moved, live(WANTED, NEW), NEW)


def test_a_webhook_of_an_earlier_release_goes() -> None:
    """A webhook of an earlier release is not served any more, and would refuse every request."""
    found = live(document(*WANTED["webhooks"], hook("c.example.com")), NEW, OURS, whole("c.example.com"))
    found["metadata"]["managedFields"] = [whole("a.example.com", "b.example.com", "c.example.com")]
    plan = plan_configuration(WANTED, found, NEW)
    assert plan.body is not None
    assert [each["name"] for each in plan.body["webhooks"]] == ["a.example.com", "b.example.com"]
    theirs = live(document(*WANTED["webhooks"], hook("c.example.com")), NEW, OURS)
    assert plan_configuration(WANTED, theirs, NEW).body is None


def test_an_injected_bundle_is_cert_managers() -> None:
    """Two writers of one field."""
    annotations = {"cert-manager.io/inject-ca-from": "system/webhook"}
    found = live(WANTED, OTHER, annotations=annotations)
    plan = plan_configuration(WANTED, found, NEW, OTHER)
    assert plan.body is None
    assert "cert-manager writes its caBundle" in plan.notes[0]
    assert bundles_of(WANTED, found) == ()


def test_only_webhooks_at_our_address_are_ours_to_wait_for() -> None:
    """A rotation waits until all have the new CA: for a stranger it would wait for ever."""
    found = live(document(*WANTED["webhooks"], hook("c.example.com")), OLD)
    found["webhooks"][1]["clientConfig"]["service"]["name"] = "another"
    found["webhooks"][0]["clientConfig"]["caBundle"] = "no base64"
    assert bundles_of(WANTED, found) == (Bundle(),)
    assert bundles_of(WANTED, live(WANTED, OLD)) == (OLD, OLD)
    found["metadata"]["managedFields"] = [OURS]
    assert plan_configuration(WANTED, found, NEW).notes == (
        "a.example.com: the CA bundle is no base64; it is replaced",
    )


def test_a_configuration_of_somebody_else_is_refused() -> None:
    """A name of the whole cluster may be taken: two that write one object would do so for ever."""
    strangers = document(hook("z.example.com"))
    entry = owned("helm", {"z.example.com": {".": {}, "f:name": {}}}, "Update")
    with pytest.raises(WiringRefused, match="with other webhooks, written by helm: restow does not add its own"):
        plan_configuration(WANTED, live(strangers, NEW, entry), NEW)
    moved = copy.deepcopy(WANTED)
    for each in moved["webhooks"]:
        each["clientConfig"]["service"]["namespace"] = "elsewhere"
    fields = {"f:clientConfig": {"f:service": {"f:namespace": {}, "f:name": {}, "f:path": {}, "f:port": {}}}}
    theirs = owned("kubectl", dict.fromkeys(("a.example.com", "b.example.com"), fields), "Update")
    with pytest.raises(
        WiringRefused, match=r"a\.example\.com .* is at Service elsewhere/webhook.* as kubectl wrote it"
    ):
        plan_configuration(WANTED, live(moved, NEW, theirs), NEW)
    with pytest.raises(WiringRefused, match="as another client wrote it"):
        plan_configuration(WANTED, live(moved, NEW), NEW)
    plan = plan_configuration(WANTED, live(moved, NEW, OURS), NEW)
    assert [str(address) for address, _ in plan.rivals] == [
        "Service elsewhere/webhook:443/admit/a.example.com",
        "Service elsewhere/webhook:443/admit/b.example.com",
    ]
    assert not plan_configuration(WANTED, live(WANTED, OTHER, OURS), NEW).rivals


def test_only_what_restow_alone_wrote_for_the_same_webhook_is_removed() -> None:
    """After an upgrade the configuration of the old name goes; that of another installation, or a person's, stays."""
    server = Service("system", "webhook")
    assert is_alone_ours(live(WANTED, NEW, OURS), server)
    assert not is_alone_ours(live(WANTED, NEW, OURS), Service("elsewhere", "webhook"))
    assert not is_alone_ours(
        live(WANTED, NEW, OURS, owned("helm", {"b.example.com": {"f:name": {}}}, "Update")), server
    )
    assert not is_alone_ours(live(WANTED, NEW, whole("a.example.com")), server)
    assert not is_alone_ours(live(document(), None), server)
