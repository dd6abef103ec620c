"""A browser for tests: it keeps cookies as browsers do, sends `Origin` with forms, and reads forms of pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from http.cookies import SimpleCookie
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode, urlsplit

from django.middleware.csrf import CSRF_SECRET_LENGTH
from django.utils.crypto import get_random_string

from icekeeper.kernel.request_context import current_context, end_request
from icekeeper.wsgi import application

HOST = "testserver"


@dataclass(frozen=True)
class Page:
    """A response; `statements` is the number of database statements of the request."""

    status: int
    headers: list[tuple[str, str]]
    text: str
    statements: int

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def location(self) -> str:
        return self.header("Location")

    @property
    def cookies(self) -> SimpleCookie:
        jar: SimpleCookie = SimpleCookie()
        for key, value in self.headers:
            if key.lower() == "set-cookie":
                jar.load(value)
        return jar

    def field(self, name: str) -> str:
        """Return the value of a hidden field."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        assert found is not None, self.text
        return unescape(found[1])


class Browser:
    """`cookies` are those of the console; `headers` are sent with every request, such as those of a proxy."""

    def __init__(self, *, origin: str = f"http://{HOST}", address: str = "192.0.2.7", **headers: str) -> None:
        self.origin, self.address, self.headers = origin, address, headers
        self.cookies: dict[str, str] = {}

    def get(self, target: str, **headers: str) -> Page:
        return self.send("GET", target, headers=headers)

    def post(
        self,
        target: str,
        fields: Mapping[str, str | list[str]] | None = None,
        *,
        origin: str | None = "",
        csrf: str | None = "",
        **headers: str,
    ) -> Page:
        """Send a form with the browser's origin and a valid CSRF token; None sends none."""
        sent = dict(fields or {})
        if csrf == "":
            csrf = self._csrf_token()
        if csrf is not None:
            sent["csrfmiddlewaretoken"] = csrf
        if origin is not None:
            headers["origin"] = origin or self.origin
        body = urlencode(sent, doseq=True, errors="surrogatepass").encode()
        return self.send("POST", target, body=body, headers=headers)

    def _csrf_token(self) -> str:
        """Return the value of the cookie, which is a valid token; a page with a form would have set it."""
        return self.cookies.setdefault("icekeeper_csrf", get_random_string(CSRF_SECRET_LENGTH))

    def send(self, method: str, target: str, *, body: bytes = b"", headers: dict[str, str] | None = None) -> Page:
        path, _, query = target.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "RAW_URI": target,
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "SCRIPT_NAME": "",
            "SERVER_NAME": HOST,
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": self.address,
            "HTTP_HOST": HOST,
            "HTTP_USER_AGENT": "Test Browser",
            "CONTENT_TYPE": "application/x-www-form-urlencoded",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": BytesIO(body),
            "wsgi.url_scheme": "http",
            "wsgi.errors": BytesIO(),
        }
        if self.cookies:
            environ["HTTP_COOKIE"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        for name, value in (self.headers | (headers or {})).items():
            environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
        started: dict[str, Any] = {}

        def start_response(status: str, response_headers: list[tuple[str, str]], _: Any = None) -> None:
            started.update(status=int(status.split(maxsplit=1)[0]), headers=list(response_headers))

        result = application(environ, start_response)
        try:
            content = b"".join(result)
        finally:
            statements = current_context().statements
            if hasattr(result, "close"):
                result.close()
            end_request()
        page = Page(started["status"], started["headers"], content.decode(), statements)
        self._keep(page)
        return page

    def _keep(self, page: Page) -> None:
        for name, cookie in page.cookies.items():
            if cookie["max-age"] == 0 or not cookie.value:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = cookie.value

    def follow(self, page: Page) -> Page:
        """Open the location of a redirect on this server."""
        parts = urlsplit(page.location)
        return self.get(parts.path + (f"?{parts.query}" if parts.query else ""))
