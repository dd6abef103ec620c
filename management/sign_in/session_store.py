"""Django's session engine for the console: rows of `ConsoleSession`, found by the hash of the key in the cookie.

A reader of the database can therefore not take over a session. A load is one statement, which also checks the idle
timeout, the lifetime, the user and the access token. A save writes the data only; `start` creates the row.

Until a user has signed in, the data are in the cookie itself, signed: clients without a user write no rows.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase, UpdateError
from django.core import signing
from django.db import DatabaseError

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.transactions import write_transaction
from management.models import ConsoleSession

logger = logging.getLogger("icekeeper.console")

PENDING: Final = "pending."
"""Begin of the key of a session without a user; the signed data follow."""

PENDING_SECONDS: Final = 600
"""Lifetime of such a session, which is long enough to sign in at an identity provider."""

_SALT: Final = "icekeeper.console.pending"

SEEN_SECONDS: Final = 60.0
"""The time of the last request is written at most that often."""


def session_digest(session_key: str) -> str:
    """Return what is stored of a session key: its SHA-256 in hex. The key has 165 random bits."""
    return sha256(session_key.encode(errors="surrogatepass")).hexdigest()


class SessionStore(SessionBase):
    """`row` is the session in the database, None before it is loaded, and if there is none."""

    row: ConsoleSession | None = None

    def load(self) -> dict[str, Any]:
        key = self.session_key or ""
        if key.startswith(PENDING):
            return self._load_pending(key.removeprefix(PENDING))
        found = ConsoleSession.objects.live(now()).filter(session_key=session_digest(key)).first()
        if found is None:
            self._session_key = None
            return {}
        self.row = found
        data: dict[str, Any] = self.decode(found.session_data)
        return data

    def _load_pending(self, text: str) -> dict[str, Any]:
        try:
            data = signing.loads(text, salt=_SALT, serializer=self.serializer, max_age=PENDING_SECONDS)
        except signing.BadSignature:
            data = None
        if not isinstance(data, dict):
            self._session_key = None
            return {}
        return data

    def find_row(self) -> ConsoleSession | None:
        """Return the session's row; no statement if the request has no session key or the row is loaded."""
        if self.row is None and self.session_key is not None:
            self._get_session()  # type: ignore[attr-defined]
        return self.row

    def exists(self, session_key: str) -> bool:
        return ConsoleSession.objects.filter(session_key=session_digest(session_key)).exists()

    def create(self) -> None:
        """Begin a session without a user."""
        self._session_key = PENDING + signing.dumps(
            self._get_session(no_load=True),  # type: ignore[attr-defined]
            salt=_SALT,
            serializer=self.serializer,
            compress=True,
        )
        self.modified = True

    def start(self, data: dict[str, Any], **columns: Any) -> None:
        """Delete the current session and create one with a new key for a user; `columns` are those of the row."""
        self.flush()
        self._session_key = self._get_new_session_key()  # type: ignore[attr-defined]
        self._session_cache = data
        at, lifetime = now(), settings.ICEKEEPER.console.session_lifetime
        with write_transaction():
            self.row = ConsoleSession.objects.create(
                session_key=session_digest(self._session_key or ""),
                session_data=self.encode(data),
                created_at=at,
                last_seen_at=at,
                expire_date=at + timedelta(seconds=lifetime),
                **columns,
            )
        self.modified = True

    def save(self, must_create: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's own signature
        """Write the data. Raises `UpdateError` if the session was deleted meanwhile: it must not be created again."""
        data = self._get_session(no_load=must_create)  # type: ignore[attr-defined]
        if self.row is None:
            self.create()
            return
        text = self.encode(data)
        with write_transaction():
            if not ConsoleSession.objects.filter(pk=self.row.pk).update(session_data=text):
                raise UpdateError

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None and not key.startswith(PENDING):
            with write_transaction():
                ConsoleSession.objects.filter(session_key=session_digest(key)).delete()
        self.row = None

    def touch(self, at: datetime) -> None:
        """Write the time of this request, at most once in `SEEN_SECONDS`. A page must not fail for it: it raises no
        errors of the database."""
        before = at - timedelta(seconds=SEEN_SECONDS)
        if self.row is None or self.row.last_seen_at > before:
            return
        try:
            ConsoleSession.objects.filter(pk=self.row.pk, last_seen_at__lte=before).update(last_seen_at=at)
        except DatabaseError as error:
            logger.info("the time of a request was not written to its session: %s", error)

    @classmethod
    def clear_expired(cls) -> None:
        """As the periodic job `ended-sessions`."""
        ConsoleSession.objects.ended_before(now()).delete()
