"""What is written into a CRD: only what differs, nothing that another manager owns, nothing where nothing is due."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.conversion.certificates import Bundle, Service, Url, Wiring, WiringRefused
from restow.conversion.certificates.wiring.clientconfig import (
    address_named,
    address_of,
    client_config,
    is_named,
    name_of,
)
from restow.conversion.certificates.wiring.crd import plan_wiring
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER
from restow.crds import Crd
from restow.kube.resources import merge_patch

OLD, NEW, OTHER = Bundle.of([b"old"]), Bundle.of([b"new"]), Bundle.of([b"other"])
SERVICE = Service("system", "webhook", "/convert")
BY_SERVICE = {"service": {"namespace": "system", "name": "webhook", "path": "/convert", "port": 443}}
ELSEWHERE = Url("https://127.0.0.1:9443/convert")
INJECTED = {"cert-manager.io/inject-ca-from": "system/webhook"}

CA_BUNDLE = ("webhook", "clientConfig", "caBundle")
STRATEGY = ("strategy",)
VERSIONS = ("webhook", "conversionReviewVersions")
WHOLE = (STRATEGY, VERSIONS, CA_BUNDLE, *[("webhook", "clientConfig", *path) for path in SERVICE.fields])


def crd(
    config: dict[str, Any] | None,
    *managers: dict[str, Any],
    bundle: Bundle | None = None,
    annotations: dict[str, str] | None = None,
    versions: tuple[str, ...] = ("v1",),
) -> Crd:
    """A CRD with a client config, or with the strategy None."""
    conversion: dict[str, Any] = {"strategy": "None"}
    if config is not None:
        filled = copy.deepcopy(config) | ({"caBundle": bundle.base64} if bundle is not None else {})
        conversion = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": filled, "conversionReviewVersions": list(versions)},
        }
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "widgets.example.com",
                "uid": "u",
                "resourceVersion": "7",
                "annotations": annotations or {},
                "managedFields": list(managers),
            },
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [{"name": "v1", "served": True, "storage": True}],
                "conversion": conversion,
            },
        }
    )


def owned(*paths: tuple[str, ...], by: str = FIELD_MANAGER, operation: str = "Apply") -> dict[str, Any]:
    """A managedFields entry that owns leaves of spec.conversion."""
    fields: dict[str, Any] = {}
    for path in paths:
        node = fields
        for name in ("spec", "conversion", *path):
            node = node.setdefault(f"f:{name}", {})
    return {"manager": by, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields}


def conversion(found: Crd, wiring: Wiring) -> Any:
    """What would be applied below spec.conversion; None if nothing."""
    body = plan_wiring(found, wiring).body
    return None if body is None else body["spec"]["conversion"]


def test_a_manifest_with_everything_but_the_bundle_gets_the_bundle_alone() -> None:
    """Owning more than caBundle would fight with Helm, Flux or Argo CD over the rest."""
    found = crd(BY_SERVICE, owned(*WHOLE[:2], *WHOLE[3:], by="argocd"))
    assert conversion(found, Wiring(NEW)) == {"webhook": {"clientConfig": {"caBundle": NEW.base64}}}
    assert conversion(found, Wiring(NEW, SERVICE)) == {"webhook": {"clientConfig": {"caBundle": NEW.base64}}}


def test_a_manifest_without_conversion_gets_it_whole() -> None:
    """A part of it is invalid: the server wants strategy, address and review versions together."""
    creator = owned(STRATEGY, by="kubectl-create", operation="Update")
    assert conversion(crd(None, creator), Wiring(NEW, SERVICE)) == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {**BY_SERVICE, "caBundle": NEW.base64}, "conversionReviewVersions": ["v1"]},
    }


def test_what_is_ours_stays_in_every_apply() -> None:
    """The server removes what its only owner leaves out: the strategy would fall back to None, or be missing."""
    found = crd(BY_SERVICE, owned(*WHOLE), bundle=OLD)
    assert conversion(found, Wiring(NEW, SERVICE)) == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {**BY_SERVICE, "caBundle": (OLD | NEW).base64},
            "conversionReviewVersions": ["v1"],
        },
    }


def test_every_write_is_conditional() -> None:
    """A bundle that was merged into what is outdated by now would drop a certificate."""
    body = plan_wiring(crd(BY_SERVICE), Wiring(NEW)).body
    assert body is not None
    assert body["metadata"] == {"name": "widgets.example.com", "uid": "u", "resourceVersion": "7"}


@given(
    st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), unique=True),
    st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), unique=True),
    st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), unique=True),
)
def test_bundles_are_merged(present: list[bytes], wanted: list[bytes], dropped: list[bytes]) -> None:
    """Too few certificates are an outage, too many are trusted for ever, and a write without need costs a rebuild."""
    found = crd(BY_SERVICE, bundle=Bundle.of(present))
    plan = plan_wiring(found, Wiring(Bundle.of(wanted), dropped=Bundle.of(dropped)))
    expected = ({*present} | {*wanted}) - {*dropped}
    if plan.body is None:
        assert not expected or expected == {*present}
        return
    config = plan.body["spec"]["conversion"]["webhook"]["clientConfig"]
    written = Bundle.from_base64(config["caBundle"])
    assert {*written.certificates} == expected != {*present}
    assert plan.calls[0][1] == written
    kept = [each for each in present if each not in dropped]
    assert list(written.certificates[: len(kept)]) == kept


def test_another_spelling_of_the_same_bundle_is_left_alone() -> None:
    """Every write of the spec tears down all watch caches of the CRD."""
    found = crd({**BY_SERVICE, "caBundle": Bundle.of([b"new", b"old"]).base64})
    assert conversion(found, Wiring(OLD | NEW)) is None


def test_an_unreadable_bundle_is_replaced_and_told() -> None:
    """The server keeps one that was there before it was Established; nothing verifies by it."""
    found = crd({**BY_SERVICE, "caBundle": "Z2FyYmFnZQ=="})
    plan = plan_wiring(found, Wiring(NEW))
    assert plan.calls[0][1] == NEW and "no PEM block" in plan.notes[0]


def test_cert_manager_keeps_its_field() -> None:
    """Two writers of one field take turns for ever, and every turn rebuilds the watch caches."""
    found = crd(BY_SERVICE, bundle=OLD, annotations=INJECTED)
    plan = plan_wiring(found, Wiring(NEW, SERVICE))
    assert plan.body is None and plan.calls[0][1] == OLD
    assert "cert-manager.io/inject-ca-from: cert-manager writes its caBundle, restow does not" in plan.notes[0]
    elsewhere = conversion(found, Wiring(NEW, Service("system", "webhook", "/other")))
    assert "caBundle" not in elsewhere["webhook"]["clientConfig"]


def test_where_cert_manager_injects_the_manifest_has_to_say_the_rest() -> None:
    """There would be a moment at which the CRD names a webhook that nothing verifies."""
    with pytest.raises(WiringRefused, match="into its manifest, without caBundle"):
        plan_wiring(crd(None, annotations=INJECTED), Wiring(NEW, SERVICE))


@pytest.mark.parametrize(
    ("path", "wiring"),
    [
        (CA_BUNDLE, Wiring(NEW)),
        (("webhook", "clientConfig", "service", "path"), Wiring(OLD, Service("system", "webhook"))),
    ],
    ids=["the bundle", "the address"],
)
def test_what_another_manager_applies_is_not_taken_away(path: tuple[str, ...], wiring: Wiring) -> None:
    """A field taken from another applier makes its next apply conflict, or write the field back, without end."""
    found = crd(BY_SERVICE, owned(path, by="argocd"), bundle=OLD)
    with pytest.raises(WiringRefused, match=r"applied by argocd .*: take it out of that manifest"):
        plan_wiring(found, wiring)


def test_a_plain_update_is_no_reason_to_refuse() -> None:
    """The server counts its own defaults as the creator's update; every CRD would be refused."""
    found = crd(BY_SERVICE, owned(CA_BUNDLE, STRATEGY, by="helm", operation="Update"), bundle=OLD)
    assert conversion(found, Wiring(NEW)) is not None


