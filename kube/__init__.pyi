from .client import connect
from .cluster import Cluster, PatchType, Reply
from .controller import Controller, ControllerEvent, ControllerEventType, ReconcileResult, Source
from .errors import ApiError, ConfigError, KubeError, Unreachable
from .impersonation import Impersonation
from .leaderelection import ElectionEvent, LeaderElector, LeaseTiming, unique_identity
from .listwatch import Interruption, Key, Selection, key_of, watch
from .resources import Resource
from .store import Informer, Store, StoreChange, TooOld
from .watchevents import Added, Bookmark, Deleted, Item, Listed, Modified, WatchEvent

__all__ = [
    "Added",
    "ApiError",
    "Bookmark",
    "Cluster",
    "ConfigError",
    "Controller",
    "ControllerEvent",
    "ControllerEventType",
    "Deleted",
    "ElectionEvent",
    "Impersonation",
    "Informer",
    "Interruption",
    "Item",
    "Key",
    "KubeError",
    "LeaderElector",
    "LeaseTiming",
    "Listed",
    "Modified",
    "PatchType",
    "ReconcileResult",
    "Reply",
    "Resource",
    "Selection",
    "Source",
    "Store",
    "StoreChange",
    "TooOld",
    "Unreachable",
    "WatchEvent",
    "connect",
    "key_of",
    "unique_identity",
    "watch",
]
