"""The examples of Gardener's documents as manifests, and short ways to write a profile in a test.

The documents are GEP-32 (lifecycles), GEP-25 (NamespacedCloudProfiles) and Gardener's example manifests (from its
Go module). Dates stay the texts that they are, as the API server reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from restow.crds.documents import load_documents
from tests.apiserver.kind import Document
from tests.upstream.files import gardener

__all__ = [
    "GEP_25",
    "GEP_32",
    "GEP_32_BEFORE",
    "full_lifecycle",
    "gardener_manifest",
    "kubernetes",
    "lifecycle",
    "load",
    "machine_type",
    "table",
    "versions_of",
]


#: What stands in Gardener's manifests for a value of one's own.
_FILLED_IN = {
    "<some-provider-specific-cloudprofile-config>": "{apiVersion: local.example.com/v1, kind: CloudProfileConfig}",
    "<some-provider-specific-infrastructure-config>": "{apiVersion: local.example.com/v1, kind: InfrastructureConfig}",
    "<some-provider-specific-controlplane-config>": "{apiVersion: local.example.com/v1, kind: ControlPlaneConfig}",
    "<some-provider-name>": "local",
    "<some-image-name>": "gardenlinux",
    "<some-image-version>": "15.4.20220818",
    "<some-network-extension-name>": "calico",
}

#: GEP-32, "Motivation": how classifications are written today.
GEP_32_BEFORE = """\
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: local
spec:
  kubernetes:
    versions:
    - version: 1.26.0
      classification: supported
      expirationDate: "2024-06-01T00:00:00Z"
    - version: 1.27.0
      classification: deprecated
    - version: 1.28.0
      classification: supported
"""

#: GEP-32's manifests with a lifecycle, as they stand there: at v1beta1.
GEP_32 = {
    "proposal": """\
# assume that the current date is 2024-12-03
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: local
spec:
  kubernetes:
    versions:
    - version: 1.30.6
      lifecycle:
      - classification: preview # starts in preview because no start time is defined
      - classification: supported
        startTime: "2024-12-01T00:00:00Z"
      - classification: deprecated
        startTime: "2025-03-01T00:00:00Z"
      - classification: expired
        startTime: "2025-04-01T00:00:00Z"
status:
  kubernetes:
    versions:
    - version: 1.30.6
      classification: supported
""",
    "examples": """\
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: local
spec:
  kubernetes:
    versions:
    # if an administrator deploys just the version without any lifecycle,
    # the reconciler will evaluate the classification status to supported
    - version: 1.27.0
    # when introducing a new version it doesn't have to contain a deprecation or expiration date
    - version: 1.28.0
      lifecycle:
      - classification: preview
      - classification: supported
        startTime: "2024-12-01T00:00:00Z"
    # it is not strictly required that every lifecycle stage must occur,
    # they can also be dropped as long as their general order is maintained
    - version: 1.18.0
      lifecycle:
      - classification: supported
      - classification: deprecated
        startTime: "2022-01-01T00:00:00Z"
      - classification: expired
        startTime: "2022-06-01T00:00:00Z"
    # to schedule a new version release, the administrator can define the start times
    # of all lifecycle events in the future, such that the classification status will
    # be evaluated to unavailable
    - version: 2.0.0
      lifecycle:
      - classification: preview
        startTime: "2036-02-07T06:28:16Z"
status:
  kubernetes:
    versions:
    - version: 1.27.0
      classification: supported
    - version: 1.28.0
      classification: supported
    - version: 1.18.0
      classification: expired
    - version: 2.0.0
      classification: unavailable
""",
    "namespaced": """\
apiVersion: core.gardener.cloud/v1beta1
kind: NamespacedCloudProfile
metadata:
  name: local
  namespace: shoot
spec:
  kubernetes:
    versions:
    # omitted versions will not be changed
    - version: 1.28.0
      lifecycle:
      # preview stage will stay as is
      - classification: supported
        startTime: "2025-12-01T00:00:00Z" # postpones the start time
    - version: 1.18.0
      lifecycle:
      - classification: supported
        startTime: "2022-01-01T00:00:00Z" # adds a startTime to supported
      - classification: deprecated
        startTime: "2024-06-01T00:00:00Z" # postpones deprecated even after expired
      # expired stage will be adjusted to the startTime of deprecated to avoid the version to expire before deprecation
