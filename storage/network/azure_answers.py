"""Answers of Azure, and of what speaks like it, that its SDK reads within bounds."""

from __future__ import annotations

from typing import Any

from azure.core.pipeline.transport import RequestsTransport
from django.conf import settings

from storage.network.http_session import BoundedSession, ca_bundle


def bounded_options() -> dict[str, Any]:
    """Of a client of Azure's SDK that is closed, or kept for good: it has connections of its own.

    It follows no redirects and tries nothing again: it would wait for as long as the other side likes.
    """
    limits = settings.ICEKEEPER.storage
    bounds = {
        "connection_timeout": limits.connect_timeout,
        "read_timeout": limits.request_timeout,
        "connection_verify": ca_bundle(),
    }
    return {
        **bounds,
        "transport": RequestsTransport(session=BoundedSession(), **bounds),
        "retry_total": 0,
        "permit_redirects": False,
    }