def test_from_a_url_to_a_service() -> None:
    """With both in it the CRD is invalid; ours goes by leaving it out, another's cannot."""
    url = ("webhook", "clientConfig", "url")
    config = {"url": ELSEWHERE.url}
    ours = conversion(crd(config, owned(url, STRATEGY, VERSIONS, CA_BUNDLE), bundle=NEW), Wiring(NEW, SERVICE))
    assert ours["webhook"]["clientConfig"] == {**BY_SERVICE, "caBundle": NEW.base64}
    with pytest.raises(WiringRefused, match=r"which helm wrote: restow did not write it"):
        plan_wiring(crd(config, owned(url, by="helm", operation="Update"), bundle=NEW), Wiring(NEW, SERVICE))


THEIRS = {"service": {"namespace": "system", "name": "theirs", "path": "/convert", "port": 443}}
THEIR_URL = {"url": "https://127.0.0.1:8443/convert"}
NAMESPACE, NAME = (("webhook", "clientConfig", "service", name) for name in ("namespace", "name"))
URL = ("webhook", "clientConfig", "url")
SOMEBODY: dict[str, tuple[dict[str, Any], ...]] = {
    "nobody known": (),
    "create": (owned(NAMESPACE, NAME, URL, STRATEGY, by="kubectl-create", operation="Update"),),
    "another apply": (owned(NAMESPACE, NAME, URL, STRATEGY, by="argocd"),),
    "restow, but for its address": (
        owned(STRATEGY, VERSIONS, CA_BUNDLE),
        owned(URL, NAME, by="helm", operation="Update"),
    ),
    "restow, whose Service's name was edited": (owned(*WHOLE[:3], NAMESPACE), owned(NAME, by="kubectl-edit")),
}


