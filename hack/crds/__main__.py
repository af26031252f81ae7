"""Write the manifests: ``python -m hack.crds``."""

from __future__ import annotations

from pathlib import Path

from hack.crds import manifests, written

if __name__ == "__main__":
    folder = Path(__file__).resolve().parents[2] / "crds" / "manifests"
    for name, document in manifests().items():
        (folder / name).write_text(written(document), encoding="utf-8")
