"""Conformance of conversion webhooks: any webhook, in any language, by its URL (needs hypothesis).

    report = await run("https://127.0.0.1:9443/convert", ca, Samples(crd))
    print(report.table())

or ``python -m restow.conversion.testing.conformance URL --ca FILE --crd FILE``. Each case reproduces what an API server
sends and checks (apiextensions-apiserver 1.36), and describes the effect on clients if the webhook behaves differently.
"""

from restow.conversion.testing.conformance.case import Case, NotConformant, Severity, Skipped
from restow.conversion.testing.conformance.run import CASES, CaseOutcome, ConformanceReport, check, run
from restow.conversion.testing.conformance.samples import Samples

__all__ = [
    "CASES",
    "Case",
    "CaseOutcome",
    "ConformanceReport",
    "NotConformant",
    "Samples",
    "Severity",
    "Skipped",
    "check",
    "run",
]
