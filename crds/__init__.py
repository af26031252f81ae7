"""CustomResourceDefinitions as data: a read-only view of any apiextensions.k8s.io/v1 document, without I/O.

Public:

- ``load``, ``loads``: the CRDs of files, folders and texts;
- ``Crd``, ``Version``, ``Condition``, ``CrdError``: the document, checked once (``Crd.from_document``);
- ``Schema``: a node of a version's structural schema, as server-side apply and pruning see it;
- ``topology_differences``, ``retyped_fields``, ``added_defaults``, ``dropped_fields``, ``pruned_paths``: the
  effects of a schema change on objects and their owners, as paths in the notation of ``restow.crds.paths``;
- ``type_problems``: the values of an object whose type differs from the schema;
- ``version_priority``, ``sort_versions``: the order of API versions.

``restow.crds.cloudprofiles`` reads the packaged CRDs of the CloudProfile family, which ``python -m hack.crds``
writes. It and ``load`` read files; no other module does I/O, and no function reads a clock or mutates its arguments.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
