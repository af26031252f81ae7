"""Run a command and write the resources that it used, as JSON: ``python -I -S launcher.py FILE COMMAND…``.

The launcher is a separate, small process: on Linux a child inherits the peak memory of the process that started it, so
a benchmark that starts its contenders itself would report its own peak for small ones.
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Run the command until it ends."""
    file, *command = sys.argv[1:]
    begun = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    alone = _cpu_alone(child)  # while the ended process can still be read
    _, status, usage = os.wait4(child, 0)
    used = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "cpu_seconds_alone": alone,
        "peak_kib": usage.ru_maxrss,
    }
    Path(file).write_text(json.dumps(used), encoding="utf-8")


def _cpu_alone(process: int) -> float:
    """Return the CPU seconds of a process without its children, user and system (``proc(5)``, fields 14 and 15)."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