status:
  cloudProfileSpec:
    kubernetes:
      versions:
      - version: 1.27.0 # from base
      - version: 1.28.0
        lifecycle:
        - classification: preview # from base
        - classification: supported
          startTime: "2025-12-01T00:00:00Z" # override
      - version: 1.18.0
        lifecycle:
        - classification: supported
          startTime: "2022-01-01T00:00:00Z" # override
        - classification: deprecated
          startTime: "2024-06-01T00:00:00Z" # override
        - classification: expired
          startTime: "2024-06-01T00:00:00Z" # implicit override, explained below
      # from base
      - version: 2.0.0
        lifecycle:
        - classification: preview
          startTime: "2036-02-07T06:28:16Z"
""",
}

#: GEP-25's manifests. Two slips of its text are corrected, which Gardener refuses as well: its versions of images are
#: numbers in YAML (16.4), and one of its dates is none (2023-08-8T23:59:59Z).
GEP_25 = {
    "parent": """\
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: aws-central-cloud-profile
spec:
  type: aws
  kubernetes:
    versions:
    - version: 1.27.1
    - version: 1.26.3
    - version: 1.25.8
    - version: 1.24.6
    - version: 1.28.6
      expirationDate: 2023-02-02T01:02:03Z
  machineImages:
  - name: suse-chost
    versions:
    - version: "15.4"
    - version: "14.4"
    - version: "13.6"
  machineTypes:
  - name: m5.large
    cpu: "4"
    gpu: "0"
    memory: 8Gi
  volumeTypes:
  - name: gp3
    class: standard
    usable: true
""",
    "namespaced": """\
apiVersion: core.gardener.cloud/v1beta1
kind: NamespacedCloudProfile
metadata:
  name: aws-profile-xyz
  namespace: project-xyz
spec:
  parent:
    kind: CloudProfile
    name: aws-central-cloud-profile
  kubernetes:
    versions:
    - version: 1.28.6
      expirationDate: 2024-06-06T01:02:03Z
  machineImages:
  - name: suse-chost
    versions:
    - version: "16.4"
      expirationDate: 2023-08-08T23:59:59Z
  machineTypes:
  - name: m5.xlarge
    cpu: "8"
    gpu: "0"
    memory: 16Gi
  volumeTypes:
  - name: ab6
    class: premium
    usable: true
""",
    "shoot": """\
apiVersion: core.gardener.cloud/v1beta1
kind: Shoot
metadata:
  name: my-shoot
  namespace: project-xyz
spec:
  cloudProfile:
    kind: NamespacedCloudProfile
    name: aws-profile-xyz
""",
}


def load(text: str, version: str | None = None) -> Document:
    """Read a manifest, with nothing but its apiVersion changed if a version is given."""
    document: Document = load_documents(text)[0]
    if version is not None:
        document["apiVersion"] = f"core.gardener.cloud/{version}"
    return document


def table(name: str) -> dict[str, Document]:
    """Read a table of manifests that lies next to this module, by the names of its cases."""
    [cases] = load_documents((Path(__file__).parent / name).read_text())
    named = {case["case"]: case for case in cases}
    assert len(named) == len(cases), f"{name} has two cases of one name"
    return named


def versions_of(manifest: Document) -> list[Document]:
    """The entries of a profile for versions, of Kubernetes and of images."""
    spec = manifest["spec"]
    images = (image.get("versions") or [] for image in spec.get("machineImages") or [])
    return [*(spec.get("kubernetes") or {}).get("versions", []), *(entry for versions in images for entry in versions)]


def gardener_manifest(name: str) -> Document:
    """Read one of Gardener's example manifests, its placeholders filled in."""
    text = (gardener() / name).read_text()
    for placeholder, value in _FILLED_IN.items():
        text = text.replace(placeholder, value)
    return load(text)


def lifecycle(*stages: str) -> list[Document]:
    """Write stages as "preview" and "supported 2025-01-01T00:00:00Z"."""
    parts = (stage.partition(" ") for stage in stages)
    return [{"classification": name} | ({"startTime": start} if start else {}) for name, _, start in parts]


def full_lifecycle() -> list[Document]:
    """All five stages."""
    starts = [f"{year}-01-01T00:00:00Z" for year in range(2024, 2028)]
    names = ("preview", "supported", "deprecated", "expired")
    return lifecycle("unavailable", *(f"{name} {start}" for name, start in zip(names, starts, strict=True)))


def kubernetes(*stages: str, version: str = "1.30.6", **fields: Any) -> Document:
    """The spec of a CloudProfile with one version of Kubernetes, of these stages or fields."""
    entry = {"version": version} | ({"lifecycle": lifecycle(*stages)} if stages else {}) | fields
    return {"kubernetes": {"versions": [entry]}}


def machine_type(**fields: Any) -> Document:
    """A machine type."""
    return {"name": "m5.large", "cpu": "2", "gpu": "0", "memory": "8Gi"} | fields
