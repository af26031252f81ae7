"""A headless Chromium, driven over its DevTools protocol: what a page asks for, complains of, shows and computes."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = (
    "no Chromium is installed, so the page cannot be looked at: apt-get install --no-install-recommends chromium "
    f"(looked for {', '.join(NAMES)})"
)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_DEADLINE = 60.0


class Page:
    """One page: commands, and the events that came so far, by method."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.events: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._socket = socket
        self._session = ""
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._news = asyncio.Event()

    async def listen(self) -> None:
        """Take in answers and events until cancelled."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            else:
                self.events[said["method"]].append(said["params"])
                self._news.set()

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Give a command and return its result."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        target = {"sessionId": self._session} if self._session else {}
        await self._socket.send_json({"id": number, "method": method, "params": params} | target)
        async with asyncio.timeout(_DEADLINE):
            answer = await self._answers[number]
        assert "error" not in answer, f"{method}: {answer['error']}"
        found: dict[str, Any] = answer["result"]
        return found

    async def attach(self) -> None:
        """Make the page, and have it tell of everything."""
        made = await self.send("Target.createTarget", url="about:blank")
        attached = await self.send("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            await self.send(f"{domain}.enable")
        await self.resize(1280)

    async def open(self, file: Path) -> None:
        """Load a file and wait until it is there."""
        loads = len(self.events["Page.loadEventFired"])
        await self.send("Page.navigate", url=file.as_uri())
        async with asyncio.timeout(_DEADLINE):
            while len(self.events["Page.loadEventFired"]) == loads:
                self._news.clear()
                await self._news.wait()

    async def resize(self, width: int, height: int = 900, *, scale: float = 1) -> None:
        """Give the window a size."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    async def media(self, *, scheme: str = "light", medium: str = "") -> None:
        """Choose light or dark, screen or print."""
        await self.send(
            "Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    async def value(self, script: str) -> Any:
        """Evaluate an expression in the page; promises are waited for."""
        answer = await self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("rawKeyDown", "keyUp"):
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    async def type(self, text: str) -> None:
        """Type into whatever has the focus."""
        await self.send("Input.insertText", text=text)

    async def screenshot(self, file: Path, clip: dict[str, float] | None = None) -> None:
        """Save a picture of the window, or of a part of the page (x, y, width, height)."""
        part = {"clip": clip | {"scale": 1}, "captureBeyondViewport": True} if clip else {}
        shot = await self.send("Page.captureScreenshot", format="png", optimizeForSpeed=False, **part)
        file.write_bytes(base64.b64decode(shot["data"]))

    async def pdf(self) -> bytes:
        """Print it."""
        printed = await self.send("Page.printToPDF", preferCSSPageSize=True)
        return base64.b64decode(printed["data"])


def find() -> str | None:
    """Where Chromium is, if it is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def running(binary: str, folder: Path) -> Iterator[str]:
    """Start Chromium with an empty profile in a folder, give the address of its DevTools, and end it."""
    with subprocess.Popen(
        [binary, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield _endpoint(folder / "DevToolsActivePort", process)
        finally:
            process.terminate()


@asynccontextmanager
async def new_page(address: str) -> AsyncIterator[Page]:
    """Open a page of its own in a running Chromium."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(address, max_msg_size=0) as socket,
    ):
        page = Page(socket)
        listening = asyncio.create_task(page.listen())
        await page.attach()
        try:
            yield page
        finally:
            listening.cancel()
            await asyncio.wait([listening])


def _endpoint(file: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        assert process.poll() is None, f"Chromium ended with {process.returncode}"
        if file.exists() and len(lines := file.read_text().splitlines()) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise AssertionError(f"Chromium did not say where it listens within {_DEADLINE:.0f} s")
