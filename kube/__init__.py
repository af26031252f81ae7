"""The thin Kubernetes API client; nothing else in restow talks HTTP to an API server.

``connect`` opens a ``Cluster``: a few verbs over bytes. ``restow.kube.errors`` defines their errors. ``watch`` lists
and then watches, ``Informer`` keeps objects current in a ``Store``, ``Controller`` is a level-triggered loop over keys,
and ``LeaderElector`` elects one of several processes. The public names are the exports of this module, the error
classes, the resources in ``restow.kube.resources``, and the events of a watch in ``restow.kube.watchevents``.
Everything else is implementation.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
