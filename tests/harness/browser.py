"""A real browser for tests of pages: headless Chromium, driven through its DevTools protocol over two pipes.

Only what the tests need: open a file at a size, run JavaScript, move the mouse, type, take a screenshot, and hear of every
error. `Browser.executable()` is None where Chromium is not installed.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.process import PATIENCE

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--mute-audio",
    "--allow-file-access-from-files", "--remote-debugging-pipe",
)  # fmt: skip
# the browser reads commands from file descriptor 3 and answers on 4; the ends are moved out of the way of each other first
_LAUNCH = (
    "import os, sys; high = [os.dup(int(fd)) for fd in sys.argv[1:3] for _ in range(6)];"
    "os.dup2(high[5], 3); os.dup2(high[11], 4); os.execv(sys.argv[3], sys.argv[3:])"
)


class Browser:
    """One Chromium; `page` gives tabs."""

    def __init__(self) -> None:
        executable = self.executable()
        assert executable is not None
        self._profile = tempfile.mkdtemp(prefix="gradtape-browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        launch = [sys.executable, "-S", "-c", _LAUNCH, str(to_read), str(to_write)]
        self._process = subprocess.Popen(
            [*launch, executable, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(to_read, to_write),
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer = b""
        self._ids = itertools.count(1)
        self._events: list[dict[str, Any]] = []

    @staticmethod
    def executable() -> str | None:
        return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(PATIENCE)
            if answer is None:
                raise TimeoutError(f"the browser did not answer {method}")
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _next(self, seconds: float) -> dict[str, Any] | None:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                return None
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise RuntimeError("the browser went away")
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        return message

    def event(self, method: str, session: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait for an event of a tab."""
        deadline = time.monotonic() + seconds
        while True:
            for place, event in enumerate(self._events):
                if event.get("method") == method and event.get("sessionId") == session:
                    return self._events.pop(place)
            event_or_none = self._next(max(deadline - time.monotonic(), 0))
            if event_or_none is None:
                raise TimeoutError(f"no {method} from the browser")
            self._events.append(event_or_none)

    def errors(self, session: str) -> list[str]:
        """What went wrong on the page so far: exceptions, console errors, refused or failed requests."""
        found = []
        for event in self._events:
            if event.get("sessionId") != session:
                continue
            params = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                found.append("request to " + params["request"]["url"])
        return found

    @contextmanager
    def page(
        self, path: Path, width: int = 1280, height: int = 800, dark: bool = False, known: str | None = None
    ) -> Iterator[Page]:
        """A tab that shows a file; ends with an assertion that nothing went wrong on it, but what has `known` in its words."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        try:
            for domain in ("Page", "Runtime", "Log", "Network"):
                page.call(f"{domain}.enable")
            page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            page.call("Emulation.setEmulatedMedia", features=scheme)
            page.call("Page.navigate", url=path.resolve().as_uri())
            self.event("Page.loadEventFired", session)
            yield page
            errors = [error for error in self.errors(session) if known is None or known not in error]
            assert not errors, errors
        finally:
            self.call("Target.closeTarget", targetId=target)


class Page:
    """A tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def js(self, expression: str) -> Any:
        """The value of an expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "error"))
        return answer["result"].get("value")

    def box(self, selector: str) -> list[float]:
        """Left, top, right, bottom of the first element of a selector, on the screen."""
        found: list[float] = self.js(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            " return [r.left, r.top, r.right, r.bottom]; })()"
        )
        return found

    def middle(self, selector: str) -> tuple[float, float]:
        """The middle of the first element of a selector."""
        left, top, right, bottom = self.box(selector)
        return (left + right) / 2, (top + bottom) / 2

    def hover(self, selector: str) -> None:
        x, y = self.middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self.middle(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left", clickCount=1)
        for t in (0.3, 0.7, 1.0):
            x, y = (a + (b - a) * t for a, b in zip(start, end, strict=True))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def wheel(self, x: float, y: float, delta: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def type(self, selector: str, text: str) -> None:
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """One key: a character, or "Enter", "Escape"."""
        codes = {"Enter": ("\r", 13), "Escape": ("", 27)}
        text, code = codes.get(key, (key, ord(key[0])))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))
