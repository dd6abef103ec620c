"""The store of this server in OpenFGA: looked up by name, checked against, written and read.

https://openfga.dev/api/service
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings

from icekeeper.kernel.json.strict import write_json
from tenancy.authz.model import DOWN, UP, VERSION
from tenancy.authz.openfga.authorization_model import (
    CURRENT_TIME,
    EXPIRES_AT,
    UNEXPIRED,
    authorization_model,
    unfolded_model,
)
from tenancy.authz.openfga.client import (
    CircuitBreaker,
    ClientCredentials,
    ConnectionLimits,
    NoHttpResponse,
    OAuthClient,
    OpenFgaConnection,
    OpenFgaCredential,
    OpenFgaRequestRejected,
    OpenFgaResponse,
    OpenFgaUnavailable,
    PresharedKey,
)
from tenancy.authz.openfga.http_interface import find_http_interface
from tenancy.authz.openfga.tuples import Condition, TupleKey, as_time, as_tuple

PAGE_SIZE: Final = 100
"""Tuples in one response, and the maximum that OpenFGA accepts in one write."""
MODELS_PAGE_SIZE: Final = 20

logger = logging.getLogger("icekeeper.authz")

_SUCCESS: Final = (200, 201)
_UNAUTHORIZED: Final = (401, 403)
_OVERLOADED: Final = 429
_SERVER_ERROR: Final = 500
_NOT_FOUND_CODES: Final = frozenset(
    {"store_id_not_found", "authorization_model_not_found", "latest_authorization_model_not_found"}
)


@dataclass(frozen=True, slots=True)
class TupleCheck:
    """A check of `key`; `contextual_tuples` count for this check only."""

    key: TupleKey
    contextual_tuples: tuple[TupleKey, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredTuple:
    """`expires_at` is the text that OpenFGA stores, None for a tuple without condition."""

    key: TupleKey
    expires_at: str | None


@dataclass(frozen=True, slots=True)
class StoreAndModel:
    """The ids of the store and of the authorization model that requests name."""

    store_id: str
    model_id: str


class OpenFgaStore:
    """A client for the threads of one process.

    Every method raises `OpenFgaUnavailable` (503) and `RequestTimeout` (408).
    """

    def __init__(self, access: OpenFgaAccess, connection: OpenFgaConnection, credential: OpenFgaCredential) -> None:
        self._address, self._name, self.model_name = access.address, access.store, access.model
        self._connection, self._credential, self._limits = connection, credential, access.limits
        self._breaker = CircuitBreaker()
        self._has_responded = False
        self._target: StoreAndModel | None = None

    def check(self, checks: Sequence[TupleCheck], *, at: datetime) -> list[bool]:
        """Return the decisions in the order of `checks`, which one request must be able to hold."""
        documents = [
            {
                "tuple_key": as_tuple(each.key),
                "correlation_id": str(number),
                "context": {CURRENT_TIME: as_time(at)},
                **_contextual_tuples(each),
            }
            for number, each in enumerate(checks)
        ]
        document = self._send_document("batch-check", {"checks": documents, "consistency": "HIGHER_CONSISTENCY"})
        result = document.get("result")
        decisions = result if isinstance(result, dict) else {}
        return [_read_decision(decisions.get(str(number))) for number in range(len(checks))]

    def write(self, written: Mapping[TupleKey, Condition | None], deleted: Sequence[TupleKey]) -> bool:
        """Write and delete at most `PAGE_SIZE` tuples atomically; existing and already deleted ones are no error.

        Return whether the request was sent twice, so that the first copy may still take effect. Raises
        `OpenFgaRequestRejected`, with 409 for a tuple that exists with another condition.
        """
        body: dict[str, Any] = {}
        if written:
            tuples = [as_tuple(key, condition) for key, condition in written.items()]
            body["writes"] = {"tuple_keys": tuples, "on_duplicate": "ignore"}
        if deleted:
            body["deletes"] = {"tuple_keys": [as_tuple(key) for key in deleted], "on_missing": "ignore"}
        return bool(body) and self._send_to_store("write", body).was_resent

    def read(self, *, on: str | None = None, after: str = "") -> tuple[list[StoredTuple], str]:
        """Return a page of all tuples, or of those on one object, and the next page token, empty on the last page."""
        body: dict[str, Any] = {"page_size": PAGE_SIZE, "consistency": "HIGHER_CONSISTENCY"}
        if on is not None:
            body["tuple_key"] = {"object": on}
        if after:
            body["continuation_token"] = after
        document = self._send_document("read", body)
        try:
            found = [_stored_tuple(each["key"]) for each in document["tuples"]]
            return found, str(document.get("continuation_token") or "")
        except (KeyError, TypeError):
            raise OpenFgaUnavailable("it sent malformed tuples") from None

    def resolve(self) -> StoreAndModel:
        """Look up the store and the model by name. Raises `OpenFgaUnavailable` if one of them does not exist."""
        store_id = self.find_store_id()
        if store_id is None:
            raise OpenFgaUnavailable(f"it has no store {self._name!r}: run manage.py migrate")
        model_id = self.find_model_id(store_id)
        if model_id is None:
            raise OpenFgaUnavailable(
                f"its store {self._name!r} has no authorization model {self.model_name!r}: run manage.py migrate, or "
                "check LAKEKEEPER__OPENFGA__AUTHORIZATION_MODEL_VERSION"
            )
        return StoreAndModel(store_id, model_id)

    def find_store_id(self) -> str | None:
        """Return the id of the first store with the configured name: OpenFGA does not keep names unique."""
        for each in self._list(f"/stores?name={quote(self._name)}&page_size={PAGE_SIZE}", "stores"):
            if each.get("name") == self._name:
                return str(each["id"])
        return None

    def create_store(self) -> str:
        return str(self._request_document("POST", "/stores", {"name": self._name})["id"])

    def find_model_id(self, store_id: str) -> str | None:
        """Return the id of the newest model that has the type `model_name`."""
        for each in self.list_models(store_id):
            if any(definition.get("type") == self.model_name for definition in each.get("type_definitions", ())):
                return str(each["id"])
        return None

    def list_models(self, store_id: str) -> list[dict[str, Any]]:
        """Return all models of the store, the newest first."""
        path = f"/stores/{store_id}/authorization-models?page_size={MODELS_PAGE_SIZE}"
        return self._list(path, "authorization_models")

    def create_model(self, store_id: str, model: Mapping[str, Any]) -> str:
        path = f"/stores/{store_id}/authorization-models"
        return str(self._request_document("POST", path, model)["authorization_model_id"])

    def _list(self, path: str, member: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            next_page = f"&continuation_token={quote(after)}" if after else ""
            document = self._request_document("GET", path + next_page, None)
            listed = document.get(member)
            if not isinstance(listed, list) or not all(isinstance(each, dict) and "id" in each for each in listed):
                raise OpenFgaUnavailable(f"it sent no list of {member}")
            found += listed
            after = str(document.get("continuation_token") or "")
            if not after or not listed:
                return found

    def _send_document(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._send_to_store(what, body).document or {}

    def _send_to_store(self, what: str, body: Mapping[str, Any]) -> OpenFgaResponse:
        """Send a request; look store and model up again if OpenFGA no longer has them."""
        target = self._known_target()
        try:
            return self._request("POST", *_request_target(target, what, body))
        except OpenFgaRequestRejected as rejection:
            if rejection.code not in _NOT_FOUND_CODES:
                raise
        self._target = None
        return self._request("POST", *_request_target(self._known_target(), what, body))

    def _known_target(self) -> StoreAndModel:
        if self._target is None:
            self._target = self.resolve()
        return self._target

    def _request_document(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        return self._request(method, path, body).document or {}

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> OpenFgaResponse:
        """Send a request, again with a renewed credential if it is not accepted. Raises `OpenFgaRequestRejected`."""
        reply = self._guarded_send(method, path, body)
        if reply.status in _UNAUTHORIZED and self._credential.renew():
            reply = self._guarded_send(method, path, body)
        if reply.status in _SUCCESS and reply.document is not None:
            return reply
        code, text = (str((reply.document or {}).get(each, ""))[:300] for each in ("code", "message"))
        raise OpenFgaRequestRejected(reply.status, code, text, is_in_doubt=reply.was_resent)

    def _guarded_send(self, method: str, path: str, body: Mapping[str, Any] | None) -> OpenFgaResponse:
        self._breaker.enter()
        try:
            headers = {"Content-Type": "application/json", **self._credential.headers()}
            sent = None if body is None else write_json(body)
            reply = self._send(method, path, sent, headers)
            _require_usable(reply)
        except OpenFgaUnavailable as failure:
            self._breaker.failed(failure.reason)
            raise
        self._breaker.succeeded()
        return reply

    def _send(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> OpenFgaResponse:
        """Send a request, and find the HTTP interface if the configured address never responded in HTTP.

        The address may be that of the gRPC interface; the HTTP interface of the same host is used then.
        """
        address = self._address
        try:
            reply = self._connection.request(method, address + path, body=body, headers=headers)
        except NoHttpResponse:
            if address == self._address:
                self._find_http_interface(address)
            if address == self._address:
                raise
            reply = self._connection.request(method, self._address + path, body=body, headers=headers)
        self._has_responded = True
        return reply

    def _find_http_interface(self, address: str) -> None:
        """Raises `OpenFgaEndpointIsGrpc`."""
        found = None if self._has_responded else find_http_interface(address, self._connection, self._limits)
        if found is not None:
            logger.warning(
                "LAKEKEEPER__OPENFGA__ENDPOINT is a gRPC interface; the HTTP interface %s is used instead", found
            )
            self._address = found


def openfga_store() -> OpenFgaStore:
    """Return the store of this deployment. Requires that `LAKEKEEPER__OPENFGA__ENDPOINT` is set."""
    return _openfga_store(OpenFgaAccess.of_settings(), os.getpid())


@dataclass(frozen=True, slots=True)
class OpenFgaAccess:
    """The address of OpenFGA, and the credentials of this server there."""

    address: str
    store: str
    model: str
    limits: ConnectionLimits
    api_key: Any
    client: OAuthClient | None

    @classmethod
    def of_settings(cls) -> OpenFgaAccess:
        own, limits = settings.ICEKEEPER.openfga, settings.ICEKEEPER.openfga_connection
        client = None
        if own.client_id is not None and own.client_secret is not None:
            secret = own.client_secret.get_secret_value()
            client = OAuthClient(str(own.token_endpoint), own.client_id, secret, own.scope)
        return cls(
            address=str(own.endpoint).rstrip("/"),
            store=own.store_name,
            model=f"{own.authorization_model_prefix}-{own.authorization_model_version or VERSION}",
            limits=ConnectionLimits(limits.connect_timeout, limits.request_timeout, limits.ca_bundle),
            api_key=own.api_key,
            client=client,
        )


@lru_cache(maxsize=4)
def _openfga_store(access: OpenFgaAccess, process: int) -> OpenFgaStore:
    """Return the store of one process: connections and locks must not be shared across a fork."""
    connection = OpenFgaConnection(access.limits)
    credential: OpenFgaCredential
    if access.client is not None:
        credential = ClientCredentials(access.client, connection)
    else:
        credential = PresharedKey(None if access.api_key is None else access.api_key.get_secret_value())
    return OpenFgaStore(access, connection, credential)


def _request_target(target: StoreAndModel, what: str, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    named = dict(body) if what == "read" else {**body, "authorization_model_id": target.model_id}
    return f"/stores/{target.store_id}/{what}", named


def _contextual_tuples(check: TupleCheck) -> dict[str, Any]:
    keys = [_contextual_tuple(key) for key in check.contextual_tuples]
    return {"contextual_tuples": {"tuple_keys": keys}} if keys else {}


def _contextual_tuple(key: TupleKey) -> dict[str, Any]:
    return as_tuple(key, None if key.relation in {UP, DOWN} else Condition(None))


def _read_decision(found: Any) -> bool:
    allowed = found.get("allowed") if isinstance(found, dict) else None
    if isinstance(allowed, bool):
        return allowed
    error = found.get("error") if isinstance(found, dict) else None
    reason = error.get("message", "") if isinstance(error, dict) else "no message"
    raise OpenFgaUnavailable(f"it returned no decision for a check: {str(reason)[:200]}")


def _stored_tuple(key: Mapping[str, Any]) -> StoredTuple:
    condition = key.get("condition") or {}
    expires_at = condition.get("context", {}).get(EXPIRES_AT) if condition else None
    return StoredTuple(TupleKey(str(key["object"]), str(key["relation"]), str(key["user"])), expires_at)


def _require_usable(reply: OpenFgaResponse) -> None:
    """Raises `OpenFgaUnavailable` for a response that is neither a result nor an error of OpenFGA's API."""
    if reply.document is None:
        raise OpenFgaUnavailable(
            f"it responded {reply.status} without JSON: is LAKEKEEPER__OPENFGA__ENDPOINT its HTTP interface?",
            is_in_doubt=True,
        )
    if reply.status >= _SERVER_ERROR or reply.status == _OVERLOADED:
        code = str(reply.document.get("code", ""))[:100]
        raise OpenFgaUnavailable(f"it responded {reply.status} {code}", is_in_doubt=True)


