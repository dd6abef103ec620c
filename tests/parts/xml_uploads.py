"""Uploads by Google's XML API for a server that only has uploads by the JSON API.

Rust's `object_store` (and so obstore) writes with `PUT /bucket/object` and reads, lists and deletes by paths that
fake-gcs-server supports. All requests but these uploads are forwarded unchanged.
"""

from __future__ import annotations

import http.client
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self
from urllib.parse import unquote, urlencode, urlsplit

JSON_INTERFACE = {"storage", "upload", "download", "batch", "_internal"}
OF_ONE_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length"}
SECONDS_TO_RESPONSE = 60


class XmlUploads:
    """Listens on `port` of 127.0.0.1 in front of the server on `target`. A context manager."""

    def __init__(self, target: int) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"target": target}))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: int

    def do_GET(self) -> None:
        self._hand_on(self.command, self.path)

    do_HEAD = do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815  as http.server calls them

    def do_PUT(self) -> None:
        bucket, _, name = urlsplit(self.path).path.removeprefix("/").partition("/")
        if urlsplit(self.path).query or not name or bucket in JSON_INTERFACE:
            self._hand_on(self.command, self.path)
            return
        asked = {"uploadType": "media", "name": unquote(name)}
        if (generation := self.headers["x-goog-if-generation-match"]) is not None:
            asked["ifGenerationMatch"] = generation
        self._hand_on("POST", f"/upload/storage/v1/b/{bucket}/o?{urlencode(asked)}")

    def _hand_on(self, method: str, path: str) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_ONE_CONNECTION}
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=SECONDS_TO_RESPONSE)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
        except OSError:
            self.close_connection = True
            return
        finally:
            connection.close()
        self._response(response, content, is_upload=method != self.command)

    def _response(self, response: http.client.HTTPResponse, content: bytes, *, is_upload: bool) -> None:
        self.send_response_only(response.status, response.reason)
        for name, value in response.getheaders():
            if name.lower() not in OF_ONE_CONNECTION:
                self.send_header(name, value)
        if is_upload and response.status == http.HTTPStatus.OK:
            stored = json.loads(content)
            self.send_header("ETag", stored["etag"])
            self.send_header("x-goog-generation", stored["generation"])
        length = response.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
        if length is not None:
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing: the server behind logs every request."""
