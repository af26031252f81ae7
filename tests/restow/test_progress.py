"""The live view of a run: bars that fit the terminal, lines that stand alone in a log."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import io
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator

import pytest
from rich.cells import cell_len
from rich.console import Console

from restow.cli.logs import log_to_stderr
from restow.cli.progress import Progress
from restow.migrator import CrdReport
from restow.migrator.model.callbacks import Moment
from restow.migrator.model.report import Waits, again

NAME = "widgets.example.com"


_opened: list[Progress] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """A live view holds sys.stderr; each gives it back."""
    yield
    while _opened:
        _opened.pop()._live.stop()


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says that it is one; ``encoding`` is what rich asks for."""

    def __init__(self, *, is_one: bool = True) -> None:
        super().__init__()
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one


def report(name: str = NAME, *, done: int = 0, total: int = 5000, failed: int = 0, retried: int = 0) -> CrdReport:
    """A report as it stands in mid-run."""
    made = CrdReport(name=name, storage_version="v1", expected=total, passes=1)
    made.objects.listed, made.objects.rewritten, made.objects.failed = total, done, failed
    made.requests.retried = retried
    return made


class View:
    """A progress on a stream of its own, with a clock of its own."""

    def __init__(self, width: int = 100, *, terminal: bool = True, crds: int | None = None, **environment: str) -> None:
        self.clock, self.stream = Clock(), Terminal(is_one=terminal)
        self.console = Console(
            file=self.stream, width=width, height=24, force_terminal=terminal, color_system=None, highlight=False
        )
        self.progress = Progress(crds, console=self.console, environment=environment, clock=self.clock)
        if self.progress._is_live:
            self.progress._live.start()
            _opened.append(self.progress)

    def wait(self, seconds: float) -> None:
        """Let time pass, as the ticking task would."""
        for _ in range(round(seconds * 5)):
            self.clock.now += 0.2
            self.progress.show()

    @property
    def lines(self) -> list[str]:
        """What was printed."""
        return self.stream.getvalue().splitlines()

    def frame(self) -> list[str]:
        """The newest frame alone."""
        self.stream.seek(0)
        self.stream.truncate()
        self.progress.show()
        return [line for line in _plain(self.stream.getvalue()).splitlines() if line.strip()]


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n")


def test_a_log_says_what_is_waited_for():
    """Seven lines of "bringing objects to v2", while a webhook is down, send nobody to the webhook."""
    view, ran = View(terminal=False), report(total=0)
    ran.waits = Waits(view.clock)
    view.progress.at(Moment.WRITING, ran)
    with ran.waits.on(again("list the objects", 4, 8, "conversion webhook failed:\n refused"), 12.0):
        view.wait(6)
    assert view.lines[-1] == (
        f"{NAME}: waiting 7 s to list the objects again (try 5 of 8): conversion webhook failed: refused"
    )
    ran.expected = ran.objects.listed = 10
    with ran.waits.on("to write a/b again (try 2 of 8): too many requests", 30.0), ran.waits.on("shortly", 1.0):
        view.wait(6)
        assert view.lines[-1].startswith(f"{NAME}: 0 of 10 objects at v1")
        assert re.search(r"; waiting 2\d s to write a/b again \(try 2 of 8\): too many requests$", view.lines[-1])
    view.wait(6)
    assert "waiting" not in view.lines[-1]


def test_a_terminal_shows_what_is_waited_for():
    """A bar that stands still looks like a run that hangs."""
    view, ran = View(120), report(done=10)
    ran.waits = Waits(view.clock)
    view.progress.at(Moment.WRITING, ran)
    with ran.waits.on("to write a/b again (try 2 of 8): too many requests", 30.0):
        assert "writing, waiting 30 s to write a/b again" in view.frame()[0]


def test_a_wide_terminal_has_everything_in_one_line():
    """Somebody who watches wants to know how far, how fast, how long still, and what went wrong."""
    view, ran = View(140), report(done=100, retried=3, failed=2)
    view.progress.at(Moment.WRITING, ran)
    view.wait(1)
    ran.objects.rewritten += 600
    view.wait(2)
    (line,) = view.frame()
    for expected in (NAME, "writing", "━", "702/5,000", "14 %", "/s", "left", "3 retried", "2 failed"):
        assert expected in line


