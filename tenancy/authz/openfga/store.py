"""The store of this server in OpenFGA: found by its name, asked, written and read.

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
from tenancy.authz.openfga.authorization_model import CURRENT_TIME, EXPIRES_AT
from tenancy.authz.openfga.client import (
    Breaker,
    Client,
    ClientCredentials,
    Connection,
    Credential,
    Limits,
    NoHttpAnswer,
    OpenFgaRefused,
    OpenFgaUnavailable,
    PresharedKey,
    Reply,
)
from tenancy.authz.openfga.http_interface import find_http_interface
from tenancy.authz.openfga.tuples import Condition, TupleKey, as_time, as_tuple, holding_now

PAGE: Final = 100
"""Tuples of one answer, and the most that OpenFGA takes in one write."""
MODELS_PAGE: Final = 20

logger = logging.getLogger("icekeeper.authz")

_OK: Final = (200, 201)
_NOT_ACCEPTED: Final = (401, 403)
_OVERLOADED: Final = 429
_FAILED: Final = 500
_GONE: Final = frozenset(
    {"store_id_not_found", "authorization_model_not_found", "latest_authorization_model_not_found"}
)


@dataclass(frozen=True, slots=True)
class Check:
    """Whether `key` holds; `told` are tuples that count for this question alone."""

    key: TupleKey
    told: tuple[TupleKey, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredTuple:
    """`expires_at` is as OpenFGA has it, None for a tuple without condition."""

    key: TupleKey
    expires_at: str | None


@dataclass(frozen=True, slots=True)
class Place:
    store_id: str
    model_id: str


class OpenFgaStore:
    """For the threads of one process. Everything raises `OpenFgaUnavailable` (503) and `RequestTimeout` (408)."""

    def __init__(self, access: Access, connection: Connection, credential: Credential) -> None:
        self._address, self._name, self.model_name = access.address, access.store, access.model
        self._connection, self._credential, self._limits = connection, credential, access.limits
        self._breaker = Breaker()
        self._has_answered = False
        self._place: Place | None = None

    def check(self, checks: Sequence[Check], *, at: datetime) -> list[bool]:
        """The answers in the order of the questions, of which there are as many as one request may have."""
        asked = [
            {
                "tuple_key": as_tuple(each.key),
                "correlation_id": str(number),
                "context": {CURRENT_TIME: as_time(at)},
                **({"contextual_tuples": {"tuple_keys": [_told(key) for key in each.told]}} if each.told else {}),
            }
            for number, each in enumerate(checks)
        ]
        document = self._at_place("batch-check", {"checks": asked, "consistency": "HIGHER_CONSISTENCY"})
        found = document.get("result")
        return [_allowed(found.get(str(number)) if isinstance(found, dict) else None) for number in range(len(checks))]

    def write(self, written: Mapping[TupleKey, Condition | None], deleted: Sequence[TupleKey]) -> bool:
        """All or nothing, at most `PAGE`: what is there already or not there any more is as it should be.

        Whether it was sent twice, and the first copy may come about yet. Raises `OpenFgaRefused`, with 409 for a tuple
        that is there under another condition.
        """
        body: dict[str, Any] = {}
        if written:
            tuples = [as_tuple(key, condition) for key, condition in written.items()]
            body["writes"] = {"tuple_keys": tuples, "on_duplicate": "ignore"}
        if deleted:
            body["deletes"] = {"tuple_keys": [as_tuple(key) for key in deleted], "on_missing": "ignore"}
        return bool(body) and self._replied_at_place("write", body).was_resent

    def read(self, *, on: str | None = None, after: str = "") -> tuple[list[StoredTuple], str]:
        """A page of all tuples, or of those on an object, and where the next page begins; empty behind the last one."""
        body: dict[str, Any] = {"page_size": PAGE, "consistency": "HIGHER_CONSISTENCY"}
        if on is not None:
            body["tuple_key"] = {"object": on}
        if after:
            body["continuation_token"] = after
        document = self._at_place("read", body)
        try:
            found = [_stored(each["key"]) for each in document["tuples"]]
            return found, str(document.get("continuation_token") or "")
        except (KeyError, TypeError):
            raise OpenFgaUnavailable("it sent tuples that are none") from None

    def find(self) -> Place:
        """The store and the model. Raises `OpenFgaUnavailable` where there are none yet."""
        store_id = self.store_id()
        if store_id is None:
            raise OpenFgaUnavailable(f"it has no store {self._name!r}: run manage.py migrate")
        model_id = self.model_id(store_id)
        if model_id is None:
            raise OpenFgaUnavailable(
                f"its store {self._name!r} has no authorization model {self.model_name!r}: run manage.py migrate, or "
                "check LAKEKEEPER__OPENFGA__AUTHORIZATION_MODEL_VERSION"
            )
        return Place(store_id, model_id)

    def store_id(self) -> str | None:
        """Names may be given several times: the first store counts."""
        for each in self._listed(f"/stores?name={quote(self._name)}&page_size={PAGE}", "stores"):
            if each.get("name") == self._name:
                return str(each["id"])
        return None

    def make_store(self) -> str:
        return str(self._asked("POST", "/stores", {"name": self._name})["id"])

    def model_id(self, store_id: str) -> str | None:
        """Of the newest model that has the type `model_name`."""
        for each in self.models(store_id):
            if any(definition.get("type") == self.model_name for definition in each.get("type_definitions", ())):
                return str(each["id"])
        return None

    def models(self, store_id: str) -> list[dict[str, Any]]:
        """All that it has, the newest first, as they were written."""
        path = f"/stores/{store_id}/authorization-models?page_size={MODELS_PAGE}"
        return self._listed(path, "authorization_models")

    def make_model(self, store_id: str, model: Mapping[str, Any]) -> str:
        path = f"/stores/{store_id}/authorization-models"
        return str(self._asked("POST", path, model)["authorization_model_id"])

    def _listed(self, path: str, member: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            document = self._asked("GET", path + (f"&continuation_token={quote(after)}" if after else ""), None)
            listed = document.get(member)
            if not isinstance(listed, list) or not all(isinstance(each, dict) and "id" in each for each in listed):
                raise OpenFgaUnavailable(f"it sent no list of {member}")
            found += listed
            after = str(document.get("continuation_token") or "")
            if not after or not listed:
                return found

    def _at_place(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._replied_at_place(what, body).document or {}

    def _replied_at_place(self, what: str, body: Mapping[str, Any]) -> Reply:
        """Looks for store and model anew when they are gone, as when OpenFGA was set up again."""
        place = self._known_place()
        try:
            return self._accepted("POST", *_placed(place, what, body))
        except OpenFgaRefused as refusal:
            if refusal.code not in _GONE:
                raise
        self._place = None
        return self._accepted("POST", *_placed(self._known_place(), what, body))

    def _known_place(self) -> Place:
        if self._place is None:
            self._place = self.find()
        return self._place

    def _asked(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        return self._accepted(method, path, body).document or {}

    def _accepted(self, method: str, path: str, body: Mapping[str, Any] | None) -> Reply:
        """Raises `OpenFgaRefused`."""
        reply = self._reply(method, path, body)
        if reply.status in _NOT_ACCEPTED and self._credential.forget():
            reply = self._reply(method, path, body)
        if reply.status in _OK and reply.document is not None:
            return reply
        code, text = (str((reply.document or {}).get(each, ""))[:300] for each in ("code", "message"))
        raise OpenFgaRefused(reply.status, code, text, is_in_doubt=reply.was_resent)

    def _reply(self, method: str, path: str, body: Mapping[str, Any] | None) -> Reply:
        self._breaker.enter()
        try:
            headers = {"Content-Type": "application/json", **self._credential.headers()}
            sent = None if body is None else write_json(body)
            reply = self._sent(method, path, sent, headers)
            _require_usable(reply)
        except OpenFgaUnavailable as failure:
            self._breaker.failed(failure.reason)
            raise
        self._breaker.succeeded()
        return reply

    def _sent(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        """As long as nothing has ever answered HTTP here, it may be the gRPC interface that was configured: then the
        HTTP interface beside it is asked instead."""
        address = self._address
        try:
            reply = self._connection.request(method, address + path, body=body, headers=headers)
        except NoHttpAnswer:
            if address == self._address:
                self._find_http_interface(address)
            if address == self._address:
                raise
            reply = self._connection.request(method, self._address + path, body=body, headers=headers)
        self._has_answered = True
        return reply

    def _find_http_interface(self, address: str) -> None:
        """Raises `OpenFgaEndpointIsGrpc`."""
        found = None if self._has_answered else find_http_interface(address, self._connection, self._limits)
        if found is not None:
            logger.warning("LAKEKEEPER__OPENFGA__ENDPOINT is a gRPC interface; HTTP is spoken with %s instead", found)
            self._address = found


def openfga_store() -> OpenFgaStore:
    """Of this deployment. To be called only when `LAKEKEEPER__OPENFGA__ENDPOINT` is set."""
    return _openfga_store(Access.of_settings(), os.getpid())


@dataclass(frozen=True, slots=True)
class Access:
    """Where OpenFGA is, and how this server signs in there."""

    address: str
    store: str
    model: str
    limits: Limits
    api_key: Any
    client: Client | None

    @classmethod
    def of_settings(cls) -> Access:
        own, limits = settings.ICEKEEPER.openfga, settings.ICEKEEPER.openfga_connection
        client = None
        if own.client_id is not None and own.client_secret is not None:
            client = Client(str(own.token_endpoint), own.client_id, own.client_secret.get_secret_value(), own.scope)
        return cls(
            address=str(own.endpoint).rstrip("/"),
            store=own.store_name,
            model=f"{own.authorization_model_prefix}-{own.authorization_model_version or VERSION}",
            limits=Limits(limits.connect_timeout, limits.request_timeout, limits.ca_bundle),
            api_key=own.api_key,
            client=client,
        )


@lru_cache(maxsize=4)
def _openfga_store(access: Access, process: int) -> OpenFgaStore:
    """`process`: connections and locks are not to be shared by a fork."""
    connection = Connection(access.limits)
    credential: Credential
    if access.client is not None:
        credential = ClientCredentials(access.client, connection)
    else:
        credential = PresharedKey(None if access.api_key is None else access.api_key.get_secret_value())
    return OpenFgaStore(access, connection, credential)


def _placed(place: Place, what: str, body: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    named = dict(body) if what == "read" else {**body, "authorization_model_id": place.model_id}
    return f"/stores/{place.store_id}/{what}", named


def _told(key: TupleKey) -> dict[str, Any]:
    return as_tuple(key) if key.relation in {UP, DOWN} else holding_now(key)


def _allowed(found: Any) -> bool:
    allowed = found.get("allowed") if isinstance(found, dict) else None
    if isinstance(allowed, bool):
        return allowed
    error = found.get("error") if isinstance(found, dict) else None
    said = error.get("message", "") if isinstance(error, dict) else "nothing"
    raise OpenFgaUnavailable(f"it did not answer a question: {str(said)[:200]}")


def _stored(key: Mapping[str, Any]) -> StoredTuple:
    condition = key.get("condition") or {}
    expires_at = condition.get("context", {}).get(EXPIRES_AT) if condition else None
    return StoredTuple(TupleKey(str(key["object"]), str(key["relation"]), str(key["user"])), expires_at)


def _require_usable(reply: Reply) -> None:
    """Raises `OpenFgaUnavailable` for what is neither an answer nor a refusal."""
    if reply.document is None:
        raise OpenFgaUnavailable(
            f"it answered {reply.status} without JSON: is LAKEKEEPER__OPENFGA__ENDPOINT its HTTP interface?",
            is_in_doubt=True,
        )
    if reply.status >= _FAILED or reply.status == _OVERLOADED:
        code = str(reply.document.get("code", ""))[:100]
        raise OpenFgaUnavailable(f"it answered {reply.status} {code}", is_in_doubt=True)
