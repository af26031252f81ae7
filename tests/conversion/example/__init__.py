"""The example provider, which lives in docs/examples/provider."""

from docs.examples.provider.conversions import CRDS, graph

__all__ = ["CRDS", "graph"]
