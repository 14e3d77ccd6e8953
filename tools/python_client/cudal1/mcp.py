"""The tools of the Model Context Protocol over standard input and output: a thin layer over the client.

    cudal1 mcp                       starts this, with a node of this machine
    python -m cudal1.mcp             with CUDAL1_URL, and CUDAL1_TOKEN where the node wants one

One JSON-RPC message a line, as the protocol says; no dependency.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any, Dict, List, Optional, TextIO

from .client import Client, connect
from .errors import Cudal1Error
from .mcp_tools import RESOURCES, TOOLS, Call, read_resource

#: The newest first. A client of another version is offered the first one.
VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
INSTRUCTIONS = (
    "Write fast CUDA programs for tasks, and have them judged strictly. Read the resource cudal1://format first, then "
    "describe_task and prompt; begin with a schedule (moves) or the best variant; evaluate; on a refusal follow its hint. "
    "A score counts when its 95% interval lies above 1."
)
_PARSE, _INVALID, _METHOD, _PARAMS, _INTERNAL = -32700, -32600, -32601, -32602, -32603


class RpcError(Exception):
    def __init__(self, code: int, message: str):
        super().__init__(message)
        self.code, self.message = code, message


class Server:
    def __init__(self, client: Client, source: TextIO, sink: TextIO):
        self._client, self._source, self._sink = client, source, sink
        self._write_lock = threading.Lock()
        self._calls: Dict[Any, Call] = {}
        self._calls_lock = threading.Lock()

    def run(self) -> None:
        """Until the input ends; calls that run are cancelled then."""
        threads: List[threading.Thread] = []
        for line in self._source:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except ValueError:
                self._answer_error(None, RpcError(_PARSE, "the message is not JSON"))
                continue
            if not isinstance(message, dict) or not isinstance(message.get("method"), str):
                if not (isinstance(message, dict) and "id" in message and ("result" in message or "error" in message)):
                    self._answer_error(None, RpcError(_INVALID, "the message is no request"))
                continue
            if message["method"] == "tools/call" and "id" in message:  # may take minutes
                call = Call(self._client, self._progress_of(message))
                with self._calls_lock:
                    self._calls[message["id"]] = call
                thread = threading.Thread(target=self._handle, args=(message, call), daemon=True)
                threads = [t for t in threads if t.is_alive()] + [thread]
                thread.start()
            else:
                self._handle(message, None)
        with self._calls_lock:
            for call in self._calls.values():
                call.cancel()
        for thread in threads:
            thread.join(10)

    def _handle(self, message: Dict[str, Any], call: Optional[Call]) -> None:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        try:
            result = self._result_of(message["method"], params, call)
        except RpcError as e:
            self._answer_error(message.get("id"), e, "id" in message)
        except Exception as e:  # a client must not wait forever
            self._answer_error(message.get("id"), RpcError(_INTERNAL, f"{type(e).__name__}: {e}"), "id" in message)
        else:
            # A cancelled request is not answered.
            if "id" in message and not (call is not None and call.is_cancelled):
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": result})
        if call is not None:
            with self._calls_lock:
                self._calls.pop(message.get("id"), None)

    def _result_of(self, method: str, params: Dict[str, Any], call: Optional[Call]) -> Dict[str, Any]:
        if method == "initialize":
            wanted = params.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "cudal1", "version": "1.0.0"},
                "instructions": INSTRUCTIONS,
            }
        if method == "notifications/cancelled":
            with self._calls_lock:
                running = self._calls.get(params.get("requestId"))
            if running is not None:
                running.cancel()
            return {}
        if method.startswith("notifications/") or method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [t.document() for t in TOOLS.values()]}
        if method == "tools/call" and call is not None:
            return self._call_tool(params, call)
        if method == "resources/list":
            return {"resources": RESOURCES}
        if method == "resources/templates/list":
            return {"resourceTemplates": []}
        if method == "resources/read":
            return self._read(str(params.get("uri")))
        raise RpcError(_METHOD, f"there is no method {method}")

    def _call_tool(self, params: Dict[str, Any], call: Call) -> Dict[str, Any]:
        tool = TOOLS.get(str(params.get("name")))
        if tool is None:
            raise RpcError(_PARAMS, f"there is no tool {params.get('name')!r}; there is: {', '.join(TOOLS)}")
        arguments = params.get("arguments") or {}
        if problem := tool.problem_of(arguments):
            return _text_result(problem, is_error=True)
        try:
            return tool.run(call, arguments)
        except (Cudal1Error, ValueError) as e:
            return _text_result(str(e), is_error=True)

    def _read(self, uri: str) -> Dict[str, Any]:
        try:
            text, kind = read_resource(self._client, uri)
        except KeyError:
            raise RpcError(-32002, f"there is no resource {uri}") from None
        except Cudal1Error as e:
            raise RpcError(_INTERNAL, str(e)) from None
        return {"contents": [{"uri": uri, "mimeType": kind, "text": text}]}

    def _progress_of(self, message: Dict[str, Any]) -> Any:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if token is None:
            return None

        def tell(done: float, total: Optional[float], text: str) -> None:
            params: Dict[str, Any] = {"progressToken": token, "progress": done, "message": text}
            if total is not None:
                params["total"] = total
            self._send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

        return tell

    def _answer_error(self, id: Any, e: RpcError, is_request: bool = True) -> None:
        if is_request:
            self._send({"jsonrpc": "2.0", "id": id, "error": {"code": e.code, "message": e.message}})

    def _send(self, message: Dict[str, Any]) -> None:
        text = json.dumps(message, ensure_ascii=True) + "\n"
        with self._write_lock:
            self._sink.write(text)
            self._sink.flush()


def _text_result(text: str, is_error: bool = False) -> Dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def main() -> int:
    try:
        client = connect()
    except (Cudal1Error, ValueError) as e:
        print(f"cudal1: {e}", file=sys.stderr)
        return 3
    sink, sys.stdout = sys.stdout, sys.stderr  # what prints by mistake is no message
    try:
        Server(client, sys.stdin, sink).run()
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
