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
    _, status, usage = os.wait4(child, 0)
    used = {
        "exit_code": os.waitstatus_to_exitcode(status),
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_kib": usage.ru_maxrss,
    }
    Path(file).write_text(json.dumps(used), encoding="utf-8")


if __name__ == "__main__":
    main()
