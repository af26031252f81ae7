"""kubebuilder's multiversion tutorial: CronJob. The stored version is v1, v2 has the schedule in fields."""

from __future__ import annotations

from typing import Final

from tests.peers.building import Project
from tests.peers.peer import Peer

__all__ = ["PEERS"]

_PROJECT: Final = Project("cronjob", generates_crds=True)
_TEMPLATES: Final = (
    {},
    {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "i"}], "restartPolicy": "Never"}}}},
    {"metadata": {"labels": {"a": "b"}}, "spec": {"parallelism": 2, "template": {"metadata": {}}}},
)
_LINES: Final = ("* * * * *", "0 3 * * 1", "*/5 1,2 1-5 jan ?", "@hourly", "0  3 * * *", "", "TZ=UTC 0 3 * * *")
_SCHEDULES: Final = (
    *({}, {"minute": "0"}, {"minute": "*/5", "hour": "3", "dayOfWeek": "1"}, {"dayOfMonth": "1", "month": "jan"}),
    *({"minute": "*"}, {"minute": "", "hour": "1"}, {"hour": "0", "dayOfMonth": "*", "month": "*", "dayOfWeek": "*"}),
)

PEERS: Final = (
    Peer(
        _PROJECT,
        "CronJob",
        "batch.tutorial.kubebuilder.io_cronjobs.yaml",
        hub="v1",
        spoke="v2",
        choices={
            "v1": {".spec.jobTemplate": _TEMPLATES, ".spec.schedule": _LINES},
            "v2": {".spec.jobTemplate": _TEMPLATES, ".spec.schedule": _SCHEDULES},
        },
    ),
)
