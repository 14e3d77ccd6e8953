"""A node that serves over HTTP, for tests: on `cpu` with quick settings unless told otherwise, a data folder of its own, and
its log."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/python_client"))

# What is tested is the way of a verdict, not the clock.
QUICK = ["timing.screening_forks=1", "timing.screening_pairs=2", "timing.refinement_forks=1", "timing.refinement_pairs=4",
         "timing.max_forks=2", "timing.max_seconds=1", "timing.second_look_factor=0", "device.flush_mb=4",
         "verification.declared_draws=2", "timing.screened_limit=10", "timing.confirmed_limit=10"]
# A small diagonal matmul, of which an evaluation takes a fraction of a second.
TINY = {"format": 1, "name": "tiny", "summary": "a small diagonal matmul", "family": "matmul",
        "inputs": [{"name": "a", "dtype": "float32", "shape": [192, 192], "facts": ["diagonal"]},
                   {"name": "b", "dtype": "float32", "shape": [192, 256]}],
        "steps": [{"aten": "aten::mm", "args": {"self": "a", "mat2": "b"}, "out": ["y"]}], "outputs": ["y"]}


def program(expression="a[row * rows + row] * b[row * columns + column]", name="row_scale"):
    head = {"format": 1, "name": name, "inputs": [{"name": "a", "dtype": "float32", "shape": [192, 192]},
                                                  {"name": "b", "dtype": "float32", "shape": [192, 256]}],
            "steps": [{"alloc": "y", "dtype": "float32", "shape": [192, 256]},
                      {"launch": "f", "grid": [1, 192, 1], "block": [256, 1, 1],
                       "args": [{"in": "a"}, {"in": "b"}, {"out": "y"}, {"i32": 192}, {"i32": 256}]}],
            "outputs": ["y"]}
    return json.dumps(head) + f"""
---
__global__ void f(const float* a, const float* b, float* y, int rows, int columns) {{
  const int row = blockIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column < columns) {{
    y[row * columns + column] = {expression};
  }}
}}
"""


class ServedNode:
    def __init__(self, bin_folder, *flags, data=None, device="cpu", settings=QUICK):
        self.bin = pathlib.Path(bin_folder)
        self._temporary = None if data else tempfile.TemporaryDirectory(prefix="cudal1-serve-")
        self.data = pathlib.Path(data or self._temporary.name)
        tasks = self.data / "tasks"
        tasks.mkdir(parents=True, exist_ok=True)
        for file in (ROOT / "config/tasks").glob("*.json"):  # the library of programs is of all of them
            (tasks / file.name).write_text(file.read_text())
        (tasks / "tiny.json").write_text(json.dumps(TINY))
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CUDAL1_") or k == "CUDAL1_PYTHON"}
        self.environment["CUDAL1_TASKS"] = str(tasks)
        self.flags = list(flags) or ["--serve", "127.0.0.1:0"]
        self.device, self.settings = device, settings
        self.process = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        self.address.unlink(missing_ok=True)
        command = [str(self.bin / "cudal1-node"), "--data", str(self.data), "--device", self.device, "--allow-weak-confinement",
                   *self.flags]
        for setting in self.settings:
            command += ["--set", setting]
        with open(self.data / "output", "ab") as output:
            self.process = subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)
        end = time.monotonic() + 60
        while not self.address.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the node does not serve:\n" + self.log()[-3000:])
            time.sleep(0.02)
        self.url = self.address.read_text().strip()
        self.port = int(self.url.rsplit(":", 1)[1])

    @property
    def address(self):
        return self.data / "serve" / "address"

    def log(self):
        return (self.data / "output").read_text()

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        return self.process.wait(60)

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill(signal.SIGTERM)
        if self._temporary:
            self._temporary.cleanup()

    def client(self, **arguments):
        import cudal1

        return cudal1.connect(self.url, **arguments)

    def raw(self, data, limit_s=15.0, end=False):
        """What the node sends back to these bytes, up to its end of the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=limit_s) as s:
            try:
                s.sendall(data)
                if end:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has closed the connection already
            answer = b""
            try:
                while chunk := s.recv(65536):
                    answer += chunk
            except (ConnectionError, socket.timeout):
                pass
            return answer

    def get(self, path, method="GET", body=None, **headers):
        """Status, headers and document or text of a request."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        all_headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if body is not None:
            all_headers.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, (bytes, str)) else json.dumps(body)
        connection.request(method, path, body=body, headers=all_headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        is_json = (response.getheader("Content-Type") or "").startswith("application/json")
        return response.status, response.headers, json.loads(text) if is_json else text.decode()
