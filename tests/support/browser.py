"""Controls a headless Chromium over a pipe with the DevTools protocol, for the tests of HTML
reports (tests/html). Needs only the standard library."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile


def chromium():
    """Returns the path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Page:
    """A browser with one page. width, height: size of the window in pixels. errors: errors and
    warnings in the console, and exceptions. requests: the URLs that the page requested."""

    def __init__(self, width=1400, height=800):
        self.folder = tempfile.TemporaryDirectory()
        to_us, from_it = os.pipe()
        to_it, from_us = os.pipe()
        self.errors, self.requests, self.calls = [], [], 0
        self.program = subprocess.Popen(
            [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--hide-scrollbars", "--disable-dev-shm-usage",
             "--force-device-scale-factor=1", f"--window-size={width},{height}",
             f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe", "about:blank"],
            preexec_fn=lambda: (os.dup2(to_it, 103), os.dup2(from_it, 104),
                                os.dup2(103, 3), os.dup2(104, 4)),
            pass_fds=(3, 4), close_fds=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_it)
        os.close(from_it)
        self.write, self.read = from_us, os.fdopen(to_us, "rb")
        self.rest, self.session = b"", None
        target = next(t for t in self.call("Target.getTargets")["targetInfos"]
                      if t["type"] == "page")
        self.session = self.call("Target.attachToTarget",
                                 {"targetId": target["targetId"], "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.write)  # closing the pipe ends Chromium
        try:
            self.program.wait(10)
        except subprocess.TimeoutExpired:
            self.program.kill()
            self.program.wait()
        self.read.close()
        self.folder.cleanup()

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.read.fileno(), 1 << 16)
            if not more:
                raise RuntimeError("the browser ended")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def note(self, message):
        what, about = message.get("method"), message.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.errors.append(about["exceptionDetails"].get("exception", {}).get("description")
                               or about["exceptionDetails"]["text"])
        elif what == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.errors.append(str([a.get("value") for a in about["args"]]))
        elif what == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.errors.append(about["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])

    def call(self, method, params=None):
        self.calls += 1
        number = self.calls
        message = {"id": number, "method": method, "params": params or {}}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data):]
        while True:
            answer = self.message()
            if answer.get("id") != number:
                self.note(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def open(self, path, fragment=""):
        """Loads a file and waits until its viewer is ready."""
        self.call("Page.navigate", {"url": "about:blank"})
        self.call("Page.navigate", {"url": pathlib.Path(path).resolve().as_uri() + fragment})
        return self.do("""new Promise((resolve, reject) => {
            const end = Date.now() + 60000;
            const look = () => document.body && document.body.dataset.ready ? resolve(true)
                : Date.now() > end ? reject(new Error("not ready")) : setTimeout(look, 20);
            look(); })""")

    def open_without_script(self, path):
        """Loads a file with JavaScript disabled, waits for the load event, and enables JavaScript
        again, for do()."""
        self.call("Emulation.setScriptExecutionDisabled", {"value": True})
        self.call("Page.navigate", {"url": pathlib.Path(path).resolve().as_uri()})
        while (message := self.message()).get("method") != "Page.loadEventFired":
            self.note(message)
        self.call("Emulation.setScriptExecutionDisabled", {"value": False})

    def do(self, code):
        """Evaluates JavaScript and returns its value. Waits for promises."""
        answer = self.call("Runtime.evaluate", {"expression": code, "awaitPromise": True,
                                                "returnByValue": True})
        if "exceptionDetails" in answer:
            about = answer["exceptionDetails"]
            raise RuntimeError(about.get("exception", {}).get("description") or about["text"])
        return answer["result"].get("value")

    def frame(self):
        """Waits until pending changes are drawn."""
        self.do("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1,
                       buttons=1 if kind == "mousePressed" else 0)

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, **text})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", "key": key})

    def picture(self, path):
        data = self.call("Page.captureScreenshot", {"format": "png"})["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def pdf(self, path, **how):
        """Prints to a PDF with the defaults of the print dialog, which omit background colours."""
        data = self.call("Page.printToPDF", {"preferCSSPageSize": True, **how})["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
