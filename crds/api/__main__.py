"""Write the manifests: ``python -m restow.crds.api``."""

from __future__ import annotations

from pathlib import Path

from restow.crds.api import manifests, written

if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[1] / "manifests"
    for name, document in manifests().items():
        (folder / name).write_text(written(document), encoding="utf-8")
