"""The packaged CustomResourceDefinition of ``ConversionRules``: crds/manifests/, as ``kubectl apply`` takes it.

The module reads only the files of this package.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

from restow.crds.documents import load_documents

__all__ = ["NAME", "document"]

NAME: Final = "conversionrules.restow.dev"


def document() -> dict[str, Any]:
    """Return the document, parsed at every call."""
    file = resources.files("restow.crds").joinpath("manifests", "restow.dev_conversionrules.yaml")
    found: dict[str, Any] = load_documents(file.read_text(encoding="utf-8"))[0]
    return found
