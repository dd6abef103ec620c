"""Django's session engine for the console: rows of `ConsoleSession`, found by the hash of the key in the cookie.

A reader of the database can therefore not take over a session. A load is one statement, which also checks the idle
timeout, the lifetime, the user and the access token. A save writes the data only; `start` creates the row.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase, UpdateError
from django.db import DatabaseError

from icekeeper.kernel.clock import now
from icekeeper.kernel.db.transactions import write_transaction
from management.models import ConsoleSession

logger = logging.getLogger("icekeeper.console")

SIGN_IN_SECONDS: Final = 600.0
"""Lifetime of a session without a user, which is long enough to sign in at an identity provider."""

SEEN_SECONDS: Final = 60.0
"""The time of the last request is written at most that often."""


def session_digest(session_key: str) -> str:
    """Return what is stored of a session key: its SHA-256 in hex. The key has 165 random bits."""
    return sha256(session_key.encode(errors="surrogatepass")).hexdigest()


class SessionStore(SessionBase):
    """`row` is the session in the database, None before it is loaded, and if there is none."""

    row: ConsoleSession | None = None

    def load(self) -> dict[str, Any]:
        found = ConsoleSession.objects.live(now()).filter(session_key=session_digest(self.session_key or "")).first()
        if found is None:
            self._session_key = None
            return {}
        self.row = found
        data: dict[str, Any] = self.decode(found.session_data)
        return data

    def find_row(self) -> ConsoleSession | None:
        """Return the session's row; no statement if the request has no session key or the row is loaded."""
        if self.row is None and self.session_key is not None:
            self._get_session()  # type: ignore[attr-defined]
        return self.row

    def exists(self, session_key: str) -> bool:
        return ConsoleSession.objects.filter(session_key=session_digest(session_key)).exists()

    def create(self) -> None:
        """Create a session without a user, for a sign-in that begins."""
        self._create(self._get_session(no_load=True), SIGN_IN_SECONDS, {})  # type: ignore[attr-defined]

    def start(self, data: dict[str, Any], **columns: Any) -> None:
        """Delete the current session and create one with a new key for a user; `columns` are those of the row."""
        self.flush()
        self._create(data, settings.ICEKEEPER.console.session_lifetime, columns)

    def _create(self, data: dict[str, Any], lifetime: float, columns: dict[str, Any]) -> None:
        self._session_key = self._get_new_session_key()  # type: ignore[attr-defined]
        self._session_cache = data
        at = now()
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
        if self.session_key is None or must_create:
            self.create()
            return
        text = self.encode(self._get_session(no_load=False))  # type: ignore[attr-defined]
        if self.session_key is None:  # it ended before this load
            raise UpdateError
        if self.row is not None and self.row.session_data == text:
            return
        with write_transaction():
            rows = ConsoleSession.objects.filter(session_key=session_digest(self.session_key))
            if not rows.update(session_data=text):
                raise UpdateError

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
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
        """Django's command `clearsessions` calls this; the periodic job `ended-sessions` does the same."""
        ConsoleSession.objects.ended_before(now()).delete()
