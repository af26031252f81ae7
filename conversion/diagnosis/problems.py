"""The problems that a CRD can have, each with its effect and the one command that fixes it or leads to its cause.

The messages of API servers that this module recognises were seen on kube-apiserver 1.36: those of ``convert`` in
apiextensions ``conversion/webhook_converter.go``, of the Service's resolver in apiserver ``pkg/util/proxy``, of Go's
TLS client, and of the namespace controller's conditions (``namespaced_resources_deleter.go``). Any other message is
shown as it is.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from restow.conversion.certificates.wiring.clientconfig import Address, Service
from restow.conversion.certificates.wiring.fieldmanagers import injector_of
from restow.crds import Crd
from restow.crds.problems import CrdProblem, ProblemKind
from restow.kube.resources import qualified_name

_REFUSED: Final = re.compile(r"conversion webhook for \S+, Kind=\w+ failed: (?P<why>.*)", re.DOTALL)
_CALL: Final = re.compile(r'Post "[^"]*": (?P<why>.*)', re.DOTALL)
_UNTRUSTED: Final = ("x509:", "tls: failed to verify", "certificate has expired", "unable to load root certificates")
_NAMED: Final = 5  # the most objects that a sentence names
_NOT_FOUND: Final = re.compile(r'service "[^"]*" not found')


def of_crd(crd: Crd) -> Iterator[CrdProblem]:
    """Yield the problems that the conditions of the CRD show."""
    accepted = crd.conditions.get("NamesAccepted")
    if not crd.established and not crd.terminating:
        why = accepted.message if accepted is not None and not crd.names_accepted else ""
        yield CrdProblem(
            ProblemKind.NOT_SERVED,
            f"the API server does not serve {crd.name}" + (f": {why}" if why else ""),
            "Its objects can be neither read nor written.",
            f"kubectl get crd {crd.name} -o jsonpath='{{.status.conditions}}'",
            "Choose names that no other CRD has, or delete the other CRD.",
        )
    stuck = crd.conditions.get("Terminating")
    if crd.terminating:
        yield CrdProblem(
            ProblemKind.DELETION_STUCK,
            f"{crd.name} is being deleted" + (f": {stuck.message}" if stuck is not None and stuck.message else ""),
            "It stays until every object of it is deleted, and nothing can be created meanwhile.",
            f"kubectl get {crd.name} -A",
            "Objects with finalizers wait for their controllers. Solve the other problems named here first.",
        )


def called(message: str) -> str | None:
    """Return why the API server's call of a webhook failed; None if the webhook answered, or none was called."""
    found = _REFUSED.search(message)
    call = None if found is None else _CALL.match(found["why"])
    return None if call is None else call["why"]


def refusal(message: str) -> str:
    """Return the message of a webhook that could not convert an object; for other errors the whole message."""
    found = _REFUSED.search(message)
    return message if found is None else found["why"]


def webhook_problem(crd: Crd, server: Address | None, why: str, needed: str) -> CrdProblem:
    """Return the problem for a failed call of the webhook.

    Args:
        crd: the CRD as it is now.
        server: the webhook that it names; None for an address that cannot be read.
        why: the API server's message.
        needed: why objects need it, or why that is not known; empty if none does.
    """
    where = f"the webhook at {server}" if server is not None else "its webhook, whose address cannot be read,"
    untrusted = any(text in why for text in _UNTRUSTED)
    kind = ProblemKind.CERTIFICATE_NOT_TRUSTED if untrusted else ProblemKind.WEBHOOK_UNREACHABLE
    what = f"API servers cannot call {where} of {crd.name}: {why}"
    effect = (
        f"Objects cannot be read, written or watched at versions other than the one they are stored at "
        f"({crd.storage.name}). Their namespaces cannot be deleted, and the garbage collector of the cluster stops."
    )
    if not needed:
        does = f"No object needs the webhook: the command sets the conversion strategy of {crd.name} to None."
        return CrdProblem(kind, what, effect, f"restow unwire {crd.name}", does)
    command, does = _repair(crd, server, why, untrusted=untrusted)
    gone = (
        f" If the webhook is gone for good, run restow unwire {crd.name} --although-needed: reads and deletions work "
        "again, but an object loses, at each write, what the version of the write does not declare."
    )
    return CrdProblem(kind, what, effect, command, f"{does} {needed}.{gone}")


def _repair(crd: Crd, server: Address | None, why: str, *, untrusted: bool) -> tuple[str, str]:
    """Return the command that examines or repairs a broken webhook that is needed, and the command's effect."""
    if not isinstance(server, Service):
        url = "" if server is None else server.url
        return f"curl -vk {url}".rstrip(), "See from a host of the API servers whether it answers, and by which CA."
    injector = injector_of(crd.annotations)
    if untrusted and injector:
        return (
            "kubectl -n cert-manager logs deploy/cert-manager-cainjector --tail=50",
            f"cert-manager should inject the bundle ({injector}): see why it does not.",
        )
    if untrusted:
        secret = f"kubectl -n {server.namespace} get secret {server.name} -o jsonpath='{{.data.ca\\.crt}}'"
        patch = f'{{"spec":{{"conversion":{{"webhook":{{"clientConfig":{{"caBundle":"\'$({secret})\'"}}}}}}}}}}'
        does = (
            f"It puts the CA of the Secret {server.namespace}/{server.name} into the CRD. A webhook of restow does so "
            "by itself (--own-ca)."
        )
        return f"kubectl patch crd {crd.name} --type=merge -p '{patch}'", does
    if _NOT_FOUND.search(why):
        return f"kubectl -n {server.namespace} get services", "Install the webhook again, or correct the address."
    return (
        f"kubectl -n {server.namespace} get endpointslices,pods -l kubernetes.io/service-name={server.name}",
        f"See why no pod of the Service {server.namespace}/{server.name} answers, and start it again.",
    )


