"""Cases of the envelope: the form of a ConversionReview's answer, and the requests that a webhook must understand."""

from __future__ import annotations

import re
from typing import Final

from restow.conversion.model.values import Json
from restow.conversion.reviews.responsechecks import check_http, check_result, check_review, check_uid
from restow.conversion.testing.conformance.case import WebhookUnderTest, asked, expect, must, should

#: The stub that an API server sends with the request (apiextensions v1 types: ``response`` without omitempty members).
STUB: Final[Json] = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
#: Media types as Go's mime.ParseMediaType accepts them.
_MEDIA_TYPE = re.compile(rf"\s*{_NAME}(/{_NAME})?\s*(;\s*{_NAME}\s*=\s*({_NAME}|\"[^\"]*\")\s*)*;?\s*")


@must(
    "answers",
    "Nothing can be read or written at any version but the stored one.",
    "apiserver pkg/util/webhook/client.go; client-go rest/request.go",
)
async def answers(webhook: WebhookUnderTest) -> None:
    """A review over HTTPS gets a 2xx answer with a JSON body, its certificate verified by the CA bundle."""
    exchange = await webhook.ask_first()
    with asked("a review of one object"):
        check_http(exchange.http.status, exchange.content_type, exchange.http.body)


@must(
    "content-type",
    "The API server reports an internal error instead of reading the answer.",
    "client-go rest/request.go transformResponse",
)
async def _content_type(webhook: WebhookUnderTest) -> None:
    """The Content-Type is absent, or can be parsed."""
    exchange = await webhook.ask_first()
    expect(
        not exchange.content_type or _MEDIA_TYPE.fullmatch(exchange.content_type),
        "the answer's Content-Type cannot be parsed",
    )


@must(
    "review-kind",
    "Every conversion fails: expected webhook response of …, got …",
    "webhook_converter.go getConvertedObjectsFromResponse",
)
async def _review_kind(webhook: WebhookUnderTest) -> None:
    """The answer is an apiextensions.k8s.io/v1 ConversionReview with a response."""
    exchange = await webhook.ask_first()
    with asked("a v1 review"):
        check_review(exchange.sent, exchange.answer)


@must(
    "uid",
    "Every conversion fails: expected response.uid=…",
    "webhook_converter.go getConvertedObjectsFromResponse",
)
async def _uid(webhook: WebhookUnderTest) -> None:
    """response.uid is the uid of the request."""
    exchange = await webhook.ask_first()
    with asked("a v1 review"):
        check_uid(exchange.sent, exchange.answer)


@must(
    "result-success",
    "Every conversion fails: response.result.status was …, not 'Success'",
    "webhook_converter.go getConvertedObjectsFromResponse",
)
async def _result(webhook: WebhookUnderTest) -> None:
    """result.status is `Success`, written exactly so."""
    exchange = await webhook.ask_first()
    with asked("a review of one object"):
        check_result(exchange.answer)


@must(
    "stub-response",
    "That is what API servers send: every conversion fails.",
    "webhook_converter.go createConversionReviewObjects; kube-rs#999",
)
async def _stub_response(webhook: WebhookUnderTest) -> None:
    """A request that carries a stub of a response, with nulls, is understood."""
    exchange = await webhook.ask_first(response=STUB)
    with asked("a review with the stub of a response in it"):
        expect(exchange.objects, "no object came back")


@must(
    "unknown-envelope-fields",
    "The first API server that sends a new one breaks every conversion.",
    "Kubernetes API conventions",
)
async def _unknown_fields(webhook: WebhookUnderTest) -> None:
    """Unknown fields of the envelope are ignored."""
    exchange = await webhook.ask_first(somethingNew={"a": [1, None]}, other=True)
    with asked("a review with unknown fields next to the request"):
        expect(exchange.objects, "no object came back")


@should(
    "v1beta1",
    "Fails where conversionReviewVersions lists v1beta1 first.",
    "webhook_converter.go createConversionReviewObjects",
)
async def _v1beta1(webhook: WebhookUnderTest) -> None:
    """A v1beta1 review is answered as v1beta1."""
    exchange = await webhook.ask_first(review="v1beta1")
    with asked("a v1beta1 review"):
        expect(exchange.objects, "no object came back")
        version = exchange.answer.get("apiVersion")
    expect(version == "apiextensions.k8s.io/v1beta1", "a v1beta1 review was answered with another version of it")


@should("empty-list", "API servers do not send one; probes and tools do.", "webhook_converter.go Convert")
async def _empty_list(webhook: WebhookUnderTest) -> None:
    """A review of no objects succeeds."""
    exchange = await webhook.ask([], webhook.samples.versions[0])
    with asked("a review of no objects"):
        expect(exchange.result.get("status", "").lower() == "success", "it was not answered with Success")
