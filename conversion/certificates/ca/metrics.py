"""The state of the certificates and the wiring as metrics, the same for every command that keeps them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from restow.conversion.certificates.ca.keeper import CertificateDetails
from restow.conversion.certificates.ca.rotation import RotationStep
from restow.kube.clock import SYSTEM_CLOCK


class CertificateMetrics:
    """A hook of ``Certificates``. All metrics exist from the start; the registry is a new one unless given.

    The last success starts with the start of the process, so its age is meaningful even if no look ever succeeded.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, now: Callable[[], datetime] = SYSTEM_CLOCK.now
    ) -> None:
        self._registry = registry = registry or CollectorRegistry()
        self._now = now
        self._writes_told = 0
        gauge, counter = partial(Gauge, registry=registry), partial(Counter, registry=registry)
        self._authority_ends = gauge(
            "restow_webhook_authority_expiry_timestamp_seconds",
            "When the own CA expires; NaN while that is not known.",
        )
        self._problems = gauge(
            "restow_webhook_wiring_problems",
            "CRDs and webhook configurations that do not say what they should, as far as is known.",
        )
        self._in_conflict = gauge(
            "restow_webhook_wiring_contested",
            "CRDs and webhook configurations whose wiring another writer undoes repeatedly.",
        )
        self._writes = counter(
            "restow_webhook_wiring_writes",
            "Times that this process wrote a CRD or a webhook configuration to wire it.",
        )
        self._failures = counter(
            "restow_webhook_keeping_failures",
            "Looks at the certificates that failed: a Secret cannot be read, a right is missing.",
        )
        self._success = gauge(
            "restow_webhook_keeping_last_success_timestamp_seconds",
            "When the certificates were last found, or made, as they should be; at first, when the process began.",
        )
        self._steps = counter(
            "restow_webhook_certificate_steps",
            "Steps that this process took in the Secrets: certificates issued, CAs made and replaced.",
            ("step",),
        )
        self._authority_ends.set(math.nan)
        self._success.set(now().timestamp())
        for step in RotationStep:
            self._steps.labels(step.name.lower())

    def __call__(self, details: CertificateDetails) -> None:
        """Update the metrics."""
        if details.authority_ends is not None:
            self._authority_ends.set(details.authority_ends.timestamp())
        self._problems.set(len(details.unwired))
        self._in_conflict.set(len(details.in_conflict))
        self._writes.inc(details.writes - self._writes_told)
        self._writes_told = details.writes
        for step in details.taken:
            self._steps.labels(step.name.lower()).inc()
        if details.failure:
            self._failures.inc()
        else:
            self._success.set(self._now().timestamp())

    def text(self) -> bytes:
        """Return all metrics of the registry as Prometheus text."""
        return generate_latest(self._registry)
