"""A headless Chromium driven over its debugging pipe: opens a page, evaluates scripts, sends real mouse and key events."""
import json
import os
import shutil
import signal
import subprocess
import tempfile


def find():
    """The browser's path, None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    def __init__(self, width=1400, height=1600):
        self.profile = tempfile.TemporaryDirectory(prefix="atalla-browser-", ignore_cleanup_errors=True)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def connect():  # the browser reads from 3 and writes to 4
            os.dup2(theirs_in, 1000)
            os.dup2(theirs_out, 1001)
            os.dup2(1000, 3)
            os.dup2(1001, 4)

        self.process = subprocess.Popen(
            [find(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
             f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}"],
            close_fds=False, start_new_session=True, preexec_fn=connect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.number, self.session, self.problems = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.requests = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Its children go on writing into the profile for a while if they are only left.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.input.close()
        self.output.close()
        self.profile.cleanup()

    def receive(self):
        message = b""
        while not message.endswith(b"\0"):
            byte = self.input.read1(1)
            if not byte:
                raise RuntimeError("the browser ended")
            message += byte
        event = json.loads(message[:-1])
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(event["params"]["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(event["params"]["request"]["url"])
        return event

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.output.write(json.dumps(message).encode() + b"\0")
        self.output.flush()
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, path):
        self.call("Page.navigate", url="file://" + str(path))
        while self.receive().get("method") != "Page.loadEventFired":
            pass

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def colors(self, x, y, width, height):
        """How many colors this part of the page shows: of a screenshot, which the browser itself takes apart."""
        picture = self.call("Page.captureScreenshot", format="png", clip=dict(x=x, y=y, width=width, height=height, scale=1))["data"]
        return self.evaluate("""new Promise(done => {
            const picture = new Image();
            picture.onload = () => {
                const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
                canvas.drawImage(picture, 0, 0);
                done(new Set(new Uint32Array(canvas.getImageData(0, 0, picture.width, picture.height).data.buffer)).size);
            };
            picture.src = "data:image/png;base64,%s";
        })""" % picture)
