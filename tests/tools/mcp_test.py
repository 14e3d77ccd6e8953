#!/usr/bin/env python3
"""The tools of the Model Context Protocol with a node on `cpu`, by both transports: standard input and output, and HTTP.
By hand, and by the official SDK where $CUDAL1_MCP_PYTHON is a Python that has it (`pip install mcp`).

    mcp_test.py BIN
"""

import http.client
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from served_node import ROOT, ServedNode, program

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else str(ROOT / "build/bin")
SDK_PYTHON = os.environ.get("CUDAL1_MCP_PYTHON")
VERSION = "2025-06-18"


class Peer:
    """A client of the protocol, by hand."""

    def __init__(self):
        self.messages, self.notes, self.last = queue.Queue(), [], 0

    def send(self, method, params=None, **more):
        self.put(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}, **more}))

    def begin(self, method, params=None):
        self.last += 1
        self.send(method, params, id=self.last)
        return self.last

    def answer(self, id):
        while True:
            message = self.messages.get(timeout=100)
            if message is None:
                raise EOFError("the server has ended")
            if message.get("id") == id and "method" not in message:
                return message
            self.notes.append(message)

    def ask(self, method, params=None):
        return self.answer(self.begin(method, params))

    def call(self, name, /, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]

    def initialize(self):
        return self.ask("initialize", {"protocolVersion": VERSION, "capabilities": {},
                                       "clientInfo": {"name": "test", "version": "1"}})["result"]


class LinePeer(Peer):
    """One message a line."""

    def __init__(self, node):
        super().__init__()
        self.process = subprocess.Popen(command_of(node), env=node.environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.messages.put(json.loads(line))
        self.messages.put(None)

    def put(self, text):
        self.process.stdin.write(text + "\n")

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


class HttpPeer(Peer):
    """One message a request."""

    def __init__(self, node):
        super().__init__()
        self.port, self.headers, self.sockets = node.port, {}, []

    def put(self, text):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.connect()
        self.sockets.append(connection.sock)
        connection.request("POST", "/mcp", text.encode(), {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.headers})
        threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection):
        try:
            response = connection.getresponse()
            if session := response.getheader("Mcp-Session-Id"):
                self.headers.update({"Mcp-Session-Id": session, "MCP-Protocol-Version": VERSION})
            if response.getheader("Content-Type") == "text/event-stream":
                for line in response:
                    if line.startswith(b"data: "):
                        self.messages.put(json.loads(line[6:]))
            elif text := response.read():
                self.messages.put(json.loads(text))
        except (OSError, http.client.HTTPException):
            pass  # close() has shut the connection

    def close(self):
        """As a client that vanishes."""
        for one in self.sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has its answer


def command_of(node):
    return [f"{BIN}/cudal1", "mcp", "--data", str(node.data)]


def setUpModule():
    global NODE
    NODE = ServedNode(BIN)


def tearDownModule():
    NODE.close()