@pytest.mark.parametrize("width", [20, 30, 40, 60, 72, 80, 100, 200])
@pytest.mark.parametrize("name", [NAME, "azuremanagedmachinepooltemplates.infrastructure.cluster.x-k8s.io"])
def test_no_line_is_wider_than_the_terminal(width: int, name: str):
    """A line that folds leaves its upper half behind at every frame."""
    view, ran = View(width), report(name, done=123_456, total=2_000_000, failed=17, retried=1234)
    view.progress.at(Moment.WRITING, ran)
    view.wait(2)
    ran.objects.rewritten += 1000
    view.wait(1)
    frame = view.frame()
    assert max(cell_len(line) for line in frame) <= width
    assert any("━" in line or "─" in line for line in frame)
    if width >= 40:
        assert any("17 failed" in line for line in frame), "what failed is the last to be left out"


def test_crds_side_by_side_and_many_of_them():
    """Each has its own bar, no more than the terminal has lines, and those that ended leave a line above."""
    view = View(100, crds=60)
    for number in range(60):
        view.progress.at(Moment.WRITING, report(f"crd{number}.example.com", done=number))
    frame = view.frame()
    assert 20 <= len(frame) <= 24
    assert frame[-1].startswith("0 of 60 CRDs done")
    for number in range(58):
        view.progress.at(Moment.ENDED, report(f"crd{number}.example.com", done=5000, failed=number == 3))
    assert sum("5000 objects" in line for line in view.lines) == 58
    frame = view.frame()
    assert len(frame) == 3
    assert frame[-1].startswith("58 of 60 CRDs done, 1 of them not wholly")


