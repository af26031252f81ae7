"""The thin Kubernetes API client; nothing else in restow talks HTTP to an API server.

``connect`` opens a ``Cluster`` (a few dumb verbs over bytes), ``restow.kube.errors`` is what it raises. On top stand
``watch`` (list, then watch, for as long as it is asked), ``Controller`` (a level-triggered loop over keys) and
``LeaderElector``. The names that this module exports are public, and so are the error classes and the resources that
``restow.kube.resources`` names; everything else is implementation.
"""

from restow.kube.client import connect
from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.controller import Controller, ControllerDetails, Happening, Result
from restow.kube.election import LeaseTiming
from restow.kube.elector import ElectionDetails, LeaderElector, unique_identity
from restow.kube.errors import ApiError, ConfigError, KubeError, Unreachable
from restow.kube.resources import Resource
from restow.kube.selection import Selection
from restow.kube.sources import Key, Source, key_of
from restow.kube.watchevents import Added, Bookmark, Deleted, Item, Listed, Modified, WatchEvent
from restow.kube.watching import Interruption, watch

__all__ = [
    "Added",
    "ApiError",
    "Bookmark",
    "Cluster",
    "ConfigError",
    "Controller",
    "ControllerDetails",
    "Deleted",
    "ElectionDetails",
    "Happening",
    "Interruption",
    "Item",
    "Key",
    "KubeError",
    "LeaderElector",
    "LeaseTiming",
    "Listed",
    "Modified",
    "PatchType",
    "Reply",
    "Resource",
    "Result",
    "Selection",
    "Source",
    "Unreachable",
    "WatchEvent",
    "connect",
    "key_of",
    "unique_identity",
    "watch",
]
