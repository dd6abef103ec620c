"""Optimistic locking of namespaces by their version."""

from __future__ import annotations

from catalog.errors import NamespaceChanged
from catalog.models import Namespace


def require_version(namespace: Namespace, expected: int | None) -> None:
    """Under the lock of the namespace, raise `NamespaceChanged` (409) unless it has this version; None: any."""
    if expected is not None and namespace.version != expected:
        raise NamespaceChanged(f"Namespace {namespace} was changed meanwhile")