class Cases:
    """What holds for each transport."""

    def setUp(self):
        self.node, self.peer = NODE, self.make_peer(NODE)
        self.addCleanup(self.peer.close)
        self.assertEqual(self.peer.initialize()["protocolVersion"], VERSION)
        self.peer.send("notifications/initialized")

    def wait_until_idle(self):
        client, end = self.node.client(), time.monotonic() + 30
        while (health := client.health())["running"] or health["waiting"]:
            self.assertLess(time.monotonic(), end, health)
            time.sleep(0.02)

    def begin_evaluation(self):
        """One that runs for seconds; returns once it is a job."""
        client = self.node.client()
        before = {job["id"] for job in client.jobs()}
        id = self.peer.begin("tools/call", {"name": "evaluate", "_meta": {"progressToken": 7},
                                            "arguments": {"task": "softmax", "schedule": "row_kernel(steps=0)"}})
        end = time.monotonic() + 30
        while not (new := {job["id"] for job in client.jobs()} - before):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)
        return id, client.job(new.pop())

    def assert_grows(self, told):
        values = [t["progress"] for t in told]
        self.assertTrue(values and values == sorted(set(values)), values)

    def test_what_there_is(self):
        tools = {t["name"]: t for t in self.peer.ask("tools/list")["result"]["tools"]}
        for name in ("list_tasks", "describe_task", "evaluate", "explain", "profile", "best", "prompt", "import_model", "export", "moves"):
            self.assertEqual(tools[name]["inputSchema"]["type"], "object")
        for resource in self.peer.ask("resources/list")["result"]["resources"]:
            text = self.peer.ask("resources/read", {"uri": resource["uri"]})["result"]["contents"][0]["text"]
            self.assertGreater(len(text), 500, resource)
        self.assertEqual(self.peer.ask("resources/read", {"uri": "cudal1://no"})["error"]["code"], -32002)
        self.assertIn("tiny", self.peer.call("list_tasks")["content"][0]["text"])
        self.assertEqual(self.peer.call("describe_task", task="tiny")["structuredContent"]["task"]["name"], "tiny")
        self.assertIn("tiny", self.peer.call("prompt", task="tiny")["content"][0]["text"])
        self.assertIn("class Model", self.peer.call("python_problem", task="tiny")["content"][0]["text"])
        self.assertIn("row_kernel", self.peer.call("moves")["content"][0]["text"])

    def test_evaluating_and_explaining(self):
        for _ in range(6):  # where other programs are in the way of its times, again
            self.peer.notes.clear()
            id = self.peer.begin("tools/call", {"name": "evaluate", "_meta": {"progressToken": "p"},
                                                "arguments": {"task": "tiny", "program": program()}})
            right = self.peer.answer(id)["result"]
            if right.get("structuredContent", {}).get("outcome") != "unmeasurable":
                break
        self.assertFalse(right["isError"])
        self.assertTrue(right["structuredContent"]["correct"])
        told = [m["params"] for m in self.peer.notes if m.get("method") == "notifications/progress"]
        self.assert_grows(told)
        self.assertEqual({t["progressToken"] for t in told}, {"p"})
        wrong = self.peer.call("evaluate", task="tiny", program=program("b[column]"))["structuredContent"]
        self.assertEqual(wrong["outcome"], "wrong_answer")
        explained = self.peer.call("explain", variant=wrong["variant"])["content"][0]["text"]
        self.assertIn("FAIL", explained)
        self.assertIn(wrong["hint"], explained)
        self.assertIn("row_scale", self.peer.call("best", task="tiny")["structuredContent"]["program"])
        profiled = self.peer.call("profile", variant=right["structuredContent"]["variant"])
        self.assertRegex(profiled["content"][0]["text"], r"tiny on cpu, .* us in all its steps:\n.*%, .* MB: step \d+ \(launch f\)\n$")
        self.assertEqual(self.peer.call("profile", variant=wrong["variant"])["isError"], True)

    def test_what_is_wrong_is_said(self):
        self.assertEqual(self.peer.ask("no/such")["error"]["code"], -32601)
        self.assertEqual(self.peer.ask("tools/call", {"name": "fly"})["error"]["code"], -32602)
        for name, arguments in (("evaluate", {}), ("evaluate", {"task": "tiny"}), ("evaluate", {"task": 1}),
                                ("evaluate", {"task": "tiny", "python": "x", "program": "y"}), ("describe_task", {"task": "nothing"}),
                                ("explain", {"variant": "ffff"}), ("import_model", {"name": "m", "source": "x"}),
                                ("best", {"task": "tiny", "more": 1}), ("best", {"task": "tiny", "count": "x"})):
            result = self.peer.call(name, **arguments)
            self.assertTrue(result["isError"] and result["content"][0]["text"], (name, arguments))
        for text, code in (("garbage", -32700), ("[]", -32600), ('{"jsonrpc": "1.0"}', -32600)):
            self.peer.put(text)
            self.assertEqual(self.peer.answer(None)["error"]["code"], code)
        self.assertEqual(self.peer.ask("ping")["result"], {})

    def test_a_limit_of_time_ends_an_evaluation(self):
        result = self.peer.call("evaluate", task="softmax", schedule="row_kernel(steps=0)", limit_s=1)
        if result["isError"]:  # else this machine is fast
            self.assertIn("limit_s", result["content"][0]["text"])
        self.wait_until_idle()

    def test_cancelling_frees_the_device(self):
        id, job = self.begin_evaluation()
        self.peer.send("notifications/cancelled", {"requestId": id})
        job.wait(30)
        self.assertEqual(job.document["state"], "cancelled")
        self.peer.ask("ping")
        self.assertNotIn(id, [m.get("id") for m in self.peer.notes])
        self.wait_until_idle()

    def test_a_cancellation_at_once_is_no_race(self):
        id = self.peer.begin("tools/call", {"name": "evaluate", "arguments": {"task": "softmax",
                                                                              "schedule": "row_kernel(steps=0)"}})
        self.peer.send("notifications/cancelled", {"requestId": id})
        self.peer.ask("ping")
        self.wait_until_idle()
        self.assertNotIn(id, [m.get("id") for m in self.peer.notes])

    def test_a_client_that_goes_frees_its_device(self):
        _, job = self.begin_evaluation()
        self.peer.close()
        job.wait(30)
        self.assertEqual(job.document["state"], "cancelled")

    @unittest.skipUnless(SDK_PYTHON, "CUDAL1_MCP_PYTHON names no Python with the official SDK")
    def test_the_official_sdk(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(SDK_CLIENT)
            script.flush()
            done = subprocess.run([SDK_PYTHON, script.name, *self.sdk_words(self.node)], env=self.node.environment,
                                  timeout=120, input=json.dumps({"program": program()}), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertIn("evaluate", said["tools"])
        self.assertIn(said["outcome"], ("correct", "unmeasurable"))
        self.assertGreater(said["progress"], 0)
        self.assertIn("cudal1://format", said["resources"])
        self.assertTrue(said["cancelled"])
        self.wait_until_idle()
        jobs = self.node.client().jobs()
        self.assertEqual(self.node.client().job(jobs[0]["id"]).document["state"], "cancelled")


class OverLines(Cases, unittest.TestCase):
    make_peer = LinePeer

    @staticmethod
    def sdk_words(node):
        return command_of(node)

    def test_a_call_outlives_its_node(self):
        id, job = self.begin_evaluation()
        self.node.kill()
        self.node.start()  # at another port
        result = self.peer.answer(id)["result"]
        self.assertFalse(result["isError"], result)
        self.assert_grows([m["params"] for m in self.peer.notes if m.get("method") == "notifications/progress"])
        self.assertEqual(self.node.client().job(job.id).document["state"], "done")


class OverHttp(Cases, unittest.TestCase):
    make_peer = HttpPeer

    @staticmethod
    def sdk_words(node):
        return [node.url + "/mcp"]

    def post(self, message, **headers):
        return self.node.get("/mcp", "POST", {"jsonrpc": "2.0", **message}, **headers)

    def test_the_forms_of_answers(self):
        status, headers, body = self.post({"id": "a", "method": "ping"})  # without a session
        self.assertEqual((status, body), (200, {"jsonrpc": "2.0", "id": "a", "result": {}}))
        status, headers, _ = self.post({"method": "notifications/initialized"})
        self.assertEqual((status, headers["Content-Length"]), (202, "0"))
        self.assertEqual(self.post({"id": 1, "result": {}})[0], 202)
        asked = {"id": 1, "method": "tools/call", "params": {"name": "evaluate", "_meta": {"progressToken": 1},
                                                             "arguments": {"task": "tiny", "schedule": "no_such()"}}}
        self.assertEqual(self.post(asked, Accept="application/json")[2]["result"]["structuredContent"]["outcome"], "invalid")
        status, headers, text = self.post(asked, Accept="application/json, text/event-stream")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"))
        last = json.loads(text.strip().split("data: ")[-1])
        self.assertEqual(last["result"]["structuredContent"]["outcome"], "invalid")

    def test_methods_versions_and_sessions(self):
        for method in ("GET", "PUT"):
            status, headers, body = self.node.get("/mcp", method)
            self.assertEqual((status, headers["Allow"], body["jsonrpc"]), (405, "POST, DELETE", "2.0"))
        ping = {"id": 1, "method": "ping"}
        status, _, body = self.post(ping, MCP_Protocol_Version="2099-01-01")
        self.assertEqual((status, body["error"]["data"]["supported"][0]), (400, "2025-06-18"))
        self.assertEqual(self.post(ping, Mcp_Session_Id="mine")[0], 404)
        self.assertEqual(self.node.get("/mcp", "POST", "{}", Content_Type="text/plain")[0], 415)
        id, job = self.begin_evaluation()
        session = {"Mcp_Session_Id": self.peer.headers["Mcp-Session-Id"]}
        other = self.post({"id": 1, "method": "initialize", "params": {}})[1]["Mcp-Session-Id"]
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": id}}
        self.assertEqual(self.post(cancelled, Mcp_Session_Id=other)[0], 202)  # that is no call of this session
        self.assertFalse(job.refresh().document["state"] == "cancelled")
        self.assertEqual(self.node.get("/mcp", "DELETE", **session)[0], 200)
        job.wait(30)
        self.assertEqual(job.document["state"], "cancelled")
        self.assertEqual(self.post(ping, **session)[0], 404)
        self.assertEqual(self.node.get("/mcp", "DELETE")[0], 400)

    def test_who_may_ask(self):
        ping = {"id": 1, "method": "ping"}
        for status, headers in ((403, {"Origin": "http://evil.example"}), (403, {"Host": "evil.example"}),
                                (401, {"Authorization": "Bearer x"}), (401, {"X_Forwarded_For": "10.0.0.1"})):
            answer = self.post(ping, **headers)
            self.assertEqual((answer[0], answer[2]["jsonrpc"]), (status, "2.0"), headers)
            self.assertTrue(answer[2]["error"]["message"] and "id" not in answer[2])
            self.assertEqual(answer[1]["WWW-Authenticate"], "Bearer" if status == 401 else None)
        token = subprocess.run([f"{BIN}/cudal1", "serve", "--new-token", "reader", "--may", "search", "--data", self.node.data],
                               check=True, capture_output=True, text=True, env=self.node.environment).stdout.strip()
        asked = {"id": 1, "method": "tools/call", "params": {"name": "evaluate",
                                                             "arguments": {"task": "tiny", "program": program()}}}
        result = self.post(asked, Authorization=f"Bearer {token}")[2]["result"]
        self.assertTrue(result["isError"])
        self.assertIn("may not evaluate", result["content"][0]["text"])


SDK_CLIENT = '''
import anyio, json, os, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

def transport():
    if not sys.argv[1].startswith("http"):
        return stdio_client(StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=dict(os.environ)))
    try:
        from mcp.client.streamable_http import streamable_http_client as client
    except ImportError:
        from mcp.client.streamable_http import streamablehttp_client as client
    return client(sys.argv[1])

async def main():
    given, seen = json.load(sys.stdin), []
    async with transport() as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        tools = await session.list_tools()
        resources = await session.list_resources()
        async def progress(*told):
            seen.append(told)
        result = await session.call_tool("evaluate", {"task": "tiny", "program": given["program"]},
                                         progress_callback=progress)
        structured = getattr(result, "structuredContent", None) or getattr(result, "structured_content", None)
        await session.read_resource(resources.resources[0].uri)
        with anyio.move_on_after(1) as scope:
            await session.call_tool("evaluate", {"task": "softmax", "schedule": "row_kernel(steps=0)"},
                                    progress_callback=progress)
        await session.send_ping()
        print(json.dumps({"tools": [t.name for t in tools.tools], "outcome": structured["outcome"], "progress": len(seen),
                          "resources": [str(r.uri) for r in resources.resources],
                          "cancelled": scope.cancelled_caught}))

anyio.run(main)
'''


if __name__ == "__main__":
    unittest.main()
