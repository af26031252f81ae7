"""The thin Kubernetes API client; nothing else in restow talks HTTP to an API server.

``connect`` opens a ``Cluster``: a few verbs over bytes. ``restow.kube.errors`` defines their errors. ``watch`` lists
and then watches, ``Informer`` keeps objects current in a ``Store``, ``Controller`` is a level-triggered loop over keys,
and ``LeaderElector`` elects one of several processes. The public names are the exports of this module, the error
classes, and the resources in ``restow.kube.resources``. Everything else is implementation.
"""

from restow.kube.client import connect
from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.controller import Controller, ControllerEvent, ControllerEventType, ReconcileResult, Source
from restow.kube.errors import ApiError, ConfigError, KubeError, Unreachable
from restow.kube.impersonation import Impersonation
from restow.kube.leaderelection import ElectionEvent, LeaderElector, LeaseTiming, unique_identity
from restow.kube.resources import Resource
from restow.kube.store import Informer, Store, StoreChange, TooOld
from restow.kube.watch import Interruption, Key, Selection, key_of, watch
from restow.kube.watchevents import Added, Bookmark, Deleted, Item, Listed, Modified, WatchEvent

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
