"""pytest fixtures: one control plane per test session.

- ``control_plane``: a running ``ControlPlane``, of the minor in RESTOW_KUBERNETES if that is set, or an
  ``ExistingCluster`` if RESTOW_KUBECONFIG names one (or USE_EXISTING_CLUSTER=true);
- ``kubeconfig``: the path of its administrator's kubeconfig;
- ``etcd``: the reader of its stored objects (``Etcd``);
- ``control_plane_definition``: override it to start the plane with other flags:

      @pytest.fixture(scope="session")
      def control_plane_definition() -> ControlPlane:
          return ControlPlane(feature_gates={"StorageVersionMigrator": True}, controller_manager=True)

If the control plane is not available, tests are skipped with the reason; with CI set they fail instead, because a
skipped test in CI goes unnoticed. On an existing cluster a test that needs a feature that the cluster lacks (etcd,
users, another API server) is skipped with the reason, in CI too.

Invariants: importing this module is cheap, because every pytest run loads it where restow is installed. The fixtures
are synchronous and touch no event loop of the tests, because the processes belong to none.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from restow.controlplane.etcd import Etcd
    from restow.controlplane.existing import ExistingCluster
    from restow.controlplane.plane import ControlPlane


@pytest.fixture(scope="session")
def control_plane_definition() -> ControlPlane:
    """Return the session's control plane, not started yet; override this fixture to change it."""
    from restow.controlplane.plane import ControlPlane

    return ControlPlane()


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane | ExistingCluster]:
    """Run a control plane for the whole session, or use the existing cluster."""
    from restow.controlplane.existing import ExistingCluster, use_existing_cluster

    if use_existing_cluster():
        yield ExistingCluster.from_environment()
        return
    with running_plane(lambda: request.getfixturevalue("control_plane_definition")) as plane:
        yield plane


@contextmanager
def running_plane(define: Callable[[], ControlPlane]) -> Iterator[ControlPlane]:
    """Run a control plane for another fixture, for example of one module; ``define`` returns it, not started yet.

    If the plane is unavailable, the test is skipped, or fails in CI.
    """
    from restow.controlplane.errors import BinariesUnavailableError

    try:
        plane = define()
        _run(plane.start())
    except (BinariesUnavailableError, ModuleNotFoundError) as error:
        _unavailable(str(error))
    try:
        yield plane
    finally:
        _run(plane.stop())


@pytest.fixture(scope="session")
def kubeconfig(control_plane: ControlPlane | ExistingCluster) -> Path:
    """Return the path of the administrator's kubeconfig."""
    return control_plane.kubeconfig


@pytest.fixture(scope="session")
def etcd(control_plane: ControlPlane | ExistingCluster) -> Etcd:
    """Return the reader of the stored objects."""
    return control_plane.etcd


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Skip a test whose fixtures need a feature that an existing cluster lacks."""
    with _skipping():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test that needs a feature that an existing cluster lacks."""
    with _skipping():
        yield


@contextmanager
def _skipping() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        from restow.controlplane.errors import UnavailableError
        from restow.controlplane.existing import use_existing_cluster

        if isinstance(error, UnavailableError) and use_existing_cluster():
            pytest.skip(str(error))
        raise


def _run(coroutine: Coroutine[object, object, object]) -> None:
    """Run a coroutine in a new loop; with an explicit loop factory the thread's current loop stays unchanged."""
    import asyncio

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(coroutine)


def _unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(f"In CI a test on the API server must not be skipped. {reason}", pytrace=False)
    pytest.skip(reason)
