#!/usr/bin/env python3
"""A server of chat completions that answers by a script, for tests. Standard library only.

    chat_server.py --script SCRIPT.json [--log LOG.jsonl] [--port N] [--certificate PEM --private-key PEM] [--stay]

Prints its port as one line once it listens (on 127.0.0.1 and, where there is one, ::1), and ends when its standard
input does, unless --stay is given.

The script is one JSON object:

    models      names of the models that exist; another one is answered with 404. Absent: every name exists.
    key         the bearer token that is wanted; another one is answered with 401, which repeats what was sent.
    rules       a list; the first rule that fits answers, and 404 if none does.

A rule:

    match       regular expression that is sought in the last message of role user; absent: fits all
    model       regular expression that must match the name of the model; absent: fits all
    pick        "sequence" (default): the answers in turn, then the last one for ever; "cycle": in turn, again and again;
                "hash": by the SHA-256 of model, messages and seed, the same one however often it is asked
    answers     a list of answers

An answer, all of whose members are optional:

    text, text_file, reasoning    what is answered; text_file is relative to the script
    reasoning_name                "reasoning_content" (default) or "reasoning"
    status, headers, body         a reply that is no answer: its status, headers and body (text, or JSON)
    delay_s                       before the headers
    first_token_s                 between the headers and the first token
    tokens_per_s                  default: as fast as possible
    token_size                    characters of a token; default 4
    finish_reason                 default "stop"
    prompt_tokens, answer_tokens  counts of the usage; default: a token for every four characters
    usage                         "end" (default; if the request asks for it), "none", "with_finish"
    fault                         one of FAULTS below

The log has one line of JSON when a request comes and one when its reply has ended:

    event "begin": number, time, model, prompt (SHA-256 of the messages), seed, authorized (whether a key came),
                   in_flight (with this one), rule, answer (indexes), max_tokens
    event "end":   number, time, status, whole (whether the client took all of it)
"""

import argparse
import hashlib
import http.server
import json
import os
import re
import socket
import socketserver
import ssl
import sys
import threading
import time

FAULTS = {
    "close": "the connection is closed before the headers",
    "cut": "... is closed after half of the text",
    "cut_in_character": "... is closed within the bytes of the first character that is not ASCII",
    "cut_after_finish": "... is closed after finish_reason, without usage, [DONE] and the end of the body",
    "no_done": "the body ends after finish_reason and usage, without [DONE]",
    "no_finish": "[DONE] comes without a finish_reason before it, after the usage",
    "interrupted": "[DONE] comes after half of the text, without finish_reason and usage",
    "empty_stream": "a stream ends before it begins; without one the status and body of the answer come",
    "stall": "nothing comes after half of the text, until the client closes",
    "stall_at_start": "nothing comes after the headers",
    "malformed": "an event in the middle is not JSON",
    "error_in_stream": "an event in the middle is an error with code 500",
    "refusal_in_stream": "the first event is an error with code 400",
    "not_streamed": "one JSON document",
    "keep_alive": "comments before each token",
    "crlf": "lines end with CR LF, and chunks are cut everywhere",
    "think_tags": "the reasoning is in the text, between <think> and </think>",
    "role_only": "the first delta has only a role, and null members",
    "not_http": "the reply is not HTTP",
    "page": "the reply is a page of HTML",
    "unknown_length": "neither chunks nor a length: the reply ends with the connection",
}


class Script:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.data = json.load(file)
        self.folder = os.path.dirname(os.path.abspath(path))
        self.turns = [0] * len(self.data.get("rules", []))
        self.lock = threading.Lock()
        for rule in self.data.get("rules", []):
            for answer in rule["answers"]:
                if answer.get("fault") not in (None, *FAULTS):
                    sys.exit(f"{path}: there is no fault {answer['fault']}; there are {', '.join(FAULTS)}")

    def find(self, request):
        """(index of the rule, index of the answer, answer), or None."""
        last = next((m["content"] for m in reversed(request["messages"]) if m["role"] == "user"), "")
        for i, rule in enumerate(self.data.get("rules", [])):
            if not re.search(rule.get("match", ""), last, re.S):
                continue
            if not re.fullmatch(rule.get("model", ".*"), request["model"]):
                continue
            j = self.choose(i, rule, request)
            return i, j, rule["answers"][j]
        return None

    def choose(self, i, rule, request):
        count = len(rule["answers"])
        pick = rule.get("pick", "sequence")
        if pick == "hash":
            return int(digest([request["model"], request["messages"], request.get("seed")])[:12], 16) % count
        with self.lock:
            turn = self.turns[i]
            self.turns[i] += 1
        return turn % count if pick == "cycle" else min(turn, count - 1)

    def text(self, answer):
        if "text_file" not in answer:
            return answer.get("text", "")
        with open(os.path.join(self.folder, answer["text_file"]), encoding="utf-8") as file:
            return file.read()


