"""``python -m restow.conversion.testing.conformance URL --ca FILE --crd FILE``: a table, or JSON.

Exit codes: 0 conformant, 1 a case failed that the webhook must pass, 2 usage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from restow.conversion.testing.conformance.run import IDLE_S, run
from restow.conversion.testing.conformance.samples import Samples
from restow.crds import Crd, load
from restow.crds.documents import load_objects


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        samples = Samples(
            _crd(chosen.crd, chosen.name),
            tuple(document for path in chosen.sample for document in _documents(path)),
            _by_version(chosen.acknowledge),
            count=chosen.objects,
        )
        ca = chosen.ca.read_bytes() if chosen.ca is not None else b""
        report = asyncio.run(run(chosen.url, ca, samples, idle_s=chosen.idle, connect_to=chosen.connect_to))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    sys.stdout.write(f"{json.dumps(report.to_json(), indent=2) if chosen.output == 'json' else report.table()}\n")
    return 0 if report.conformant else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m restow.conversion.testing.conformance",
        description="Ask a conversion webhook what API servers ask, and check the answers as they do.",
    )
    parser.add_argument("url", metavar="URL", help="the webhook's, for instance https://127.0.0.1:9443/convert")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="CA bundle (PEM); without, the system's roots")
    parser.add_argument("--crd", type=Path, metavar="FILE", required=True, help="the CRD (YAML or JSON)")
    parser.add_argument("--name", metavar="NAME", default="", help="which CRD of the file, if it has several")
    parser.add_argument(
        "--sample", type=Path, metavar="FILE", nargs="*", default=[], help="objects to use instead of generated ones"
    )
    parser.add_argument(
        "--objects", type=int, default=12, metavar="N", help="how many to generate of each version (12)"
    )
    parser.add_argument(
        "--acknowledge",
        metavar="VERSION:PATH",
        action="append",
        default=[],
        help="a loss that is meant, for instance v1alpha1:.spec.debug (repeatable)",
    )
    parser.add_argument(
        "--idle", type=float, default=IDLE_S, metavar="SECONDS", help=f"for keep-alive; 95 is the truth ({IDLE_S:g})"
    )
    parser.add_argument(
        "--connect-to", type=_place, metavar="HOST:PORT", help="where to connect to, if the URL's name does not resolve"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return parser


def _place(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _crd(path: Path, name: str) -> Crd:
    found = [crd for crd in load(path) if name in ("", crd.name)]
    if len(found) != 1:
        names = ", ".join(crd.name for crd in found)
        msg = f"{path} has {len(found)} such CRDs{f' ({names}): say which one with --name' if found else ''}"
        raise ValueError(msg)
    return found[0]


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    return (value for _, value in load_objects(path.read_bytes()) if isinstance(value, dict))


def _by_version(losses: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    found: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for loss in losses:
        version, colon, place = loss.partition(":")
        if not colon or not place.startswith("."):
            msg = f"--acknowledge {loss}: write it as VERSION:.path.of.field"
            raise ValueError(msg)
        found[version] += (place,)
    return found


if __name__ == "__main__":
    sys.exit(main())
