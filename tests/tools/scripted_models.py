"""Language models that answer by a script: tests/policy/chat/chat_server.py, and the answers that it gives."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests/policy/chat/chat_server.py"


def library(task):
    """A good program for a built-in task on `cpu`."""
    return (ROOT / f"config/programs/cpu/{task}.cu1").read_text()


def of_task(task):
    """What the server's rules find in a prompt of that task."""
    return rf"# The task: {task}\n"


def answer(code, analysis="The reference launches each operator by itself; one kernel moves less memory."):
    return f"## Performance analysis\n{analysis}\n\n## Design\nOne kernel.\n\n## Code\n```cuda\n{code}\n```\n"


def numbered(code, n):
    """The same program, which a comment makes another one."""
    return code.replace("\n---\n", f"\n---\n// variant {n}\n", 1)


class Server:
    def __init__(self, folder, script, name):
        self.log = folder / f"{name}.jsonl"
        path = folder / f"{name}.json"
        path.write_text(json.dumps(script))
        self.process = subprocess.Popen([sys.executable, str(SERVER), "--script", str(path), "--log", str(self.log)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def events(self, kind):
        if not self.log.exists():
            return []
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line["event"] == kind]
