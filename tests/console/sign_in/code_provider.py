"""An identity provider with the authorization code flow: it checks PKCE, redirect URI and client, each code once."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tests.harness.identity_provider import DISCOVERY, IdentityProvider, responses

CLIENT = "lakekeeper"


class CodeProvider(IdentityProvider):
    """`grants` are open codes with the parameters of the authorization request; `received` the forms of exchanges.

    `id_claims` and `access_claims` are claims that differ from the usual ones; `token_status` replaces a success.
    """

    def __init__(self) -> None:
        super().__init__()
        self.grants: dict[str, dict[str, str]] = {}
        self.received: list[dict[str, str]] = []
        self.authorizations: list[str | None] = []
        self.id_claims: dict[str, Any] = {}
        self.access_claims: dict[str, Any] = {}
        self.token_status = 200
        self.published[DISCOVERY] = {
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "end_session_endpoint": f"{self.address}/logout",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }
        self._server.RequestHandlerClass = _with_token_endpoint(self, self._server.RequestHandlerClass)

    def authorize(self, location: str) -> str:
        """Sign the user in, as the page of the provider does; return the query of the redirect to the client."""
        request = dict(parse_qsl(urlsplit(location).query))
        code = secrets.token_urlsafe(16)
        self.grants[code] = request
        return urlencode({"state": request["state"], "code": code})

    def exchange(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Return the tokens for a valid form."""
        self.received.append(form)
        request = self.grants.pop(form.get("code", ""), None)
        if request is None:
            return None
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        assert challenge.decode() == request["code_challenge"]
        assert request["code_challenge_method"] == "S256"
        assert form["redirect_uri"] == request["redirect_uri"]
        assert form["client_id"] == request["client_id"]
        usual = {"aud": request["client_id"], "nonce": request["nonce"]}
        return {
            "token_type": "Bearer",
            "id_token": self.token(**(usual | self.id_claims)),
            "access_token": self.token(**({"name": "Anna Archer", "roles": ["analyst"]} | self.access_claims)),
        }


def _with_token_endpoint(provider: CodeProvider, handler: type[BaseHTTPRequestHandler]) -> type[BaseHTTPRequestHandler]:
    class Handler(handler):  # type: ignore[valid-type]
        def do_POST(self) -> None:  # noqa: N802
            if provider.is_down:
                return
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            provider.authorizations.append(self.headers.get("Authorization"))
            tokens = provider.exchange(form) if provider.token_status == 200 else None
            status = provider.token_status if provider.token_status != 200 else 200 if tokens else 400
            responses(status, json.dumps(tokens or {"error": "invalid_grant"}).encode())(self)

    return Handler
