"""``make image``: build the container image, or report that there is no container engine.

    python deploy/image/build.py BASE TAG [--without-cel]

BASE is the Python image to build on, with its digest. The wheel has to be in dist/ (``python -m build``).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["main"]

ROOT: Final = Path(__file__).parents[2]
ENGINES: Final = ("docker", "podman", "nerdctl")
_PINNED: Final = re.compile(r".+@sha256:[0-9a-f]{64}")


def main(arguments: Sequence[str]) -> int:
    """Build the image; return the exit code: 0 done, 1 no build was possible, 2 usage, or the engine's own code."""
    if len(arguments) < 2 or not _PINNED.fullmatch(arguments[0]):
        return _say("give the base with its digest, and a tag: make image BASE=python:3.13-slim@sha256:… TAG=restow", 2)
    base, tag, *trim = arguments
    wheels = sorted(each.name for each in (ROOT / "dist").glob("restow-*.whl"))
    if len(wheels) != 1:
        return _say(f"dist/ has to hold the one wheel that goes into the image, but holds {wheels or 'none'}", 1)
    engine = next(filter(_runs, ENGINES), None)
    if engine is None:
        return _say(
            f"no container engine runs here (tried {', '.join(ENGINES)}), so no image was built. The tests lint "
            "deploy/image/Dockerfile and exercise its steps without one: pytest tests/deploy/test_image.py",
            1,
        )
    file = ROOT / "deploy" / "image" / "Dockerfile"
    settings = [f"--build-arg={name}={value}" for name, value in (("BASE", base), *(("TRIM", each) for each in trim))]
    command = [engine, "build", "--file", str(file), *settings, "--tag", tag, str(ROOT)]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - an engine by its name


def _runs(engine: str) -> bool:
    """Return whether the engine is installed and answers; a client without its daemon does not count."""
    found = shutil.which(engine)
    if found is None:
        return False
    asked = subprocess.run([found, "info"], capture_output=True, check=False)  # noqa: S603
    return asked.returncode == 0


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"make image: {text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
