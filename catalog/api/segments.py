"""Segments of routes as they were sent: the views decode them."""

from __future__ import annotations

from django.urls import register_converter

NAMESPACE = "v1/<segment:prefix>/namespaces/<segment:namespace>"


class Segment:
    """One raw segment. It may be empty: Spark asks for tables of no namespace and must hear NoSuchTable."""

    regex = "[^/]*"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(Segment, "segment")
