"""HTTP with JSON, of the standard library alone: one connection a request, as the node closes it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import socket
import ssl
import time
import urllib.parse
from typing import Any, Dict, Iterator, Optional, Tuple

from .errors import InfrastructureError, TimeLimit, TooManyRequests, error_of

#: Of a connection, and of an answer that is there at once.
ANSWER_LIMIT_S = 120.0
#: A node that is being restarted is asked again for so long.
RETRY_LIMIT_S = 30.0


def default_url() -> str:
    """CUDAL1_URL, else the address that the node of the data folder has written."""
    if url := os.environ.get("CUDAL1_URL"):
        return url
    data = os.environ.get("CUDAL1_DATA")
    folder = pathlib.Path(data) if data else pathlib.Path(
        os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local" / "share") / "cudal1"
    address = folder / "serve" / "address"
    try:
        return address.read_text().strip()
    except FileNotFoundError:
        raise InfrastructureError(f"no node serves on {folder}", hint="start one with `cudal1 serve`, or set CUDAL1_URL"
                                  ) from None


class Transport:
    def __init__(self, url: str, token: Optional[str], ca_file: Optional[str], name: Optional[str], insecure_tls: bool):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL as in http://127.0.0.1:4980")
        self.url = url.rstrip("/")
        self._host, self._port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._tls: Optional[ssl.SSLContext] = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=ca_file)
            if ca_file:  # the cluster's authority signs names of machines, not of hosts
                self._tls.check_hostname = False
            if insecure_tls:
                self._tls.check_hostname = False
                self._tls.verify_mode = ssl.CERT_NONE
        self._headers = {"Accept": "application/json", "User-Agent": "cudal1-python"}
        if token:
            self._headers["Authorization"] = "Bearer " + token
        if name:
            self._headers["X-Cudal1-Client"] = name

    def _connection(self, limit_s: float) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=limit_s, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=limit_s)

    def _send(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any,
              headers: Dict[str, str]) -> http.client.HTTPResponse:
        all_headers = {**self._headers, **headers}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            all_headers["Content-Type"] = "application/json"
        connection.request(method, path, body=data, headers=all_headers)
        return connection.getresponse()

    def ask(self, method: str, path: str, body: Any = None, *, query: Optional[Dict[str, Any]] = None,
            headers: Optional[Dict[str, str]] = None, limit_s: float = ANSWER_LIMIT_S, may_repeat: Optional[bool] = None,
            retry_limit_s: float = RETRY_LIMIT_S) -> Any:
        """The document of a request. A request that changes nothing (or has a key) is repeated where the node is away or
        busy, up to a limit of time; errors of the node are exceptions."""
        given = {k: v for k, v in (query or {}).items() if v is not None}
        target = path + ("?" + urllib.parse.urlencode(given) if given else "")
        repeats = method in ("GET", "DELETE") if may_repeat is None else may_repeat
        end, delay = time.monotonic() + retry_limit_s, 0.1
        while True:
            try:
                return self._ask_once(method, target, body, headers or {}, limit_s)
            except (InfrastructureError, TooManyRequests) as e:
                may_wait = isinstance(e, TooManyRequests) or (repeats and not isinstance(e, TimeLimit))
                wait = max(delay, e.retry_after)
                if not may_wait or time.monotonic() + wait > end:
                    raise
                time.sleep(wait)
                delay = min(2 * delay, 2.0)

    def _ask_once(self, method: str, target: str, body: Any, headers: Dict[str, str], limit_s: float) -> Any:
        connection = self._connection(limit_s)
        try:
            response = self._send(connection, method, target, body, headers)
            text = response.read()
        except socket.timeout:
            raise TimeLimit(f"{self.url} did not answer within {limit_s:g} s") from None
        except (OSError, http.client.HTTPException) as e:
            raise InfrastructureError(f"{self.url} cannot be asked: {e}", hint="`cudal1 serve` starts it") from None
        finally:
            connection.close()
        return self._document(response, text)

    @staticmethod
    def _document(response: http.client.HTTPResponse, text: bytes) -> Any:
        is_json = (response.getheader("Content-Type") or "").startswith("application/json")
        if response.status < 400:
            return json.loads(text) if is_json else text.decode()
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        retry = response.getheader("Retry-After") or ""
        raise error_of(response.status, document, float(retry) if retry.isdigit() else 0.0)

    @contextlib.contextmanager
    def exchange(self, method: str, path: str, body: bytes, headers: Dict[str, str],
                 limit_s: float) -> Iterator[http.client.HTTPResponse]:
        """One request whose answer the caller reads, whatever its status. `limit_s`: of each wait."""
        connection = self._connection(limit_s)
        try:
            connection.request(method, path, body=body, headers={**self._headers, **headers})
            yield connection.getresponse()
        except socket.timeout:
            raise TimeLimit(f"{self.url} sent nothing for {limit_s:g} s") from None
        except (OSError, http.client.HTTPException) as e:
            raise InfrastructureError(f"{self.url} cannot be asked: {e}", hint="`cudal1 serve` starts it") from None
        finally:
            connection.close()

    def events(self, path: str, limit_s: float) -> Iterator[Tuple[str, Any]]:
        """Each event's name and document. InfrastructureError where the connection is lost before `end`."""
        connection = self._connection(limit_s)
        try:
            response = self._send(connection, "GET", path, None, {"Accept": "text/event-stream"})
            if response.status >= 400:
                self._document(response, response.read())
            name = ""
            for line in response:
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    yield name, json.loads(line[6:])
                    if name == "end":
                        return
        except socket.timeout:
            raise TimeLimit(f"{self.url} sent nothing for {limit_s:g} s") from None
        except (OSError, http.client.HTTPException) as e:
            raise InfrastructureError(f"the connection to {self.url} is lost: {e}") from None
        finally:
            connection.close()
        raise InfrastructureError(f"{self.url} closed the connection before the last event")
