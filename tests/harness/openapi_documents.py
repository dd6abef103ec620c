"""The OpenAPI documents of this process: each is built once, as building one takes a second."""

from __future__ import annotations

from functools import cache

from management.openapi.documents import Document, build_document


@cache
def built_document(name: str) -> Document:
    """Return the document, which callers must not change."""
    return build_document(name)