class Log:
    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8") if path else None
        self.lock = threading.Lock()
        self.number = 0
        self.in_flight = 0

    def begin(self, entry):
        with self.lock:
            self.number += 1
            self.in_flight += 1
            self.write({"event": "begin", "number": self.number, "in_flight": self.in_flight, **entry})
            return self.number

    def end(self, number, entry):
        with self.lock:
            self.in_flight -= 1
            self.write({"event": "end", "number": number, **entry})

    def write(self, entry):
        if self.file:
            self.file.write(json.dumps({**entry, "time": time.time()}) + "\n")
            self.file.flush()


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def pieces(text, size):
    return [text[i:i + size] for i in range(0, len(text), size)]


class Cut(Exception):
    """The connection is to be closed."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_POST(self):
        self.close_connection = True
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        found = self.server.script.find(request)
        authorization = self.headers.get("authorization", "")
        number = self.server.log.begin({
            "model": request["model"], "prompt": digest(request["messages"]), "seed": request.get("seed"),
            "authorized": bool(authorization), "rule": found and found[0], "answer": found and found[1],
            "max_tokens": request.get("max_tokens", request.get("max_completion_tokens"))})
        self.status, whole = 0, False
        try:
            self.answer(request, authorization, found)
            whole = True
        except (Cut, OSError):
            pass
        finally:
            self.server.log.end(number, {"status": self.status, "whole": whole})

    def answer(self, request, authorization, found):
        script = self.server.script.data
        if not self.path.split("?")[0].endswith("/chat/completions"):
            return self.refuse(404, {"detail": "Not Found"})
        if "key" in script and authorization != "Bearer " + script["key"]:
            return self.refuse(401, {"error": {"message": f"Incorrect API key provided: {authorization}", "code": "invalid_api_key"}})
        if "models" in script and request["model"] not in script["models"] or found is None:
            return self.refuse(404, {"error": {"message": f"The model `{request['model']}` does not exist", "code": "model_not_found"}})
        answer = found[2]
        time.sleep(answer.get("delay_s", 0))
        if answer.get("fault") == "close":
            raise Cut
        if answer.get("fault") == "not_http":
            self.wfile.write(b"220 smtp.example.org ready\r\n\r\n")
            return None
        if answer.get("fault") == "empty_stream" and request.get("stream"):
            self.head(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})
            self.wfile.write(b"b\r\n: ping - 1\n\r\n0\r\n\r\n")
            return None
        if answer.get("fault") == "page":
            return self.refuse(200, "<html><title>Welcome</title></html>")
        if "status" in answer and answer["status"] != 200:
            return self.refuse(answer["status"], answer.get("body", ""), answer.get("headers", {}))
        return Reply(self, request, answer, self.server.script.text(answer)).send()

    def refuse(self, status, body, headers=None):
        text = body if isinstance(body, str) else json.dumps(body)
        self.head(status, {"content-type": "text/plain" if isinstance(body, str) else "application/json",
                           "content-length": str(len(text.encode())), **(headers or {})})
        self.wfile.write(text.encode())

    def head(self, status, headers):
        self.status = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def wait_for_client(self):
        """Until the client closes the connection."""
        self.connection.settimeout(120)
        self.rfile.read(1)
        raise Cut


class Reply:
    """One answer that is sent as the script says."""

    def __init__(self, handler, request, answer, text):
        self.handler, self.request, self.answer, self.text = handler, request, answer, text
        self.fault = answer.get("fault")
        self.reasoning = answer.get("reasoning", "")
        if self.fault == "think_tags":
            self.text, self.reasoning = f"<think>\n{self.reasoning}\n</think>\n\n{self.text}", ""
        self.line_end = "\r\n" if self.fault == "crlf" else "\n"

    def usage(self):
        prompt = sum(len(m["content"]) for m in self.request["messages"]) // 4
        prompt = self.answer.get("prompt_tokens", prompt)
        tokens = self.answer.get("answer_tokens", (len(self.text) + len(self.reasoning) + 3) // 4)
        return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}

    def send(self):
        if self.fault == "not_streamed" or not self.request.get("stream"):
            return self.send_document()
        lengths = {} if self.fault == "unknown_length" else {"transfer-encoding": "chunked"}
        self.handler.head(200, {"content-type": "text/event-stream; charset=utf-8", **lengths,
                                **self.answer.get("headers", {})})
        if self.fault == "stall_at_start":
            self.handler.wait_for_client()
        time.sleep(self.answer.get("first_token_s", 0))
        if self.fault == "refusal_in_stream":
            self.event({"error": {"message": "the prompt is too long", "code": 400}})
        self.send_deltas()
        self.send_end()
        return None

    def send_document(self):
        message = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message[self.answer.get("reasoning_name", "reasoning_content")] = self.reasoning
        time.sleep(self.answer.get("first_token_s", 0))
        document = {"id": "1", "object": "chat.completion", "model": self.request["model"],
                    "choices": [{"index": 0, "message": message, "finish_reason": self.answer.get("finish_reason", "stop")}]}
        if self.answer.get("usage") != "none":
            document["usage"] = self.usage()
        text = json.dumps(document)
        self.handler.head(200, {"content-type": "application/json", "content-length": str(len(text.encode())),
                                **self.answer.get("headers", {})})
        self.handler.wfile.write(text.encode())

    def send_deltas(self):
        size = self.answer.get("token_size", 4)
        name = self.answer.get("reasoning_name", "reasoning_content")
        deltas = [{name: p} for p in pieces(self.reasoning, size)] + [{"content": p} for p in pieces(self.text, size)]
        if self.fault == "role_only":
            deltas = [{"role": "assistant", "content": None, "tool_calls": None}, {}] + deltas
        for i, delta in enumerate(deltas):
            if self.fault in ("cut", "stall", "malformed", "error_in_stream", "interrupted") and i == len(deltas) // 2:
                self.interrupt()
            if self.fault == "keep_alive":
                self.write(": keep-alive" + 2 * self.line_end)
            if self.fault == "cut_in_character" and not str(delta.get("content")).isascii():
                self.cut_in_character(delta)
            self.event(self.chunk(delta))
            if "tokens_per_s" in self.answer:
                time.sleep(1 / self.answer["tokens_per_s"])

    def chunk(self, delta, finish_reason=None):
        return {"id": "1", "object": "chat.completion.chunk", "model": self.request["model"],
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    def interrupt(self):
        if self.fault == "cut":
            raise Cut
        if self.fault == "stall":
            self.handler.wait_for_client()
        if self.fault == "malformed":
            self.write('data: {"choices": [{"delta"' + 2 * self.line_end)
        if self.fault == "interrupted":
            self.write("data: [DONE]" + 2 * self.line_end)
            self.handler.wfile.write(b"0\r\n\r\n")
            raise Cut
        if self.fault == "error_in_stream":
            self.event({"error": {"message": "the engine has died", "code": 500}})

    def cut_in_character(self, delta):
        text = "data: " + json.dumps(self.chunk(delta), ensure_ascii=False)
        data = text.encode()
        end = next(i for i, byte in enumerate(data) if byte >= 0x80) + 1
        self.write_bytes(data[:end])
        raise Cut

    def send_end(self):
        if self.fault != "no_finish":
            last = self.chunk({}, self.answer.get("finish_reason", "stop"))
            if self.answer.get("usage") == "with_finish":
                last["usage"] = self.usage()
            self.event(last)
        if self.fault == "cut_after_finish":
            raise Cut
        wanted = self.request.get("stream_options", {}).get("include_usage")
        if wanted and self.answer.get("usage", "end") == "end":
            self.event({"id": "1", "object": "chat.completion.chunk", "model": self.request["model"], "choices": [],
                        "usage": self.usage()})
        if self.fault != "no_done":
            self.write("data: [DONE]" + 2 * self.line_end)
        if self.fault != "unknown_length":
            self.handler.wfile.write(b"0\r\n\r\n")

    def event(self, value):
        self.write("data: " + json.dumps(value, ensure_ascii=False) + 2 * self.line_end)

    def write(self, text):
        data = text.encode()
        if self.fault == "crlf":  # within lines, between CR and LF, within characters
            for i in range(0, len(data), 7):
                self.write_bytes(data[i:i + 7])
        else:
            self.write_bytes(data)

    def write_bytes(self, data):
        if self.fault != "unknown_length":
            data = f"{len(data):x}\r\n".encode() + data + b"\r\n"
        self.handler.wfile.write(data)
        self.handler.wfile.flush()


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address, script, log, context):
        super().__init__(address, Handler)
        self.script, self.log, self.context = script, log, context

    def server_bind(self):  # HTTPServer's own asks for the name of the host
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def finish_request(self, request, client_address):  # in the thread of the connection
        if self.context is not None:
            request = self.context.wrap_socket(request, server_side=True)
        try:
            super().finish_request(request, client_address)
        finally:
            request.close()

    def handle_error(self, request, client_address):
        pass  # a client that went away, or that refuses the certificate


class Server6(Server):
    address_family = socket.AF_INET6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", required=True)
    parser.add_argument("--log")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate")
    parser.add_argument("--private-key")
    parser.add_argument("--stay", action="store_true")
    options = parser.parse_args()
    context = None
    if options.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate, options.private_key)
    shared = Script(options.script), Log(options.log), context
    servers = [Server(("127.0.0.1", options.port), *shared)]
    port = servers[0].server_address[1]
    try:
        servers.append(Server6(("::1", port), *shared))
    except OSError:
        pass  # no IPv6 here
    threads = [threading.Thread(target=s.serve_forever, daemon=True) for s in servers]
    for thread in threads:
        thread.start()
    print(port, flush=True)
    if options.stay:
        threads[0].join()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