@pytest.mark.parametrize("managers", SOMEBODY.values(), ids=SOMEBODY)
@pytest.mark.parametrize("theirs", [THEIRS, THEIR_URL], ids=["at a Service", "at a URL"])
@pytest.mark.parametrize("ours", [SERVICE, ELSEWHERE], ids=["to a Service", "to a URL"])
def test_another_projects_webhook_stays(managers: Any, theirs: dict[str, Any], ours: Any) -> None:
    """The other webhook would be gone for good, and its objects would be converted by rules that it does not know."""
    found = crd(theirs, *managers, bundle=OLD)
    with pytest.raises(WiringRefused) as refused:
        plan_wiring(found, Wiring(NEW, ours))
    assert str(address_of(theirs)) in str(refused.value) and "widgets.example.com" in str(refused.value)
    asks = f"spec.takeOver: {name_of(address_of(theirs))}" in str(refused.value)
    assert asks != ("argocd" in str(refused.value) or "kubectl-edit" in str(refused.value))
    other = Wiring(NEW, ours, replaces={**found.document["spec"]["conversion"], "strategy": "other"})
    with pytest.raises(WiringRefused):
        plan_wiring(found, other)


@pytest.mark.parametrize("theirs", [THEIRS, THEIR_URL], ids=["from a Service", "from a URL"])
@pytest.mark.parametrize("ours", [SERVICE, ELSEWHERE], ids=["to a Service", "to a URL"])
def test_what_may_be_replaced_is_replaced_whole_and_comes_back(theirs: dict[str, Any], ours: Any) -> None:
    """A left-over field of theirs would make the CRD invalid, and their CA would be trusted for this webhook."""
    found = crd(theirs, owned(NAME, URL, by="helm", operation="Update"), bundle=OLD)
    before = found.document["spec"]["conversion"]
    plan = plan_wiring(found, Wiring(NEW, ours, replaces=before))
    assert plan.body is not None and plan.is_merge_patch and not plan.rivals
    after = merged(before, plan.body["spec"]["conversion"])
    config = {**client_config(ours), "caBundle": NEW.base64}
    assert after == {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}
    assert merged(after, merge_patch(after, before)) == before
    # The patch is restow's, so the webhook may move like one that was applied.
    moved = Url("https://127.0.0.1:9444/convert")
    patched = owned(*WHOLE, URL, by=FIELD_MANAGER, operation="Update")
    plan = plan_wiring(crd(client_config(ours), patched, bundle=NEW), Wiring(NEW, moved))
    assert [rival for rival, _ in plan.rivals] == [ours] and plan.body is not None


def merged(before: Any, patch: dict[str, Any]) -> dict[str, Any]:
    """What a JSON merge patch makes of an object."""
    kept = {name: value for name, value in (before if isinstance(before, dict) else {}).items() if name not in patch}
    changed = {name: value for name, value in patch.items() if value is not None}
    return kept | {
        name: merged((before or {}).get(name), value) if isinstance(value, dict) else value
        for name, value in changed.items()
    }


