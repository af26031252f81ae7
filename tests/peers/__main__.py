"""Compare restow's conversions with those of other projects: ``python -m tests.peers [--objects N] [KIND …]``.

It prints one line for each kind, and below it how often each explained difference came up; last, the tables of
docs/peers.md. The exit code is 1 if a difference is unexplained, a law broken, or a row of the tables of
differences was never needed for any kind.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from itertools import groupby

from benchmarks.records import Recorder, add_flag
from benchmarks.tables import Result, Table, markdown
from tests.peers.comparison import Findings
from tests.peers.differences import Difference, Entry
from tests.peers.lines import go_lines, rule_lines
from tests.peers.peer import Peer
from tests.peers.peers import PEERS
from tests.peers.recordings import Mode


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    parser.add_argument("kinds", metavar="KIND", nargs="*", help="only these kinds")
    parser.add_argument("--objects", type=int, default=10_000, help="objects of each kind (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the values of unexplained differences")
    add_flag(parser)
    arguments = parser.parse_args()
    os.environ["RESTOW_PEERS"] = Mode.LIVE.value
    recorder = Recorder.begin(arguments.record)
    peers = [peer for peer in PEERS if not arguments.kinds or peer.kind in arguments.kinds]
    used: Counter[str] = Counter()
    rows: dict[str, Entry] = {}
    results: list[tuple[Peer, Findings]] = []
    failed = False
    for peer in peers:
        begun = time.process_time()
        comparison = peer.comparison()
        with peer.oracle() as oracle:
            found = comparison.run(oracle, range(arguments.first, arguments.first + arguments.objects // 2))
        print(f"{peer.kind}: {_summary(found)}, {time.process_time() - begun:.0f} s CPU", flush=True)
        show(found, verbose=arguments.verbose)
        results.append((peer, found))
        failed |= bool(found.unexplained or found.broken)
        rows |= {entry.why: entry for entry in comparison.table.entries}
        used.update({entry.why: count for entry, count in found.explained.items()})
    idle = [] if arguments.kinds else sorted(rows.keys() - used.keys())
    for why in idle:
        print(f"never needed: {why}")
    tables = [sizes(peers), outcomes(results)]
    print("", *map(markdown, tables), sep="\n\n")
    if recorder is not None:
        command = f"python -m tests.peers --objects {arguments.objects}"
        recorder.write("peers", " ".join([command, *arguments.kinds]), Result("Peers", tables))
    sys.exit(failed or bool(idle))


def _summary(found: Findings) -> str:
    outcome = (
        f"{found.equal} equal, {found.alike} spelled otherwise, {found.errors} errors and {found.panics} panics of Go"
    )
    return f"{found.objects} objects, {outcome}, {found.lossy} not restored by Go's own round trip"


def show(found: Findings, *, verbose: bool) -> None:
    """Print what a comparison found."""
    for entry, count in found.explained.most_common():
        print(f"    {count:6} {entry.why}")
    for label, (name, each, _) in sorted(found.unexplained.items(), key=lambda item: -found.counts[item[0]]):
        print(f"  ? {found.counts[label]:6} {label} ({name})")
        if verbose:
            print(*values(each), sep="\n")
    for law, (name, _) in found.broken.items():
        print(f"  !        {law} ({name})")


def sizes(peers: Iterable[Peer]) -> Table:
    """Return the table of the lines of code, project by project."""
    rows = []
    for project, group in groupby(peers, key=lambda peer: peer.project):
        kinds = list(group)
        by_hand, generated = go_lines(project)
        names = ", ".join(peer.kind for peer in kinds)
        rows.append((project.name, names, f"{rule_lines(kinds)}", f"{by_hand:,}", f"{generated:,}"))
    columns = ("project", "kinds", "lines of rules", "lines of Go", "generated lines of Go")
    return Table("Lines", columns, tuple(rows))


def outcomes(results: Iterable[tuple[Peer, Findings]]) -> Table:
    """Return the table of what was found, kind by kind."""
    rows = []
    for peer, found in results:
        counts = (found.objects, found.equal, found.alike, found.errors, found.panics, found.lossy)
        rows.append((peer.kind, *(f"{count:,}" for count in counts)))
    columns = ("objects", "same", "same, spelled otherwise", "Go errors", "Go panics", "changed by Go there and back")
    return Table("Conversions", ("kind", *columns), tuple(rows))


def values(found: Difference) -> tuple[str, str]:
    """Return the two values of a difference, cut."""
    go, restow = (json.dumps(each, default=str, ensure_ascii=False)[:300] for each in (found.go, found.restow))
    return f"             Go:     {go}", f"             restow: {restow}"


if __name__ == "__main__":
    main()