def install(store: OpenFgaStore) -> tuple[StoreAndModel, bool]:
    """Return the store and the model of this release, and whether the model was created by this call.

    Models never change: another version is added to the existing ones, and servers of older releases continue to use
    theirs. With `LAKEKEEPER__OPENFGA__AUTHORIZATION_MODEL_VERSION` none is written.

    Raises `OpenFgaUnavailable`, also if the configured version does not exist.
    """
    if settings.ICEKEEPER.openfga.authorization_model_version is not None:
        return store.resolve(), False
    store_id = store.find_store_id()
    if store_id is None:
        created = store.create_store()
        store_id = store.find_store_id() or created  # of stores created concurrently the first is used
    model_id = store.find_model_id(store_id)
    if model_id is not None:
        return StoreAndModel(store_id, model_id), False
    model = authorization_model(unfolded_model(), store.model_name)
    return StoreAndModel(store_id, store.create_model(store_id, model)), True


def foreign_models(store: OpenFgaStore) -> list[str]:
    """Return the ids of models in our store that no release of ours wrote. Raises `OpenFgaUnavailable`.

    Tuples do not name a model: if there are other models, another application may keep its tuples in the store.
    """
    store_id = store.find_store_id()
    return [] if store_id is None else [str(each["id"]) for each in store.list_models(store_id) if not _is_ours(each)]


def _is_ours(model: Mapping[str, Any]) -> bool:
    """Recognize a model of ours by its name, a type without relations, and by the condition of our grants."""
    prefix = f"{settings.ICEKEEPER.openfga.authorization_model_prefix}-"
    named = (each for each in model.get("type_definitions", ()) if not each.get("relations"))
    is_named = any(str(each.get("type", "")).startswith(prefix) for each in named)
    return is_named and UNEXPIRED in (model.get("conditions") or {})
