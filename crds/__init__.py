"""CustomResourceDefinitions as data: a read-only, pure view over any apiextensions.k8s.io/v1 document.

Public:

- ``Crd``, ``Version``, ``Condition``, ``CrdError``: the document, checked once (``Crd.from_document``);
- ``Schema``: a node of a version's structural schema, in the terms of server-side apply and of pruning;
- ``topology_differences``, ``retyped_fields``, ``added_defaults``, ``dropped_fields``, ``pruned_paths``: what a change
  of the schema does to objects and their owners, as paths (written as ``restow.crds.paths`` says);
- ``type_problems``, ``TypeProblem``: the values of an object that have another type than their schema names;
- ``version_priority``, ``sort_versions``: the order of API versions.

The room also has the CRDs of the CloudProfile family: ``restow.crds.cloudprofiles`` reads the packaged manifests, which
``python -m restow.crds.api`` writes. Apart from these two nothing here does I/O; nothing knows a clock or mutates what
it is given.
"""

from restow.crds.compare import added_defaults, dropped_fields, pruned_paths, retyped_fields, topology_differences
from restow.crds.crd import Condition, Crd, CrdError, Strategy, Version
from restow.crds.schema import ANY, Kind, ListType, MapType, Scalar, Schema
from restow.crds.types import TypeProblem, type_problems
from restow.crds.versions import sort_versions, version_priority

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
    "pruned_paths",
    "retyped_fields",
    "sort_versions",
    "topology_differences",
    "type_problems",
    "version_priority",
]
