from .client import connect
from .cluster import Cluster, PatchType, Reply, Request
from .controller import Controller, ControllerEvent, ControllerEventType, ReconcileResult, Source
from .errors import KubeError
from .impersonation import Impersonation
from .leaderelection import ElectionEvent, LeaderElector, LeaseTiming, unique_identity
from .listwatch import Key, Selection, watch
from .resources import Resource
from .store import Informer, Store

__all__ = [
    "Cluster",
    "Controller",
    "ControllerEvent",
    "ControllerEventType",
    "ElectionEvent",
    "Impersonation",
    "Informer",
    "Key",
    "KubeError",
    "LeaderElector",
    "LeaseTiming",
    "PatchType",
    "ReconcileResult",
    "Reply",
    "Request",
    "Resource",
    "Selection",
    "Source",
    "Store",
    "connect",
    "unique_identity",
    "watch",
]
