"""The whole verdict of ``restow diff``: schemas, stored objects and clients of two sides."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from restow.cli.exits import InputError
from restow.cli.extras import missing_library
from restow.cli.registries import ConversionSource
from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.upgrade.crdify import read_config
from restow.upgrade.schemas import UpgradeVerdict, judge_schemas
from restow.upgrade.sources import CLUSTER, crds_of, served_crds
from restow.upgrade.stored import chosen, of_cluster, of_dump


@dataclass(frozen=True)
class Sought:
    """What is asked: two sides, the rules between versions, and which objects are tried.

    Attributes:
        old, new: files, folders, ``-``, ``git:REF:PATH`` or ``cluster``.
        rule_files: files with conversion rules.
        config: a configuration file of crdify.
        live: whether the objects of the cluster are tried.
        dumps: files with objects to try.
        sample: the most objects of each CRD; None for all.
    """

    old: str
    new: str
    rule_files: tuple[Path, ...] = ()
    config: Path | None = None
    live: bool = False
    dumps: tuple[Path, ...] = ()
    sample: int | None = None

    @property
    def needs_cluster(self) -> bool:
        """Whether the answer needs a cluster."""
        return self.live or CLUSTER in (self.old, self.new)

    @cached_property
    def given(self) -> Mapping[str, dict[str, Crd]]:
        """The CRDs of the sides that are no cluster; stdin is read once."""
        return {name: crds_of(name) for name in dict.fromkeys((self.old, self.new)) if name != CLUSTER}


async def verdict(sought: Sought, cluster: Cluster | None) -> UpgradeVerdict:
    """Return the findings by CRD.

    Args:
        sought: what is asked.
        cluster: the API server if one is needed.

    Raises:
        InputError: a side, the rules or the objects cannot be read.
        KubeError: the cluster cannot be reached.
    """
    source = ConversionSource(rules=sought.rule_files) if sought.rule_files else None
    known = {name: crd for crds in sought.given.values() for name, crd in crds.items()}
    live = await served_crds(cluster, known) if cluster is not None else {}
    old, new = ({**sought.given, CLUSTER: live}[side] for side in (sought.old, sought.new))
    part = CLUSTER in (sought.old, sought.new)
    judged = await asyncio.to_thread(judge_schemas, old, new, source, part=part)
    if sought.config is not None:
        config = read_config(sought.config)
        judged = {name: tuple(config.judged(findings)) for name, findings in judged.items()}
    objects = of_dump(sought.dumps, old) if sought.dumps else {}
    if sought.live and cluster is not None:
        for name in (name for name in old if name in live):
            objects[name] = [*objects.get(name, ()), *await of_cluster(cluster, live[name])]
    tried = {name: chosen(each, sought.sample) for name, each in objects.items()}
    if not any(tried.values()):
        return UpgradeVerdict(judged)
    try:
        from restow.upgrade.objects import judge_objects  # needs an extra that schemas do not need
    except ModuleNotFoundError as error:
        raise InputError(missing_library("restow diff on objects", error)) from error
    return await judge_objects(judged, (old, new), source, tried)