@pytest.mark.parametrize(
    ("manager", "annotations", "said"),
    [
        (owned(NAME, by="argocd"), {}, "The next apply by argocd would bring it back"),
        (
            owned(NAME, by="helm", operation="Update"),
            INJECTED,
            r"take the annotation .*inject-ca-from out",
        ),
    ],
    ids=["applied", "injected"],
)
def test_what_others_would_undo_is_not_replaced(manager: Any, annotations: dict[str, str], said: str) -> None:
    """Both would write for ever, and each write rebuilds the watch caches."""
    found = crd(THEIRS, manager, bundle=OLD, annotations=annotations)
    with pytest.raises(WiringRefused, match=said):
        plan_wiring(found, Wiring(NEW, SERVICE, replaces=found.document["spec"]["conversion"]))


@pytest.mark.parametrize(
    ("config", "address"),
    [
        ({"service": {"namespace": "system", "name": "webhook", "path": "/old", "port": 8443}}, SERVICE),
        ({"url": "https://host/convert"}, Url("https://host:443/convert")),
    ],
)
def test_our_own_address_is_no_other_webhook(config: dict[str, Any], address: Any) -> None:
    """A manifest that names this webhook would be refused for its spelling."""
    assert plan_wiring(crd(config), Wiring(NEW, address)).body is not None


def test_one_host_may_have_the_webhooks_of_several_projects() -> None:
    """Behind a proxy only the path of a URL tells whose webhook it is."""
    with pytest.raises(WiringRefused, match="names the webhook at https://host/theirs"):
        plan_wiring(crd({"url": "https://host/theirs"}), Wiring(NEW, Url("https://host/ours")))


@pytest.mark.parametrize(
    ("named", "address", "is_it"),
    [
        ("a/b", Service("a", "b", "/convert"), True),
        ("a/b/convert", Service("a", "b", "/convert"), True),
        ("a/b:8443/convert", Service("a", "b", "/convert", 8443), True),
        ("a/b", Service("a", "b", "/convert", 8443), False),
        ("a/b/other", Service("a", "b", "/convert"), False),
        ("a/c", Service("a", "b"), False),
        ("https://host/convert", Url("https://host:443/convert"), True),
        ("https://host", Url("https://host/convert"), True),
        ("https://host/other", Url("https://host/convert"), False),
        ("https://host", Service("a", "b"), False),
    ],
)
def test_a_takeover_is_asked_for_by_name(named: str, address: Any, is_it: bool) -> None:
    """Another webhook than the one that was asked for would be replaced."""
    assert is_named(address, address_named(named)) is is_it
    assert is_named(address, address_named(name_of(address)))


def test_review_versions_that_are_understood_are_left_alone() -> None:
    """A CRD may prefer v1beta1 for other readers, and restow answers both versions, so the list stays."""
    found = crd(BY_SERVICE, bundle=NEW, versions=("v1beta1",))
    assert conversion(found, Wiring(NEW)) is None
    strange = crd(BY_SERVICE, bundle=NEW, versions=("v9",))
    assert conversion(strange, Wiring(NEW)) == {"webhook": {"conversionReviewVersions": ["v1"]}}


def test_without_an_address_the_crd_has_to_have_one() -> None:
    """Guessing would point API servers to somewhere."""
    with pytest.raises(WiringRefused, match="strategy None: say where its webhook is"):
        plan_wiring(crd(None), Wiring(NEW))
    with pytest.raises(WiringRefused, match="exactly one of url and service"):
        plan_wiring(crd({}), Wiring(NEW))


@pytest.mark.parametrize(
    ("config", "address", "host"),
    [
        (BY_SERVICE, SERVICE, "webhook.system.svc"),
        ({"service": {"namespace": "a", "name": "b"}}, Service("a", "b"), "b.a.svc"),
        ({"url": ELSEWHERE.url}, ELSEWHERE, "127.0.0.1"),
    ],
)
def test_addresses(config: dict[str, Any], address: Any, host: str) -> None:
    """The probe would go, and verify, elsewhere than the API server."""
    assert address_of(config) == address and address.host == host
    assert address.url.startswith("https://")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Url("http://a/b"),
        lambda: Url("https://a/b?c=d"),
        lambda: Url("https://user@a/b"),
        lambda: Url("https://a/b#c"),
        lambda: Service("", "b"),
        lambda: Service("a", "b", "convert"),
        lambda: Service("a", "b", port=0),
        lambda: address_of({**BY_SERVICE, "url": ELSEWHERE.url}),
    ],
)
def test_malformed_addresses(make: Any) -> None:
    """The server would refuse the CRD, after the probe had succeeded."""
    with pytest.raises(ValueError, match=r"."):
        make()
