"""Objects as large as etcd takes: the API server stores what does not fit without its managedFields, unless applied."""

from __future__ import annotations

from restow.kube.client import HttpCluster
from restow.kube.errors import ServerError
from restow.migrator import CrdReport, Migration, Options
from tests.apiserver.kind import Document, Kind, entry_versions, owners

LONGER = "v1beta10001"
"""A version with a longer name than v1alpha1: every entry that is moved to it grows, and so does the object."""


async def migrate(cluster: HttpCluster, kind: Kind, **options: object) -> CrdReport:
    """Migrate; ``Kind`` has waited for the CRD to settle already."""
    return await Migration(cluster, Options(settle_s=0.0, **options)).migrate(kind.name)  # type: ignore[arg-type]


async def fill_up(kind: Kind, at: str = "v1alpha1") -> Document:
    """An object of three appliers to which no byte can be added; return it as stored."""
    for manager, spec in (("bob", {"size": 1}), ("carol", {"color": "x" * 1_000_000})):
        await kind.apply(kind.manifest(at, "w", spec=spec), manager)
    fits, too_large = 500_000, 572_864
    while too_large - fits > 1:
        length = (fits + too_large) // 2
        try:
            await kind.apply(kind.manifest(at, "w", spec={"notes": ["x" * length]}), "alice")
        except ServerError:
            too_large = length
        else:
            fits = length
    [stored] = (await kind.stored()).values()
    assert len(stored["spec"]["notes"][0]) == fits
    return stored


def longer(kind: Kind, storage: str = LONGER) -> Document:
    """The CRD with the longer version, as its storage version unless said otherwise."""
    return kind.document(storage=storage, versions=("v1alpha1", LONGER), keyed_conditions=False)


async def test_an_object_that_grows_by_translation_gives_the_times_of_its_entries(
    kind: Kind, cluster: HttpCluster
) -> None:
    """Too large by a few bytes it would be stored all the same, without any owner."""
    before = await fill_up(kind)
    await kind.change(longer(kind))
    report = await migrate(cluster, kind)
    assert report.pruned and report.objects.repaired == 0, report.to_json()
    [after] = (await kind.stored()).values()
    assert after["apiVersion"] == f"{kind.group}/{LONGER}"
    assert owners(after) == owners(before) and entry_versions(after) == {LONGER}


async def test_an_object_that_does_not_fit_at_all_fails_at_once_with_its_owners(
    kind: Kind, cluster: HttpCluster
) -> None:
    """Its own apiVersion grows; a write that is no apply would empty its owners, and eight tries take a minute."""
    await kind.change(longer(kind, storage="v1alpha1"))
    before = await fill_up(kind, at=LONGER)
    await kind.change(longer(kind))
    report = await migrate(cluster, kind)
    [failure] = report.failures
    assert failure.reason == "TooLarge" and "etcdserver: request is too large" in failure.message
    assert report.requests.write == 1 and not report.pruned
    assert list((await kind.stored()).values()) == [before]
