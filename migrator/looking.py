"""Looking through the objects of a CRD for somebody who waits for the answer: their metadata, and no long waits."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.retry import patient
from restow.migrator.halt import Halt
from restow.migrator.lister import list_objects
from restow.migrator.managedfields.treatment import treatments
from restow.migrator.model import Options
from restow.migrator.passes import Environment, page_size
from restow.migrator.report import Requests
from restow.migrator.wire import Meta

__all__ = ["LONGEST_WAIT", "look_through"]

LONGEST_WAIT = 2.0
"""Seconds between tries: somebody waits, and nothing is lost if it gives up."""


async def look_through(cluster: Cluster, crd: Crd) -> AsyncIterator[Meta]:
    """Yield the metadata of every object of a CRD, listed at the storage version page by page.

    Raises:
        ListFailed: a page could not be read.
    """
    options = Options()
    environment = Environment(cluster, Halt(), time.monotonic, random.Random(), longest_wait=LONGEST_WAIT)
    async for page in list_objects(
        cluster,
        crd.resource_at(crd.storage.name),
        page_size=page_size(options, crd, treatments(crd, options)),
        requests=Requests(),
        halt=environment.halt,
        jitter=environment.jitter,
        patience_s=patient(cluster).patience_s,
    ):
        for meta, _live in page.items:
            yield meta
