"""Who may ask: by default anybody, with an authority for clients only who shows a certificate of it.

An API server shows one to admission webhooks if it is told to (``kubeConfigFile`` of a WebhookAdmissionConfiguration:
apiserver ``pkg/admission/plugin/webhook/config``), and never to conversion webhooks (apiextensions-apiserver
``pkg/apiserver/conversion/webhook_converter.go`` gives its client an empty kubeconfig). Whether a certificate is one of
the authority's is decided in the handshake; here, whether there was one, and whose. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Literal

from restow.conversion.server.refusals import Refusal

__all__ = ["Clients"]


@dataclass(frozen=True, slots=True)
class Clients:
    """Which requests need a client certificate.

    Attributes:
        admission: those of admission steps.
        conversion: those of conversions: API servers show none, so only for those behind a proxy that does.
        names: the common names that may ask; all that the authority signed if there are none.
    """

    admission: bool = False
    conversion: bool = False
    names: frozenset[str] = frozenset()

    def check(self, kind: Literal["admission", "conversion"], certificate: Mapping[str, Any] | None) -> None:
        """Raise Refusal unless the client may ask; ``certificate`` is what ``ssl`` says of a verified one, if any."""
        if not (self.admission if kind == "admission" else self.conversion):
            return
        if not certificate:
            message = (
                f"this webhook answers {kind} requests only to clients with a certificate of the authority that "
                "--client-ca names; see kubeConfigFile in docs/security.md"
            )
            raise Refusal(HTTPStatus.UNAUTHORIZED, "no-certificate", message, hangs_up=True)
        if self.names and self.names.isdisjoint(_common_names(certificate)):
            message = "the name in the client's certificate is none of those that --client-name allows"
            raise Refusal(HTTPStatus.FORBIDDEN, "wrong-certificate", message, hangs_up=True)


def _common_names(certificate: Mapping[str, Any]) -> Iterable[str]:
    return (value for part in certificate.get("subject", ()) for name, value in part if name == "commonName")
