"""YAML documents as the API server reads them: as JSON, in which a date is a string.

``load_documents`` is for documents that restow ships, or that an API server accepts unchanged: it returns plain data,
parsed by libyaml where that is installed. ``restow.conversion.manifests.read`` is for what people wrote: it follows
kubectl to the letter, keeps the place of every value, bounds aliases and names lines. It is slower, since it builds a
node for every value, and ``crds`` stands below ``conversion``, so neither can replace the other.
"""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["load_documents"]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # whichever there is
    """Safe, and without dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_documents(text: str | bytes) -> list[Any]:
    """Return the documents of a text; empty ones are left out.

    Raises:
        yaml.YAMLError: the text is no YAML.
    """
    return [document for document in yaml.load_all(text, _Loader) if document is not None]  # a safe loader
