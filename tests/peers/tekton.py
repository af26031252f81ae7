"""Tekton Pipelines: Task."""

from __future__ import annotations

from typing import Final

from tests.peers.building import Project
from tests.peers.objects import DURATIONS
from tests.peers.peer import Peer

__all__ = ["PEERS"]

_CONVERTED: Final = ("task", "container", "param", "resolver", "result", "workspace")
_PROJECT: Final = Project(
    "tekton",
    (
        (
            "github.com/tektoncd/pipeline",
            (
                "config/300-crds/300-task.yaml",
                *(f"pkg/apis/pipeline/v1beta1/{name}_conversion.go" for name in _CONVERTED),
                "pkg/apis/version/conversion.go",
            ),
        ),
    ),
)

_VALUES: Final = ("a", "", ["a", "b"], {"k": "v"})
_VOLUMES: Final = ([], [{"name": "a", "emptyDir": {}}])
_CHOICES: Final = {
    ".spec.params[].default": _VALUES,
    ".spec.results[].value": _VALUES,
    ".spec.steps[].params[].value": _VALUES,
    ".spec.steps[].ref.params[].value": _VALUES,
    ".spec.steps[].timeout": DURATIONS,
    ".spec.volumes": _VOLUMES,
}

PEERS: Final = (
    Peer(
        _PROJECT,
        "Task",
        "300-task.yaml",
        hub="v1",
        spoke="v1beta1",
        choices={"v1": _CHOICES, "v1beta1": _CHOICES},
        stashes=("tekton.dev/v1beta1.task-deprecations", "tekton.dev/v1beta1Resources"),
    ),
)
