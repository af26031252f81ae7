"""An existing cluster instead of a control plane: its choice, and its missing features."""

import pytest
import yaml

from restow.controlplane import ControlPlaneError, ExistingCluster, UnavailableError, use_existing_cluster

KUBECONFIG = {
    "current-context": "b",
    "contexts": [{"name": "a", "context": {"cluster": "x"}}, {"name": "b", "context": {"cluster": "y"}}],
    "clusters": [
        {"name": "x", "cluster": {"server": "https://x:6443"}},
        {"name": "y", "cluster": {"server": "https://y:6443"}},
    ],
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, False),
        ("", False),
        ("false", False),
        ("0", False),
        ("true", True),
        ("TRUE", True),
        ("1", True),
        ("t", True),
    ],
)
def test_it_is_used_only_when_asked_for(value, expected):
    """Tests would write into a cluster that the user did not choose, or not use the chosen one."""
    assert use_existing_cluster({} if value is None else {"USE_EXISTING_CLUSTER": value}) is expected


def test_our_own_variable_names_the_cluster_at_once(tmp_path):
    """Tests would use the cluster of KUBECONFIG, which may be another user's, or start a control plane."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text(yaml.safe_dump(KUBECONFIG))
    theirs.write_text(yaml.safe_dump(KUBECONFIG | {"current-context": "a"}))
    environment = {"RESTOW_KUBECONFIG": str(ours), "KUBECONFIG": str(theirs)}
    assert use_existing_cluster(environment)
    assert not use_existing_cluster({"RESTOW_KUBECONFIG": ""})
    cluster = ExistingCluster.from_environment(environment)
    assert (cluster.kubeconfig, cluster.server) == (ours, "https://y:6443")


def test_the_current_context_is_used(tmp_path):
    """Tests would run against another cluster than kubectl uses."""
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    cluster = ExistingCluster.from_environment({"KUBECONFIG": str(path)})
    assert (cluster.kubeconfig, cluster.server) == (path, "https://y:6443")


@pytest.mark.parametrize("use", ["etcd", "pids", "cpu_seconds", "user", "another_apiserver"])
def test_what_it_cannot_do_is_said(tmp_path, use):
    """A test would pass without a check, because the cluster lacks the feature."""
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    cluster = ExistingCluster(path)
    uses = {
        "etcd": lambda: cluster.etcd,
        "pids": lambda: cluster.pids,
        "cpu_seconds": cluster.cpu_seconds,
        "user": lambda: cluster.user("alice"),
        "another_apiserver": lambda: cluster.another_apiserver,
    }
    said = r"existing cluster https://y:6443.*unset RESTOW_KUBECONFIG and USE_EXISTING_CLUSTER"
    with pytest.raises(UnavailableError, match=said):
        uses[use]()


def test_a_mistyped_name_is_no_property_of_a_cluster(tmp_path):
    """A mistake in a test would be skipped as if the cluster lacked a feature."""
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(KUBECONFIG))
    with pytest.raises(AttributeError, match="kubeconfg"):
        _ = ExistingCluster(path).kubeconfg


@pytest.mark.parametrize(
    "content",
    [
        "",
        "just text",
        "[1]",
        "a: [",
        yaml.safe_dump(KUBECONFIG | {"current-context": "gone"}),
        yaml.safe_dump(KUBECONFIG | {"clusters": None}),
        yaml.safe_dump({"contexts": []}),
    ],
)
def test_an_unusable_kubeconfig_is_one_sentence(tmp_path, content):
    """A damaged kubeconfig would end in a traceback of the YAML parser."""
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ControlPlaneError, match="has no usable current context"):
        ExistingCluster(path)


@pytest.mark.parametrize(("value", "sentence"), [("/no/such/file", "cannot be read"), ("/a:/b", "several files")])
def test_an_unusable_variable_is_one_sentence(value, sentence):
    """The user would not learn that KUBECONFIG is the cause."""
    with pytest.raises(ControlPlaneError, match=sentence):
        ExistingCluster.from_environment({"KUBECONFIG": value})
