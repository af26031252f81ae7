"""The authorities of one webhook, and how one takes the place of another.

    signing ──(successor added)──> signing + successor ──(promoted)──> signing' + previous ──(forgotten)──> signing'

A private key lives no longer than it signs: promotion destroys the old one. ``previous`` may also hold certificates
that were found in a CRD when this state was made: what served until then goes on being trusted, until it is replaced.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from restow.conversion.certificates.authority import Authority
from restow.conversion.wiring.bundle import NO_BUNDLE, Bundle

__all__ = ["Trust"]


@dataclass(frozen=True, slots=True)
class Trust:
    """Which CA signs, which one is going to, and which ones are still trusted."""

    signing: Authority
    successor: Authority | None = None
    previous: Bundle = NO_BUNDLE

    @property
    def bundle(self) -> Bundle:
        """Everything trusted: the signing CA first."""
        own = [authority.der for authority in (self.signing, self.successor) if authority is not None]
        return Bundle.of(own) | self.previous

    def with_successor(self, authority: Authority) -> Trust:
        """Announce the next CA; it signs nothing yet."""
        return replace(self, successor=authority)

    def promoted(self) -> Trust:
        """Let the successor sign.

        Raises:
            ValueError: there is none.
        """
        if self.successor is None:
            msg = "there is no successor to promote"
            raise ValueError(msg)
        return Trust(self.successor, None, Bundle.of([self.signing.der]) | self.previous)

    def forgetting(self, certificates: Bundle) -> Trust:
        """Trust some previous certificates no more."""
        return replace(self, previous=self.previous - certificates)