def test_a_narrowed_window_loses_all_rows_of_the_frame_before():
    """A terminal breaks the lines that it shows when it is narrowed: going up by as many lines as drawn leaves some."""
    view = View(120, crds=3)
    for number in range(2):
        view.progress.at(Moment.WRITING, report(f"crd{number}.example.com", done=number))
    view.frame()
    rows = sum(-(-cells // 40) for cells in view.progress._widths)
    assert rows > len(view.progress._widths)
    view.console.width = 40
    view.frame()
    assert view.stream.getvalue().count("\x1b[1A") == rows - 1


def test_phases_have_words():
    """Half a minute of an unmoving bar looks like a hang."""
    view, ran = View(), report()
    ran.settle_s = 4.0
    view.progress.at(Moment.SETTLING, ran)
    view.wait(1)
    assert "settling 3s" in view.frame()[0]
    view.progress.at(Moment.PRUNING, ran)
    assert "pruning" in view.frame()[0]
    for moment in Moment:
        view.progress.at(moment, ran)
        view.frame()


def test_a_new_pass_begins_at_nothing():
    """A rate reckoned over two passes would be negative."""
    view, ran = View(), report(done=4000)
    view.progress.at(Moment.WRITING, ran)
    view.wait(2)
    ran.begin_pass()
    view.wait(2)
    assert "-" not in view.frame()[0].replace(NAME, "").replace("─", "")


def test_the_rate_is_that_of_late():
    """After a slow hour the time left must not be reckoned from that hour."""
    view, ran = View(140), report(total=100_000)
    view.progress.at(Moment.WRITING, ran)
    for _ in range(60):
        view.wait(1)
        ran.objects.rewritten += 1
    for _ in range(20):
        view.wait(1)
        ran.objects.rewritten += 500
    rate = re.search(r"(\d+)/s", view.frame()[0])
    assert rate is not None and 450 <= int(rate[1]) <= 550


@pytest.mark.parametrize(
    ("terminal", "environment"), [(False, {}), (True, {"CI": "true"}), (False, {"FORCE_COLOR": "1"})]
)
def test_a_log_has_a_line_now_and_then(terminal: bool, environment: dict[str, str]):
    """A log of bars is unreadable, and one of a line every fifth of a second is too long."""
    view, ran = View(terminal=terminal, **environment), report()
    view.progress.at(Moment.WRITING, CrdReport(name=NAME, storage_version="v1"))
    view.progress.at(Moment.WRITING, ran)
    view.wait(4.6)
    assert view.lines == [f"{NAME}: bringing objects to v1"]
    ran.objects.rewritten, ran.requests.retried, ran.objects.failed = 1250, 2, 1
    view.wait(1)
    assert len(view.lines) == 2
    line = view.lines[1]
    assert line.startswith(f"{NAME}: 1251 of 5000 objects at v1 (25 %), ")
    assert line.endswith("left, 2 retried, 1 failed")
    view.wait(60)
    assert 12 <= len(view.lines) <= 15
    before = len(view.lines)
    view.wait(600)
    assert len(view.lines) - before <= 36
    assert "\r" not in view.stream.getvalue() and "\x1b" not in view.stream.getvalue()


def test_many_small_crds_do_not_flood_a_log():
    """A hundred CRDs that have nothing to do are one thing to know, not three hundred."""
    view = View(terminal=False, crds=100)
    for number in range(100):
        ran = report(f"crd{number}.example.com", done=3, total=3)
        for moment in (Moment.WRITING, Moment.PRUNING, Moment.ENDED):
            view.progress.at(moment, ran)
        view.wait(0.2)
    assert len(view.lines) <= 5
    assert view.lines[-1].split("; ")[1] in {f"{number} of 100 CRDs done" for number in range(70, 100)}


async def test_a_terminal_that_is_gone_does_not_end_the_run():
    """Its window was closed; the migration goes on."""
    view = View()

    def gone(_text: str) -> int:
        raise OSError(errno.EIO, "gone")

    async with view.progress as progress:
        view.stream.write = gone  # type: ignore[method-assign]
        progress.at(Moment.WRITING, report())
        progress.show()
        progress.at(Moment.ENDED, report())
        await asyncio.sleep(0)


CHILD = """
import asyncio, sys
from restow.migrator import CrdReport
from restow.migrator.model.callbacks import Moment
from restow.cli.progress import Progress

async def main():
    async with Progress() as progress:
        report = CrdReport(name="widgets.example.com", storage_version="v1", expected=1000)
        report.objects.listed = 1000
        progress.at(Moment.WRITING, report)
        while await asyncio.to_thread(sys.stdin.readline):
            report.objects.current += 250
    print("the result")

asyncio.run(main())
"""


def _resize(terminal: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def _read_until(terminal: int, found: Callable[[str], bool]) -> str:
    text = ""
    while not found(text):
        text += os.read(terminal, 65536).decode()
    return text


def test_on_a_real_terminal_with_the_result_in_a_pipe():
    """``restow migrate -o json | jq`` shows bars and hands on nothing but the result; a narrowed window stays whole."""
    master, slave = pty.openpty()
    _resize(master, 100)
    quiet = {name: value for name, value in os.environ.items() if name not in ("CI", "COLUMNS", "LINES", "NO_COLOR")}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=slave,
        env=quiet | {"TERM": "xterm-256color", "PYTHONUTF8": "1"},
    )
    os.close(slave)
    assert child.stdin is not None
    try:
        wide = _read_until(master, lambda text: "0/1,000" in text and "━" not in text and "─" in text)
        assert any(cell_len(line) > 60 for line in _plain(wide).splitlines())
        _resize(master, 40)
        child.stdin.write(b"\n")
        child.stdin.flush()
        narrow = _read_until(master, lambda text: "250/1,000" in text and text.count("250/1,000") > 2)
        newest = narrow[narrow.index("250/1,000") :]
        assert max(cell_len(line) for line in _plain(newest).splitlines()) <= 40
        out, _ = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
        os.close(master)
    assert out == b"the result\n"
    assert child.returncode == 0


def test_the_log_stands_above_the_bars():
    """A line of the log in the middle of a bar is read by nobody, and leaves half of the frame behind."""
    log = logging.getLogger("restow.test-progress")
    handlers = logging.root.handlers[:]
    logging.root.handlers[:] = []
    try:
        log_to_stderr()
        view, ran = View(100), report(done=100)
        view.progress.at(Moment.WRITING, ran)
        view.wait(1)
        log.warning("the watch of widgets ended")
        view.progress.show()
    finally:
        logging.root.handlers[:] = handlers
    lines = [line.rstrip() for line in _plain(view.stream.getvalue()).split("\n")]
    (line,) = (line for line in lines if "watch" in line)
    assert re.fullmatch(r"[-\dT:.]+Z WARNING restow.test-progress: the watch of widgets ended", line)
