"""``restow.conversion.reviews.responsechecks`` judges an answer as a real API server does."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from restow.conversion.certificates import Bundle
from restow.conversion.reviews.responsechecks import ResponseRejected, SentReview, accept
from restow.kube.client import HttpCluster
from restow.kube.errors import AlreadyExists, ApiError, NotFound, one_line
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import until
from tests.conversion.conformance.breakages import GOOD
from tests.conversion.conformance.server import Reply, served
from tests.conversion.conformance.widgets import GROUP, Json, crd

V1ALPHA1, V1 = (Resource(GROUP, version, "widgets", namespaced=True) for version in ("v1alpha1", "v1"))

Change = Callable[[Json], Any]

_KEY = "/widgets.example.dev/widgets/default/a: "  # Kubernetes 1.37 begins with the object's key in etcd
_BEFORE = "Internal error occurred: "
"""What an API server from 1.37 on says before the reason, wherever it reads an object that it cannot convert."""


def put(*path: Any, value: Any = ...) -> Change:
    """Put something at a place of the answer; an ellipsis takes out what is there."""

    def change(answer: Json) -> Json:
        changed = copy.deepcopy(answer)
        node: Any = changed
        for name in path[:-1]:
            node = node[name]
        if value is ...:
            node.pop(path[-1], None)
        else:
            node[path[-1]] = value
        return changed

    return change


OBJECT = ("response", "convertedObjects", 0)
META = (*OBJECT, "metadata")

ANSWERS: dict[str, Change] = {
    "no kind of review": put("kind"),
    "no apiVersion of the review": put("apiVersion"),
    "neither": lambda answer: {"response": answer["response"]},
    "another kind of review": put("kind", value="Review"),
    "another group of review": put("apiVersion", value="other.example.dev/v1"),
    "a list": lambda answer: [answer],
    "wrong version of the review": put("apiVersion", value="apiextensions.k8s.io/v1beta1"),
    "no response": put("response", value=None),
    "uid": put("response", "uid", value="other"),
    "no uid": put("response", "uid"),
    "status in lower case": put("response", "result", value={"status": "success"}),
    "no result": put("response", "result"),
    "failure": put("response", "result", value={"status": "Failure", "message": "out of order"}),
    "failure without a message": put("response", "result", value={"status": "Failure"}),
    "no objects": put("response", "convertedObjects", value=None),
    "two objects": put("response", "convertedObjects", value=[{}, {}]),
    "null": put(*OBJECT, value=None),
    "no kind": put(*OBJECT, "kind"),
    "old apiVersion": put(*OBJECT, "apiVersion", value=f"{GROUP}/v1"),
    "other group": put(*OBJECT, "apiVersion", value="other.example.dev/v1alpha1"),
    "other kind": put(*OBJECT, "kind", value="Gadget"),
    "name": put(*META, "name", value="other"),
    "namespace": put(*META, "namespace"),
    "uid of the object": put(*META, "uid", value="1"),
    "no metadata": put(*META),
    "labels are a list": put(*META, "labels", value=[]),
    "annotations are a text": put(*META, "annotations", value="x"),
    "a label is a number": put(*META, "labels", value={"a": 1}),
    "an annotation is an object": put(*META, "annotations", value={"a": {}}),
    "a label's value is too long": put(*META, "labels", value={"a": "x" * 64}),
    "a label's key": put(*META, "labels", value={"a b": "x"}),
    "an annotation's key": put(*META, "annotations", value={"/x": "y"}),
    "annotations are too large": put(*META, "annotations", value={"a": "x" * (1 << 18)}),
    "annotations are as large as can be": put(*META, "annotations", value={"a": "x" * ((1 << 18) - 1)}),
    "labels and annotations are gone": lambda answer: put(*META, "labels")(put(*META, "annotations")(answer)),
    "odd but allowed": put(*META, "annotations", value={"Example.DEV/X_y.z": "", "a": "é"}),
    "other metadata": put(*META, "generation", value=99),
    "unknown fields": put("more", value={"a": 1}),
}

REPLIES: dict[str, Reply] = {
    "empty": Reply(b""),
    "no JSON": Reply(b"<html>"),
    "500 in text": Reply(b'panic: "nil"\n', 500, {"Content-Type": "text/plain"}),
    "500 in JSON": Reply(b"{}", 500),
    "a Status": Reply(b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"said so"}', 500),
    "404": Reply(b"404 page not found", 404, {"Content-Type": "text/plain"}),
    "413": Reply(b"too large", 413, {"Content-Type": "text/plain"}),
    "422": Reply(b"", 422),
    "503 without Retry-After": Reply(b"busy", 503, {"Content-Type": "text/plain"}),
}


@dataclass
class Spoiled:
    """A good webhook whose answers are spoiled; it remembers what it was asked last, and what it answered."""

    change: Change = lambda answer: answer
    reply: Reply | None = None
    asked: Json = field(default_factory=dict)
    answered: Reply = field(default_factory=lambda: Reply(b""))

    def __call__(self, body: bytes) -> Reply:
        """Answer a review."""
        self.asked = json.loads(body)
        self.answered = self.reply or Reply(json.dumps(self.change(json.loads(GOOD(body).body))).encode())
        return self.answered

    def judged(self) -> tuple[str, Json | None]:
        """What ``accept`` says of the last answer: the error, or the object."""
        request = self.asked["request"]
        version = self.asked["apiVersion"].rpartition("/")[2]
        sent = SentReview(request["uid"], request["desiredAPIVersion"], tuple(request["objects"]), version)
        content_type = self.answered.headers.get("Content-Type", "")
        try:
            [got] = accept(sent, status=self.answered.status, content_type=content_type, body=self.answered.body)
        except ResponseRejected as error:
            return str(error), None
        return "", got


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_the_same_words_for_the_same_answers(version: str, cluster: HttpCluster, tmp_path: Path) -> None:
    """What the probe accepts must be what the server accepts, and its sentence the one that people search for."""
    spoiled = Spoiled()
    document = dict(crd().document)
    async with served(spoiled, tmp_path) as running:
        config = {"url": running.url, "caBundle": Bundle.from_pem(running.ca).base64}
        webhook = {"clientConfig": config, "conversionReviewVersions": [version]}
        document["spec"] = {**document["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}
        await cluster.create(CRDS, json.dumps(document).encode())
        try:
            await until(lambda: created(cluster), "the object cannot be created")
            differences = [
                difference
                for name, change, reply in (
                    *((name, change, None) for name, change in ANSWERS.items()),
                    *((name, lambda answer: answer, reply) for name, reply in REPLIES.items()),
                )
                if (difference := await compared(cluster, spoiled, change, reply, name))
            ]
            assert not differences, "\n".join(differences)
        finally:
            spoiled.change, spoiled.reply = (lambda answer: answer), None
            await cluster.delete(CRDS, document["metadata"]["name"])
            await until(lambda: gone(cluster), "the CRD is not gone")


async def compared(cluster: HttpCluster, spoiled: Spoiled, change: Change, reply: Reply | None, name: str) -> str:
    """Read an object while the webhook answers so; return how the two judgements differ, if they do."""
    spoiled.change, spoiled.reply = change, reply
    try:
        found = (await cluster.get(V1ALPHA1, "a", "default")).json()
        said = ""
    except ApiError as error:
        found, said = None, error.said.removeprefix(_BEFORE).removeprefix(_KEY)
    ours, accepted = spoiled.judged()
    ours = one_line(ours)
    if said or ours:
        # The server quotes the object, and where the JSON breaks off; restow never shows values.
        same = said == ours or (ours and said.startswith(ours.removesuffix(" is malformed").split(": the ")[0]))
        return "" if same else f"{name}:\n  server: {said[:400]}\n  restow: {ours[:400]}"
    assert accepted is not None
    seen = {field: (found or {}).get("metadata", {}).get(field) for field in ("labels", "annotations", "generation")}
    expected = {field: accepted["metadata"].get(field) for field in seen}
    return "" if seen == expected else f"{name}: {seen} != {expected}"


async def gone(cluster: HttpCluster) -> bool:
    """Whether the CRD is gone."""
    try:
        await cluster.get(CRDS, f"widgets.{GROUP}")
    except NotFound:
        return True
    return False


async def created(cluster: HttpCluster) -> bool:
    """Whether the object could be created and read; an attempt that stored it may have failed after that."""
    metadata = {"name": "a", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": metadata, "spec": {"address": "x"}}
    try:
        with suppress(AlreadyExists):
            await cluster.create(V1, json.dumps(body).encode(), "default")
        await cluster.get(V1ALPHA1, "a", "default")
    except ApiError:
        return False
    return True
