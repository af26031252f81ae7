"""Remove from the image's packages what no command of restow uses: half of their size.

    python trim.py PACKAGES [--without-cel]

What goes: the API classes that kubernetes-asyncio generates (restow uses its kubeconfig plugins alone), pygments (rich
needs it to show source code), extensions of CEL that no rule can use, tests, and sources and declarations of what is
compiled. Symbols of compiled modules go where ``strip`` is installed. ``--without-cel`` removes CEL too, for images
whose rules have no expressions.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["main"]

UNUSED: Final = (
    "pygments",
    "pygments-*",
    "kubernetes_asyncio/client/api",
    "kubernetes_asyncio/client/models",
    "kubernetes_asyncio/dynamic",
    "kubernetes_asyncio/leaderelection",
    "kubernetes_asyncio/stream",
    "kubernetes_asyncio/utils",
    "kubernetes_asyncio/watch",
    "kubernetes_asyncio-*",  # so that pip installs it again for an image on top that needs it
    "cel_expr_python/ext/ext_encoders.*",
    "cel_expr_python/ext/ext_proto.*",
    "cel_expr_python/ext/ext_strings.*",
    "CHANGELOG.md",
    "*/README.md",
    "*/tests",
    "**/test_*.py",
    "**/*_test.py",
    "**/*.[ch]",
    "**/*.py[ixd]",
    "**/*.px[di]",
)
CEL: Final = ("cel_expr_python", "cel_expr_python-*")
REWRITTEN: Final = {
    "kubernetes_asyncio/__init__.py": "",
    "kubernetes_asyncio/client/__init__.py": (
        "from kubernetes_asyncio.client.api_client import ApiClient\n"
        "from kubernetes_asyncio.client.configuration import Configuration\n"
    ),
    "kubernetes_asyncio/client/models/__init__.py": "",
}
"""Modules that import what is removed, and what is left of them."""


def main(arguments: Sequence[str]) -> int:
    """Trim; return the exit code."""
    packages, *flags = Path(arguments[0]), *arguments[1:]
    for pattern in (*UNUSED, *(CEL if flags == ["--without-cel"] else ())):
        for path in list(packages.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    for name, text in REWRITTEN.items():
        module = packages / name
        module.parent.mkdir(exist_ok=True)
        module.write_text(text, encoding="utf-8")
    if strip := shutil.which("strip"):
        subprocess.run([strip, "--strip-unneeded", *sorted(packages.rglob("*.so"))], check=True)  # noqa: S603
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
