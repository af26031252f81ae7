"""The harness itself: a page that says what is not so must fail."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, parse
from tests.docs.running import needs_a_cluster, prints, working


def run(folder: Path, text: str) -> None:
    """Run a page of its own; ''' stands for the fence's backticks."""
    with working(folder, None) as work:
        for block in parse("page.md", text.replace("'''", "```")):
            work.run(block)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a", "a\n", True),
        ("a", "b\n", False),
        ("a", "a\nb\n", False),
        ("a  ", "a\n", True),
        ("a", "a  \n\n", True),
        ("a … c", "a b c", True),
        ("a … c", "a b d", False),
        ("a … c", "a \n c", False),
        ("…", "", True),
        ("…", "a\nb", True),
        ("a\n…", "a", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nb\nc", False),
        ("…\nb", "ab", False),
        ("a.c", "abc", False),
    ],
)
def test_what_is_compared(shown: str, printed: str, same: bool) -> None:
    """An ellipsis that swallows too much makes every page true."""
    assert prints(shown, printed) is same


@pytest.mark.parametrize(
    "text",
    [
        "'''console\n$ echo a\na\n$ echo b >&2\nb\n'''\n",
        "'''console\n$ export A=1; b=2; mkdir c; cd c\n$ echo $A $b ${PWD##*/}\n1 2 c\n'''\n",
        "'''console\n$ export A=1\n'''\n'''sh\ntest $A = 1\n'''\n",
        "'''console\n$ echo a \\\n  b\na b\n'''\n",
        "<!-- exits: 3, 0 -->\n'''console\n$ (exit 3)\n$ true\n'''\n",
        "'''python\na = 1\n'''\n'''python\nassert a == 1\n'''\n",
        "'''python\nimport asyncio\nawait asyncio.sleep(0)\n'''\n'''python\nasyncio.run(asyncio.sleep(0))\n'''\n",
        "`a/b.py`\n\n<!-- file: a/b.py -->\n'''python\nprint(7)\n'''\n'''console\n$ python a/b.py\n7\n'''\n",
        "'''sh\nsleep 60 &\n'''\n",
        "<!-- until: test -e a -->\n'''console\n$ bash -c 'touch a; exec sleep 60'\n'''\n",
        "<!-- until: shown -->\n'''console\n$ bash -c 'echo up; sleep 60 & wait'\nup\n'''\n",
        "'''sh\ntest -d docs -a -d crds -a -d deploy\n'''\n",
    ],
)
def test_a_page_that_is_true(text: str, tmp_path: Path) -> None:
    """What readers do in their terminal works here as well."""
    run(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("'''console\n$ echo a\nb\n'''\n", "page.md:2: $ echo a"),
        ("'''console\n$ false\n'''\n", "exit code 1, not 0"),
        ("'''console\n$ false\n$ true\n'''\n", "page.md:2"),
        ("<!-- exits: 3 -->\n'''console\n$ true\n'''\n", "exit code 0, not 3"),
        ("'''console\n$ exit 0\n'''\n", "itself ended"),
        ("'''sh\nfalse\ntrue\n'''\n", "exit code 1"),
        ("'''sh\necho $unset_variable\n'''\n", "unbound variable"),
        ("'''python\na = 1\n\n\nassert a == 2\n'''\n", 'page.md", line 5'),
        ("'''python\nraise SystemExit(0)\n'''\n", "SystemExit"),
        ("'''python\nthis is no python\n'''\n", "SyntaxError"),
        ("<!-- until: false -->\n'''console\n$ true\n'''\n", "ended by itself"),
        ("<!-- until: shown -->\n'''console\n$ echo b\na\n'''\n", "ended by itself"),
        ("<!-- given: nonsense -->\n'''sh\ntrue\n'''\n", "is no script"),
        ("`docs/nonsense.py`\n\n<!-- file: docs/nonsense.py -->\n'''python\n1\n'''\n", "is not in the checkout"),
    ],
)
def test_a_page_that_is_not(text: str, told: str, tmp_path: Path) -> None:
    """It fails, and says at which command and why."""
    with pytest.raises(AssertionError) as failed:
        run(tmp_path, text)
    assert told in str(failed.value)


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("'''console\n$ restow convert -f a.yaml\n'''\n", False),
        ("'''console\n$ restow timeline -f a.yaml\n'''\n", False),
        ("'''console\n$ restow timeline -f a.yaml --all\n'''\n", True),
        ("'''console\n$ restow migrate --all\n'''\n", True),
        ("'''sh\nkubectl version\n'''\n", True),
        ("<!-- given: widgets -->\n'''sh\ntrue\n'''\n", True),
        ("<!-- tested by: a.py -->\n'''sh\nkubectl version\n'''\n", False),
        ("`a.yaml`\n\n<!-- file: a.yaml -->\n'''yaml\n{}\n'''\n", False),
        ("'''yaml\n{apiVersion: v1, kind: A, metadata: {name: a}}\n'''\n", True),
    ],
)
def test_which_pages_need_a_cluster(text: str, needs: bool) -> None:
    """``make test-pure`` runs the others, and they prove that no cluster is asked."""
    assert needs_a_cluster(parse("page.md", text.replace("'''", "```"))) is needs


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.docs.running import working

with working(Path(sys.argv[1]), None) as work:
    print(work.shell.run("sleep 600 & echo $!")[1], flush=True)
    os.kill(os.getpid(), int(sys.argv[2]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_what_a_page_started_ends_with_the_tests(number: int, tmp_path: Path) -> None:
    """A control plane that a page started in the background would run for ever after a run that was cut off."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(int(number))]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == -number, ran.stderr
    deadline = time.monotonic() + 30
    while runs(int(ran.stdout)):
        assert time.monotonic() < deadline, "what the page started still runs"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process has not ended; a zombie has."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(shown.strip()) and not shown.startswith("Z")
