from .convert import (
    LAST_APPLIED,
    Converted,
    NoTargetVersion,
    Note,
    ObjectOutcome,
    Status,
    Targets,
    convert_manifest,
    objects_of,
)
from .document import YamlDocument, read
from .edit import write_yaml

__all__ = [
    "LAST_APPLIED",
    "Converted",
    "NoTargetVersion",
    "Note",
    "ObjectOutcome",
    "Status",
    "Targets",
    "YamlDocument",
    "convert_manifest",
    "objects_of",
    "read",
    "write_yaml",
]
