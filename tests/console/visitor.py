"""A signed-in user of the console: cookies, forms with a valid CSRF token, and what a page shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from http.cookies import SimpleCookie
from io import BytesIO
from typing import Any
from urllib.parse import unquote_to_bytes, urlencode

from django.middleware.csrf import CSRF_SECRET_LENGTH
from django.utils.crypto import get_random_string

from icekeeper.kernel.request_context import end_request
from icekeeper.wsgi import application
from tenancy.actor import INTERNAL
from tenancy.services.users import create_local_user
from tests.console.session_cookies import session_cookies

HOST = "testserver"
Fields = Mapping[str, str | Sequence[str]]


class _Inputs(HTMLParser):
    """Reads the fields of all forms of a page, as a browser would send them."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, list[str]] = {}
        self._select: str | None = None
        self._area: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        name = own.get("name") or ""
        if tag == "select":
            self._select = name
            self.fields.setdefault(name, [])
        elif tag == "option" and self._select and ("selected" in own or not self.fields[self._select]):
            self.fields[self._select] = [own.get("value") or ""]
        elif tag == "textarea":
            self._area = name
            self.fields[name] = [""]
        elif tag == "input" and name:
            if own.get("type") in {"checkbox", "radio"}:
                if "checked" in own:
                    self.fields.setdefault(name, []).append(own.get("value") or "on")
            else:
                self.fields[name] = [own.get("value") or ""]

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = None
        elif tag == "textarea":
            self._area = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self.fields[self._area] = [(self.fields[self._area][0] + data).removeprefix("\n")]


@dataclass(frozen=True)
class Shown:
    """A page, or a redirect."""

    status: int
    text: str
    location: str

    @property
    def plain(self) -> str:
        """The text that a reader sees, with single spaces."""
        return " ".join(unescape(re.sub(r"<[^>]*>", " ", self.text)).split())

    @property
    def fields(self) -> dict[str, list[str]]:
        reader = _Inputs()
        reader.feed(self.text)
        return reader.fields

    def errors(self, name: str) -> list[str]:
        """Return the errors at a field."""
        found = re.search(
            rf'data-field="ik-{re.escape(name)}".*?<div data-errors[^>]*>(.*?)</div>', self.text, re.DOTALL
        )
        assert found is not None, f"no field {name}"
        texts = re.findall(r"<p.*?</p>", found[1], re.DOTALL)
        return [" ".join(unescape(re.sub(r"<[^>]*>", " ", each)).split()) for each in texts]

    def check(self, name: str) -> tuple[str, str]:
        """Return the state of a check in the list of a validation, and its text."""
        for state, row in re.findall(
            r'<li class="ik-checks-row ik-checks-row--(\w+)">(.*?)</li>', self.text, re.DOTALL
        ):
            shown = " ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split())
            if shown.startswith(name):
                return state, shown
        raise AssertionError(f"no check {name}")


class Visitor:
    """`local~<name>`, who is created and signed in."""

    def __init__(self, name: str) -> None:
        self.user_id = f"local~{name}"
        create_local_user(actor=INTERNAL, user_id=self.user_id)
        self.cookies = session_cookies(self.user_id)

    def get(self, target: str) -> Shown:
        return self._send("GET", target)

    def post(self, target: str, fields: Fields) -> Shown:
        token = self.cookies.setdefault("icekeeper_csrf", get_random_string(CSRF_SECRET_LENGTH))
        body = urlencode({**fields, "csrfmiddlewaretoken": token}, doseq=True, errors="surrogatepass").encode()
        return self._send("POST", target, body)

    def submit(self, page: Shown, target: str, action: str, **entered: str | Sequence[str]) -> Shown:
        """Send the fields of a page as they are, with what the user `entered`, by the button `action`."""
        return self.post(target, {**page.fields, **entered, "action": action})

    def _send(self, method: str, target: str, body: bytes = b"") -> Shown:
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
            "REMOTE_ADDR": "192.0.2.7",
            "HTTP_HOST": HOST,
            "HTTP_ORIGIN": f"http://{HOST}",
            "HTTP_COOKIE": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
            "CONTENT_TYPE": "application/x-www-form-urlencoded",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": BytesIO(body),
            "wsgi.url_scheme": "http",
            "wsgi.errors": BytesIO(),
        }
        started: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> None:
            started.update(status=int(status.split(maxsplit=1)[0]), headers=headers)

        result = application(environ, start_response)
        try:
            text = b"".join(result).decode()
        finally:
            if hasattr(result, "close"):
                result.close()
            end_request()
        jar: SimpleCookie = SimpleCookie()
        for name, value in started["headers"]:
            if name.lower() == "set-cookie":
                jar.load(value)
        self.cookies |= {name: cookie.value for name, cookie in jar.items()}
        return Shown(started["status"], text, dict(started["headers"]).get("Location", ""))
