"""The API of the CloudProfile family, declared once for both of its versions.

``manifests()`` returns the CustomResourceDefinitions. ``python -m hack.crds`` writes them to crds/manifests/,
from where they are packaged, read and applied. restow does not need this package at run time.

Modules, from the parts to the whole: ``nodes`` (kinds of schema nodes, and where a part is used), ``lifecycle``,
``machines``, ``profiles`` and ``shoots`` (the fields), ``definition`` (the documents and their text).

Pure, except for ``__main__``.
"""

from hack.crds.definition import manifests, written

__all__ = ["manifests", "written"]
