#!/usr/bin/env python3
"""The tools of the Model Context Protocol, over standard input and output, with a node on `cpu`. By hand, and by the
official SDK where $CUDAL1_MCP_PYTHON is a Python that has it (`pip install mcp`).

    mcp_test.py BIN
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import unittest

from served_node import ROOT, ServedNode, program

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build/bin")
SDK_PYTHON = os.environ.get("CUDAL1_MCP_PYTHON")


class Peer:
    """A client of the protocol: one JSON-RPC message a line."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        bufsize=1)
        self.messages, self.notes, self.last = queue.Queue(), [], 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.messages.put(json.loads(line))
        self.messages.put(None)

    def send(self, method, params=None, **more):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **more}) + "\n")

    def begin(self, method, params=None):
        self.last += 1
        self.send(method, params, id=self.last)
        return self.last

    def answer(self, id):
        while True:
            message = self.messages.get(timeout=100)
            if message is None:
                raise EOFError("the server has ended")
            if message.get("id") == id:
                return message
            self.notes.append(message)

    def ask(self, method, params=None):
        return self.answer(self.begin(method, params))

    def call(self, name, /, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = ServedNode(BIN)
        cls.command = [f"{BIN}/cudal1", "mcp", "--data", str(cls.node.data)]

    @classmethod
    def tearDownClass(cls):
        cls.node.close()

    def setUp(self):
        self.peer = Peer(self.command, self.node.environment)
        started = self.peer.ask("initialize", {"protocolVersion": "2025-03-26", "capabilities": {},
                                               "clientInfo": {"name": "test", "version": "1"}})["result"]
        self.assertEqual(started["protocolVersion"], "2025-03-26")
        self.peer.send("notifications/initialized")
        self.addCleanup(self.peer.close)

    def test_what_there_is(self):
        names = [t["name"] for t in self.peer.ask("tools/list")["result"]["tools"]]
        for name in ("list_tasks", "describe_task", "evaluate", "explain", "best", "prompt", "import_model", "export", "moves"):
            self.assertIn(name, names)
        for resource in self.peer.ask("resources/list")["result"]["resources"]:
            text = self.peer.ask("resources/read", {"uri": resource["uri"]})["result"]["contents"][0]["text"]
            self.assertGreater(len(text), 500, resource)
        self.assertIn("tiny", self.peer.call("list_tasks")["content"][0]["text"])
        self.assertEqual(self.peer.call("describe_task", task="tiny")["structuredContent"]["task"]["name"], "tiny")
        self.assertIn("tiny", self.peer.call("prompt", task="tiny")["content"][0]["text"])
        self.assertIn("class Model", self.peer.call("python_problem", task="tiny")["content"][0]["text"])
        self.assertIn("row_kernel", self.peer.call("moves")["content"][0]["text"])

    def test_evaluating_and_explaining(self):
        id = self.peer.begin("tools/call", {"name": "evaluate", "_meta": {"progressToken": "p"},
                                            "arguments": {"task": "tiny", "program": program()}})
        right = self.peer.answer(id)["result"]
        self.assertFalse(right["isError"])
        self.assertTrue(right["structuredContent"]["correct"])
        values = [m["params"]["progress"] for m in self.peer.notes if m.get("method") == "notifications/progress"]
        self.assertTrue(values and values == sorted(set(values)))
        wrong = self.peer.call("evaluate", task="tiny", program=program("b[column]"))["structuredContent"]
        self.assertEqual(wrong["outcome"], "wrong_answer")
        explained = self.peer.call("explain", variant=wrong["variant"])["content"][0]["text"]
        self.assertIn("FAIL", explained)
        self.assertIn(wrong["hint"], explained)
        self.assertIn("row_scale", self.peer.call("best", task="tiny")["structuredContent"]["program"])

    def test_what_is_wrong_is_said(self):
        self.assertEqual(self.peer.ask("no/such")["error"]["code"], -32601)
        self.assertEqual(self.peer.ask("tools/call", {"name": "fly"})["error"]["code"], -32602)
        for name, arguments in (("evaluate", {}), ("evaluate", {"task": "tiny"}), ("evaluate", {"task": 1}),
                                ("evaluate", {"task": "tiny", "python": "x", "program": "y"}), ("describe_task", {"task": "nothing"}),
                                ("explain", {"variant": "ffff"}), ("import_model", {"name": "m", "source": "x"}),
                                ("best", {"task": "tiny", "more": 1})):
            result = self.peer.call(name, **arguments)
            self.assertTrue(result["isError"] and result["content"][0]["text"], (name, arguments))
        self.peer.process.stdin.write("garbage\n[]\n")
        self.assertEqual(self.peer.ask("ping")["result"], {})

    def test_cancelling_frees_the_device(self):
        id = self.peer.begin("tools/call", {"name": "evaluate", "arguments": {"task": "softmax",
                                                                              "schedule": "row_kernel(steps=0)"}})
        self.peer.send("notifications/cancelled", {"requestId": id})
        self.peer.ask("ping")
        client = self.node.client()
        for job in client.jobs():
            client.job(job["id"]).wait(30)
        self.assertEqual(client.health()["running"], 0)

    @unittest.skipUnless(SDK_PYTHON, "CUDAL1_MCP_PYTHON names no Python with the official SDK")
    def test_the_official_sdk(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(SDK_CLIENT)
            script.flush()
            done = subprocess.run([SDK_PYTHON, script.name, *self.command], env=self.node.environment, timeout=120,
                                  input=json.dumps({"program": program()}), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertIn("evaluate", said["tools"])
        self.assertEqual(said["outcome"], "correct")
        self.assertGreater(said["progress"], 0)
        self.assertIn("cudal1://format", said["resources"])


SDK_CLIENT = '''
import asyncio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    given, seen = json.load(sys.stdin), []
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = await session.list_tools()
        resources = await session.list_resources()
        async def progress(*told):
            seen.append(told)
        result = await session.call_tool("evaluate", {"task": "tiny", "program": given["program"]},
                                         progress_callback=progress)
        structured = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
        await session.read_resource(resources.resources[0].uri)
        print(json.dumps({"tools": [t.name for t in tools.tools], "outcome": structured["outcome"], "progress": len(seen),
                          "resources": [str(r.uri) for r in resources.resources]}))

asyncio.run(main())
'''


if __name__ == "__main__":
    unittest.main()
