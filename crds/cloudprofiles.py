"""The packaged CustomResourceDefinitions of the CloudProfile family, read from crds/manifests/.

``kubectl apply`` takes the same files. The module reads only the files of this package.
"""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

from restow.crds.documents import load_documents

_GROUP: Final = "core.gardener.cloud"


def documents() -> dict[str, dict[str, Any]]:
    """Return the documents by the name of the CRD, e.g. ``shoots.core.gardener.cloud``; each call parses the files.

    The documents declare strategy Webhook with the Service of an ordinary installation and no CA bundle. An
    installation adds its own CA bundle, and may replace the Service by a ``url``.
    """
    folder = resources.files("restow.crds").joinpath("manifests")
    files = sorted(
        (each for each in folder.iterdir() if each.name.startswith(f"{_GROUP}_")), key=lambda file: file.name
    )
    found = [document for file in files for document in load_documents(file.read_text(encoding="utf-8"))]
    return {document["metadata"]["name"]: document for document in found}
