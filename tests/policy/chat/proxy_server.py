#!/usr/bin/env python3
"""A proxy of HTTP for tests: tunnels (CONNECT) and requests with whole URLs. Standard library only.

    proxy_server.py --target-port N [--log LOG.jsonl] [--user NAME:PASSWORD] [--status N] [--fault FAULT]

Prints its port as one line once it listens on 127.0.0.1, and ends when its standard input does. Whatever host it is
asked for, it connects to 127.0.0.1:N: hosts of tests need not exist.

    --user      the user that is wanted; any other request is answered with 407, whose body repeats what was sent
    --status    every request is answered with this status, and a body that repeats what was sent
    --fault     silent: nothing is answered; close: the connection is closed; not_http: the reply is not HTTP;
                with_body: the header of the reply that begins a tunnel names a length, and no body follows

The log has one line of JSON when a request comes and one when its connection has ended:

    event "begin": number, method, target, host, authorization (Proxy-Authorization as it came, or null),
                   key (whether the request has a header Authorization)
    event "end":   number
"""

import argparse
import base64
import http.client
import http.server
import json
import os
import selectors
import socket
import sys
import threading
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_CONNECT(self):
        self.logged(self.tunnel)

    def do_POST(self):
        self.logged(self.forward)

    def logged(self, work):
        self.close_connection = True
        number = self.server.log({"event": "begin", "method": self.command, "target": self.path,
                                  "host": self.headers.get("host"),
                                  "authorization": self.headers.get("proxy-authorization"),
                                  "key": "authorization" in self.headers})
        try:
            if self.may_pass():
                work()
        except OSError:
            pass
        finally:
            self.server.log({"event": "end", "number": number})

    def may_pass(self):
        options = self.server.options
        if options.fault == "silent":
            self.connection.settimeout(120)
            while self.rfile.read(1):
                pass
            return False
        if options.fault == "close":
            return False
        if options.fault == "not_http":
            self.wfile.write(b"220 smtp.example.org ready\r\n\r\n")
            return False
        if options.status:
            return self.refuse(options.status)
        if options.user:
            wanted = "Basic " + base64.b64encode(options.user.encode()).decode()
            if self.headers.get("proxy-authorization") != wanted:
                return self.refuse(407)
        return True

    def refuse(self, status):
        body = f"not with {self.headers.get('proxy-authorization')}, {self.server.options.user}".encode()
        self.send_response(status, body.decode())
        self.send_header("proxy-authenticate", 'Basic realm="test"')
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return False

    def tunnel(self):
        with socket.create_connection(("127.0.0.1", self.server.options.target_port)) as target:
            length = "Content-Length: 1000000000\r\n" if self.server.options.fault == "with_body" else ""
            self.wfile.write(f"HTTP/1.1 200 Connection established\r\n{length}\r\n".encode())
            relay(self.connection, target)

    def forward(self):
        url = urllib.parse.urlsplit(self.path)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "proxy-authorization"}
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.options.target_port)
        path = urllib.parse.urlunsplit(("", "", url.path, url.query, ""))
        upstream.request("POST", path, self.rfile.read(int(self.headers["content-length"])), headers)
        reply = upstream.getresponse()
        self.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        while part := reply.read1():
            self.wfile.write(part)
        upstream.close()


def relay(one, other):
    """Until one of them ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in selector.select():
                data = key.fileobj.recv(65536)
                if not data:
                    return
                key.data.sendall(data)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, options):
        super().__init__(("127.0.0.1", 0), Handler)
        self.options = options
        self.file = open(options.log, "a", encoding="utf-8") if options.log else None
        self.lock = threading.Lock()
        self.count = 0

    def server_bind(self):  # HTTPServer's own asks for the name of the host
        http.server.socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def log(self, entry):
        with self.lock:
            if entry["event"] == "begin":
                self.count += 1
                entry["number"] = self.count
            if self.file:
                self.file.write(json.dumps(entry) + "\n")
                self.file.flush()
            return entry["number"]

    def handle_error(self, request, client_address):
        pass  # a client that went away


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target-port", type=int, required=True)
    parser.add_argument("--log")
    parser.add_argument("--user")
    parser.add_argument("--status", type=int)
    parser.add_argument("--fault", choices=["silent", "close", "not_http", "with_body"])
    server = Server(parser.parse_args())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
