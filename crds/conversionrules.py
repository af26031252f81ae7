"""The packaged CustomResourceDefinition of ``ConversionRules``, read from crds/manifests/.

``kubectl apply`` takes the same file. The module reads only the files of this package.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

from restow.crds.documents import load_documents
from restow.kube import Resource

NAME: Final = "conversionrules.restow.dev"
CONVERSION_RULES: Final = Resource("restow.dev", "v1alpha1", "conversionrules", namespaced=False)


def document() -> dict[str, Any]:
    """Return the document; every call parses the file again."""
    file = resources.files("restow.crds").joinpath("manifests", "restow.dev_conversionrules.yaml")
    found: dict[str, Any] = load_documents(file.read_text(encoding="utf-8"))[0]
    return found
