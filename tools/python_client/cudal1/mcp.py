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

from .errors import Cudal1Error, InfrastructureError, TimeLimit
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


class Bridge:
    def __init__(self, source: TextIO, sink: TextIO, make_transport: Callable[[], Transport] = _new_transport):
        self._source, self._sink, self._make_transport = source, sink, make_transport
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._write_lock = threading.Lock()
        self._cancelled: Dict[str, threading.Event] = {}  # of the calls that run, by their ids as JSON
        self._has_ended = False

    def run(self) -> None:
        """Until the input ends: the node cancels the calls that run then, as their connections end."""
        for line in self._source:
            if not line.strip():
                continue
            message = _read(line)
            method = message.get("method")
            if method == "tools/call" and "id" in message:  # may take minutes
                self._cancelled[json.dumps(message["id"])] = cancelled = threading.Event()
                threading.Thread(target=self._forward, args=(line, message, cancelled), daemon=True).start()
                continue
            if method == "notifications/cancelled":
                running = self._cancelled.get(json.dumps(_dict(message, "params").get("requestId")))
                if running is not None:
                    running.set()
            self._forward(line, message, None)
        with self._write_lock:
            self._has_ended = True

    def _forward(self, line: str, message: Dict[str, Any], cancelled: Optional[threading.Event]) -> None:
        try:
            self._exchange(line, message, cancelled)
        except Exception as e:  # a client must not wait forever
            if "method" not in message or "id" in message:
                text = str(e) if isinstance(e, Cudal1Error) else f"{type(e).__name__}: {e}"
                self._send({"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": _INTERNAL, "message": text}},
                           cancelled)
        if cancelled is not None and self._cancelled.get(key := json.dumps(message["id"])) is cancelled:
            del self._cancelled[key]

    def _exchange(self, line: str, message: Dict[str, Any], cancelled: Optional[threading.Event]) -> None:
        """A request that the node could not take, or whose connection is lost, is repeated: its key makes an evaluation
        the same one."""
        headers = {**self._headers, "Idempotency-Key": str(uuid.uuid4())}
        end, delay = time.monotonic() + RETRY_LIMIT_S, 0.1
        while True:
            try:
                began = time.monotonic()
                return self._exchange_once(line, message, headers, cancelled)
            except (InfrastructureError, _Busy) as e:
                if time.monotonic() - began > 1.0:  # it was taken, and the node ended meanwhile
                    end = time.monotonic() + RETRY_LIMIT_S
                wait = max(delay, e.retry_after)
                is_cancelled = cancelled is not None and cancelled.is_set()
                if is_cancelled or isinstance(e, TimeLimit) or time.monotonic() + wait > end:
                    raise
                time.sleep(wait)
                delay = min(2 * delay, 2.0)

    def _exchange_once(self, line: str, message: Dict[str, Any], headers: Dict[str, str],
                       cancelled: Optional[threading.Event]) -> None:
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
                        self._send(told, cancelled)
                if not has_answer and not (cancelled is not None and cancelled.is_set()):
                    raise InfrastructureError("the node closed the connection before its answer")
                return
            text = response.read()
            if text:
                self._take_answer(message, response, json.loads(text), cancelled)

    def _take_answer(self, message: Dict[str, Any], response: Any, answer: Dict[str, Any],
                     cancelled: Optional[threading.Event]) -> None:
        if message.get("method") == "initialize" and "result" in answer:
            self._headers["MCP-Protocol-Version"] = answer["result"]["protocolVersion"]
            if session := response.getheader("Mcp-Session-Id"):
                self._headers["Mcp-Session-Id"] = session
        if "method" in message and "id" not in message:
            print(f"cudal1: {message['method']} was refused: {_error_of(json.dumps(answer).encode())}", file=sys.stderr)
            return
        answer.setdefault("id", message.get("id"))  # what refuses a request by its header alone does not know it
        self._send(answer, cancelled)

    def _send(self, message: Dict[str, Any], cancelled: Optional[threading.Event]) -> None:
        if cancelled is not None and cancelled.is_set():
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