def object_problem(crd: Crd, version: str, metadata: Mapping[str, Any], message: str) -> CrdProblem:
    """Return the problem for an object that cannot be converted to a version, with the managers that need it."""
    namespace, name = metadata.get("namespace"), metadata["name"]
    within = f"-n {namespace} " if namespace else ""
    at = crd.storage.name
    if version == at:  # it is stored at an older version
        at = next((other for other in crd.served if other != version), at)
    entries, api_version = metadata.get("managedFields") or (), f"{crd.group}/{version}"
    managers = ", ".join(sorted({entry["manager"] for entry in entries if entry["apiVersion"] == api_version}))
    applies = (
        f" Every server-side apply of this object fails too, because its managedFields have entries at {version}, of "
        f"{managers}."
    )
    return CrdProblem(
        ProblemKind.OBJECT_NOT_CONVERTIBLE,
        f"{crd.kind} {qualified_name(namespace, name)} cannot be converted to {version}: {refusal(message)}",
        f"Every list and watch of {crd.plural} at {version} fails with it, for all users.{applies if managers else ''}",
        f"kubectl {within}edit {crd.plural}.{at}.{crd.group} {name}",
        f"It opens the object as it is stored ({at}), so that the field can be corrected.",
    )


def left_version_problem(crd: Crd, api_version: str, keys: Sequence[str]) -> CrdProblem:
    """Return the problem for objects that are stored at a version that the CRD does not have any more.

    Args:
        crd: the CRD.
        api_version: that version.
        keys: the keys in etcd of the objects; empty if the API server names none.
    """
    left, storage = api_version.removeprefix(f"{crd.group}/"), crd.storage.name
    found = [crd.named_by(key) for key in keys]
    shown = ", ".join(qualified_name(*each) for each in found[:_NAMED]) or "(one that the API server does not name)"
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    are = "are" if len(found) > 1 else "is"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    back = dict.fromkeys((left, *crd.unknown_stored_versions))
    versions = [{"name": name, "served": False, "storage": False, "schema": schema} for name in back]
    patch = json.dumps([{"op": "add", "path": "/spec/versions/-", "value": version} for version in versions])
    webhook = f" Its conversion webhook must convert {left}." if crd.strategy == "Webhook" else ""
    remedy = (
        f"It puts {', '.join(back)} back, unserved and with any fields, and stores every object at {storage}.{webhook} "
        f"restow ready {crd.name} --drop {left} then says whether {left} may go again."
    )
    if found:
        remedy += (
            " Or delete the objects without reading them, past finalizers and admission (from Kubernetes 1.37 on; it "
            "takes the right unsafe-delete-ignore-read-errors):"
        )
    return CrdProblem(
        ProblemKind.OBJECT_OF_LEFT_VERSION,
        f"{crd.kind} {shown}{more} {are} stored at {left}, which {crd.name} does not have any more",
        "Such an object cannot be read, changed or deleted, nor can its namespace, and every list and watch of its "
        "kind fails, for all users.",
        f"kubectl patch crd {crd.name} --type=json -p '{patch}' && restow migrate {crd.name} --ignore-mark",
        remedy,
        tuple(_unsafe_delete(crd, *each) for each in found),
    )


def _unsafe_delete(crd: Crd, namespace: str | None, name: str) -> str:
    path = crd.resource_at(crd.storage.name).path(namespace, name)
    return f"kubectl delete --raw '{path}?ignoreStoreReadErrorWithClusterBreakingPotential=true'"


def unreadable(crd: Crd, version: str, message: str) -> CrdProblem:
    """Return the problem for a version that cannot be listed for another reason than its webhook."""
    return CrdProblem(
        ProblemKind.NOT_READABLE,
        f"{crd.plural} cannot be listed at {version}: {message}",
        f"Clients of {version} see nothing.",
        f"kubectl get {crd.plural}.{version}.{crd.group} -A",
        "It repeats the request. If the message stays, it names the cause.",
    )


def namespace_waits(namespace: Mapping[str, Any]) -> dict[str, str]:
    """Return why a namespace's deletion does not end: messages by condition; empty if it is not being deleted."""
    status = namespace.get("status") or {}
    if status.get("phase") != "Terminating":
        return {}
    return {
        str(condition["type"]): str(condition.get("message") or "")
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }


def namespace_problem(crd: Crd, namespace: Mapping[str, Any]) -> CrdProblem | None:
    """Return the problem for a namespace whose deletion waits for objects of this CRD; None if it does not."""
    messages = [message for message in namespace_waits(namespace).values() if names(crd, message)]
    if not messages:
        return None
    name = namespace["metadata"]["name"]
    return CrdProblem(
        ProblemKind.NAMESPACE_STUCK,
        f"the namespace {name} cannot be deleted: {messages[0]}",
        "It stays in the phase Terminating, and nothing can be created in it.",
        f"kubectl get {crd.plural}.{crd.storage.name}.{crd.group} -n {name}",
        "The deletion goes on by itself once the other problems are solved; objects with finalizers wait for their "
        "controllers.",
    )


def names(crd: Crd, message: str) -> bool:
    """Return whether a namespace's condition concerns the objects of this CRD, not of another one of its group."""
    group, kind, plural = re.escape(crd.group), re.escape(crd.kind), re.escape(crd.plural)
    pattern = (
        rf"(?<![\w.-]){plural}\.{group}(?![\w.-])|(?<![\w.-]){group}/\w+, (Kind={kind}(List)?|Resource={plural})\b"
    )
    return re.search(pattern, message) is not None
