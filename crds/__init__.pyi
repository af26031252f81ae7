from .compare import added_defaults, dropped_fields, pruned_paths, retyped_fields, topology_differences
from .crd import Condition, Crd, CrdError, Strategy, Version, sort_versions, version_priority
from .files import load, loads
from .schema import ANY, Kind, Scalar, Schema
from .types import type_problems

__all__ = [
    "ANY",
    "Condition",
    "Crd",
    "CrdError",
    "Kind",
    "Scalar",
    "Schema",
    "Strategy",
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
