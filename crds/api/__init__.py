"""The API of the CloudProfile family, declared once for both of its versions.

``manifests()`` gives the CustomResourceDefinitions; ``python -m restow.crds.api`` writes them to crds/manifests/, which
is what is packaged, read and applied. Nothing here is needed at run time.

Modules, from the words to the whole: ``nodes`` (kinds of schema nodes, and where a part is used), ``lifecycle``,
``machines``, ``profiles`` and ``shoots`` (the fields), ``definition`` (the documents and their text).

Pure, but for ``__main__``.
"""

from restow.crds.api.definition import manifests, written

__all__ = ["manifests", "written"]
