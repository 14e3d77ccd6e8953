"""The Model Context Protocol over standard input and output, for a node that has it over HTTP: a bridge, to which the
node's tools and resources are only messages.

    cudal1 mcp                       starts this, with a node of this machine
    python -m cudal1.mcp             with CUDAL1_URL, CUDAL1_TOKEN where the node wants one, and CUDAL1_CA_FILE for https
                                     with the cluster's certificates

One JSON-RPC message a line, as the protocol says; no dependency.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import uuid
from typing import Any, Callable, Dict, Optional, TextIO

from .errors import Cudal1Error, InfrastructureError, TimeLimit, error_of
from .transport import RETRY_LIMIT_S, Transport, default_url

_PATH = "/mcp"
#: Of one request: longer than any tool takes but `evaluate`, which says for how long it may.
_ANSWER_LIMIT_S = 900.0
_INTERNAL = -32603


def _new_transport() -> Transport:
    """To the node that serves now: one that was started again may have another port."""
    return Transport(default_url(), os.environ.get("CUDAL1_TOKEN"), os.environ.get("CUDAL1_CA_FILE"), None, False)


class _Busy(Cudal1Error):
    """The node wants the request again, after `retry_after`."""


class _Call:
    """A call of a tool that runs. Its progress must grow, also where it is repeated: `before` is that of earlier tries."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.before = self.progress = 0.0


def _is_cancelled(call: Optional[_Call]) -> bool:
    return call is not None and call.is_cancelled


class Bridge:
    def __init__(self, source: TextIO, sink: TextIO, make_transport: Callable[[], Transport] = _new_transport):
        self._source, self._sink, self._make_transport = source, sink, make_transport
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._write_lock = threading.Lock()
        self._calls: Dict[str, _Call] = {}  # that run, by their ids as JSON
        self._has_ended = False

    def run(self) -> None:
        """Until the input ends: the node cancels the calls that run then, as their connections end."""
        for line in self._source:
            if not line.strip():
                continue
            message = _read(line)
            method = message.get("method")
            if method == "tools/call" and "id" in message:  # may take minutes
                self._calls[json.dumps(message["id"])] = call = _Call()
                threading.Thread(target=self._forward, args=(line, message, call), daemon=True).start()
                continue
            if method == "notifications/cancelled":
                running = self._calls.get(json.dumps(_dict(message, "params").get("requestId")))
                if running is not None:
                    running.is_cancelled = True
            self._forward(line, message, None)
        with self._write_lock:
            self._has_ended = True

    def _forward(self, line: str, message: Dict[str, Any], call: Optional[_Call]) -> None:
        try:
            self._exchange(line, message, call)
        except Exception as e:  # a client must not wait forever
            if "method" not in message or "id" in message:
                text = str(e) if isinstance(e, Cudal1Error) else f"{type(e).__name__}: {e}"
                self._send({"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": _INTERNAL, "message": text}},
                           call)
        if call is not None and self._calls.get(key := json.dumps(message["id"])) is call:
            del self._calls[key]

    def _exchange(self, line: str, message: Dict[str, Any], call: Optional[_Call]) -> None:
        """A request that the node could not take, or whose connection is lost, is repeated: its key makes an evaluation
        the same one."""
        headers = {**self._headers, "Idempotency-Key": str(uuid.uuid4())}
        end, delay = time.monotonic() + RETRY_LIMIT_S, 0.1
        while True:
            try:
                began = time.monotonic()
                return self._exchange_once(line, message, headers, call)
            except (InfrastructureError, _Busy) as e:
                if time.monotonic() - began > 1.0:  # it was taken, and the node ended meanwhile
                    end = time.monotonic() + RETRY_LIMIT_S
                wait = max(delay, e.retry_after)
                if _is_cancelled(call) or isinstance(e, TimeLimit) or time.monotonic() + wait > end:
                    raise
                if call is not None:
                    call.before = call.progress
                time.sleep(wait)
                delay = min(2 * delay, 2.0)

    def _exchange_once(self, line: str, message: Dict[str, Any], headers: Dict[str, str],
                       call: Optional[_Call]) -> None:
        limit = _dict(_dict(message, "params"), "arguments").get("limit_s")
        limit_s = max(_ANSWER_LIMIT_S, limit + 60.0) if isinstance(limit, (int, float)) else _ANSWER_LIMIT_S
        with self._make_transport().exchange("POST", _PATH, line.encode("utf-8", "replace"), headers, limit_s) as response:
            if (retry := response.getheader("Retry-After") or "").isdigit() and response.status in (429, 503):
                raise _Busy(_error_of(response.read()), retry_after=float(retry))
            kind = response.getheader("Content-Type") or ""
            if kind.startswith("text/event-stream"):
                has_answer = False
                for event in response:
                    if event.startswith(b"data: "):
                        told = json.loads(event[6:])
                        has_answer = has_answer or "method" not in told
                        if call is not None and told.get("method") == "notifications/progress":
                            told["params"]["progress"] = call.progress = call.before + told["params"]["progress"]
                        self._send(told, call)
                if not has_answer and not _is_cancelled(call):
                    raise InfrastructureError("the node closed the connection before its answer")
                return
            text = response.read()
            if not text:
                return
            answer = _read(text.decode("utf-8", "replace"))
            if "jsonrpc" not in answer:  # of a node without this protocol, or of a proxy
                raise error_of(response.status, answer, 0.0)
            self._take_answer(message, response, answer, call)

    def _take_answer(self, message: Dict[str, Any], response: Any, answer: Dict[str, Any],
                     call: Optional[_Call]) -> None:
        if message.get("method") == "initialize" and "result" in answer:
            self._headers["MCP-Protocol-Version"] = answer["result"]["protocolVersion"]
            if session := response.getheader("Mcp-Session-Id"):
                self._headers["Mcp-Session-Id"] = session
        if "method" in message and "id" not in message:
            print(f"cudal1: {message['method']} was refused: {_error_of(json.dumps(answer).encode())}", file=sys.stderr)
            return
        answer.setdefault("id", message.get("id"))  # what refuses a request by its header alone does not know it
        self._send(answer, call)

    def _send(self, message: Dict[str, Any], call: Optional[_Call]) -> None:
        if _is_cancelled(call):
            return  # a cancelled request is not answered
        text = json.dumps(message, ensure_ascii=True) + "\n"
        with self._write_lock:
            if self._has_ended:
                return
            try:
                self._sink.write(text)
                self._sink.flush()
            except OSError:
                self._has_ended = True  # whoever read it has gone


def _read(line: str) -> Dict[str, Any]:
    """What the bridge has to know of a message; the node says what is wrong with one."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _dict(of: Dict[str, Any], name: str) -> Dict[str, Any]:
    member = of.get(name)
    return member if isinstance(member, dict) else {}


def _error_of(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")


def main() -> int:
    try:
        default_url()
    except (Cudal1Error, ValueError) as e:
        print(f"cudal1: {e}", file=sys.stderr)
        return 3
    sink, sys.stdout = sys.stdout, sys.stderr  # what prints by mistake is no message
    try:
        Bridge(sys.stdin, sink).run()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
