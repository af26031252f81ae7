"""Documents of YAML as the API server sees them: as JSON, in which what looks like a date is a text.

For documents that restow ships, or that an API server takes as they are. ``restow convert`` and its like read what
people wrote with the reader of ``restow.conversion.manifests``, which follows kubectl to the letter, bounds aliases,
and names lines.
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
