"""A headless Chromium over its debugging pipe, for tests that look at pages. Nothing is installed for it: `find()` is
None where the system has none."""

import base64
import json
import os
import shutil
import subprocess
import tempfile


def find():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
                None)


class Browser:
    """One page of one browser process. Use as a context."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        here_reads, there_writes = os.pipe()
        there_reads, here_writes = os.pipe()

        def place():
            # The pipe's ends are file descriptors 3 and 4 there; first out of the way of each other.
            reads, writes = os.dup(there_reads), os.dup(there_writes)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-dev-shm-usage", f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(there_reads)
        os.close(there_writes)
        self.out, self.into = os.fdopen(here_reads, "rb"), os.fdopen(here_writes, "wb")
        self.buffer, self.number, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.requested, self.problems = [], []
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Network.enable")
        self.call("Log.enable")
        self.call("Runtime.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.out.close()
        self.into.close()
        self.profile.cleanup()

    def message(self):
        while b"\0" not in self.buffer:
            more = os.read(self.out.fileno(), 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self.buffer += more
        one, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        self.into.write(json.dumps(request).encode() + b"\0")
        self.into.flush()
        while (answer := self.message()).get("id") != self.number:
            self.notice(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def notice(self, event):
        if event.get("method") == "Network.requestWillBeSent":
            self.requested.append(event["params"]["request"]["url"])
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(event["params"]["exceptionDetails"]))
        # Of a violated content policy, too.
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            self.problems.append(event["params"]["entry"]["text"])

    def open(self, path, width, height=900, dark=False):
        """Loads a file, or what is at an address, at a width in CSS pixels."""
        self.requested, self.problems = [], []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=str(path) if "://" in str(path) else f"file://{path}")
        while True:
            event = self.message()
            self.notice(event)
            if event.get("method") == "Page.loadEventFired":
                return

    def value(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, path, whole=True, clip=None):
        parameters = {"captureBeyondViewport": whole}
        if clip:
            x, y, width, height = clip
            parameters["clip"] = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", **parameters)["data"]))
