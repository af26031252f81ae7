"""CustomResourceDefinitions as data: a read-only view of any apiextensions.k8s.io/v1 document, without I/O.

Public:

- ``load``, ``loads``: the CRDs of files, folders and texts;
- ``Crd``, ``Version``, ``Condition``, ``CrdError``: the document, checked once (``Crd.from_document``);
- ``Schema``: a node of a version's structural schema, as server-side apply and pruning see it;
- ``topology_differences``, ``retyped_fields``, ``added_defaults``, ``dropped_fields``, ``pruned_paths``: the
  effects of a schema change on objects and their owners, as paths in the notation of ``restow.crds.paths``;
- ``type_problems``, ``TypeProblem``: the values of an object whose type differs from the schema;
- ``version_priority``, ``sort_versions``: the order of API versions.

``restow.crds.cloudprofiles`` reads the packaged CRDs of the CloudProfile family, which ``python -m restow.crds.api``
writes. It and ``load`` read files; no other module does I/O, and no function reads a clock or mutates its arguments.
"""

from restow.crds.compare import added_defaults, dropped_fields, pruned_paths, retyped_fields, topology_differences
from restow.crds.crd import Condition, Crd, CrdError, Strategy, Version, sort_versions, version_priority
from restow.crds.files import load, loads
from restow.crds.schema import ANY, Kind, ListType, MapType, Scalar, Schema
from restow.crds.types import TypeProblem, type_problems

__all__ = [
    "ANY",
    "Condition",
    "Crd",
    "CrdError",
    "Kind",
    "ListType",
    "MapType",
    "Scalar",
    "Schema",
    "Strategy",
    "TypeProblem",
    "Version",
    "added_defaults",
    "dropped_fields",
    "load",
    "loads",
    "pruned_paths",
    "retyped_fields",
    "sort_versions",
    "topology_differences",
    "type_problems",
    "version_priority",
]
